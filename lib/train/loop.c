/*
 * The training loop. One function a phase; each returns 0 to go on, STATUS_AGAIN when the shift leaves in time, or a status.
 *
 * All ranks walk through the same phases with the same state; rank 0 alone has logs and writes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "train/loop_parts.h"

#define STOP_FILE_SECONDS 1.0 /* how often RUN/stop is looked for */

bool loop_is_first(const struct loop *loop)
{
	return loop->comm->rank == 0;
}

/* ---- what ranks tell each other ---- */

struct news loop_news(void)
{
	enum signals_notice notice = signals_notice();

	return (struct news){.notice = (int32_t)notice,
		.ago = notice == NOTICE_NONE ? 0 : clock_seconds() - signals_notice_time()};
}

void loop_hear(const struct news *news)
{
	signals_adopt((enum signals_notice)news->notice, news->ago);
}

/* ---- saving ---- */

/* Says in time that the next save will not fit. */
static void check_space(const struct loop *loop)
{
	uint64_t space, bytes = loop->saver.bytes;
	char have[32], need[32];

	if (file_free_space(loop->run->path, &space) || space >= bytes + bytes / 8)
		return;
	warn("%s: only %s are free, the next checkpoint needs %s; free some before it is due",
		loop->run->path, text_of_bytes(space, have), text_of_bytes(bytes, need));
}

/* Publishes the save under way, if there is one. */
static int finish_save(struct loop *loop, int status)
{
	if (!loop->saver.running)
		return status;
	status = saver_finish(&loop->saver, status);
	if (status)
		return status;
	leave_saved(loop->leave, loop->saver.bytes, loop->saver.seconds);
	if (loop_is_first(loop))
		check_space(loop);
	return 0;
}

static int sync_logs(struct loop *loop)
{
	return loop_is_first(loop) ? logs_sync(loop->logs, &loop->state.logs) : 0;
}

/* Whether the run stands where the checkpoint of its step says, not further within a later phase. */
static bool at_boundary(const struct loop *loop)
{
	const struct train_state *state = &loop->state, *boundary = &loop->boundary;

	return boundary->step != state->step ||
	       (state->phase == boundary->phase && state->set == 0 && state->sample == 0);
}

/* Begins to save where the run stands now: step-S, written while training goes on. Further within a later phase of that step, and
 * with `whole`, it is published before this returns, with step-S.phase where that is needed. */
static int save_here(struct loop *loop, bool whole)
{
	const struct train_state *boundary =
		loop->boundary.step == loop->state.step ? &loop->boundary : &loop->state;
	bool phase = !at_boundary(loop), new = loop->saved_step != loop->state.step;
	int status = loop_averages(loop, false);

	if (!status)
		status = sync_logs(loop);
	if (new) {
		status = finish_save(loop, status);
		status = saver_start(&loop->saver, status, boundary);
		loop->saved_step = loop->state.step;
	}
	if (whole || phase)
		status = finish_save(loop, status);
	if (!status && phase && loop_is_first(loop))
		status =
			saver_settle(&loop->saver); /* what sweeps the directory must not meet the new file */
	if (!status && phase && loop_is_first(loop))
		status = checkpoint_save_phase(loop->shift, &loop->state);
	loop->last_save = clock_seconds();
	return comm_agree(loop->comm, status, NULL, 0, NULL);
}

int loop_averages(struct loop *loop, bool wanted)
{
	if (loop->averaged == wanted)
		return 0;
	loop->averaged = wanted;
	return store_swap_averages(program_store(loop->task->program));
}

int loop_mark_boundary(struct loop *loop)
{
	int status = sync_logs(loop);

	if (status)
		return status;
	train_state_release(&loop->boundary);
	return train_state_copy(&loop->boundary, &loop->state);
}

static bool save_due(const struct loop *loop)
{
	const struct loop_plan *plan = loop->plan;

	if (loop_due(loop, plan->save_every, plan->save_epochs) && loop->saved_step != loop->state.step)
		return true;
	return plan->save_minutes > 0 && clock_seconds() - loop->last_save >= plan->save_minutes * 60;
}

/* ---- leaving ---- */

