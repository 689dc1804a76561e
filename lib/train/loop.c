/*
 * The training loop. One function a phase; each returns 0 to go on, LEFT when the shift leaves in time, or a status.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/text.h"
#include "file/png.h"
#include "train/loop.h"
#include "train/weights.h"

#define STOP_FILE_SECONDS 1.0 /* how often RUN/stop is looked for */
#define FLUSH_SECONDS 5.0     /* how often people see new rows */
#define SPEED_STEPS 20        /* window of the console's samples per second */

struct loop {
	const struct run *run;
	const struct shift *shift;
	const struct loop_task *task;
	const struct loop_plan *plan;
	struct leave *leave;
	struct train_state state;
	struct train_state boundary; /* the state right after the step, while a later phase of it runs */
	struct logs *logs;
	struct weights weights;
	uint64_t save_bytes;
	int64_t saved_step; /* newest step-S that this shift wrote or started from; -1: none */
	double last_save, last_flush, last_stop_look, step_started, first_started;
	double recent[SPEED_STEPS]; /* seconds of the last steps */
	double recent_data[SPEED_STEPS];
	int64_t steps_here; /* steps this shift has run */
	int64_t units_here; /* units of any kind: steps, validation samples, pictures */
	struct progress progress;
	const char *reason;
};

/* ---- saving ---- */

static struct checkpoint_content content(const struct loop *loop)
{
	return (struct checkpoint_content){
		.model_stem = loop->task->model_stem,
		.model = loop->weights.model,
		.model_count = loop->weights.model_count,
		.optimizer_stem = "optimizer",
		.optimizer = loop->weights.optimizer,
		.optimizer_count = loop->weights.optimizer_count,
		.texts = loop->task->texts,
		.text_count = loop->task->text_count,
	};
}

/* Says in time that the next save will not fit. */
static void check_space(const struct loop *loop)
{
	uint64_t space;
	char have[32], need[32];

	if (file_free_space(loop->run->path, &space) || space >= loop->save_bytes + loop->save_bytes / 8)
		return;
	warn("%s: only %s are free, the next checkpoint needs %s; free some before it is due",
		loop->run->path, text_of_bytes(space, have), text_of_bytes(loop->save_bytes, need));
}

/* Publishes step-S as `state` describes it. */
static int save(struct loop *loop, const struct train_state *state)
{
	struct checkpoint_content what = content(loop);
	double seconds;
	uint64_t bytes;
	int status = weights_fill(&loop->weights, program_store(loop->task->program));

	if (!status)
		status = checkpoint_save(loop->shift, state, &what, &seconds, &bytes);
	if (status)
		return status;
	loop->saved_step = state->step;
	loop->last_save = clock_seconds();
	leave_saved(loop->leave, bytes, seconds);
	status = checkpoint_prune(loop->shift, loop->plan->keep);
	if (!status)
		check_space(loop);
	return status;
}

/* Publishes where the run stands now: step-S, and step-S.phase when that step has gone into a later phase. */
static int save_here(struct loop *loop)
{
	const struct train_state *boundary =
		loop->boundary.step == loop->state.step ? &loop->boundary : &loop->state;
	int status = logs_sync(loop->logs, &loop->state.logs);

	if (!status && loop->saved_step != loop->state.step)
		status = save(loop, boundary);
	if (!status && boundary != &loop->state)
		status = checkpoint_save_phase(loop->shift, &loop->state);
	loop->last_save = clock_seconds();
	return status;
}

/* Remembers the state at the end of a step, for a save that comes in the middle of a later phase of it. */
static int mark_boundary(struct loop *loop)
{
	int status = logs_sync(loop->logs, &loop->state.logs);

	if (status)
		return status;
	train_state_release(&loop->boundary);
	return train_state_copy(&loop->boundary, &loop->state);
}

