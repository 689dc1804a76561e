/* Progress on stderr. */
#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

static const double terminal_interval = 0.1, plain_first = 5, plain_interval = 60;

void progress_start(struct progress *progress, const char *what)
{
	const char *term = getenv("TERM");
	*progress = (struct progress){.what = what, .started = clock_seconds()};
	progress->last = progress->started;
	progress->terminal = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb");
}

bool progress_due(struct progress *progress)
{
	double now = clock_seconds(), interval = plain_interval;
	if (progress->terminal)
		interval = terminal_interval;
	else if (progress->last == progress->started)
		interval = plain_first;
	if (now - progress->last < interval)
		return false;
	progress->last = now;
	return true;
}

static int terminal_columns(void)
{
	struct winsize size;
	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col : 80;
}

void progress_show(struct progress *progress, const char *format, ...)
{
	char text[512], line[640];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	snprintf(line, sizeof line, "%s%s%s", progress->what, *progress->what ? ": " : "", text);
	if (!progress->terminal) {
		note("%s", line);
		return;
	}
	/* One column short of the edge: a full line would scroll. Who shows it is known there. */
	fprintf(stderr, "\r%.*s\033[K", terminal_columns() - 1, line);
	fflush(stderr);
	error_redrawn_line(true);
}

void progress_end(struct progress *progress)
{
	if (!progress->terminal)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	error_redrawn_line(false);
}
