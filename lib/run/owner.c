/*
 * Does the owner of a run still run? SLURM knows for its jobs, /proc for processes of this host; for others nobody does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/command.h"
#include "base/error.h"
#include "base/files.h"
#include "run/claim.h"

#define SQUEUE_SECONDS 30.0
enum {
	SQUEUE_BYTES = 65536,
	SQUEUE_TRIES = 3,
	PROC_BYTES = 65536,
	STAT_STATE = 0,
	STAT_STARTED = 19,
	STAT_FIELDS = 21
};

/* A short text of /proc without its newline; "" when it cannot be read. */
static void read_short(const char *path, char *buffer, size_t size)
{
	char *data;
	size_t bytes;
	buffer[0] = 0;
	if (file_read(path, PROC_BYTES, &data, &bytes))
		return;
	data[strcspn(data, "\n")] = 0;
	snprintf(buffer, size, "%s", data);
	free(data);
}

/* State letter and start time of a process; false when there is none (or no /proc). */
static bool process_stat(int64_t pid, char *state, int64_t *started)
{
	char path[64], *field[STAT_FIELDS], *data;
	size_t bytes;
	snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
	if (file_read(path, PROC_BYTES, &data, &bytes))
		return false;
	/* The second field is the program's name in parentheses and may hold anything, parentheses and spaces too. */
	char *name_end = strrchr(data, ')');
	bool good = name_end && name_end[1] == ' ' &&
		    text_split(name_end + 2, ' ', field, STAT_FIELDS) == STAT_FIELDS &&
		    text_to_int64(field[STAT_STARTED], started);
	if (good)
		*state = field[STAT_STATE][0];
	free(data);
	return good;
}

void claim_self(const struct shift_identity *identity, struct claim *claim)
{
	char state;
	*claim = (struct claim){.identity = *identity};
	if (!process_stat(identity->pid, &state, &claim->started))
		claim->started = 0;
	read_short("/proc/sys/kernel/random/boot_id", claim->boot, sizeof claim->boot);
	ssize_t length = readlink("/proc/self/ns/pid", claim->namespace, sizeof claim->namespace - 1);
	claim->namespace[length > 0 ? length : 0] = 0;
	error_clear();
}

/* A process of this host. */
static enum owner process_state(const struct claim *claim, const struct claim *self, struct text *reason)
{
	const struct shift_identity *owner = &claim->identity;
	char state = 0;
	int64_t started = 0;
	if (strcmp(claim->boot, self->boot))
		return OWNER_GONE;
	if (strcmp(claim->namespace, self->namespace)) {
		text_format(reason, "it runs in another container of %s", owner->host);
		return OWNER_UNKNOWN;
	}
	if (kill((pid_t)owner->pid, 0) && errno == ESRCH)
		return OWNER_GONE;
	/* It answers: the same process, one that has ended and waits for its parent, or another one by the same number? */
	if (process_stat(owner->pid, &state, &started) && claim->started &&
		(started != claim->started || state == 'Z' || state == 'X'))
		return OWNER_GONE;
	return OWNER_RUNS;
}

/* Of the states that squeue names, those in which no process of the job can be alive. */
static bool state_is_over(const char *state)
{
	static const char *const over[] = {"PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
		"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "SPECIAL_EXIT",
		"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"};
	for (size_t i = 0; i < sizeof over / sizeof *over; i++)
		if (!strcmp(state, over[i]))
			return true;
	return false;
}

/* One line a job (element, component); any that is not over counts. */
static enum owner judge_states(char *answer)
{
	enum owner result = OWNER_GONE;
	for (char *line = answer, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line[strcspn(line, " \t\r")] = 0;
		if (*line && !state_is_over(line))
			result = OWNER_RUNS;
	}
	return result;
}

static enum owner ask_once(const char *job, struct text *reason)
{
	const char *const arguments[] = {"squeue", "--noheader", "--jobs", job, "--format", "%T", NULL};
	/* A user's own choice of states must not hide a running job. */
	const char *const environment[] = {"LC_ALL=C", "SQUEUE_STATES=all", NULL};
	struct text out = {0}, errors = {0};
	enum owner result = OWNER_UNKNOWN;
	int exit_status = 0;
	text_clear(reason);
	if (command_run(arguments, environment, SQUEUE_SECONDS, SQUEUE_BYTES, &out, &errors, &exit_status))
		text_add(reason, error_message());
	else if (!exit_status)
		result = judge_states(out.data ? out.data : (char[]){""});
	else if (errors.data && strstr(errors.data, "Invalid job id"))
		result = OWNER_GONE; /* ended so long ago that SLURM has forgotten it */
	else
		text_format(reason, "squeue: exit status %d: %.*s", exit_status,
			errors.data ? (int)strcspn(errors.data, "\n") : 0, errors.data ? errors.data : "");
	text_release(&out);
	text_release(&errors);
	return result;
}

/* The controller may be restarting: asked a few times. Where squeue itself is missing, once. */
static enum owner job_state(const char *job, struct text *reason)
{
	enum owner result = OWNER_UNKNOWN;
	for (int i = 0; i < SQUEUE_TRIES; i++) {
		if (i)
			clock_sleep(i == 1 ? 1 : 4);
		result = ask_once(job, reason);
		if (result != OWNER_UNKNOWN ||
			!text_starts(reason->data ? reason->data : "", "squeue: exit status"))
			break;
	}
	error_clear();
	return result;
}

enum owner owner_state(const struct claim *claim, const struct shift_identity *self, struct text *reason)
{
	const struct shift_identity *owner = &claim->identity;
	struct claim here;
	bool same_host = !strcmp(owner->host, self->host);
	bool has_job = owner->job[0] >= '0' && owner->job[0] <= '9'; /* one that squeue knows */
	bool same_life = has_job && !strcmp(owner->job, self->job) && owner->restart == self->restart;
	claim_self(self, &here);
	if (same_host) {
		enum owner state = process_state(claim, &here, reason);
		if (state == OWNER_RUNS || !has_job || same_life)
			return state;
	}
	if (has_job && !same_life)
		return job_state(owner->job, reason);
	text_clear(reason);
	text_format(reason, "it was started on %s, and from %s nobody can tell", owner->host, self->host);
	return OWNER_UNKNOWN;
}
