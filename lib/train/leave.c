#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/command.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "train/leave.h"

#define ASK_EVERY 600.0
#define ASK_SECONDS 30.0
#define ASK_SECONDS_TERM 5.0 /* after TERM the answer has to come while it is of use */
#define MARGIN 10.0
#define KILL_WAIT 25.0 /* SLURM's default of 30 s less 5 */
#define PROBE_BYTES ((size_t)4 << 20)

/* The allocation's end as epoch seconds, in terms of this process's clock. */
static int ask_end(const char *job, double patience, double *end)
{
	const char *argv[] = {"squeue", "-h", "-j", job, "-o", "%e", NULL};
	const char *environment[] = {"SLURM_TIME_FORMAT=%s", NULL};
	struct text out = {0};
	int64_t wall;
	int exit_status, status;

	status = command_run(argv, environment, patience, 4096, &out, NULL, &exit_status);
	if (!status && exit_status)
		status = error_set(STATUS_UNAVAILABLE, "squeue does not know job %s", job);
	if (!status) {
		char *line = out.data ? out.data : (char[]){""};

		line[strcspn(line, "\n")] = '\0';
		if (!text_to_int64(line, &wall))
			status = error_set(
				STATUS_UNAVAILABLE, "squeue gives \"%s\" as the end of job %s", line, job);
		else
			*end = clock_seconds() + ((double)wall - clock_wall());
	}
	text_release(&out);
	return status;
}

/* "KillWait                = 30 sec" among what scontrol shows. */
static double kill_wait_of(char *shown)
{
	char *line = strstr(shown, "\nKillWait"), *value = line ? strchr(line, '=') : NULL;
	double seconds;

	if (!value)
		return KILL_WAIT;
	value += 1 + strspn(value + 1, " ");
	value[strcspn(value, " \n")] = '\0';
	if (!text_to_double(value, &seconds) || seconds <= 0)
		return KILL_WAIT;
	return seconds > 10 ? seconds - 5 : seconds / 2;
}

static double ask_kill_wait(void)
{
	const char *argv[] = {"scontrol", "show", "config", NULL};
	struct text out = {0};
	double seconds = KILL_WAIT;
	int exit_status;

	if (!command_run(argv, NULL, ASK_SECONDS, 1 << 20, &out, NULL, &exit_status) && !exit_status &&
		out.data)
		seconds = kill_wait_of(out.data);
	text_release(&out);
	return seconds;
}

static bool has_job(const struct leave *leave)
{
	return leave->options.job && strcmp(leave->options.job, "-");
}

static void ask(struct leave *leave)
{
	double end;

	leave->asked = clock_seconds();
	if (!has_job(leave))
		return;
	if (!ask_end(leave->options.job, ASK_SECONDS, &end)) {
		leave->slurm_end = end;
		return;
	}
	if (!leave->warned)
		warn("%s; the end of this job is unknown, the signal alone rules", error_message());
	leave->warned = true;
}

static void combine(struct leave *leave)
{
	leave->end = leave->slurm_end;
	if (leave->options.exit_after >= 0)
		leave->end = fmin(leave->end, leave->options.exit_after);
	if (leave->options.until > 0)
		leave->end = fmin(leave->end, clock_seconds() + leave->options.until - clock_wall());
}

void leave_init(struct leave *leave, const struct leave_options *options)
{
	memset(leave, 0, sizeof(*leave));
	leave->options = *options;
	leave->slurm_end = INFINITY;
	leave->kill_wait = has_job(leave) ? ask_kill_wait() : KILL_WAIT;
	ask(leave);
	combine(leave);
}

int leave_probe(struct leave *leave, const char *directory)
{
	struct publish file = {0};
	char *path = path_join(directory, "probe"), *zeros = memory_new(PROBE_BYTES, 1);
	double start = clock_seconds();
	int status = path && zeros ? 0 : error_status();

	if (!status)
		status = publish_open(&file, path);
	if (!status)
		status = publish_write(&file, zeros, PROBE_BYTES);
	if (!status && fsync(file.descriptor))
		status = error_errno(0, "%s", path);
	publish_abandon(&file);
	if (!status)
		leave->probe = PROBE_BYTES / fmax(clock_seconds() - start, 1e-6);
	free(zeros);
	free(path);
	return status;
}

void leave_unit(struct leave *leave, double seconds)
{
	leave->unit[leave->units++ % LEAVE_RECENT] = seconds;
}

void leave_saved(struct leave *leave, uint64_t bytes, double seconds)
{
	leave->rate[leave->rates++ % LEAVE_RATES] = (double)bytes / fmax(seconds, 1e-6);
}

double leave_save_estimate(const struct leave *leave, uint64_t bytes)
{
	double slowest = leave->rates ? INFINITY : leave->probe;

	for (int i = 0; i < leave->rates && i < LEAVE_RATES; i++)
		slowest = fmin(slowest, leave->rate[i]);
	return slowest > 0 ? (double)bytes / slowest : 0;
}

static double slowest_unit(const struct leave *leave)
{
	double slowest = 0;

	for (int i = 0; i < leave->units && i < LEAVE_RECENT; i++)
		slowest = fmax(slowest, leave->unit[i]);
	return slowest;
}

double leave_notice_needed(double unit_seconds, double save_seconds)
{
	return 2 * (unit_seconds + save_seconds) + MARGIN;
}

enum leave_reason leave_now(struct leave *leave, uint64_t save_bytes)
{
	if (signals_notice() != NOTICE_NONE)
		return LEAVE_NOTICE;
	if (has_job(leave) && clock_seconds() - leave->asked > ASK_EVERY) {
		ask(leave);
		combine(leave);
	}
	if (leave_left(leave) <
		leave_notice_needed(slowest_unit(leave), leave_save_estimate(leave, save_bytes)))
		return LEAVE_CLOCK;
	return LEAVE_STAY;
}

static double since_notice(void)
{
	return clock_seconds() - signals_notice_time();
}

/* After TERM: KillWait, or the time to SLURM's end where that has moved since it was last asked (a preemption with grace
 * moves it); after USR2: the known end, or the notice that the script promised. */
static double seconds_to_act(const struct leave *leave)
{
	double end;

	switch (signals_notice()) {
	case NOTICE_TERM:
		if (has_job(leave) &&
			!ask_end(leave->options.job, fmin(ASK_SECONDS_TERM, leave->kill_wait / 4), &end) &&
			fabs(end - leave->slurm_end) > 2 && end > clock_seconds())
			return end - clock_seconds();
		return leave->kill_wait - since_notice();
	case NOTICE_USR2:
		return isinf(leave->end) ? leave->options.notice - since_notice() : leave_left(leave);
	default:
		return leave_left(leave);
	}
}

bool leave_can_save(const struct leave *leave, uint64_t save_bytes)
{
	return 1.5 * leave_save_estimate(leave, save_bytes) <= seconds_to_act(leave);
}

double leave_left(const struct leave *leave)
{
	return leave->end - clock_seconds();
}
