/* Split lists of depth datasets, and the names that follow from their rows. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "data/depth.h"
#include "data/video_csv.h"
#include "data/video_list.h"
#include "data/video_result.h"
#include "fuzz.h"

static int read_list(const char *layout, bool rgb_only, const char *path)
{
	struct depth_options options = {.layout = layout, .path = "/", .list = path, .rgb_only = rgb_only};
	struct depth_dataset *data;
	int status = depth_open(&options, &data);

	if (status)
		return status;
	for (size_t i = 0; i < depth_count(data); i++) {
		char *stem = depth_stem(data, i), *prediction = depth_prediction_stem(data, i);

		if (!path_is_inside(depth_name(data, i)) || !path_is_inside(stem) ||
			!path_is_inside(prediction))
			abort(); /* a name would leave its directory */
		free(stem);
		free(prediction);
	}
	depth_close(data);
	return STATUS_OK;
}

static int parse_list(const void *data, size_t bytes)
{
	static const char *const layouts[] = {"plain", "nyu", "kitti"};
	const char *path = fuzz_path(data, bytes);
	int status = STATUS_OK;

	if (!path)
		return STATUS_FAILURE;
	for (int i = 0; i < 6; i++) {
		int result = read_list(layouts[i / 2], i % 2, path);

		status = result ? result : status;
	}
	return status;
}

/* Results of classification: every label is one of the list, no list is empty. */
static int parse_results(const void *data, size_t bytes)
{
	char *names[] = {"a", "b", "c \xc3\xa9"};
	const struct names labels = {.name = names, .count = 3};
	struct video_results results;
	int status = video_results_parse("results", data, bytes, &labels, &results);

	for (size_t i = 0; i < results.count; i++)
		for (size_t w = 0; w < results.video[i].windows; w++) {
			const struct video_scores *scores = &results.video[i].window[w];

			if (!scores->count || scores->item[0].label < 0 || scores->item[0].label > 2)
				abort();
		}
	video_results_release(&results);
	return status;
}

/* Every entry has what its readers rely on. */
static int parse_annotation(const void *data, size_t bytes)
{
	int result = STATUS_DATA;

	for (int untrimmed = 0; untrimmed < 2; untrimmed++) {
		struct video_annotation annotation;
		struct text json = {0};
		const char *path = fuzz_path(data, bytes);
		int status = path ? video_annotation_read(path, untrimmed, &annotation) : STATUS_FAILURE;

		if (status)
			continue;
		for (size_t i = 0; i < annotation.count; i++) {
			const struct video_entry *entry = &annotation.entry[i];

			if (!entry->id || entry->label >= (int64_t)annotation.labels.count ||
				entry->first < 0 || entry->end < entry->first)
				abort();
		}
		video_annotation_write(&annotation, &json);
		text_release(&json);
		video_annotation_release(&annotation);
		result = STATUS_OK;
	}
	return result;
}

/* Rows with and without separators; fields lie in the file's bytes and have an end. */
static int parse_rows(const void *data, size_t bytes)
{
	int result = STATUS_OK;

	for (int form = 0; form < 3; form++) {
		struct video_csv csv;
		const char *path = fuzz_path(data, bytes);
		bool more = true;
		size_t sum = 0;
		int status = path ? video_csv_open(&csv, path, form ? ',' : 0, form == 2) : STATUS_FAILURE;

		while (!status && !(status = video_csv_next(&csv, &more)) && more) {
			const char *label = video_csv_field(&csv, "label");

			for (int i = 0; i < csv.count; i++)
				sum += strlen(csv.field[i]);
			sum += label ? strlen(label) : 0;
		}
		if (sum > 2 * bytes)
			abort();
		if (path)
			video_csv_close(&csv);
		result = status ? status : result;
	}
	return result;
}

const struct fuzz_parser fuzz_data[] = {{"depth-list", parse_list}, {"video-annotation", parse_annotation},
	{"video-rows", parse_rows}, {"video-result", parse_results}, {0}};
