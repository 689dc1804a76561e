#include "task/classify_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "task/groups.h"

#define LABELS_LIMIT ((size_t)1 << 26) /* bytes of a list of labels */

/* ---- labels ---- */

void classify_labels_release(struct classify_labels *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		free(labels->name[i]);
	free(labels->name);
	*labels = (struct classify_labels){0};
}

int classify_labels_of(const struct video_set *videos, struct classify_labels *labels)
{
	size_t count = video_set_label_count(videos);

	*labels = (struct classify_labels){.name = memory_new(count, sizeof *labels->name)};
	if (!labels->name)
		return error_status();
	for (; labels->count < count; labels->count++) {
		labels->name[labels->count] = memory_text(video_set_label(videos, labels->count));
		if (!labels->name[labels->count])
			return error_status();
	}
	return STATUS_OK;
}

void classify_labels_write(const struct classify_labels *labels, struct text *text)
{
	for (size_t i = 0; i < labels->count; i++) {
		text_field(text, labels->name[i]);
		text_add(text, "\n");
	}
}

static int parse_labels(char *data, struct classify_labels *labels)
{
	size_t count = 0;

	for (const char *at = data; *at; at++)
		count += *at == '\n';
	labels->name = memory_new(count, sizeof *labels->name);
	for (char *line = data, *end; labels->name && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		text_unescape(line);
		labels->name[labels->count] = memory_text(line);
		if (!labels->name[labels->count])
			return error_status();
		labels->count++;
	}
	return labels->name ? STATUS_OK : error_status();
}

int classify_labels_load(const char *path, struct classify_labels *labels)
{
	char *data = NULL;
	size_t bytes = 0;
	int status = file_read_regular(path, LABELS_LIMIT, &data, &bytes);

	*labels = (struct classify_labels){0};
	if (!status && strlen(data) != bytes)
		status = error_set(STATUS_DATA, "%s: not a list of labels", path);
	if (!status)
		status = parse_labels(data, labels);
	free(data);
	return status;
}

int classify_labels_read(const struct checkpoint *checkpoint, struct classify_labels *labels)
{
	char *path = path_join(checkpoint->path, CLASSIFY_LABELS_FILE);
	int status = path ? STATUS_OK : error_status();

	*labels = (struct classify_labels){0};
	if (!status && file_is_directory(checkpoint->path) && file_exists(path))
		status = classify_labels_load(path, labels);
	free(path);
	return status;
}

const char *classify_label(const struct classify_labels *labels, size_t class, char buffer[32])
{
	if (class < labels->count)
		return labels->name[class];
	snprintf(buffer, 32, "#%zu", class);
	return buffer;
}

int64_t classify_label_find(const struct classify_labels *labels, const char *name)
{
	for (size_t i = labels->count; i > 0;
		i--) /* of two equal ones the later counts, as in the original */
		if (!strcmp(labels->name[i - 1], name))
			return (int64_t)i - 1;
	return -1;
}

/* ---- sets ---- */

static int map_classes(struct classify_set *set, const struct classify_labels *labels)
{
	size_t count = video_set_label_count(set->videos);

	set->class = memory_new(count, sizeof *set->class);
	if (!set->class)
		return error_status();
	for (size_t i = 0; i < count; i++) {
		const char *name = video_set_label(set->videos, i);

		if (i < labels->count && !strcmp(labels->name[i], name))
			set->class[i] = (int64_t)i;
		else
			set->class[i] = labels->count ? classify_label_find(labels, name) : (int64_t)i;
	}
	for (size_t i = 0; i < video_set_count(set->videos); i++) {
		const struct video_sample *sample = video_set_sample(set->videos, i);

		if (sample->label >= 0 && set->class[sample->label] < 0)
			return error_set(STATUS_DATA,
				"dataset %s: %s has the label \"%s\", which is not among the run's %zu "
				"labels",
				set->name, sample->id, video_set_label(set->videos, (size_t)sample->label),
				labels->count);
	}
	return STATUS_OK;
}

static const char *subset_of(const struct config *config, const char *list, size_t i)
{
	const char *subset = config_group_text(config, list, i, "subset");

	if (!*config_group_text(config, list, i, "annotation"))
		return "";
	if (strcmp(subset, "auto") != 0)
		return subset;
	return strcmp(list, "data.train") ? "validation" : "training";
}

static void common_options(const struct config *config, struct video_options *options)
{
	options->flow = !strcmp(config_text(config, "model.input"), "flow");
	options->repeat_missing = !strcmp(config_text(config, "data.missing"), "nearest");
	options->scaled = config_bool(config, "clip.scaled_decoding");
}