/* The user's stop file, looked for at most once a second. */
static bool stop_asked(struct loop *loop)
{
	double now = clock_seconds();

	if (now - loop->last_stop_look < STOP_FILE_SECONDS)
		return false;
	loop->last_stop_look = now;
	return run_stop_asked(loop->run);
}

/* Why the user wants the shift to end here. */
static enum user_stop user_stop(struct loop *loop)
{
	if (signals_interrupted())
		return USER_INTERRUPTED;
	return loop_is_first(loop) && stop_asked(loop) ? USER_STOPPED : USER_NONE;
}

/* Rank 0 decides; the others tell of signals and writing. */
static struct word word_here(struct loop *loop)
{
	struct word word = {.news = loop_news(),
		.written = saver_written(&loop->saver),
		.stop = (int32_t)user_stop(loop)};

	if (!loop_is_first(loop))
		return word;
	word.leave = (int32_t)leave_now(loop->leave, loop->saver.bytes);
	word.save_due = save_due(loop);
	if (word.leave != LEAVE_STAY)
		word.fits = leave_can_save(loop->leave, loop->saver.bytes);
	return word;
}

/* Ranks meet: *word is what rank 0 says, with `written` where all have written and `stop` where one was interrupted. */
static int meet(struct loop *loop, int status, struct word *word)
{
	struct word here = word_here(loop);

	status = comm_agree(loop->comm, status, &here, sizeof(here), loop->words);
	if (status)
		return status;
	*word = loop->words[0];
	for (int r = 0; r < loop->comm->size; r++) {
		loop_hear(&loop->words[r].news);
		word->written = word->written && loop->words[r].written;
		word->stop = loop->words[r].stop > word->stop ? loop->words[r].stop : word->stop;
	}
	return 0;
}

static const char *reason_of(const struct word *word)
{
	if (word->stop)
		return word->stop == USER_INTERRUPTED ? "interrupted" : "stopped";
	return word->leave == LEAVE_NOTICE ? "notice" : "time";
}

static int leave(struct loop *loop, const struct word *word)
{
	int status = 0;

	loop->reason = reason_of(word);
	if (loop->units_here == 0)
		return error_set(STATUS_AGAIN, "left at step %lld (%s) before anything was done",
			(long long)loop->state.step, loop->reason);
	status = finish_save(loop, 0);
	if (status)
		return status;
	/* Where the step is saved already, at most the phase file is to be written. */
	if (loop->saved_step != loop->state.step && !word->stop && !word->fits)
		return error_set(STATUS_AGAIN,
			"left at step %lld (%s), no time to save it; the next shift goes on from step %lld",
			(long long)loop->state.step, loop->reason,
			(long long)(loop->saved_step > 0 ? loop->saved_step : 0));
	status = save_here(loop, true);
	return status ? status
		      : error_set(STATUS_AGAIN, "left at step %lld (%s), saved; run it again to go on",
				(long long)loop->state.step, loop->reason);
}

/* Between two units: 0 to go on, STATUS_AGAIN when the shift leaves (what fits has been saved), or an error of some rank. */
static int boundary(struct loop *loop, int status)
{
	struct word word;

	status = meet(loop, status, &word);
	if (!status && loop->saver.running && word.written)
		status = finish_save(loop, 0);
	if (status)
		return status;
	if (word.leave != LEAVE_STAY || word.stop)
		return leave(loop, &word);
	return word.save_due && loop->units_here > 0 ? save_here(loop, false) : 0;
}

void loop_end_unit(struct loop *loop, double seconds)
{
	leave_unit(loop->leave, seconds);
	loop->units_here++;
}

int loop_bad_sample(const struct loop *loop, int status)
{
	if (status != STATUS_DATA || loop->plan->skip_bad)
		return status;
	return error_set(STATUS_DATA,
		"%s; repair it, or let bad samples be skipped: mkconfig %s data.skip=true", error_message(),
		loop->run->path);
}

enum train_phase loop_next_phase(const struct loop *loop, enum train_phase after)
{
	const struct loop_plan *plan = loop->plan;

	if (after < PHASE_VALIDATE && loop->task->sets &&
		loop_due(loop, plan->validate_every, plan->validate_epochs))
		return PHASE_VALIDATE;
	if (after < PHASE_PICTURES && loop->task->pictures &&
		loop_due(loop, plan->picture_every, plan->picture_epochs))
		return PHASE_PICTURES;
	return loop->state.step >= plan->steps ? PHASE_DONE : PHASE_STEP;
}

