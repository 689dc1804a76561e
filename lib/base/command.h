/*
 * Other programs: run one with a time limit and take what it prints. No shell is involved.
 */
#ifndef NIGHTSHIFT_BASE_COMMAND_H
#define NIGHTSHIFT_BASE_COMMAND_H

#include "base/text.h"

/*
 * Runs argv[0] (found in PATH) with the arguments up to NULL, stdin from /dev/null, stdout appended to `out` (at most
 * `limit` bytes; more is an error), stderr dropped or, with `errors`, appended there. `environment`: extra "NAME=value" strings up to NULL, or NULL.
 * Waits at most `seconds`, then kills it. *exit_status: its exit status (128 + signal).
 * STATUS_UNAVAILABLE when it cannot be started or does not end in time; the message names it.
 * The child has default signal dispositions and an empty mask.
 */
int command_run(const char *const *argv, const char *const *environment, double seconds, size_t limit,
	struct text *out, struct text *errors, int *exit_status);

#endif
