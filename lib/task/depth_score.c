#include "task/depth_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/threads.h"
#include "task/depth.h"
#include "task/depth_set.h"

struct work {
	const struct depth_score *score;
	struct depth_dataset *data;
	struct scores *scores;
	char **prediction; /* [count], owned; NULL where there is none */
	char **why_not;    /* [count], owned; why a sample has no scores, NULL where it has some */
	double minimum, maximum;
};

/* ---- finding predictions ---- */

static int try_file(const struct depth_score *score, const char *stem, const char *suffix, char **path)
{
	struct text text = {0};
	char *tried;

	text_format(&text, "%s/%s%s", score->predictions, stem, suffix);
	tried = text_take(&text);
	if (!tried)
		return error_status();
	if (file_exists(tried))
		*path = tried;
	else
		free(tried);
	return STATUS_OK;
}

/* *path (owned by the caller) is NULL when there is none. */
static int find_prediction(
	const struct depth_score *score, const struct depth_dataset *data, size_t i, char **path)
{
	static const char *const suffixes[] = {".npy", ".png"};
	char *stem = depth_stem(data, i), *original = depth_prediction_stem(data, i);
	int status = stem && original ? STATUS_OK : error_status();

	*path = NULL;
	for (int s = 0; !status && !*path && s < (score->foreign ? 2 : 1); s++) {
		status = try_file(score, stem, suffixes[s], path);
		if (!status && !*path && score->foreign)
			status = try_file(score, original, suffixes[s], path);
	}
	free(stem);
	free(original);
	return status;
}

static int say_missing(
	const struct depth_score *score, const struct depth_dataset *data, size_t i, char **message)
{
	char *stem = depth_stem(data, i), *original = depth_prediction_stem(data, i);
	struct text text = {0};

	if (stem && original && score->foreign)
		text_format(&text, "%s (looked for %s and %s in %s, .npy and .png)", depth_name(data, i),
			stem, original, score->predictions);
	else if (stem && original)
		text_format(&text, "%s (no %s/%s.npy)", depth_name(data, i), score->predictions, stem);
	*message = stem && original ? text_take(&text) : NULL;
	free(stem);
	free(original);
	return *message ? STATUS_OK : error_status();
}

/* ---- scoring ---- */

static int check_size(const char *path, int height, int width, const struct depth_sample *truth)
{
	if (height == truth->height && width == truth->width)
		return STATUS_OK;
	return error_set(STATUS_DATA, "%s: %dx%d pixels where the truth has %dx%d", path, width, height,
		truth->width, truth->height);
}

/* The prediction of one sample, checked against the size of its truth; *prediction is the caller's. */
static int read_prediction(
	const struct work *work, const char *path, const struct depth_sample *truth, float **prediction)
{
	size_t pixels = (size_t)truth->height * (size_t)truth->width;
	int height, width, status;

	if (work->score->constant) {
		*prediction = memory_new(pixels, sizeof **prediction);
		return *prediction ? STATUS_OK : error_status();
	}
	status = depth_prediction_read(path, &height, &width, prediction);
	if (status == STATUS_DATA && !work->score->foreign)
		error_set(status, "%s; remove the file to have it predicted again", error_message());
	return status ? status : check_size(path, height, width, truth);
}

static int score_prediction(
	struct work *work, const char *path, const struct depth_sample *truth, double *metrics)
{
	size_t pixels = (size_t)truth->height * (size_t)truth->width;
	float *prediction = NULL;
	int status = read_prediction(work, path, truth, &prediction);

	if (!status && depth_align(work->score->align, prediction, truth->depth, truth->mask, pixels,
			       work->minimum, work->maximum, prediction))
		status = error_prefix("%s", path ? path : "constant");
	if (!status)
		depth_metrics(prediction, truth->depth, truth->mask, pixels, metrics);
	free(prediction);
	return status;
}

/* The sample's row is nan. */
static int leave_out(struct work *work, size_t i, const char *why)
{
	work->why_not[i] = memory_text(why);
	return work->why_not[i] ? STATUS_OK : error_status();
}

static int score_sample(void *context, size_t i)
{
	struct work *work = context;
	double *metrics = work->scores->value + i * DEPTH_METRICS;
	struct depth_sample truth = {0};
	int status;

	for (int m = 0; m < DEPTH_METRICS; m++)
		metrics[m] = NAN;
	if (signals_notice())
		return error_set(
			STATUS_AGAIN, "stopped before all samples were scored; the same command goes on");
	status = depth_read_any(work->data, i, &truth);
	if (status == STATUS_DATA && work->score->skip)
		return leave_out(work, i, error_message());
	if (status)
		return status;
	if (!memchr(truth.mask, 1, (size_t)truth.height * (size_t)truth.width))
		status = leave_out(work, i, "no valid depth to compare with");
	else if (!work->prediction[i] && !work->score->constant)
		status = leave_out(work, i, "has no prediction");
	else
		status = score_prediction(work, work->prediction[i], &truth, metrics);
	depth_sample_release(&truth);
	return status;
}

/* ---- the whole ---- */

static int open_truth(const struct depth_score *score, struct depth_dataset **data)
{
	struct depth_options options = score->truth;

	options.rgb_only = false;
	options.depth_only = true;
	return depth_open(&options, data);
}

