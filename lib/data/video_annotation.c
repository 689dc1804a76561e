/* Annotation files. */
#include "data/video_annotation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#define FRAMES_LIMIT (INT64_C(1) << 40) /* numbers beyond are no frame numbers */

const char *const video_subset_names[3] = {"training", "validation", "testing"};

int video_subset_find(const char *word)
{
	static const char *const short_names[3] = {"train", "val", "test"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(word, video_subset_names[i]) || !strcmp(word, short_names[i]))
			return i;
	return -1;
}

void video_annotation_release(struct video_annotation *annotation)
{
	for (size_t i = 0; i < annotation->count; i++) {
		free(annotation->entry[i].id);
		free(annotation->entry[i].video);
		free(annotation->entry[i].path);
	}
	free(annotation->entry);
	names_release(&annotation->labels);
	*annotation = (struct video_annotation){0};
}

struct video_entry *video_annotation_add(struct video_annotation *annotation, const char *id)
{
	struct video_entry *entry;

	if (memory_grow(&annotation->entry, &annotation->capacity, annotation->count + 1, sizeof *entry))
		return NULL;
	entry = &annotation->entry[annotation->count];
	*entry = (struct video_entry){.id = memory_text(id), .label = -1, .subset = -1, .to = -1};
	if (!entry->id)
		return NULL;
	annotation->count++;
	return entry;
}

/* ---- the form of Kinetics ---- */

static int read_labels(const json_t *list, struct names *labels)
{
	if (!json_is_array(list))
		return error_set(STATUS_DATA, "\"labels\" is not a list");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name)
			return error_set(STATUS_DATA, "\"labels\": number %zu is no text", i);
		if (names_add(labels, name))
			return error_status();
	}
	return STATUS_OK;
}

static int read_segment(const json_t *segment, struct video_entry *entry)
{
	const json_t *first = json_array_get(segment, 0), *end = json_array_get(segment, 1);

	if (json_array_size(segment) != 2 || !json_is_integer(first) || !json_is_integer(end))
		return error_set(STATUS_DATA, "\"segment\" is not two whole numbers");
	entry->first = json_integer_value(first);
	entry->end = json_integer_value(end);
	if (entry->first < 0 || entry->end < entry->first || entry->end > FRAMES_LIMIT)
		return error_set(STATUS_DATA, "\"segment\" [%lld, %lld] is no range of frames",
			(long long)entry->first, (long long)entry->end);
	entry->numbered = true;
	return STATUS_OK;
}

static int read_label(const json_t *name, const struct video_index *labels, int64_t *label)
{
	const char *text = json_string_value(name);

	if (!text)
		return error_set(STATUS_DATA, "\"label\" is no text");
	*label = video_index_find(labels, text);
	return *label >= 0 ? STATUS_OK
			   : error_set(STATUS_DATA, "the label \"%s\" is not among the labels", text);
}

static int read_subset(const json_t *value, struct video_entry *entry)
{
	const char *subset = json_string_value(json_object_get(value, "subset"));

	if (!subset)
		return error_set(STATUS_DATA, "\"subset\" is missing");
	entry->subset = video_subset_find(subset);
	return STATUS_OK;
}

static int read_entry(const char *id, const json_t *value, const struct video_index *labels,
	struct video_annotation *annotation)
{
	const json_t *marks = json_object_get(value, "annotations"), *part;
	struct video_entry *entry = video_annotation_add(annotation, id);
	int status = entry ? read_subset(value, entry) : error_status();

	if (!status && !json_is_object(marks))
		status = error_set(STATUS_DATA, "\"annotations\" is missing");
	if (!status && (part = json_object_get(marks, "label")))
		status = read_label(part, labels, &entry->label);
	if (!status && (part = json_object_get(marks, "segment")))
		status = read_segment(part, entry);
	if (!status && (part = json_object_get(value, "video_path"))) {
		if (!json_is_string(part))
			return error_set(STATUS_DATA, "\"video_path\" is no text");
		entry->path = memory_text(json_string_value(part));
		status = entry->path ? STATUS_OK : error_status();
	}
	return status;
}

/* ---- ActivityNet's form ---- */

/* Classes are nodes that are nobody's parent. */
static int read_taxonomy(const json_t *taxonomy, struct names *labels)
{
	struct names parents = {0};
	struct video_index index = {0};
	int status = STATUS_OK;

	if (!json_is_array(taxonomy))
		return error_set(STATUS_DATA, "\"taxonomy\" is not a list");
	for (size_t i = 0; !status && i < json_array_size(taxonomy); i++) {
		const json_t *parent = json_object_get(json_array_get(taxonomy, i), "parentName");

		if (json_is_string(parent))
			status = names_add(&parents, json_string_value(parent));
	}
	if (!status)
		status = video_index_init(&index, parents.count, video_names_get, &parents);
	for (size_t i = 0; !status && i < json_array_size(taxonomy); i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(taxonomy, i), "nodeName"));

		if (!name)
			status = error_set(STATUS_DATA, "\"taxonomy\": number %zu has no nodeName", i);
		else if (video_index_find(&index, name) < 0)
			status = names_add(labels, name);
	}
	video_index_release(&index);
	names_release(&parents);
	return status;
}

