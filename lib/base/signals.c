/* Signals that end a shift: the handler only sets flags. */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Microseconds on clock_seconds() of the first arrival, plus one; 0: not seen. */
static _Atomic int64_t seen_usr2, seen_term;
static atomic_bool seen_interrupt;

static void handle(int number)
{
	int64_t none = 0, now = (int64_t)(clock_seconds() * 1e6) + 1;
	atomic_compare_exchange_strong(number == SIGTERM ? &seen_term : &seen_usr2, &none, now);
}

static void fill_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGUSR2);
	sigaddset(set, SIGTERM);
}

void signals_block(void)
{
	sigset_t set;
	fill_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int signals_install(void)
{
	sigset_t set;
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	fill_set(&set);
	action.sa_mask = set;
	if (sigaction(SIGUSR2, &action, NULL) || sigaction(SIGTERM, &action, NULL) ||
		sigaction(SIGCONT, &ignore, NULL) || pthread_sigmask(SIG_UNBLOCK, &set, NULL))
		return error_errno(STATUS_FAILURE, "signal handlers");
	return STATUS_OK;
}

/* Whoever presses the keys waits for a word, and the end of a step can be a minute away. */
static void handle_interrupt(int number)
{
	static const char text[] = "\ninterrupted: saving, then stopping; once more stops at once\n";
	int kept = errno; /* of what was interrupted */
	seen_interrupt = true;
	(void)number;
	ssize_t written = write(STDERR_FILENO, text, strlen(text));
	(void)written;
	errno = kept;
}

int signals_catch_interrupt(void)
{
	struct sigaction before,
		action = {.sa_handler = handle_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};
	if (sigaction(SIGINT, NULL, &before))
		return error_errno(STATUS_FAILURE, "signal handlers");
	if (before.sa_handler == SIG_IGN)
		return STATUS_OK;
	return sigaction(SIGINT, &action, NULL) ? error_errno(STATUS_FAILURE, "signal handlers") : STATUS_OK;
}

bool signals_interrupted(void)
{
	return seen_interrupt;
}

void signals_ignore_pipe(void)
{
	signal(SIGPIPE, SIG_IGN);
}

enum signals_notice signals_notice(void)
{
	return seen_term ? NOTICE_TERM : seen_usr2 ? NOTICE_USR2 : NOTICE_NONE;
}

void signals_adopt(enum signals_notice notice, double ago)
{
	int64_t none = 0, then = (int64_t)((clock_seconds() - ago) * 1e6) + 1;
	if (notice > signals_notice())
		atomic_compare_exchange_strong(
			notice == NOTICE_TERM ? &seen_term : &seen_usr2, &none, then > 0 ? then : 1);
}

double signals_notice_time(void)
{
	int64_t seen = seen_term ? seen_term : seen_usr2;
	return (double)(seen - 1) * 1e-6;
}
