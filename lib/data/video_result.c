#include "data/video_result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/memory.h"

void video_results_release(struct video_results *results)
{
	for (size_t i = 0; i < results->count; i++) {
		struct video_result *video = &results->video[i];

		for (size_t w = 0; w < video->windows; w++)
			free(video->window[w].item);
		free(video->window);
		free(video->id);
	}
	free(results->video);
	*results = (struct video_results){0};
}

static int read_score(const json_t *value, const struct video_index *labels, struct video_score *score)
{
	const char *label = json_string_value(json_object_get(value, "label"));
	const json_t *number = json_object_get(value, "score");

	if (!label || !json_is_number(number))
		return error_set(STATUS_DATA, "an entry has no \"label\" and \"score\"");
	score->score = json_number_value(number);
	score->label = video_index_find(labels, label);
	if (score->label < 0)
		return error_set(STATUS_DATA, "the label \"%s\" is not among the labels", label);
	return isfinite(score->score) ? STATUS_OK : error_set(STATUS_DATA, "a score is not finite");
}

static int read_scores(const json_t *list, const struct video_index *labels, struct video_scores *scores)
{
	size_t count = json_array_size(list);

	if (!count)
		return error_set(STATUS_DATA, "has no scores");
	scores->item = memory_new(count, sizeof *scores->item);
	if (!scores->item)
		return error_status();
	for (; scores->count < count; scores->count++)
		if (read_score(json_array_get(list, scores->count), labels, &scores->item[scores->count]))
			return error_status();
	return STATUS_OK;
}

static int read_video(const json_t *list, const struct video_index *labels, struct video_result *video)
{
	bool windowed = json_object_get(json_array_get(list, 0), "result") != NULL;
	size_t windows = windowed ? json_array_size(list) : 1;
	int status = STATUS_OK;

	video->window = memory_new(windows, sizeof *video->window);
	if (!video->window)
		return error_status();
	for (; video->windows < windows && !status; video->windows++)
		status = read_scores(
			windowed ? json_object_get(json_array_get(list, video->windows), "result") : list,
			labels, &video->window[video->windows]);
	return status;
}

static int read_all(const json_t *file, const struct video_index *labels, struct video_results *results)
{
	const json_t *list = json_object_get(file, "results");
	const char *id;
	json_t *value;

	if (!json_is_object(list))
		return error_set(STATUS_DATA, "\"results\" is missing; results are {\"results\": {ID: "
					      "[{\"label\": ..., \"score\": ...}]}}");
	results->video = memory_new(json_object_size(list), sizeof *results->video);
	if (!results->video)
		return error_status();
	json_object_foreach((json_t *)(uintptr_t)list, id, value)
	{
		struct video_result *video = &results->video[results->count++];

		video->id = memory_text(id);
		if (!video->id)
			return error_status();
		if (read_video(value, labels, video))
			return error_prefix("%s", id);
	}
	return STATUS_OK;
}

int video_results_parse(const char *name, const char *data, size_t bytes, const struct names *labels,
	struct video_results *results)
{
	struct video_index index = {0};
	json_error_t where;
	json_t *file = json_loadb(data, bytes, 0, &where);
	int status = file ? STATUS_OK : error_set(STATUS_DATA, "line %d: %s", where.line, where.text);

	*results = (struct video_results){0};
	if (!status)
		status = video_index_init(&index, labels->count, video_names_get, labels);
	if (!status)
		status = read_all(file, &index, results);
	if (status) {
		video_results_release(results);
		error_prefix("%s", name);
	}
	video_index_release(&index);
	json_decref(file);
	return status;
}

int video_results_read(const char *path, const struct names *labels, struct video_results *results)
{
	char *data = NULL;
	size_t bytes;
	int status = file_read_regular(path, VIDEO_RESULT_LIMIT, &data, &bytes);

	*results = (struct video_results){0};
	if (!status)
		status = video_results_parse(path, data, bytes, labels, results);
	free(data);
	return status;
}
