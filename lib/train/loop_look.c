/* The training loop: validation and pictures, in rounds of one sample or picture a rank. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/png.h"
#include "train/loop_parts.h"

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

/* A sample's metrics on their way between ranks. */
struct sample_share {
	struct news news;
	double metrics[METRICS];
};

static int validate_sample(struct loop *loop, int64_t sample, double *metrics)
{
	int status = loop_averages(loop, true);

	if (!status)
		status = loop->task->validate(loop->task->state, (size_t)loop->state.set, sample, metrics);
	if (status != STATUS_DATA || !loop->plan->skip_bad)
		return loop_bad_sample(loop, status);
	warn("%s; skipped", error_message());
	for (int m = 0; m < loop->task->metrics; m++)
		metrics[m] = NAN;
	return 0;
}

static void add_sample(struct loop *loop, const double *metrics)
{
	struct train_state *state = &loop->state;

	for (int m = 0; m < loop->task->metrics; m++) {
		if (isnan(metrics[m])) {
			state->sums[3 * m + 2] += 1;
			continue;
		}
		state->sums[3 * m] += metrics[m];
		state->sums[3 * m + 1] += 1;
	}
	state->sample++;
}

/* The next samples, one a rank, added in their order. */
static int validate_round(struct loop *loop, int status, int64_t samples)
{
	int64_t first = loop->state.sample, left = samples - first;
	struct sample_share mine = {0}, *all = (struct sample_share *)loop->rounds;
	double start = clock_seconds();

	if (!status && loop->comm->rank < left)
		status = validate_sample(loop, first + loop->comm->rank, mine.metrics);
	mine.news = loop_news();
	status = comm_agree(loop->comm, status, &mine, sizeof(mine), all);
	if (status)
		return status;
	for (int r = 0; r < loop->comm->size; r++) {
		loop_hear(&all[r].news);
		if (r < left)
			add_sample(loop, all[r].metrics);
	}
	loop_end_unit(loop, clock_seconds() - start);
	return 0;
}

/* Weights that stay, whatever the metric says of them. */
static bool keeps(const void *context, int64_t step)
{
	const struct loop *loop = context;

	return loop_due_at(loop, step, loop->plan->keep_every, loop->plan->keep_epochs);
}

/* The first set's main metric decides which weights are the best. */
static int consider_best(struct loop *loop, int status, const char *metric, double value)
{
	struct train_state *state = &loop->state;
	bool first = !state->best_metric[0];
	bool better = loop->plan->best_is_smaller ? value < state->best_value : value > state->best_value;

	if (!loop->plan->best || strcmp(metric, loop->plan->best_metric) || isnan(value) ||
		(!first && !better))
		return status;
	snprintf(state->best_metric, sizeof(state->best_metric), "%s", metric);
	state->best_value = value;
	state->best_step = state->step;
	status = loop_keep_weights(loop, status);
	return status || !loop_is_first(loop)
		       ? status
		       : checkpoint_best_write(loop->shift, state->step, metric, value, keeps, loop);
}

static int log_metric(struct loop *loop, const char *metric, double value, const double *sums)
{
	const struct train_state *state = &loop->state;
	const char *set = loop->task->set_name(loop->task->state, (size_t)state->set);
	struct text row = {0}, tag = {0};
	int status;

	text_format(&row, "%lld\t%s\t%s\t", (long long)state->step, set, metric);
	text_number(&row, value);
	text_format(&row, "\t%.0f\t%.0f", sums[1], sums[2]);
	text_format(&tag, "val/%s/%s", set, metric);
	status = text_check(&row) || text_check(&tag) ? STATUS_FAILURE : 0;
	if (!status)
		status = logs_row(loop->logs, LOG_VAL, row.data);
	if (!status && !isnan(value))
		status = logs_scalar(loop->logs, state->step, tag.data, value);
	text_release(&row);
	text_release(&tag);
	return status;
}

/* One line for who watches: the first metric, and the one that chooses the best weights. */
static void tell_metrics(const struct loop *loop)
{
	const struct train_state *state = &loop->state;
	struct text line = {0};

	for (int m = 0; m < loop->task->metrics; m++) {
		const char *metric = loop->task->metric_names[m];
		const double *sums = &state->sums[3 * m];

		if (m == 0 || (loop->plan->best && !strcmp(metric, loop->plan->best_metric)))
			text_format(&line, "%s %s %.4f", line.length ? "," : "", metric,
				sums[1] > 0 ? sums[0] / sums[1] : NAN);
	}
	if (!text_check(&line))
		note("step %lld: %s%s (%.0f samples)", (long long)state->step,
			loop->task->set_name(loop->task->state, (size_t)state->set), line.data,
			state->sums[1]);
	text_release(&line);
}

static int finish_set(struct loop *loop)
{
	struct train_state *state = &loop->state;
	int status = 0;

	for (int m = 0; m < loop->task->metrics; m++) {
		const char *metric = loop->task->metric_names[m];
		const double *sums = &state->sums[3 * m];
		double value = sums[1] > 0 ? sums[0] / sums[1] : NAN;

		if (!status && loop_is_first(loop))
			status = log_metric(loop, metric, value, sums);
		if (state->set == 0 && !status)
			loop_follow(loop, metric, value);
		if (state->set == 0)
			status = consider_best(loop, status, metric, value);
	}
	if (!status && loop->task->metrics && loop_is_first(loop))
		tell_metrics(loop);
	state->set++;
	state->sample = 0;
	free(state->sums);
	state->sums = NULL;
	state->sums_count = 0;
	return status;
}

