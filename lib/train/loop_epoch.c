/* The training loop: epochs, what is counted over them, and schedules that follow them. */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/text.h"
#include "train/epoch.h"
#include "train/loop_parts.h"

bool loop_due(const struct loop *loop, int64_t steps, int64_t epochs)
{
	return loop_due_at(loop, loop->state.step, steps, epochs);
}

bool loop_due_at(const struct loop *loop, int64_t step, int64_t steps, int64_t epochs)
{
	if (steps > 0 && step % steps == 0)
		return true;
	return epochs > 0 && step > 0 &&
	       epoch_of(loop->task, step) / epochs > epoch_of(loop->task, step - 1) / epochs;
}

/* ---- the schedule ---- */

/* What a checkpoint keeps of a plateau. */
enum { KEPT_RATE, KEPT_BEST, KEPT_BAD };

static struct plateau plateau(const struct loop *loop)
{
	const double *kept = loop->state.schedule;

	return (struct plateau){
		.rate = kept[KEPT_RATE], .best = kept[KEPT_BEST], .bad = (int64_t)kept[KEPT_BAD]};
}

static void keep_plateau(struct loop *loop, const struct plateau *plateau)
{
	double *kept = loop->state.schedule;

	kept[KEPT_RATE] = plateau->rate;
	kept[KEPT_BEST] = plateau->best;
	kept[KEPT_BAD] = (double)plateau->bad;
}

static bool has_metric(const struct loop *loop, const char *name)
{
	for (int m = 0; m < loop->task->metrics; m++)
		if (!strcmp(loop->task->metric_names[m], name))
			return true;
	return false;
}

int loop_start_schedule(struct loop *loop, bool fresh)
{
	const char *metric = loop->plan->plateau_metric;
	struct plateau plateau;

	if (loop->task->schedule.kind != SCHEDULE_PLATEAU)
		return 0;
	if (!loop->task->sets || !metric || !has_metric(loop, metric))
		return error_set(STATUS_CONFIG,
			"schedule.metric = %s: validation of this task has no such metric",
			metric ? metric : "");
	if (fresh) {
		plateau_init(&plateau, loop->task->learning_rate);
		keep_plateau(loop, &plateau);
	}
	return 0;
}

double loop_rate_after(const struct loop_task *task, const struct train_state *state, int64_t epochs)
{
	double base =
		task->schedule.kind == SCHEDULE_PLATEAU ? state->schedule[KEPT_RATE] : task->learning_rate;

	return schedule_at(&task->schedule, base, state->step, epochs);
}

double loop_rate(const struct loop *loop)
{
	return loop_rate_after(loop->task, &loop->state, epoch_of(loop->task, loop->state.step));
}

void loop_follow(struct loop *loop, const char *metric, double value)
{
	struct plateau now = plateau(loop);
	double before = now.rate;

	if (loop->task->schedule.kind != SCHEDULE_PLATEAU ||
		strcmp(metric, loop->plan->plateau_metric) != 0 || !loop_due(loop, 0, 1))
		return;
	plateau_step(&now, &loop->task->schedule, value);
	keep_plateau(loop, &now);
	if (now.rate < before && loop_is_first(loop))
		note("epoch %lld: no better %s for %lld epochs; the learning rate is %g now",
			(long long)loop->state.epoch, metric, (long long)loop->task->schedule.patience + 1,
			now.rate);
}

/* ---- epochs ---- */

int loop_add_fields(struct text *row, const double *values, int count)
{
	for (int i = 0; i < count; i++) {
		text_add(row, "\t");
		text_number(row, values[i]);
	}
	return text_check(row);
}

/* Means over the samples of the epoch; the loss counts each step by its share of a whole batch. */
static int log_epoch(struct loop *loop, int64_t epoch, double rate)
{
	const struct train_state *state = &loop->state;
	double samples = (double)state->epoch_samples, mean[LOOP_SUMS];
	double loss = state->epoch_loss / (samples / (double)loop->task->batch);
	struct text row = {0}, tag = {0};
	int status;

	for (int k = 0; k < loop->task->sums; k++)
		mean[k] = state->epoch_sums[k] / samples;
	text_format(&row, "%lld\t%lld\t%lld", (long long)epoch, (long long)state->step,
		(long long)state->samples);
	status = loop_add_fields(&row, (double[]){loss, rate}, 2);
	if (!status)
		status = loop_add_fields(&row, mean, loop->task->sums);
	if (!status)
		status = logs_row(loop->logs, LOG_EPOCH, row.data);
	if (!status)
		status = logs_scalar(loop->logs, state->step, "epoch/loss", loss);
	for (int k = 0; k < loop->task->sums && !status; k++) {
		text_clear(&tag);
		text_format(&tag, "epoch/%s", loop->task->sum_names[k]);
		status = text_check(&tag) ? error_status()
					  : logs_scalar(loop->logs, state->step, tag.data, mean[k]);
	}
	text_release(&row);
	text_release(&tag);
	return status;
}

static void add_step(
	struct train_state *state, double share, double loss, const double *sums, int64_t samples)
{
	state->epoch_loss += loss * share;
	for (int k = 0; k < LOOP_SUMS; k++)
		state->epoch_sums[k] += sums[k];
	state->epoch_steps++;
	state->epoch_samples += samples;
}

int loop_count_epoch(struct loop *loop, double loss, const double *sums, int64_t samples, double rate)
{
	struct train_state *state = &loop->state;
	int64_t epoch = epoch_of(loop->task, state->step);
	int status = 0;

	add_step(state, (double)samples / (double)loop->task->batch, loss, sums, samples);
	if (epoch == state->epoch)
		return 0;
	if (loop_is_first(loop))
		status = log_epoch(loop, epoch, rate);
	if (state->epoch_skipped && loop_is_first(loop))
		warn("epoch %lld: %lld bad samples were replaced by others", (long long)epoch,
			(long long)state->epoch_skipped);
	state->epoch = epoch;
	state->epoch_loss = 0;
	memset(state->epoch_sums, 0, sizeof(state->epoch_sums));
	state->epoch_steps = state->epoch_samples = state->epoch_skipped = 0;
	return status;
}