int loop_keep_weights(struct loop *loop, int status)
{
	status = finish_save(loop, status);
	if (!status)
		status = loop_averages(loop, false);
	return saver_keep_weights(&loop->saver, status, loop->state.step);
}

/* ---- the end, and the whole ---- */

static int write_done(struct loop *loop)
{
	struct run_done done = {.step = loop->state.step,
		.restart = loop->shift->identity.restart,
		.epoch = loop->state.epoch};
	int status = saver_settle(&loop->saver);

	snprintf(done.job, sizeof(done.job), "%s", loop->shift->identity.job);
	if (!status)
		status = checkpoint_digest(loop->run, loop->state.step, done.digest);
	if (!status)
		status = shift_fence(loop->shift);
	return status ? status : run_done_write(loop->run, &done);
}

static int phase_done(struct loop *loop, int status)
{
	status = finish_save(loop, comm_agree(loop->comm, status, NULL, 0, NULL));
	if (!status)
		status = save_here(loop, true);
	if (!status && loop_is_first(loop))
		status = write_done(loop);
	loop->reason = "done";
	return comm_agree(loop->comm, status, NULL, 0, NULL);
}

static int run_phases(struct loop *loop, int status)
{
	status = comm_agree(loop->comm, status, NULL, 0, NULL);
	if (status)
		return status;
	while (loop->state.phase != PHASE_DONE) {
		status = boundary(loop, status);
		if (status)
			return status;
		switch (loop->state.phase) {
		case PHASE_STEP:
			status = loop_step(loop);
			break;
		case PHASE_VALIDATE:
			status = loop_validate(loop);
			break;
		case PHASE_PICTURES:
			status = loop_pictures(loop);
			break;
		case PHASE_DONE:
			break;
		}
	}
	return phase_done(loop, status);
}

/* Which samples a step takes follows from how many there are: with others it would be another run from here on. */
static int check_data(const struct loop *loop, const struct train_state *state)
{
	int64_t now = loop->task->epoch_samples;

	if (!state->data_samples || (state->data_samples == now && state->data_sum == loop->task->data_sum))
		return 0;
	if (state->data_samples == now)
		return error_set(STATUS_DATA,
			"%s: the training data has other names than those that step %lld has seen; bring "
			"them "
			"back, or begin a new run",
			loop->run->path, (long long)state->step);
	return error_set(STATUS_DATA,
		"%s: the training data has %lld samples, and had %lld up to step %lld; bring them back, or "
		"begin "
		"a new run",
		loop->run->path, (long long)now, (long long)state->data_samples, (long long)state->step);
}

static int open_logs(struct loop *loop, const struct checkpoint *resumed)
{
	struct text columns = {0};
	int status;

	for (int k = 0; k < loop->task->sums; k++)
		text_format(&columns, "%s%s", k ? "\t" : "", loop->task->sum_names[k]);
	status = columns.failed ? text_check(&columns) : 0;
	if (!status)
		status = logs_open(loop->shift, resumed ? &loop->state.logs : NULL, loop->state.step + 1,
			columns.data ? columns.data : "", &loop->logs);
	text_release(&columns);
	return status;
}

/* The state to go on from; log lengths that the checkpoint recorded are restored on disk. */
static int start_state(struct loop *loop, const struct checkpoint *resumed)
{
	struct train_state *state = &loop->state;
	int status = 0;

	loop->saved_step = -1;
	loop->boundary.step = -1;
	if (!resumed) {
		snprintf(state->config_id, sizeof(state->config_id), "%s", config_id(loop->run->config));
		snprintf(state->init, sizeof(state->init), "%s", loop->plan->init);
	} else {
		loop->saved_step = resumed->step;
		status = train_state_copy(state, &resumed->state);
	}
	if (!status)
		status = check_data(loop, state);
	if (!status)
		status = loop_start_schedule(loop, !resumed);
	state->data_samples = loop->task->epoch_samples;
	state->data_sum = loop->task->data_sum;
	state->shift = loop->shift->number;
	if (state->phase == PHASE_DONE && state->step < loop->plan->steps)
		state->phase = PHASE_STEP;
	if (state->phase == PHASE_STEP && state->step >= loop->plan->steps)
		state->phase = PHASE_DONE;
	if (!status && loop_is_first(loop))
		status = open_logs(loop, resumed);
	if (!status && resumed && state->phase != PHASE_STEP)
		status = loop_mark_boundary(loop);
	return status;
}

