/* Sets of videos: which samples there are. */
#include "data/video.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/video_annotation.h"
#include "data/video_layout.h"
#include "data/video_set.h"

enum { SHORTEST_EVENT = 8 /* frames of ActivityNet's annotations */, COUNT_THREADS = 16 };

static const struct video_layout *const layouts[] = {&video_layout_frames};

const struct video_layout *video_layout_find(const char *name)
{
	struct text known = {0};

	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		if (!strcmp(layouts[i]->name, name))
			return layouts[i];
		text_format(&known, "%s%s", i ? ", " : "", layouts[i]->name);
	}
	error_set(STATUS_CONFIG, "layout %s: must be one of %s", name, known.failed ? "" : known.data);
	text_release(&known);
	return NULL;
}

int video_count_frames(const char *name, const char *path, bool flow, int64_t *first, int64_t *end)
{
	const struct video_layout *layout = video_layout_find(name);
	struct video_store *store;
	int status = layout ? layout->open(path, flow, &store) : error_status();

	if (status)
		return status;
	*first = layout->first;
	status = layout->count(store, end);
	layout->close(store);
	return status;
}

/* ---- samples ---- */

static int add_sample(struct video_set *set, struct video_sample sample)
{
	int status = memory_grow(&set->sample, &set->capacity, set->count + 1, sizeof *set->sample);

	if (status || !sample.id || !sample.path) {
		free((char *)(uintptr_t)sample.id);
		free((char *)(uintptr_t)sample.path);
		return error_status();
	}
	set->sample[set->count++] = sample;
	return STATUS_OK;
}

static void sample_release(struct video_sample *sample)
{
	free((char *)(uintptr_t)sample->id);
	free((char *)(uintptr_t)sample->path);
}

/* PATH/LABEL/ID and the first suffix under which there is something; the usual one where there is nothing. */
static char *sample_path(const struct video_set *set, const struct video_entry *entry)
{
	const struct video_annotation *annotation = &set->annotation;
	struct text path = {0};
	size_t stem;

	if (entry->path)
		return memory_text(entry->path);
	if (annotation->activitynet)
		text_format(&path, "v_%s", entry->video ? entry->video : entry->id);
	else
		text_format(&path, "%s/%s", entry->label < 0 ? "test" : annotation->labels.name[entry->label],
			entry->id);
	if (!text_check(&path) && !path_is_inside(path.data)) {
		error_set(STATUS_DATA, "%s: entry \"%s\": the path %s leaves the dataset's directory",
			set->options.annotation, entry->id, path.data);
		text_release(&path);
		return NULL;
	}
	struct text whole = {0};

	text_format(&whole, "%s/%s", set->options.path, path.failed ? "" : path.data);
	text_release(&path);
	stem = whole.length;
	for (int i = 0; !whole.failed && set->layout->suffixes[i]; i++) {
		whole.length = stem;
		text_add(&whole, set->layout->suffixes[i]);
		if (set->layout->suffixes[1] == NULL || (!whole.failed && access(whole.data, F_OK) == 0))
			return text_take(&whole);
	}
	if (!whole.failed) {
		whole.length = stem;
		text_add(&whole, set->layout->suffixes[0]);
	}
	return text_take(&whole);
}

/* Frames floor(s fps) + 1 up to, not including, the smaller of floor(e fps) + 1 and the number of frames, as the original takes them. */
static void cut_event(const struct video_entry *entry, struct video_sample *sample)
{
	double first = floor(entry->from * entry->fps) + 1, end = floor(entry->to * entry->fps) + 1;
	int64_t frames = sample->end - sample->first;

	sample->end = end < (double)frames ? (int64_t)end : frames;
	sample->first = first < (double)sample->end ? (int64_t)first : sample->end;
	if (sample->end - sample->first < SHORTEST_EVENT)
		sample->end = sample->first;
}

