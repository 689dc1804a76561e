#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/command.h"
#include "base/error.h"

/* In the child: never returns. 127 when the program cannot be started, as in a shell. */
static void become(const char *const *argv, const char *const *environment, int out, int errors)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR);

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(errors >= 0 ? errors : null, 2) < 0)
		_exit(127);
	for (; environment && *environment; environment++) {
		char *pair = strdup(*environment);
		char *equals = pair ? strchr(pair, '=') : NULL;

		if (!equals)
			_exit(127);
		*equals = '\0';
		setenv(pair, equals + 1, 1);
	}
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Reads what is there from one pipe; closes it at its end. False when the limit is passed. */
static bool drain(struct pollfd *entry, struct text *text, size_t limit)
{
	char buffer[4096];
	ssize_t got;

	if (!(entry->revents & (POLLIN | POLLHUP | POLLERR)))
		return true;
	got = read(entry->fd, buffer, sizeof(buffer));
	if (got > 0) {
		text_append(text, buffer, (size_t)got);
		return text->length <= limit;
	}
	if (got < 0 && errno == EINTR)
		return true;
	close(entry->fd);
	entry->fd = -1;
	return true;
}

static bool collect(struct pollfd pipes[2], struct text *out, struct text *errors, size_t limit, double end)
{
	while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
		double left = end - clock_seconds();

		if (left <= 0)
			return false;
		if (poll(pipes, 2, (int)(left * 1000) + 1) < 0 && errno != EINTR)
			return false;
		if ((pipes[0].fd >= 0 && !drain(&pipes[0], out, limit)) ||
			(pipes[1].fd >= 0 && !drain(&pipes[1], errors, limit)))
			return false;
	}
	return true;
}

/* Waits for the child until `end`; kills it then. True when it ended by itself. */
static bool reap(pid_t child, double end, int *exit_status)
{
	int status = 0;
	bool in_time = true;

	for (;;) {
		pid_t got = waitpid(child, &status, in_time ? WNOHANG : 0);

		if (got == child)
			break;
		if (got < 0 && errno != EINTR)
			return false;
		if (in_time && clock_seconds() >= end) {
			in_time = false;
			kill(child, SIGKILL);
		} else if (in_time) {
			clock_sleep(0.005);
		}
	}
	*exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return in_time;
}

int command_run(const char *const *argv, const char *const *environment, double seconds, size_t limit,
	struct text *out, struct text *errors, int *exit_status)
{
	int out_pipe[2] = {-1, -1}, error_pipe[2] = {-1, -1};
	struct pollfd pipes[2] = {{.fd = -1, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	double end = clock_seconds() + seconds;
	bool complete;
	pid_t child;

	if (pipe2(out_pipe, O_CLOEXEC) || (errors && pipe2(error_pipe, O_CLOEXEC))) {
		if (out_pipe[0] >= 0) {
			close(out_pipe[0]);
			close(out_pipe[1]);
		}
		return error_errno(STATUS_UNAVAILABLE, "%s: cannot make a pipe", argv[0]);
	}
	child = fork();
	if (child == 0)
		become(argv, environment, out_pipe[1], error_pipe[1]);
	close(out_pipe[1]);
	pipes[0].fd = out_pipe[0];
	if (errors) {
		close(error_pipe[1]);
		pipes[1].fd = error_pipe[0];
	}
	complete = child > 0 && collect(pipes, out, errors, limit, end);
	for (int i = 0; i < 2; i++)
		if (pipes[i].fd >= 0)
			close(pipes[i].fd);
	if (child < 0)
		return error_errno(STATUS_UNAVAILABLE, "%s: cannot start a process", argv[0]);
	if (!complete)
		kill(child, SIGKILL);
	if (!reap(child, end, exit_status) || !complete)
		return error_set(STATUS_UNAVAILABLE, "%s: no answer within %.0f s, or too much of it",
			argv[0], seconds);
	if (*exit_status == 127)
		return error_set(STATUS_UNAVAILABLE, "%s: cannot be started (is it in PATH?)", argv[0]);
	return text_check(out);
}