int classify_set_open(struct classify_set *set, const struct run *run, const char *list, size_t i,
	const struct classify_labels *labels)
{
	const struct config *config = run->config;
	char *path = task_group_path(run, list, i);
	struct video_options options = {
		.layout = config_group_text(config, list, i, "layout"),
		.path = path,
		.annotation = config_group_text(config, list, i, "annotation"),
		.subset = subset_of(config, list, i),
		.untrimmed = config_group_bool(config, list, i, "untrimmed"),
	};
	int status = path ? STATUS_OK : error_status();

	*set = (struct classify_set){.name = config_group_text(config, list, i, "name"),
		.by_label = !*options.annotation,
		.weight = config_group_number(config, list, i, "weight")};
	options.name = set->name;
	common_options(config, &options);
	if (!status)
		status = video_set_open(&options, &set->videos);
	if (!status)
		status = map_classes(set, labels);
	free(path);
	return status;
}

int classify_set_open_path(struct classify_set *set, const struct run *run, const char *path)
{
	struct video_options options = {.name = path, .path = path};
	struct classify_labels none = {0};
	int status;

	*set = (struct classify_set){.name = path};
	if (!file_exists(path))
		return error_set(STATUS_NO_INPUT, "%s: no such video", path);
	common_options(run->config, &options);
	if (file_is_directory(path))
		options.layout = "frames";
	else
		options.layout = text_ends(path, ".hdf5") || text_ends(path, ".h5") ? "hdf5" : "video";
	status = video_set_open(&options, &set->videos);
	if (status == STATUS_NO_INPUT && !file_is_directory(path))
		return error_set(STATUS_NO_INPUT,
			"%s: its name does not end as a video's: .mp4, .webm, .avi, .mkv, .mov, .hdf5 or .h5",
			path);
	return status ? status : map_classes(set, &none);
}

void classify_set_close(struct classify_set *set)
{
	video_set_close(set->videos);
	free(set->class);
	*set = (struct classify_set){0};
}

void classify_set_warn(const struct classify_set *set)
{
	size_t dropped = video_set_dropped(set->videos);

	if (dropped)
		warn("dataset %s: %zu of %zu videos have no frames or are not there and are left out "
		     "(make-annotation check names them)",
			set->name, dropped, dropped + classify_set_count(set));
}

void classify_reader_free(struct video_reader *reader, uint64_t *replaced)
{
	*replaced += reader ? video_reader_repeated(reader) : 0;
	video_reader_free(reader);
}

void classify_warn_replaced(uint64_t replaced)
{
	if (replaced)
		warn("%llu times a frame was missing and the nearest one was taken (data.missing = nearest)",
			(unsigned long long)replaced);
}

size_t classify_set_count(const struct classify_set *set)
{
	return video_set_count(set->videos);
}

int64_t classify_set_class(const struct classify_set *set, size_t sample)
{
	int64_t label = video_set_sample(set->videos, sample)->label;

	return label < 0 ? -1 : set->class[label];
}

/* ---- names ---- */

void classify_set_sample_name(const struct classify_set *set, size_t i, struct text *name)
{
	const struct video_sample *sample = video_set_sample(set->videos, i);

	if (set->by_label && sample->label >= 0)
		text_format(name, "%s/", video_set_label(set->videos, (size_t)sample->label));
	text_add(name, sample->id);
}

/* What a name of a file may hold as it is; a dot at the front would hide it. */
static bool is_plain(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       (!first && (c == '.' || c == '-'));
}

char *classify_set_stem(const struct classify_set *set, size_t sample)
{
	struct text name = {0}, stem = {0};

	classify_set_sample_name(set, sample, &name);
	for (const char *at = name.data; at && *at; at++) {
		if (is_plain(*at, at == name.data))
			text_append(&stem, at, 1);
		else
			text_format(&stem, "%%%02X", (unsigned char)*at);
	}
	stem.failed = stem.failed || name.failed;
	text_release(&name);
	return text_take(&stem);
}

void classify_set_describe(const struct run *run, const char *list, size_t i, struct text *text)
{
	const struct config *config = run->config;

	text_format(text, " layout %s path ", config_group_text(config, list, i, "layout"));
	text_field(text, config_group_text(config, list, i, "path"));
	text_add(text, " annotation ");
	text_field(text, *config_group_text(config, list, i, "annotation")
				 ? config_group_text(config, list, i, "annotation")
				 : "-");
	text_format(text, " subset %s%s", *subset_of(config, list, i) ? subset_of(config, list, i) : "-",
		config_group_bool(config, list, i, "untrimmed") ? " untrimmed" : "");
}