/* The frames of a sample that the annotation does not number; none where the video is not there. */
static int count_frames(void *context, size_t i)
{
	struct video_set *set = context;
	struct video_sample *sample = &set->sample[i];
	const struct video_entry *entry = &set->annotation.entry[set->entry[i]];
	int status = STATUS_OK;

	if (!entry->numbered) {
		status = video_count_frames(
			set->layout->name, sample->path, set->options.flow, &sample->first, &sample->end);
		if (status == STATUS_NO_INPUT) {
			error_clear();
			status = STATUS_OK;
			sample->first = sample->end = 0;
		}
		if (!status && entry->to >= 0)
			cut_event(entry, sample);
	} else if (set->options.skip_missing && access(sample->path, F_OK) != 0) {
		sample->end = sample->first;
	}
	return status;
}

/* Keeps those that have frames. */
static void drop_empty(struct video_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (set->sample[i].end > set->sample[i].first) {
			set->sample[kept++] = set->sample[i];
			continue;
		}
		sample_release(&set->sample[i]);
		set->dropped++;
	}
	set->count = kept;
}

static int add_entries(struct video_set *set, int subset)
{
	struct video_annotation *annotation = &set->annotation;
	int status = STATUS_OK;

	set->entry = memory_new(annotation->count, sizeof *set->entry);
	if (!set->entry)
		return error_status();
	for (size_t i = 0; !status && i < annotation->count; i++) {
		const struct video_entry *entry = &annotation->entry[i];
		struct video_sample sample = {
			.label = entry->label, .first = entry->first, .end = entry->end};

		if (subset >= 0 && entry->subset != subset)
			continue;
		sample.id = memory_text(entry->id);
		sample.path = sample.id ? sample_path(set, entry) : NULL;
		set->entry[set->count] = i;
		status = add_sample(set, sample);
	}
	return status;
}

static int open_annotation(struct video_set *set)
{
	const struct video_options *options = &set->options;
	bool all = !options->subset || !*options->subset;
	int subset = all ? -1 : video_subset_find(options->subset);
	int status;

	if (!all && subset < 0)
		return error_set(STATUS_CONFIG,
			"%s: subset %s: must be training, validation or testing (or train, val, test)",
			options->name, options->subset);
	if (!file_is_directory(options->path))
		return error_set(STATUS_NO_INPUT, "%s: %s is no directory", options->name, options->path);
	status = video_annotation_read(options->annotation, options->untrimmed, &set->annotation);
	if (!status)
		status = add_entries(set, subset);
	if (!status)
		status = threads_run(COUNT_THREADS, set->count, count_frames, set);
	if (status)
		return status;
	drop_empty(set);
	if (set->count)
		return STATUS_OK;
	return error_set(STATUS_DATA,
		"%s: %s has no videos with frames in the subset %s (%zu entries dropped; videos are looked "
		"for below %s)",
		options->name, options->annotation, all ? "(all)" : video_subset_names[subset], set->dropped,
		options->path);
}

/* ---- without an annotation ---- */

static int add_found(struct video_set *set, const char *path, const char *id, int64_t label)
{
	struct video_sample sample = {.id = memory_text(id), .path = memory_text(path), .label = label};
	int status = sample.id && sample.path ? STATUS_OK : error_status();

	if (!status)
		status = video_count_frames(
			set->layout->name, path, set->options.flow, &sample.first, &sample.end);
	if (status) {
		sample_release(&sample);
		return status;
	}
	return add_sample(set, sample);
}

/* The name without the layout's suffix; NULL where it has none of them, or hides behind a dot. */
static char *stem_of(const struct video_set *set, const char *name)
{
	for (int i = 0; name[0] != '.' && set->layout->suffixes[i]; i++) {
		const char *suffix = set->layout->suffixes[i];
		char *stem;

		if (!text_ends(name, suffix) || strlen(name) == strlen(suffix))
			continue;
		stem = memory_text(name);
		if (stem)
			stem[strlen(name) - strlen(suffix)] = 0;
		return stem;
	}
	return NULL;
}

static int add_class(struct video_set *set, const char *class_name, int64_t label)
{
	char *directory = path_join(set->options.path, class_name), *path = NULL, *stem = NULL;
	struct names names = {0};
	int status = directory ? file_list(directory, &names) : error_status();

	for (size_t i = 0; !status && i < names.count; i++) {
		free(stem);
		free(path);
		stem = stem_of(set, names.name[i]);
		path = path_join(directory, names.name[i]);
		if (!path)
			status = error_status();
		else if (stem && file_is_directory(path) == set->layout->directories)
			status = add_found(set, path, stem, label);
	}
	free(stem);
	free(path);
	free(directory);
	names_release(&names);
	return status;
}