static bool save_due(const struct loop *loop)
{
	const struct loop_plan *plan = loop->plan;

	if (plan->save_every > 0 && loop->state.step % plan->save_every == 0 &&
		loop->saved_step != loop->state.step)
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

/* Why the user wants the shift to end here; NULL when he does not. */
static const char *user_stop(struct loop *loop)
{
	if (signals_interrupted())
		return "interrupted";
	return stop_asked(loop) ? "stopped" : NULL;
}

/* At each boundary: 0 to go on, STATUS_AGAIN when the shift leaves (what fits has been saved), or an error. */
static int boundary(struct loop *loop)
{
	enum leave_reason reason = leave_now(loop->leave, loop->save_bytes);
	const char *stop = user_stop(loop);
	bool small;
	int status = 0;

	if (reason == LEAVE_STAY && !stop)
		return save_due(loop) && loop->units_here > 0 ? save_here(loop) : 0;
	loop->reason = stop ? stop : reason == LEAVE_NOTICE ? "notice" : "time";
	small = loop->saved_step == loop->state.step; /* at most the phase file is to be written */
	if (loop->units_here == 0)
		return error_set(STATUS_AGAIN, "left at step %lld (%s) before anything was done",
			(long long)loop->state.step, loop->reason);
	if (!small && !stop && !leave_can_save(loop->leave, loop->save_bytes))
		return error_set(STATUS_AGAIN,
			"left at step %lld (%s), no time to save it; the next shift goes on from step %lld",
			(long long)loop->state.step, loop->reason, (long long)fmax(loop->saved_step, 0));
	status = save_here(loop);
	return status ? status
		      : error_set(STATUS_AGAIN, "left at step %lld (%s), saved; run it again to go on",
				(long long)loop->state.step, loop->reason);
}

static void end_unit(struct loop *loop, double seconds)
{
	leave_unit(loop->leave, seconds);
	loop->units_here++;
}

/* ---- what people see ---- */

static uint64_t resident_bytes(void)
{
	char *data = NULL, *words[3];
	size_t bytes;
	uint64_t pages = 0;

	if (!file_read("/proc/self/statm", 4096, &data, &bytes) && text_split(data, ' ', words, 3) == 3)
		text_to_uint64(words[1], &pages);
	free(data);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Mean of the last steps. */
static double recent_mean(const struct loop *loop, const double *values)
{
	int64_t count = loop->steps_here < SPEED_STEPS ? loop->steps_here : SPEED_STEPS;
	double sum = 0;

	for (int64_t i = 0; i < count; i++)
		sum += values[i];
	return count ? sum / (double)count : 0;
}

static void show_step(struct loop *loop, double loss, double rate)
{
	double seconds = recent_mean(loop, loop->recent), data = recent_mean(loop, loop->recent_data);
	char left[32];

	if (!progress_due(&loop->progress) || seconds <= 0)
		return;
	progress_show(&loop->progress,
		"step %lld/%lld  %s left  loss %.4f  lr %.3g  %.1f samples/s  data %.0f%%",
		(long long)loop->state.step, (long long)loop->plan->steps,
		text_of_seconds(seconds * (double)(loop->plan->steps - loop->state.step), left), loss, rate,
		(double)loop->task->batch / seconds, 100 * data / seconds);
}

static int add_fields(struct text *row, const double *values, int count)
{
	for (int i = 0; i < count; i++) {
		text_add(row, "\t");
		text_number(row, values[i]);
	}
	return text_check(row);
}

/* ---- phase: step ---- */

static int not_finite(struct loop *loop, int64_t micro, const char *what)
{
	char *names = loop->task->samples(loop->task->state, loop->state.step, micro);
	struct text message = {0};

	loop->reason = "not finite";
	text_format(&message, "step %lld: %s (samples of the batch: %s); nothing was saved",
		(long long)loop->state.step + 1, what, names ? names : "unknown");
	error_set(STATUS_FENCED, "%s", message.data ? message.data : "not finite");
	text_release(&message);
	free(names);
	return STATUS_FENCED;
}

/* Says what can be done about a sample that cannot be used; returns `status`. */
static int bad_sample(const struct loop *loop, int status)
{
	if (status != STATUS_DATA || loop->plan->skip_bad)
		return status;
	return error_set(STATUS_DATA,
		"%s; repair it, or let bad samples be skipped: mkconfig %s data.skip=true", error_message(),
		loop->run->path);
}

/* All micro-batches of one step; the loss is their mean, added in order. */
static int run_micros(struct loop *loop, double *loss, struct loop_micro *total)
{
	int64_t micros = loop->task->micros;
	double sum = 0;

	for (int64_t micro = 0; micro < micros; micro++) {
		struct loop_micro result = {0};
		int status = loop->task->micro(loop->task->state, loop->state.step, micro, &result);

		if (status == STATUS_FENCED) /* the engine met a loss that is not finite, and says where */
			return not_finite(loop, micro, error_message());
		if (status)
			return bad_sample(loop, status);
		if (!isfinite(result.loss))
			return not_finite(loop, micro, "the loss is not finite");
		sum += result.loss;
		total->data_seconds += result.data_seconds;
		total->skipped += result.skipped;
		if ((status = program_collect(loop->task->program, micro, micros)))
			return status;
	}
	*loss = sum / (double)micros;
	return 0;
}

static int log_step(
	struct loop *loop, double loss, double norm, double rate, double seconds, double data_seconds)
{
	struct train_state *state = &loop->state;
	struct text row = {0};
	int status;

	text_format(&row, "%lld\t%lld\t%lld", (long long)state->step, (long long)state->epoch,
		(long long)state->samples);
	status = add_fields(&row, (double[]){loss, norm, rate}, 3);
	if (!status)
		status = logs_row(loop->logs, LOG_STEP, row.data);
	text_clear(&row);
	text_format(&row, "%lld\t%lld\t%.3f\t%.6f\t%.6f\t%.2f\t%llu", (long long)state->step,
		(long long)loop->shift->number, clock_wall(), seconds, data_seconds,
		(double)loop->task->batch / fmax(seconds, 1e-9), (unsigned long long)resident_bytes());
	if (!status && !(status = text_check(&row)))
		status = logs_row(loop->logs, LOG_TIME, row.data);
	text_release(&row);
	if (!status)
		status = logs_scalar(loop->logs, state->step, "train/loss", loss);
	if (!status)
		status = logs_scalar(loop->logs, state->step, "train/grad_norm", norm);
	if (!status)
		status = logs_scalar(loop->logs, state->step, "train/lr", rate);
	return status;
}

/* Closes an epoch when the samples seen have filled it. */
static int count_epoch(struct loop *loop, double rate)
{
	struct train_state *state = &loop->state;
	int64_t epoch = state->samples / loop->task->epoch_samples;
	struct text row = {0};
	int status;

	if (epoch == state->epoch)
		return 0;
	text_format(&row, "%lld\t%lld\t%lld", (long long)epoch, (long long)state->step,
		(long long)state->samples);
	status = add_fields(&row, (double[]){state->epoch_loss / (double)state->epoch_steps, rate}, 2);
	if (!status)
		status = logs_row(loop->logs, LOG_EPOCH, row.data);
	text_release(&row);
	if (state->epoch_skipped)
		warn("epoch %lld: %lld bad samples were replaced by others", (long long)epoch,
			(long long)state->epoch_skipped);
	state->epoch = epoch;
	state->epoch_loss = 0;
	state->epoch_steps = state->epoch_samples = state->epoch_skipped = 0;
	return status;
}

/* What follows this step. */
static enum train_phase next_phase(const struct loop *loop, enum train_phase after)
{
	const struct loop_plan *plan = loop->plan;
	int64_t step = loop->state.step;

	if (after < PHASE_VALIDATE && plan->validate_every > 0 && step % plan->validate_every == 0 &&
		loop->task->sets)
		return PHASE_VALIDATE;
	if (after < PHASE_PICTURES && plan->picture_every > 0 && step % plan->picture_every == 0 &&
		loop->task->pictures)
		return PHASE_PICTURES;
	return step >= plan->steps ? PHASE_DONE : PHASE_STEP;
}

static int keep_weights(struct loop *loop)
{
	struct checkpoint_content what = content(loop);
	int status = weights_fill(&loop->weights, program_store(loop->task->program));

	what.optimizer = NULL;
	what.optimizer_count = 0;
	return status ? status : checkpoint_save_weights(loop->shift, loop->state.step, &what);
}

static int finish_step(struct loop *loop)
{
	struct train_state *state = &loop->state;
	double now = clock_seconds();
	int status = 0;

	state->phase = next_phase(loop, PHASE_STEP);
	state->set = state->sample = 0;
	if (loop->plan->keep_every > 0 && state->step % loop->plan->keep_every == 0)
		status = keep_weights(loop);
	if (!status && state->phase != PHASE_STEP)
		status = mark_boundary(loop);
	if (!status && now - loop->last_flush > FLUSH_SECONDS) {
		loop->last_flush = now;
		status = logs_flush(loop->logs);
	}
	return status;
}

static int phase_step(struct loop *loop)
{
	struct train_state *state = &loop->state;
	struct program *program = loop->task->program;
	struct loop_micro total = {0};
	struct step_scalars scalars;
	double start = clock_seconds(), loss = 0, norm = 0, rate, seconds;
	int status = run_micros(loop, &loss, &total);

	if (!status)
		status = program_gradient_norm(program, &norm);
	if (!status && !isfinite(norm)) {
		const char *name = program_not_finite(program);
		struct text what = {0};

		text_format(&what, "the gradient of %s is not finite", name ? name : "the whole network");
		status = not_finite(
			loop, loop->task->micros - 1, what.data ? what.data : "a gradient is not finite");
		text_release(&what);
		return status;
	}
	rate = loop->task->learning_rate * schedule_factor(&loop->task->schedule, state->step);
	scalars = (struct step_scalars){.learning_rate = rate, .step = state->step + 1};
	if (!status)
		status = program_update(program, &scalars);
	if (status)
		return status;
	seconds = clock_seconds() - start;
	end_unit(loop, seconds);
	loop->recent[loop->steps_here % SPEED_STEPS] = seconds;
	loop->recent_data[loop->steps_here % SPEED_STEPS] = total.data_seconds;
	loop->steps_here++;
	state->step++;
	state->samples += loop->task->batch;
	state->epoch_loss += loss;
	state->epoch_steps++;
	state->epoch_samples += loop->task->batch;
	state->epoch_skipped += total.skipped;
	status = log_step(loop, loss, norm, rate, seconds, total.data_seconds);
	if (!status)
		status = count_epoch(loop, rate);
	if (status)
		return status;
	show_step(loop, loss, rate);
	return finish_step(loop);
}

/* ---- phase: validate ---- */

/* sums: for each metric its sum, its count and its number of nan. */
static int start_set(struct loop *loop)
{
	struct train_state *state = &loop->state;

	free(state->sums);
	state->sample = 0;
	state->sums_count = (size_t)loop->task->metrics * 3;
	state->sums = memory_new(state->sums_count, sizeof(*state->sums));
	return state->sums ? 0 : STATUS_FAILURE;
}

static int add_sample(struct loop *loop)
{
	struct train_state *state = &loop->state;
	double metrics[64];
	double start = clock_seconds();
	int status = loop->task->validate(loop->task->state, (size_t)state->set, state->sample, metrics);

	if (status == STATUS_DATA && loop->plan->skip_bad) {
		warn("%s; skipped", error_message());
		for (int m = 0; m < loop->task->metrics; m++)
			metrics[m] = NAN;
	} else if (status) {
		return bad_sample(loop, status);
	}
	for (int m = 0; m < loop->task->metrics; m++) {
		if (isnan(metrics[m])) {
			state->sums[3 * m + 2] += 1;
			continue;
		}
		state->sums[3 * m] += metrics[m];
		state->sums[3 * m + 1] += 1;
	}
	end_unit(loop, clock_seconds() - start);
	state->sample++;
	return 0;
}

/* The first set's main metric decides which weights are the best. */
static int consider_best(struct loop *loop, const char *metric, double value)
{
	struct train_state *state = &loop->state;
	bool first = !state->best_metric[0];
	bool better = loop->plan->best_is_smaller ? value < state->best_value : value > state->best_value;
	int status;

	if (!loop->plan->best || strcmp(metric, loop->plan->best_metric) || isnan(value) ||
		(!first && !better))
		return 0;
	snprintf(state->best_metric, sizeof(state->best_metric), "%s", metric);
	state->best_value = value;
	state->best_step = state->step;
	status = keep_weights(loop);
	return status ? status : checkpoint_best_write(loop->shift, state->step, metric, value);
}

static int finish_set(struct loop *loop)
{
	struct train_state *state = &loop->state;
	const char *set = loop->task->set_name(loop->task->state, (size_t)state->set);
	struct text row = {0}, tag = {0};
	int status = 0;

	for (int m = 0; m < loop->task->metrics && !status; m++) {
		const char *metric = loop->task->metric_names[m];
		const double *sums = &state->sums[3 * m];
		double value = sums[1] > 0 ? sums[0] / sums[1] : NAN;

		text_clear(&row);
		text_clear(&tag);
		text_format(&row, "%lld\t%s\t%s\t", (long long)state->step, set, metric);
		text_number(&row, value);
		text_format(&row, "\t%.0f\t%.0f", sums[1], sums[2]);
		text_format(&tag, "val/%s/%s", set, metric);
		status = text_check(&row) || text_check(&tag) ? STATUS_FAILURE : 0;
		if (!status)
			status = logs_row(loop->logs, LOG_VAL, row.data);
		if (!status && !isnan(value))
			status = logs_scalar(loop->logs, state->step, tag.data, value);
		if (!status && state->set == 0)
			status = consider_best(loop, metric, value);
		if (!status && m == 0)
			note("step %lld: %s %s %.4f (%.0f samples)", (long long)state->step, set, metric,
				value, sums[1]);
	}
	text_release(&row);
	text_release(&tag);
	state->set++;
	state->sample = 0;
	free(state->sums);
	state->sums = NULL;
	state->sums_count = 0;
	return status;
}

static int phase_validate(struct loop *loop)
{
	struct train_state *state = &loop->state;
	int status = 0;

	if ((size_t)state->set >= loop->task->sets) {
		state->set = state->sample = 0;
		state->phase = next_phase(loop, PHASE_VALIDATE);
		return 0;
	}
	if (state->sample == 0 || state->sums_count != (size_t)loop->task->metrics * 3)
		status = start_set(loop);
	if (status)
		return status;
	if (state->sample < loop->task->set_samples(loop->task->state, (size_t)state->set)) {
		status = add_sample(loop);
		if (!status && progress_due(&loop->progress))
			progress_show(&loop->progress, "step %lld: validating %s, sample %lld",
				(long long)state->step,
				loop->task->set_name(loop->task->state, (size_t)state->set),
				(long long)state->sample);
		return status;
	}
	return finish_set(loop);
}

/* ---- phase: pictures ---- */

static int write_picture(struct loop *loop, const struct image *image, const char *name)
{
	char *directory = run_path(loop->run, "pictures/step-%08lld", (long long)loop->state.step);
	struct text png = {0}, path = {0}, tag = {0};
	int status = directory ? 0 : STATUS_FAILURE;

	if (!status)
		status = file_make_directories(directory);
	if (!status)
		status = png_encode(image, &png);
	text_format(&path, "%s/%s.png", directory ? directory : "", name);
	text_format(&tag, "pictures/%s", name);
	if (!status && !(status = text_check(&path)) && !(status = text_check(&tag)))
		status = shift_fence(loop->shift);
	/* Pictures are compared as whole directories: no rest of a killed shift may stay. */
	if (!status)
		status = shift_sweep(loop->shift, directory + strlen(loop->run->path) + 1);
	if (!status)
		status = file_publish(path.data, png.data, png.length);
	if (!status)
		status = logs_image(loop->logs, loop->state.step, tag.data, image->width, image->height,
			png.data, png.length);
	text_release(&png);
	text_release(&path);
	text_release(&tag);
	free(directory);
	return status;
}

static int phase_pictures(struct loop *loop)
{
	struct train_state *state = &loop->state;
	struct image image = {0};
	char name[128];
	double start = clock_seconds();
	int status;

	if (state->sample >= loop->task->pictures) {
		state->sample = 0;
		state->phase = next_phase(loop, PHASE_PICTURES);
		return 0;
	}
	status = loop->task->picture(loop->task->state, state->sample, &image, name);
	if (!status)
		status = write_picture(loop, &image, name);
	else if (status == STATUS_DATA && loop->plan->skip_bad) {
		warn("%s; skipped", error_message());
		status = 0;
	} else {
		status = bad_sample(loop, status);
	}
	image_release(&image);
	end_unit(loop, clock_seconds() - start);
	state->sample++;
	return status;
}

/* ---- the end, and the whole ---- */

static int phase_done(struct loop *loop)
{
	struct run_done done = {.step = loop->state.step, .restart = loop->shift->identity.restart};
	int status = save_here(loop);

	snprintf(done.job, sizeof(done.job), "%s", loop->shift->identity.job);
	if (!status)
		status = checkpoint_digest(loop->run, loop->state.step, done.digest);
	if (!status)
		status = shift_fence(loop->shift);
	if (!status)
		status = run_done_write(loop->run, &done);
	loop->reason = "done";
	return status;
}

static int run_phases(struct loop *loop)
{
	int status = 0;

	while (!status) {
		if (loop->state.phase != PHASE_DONE)
			status = boundary(loop);
		if (status)
			break;
		switch (loop->state.phase) {
		case PHASE_STEP:
			status = phase_step(loop);
			break;
		case PHASE_VALIDATE:
			status = phase_validate(loop);
			break;
		case PHASE_PICTURES:
			status = phase_pictures(loop);
			break;
		case PHASE_DONE:
			return phase_done(loop);
		}
	}
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
	} else {
		loop->saved_step = resumed->step;
		status = train_state_copy(state, &resumed->state);
	}
	state->shift = loop->shift->number;
	if (state->phase == PHASE_DONE && state->step < loop->plan->steps)
		state->phase = PHASE_STEP;
	if (state->phase == PHASE_STEP && state->step >= loop->plan->steps)
		state->phase = PHASE_DONE;
	if (!status)
		status = logs_open(loop->shift, resumed ? &state->logs : NULL, state->step + 1, &loop->logs);
	if (!status && resumed && state->phase != PHASE_STEP)
		status = mark_boundary(loop);
	return status;
}

static void tee(const char *text, void *context)
{
	struct loop *loop = context;

	if (loop->logs)
		logs_text(loop->logs, text);
}

int loop_run(const struct run *run, const struct shift *shift, const struct loop_task *task,
	const struct loop_plan *plan, struct leave *leave, const struct checkpoint *resumed, int64_t *step,
	const char **reason)
{
	struct loop loop = {
		.run = run, .shift = shift, .task = task, .plan = plan, .leave = leave, .reason = "error"};
	struct checkpoint_content what;
	int status = weights_init(&loop.weights, program_store(task->program)), closed;

	error_tee(tee, &loop);
	if (!status)
		status = start_state(&loop, resumed);
	what = content(&loop);
	if (!status)
		status = checkpoint_bytes(&what, &loop.save_bytes);
	loop.last_save = loop.last_flush = clock_seconds();
	progress_start(&loop.progress, "");
	if (!status)
		note("shift %lld goes on from step %lld of %lld", (long long)shift->number,
			(long long)loop.state.step, (long long)plan->steps);
	if (!status)
		status = run_phases(&loop);
	progress_end(&loop.progress);
	error_tee(NULL, NULL);
	*step = loop.state.step;
	*reason = loop.reason;
	closed = status == 0 || status == STATUS_AGAIN ? logs_close(loop.logs) : (logs_discard(loop.logs), 0);
	train_state_release(&loop.state);
	train_state_release(&loop.boundary);
	weights_release(&loop.weights);
	return closed ? closed : status;
}
