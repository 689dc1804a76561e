/* Sets of videos: which samples there are. */
#include "data/video.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/video_annotation.h"
#include "data/video_layout.h"
#include "data/video_set.h"

enum { SHORTEST_EVENT = 8 /* frames of ActivityNet's annotations */, COUNT_THREADS = 16, DECODE_THREADS = 8 };

static const struct video_layout *const layouts[] = {
	&video_layout_frames, &video_layout_hdf5, &video_layout_film};

const struct video_layout *video_layout_find(const char *name)
{
	struct text known = {0};
	size_t count = sizeof layouts / sizeof *layouts;

	for (size_t i = 0; i < count; i++)
		if (!strcmp(layouts[i]->name, name))
			return layouts[i];
	for (size_t i = 0; i < count; i++)
		text_format(&known, "%s%s", i ? ", " : "", layouts[i]->name);
	error_set(STATUS_CONFIG, "layout %s: must be one of %s", name, known.failed ? "" : known.data);
	text_release(&known);
	return NULL;
}

/* ---- where videos lie ---- */

static int decode_threads(void)
{
	int threads = threads_available();

	return threads < DECODE_THREADS ? threads : DECODE_THREADS;
}

/* A directory or file anywhere: the source that it is opened in is the caller's to close, after the store. */
static int open_outside(const struct video_layout *layout, const char *path, bool flow, int threads,
	struct video_store **store, struct source **own)
{
	char *directory = layout->directories ? memory_text(path) : path_directory(path);
	int status = directory ? source_open(directory, own) : error_status();

	if (!status)
		status = layout->open(*own, layout->directories ? "" : path_base(path), flow, threads, store);
	free(directory);
	return status;
}

int video_open_sample(
	const struct video_set *set, size_t sample, struct video_store **store, struct source **own)
{
	/* Of several videos several are read at once. */
	int threads = set->count == 1 ? decode_threads() : 1;

	*own = NULL;
	if (set->name[sample])
		return set->layout->open(set->source, set->name[sample], set->options.flow, threads, store);
	return open_outside(set->layout, set->sample[sample].path, set->options.flow, threads, store, own);
}

static int look_at(const struct video_set *set, size_t i, bool *there)
{
	enum source_kind kind;
	int status;

	*there = file_exists(set->sample[i].path);
	if (!set->name[i])
		return STATUS_OK;
	status = source_look(set->source, set->name[i], &kind);
	*there = !status && kind != SOURCE_NOTHING;
	return status;
}

/* ---- samples ---- */

static void sample_release(struct video_sample *sample, char *name)
{
	free((char *)(uintptr_t)sample->id);
	free((char *)(uintptr_t)sample->path);
	free(name);
}

/* Takes the texts of the sample and the name; the path follows from the name where there is none. */
static int add_sample(struct video_set *set, struct video_sample sample, char *name)
{
	size_t capacity = set->capacity;
	int status = memory_grow(&set->name, &capacity, set->count + 1, sizeof *set->name);

	if (!status)
		status = memory_grow(&set->sample, &set->capacity, set->count + 1, sizeof *set->sample);
	if (!sample.path && name && !status)
		sample.path = source_name(set->source, name);
	if (status || !sample.id || !sample.path) {
		sample_release(&sample, name);
		return error_status();
	}
	set->name[set->count] = name;
	set->sample[set->count++] = sample;
	return STATUS_OK;
}

/* The stem with the first suffix under which there is something; the usual one where there is nothing. */
static char *find_suffix(const struct video_set *set, const char *stem)
{
	const char *const *suffix = set->layout->suffixes;
	struct text name = {0};

	for (int i = 0; suffix[1] && suffix[i]; i++) {
		enum source_kind kind;

		text_clear(&name);
		text_format(&name, "%s%s", stem, suffix[i]);
		if (text_check(&name) || source_look(set->source, name.data, &kind)) {
			text_release(&name);
			return NULL;
		}
		if (kind != SOURCE_NOTHING)
			return text_take(&name);
	}
	text_clear(&name);
	text_format(&name, "%s%s", stem, suffix[0]);
	return text_take(&name);
}

