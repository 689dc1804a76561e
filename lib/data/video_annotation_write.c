/* Annotations as JSON. */
#include <stdlib.h>

#include <jansson.h>

#include "base/error.h"
#include "data/video_list.h"

/* The escapes of the original's writer have lower-case digits, jansson's have not. */
static void add_lower(struct text *out, const char *json)
{
	for (const char *c = json; *c; c++) {
		text_append(out, c, 1);
		if (*c != '\\')
			continue;
		text_append(out, ++c, 1);
		for (int i = 0; *c == 'u' && i < 4 && c[1 + i]; i++) {
			char digit = c[1 + i];

			if (digit >= 'A' && digit <= 'F')
				digit = (char)(digit - 'A' + 'a');
			text_append(out, &digit, 1);
		}
		if (*c == 'u')
			c += 4;
	}
}

static json_t *entry_value(const struct video_annotation *annotation, const struct video_entry *entry)
{
	json_t *marks = json_object(), *value = json_object();
	int bad = json_object_set_new(
		value, "subset", json_string(entry->subset < 0 ? "" : video_subset_names[entry->subset]));

	if (entry->label >= 0)
		bad |= json_object_set_new(
			marks, "label", json_string(annotation->labels.name[entry->label]));
	if (entry->numbered)
		bad |= json_object_set_new(marks, "segment",
			json_pack("[I, I]", (json_int_t)entry->first, (json_int_t)entry->end));
	bad |= json_object_set_new(value, "annotations", marks);
	if (entry->path)
		bad |= json_object_set_new(value, "video_path", json_string(entry->path));
	if (!bad)
		return value;
	json_decref(value);
	return NULL;
}

int video_annotation_write(const struct video_annotation *annotation, struct text *out)
{
	json_t *root = json_object(), *labels = json_array(), *database = json_object();
	int bad = json_object_set_new(root, "labels", labels);
	char *json;

	bad |= json_object_set_new(root, "database", database);
	for (size_t i = 0; !bad && i < annotation->labels.count; i++)
		bad = json_array_append_new(labels, json_string(annotation->labels.name[i]));
	for (size_t i = 0; !bad && i < annotation->count; i++)
		bad = json_object_set_new(
			database, annotation->entry[i].id, entry_value(annotation, &annotation->entry[i]));
	json = bad ? NULL : json_dumps(root, JSON_ENSURE_ASCII);
	json_decref(root);
	if (!json)
		return error_set(STATUS_DATA, "an id or class name is not UTF-8; rename it");
	add_lower(out, json);
	free(json);
	return text_check(out);
}
