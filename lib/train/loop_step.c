/* The training loop: a step, and what people see of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "train/epoch.h"
#include "train/loop_parts.h"

#define FLUSH_SECONDS 5.0 /* how often people see new rows */

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

/* What operations and updates of this step read. */
static struct step_scalars step_scalars(const struct loop *loop, int64_t micro)
{
	return (struct step_scalars){.learning_rate = loop_rate(loop),
		.step = loop->state.step + 1,
		.seed = loop->task->seed,
		.micro = micro};
}

size_t loop_results(const struct loop *loop)
{
	return 1 + (size_t)loop->task->sums;
}

/* This rank's micro-batches of one step, their gradients added up over all ranks. */
static int run_micros(struct loop *loop, struct share *share)
{
	int64_t micros = loop->task->micros / loop->comm->size, first = loop->comm->rank * micros;
	int status = 0;

	for (int64_t i = 0; i < micros && !status; i++) {
		struct loop_micro result = {0};
		struct step_scalars scalars = step_scalars(loop, first + i);

		program_set_scalars(loop->task->program, &scalars);
		program_begin(loop->task->program, i, micros);
		status = loop->task->micro(loop->task->state, loop->state.step, first + i, &result);
		share->not_finite = status == STATUS_FENCED || (!status && !isfinite(result.loss));
		if (share->not_finite) /* where the engine met it, it says where */
			return not_finite(
				loop, first + i, status ? error_message() : "the loss is not finite");
		if (status)
			return loop_bad_sample(loop, status);
		share->result[(size_t)i * loop_results(loop)] = result.loss;
		memcpy(share->result + (size_t)i * loop_results(loop) + 1, result.sum,
			(size_t)loop->task->sums * sizeof(double));
		share->data_seconds += result.data_seconds;
		share->skipped += result.skipped;
		status = program_collect(loop->task->program, i, micros);
	}
	return status;
}

static void add_share(const struct loop *loop, const struct share *share, struct loop_micro *total)
{
	size_t results = loop_results(loop);
	const double *result = share->result;

	for (int64_t i = 0; i < loop->task->micros / loop->comm->size; i++, result += results) {
		total->loss += result[0];
		for (size_t k = 1; k < results; k++)
			total->sum[k - 1] += result[k];
	}
	total->data_seconds = fmax(total->data_seconds, share->data_seconds);
	total->skipped += share->skipped;
}

/* All micro-batches of one step; *total: the mean of their losses and their sums, added in order. */
static int run_all_micros(struct loop *loop, int status, struct loop_micro *total)
{
	int others;

	memset(loop->mine, 0, loop->share_bytes);
	exchange_begin(&loop->exchange);
	if (!status)
		status = run_micros(loop, loop->mine);
	status = exchange_settle(&loop->exchange, status);
	others = exchange_finish(&loop->exchange);
	loop->mine->news = loop_news();
	status =
		comm_agree(loop->comm, status ? status : others, loop->mine, loop->share_bytes, loop->shares);
	for (int r = 0; r < loop->comm->size && !loop->comm->lost; r++) {
		const struct share *share =
			(const struct share *)(loop->shares + (size_t)r * loop->share_bytes);

		loop_hear(&share->news);
		if (share->not_finite)
			loop->reason = "not finite";
		add_share(loop, share, total);
	}
	total->loss /= (double)loop->task->micros;
	return status;
}

/* What a step was like. */
struct step {
	struct loop_micro total; /* of its micro-batches; the loss is their mean */
	int64_t samples;
	double norm, rate, seconds;
};

static int log_time(struct loop *loop, const struct step *step)
{
	struct text row = {0};
	int status;

	text_format(&row, "%lld\t%lld\t%.3f\t%.6f\t%.6f\t%.2f\t%llu\t%.6f\t%zu", (long long)loop->state.step,
		(long long)loop->shift->number, clock_wall(), step->seconds, step->total.data_seconds,
		(double)step->samples / fmax(step->seconds, 1e-9), (unsigned long long)resident_bytes(),
		loop->exchange.waited, loop->exchange.early);
	status = text_check(&row);
	if (!status)
		status = logs_row(loop->logs, LOG_TIME, row.data);
	text_release(&row);
	return status;
}

