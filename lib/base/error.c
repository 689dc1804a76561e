/* Errors: one message a thread, printed by main() only. */
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 2048, LINE_BYTES = MESSAGE_BYTES + 256 };

static __thread struct {
	int status;
	char message[MESSAGE_BYTES];
} current;

static char program_name[64] = "nightshift";
static char rank_words[24]; /* "rank 3: ", or empty */

/* Of one line being printed: threads print, and whoever listens may go away while they do. */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static struct {
	void (*line)(const char *text, void *context);
	void *context;
} listener;

static bool redrawn_line;

void error_redrawn_line(bool stands)
{
	pthread_mutex_lock(&printing);
	redrawn_line = stands;
	pthread_mutex_unlock(&printing);
}

void error_program(const char *argument_zero)
{
	if (!argument_zero || !*argument_zero)
		return;
	const char *slash = strrchr(argument_zero, '/');
	snprintf(program_name, sizeof program_name, "%s", slash ? slash + 1 : argument_zero);
}

const char *error_program_name(void)
{
	return program_name;
}

void error_rank(int rank)
{
	rank_words[0] = 0;
	if (rank > 0)
		snprintf(rank_words, sizeof rank_words, "rank %d: ", rank);
}

/* The arguments may point into the present message, so the new one is made beside it. */
static void set_message(const char *format, va_list arguments, const char *behind)
{
	char made[MESSAGE_BYTES];
	int length = vsnprintf(made, sizeof made, format, arguments);
	if (length < 0)
		length = 0;
	if (length >= (int)sizeof made)
		length = sizeof made - 1;
	if (behind)
		snprintf(made + length, sizeof made - length, ": %s", behind);
	memcpy(current.message, made, sizeof made);
}

int error_set(int status, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	set_message(format, arguments, NULL);
	va_end(arguments);
	current.status = status;
	return status;
}

static int status_of_errno(int number)
{
	switch (number) {
	case ENOENT:
		return STATUS_NO_INPUT;
	case EACCES:
	case EPERM:
	case EROFS:
		return STATUS_PERMISSION;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return STATUS_CANNOT_CREATE;
	default:
		return STATUS_IO;
	}
}

int error_errno(int status, const char *format, ...)
{
	int number = errno;
	char reason[128];
	const char *text = strerror_r(number, reason, sizeof reason);
	va_list arguments;
	va_start(arguments, format);
	set_message(format, arguments, text);
	va_end(arguments);
	current.status = status ? status : status_of_errno(number);
	return current.status;
}

int error_prefix(const char *format, ...)
{
	char old[MESSAGE_BYTES];
	memcpy(old, current.message, sizeof old);
	va_list arguments;
	va_start(arguments, format);
	set_message(format, arguments, old);
	va_end(arguments);
	return current.status;
}

int error_status(void)
{
	return current.status;
}

const char *error_message(void)
{
	return current.message;
}

void error_clear(void)
{
	current.status = STATUS_OK;
	current.message[0] = 0;
}

/* A message can quote bytes of a bad file: none of them may move the cursor or start a line. */
static void replace_controls(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 32 || *c == 127)
			*c = '?';
}

static void print_line(const char *kind, const char *text)
{
	static const char wipe[] = "\r\033[K";
	char line[LINE_BYTES];
	char *start = line + strlen(wipe);
	size_t room = sizeof line - strlen(wipe);
	snprintf(start, room - 1, "%s: %s%s%s", program_name, rank_words, kind, text);
	replace_controls(start);
	pthread_mutex_lock(&printing);
	if (listener.line)
		listener.line(start, listener.context);
	if (redrawn_line) {
		memcpy(line, wipe, strlen(wipe));
		start = line;
		redrawn_line = false;
	}
	size_t length = strlen(start);
	start[length] = '\n';
	/* There is nobody left to tell when stderr itself fails. */
	ssize_t written = write(STDERR_FILENO, start, length + 1);
	pthread_mutex_unlock(&printing);
	(void)written;
}

int error_print(int status)
{
	print_line("", current.message[0] ? current.message : "failed without a message");
	return status;
}

static void print_formatted(const char *kind, const char *format, va_list arguments)
{
	char text[MESSAGE_BYTES];
	vsnprintf(text, sizeof text, format, arguments);
	print_line(kind, text);
}

void warn(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print_formatted("warning: ", format, arguments);
	va_end(arguments);
}

void note(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print_formatted("", format, arguments);
	va_end(arguments);
}

void error_tee(void (*line)(const char *text, void *context), void *context)
{
	pthread_mutex_lock(&printing);
	listener.line = line;
	listener.context = context;
	pthread_mutex_unlock(&printing);
}

void guard_output(void)
{
	/* The wrong way round on purpose: using the stream fails with EBADF, as if it were still closed. */
	static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[i]) < 0)
			break;
	signal(SIGXFSZ, SIG_IGN);
}

int close_stdout(int status)
{
	bool failed = ferror(stdout);
	bool pending = __fpending(stdout) > 0;
	errno = 0;
	/* Closed from the start (">&-") is what the user asked for, as long as nothing was to be written. */
	if (fclose(stdout) && (pending || errno != EBADF))
		failed = true;
	if (!failed)
		return status;
	error_set(STATUS_IO, "standard output: %s", errno ? strerror(errno) : "write error");
	error_print(STATUS_IO);
	return status ? status : STATUS_IO;
}