/* LABEL/ID with its suffix, below the root. */
static char *sample_name(const struct video_set *set, const struct video_entry *entry)
{
	const struct video_annotation *annotation = &set->annotation;
	struct text stem = {0};
	char *name = NULL;

	if (annotation->activitynet)
		text_format(&stem, "v_%s", entry->video ? entry->video : entry->id);
	else
		text_format(&stem, "%s/%s", entry->label < 0 ? "test" : annotation->labels.name[entry->label],
			entry->id);
	if (!text_check(&stem) && !path_is_inside(stem.data))
		error_set(STATUS_DATA, "%s: entry \"%s\": the path %s leaves the dataset's directory",
			set->options.annotation, entry->id, stem.data);
	else if (!text_check(&stem))
		name = find_suffix(set, stem.data);
	text_release(&stem);
	return name;
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

static int count_sample(const struct video_set *set, size_t i, int64_t *end)
{
	struct video_store *store = NULL;
	struct source *own = NULL;
	int64_t present;
	int status = video_open_sample(set, i, &store, &own);

	if (!status)
		status = set->layout->count(store, end, &present);
	if (store)
		set->layout->close(store);
	source_close(own);
	return status;
}

/* The frames of a sample that the annotation does not number; none where the video is not there. */
static int number_frames(void *context, size_t i)
{
	struct video_set *set = context;
	struct video_sample *sample = &set->sample[i];
	const struct video_entry *entry = set->entry ? &set->annotation.entry[set->entry[i]] : NULL;
	int status;

	if (entry && entry->numbered)
		return STATUS_OK;
	sample->first = set->layout->first;
	status = count_sample(set, i, &sample->end);
	if (status == STATUS_NO_INPUT) {
		error_clear();
		sample->end = sample->first;
		return STATUS_OK;
	}
	if (!status && entry && entry->to >= 0)
		cut_event(entry, sample);
	return status;
}

/* Keeps those that have frames. */
static void drop_empty(struct video_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (set->sample[i].end <= set->sample[i].first) {
			sample_release(&set->sample[i], set->name[i]);
			set->dropped++;
			continue;
		}
		set->name[kept] = set->name[i];
		set->sample[kept++] = set->sample[i];
	}
	set->count = kept;
}

/* Nothing is looked for where the annotation says it all. */
static bool all_numbered(const struct video_set *set)
{
	if (!set->entry)
		return false;
	for (size_t i = 0; i < set->count; i++)
		if (!set->annotation.entry[set->entry[i]].numbered)
			return false;
	return true;
}

static int number_samples(struct video_set *set)
{
	int status =
		all_numbered(set) ? STATUS_OK : threads_run(COUNT_THREADS, set->count, number_frames, set);

	if (!status)
		drop_empty(set);
	return status;
}

static int add_entry(struct video_set *set, const struct video_entry *entry)
{
	struct video_sample sample = {.label = entry->label, .first = entry->first, .end = entry->end};
	char *name = NULL;

	sample.id = memory_text(entry->id);
	if (entry->path)
		sample.path = memory_text(entry->path);
	else
		name = sample_name(set, entry);
	return add_sample(set, sample, name);
}

