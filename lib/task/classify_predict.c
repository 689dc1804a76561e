/*
 * Prediction of the classification task: the probabilities of each window of each video as STEM.npy, and of all videos of a set
 * results.json, results.tsv and labels.txt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/npy.h"
#include "metric/classify.h"
#include "task/classify.h"
#include "task/classify_model.h"
#include "task/classify_result.h"
#include "task/classify_stored.h"

struct seen_set {
	struct classify_set set;
	struct video_reader *reader;
};

struct classify_predictor {
	const struct run *run;
	struct classify_clip clip;
	struct classify_model model;
	struct classify_labels labels;
	struct seen_set *set;
	size_t sets;
};

/* ---- opening ---- */

/* Of weights that say nothing about labels (another program's) the labels are those of the run's data, where it can be opened. */
static int labels_of_data(const struct run *run, struct classify_labels *labels)
{
	static const char *const lists[] = {"data.train", "data.val", "data.test"};

	for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
		if (config_groups(run->config, lists[l])) {
			struct classify_set set;
			struct classify_labels none = {0};
			int status = classify_set_open(&set, run, lists[l], 0, &none);

			if (!status)
				status = classify_labels_of(set.videos, labels);
			if (status == STATUS_NO_INPUT) {
				warn("%s; classes are shown by number", error_message());
				status = STATUS_OK;
			}
			classify_set_close(&set);
			return status;
		}
	return STATUS_OK;
}

static int open_labels(struct classify_predictor *predictor, const struct checkpoint *checkpoint)
{
	int status = classify_labels_read(checkpoint, &predictor->labels);

	return status || predictor->labels.count ? status
						 : labels_of_data(predictor->run, &predictor->labels);
}

static int open_sets(struct classify_predictor *predictor, const struct task_group *groups, size_t count)
{
	int status = STATUS_OK;

	predictor->set = memory_new(count, sizeof *predictor->set);
	if (!predictor->set)
		return error_status();
	for (size_t i = 0; i < count && !status; i++)
		status = classify_set_open(&predictor->set[predictor->sets++].set, predictor->run,
			groups[i].list, groups[i].index, &predictor->labels);
	return status;
}

int classify_predictor_open(const struct run *run, struct device *device, const struct checkpoint *checkpoint,
	const struct task_group *groups, size_t count, struct task_predictor *out)
{
	struct classify_predictor *predictor = memory_new(1, sizeof *predictor);
	int status, index;

	*out = (struct task_predictor){.state = predictor};
	if (!predictor)
		return error_status();
	predictor->run = run;
	status = classify_clip_init(&predictor->clip, run->config);
	if (!status)
		status = open_labels(predictor, checkpoint);
	if (!status)
		status = open_sets(predictor, groups, count);
	if (!status)
		status = classify_model_init(&predictor->model, run->config, device, predictor->labels.count);
	if (!status)
		status = classify_model_window_graph(&predictor->model, predictor->model.windows,
			predictor->clip.size, predictor->clip.size, &index);
	out->program = predictor->model.program;
	out->sets = predictor->sets;
	return status;
}

int classify_predictor_prepare(struct task_predictor *out)
{
	return classify_model_prepare(&((struct classify_predictor *)out->state)->model);
}

const char *classify_predictor_set(const struct task_predictor *out, size_t set)
{
	return ((const struct classify_predictor *)out->state)->set[set].set.name;
}

int64_t classify_predictor_samples(const struct task_predictor *out, size_t set)
{
	return (int64_t)classify_set_count(&((const struct classify_predictor *)out->state)->set[set].set);
}

/* The data is named by where it was configured to be, not by where it was staged. */
char *classify_predictor_settings(const struct run *run, const struct task_group *group)
{
	const struct config *config = run->config;
	struct text text = {0};

	text_format(&text, "windows every %lld last %s crop %s",
		(long long)(config_integer(config, "predict.stride")
				    ? config_integer(config, "predict.stride")
				    : config_integer(config, "clip.duration")),
		config_text(config, "predict.last_window"), config_text(config, "predict.crop"));
	classify_set_describe(run, group->list, group->index, &text);
	return text_take(&text);
}

void classify_predictor_close(struct task_predictor *out)
{
	struct classify_predictor *predictor = out->state;
	uint64_t replaced = 0;

	if (!predictor)
		return;
	for (size_t i = 0; i < predictor->sets; i++) {
		classify_reader_free(predictor->set[i].reader, &replaced);
		classify_set_close(&predictor->set[i].set);
	}
	classify_warn_replaced(replaced);
	free(predictor->set);
	classify_labels_release(&predictor->labels);
	classify_model_release(&predictor->model);
	free(predictor);
	*out = (struct task_predictor){0};
}

/* ---- one video ---- */

/* Probabilities of all windows [view->windows.count, classes], the caller's. */
static int look(struct classify_predictor *predictor, struct seen_set *set, size_t sample,
	struct classify_view *view, float **probability)
{
	size_t classes = (size_t)predictor->model.network.classes;
	int status = set->reader ? STATUS_OK : video_reader_new(set->set.videos, &set->reader);

	*probability = NULL;
	if (!status)
		status = classify_view_open(&predictor->clip, set->reader, &set->set, sample, 0, view);
	if (!status)
		status = classify_model_windows(
			&predictor->model, &predictor->clip, set->reader, sample, view, probability);
	for (int64_t w = 0; !status && w < view->windows.count; w++)
		classify_softmax(
			*probability + (size_t)w * classes, classes, *probability + (size_t)w * classes);
	return status;
}