int loop_validate(struct loop *loop)
{
	struct train_state *state = &loop->state;
	int64_t samples;
	int status = 0;

	if ((size_t)state->set >= loop->task->sets) {
		state->set = state->sample = 0;
		state->phase = loop_next_phase(loop, PHASE_VALIDATE);
		return 0;
	}
	samples = loop->task->set_samples(loop->task->state, (size_t)state->set);
	if (state->sample == 0 || state->sums_count != (size_t)loop->task->metrics * 3)
		status = start_set(loop);
	if (state->sample >= samples)
		return status ? status : finish_set(loop);
	status = validate_round(loop, status, samples);
	if (!status && loop_is_first(loop) && progress_due(&loop->progress))
		progress_show(&loop->progress, "step %lld: validating %s, sample %lld",
			(long long)state->step, loop->task->set_name(loop->task->state, (size_t)state->set),
			(long long)state->sample);
	return status;
}

/* ---- phase: pictures ---- */

/* A picture on its way to rank 0: what is known of it before its bytes come. */
struct picture_share {
	struct news news;
	int64_t bytes; /* of its PNG; 0: a bad sample */
	int32_t width, height;
	char name[128];
};

static int draw_picture(struct loop *loop, int64_t index, struct picture_share *share, struct text *png)
{
	struct image image = {0};
	int status = loop_averages(loop, true);

	if (!status)
		status = loop->task->picture(loop->task->state, index, &image, share->name);
	if (!status)
		status = png_encode(&image, png);
	else if (status == STATUS_DATA && loop->plan->skip_bad) {
		warn("%s; skipped", error_message());
		status = 0;
	} else {
		status = loop_bad_sample(loop, status);
	}
	share->bytes = status ? 0 : (int64_t)png->length;
	share->width = image.width;
	share->height = image.height;
	image_release(&image);
	return status;
}

static int write_picture(struct loop *loop, const struct picture_share *share, const char *png)
{
	char *directory = run_path(loop->run, "pictures/step-%08lld", (long long)loop->state.step);
	struct text path = {0}, tag = {0};
	int status = directory ? 0 : STATUS_FAILURE;

	if (!status)
		status = file_make_directories(directory);
	text_format(&path, "%s/%s.png", directory ? directory : "", share->name);
	text_format(&tag, "pictures/%s", share->name);
	if (!status && !(status = text_check(&path)) && !(status = text_check(&tag)))
		status = shift_fence(loop->shift);
	/* Pictures are compared as whole directories: no rest of a killed shift may stay. */
	if (!status)
		status = shift_sweep(loop->shift, directory + strlen(loop->run->path) + 1);
	if (!status)
		status = file_publish(path.data, png, (size_t)share->bytes);
	if (!status)
		status = logs_image(loop->logs, loop->state.step, tag.data, share->width, share->height, png,
			(size_t)share->bytes);
	text_release(&path);
	text_release(&tag);
	free(directory);
	return status;
}

/* Brings the pictures of a round to rank 0, which writes them in their order. */
static int bring_pictures(struct loop *loop, const struct picture_share *all, struct text *mine)
{
	struct comm *comm = loop->comm;
	int status = 0, written = 0;

	for (int r = 0; r < comm->size && !status; r++) {
		char *png = r == comm->rank ? mine->data : NULL;

		if (!all[r].bytes)
			continue;
		if (r != comm->rank)
			png = memory_new((size_t)all[r].bytes, 1);
		status = comm_agree(comm, png ? 0 : STATUS_FAILURE, NULL, 0, NULL);
		if (!status)
			status = comm->broadcast(comm, r, png, (size_t)all[r].bytes);
		if (!status && !written && loop_is_first(loop))
			written = write_picture(loop, &all[r], png);
		if (r != comm->rank)
			free(png);
	}
	return status ? status : written;
}

/* The next pictures, one a rank. */
int loop_pictures(struct loop *loop)
{
	struct train_state *state = &loop->state;
	struct picture_share mine = {0}, *all = (struct picture_share *)loop->rounds;
	int64_t left = loop->task->pictures - state->sample;
	struct text png = {0};
	double start = clock_seconds();
	int status = 0;

	if (left <= 0) {
		state->sample = 0;
		state->phase = loop_next_phase(loop, PHASE_PICTURES);
		return 0;
	}
	if (loop->comm->rank < left)
		status = draw_picture(loop, state->sample + loop->comm->rank, &mine, &png);
	mine.news = loop_news();
	status = comm_agree(loop->comm, status, &mine, sizeof(mine), all);
	for (int r = 0; r < loop->comm->size && !status; r++)
		loop_hear(&all[r].news);
	if (!status)
		status = bring_pictures(loop, all, &png);
	text_release(&png);
	loop_end_unit(loop, clock_seconds() - start);
	state->sample += left < loop->comm->size ? left : loop->comm->size;
	return status;
}

size_t loop_round_bytes(void)
{
	return sizeof(struct sample_share) > sizeof(struct picture_share) ? sizeof(struct sample_share)
									  : sizeof(struct picture_share);
}