static int read_seconds(const json_t *segment, struct video_entry *entry)
{
	entry->from = json_number_value(json_array_get(segment, 0));
	entry->to = json_number_value(json_array_get(segment, 1));
	if (json_array_size(segment) != 2 || !json_is_number(json_array_get(segment, 0)) ||
		!json_is_number(json_array_get(segment, 1)) || !(entry->from >= 0) ||
		!(entry->to >= entry->from) || entry->to > 1e9)
		return error_set(STATUS_DATA, "\"segment\" is not two times in seconds");
	return STATUS_OK;
}

static int read_event(const char *id, size_t number, const json_t *value, const json_t *event,
	const struct video_index *labels, struct video_annotation *annotation)
{
	const json_t *fps = json_object_get(value, "fps");
	struct text name = {0};
	struct video_entry *entry = NULL;
	int status;

	text_format(&name, "%s_%zu", id, number);
	status = text_check(&name);
	if (!status)
		entry = video_annotation_add(annotation, name.data);
	text_release(&name);
	if (!entry)
		return error_status();
	entry->fps = json_number_value(fps);
	entry->video = memory_text(id);
	status = entry->video ? read_subset(value, entry) : error_status();
	if (!status && !(entry->fps > 0 && entry->fps <= 1e6))
		status = error_set(
			STATUS_DATA, "\"fps\" is missing (make-annotation activitynet puts it there)");
	if (!status)
		status = read_label(json_object_get(event, "label"), labels, &entry->label);
	return status ? status : read_seconds(json_object_get(event, "segment"), entry);
}

static int read_untrimmed(const char *id, const json_t *value, struct video_annotation *annotation)
{
	struct video_entry *entry = video_annotation_add(annotation, id);

	return entry ? read_subset(value, entry) : error_status();
}

static int read_activity(const char *id, const json_t *value, bool untrimmed,
	const struct video_index *labels, struct video_annotation *annotation)
{
	const json_t *events = json_object_get(value, "annotations");
	int status = STATUS_OK;

	if (untrimmed)
		return read_untrimmed(id, value, annotation);
	if (!json_is_array(events))
		return error_set(STATUS_DATA, "\"annotations\" is not a list");
	for (size_t i = 0; !status && i < json_array_size(events); i++)
		status = read_event(id, i, value, json_array_get(events, i), labels, annotation);
	return status;
}

/* ---- files ---- */

static int read_database(json_t *database, bool untrimmed, struct video_annotation *annotation)
{
	struct video_index labels = {0};
	int status =
		video_index_init(&labels, annotation->labels.count, video_names_get, &annotation->labels);
	const char *id;
	json_t *value;

	if (!status && !json_is_object(database))
		status = error_set(STATUS_DATA, "\"database\" is not there");
	if (status) {
		video_index_release(&labels);
		return status;
	}
	json_object_foreach(database, id, value)
	{
		status = annotation->activitynet ? read_activity(id, value, untrimmed, &labels, annotation)
						 : read_entry(id, value, &labels, annotation);
		if (status) {
			error_prefix("entry \"%s\"", id);
			break;
		}
	}
	video_index_release(&labels);
	return status;
}

static int read_root(json_t *root, bool untrimmed, struct video_annotation *annotation)
{
	const json_t *labels = json_object_get(root, "labels"), *taxonomy = json_object_get(root, "taxonomy");
	int status;

	if (!json_is_object(root) || (!labels && !taxonomy))
		return error_set(STATUS_DATA, "no annotation: an object with \"labels\" (or \"taxonomy\") "
					      "and \"database\" is expected");
	annotation->activitynet = !labels;
	if (untrimmed && labels)
		return error_set(STATUS_CONFIG, "untrimmed is for ActivityNet's annotations");
	status = labels ? read_labels(labels, &annotation->labels)
			: read_taxonomy(taxonomy, &annotation->labels);
	return status ? status : read_database(json_object_get(root, "database"), untrimmed, annotation);
}

int video_annotation_read(const char *path, bool untrimmed, struct video_annotation *annotation)
{
	char *data = NULL;
	size_t bytes = 0;
	json_error_t error;
	json_t *root;
	int status = file_read(path, VIDEO_ANNOTATION_LIMIT, &data, &bytes);

	*annotation = (struct video_annotation){0};
	if (status)
		return status;
	root = json_loadb(data, bytes, 0, &error);
	free(data);
	if (!root)
		return error_set(STATUS_DATA, "%s:%d: no JSON: %s", path, error.line, error.text);
	status = read_root(root, untrimmed, annotation);
	json_decref(root);
	if (status) {
		error_prefix("%s", path);
		video_annotation_release(annotation);
	}
	return status;
}