int classify_predictor_predict(
	struct task_predictor *out, size_t number, int64_t index, const struct predictions_output *output)
{
	struct classify_predictor *predictor = out->state;
	struct seen_set *set = &predictor->set[number];
	char *path = stored_path(output->directory, &set->set, (size_t)index);
	struct classify_view view;
	float *probability = NULL;
	int status = path ? STATUS_OK : error_status();

	if (!status && !output->fresh && file_exists(path))
		goto out;
	if (!status)
		status = look(predictor, set, (size_t)index, &view, &probability);
	if (!status)
		status = predictions_fence(output);
	if (!status)
		status = npy_publish(path, probability, 2,
			(int64_t[]){view.windows.count, predictor->model.network.classes});
out:
	free(probability);
	free(path);
	return status;
}

/* ---- a whole set ---- */

static int publish_labels(const struct classify_labels *labels, const char *directory)
{
	char *path = path_join(directory, STORED_LABELS);
	struct text text = {0};
	int status = path ? STATUS_OK : error_status();

	classify_labels_write(labels, &text);
	if (!status)
		status = text_check(&text);
	if (!status)
		status = file_publish(path, text.data ? text.data : "", text.length);
	text_release(&text);
	free(path);
	return status;
}

static int publish_text(const struct text *text, const char *directory, const char *name)
{
	char *path = path_join(directory, name);
	int status = path ? file_publish(path, text->data, text->length) : error_status();

	free(path);
	return status;
}

/* One video's results, of what lies in its file. */
static int add_stored(struct classify_predictor *predictor, const struct classify_set *set, size_t sample,
	const char *directory, struct classify_result *result)
{
	struct stored stored = {0};
	struct clip_windows windows = classify_windows(&predictor->clip, set, sample, 0);
	int64_t(*segment)[2] = NULL;
	struct text name = {0};
	int status = stored_read(directory, set, sample, &stored);

	if (!status && (int64_t)stored.windows != windows.count)
		status = error_set(STATUS_DATA, "%s: holds %zu windows, not %lld; remove it", stored.path,
			stored.windows, (long long)windows.count);
	if (!status && !(segment = memory_new(stored.windows, sizeof *segment)))
		status = error_status();
	for (int64_t w = 0; !status && w < windows.count; w++)
		status = classify_windows_segment(&windows, w, segment[w]);
	classify_set_sample_name(set, sample, &name);
	if (!status)
		status = text_check(&name);
	if (!status)
		status = classify_result_add(result, name.data, &predictor->labels, stored.probability,
			stored.windows, stored.classes, (const int64_t(*)[2])segment);
	text_release(&name);
	free(segment);
	stored_release(&stored);
	return status;
}

int classify_predictor_finish(
	struct task_predictor *out, size_t number, const struct predictions_output *output)
{
	struct classify_predictor *predictor = out->state;
	const struct config *config = predictor->run->config;
	const struct classify_set *set = &predictor->set[number].set;
	struct classify_result result;
	int status = publish_labels(&predictor->labels, output->directory);

	classify_set_warn(set);
	classify_result_begin(&result, config_bool(config, "predict.average"),
		(size_t)config_integer(config, "predict.topk"));
	for (size_t i = 0; i < classify_set_count(set) && !status; i++) {
		status = add_stored(predictor, set, i, output->directory, &result);
		if (status == STATUS_NO_INPUT && config_bool(config, "data.skip"))
			status = STATUS_OK; /* a bad video, which was reported */
	}
	if (!status)
		status = classify_result_end(&result);
	if (!status)
		status = predictions_fence(output);
	if (!status)
		status = publish_text(&result.json, output->directory, "results.json");
	if (!status)
		status = publish_text(&result.table, output->directory, "results.tsv");
	classify_result_release(&result);
	return status;
}

/* ---- videos that no configuration names ---- */

static int add_windows(struct classify_predictor *predictor, const struct seen_set *set, size_t sample,
	const struct classify_view *view, const float *probability, struct classify_result *result)
{
	size_t windows = (size_t)view->windows.count;
	int64_t(*segment)[2] = memory_new(windows, sizeof *segment);
	int status = segment ? STATUS_OK : error_status();

	for (size_t w = 0; w < windows && !status; w++)
		status = classify_windows_segment(&view->windows, (int64_t)w, segment[w]);
	if (!status)
		status = classify_result_add(result,
			classify_set_count(&set->set) == 1 ? set->set.name
							   : video_set_sample(set->set.videos, sample)->path,
			&predictor->labels, probability, windows, (size_t)predictor->model.network.classes,
			(const int64_t(*)[2])segment);
	free(segment);
	return status;
}

int classify_predictor_path(struct task_predictor *out, const char *path, int64_t best, struct text *rows)
{
	struct classify_predictor *predictor = out->state;
	const struct config *config = predictor->run->config;
	struct classify_result result;
	struct seen_set set = {0};
	int status = classify_set_open_path(&set.set, predictor->run, path);

	classify_result_begin(&result, config_bool(config, "predict.average"),
		(size_t)(best >= 0 ? best : config_integer(config, "predict.topk")));
	for (size_t i = 0; !status && i < classify_set_count(&set.set); i++) {
		struct classify_view view;
		float *probability;

		status = look(predictor, &set, i, &view, &probability);
		if (!status)
			status = add_windows(predictor, &set, i, &view, probability, &result);
		free(probability);
	}
	if (!status)
		status = classify_result_end(&result);
	if (!status) /* the header comes once */
		text_add(rows, result.table.data + (rows->length ? strcspn(result.table.data, "\n") + 1 : 0));
	classify_result_release(&result);
	video_reader_free(set.reader);
	classify_set_close(&set.set);
	return status ? status : text_check(rows);
}