static int add_entries(struct video_set *set, int subset)
{
	struct video_annotation *annotation = &set->annotation;
	int status = STATUS_OK;

	set->entry = memory_new(annotation->count, sizeof *set->entry);
	if (!set->entry)
		return error_status();
	for (size_t i = 0; !status && i < annotation->count; i++) {
		if (subset >= 0 && annotation->entry[i].subset != subset)
			continue;
		set->entry[set->count] = i;
		status = add_entry(set, &annotation->entry[i]);
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
	status = source_open(options->path, &set->source);
	if (status)
		return error_prefix("%s", options->name);
	status = video_annotation_read(options->annotation, options->untrimmed, &set->annotation);
	if (!status)
		status = add_entries(set, subset);
	if (!status)
		status = number_samples(set);
	if (status)
		return status;
	if (set->count)
		return STATUS_OK;
	return error_set(STATUS_DATA,
		"%s: %s has no videos with frames in the subset %s (%zu entries dropped; videos are looked "
		"for below %s)",
		options->name, options->annotation, all ? "(all)" : video_subset_names[subset], set->dropped,
		options->path);
}

/* ---- without an annotation ---- */

static int add_found(struct video_set *set, const char *name, const char *id, int64_t label)
{
	struct video_sample sample = {.id = memory_text(id), .label = label};

	return add_sample(set, sample, memory_text(name));
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

static int add_member(struct video_set *set, const char *class_name, const char *name, int64_t label)
{
	enum source_kind wanted = set->layout->directories ? SOURCE_DIRECTORY : SOURCE_FILE, kind;
	char *stem = stem_of(set, name), *path;
	int status = STATUS_OK;

	if (!stem)
		return STATUS_OK;
	path = path_join(class_name, name);
	status = path ? source_look(set->source, path, &kind) : error_status();
	if (!status && kind == wanted)
		status = add_found(set, path, stem, label);
	free(path);
	free(stem);
	return status;
}

static int add_class(struct video_set *set, const char *class_name)
{
	struct names names = {0};
	int64_t label = (int64_t)set->annotation.labels.count;
	int status = names_add(&set->annotation.labels, class_name);

	if (!status)
		status = source_list(set->source, class_name, &names);
	for (size_t i = 0; !status && i < names.count; i++)
		status = add_member(set, class_name, names.name[i], label);
	names_release(&names);
	return status;
}

static int add_classes(struct video_set *set)
{
	struct names names = {0};
	int status = source_list(set->source, "", &names);

	for (size_t i = 0; !status && i < names.count; i++) {
		enum source_kind kind;

		if (names.name[i][0] == '.')
			continue;
		status = source_look(set->source, names.name[i], &kind);
		if (!status && kind == SOURCE_DIRECTORY)
			status = add_class(set, names.name[i]);
	}
	names_release(&names);
	return status;
}

/* One video, or the directory of the classes. */
static int find_videos(struct video_set *set)
{
	const char *path = set->options.path;
	char *stem = stem_of(set, path_base(path)), *name;
	bool file = !set->layout->directories && stem && !file_is_directory(path);
	struct video_sample sample = {.label = -1};
	int64_t end = 0, present;
	int status = STATUS_OK;

	if (file) {
		sample.path = memory_text(path);
		sample.id = stem;
		return add_sample(set, sample, NULL);
	}
	free(stem);
	status = source_open(path, &set->source);
	name = status ? NULL : path_absolute(path);
	if (!status && !name)
		status = error_status();
	if (!status && set->layout->directories) {
		struct video_store *store = NULL;

		status = set->layout->open(set->source, "", set->options.flow, 1, &store);
		if (!status)
			status = set->layout->count(store, &end, &present);
		if (store)
			set->layout->close(store);
	}
	if (status)
		error_prefix("%s", set->options.name);
	else
		status =
			end > set->layout->first ? add_found(set, "", path_base(name), -1) : add_classes(set);
	free(name);
	return status;
}

static int open_found(struct video_set *set)
{
	int status = find_videos(set);

	if (!status)
		status = number_samples(set);
	if (status || set->count)
		return status;
	return error_set(file_exists(set->options.path) ? STATUS_DATA : STATUS_NO_INPUT,
		"%s: no videos of layout %s in %s (one directory a class, with its videos, is expected)",
		set->options.name, set->layout->name, set->options.path);
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

static int set_options(struct video_set *set, const struct video_options *options)
{
	int status = copy_options(set, options);

	if (status)
		return status;
	set->layout = video_layout_find(options->layout);
	if (!set->layout)
		return error_prefix("%s", options->name);
	if (options->flow && !set->layout->flow)
		return error_set(STATUS_CONFIG, "%s: flow is read from layout hdf5 only", options->name);
	return STATUS_OK;
}

static int open_set(struct video_set *set, const struct video_options *options)
{
	int status = set_options(set, options);

	if (status)
		return status;
	return *set->options.annotation ? open_annotation(set) : open_found(set);
}

int video_set_adopt(
	const struct video_options *options, struct video_annotation *annotation, struct video_set **result)
{
	struct video_set *set = memory_new(1, sizeof *set);
	int status = set ? set_options(set, options) : error_status();

	if (!status) {
		set->annotation = *annotation;
		*annotation = (struct video_annotation){0};
		status = source_open(options->path, &set->source);
	}
	if (!status)
		status = add_entries(set, -1);
	*result = status ? NULL : set;
	if (status)
		video_set_close(set);
	return status;
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
		sample_release(&set->sample[i], set->name[i]);
	for (int i = 0; i < 5; i++)
		free(set->text[i]);
	video_annotation_release(&set->annotation);
	free(set->sample);
	free(set->name);
	free(set->entry);
	source_close(set->source);
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
		bool there;
		int status = look_at(set, i, &there);

		if (status)
			return status;
		if (there)
			continue;
		if ((*count)++ == 0 && !(*first = memory_text(set->sample[i].path)))
			return error_status();
	}
	return STATUS_OK;
}
