/* Small flat files: "key = value;" and "key value". */
#include "run/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { LIST_LIMIT = 1 << 20 };

void fields_release(struct fields *fields)
{
	free(fields->path);
	free(fields->data);
	free(fields->item);
	*fields = (struct fields){0};
}

static char *skip_spaces(char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static size_t key_length(const char *at)
{
	return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* Takes one line apart; false when it is no field. */
static bool split_line(char *line, enum fields_notation notation, struct field *field)
{
	field->key = skip_spaces(line);
	size_t length = key_length(field->key);
	char *end = field->key + length;
	if (!length)
		return false;
	char *value = skip_spaces(end);
	if (notation == FIELDS_CFG) {
		if (*value != '=')
			return false;
		value = skip_spaces(value + 1);
		size_t bytes = strlen(value);
		if (bytes < 2 || value[bytes - 1] != ';')
			return false;
		value[bytes - 1] = 0;
	} else if (value == end || !*value) {
		return false;
	}
	*end = 0;
	field->value = value;
	return true;
}

static int add_line(struct fields *fields, char *line, int number, enum fields_notation notation)
{
	struct field field = {.line = number};
	char *start = skip_spaces(line);
	if (!*start || *start == '#')
		return STATUS_OK;
	if (!split_line(line, notation, &field))
		return error_set(STATUS_DATA, "%s:%d: not a line \"%s\"", fields->path, number,
			notation == FIELDS_CFG ? "key = value;" : "key value");
	if (fields_has(fields, field.key))
		return error_set(STATUS_DATA, "%s:%d: %.64s stands twice", fields->path, number, field.key);
	if (memory_grow(&fields->item, &fields->capacity, fields->count + 1, sizeof *fields->item))
		return error_status();
	fields->item[fields->count++] = field;
	return STATUS_OK;
}

int fields_take(
	const char *path, char *data, size_t bytes, enum fields_notation notation, struct fields *fields)
{
	*fields = (struct fields){.path = memory_text(path), .notation = notation, .data = data};
	int status = fields->path ? STATUS_OK : error_status(), number = 0;
	if (!status && memchr(data, 0, bytes))
		status = error_set(STATUS_DATA, "%s: holds a NUL byte", path);
	/* A file that was cut has no newline at its end. */
	if (!status && (!bytes || data[bytes - 1] != '\n'))
		status = error_set(STATUS_DATA, "%s: does not end with a newline", path);
	for (char *line = data; !status && *line;) {
		char *end = strchr(line, '\n');
		*end = 0;
		status = add_line(fields, line, ++number, notation);
		line = end + 1;
	}
	if (status)
		fields_release(fields);
	return status;
}

int fields_read(const char *path, size_t limit, enum fields_notation notation, struct fields *fields)
{
	char *data;
	size_t bytes;
	*fields = (struct fields){0};
	if (file_read(path, limit, &data, &bytes))
		return error_status();
	return fields_take(path, data, bytes, notation, fields);
}

static const struct field *find(const struct fields *fields, const char *key)
{
	for (size_t i = 0; i < fields->count; i++)
		if (!strcmp(fields->item[i].key, key))
			return &fields->item[i];
	return NULL;
}

bool fields_has(const struct fields *fields, const char *key)
{
	return find(fields, key) != NULL;
}

/* The field, or NULL with a message. */
static const struct field *require(const struct fields *fields, const char *key)
{
	const struct field *field = find(fields, key);
	if (!field)
		error_set(STATUS_DATA, "%s: has no %s", fields->path, key);
	return field;
}

static int wrong(const struct fields *fields, const struct field *field, const char *expected)
{
	return error_set(STATUS_DATA, "%s:%d: %s is not %s", fields->path, field->line, field->key, expected);
}

int fields_integer(
	const struct fields *fields, const char *key, int64_t minimum, int64_t maximum, int64_t *value)
{
	const struct field *field = require(fields, key);
	int64_t number;
	if (!field)
		return error_status();
	if (!text_to_int64(field->value, &number))
		return wrong(fields, field, "an integer");
	if (number < minimum || number > maximum)
		return error_set(STATUS_DATA, "%s:%d: %s is out of range", fields->path, field->line, key);
	*value = number;
	return STATUS_OK;
}

int fields_number(const struct fields *fields, const char *key, double *value)
{
	const struct field *field = require(fields, key);
	if (!field)
		return error_status();
	return text_to_double(field->value, value) ? STATUS_OK : wrong(fields, field, "a number");
}

/* One quoted text at *at, which moves behind it; false when it is none. */
static bool take_quoted(const char **at, struct text *out)
{
	const char *p = *at;
	if (*p++ != '"')
		return false;
	for (; *p && *p != '"'; p++) {
		char c = *p;
		if (c == '\\') {
			c = *++p;
			if (c != '"' && c != '\\' && c != 'n' && c != 't')
				return false;
			c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
		}
		text_append(out, &c, 1);
	}
	if (*p != '"')
		return false;
	*at = p + 1;
	return true;
}

/* One item of a list, quoted or plain. */
static bool take_item(const char **at, bool quoted, struct text *out)
{
	text_clear(out);
	*at += strspn(*at, " \t");
	if (quoted) {
		if (!take_quoted(at, out))
			return false;
	} else {
		size_t length = strcspn(*at, ",] \t");
		if (!length)
			return false;
		text_append(out, *at, length);
		*at += length;
	}
	*at += strspn(*at, " \t");
	return !text_check(out);
}

/* Calls add(context, item) for each item of "[a, b, c]". */
static int each_item(const struct fields *fields, const struct field *field, bool quoted,
	int (*add)(void *context, const struct text *item), void *context)
{
	struct text item = {0};
	const char *at = field->value;
	int status = STATUS_OK;
	size_t count = 0;
	if (*at++ != '[')
		return wrong(fields, field, "a list");
	at += strspn(at, " \t");
	while (*at != ']' || count) {
		if (!take_item(&at, quoted, &item) || count++ >= LIST_LIMIT)
			status = wrong(fields, field, "a list of such values");
		if (!status)
			status = add(context, &item) ? wrong(fields, field, "a list of such values")
						     : STATUS_OK;
		if (status || *at != ',')
			break;
		at++;
	}
	if (!status && (at[0] != ']' || at[1]))
		status = wrong(fields, field, "a list");
	text_release(&item);
	return status;
}

int fields_text(const struct fields *fields, const char *key, char *buffer, size_t size)
{
	const struct field *field = require(fields, key);
	struct text value = {0};
	if (!field)
		return error_status();
	const char *at = field->value;
	int status = STATUS_OK;
	if (fields->notation == FIELDS_WORDS)
		text_add(&value, at);
	else if (!take_quoted(&at, &value) || *at)
		status = wrong(fields, field, "a text");
	if (!status)
		status = text_check(&value);
	if (!status && value.length >= size)
		status = wrong(fields, field, "short enough");
	if (!status)
		memcpy(buffer, value.data ? value.data : "", value.length + 1);
	text_release(&value);
	return status;
}

struct number_list {
	double *values;
	size_t count, capacity;
};

static int add_number(void *context, const struct text *item)
{
	struct number_list *list = context;
	if (memory_grow(&list->values, &list->capacity, list->count + 1, sizeof *list->values))
		return error_status();
	return text_to_double(item->data, &list->values[list->count++]) ? STATUS_OK : STATUS_DATA;
}

int fields_numbers(const struct fields *fields, const char *key, double **values, size_t *count)
{
	const struct field *field = require(fields, key);
	struct number_list list = {0};
	if (!field)
		return error_status();
	int status = each_item(fields, field, false, add_number, &list);
	if (status) {
		free(list.values);
		return status;
	}
	*values = list.values;
	*count = list.count;
	return STATUS_OK;
}

struct integer_list {
	int64_t *values;
	size_t count, capacity;
};

static int add_integer(void *context, const struct text *item)
{
	struct integer_list *list = context;
	if (memory_grow(&list->values, &list->capacity, list->count + 1, sizeof *list->values))
		return error_status();
	return text_to_int64(item->data, &list->values[list->count++]) ? STATUS_OK : STATUS_DATA;
}

int fields_integers(const struct fields *fields, const char *key, int64_t **values, size_t *count)
{
	const struct field *field = require(fields, key);
	struct integer_list list = {0};
	if (!field)
		return error_status();
	int status = each_item(fields, field, false, add_integer, &list);
	if (status) {
		free(list.values);
		return status;
	}
	*values = list.values;
	*count = list.count;
	return STATUS_OK;
}

static int add_text(void *context, const struct text *item)
{
	return names_add(context, item->data ? item->data : "");
}

int fields_texts(const struct fields *fields, const char *key, struct names *values)
{
	const struct field *field = require(fields, key);
	*values = (struct names){0};
	if (!field)
		return error_status();
	int status = each_item(fields, field, true, add_text, values);
	if (status)
		names_release(values);
	return status;
}

void fields_put_integer(struct text *text, const char *key, int64_t value)
{
	text_format(text, "%s = %lld;\n", key, (long long)value);
}

void fields_put_number(struct text *text, const char *key, double value)
{
	text_format(text, "%s = ", key);
	text_number(text, value);
	text_add(text, ";\n");
}

void fields_put_quoted(struct text *text, const char *value)
{
	text_add(text, "\"");
	for (const char *p = value; *p; p++) {
		const char *escape = *p == '"'    ? "\\\""
				     : *p == '\\' ? "\\\\"
				     : *p == '\n' ? "\\n"
				     : *p == '\t' ? "\\t"
						  : NULL;
		text_append(text, escape ? escape : p, escape ? 2 : 1);
	}
	text_add(text, "\"");
}

void fields_put_text(struct text *text, const char *key, const char *value)
{
	text_format(text, "%s = ", key);
	fields_put_quoted(text, value);
	text_add(text, ";\n");
}

void fields_put_numbers(struct text *text, const char *key, const double *values, size_t count)
{
	text_format(text, "%s = [", key);
	for (size_t i = 0; i < count; i++) {
		text_add(text, i ? ", " : "");
		text_number(text, values[i]);
	}
	text_add(text, "];\n");
}