static int log_scalar(struct loop *loop, const char *name, double value)
{
	struct text tag = {0};
	int status;

	text_format(&tag, "train/%s", name);
	status = text_check(&tag);
	if (!status)
		status = logs_scalar(loop->logs, loop->state.step, tag.data, value);
	text_release(&tag);
	return status;
}

static int log_step(struct loop *loop, const struct step *step)
{
	const char *const names[] = {"loss", "grad_norm", "lr"};
	const double values[] = {step->total.loss, step->norm, step->rate};
	const struct train_state *state = &loop->state;
	double mean[LOOP_SUMS];
	struct text row = {0};
	int status;

	for (int k = 0; k < loop->task->sums; k++)
		mean[k] = step->total.sum[k] / (double)step->samples;
	text_format(&row, "%lld\t%lld\t%lld", (long long)state->step, (long long)state->epoch,
		(long long)state->samples);
	status = loop_add_fields(&row, values, 3);
	if (!status)
		status = loop_add_fields(&row, mean, loop->task->sums);
	if (!status)
		status = logs_row(loop->logs, LOG_STEP, row.data);
	text_release(&row);
	if (!status)
		status = log_time(loop, step);
	for (int i = 0; i < 3 && !status; i++)
		status = log_scalar(loop, names[i], values[i]);
	for (int k = 0; k < loop->task->sums && !status; k++)
		status = log_scalar(loop, loop->task->sum_names[k], mean[k]);
	return status;
}

static int finish_step(struct loop *loop, int status)
{
	struct train_state *state = &loop->state;
	double now = clock_seconds();

	state->phase = loop_next_phase(loop, PHASE_STEP);
	state->set = state->sample = 0;
	if (loop_due(loop, loop->plan->keep_every, loop->plan->keep_epochs))
		status = loop_keep_weights(loop, status);
	if (!status && state->phase != PHASE_STEP)
		status = loop_mark_boundary(loop);
	if (!status && loop_is_first(loop) && now - loop->last_flush > FLUSH_SECONDS) {
		loop->last_flush = now;
		status = logs_flush(loop->logs);
	}
	return status;
}

/* The gradient that all ranks have is not finite. */
static int bad_gradient(struct loop *loop)
{
	const char *name = program_not_finite(loop->task->program);
	struct text what = {0};
	int status;

	text_format(&what, "the gradient of %s is not finite", name ? name : "the whole network");
	status = not_finite(loop, loop->task->micros - 1, what.data ? what.data : "a gradient is not finite");
	text_release(&what);
	return status;
}

static void count_step(struct loop *loop, const struct step *step)
{
	struct train_state *state = &loop->state;

	loop_end_unit(loop, step->seconds);
	loop->recent[loop->steps_here % SPEED_STEPS] = step->seconds;
	loop->recent_data[loop->steps_here % SPEED_STEPS] = step->total.data_seconds;
	loop->steps_here++;
	state->step++;
	state->samples += step->samples;
	state->epoch_skipped += step->total.skipped;
}

int loop_step(struct loop *loop)
{
	struct program *program = loop->task->program;
	struct step_scalars scalars = step_scalars(loop, 0);
	struct step step = {
		.rate = scalars.learning_rate, .samples = epoch_step_samples(loop->task, loop->state.step)};
	double start = clock_seconds();
	int status = loop_averages(loop, false);

	/* A rank that failed does not stay away. */
	status = run_all_micros(loop, status, &step.total);

	if (status)
		return status;
	status = program_gradient_norm(program, &step.norm);
	if (!status && !isfinite(step.norm))
		return bad_gradient(loop); /* of every rank */
	if (!status)
		status = program_update(program, &scalars);
	step.seconds = clock_seconds() - start;
	count_step(loop, &step);
	if (!status && loop_is_first(loop))
		status = log_step(loop, &step);
	if (!status)
		status = loop_count_epoch(loop, step.total.loss, step.total.sum, step.samples, step.rate);
	if (!status && loop_is_first(loop))
		show_step(loop, step.total.loss, step.rate);
	return finish_step(loop, status);
}