static int open_work(struct work *work)
{
	size_t count;
	int status = open_truth(work->score, &work->data);

	if (status)
		return status;
	count = depth_count(work->data);
	depth_range(work->data, &work->minimum, &work->maximum);
	work->prediction = memory_new(count, sizeof *work->prediction);
	work->why_not = memory_new(count, sizeof *work->why_not);
	status = scores_init(work->scores, depth_metric_names, DEPTH_METRICS, count);
	if (!work->prediction || !work->why_not)
		status = error_status();
	for (size_t i = 0; i < count && !status; i++) {
		work->scores->sample[i] = memory_text(depth_name(work->data, i));
		status = work->scores->sample[i] ? STATUS_OK : error_status();
	}
	return status;
}

static void close_work(struct work *work)
{
	for (size_t i = 0; work->prediction && work->why_not && i < depth_count(work->data); i++) {
		free(work->prediction[i]);
		free(work->why_not[i]);
	}
	free(work->prediction);
	free(work->why_not);
	depth_close(work->data);
}

/* One map for every sample, such as the mean of a training set. */
static int use_one_file(struct work *work)
{
	for (size_t i = 0; i < depth_count(work->data); i++) {
		work->prediction[i] = memory_text(work->score->predictions);
		if (!work->prediction[i])
			return error_status();
	}
	return STATUS_OK;
}

static int find_predictions(struct work *work)
{
	size_t count = depth_count(work->data), missing = 0, first = 0;
	char *message;
	int status = STATUS_OK;

	if (work->score->constant)
		return STATUS_OK;
	if (work->score->foreign && file_exists(work->score->predictions) &&
		!file_is_directory(work->score->predictions))
		return use_one_file(work);
	if (!file_is_directory(work->score->predictions))
		return error_set(
			STATUS_NO_INPUT, "%s: no such directory of predictions", work->score->predictions);
	status = depth_check_stems(work->data);
	for (size_t i = 0; i < count && !status; i++) {
		status = find_prediction(work->score, work->data, i, &work->prediction[i]);
		if (!status && !work->prediction[i] && missing++ == 0)
			first = i;
	}
	if (status || !missing || work->score->skip)
		return status;
	status = say_missing(work->score, work->data, first, &message);
	if (!status)
		status = error_set(STATUS_NO_INPUT,
			"%zu of %zu predictions are missing, the first is that of %s", missing, count,
			message);
	free(message);
	return status;
}

static void warn_left_out(const struct work *work)
{
	for (size_t i = 0; i < depth_count(work->data); i++)
		if (work->why_not[i])
			warn("%s/%s: %s; its row is nan", work->score->truth.path, depth_name(work->data, i),
				work->why_not[i]);
}

/* "align least-squares, range 0.001 to 10 m, crop eigen". */
static char *describe(const struct work *work)
{
	struct text text = {0};

	text_format(&text, "align %s, range ", depth_align_names[work->score->align]);
	text_number(&text, work->minimum);
	text_add(&text, " to ");
	text_number(&text, work->maximum);
	text_format(&text, " m, crop %s", depth_crop_names[work->score->truth.crop]);
	if (depth_dropped(work->data))
		text_format(&text, ", %zu rows without truth left out", depth_dropped(work->data));
	return text_take(&text);
}

int depth_score_run(const struct depth_score *score, struct scores *scores)
{
	struct work work = {.score = score, .scores = scores};
	int status;

	*scores = (struct scores){0};
	status = open_work(&work);
	if (!status)
		status = find_predictions(&work);
	if (!status)
		status = threads_run(threads_available(), depth_count(work.data), score_sample, &work);
	if (!status) {
		warn_left_out(&work);
		scores->how = describe(&work);
		status = scores->how ? STATUS_OK : error_status();
	}
	close_work(&work);
	return status;
}

int depth_score_missing(const struct depth_score *score, size_t *count, char **first)
{
	struct depth_dataset *data;
	int status = open_truth(score, &data);

	*count = 0;
	*first = NULL;
	if (status)
		return status;
	for (size_t i = 0; i < depth_count(data) && !status; i++) {
		char *path;

		status = find_prediction(score, data, i, &path);
		if (!status && !path && (*count)++ == 0)
			status = say_missing(score, data, i, first);
		free(path);
	}
	depth_close(data);
	return status;
}

/* ---- groups of a run ---- */

/* Options of a group; *path (owned by the caller) is borrowed by them. */
static int group_options(const struct run *run, const char *list, size_t group, const char *directory,
	struct depth_score *score, char **path)
{
	*score = (struct depth_score){
		.predictions = directory,
		.skip = config_bool(run->config, "data.skip"),
		.align = (enum depth_align)depth_align_find(config_text(run->config, "predict.align")),
	};
	return depth_set_options(run, list, group, &score->truth, path);
}

int depth_group_score(
	const struct run *run, const char *list, size_t group, const char *directory, struct scores *scores)
{
	struct depth_score score;
	char *path = NULL;
	int status = group_options(run, list, group, directory, &score, &path);

	*scores = (struct scores){0};
	if (!status)
		status = depth_score_run(&score, scores);
	free(path);
	return status;
}

int depth_group_missing(const struct run *run, const char *list, size_t group, const char *directory,
	size_t *count, char **first)
{
	struct depth_score score;
	char *path = NULL;
	int status = group_options(run, list, group, directory, &score, &path);

	*count = 0;
	*first = NULL;
	if (!status)
		status = depth_score_missing(&score, count, first);
	free(path);
	return status;
}