static int add_classes(struct video_set *set)
{
	struct names names = {0}, *labels = &set->annotation.labels;
	int status = file_list(set->options.path, &names);

	for (size_t i = 0; !status && i < names.count; i++) {
		char *path = path_join(set->options.path, names.name[i]);

		if (!path)
			status = error_status();
		else if (names.name[i][0] != '.' && file_is_directory(path))
			status = names_add(labels, names.name[i]);
		if (!status && path && labels->count &&
			!strcmp(labels->name[labels->count - 1], names.name[i]))
			status = add_class(set, names.name[i], (int64_t)labels->count - 1);
		free(path);
	}
	names_release(&names);
	return status;
}

static int open_found(struct video_set *set)
{
	const char *path = set->options.path;
	bool directory = file_is_directory(path);
	int64_t first, end = 0;
	int status;

	if (!file_exists(path))
		return error_set(STATUS_NO_INPUT, "%s: %s is not there", set->options.name, path);
	if (directory && set->layout->directories) {
		status = video_count_frames(set->layout->name, path, set->options.flow, &first, &end);
		directory = end <= 1;
		if (status)
			return status;
	}
	status = directory ? add_classes(set) : add_found(set, path, path_base(path), -1);
	if (status)
		return status;
	drop_empty(set);
	return set->count ? STATUS_OK
			  : error_set(STATUS_DATA,
				    "%s: no videos of layout %s in %s (one directory a class, with its "
				    "videos, is "
				    "expected)",
				    set->options.name, set->layout->name, path);
}

/* ---- sets ---- */

static int copy_options(struct video_set *set, const struct video_options *options)
{
	const char *const given[] = {
		options->name, options->layout, options->path, options->annotation, options->subset};

	set->options = *options;
	for (int i = 0; i < 5; i++) {
		set->text[i] = memory_text(given[i] ? given[i] : "");
		if (!set->text[i])
			return error_status();
	}
	set->options.name = set->text[0];
	set->options.layout = set->text[1];
	set->options.path = set->text[2];
	set->options.annotation = set->text[3];
	set->options.subset = set->text[4];
	return STATUS_OK;
}

static int open_set(struct video_set *set, const struct video_options *options)
{
	int status = copy_options(set, options);

	if (status)
		return status;
	set->layout = video_layout_find(options->layout);
	if (!set->layout)
		return error_prefix("%s", options->name);
	if (options->flow && !set->layout->flow)
		return error_set(STATUS_CONFIG, "%s: flow is read from layout hdf5 only", options->name);
	return *set->options.annotation ? open_annotation(set) : open_found(set);
}

int video_set_open(const struct video_options *options, struct video_set **result)
{
	struct video_set *set = memory_new(1, sizeof *set);
	int status = set ? open_set(set, options) : error_status();

	*result = status ? NULL : set;
	if (status)
		video_set_close(set);
	return status;
}

void video_set_close(struct video_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		sample_release(&set->sample[i]);
	for (int i = 0; i < 5; i++)
		free(set->text[i]);
	video_annotation_release(&set->annotation);
	free(set->sample);
	free(set->entry);
	free(set);
}

size_t video_set_count(const struct video_set *set)
{
	return set->count;
}

const struct video_sample *video_set_sample(const struct video_set *set, size_t i)
{
	return &set->sample[i];
}

size_t video_set_dropped(const struct video_set *set)
{
	return set->dropped;
}

size_t video_set_label_count(const struct video_set *set)
{
	return set->annotation.labels.count;
}

const char *video_set_label(const struct video_set *set, size_t i)
{
	return set->annotation.labels.name[i];
}

int video_set_channels(const struct video_set *set)
{
	return set->options.flow ? 2 : 3;
}

int video_set_missing(const struct video_set *set, size_t *count, char **first)
{
	*count = 0;
	*first = NULL;
	for (size_t i = 0; i < set->count; i++) {
		if (access(set->sample[i].path, F_OK) == 0)
			continue;
		if ((*count)++ == 0 && !(*first = memory_text(set->sample[i].path)))
			return error_status();
	}
	return STATUS_OK;
}
