/* Annotations as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "data/video_list.h"

/* One escape, with lower-case digits as the original's writer has them; *c goes to its last character. */
static void add_escape(struct text *out, const char **c)
{
	text_append(out, (*c)++, 1);
	text_append(out, *c, 1);
	if (**c != 'u')
		return;
	for (int i = 0; i < 4 && (*c)[1]; i++) {
		char digit = *++*c;

		if (digit >= 'A' && digit <= 'F')
			digit = (char)(digit - 'A' + 'a');
		text_append(out, &digit, 1);
	}
}

/* A number; one with a fraction in the fewest digits that read back equal. *c goes to its last character. */
static void add_number(struct text *out, const char **c)
{
	char digits[32];
	size_t length = strspn(*c, "0123456789+-.eE"), start = out->length;
	double value;

	snprintf(digits, sizeof digits, "%.*s", (int)length, *c);
	if (length < sizeof digits && strpbrk(digits, ".eE") && text_to_double(digits, &value)) {
		text_number(out, value);
		if (!out->failed && !strpbrk(out->data + start, ".e"))
			text_add(out, ".0");
	} else {
		text_append(out, *c, length);
	}
	*c += length - 1;
}

static void add_json(struct text *out, const char *json)
{
	bool quoted = false;

	for (const char *c = json; *c; c++) {
		if (quoted && *c == '\\') {
			add_escape(out, &c);
		} else if (!quoted && (*c == '-' || (*c >= '0' && *c <= '9'))) {
			add_number(out, &c);
		} else {
			quoted ^= *c == '"';
			text_append(out, c, 1);
		}
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

int video_json_write(const json_t *root, struct text *out)
{
	char *json = json_dumps(root, JSON_ENSURE_ASCII);

	if (!json)
		return error_set(STATUS_DATA, "an id or class name is not UTF-8; rename it");
	add_json(out, json);
	free(json);
	return text_check(out);
}

int video_annotation_write(const struct video_annotation *annotation, struct text *out)
{
	json_t *root = json_object(), *labels = json_array(), *database = json_object();
	int bad = json_object_set_new(root, "labels", labels), status;

	bad |= json_object_set_new(root, "database", database);
	for (size_t i = 0; !bad && i < annotation->labels.count; i++)
		bad = json_array_append_new(labels, json_string(annotation->labels.name[i]));
	for (size_t i = 0; !bad && i < annotation->count; i++)
		bad = json_object_set_new(
			database, annotation->entry[i].id, entry_value(annotation, &annotation->entry[i]));
	status = bad ? error_set(STATUS_DATA, "an id or class name is not UTF-8; rename it")
		     : video_json_write(root, out);
	json_decref(root);
	return status;
}