static void tee(const char *text, void *context)
{
	struct loop *loop = context;

	if (loop->logs)
		logs_text(loop->logs, text);
}

/* Ends what still runs beside the loop, writes down why it ended, and closes the logs. What ended it stays the message. */
static int wind_up(struct loop *loop, int status)
{
	char *message = status ? memory_text(error_message()) : NULL;
	int settled = saver_settle(&loop->saver), closed = 0;

	if (settled && (!status || status == STATUS_AGAIN)) {
		free(message);
		message = memory_text(error_message());
		status = settled;
	}
	if (message && loop->logs)
		logs_text(loop->logs, message);
	if (!status || status == STATUS_AGAIN)
		closed = logs_close(loop->logs);
	else
		logs_discard(loop->logs);
	if (!closed && message)
		error_set(status, "%s", message);
	free(message);
	return closed ? closed : status;
}

/* Room for what ranks tell each other. */
static int make_tables(struct loop *loop)
{
	size_t ranks = (size_t)loop->comm->size;

	if (loop->task->metrics > METRICS)
		return error_set(
			STATUS_FAILURE, "%d metrics, at most %d are possible", loop->task->metrics, METRICS);
	if (loop->task->sums > LOOP_SUMS)
		return error_set(
			STATUS_FAILURE, "%d sums, at most %d are possible", loop->task->sums, LOOP_SUMS);
	loop->share_bytes = sizeof(struct share) + (size_t)(loop->task->micros / loop->comm->size) *
							   loop_results(loop) * sizeof(double);
	loop->words = memory_new(ranks, sizeof(*loop->words));
	loop->mine = memory_new(1, loop->share_bytes);
	loop->shares = memory_new(ranks, loop->share_bytes);
	loop->rounds = memory_new(ranks, loop_round_bytes());
	return loop->words && loop->mine && loop->shares && loop->rounds ? 0 : STATUS_FAILURE;
}

static int start(struct loop *loop, const struct checkpoint *resumed)
{
	const struct checkpoint_content content = {.model_stem = loop->task->model_stem,
		.optimizer_stem = "optimizer",
		.texts = loop->task->texts,
		.text_count = loop->task->text_count};
	struct program *program = loop->task->program;
	int status = make_tables(loop);

	if (!status)
		status = saver_init(&loop->saver, loop->comm, loop->shift, program_store(program), &content,
			loop->plan->keep);
	if (!status)
		status = exchange_init(&loop->exchange, loop->comm, program);
	if (!status)
		status = start_state(loop, resumed);
	return status;
}

static void release(struct loop *loop)
{
	train_state_release(&loop->state);
	train_state_release(&loop->boundary);
	saver_release(&loop->saver);
	exchange_release(&loop->exchange);
	free(loop->words);
	free(loop->mine);
	free(loop->shares);
	free(loop->rounds);
}

int loop_run(const struct run *run, const struct shift *shift, struct comm *comm,
	const struct loop_task *task, const struct loop_plan *plan, struct leave *leave,
	const struct checkpoint *resumed, int64_t *step, const char **reason)
{
	struct loop loop = {.run = run,
		.shift = shift,
		.comm = comm,
		.task = task,
		.plan = plan,
		.leave = leave,
		.reason = "error"};
	int status = start(&loop, resumed);

	error_tee(tee, &loop); /* now: the loader's threads print, too, and the log stands */
	loop.last_save = loop.last_flush = clock_seconds();
	progress_start(&loop.progress, "");
	if (!status && resumed && comm->rank == 0)
		note("shift %lld goes on from step %lld of %lld", (long long)shift->number,
			(long long)loop.state.step, (long long)plan->steps);
	status = run_phases(&loop, status);
	progress_end(&loop.progress);
	error_tee(NULL, NULL);
	*step = loop.state.step;
	*reason = loop.reason;
	if (comm->lost)
		return status;
	status = wind_up(&loop, status);
	release(&loop);
	return status;
}
