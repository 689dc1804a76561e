#include "config/syntax.h"

#include <libconfig.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "config/scan.h"

const char *const syntax_list_names[SYNTAX_LISTS] = {"data.train", "data.val", "data.vis", "data.test"};

void assignments_release(struct assignments *assignments)
{
	for (size_t i = 0; i < assignments->count; i++) {
		struct assignment *item = &assignments->item[i];
		free(item->key);
		free(item->group);
		free(item->field);
		free(item->source);
		free(item->directory);
		literal_release(&item->value);
	}
	free(assignments->item);
	memset(assignments, 0, sizeof *assignments);
}

bool syntax_name_valid(const char *name)
{
	size_t length = strlen(name);
	/* It names directories: "." and ".." are others' already. */
	return length >= 1 && length <= 64 && name[0] != '.' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static int list_of_key(const char *key)
{
	for (int list = 0; list < SYNTAX_LISTS; list++)
		if (strcmp(key, syntax_list_names[list]) == 0)
			return list;
	return SYNTAX_NO_LIST;
}

/* ===== reading one file ===== */

struct reader {
	struct assignments *out;
	bool alone;
	const char *stack[SYNTAX_INCLUDES + 1]; /* absolute names of the files being read */
	int depth;
};
/* The file that is being read now. */
struct source {
	struct reader *reader;
	const char *path;
	char *directory;
	int file;
	bool format_seen;
};

static int source_fail(
	const struct source *source, const config_setting_t *setting, const char *format, const char *name)
{
	struct text message = {0};
	text_format(&message, "%s:%u: ", source->path, config_setting_source_line(setting));
	text_format(&message, format, name);
	int status = error_set(STATUS_CONFIG, "%s", message.data ? message.data : source->path);
	text_release(&message);
	return status;
}

static int literal_from_setting(
	const struct source *source, const config_setting_t *setting, struct literal *literal)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_BOOL:
		literal->kind = LITERAL_BOOL;
		literal->integer = config_setting_get_bool(setting) != 0;
		return STATUS_OK;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		literal->kind = LITERAL_INTEGER;
		literal->integer = config_setting_get_int64(setting);
		return STATUS_OK;
	case CONFIG_TYPE_FLOAT:
		literal->kind = LITERAL_FLOAT;
		literal->number = config_setting_get_float(setting);
		return STATUS_OK;
	case CONFIG_TYPE_STRING:
		literal->kind = LITERAL_STRING;
		literal->text = memory_text(config_setting_get_string(setting));
		return literal->text ? STATUS_OK : error_status();
	case CONFIG_TYPE_LIST:
		break;
	default:
		return source_fail(source, setting, "%s", "a group stands where a value must be");
	}
	int count = config_setting_length(setting), status = STATUS_OK;
	literal->kind = LITERAL_LIST;
	literal->member = memory_new((size_t)count, sizeof *literal->member);
	if (!literal->member)
		return error_status();
	literal->count = (size_t)count;
	for (int i = 0; i < count && !status; i++)
		status = literal_from_setting(
			source, config_setting_get_elem(setting, (unsigned)i), &literal->member[i]);
	return status;
}

/* Adds an assignment of this place without a value; NULL with a message. */
static struct assignment *add(const struct source *source, const config_setting_t *setting, const char *key)
{
	struct assignments *out = source->reader->out;
	struct text place = {0};
	if (memory_grow(&out->item, &out->capacity, out->count + 1, sizeof *out->item))
		return NULL;
	struct assignment *item = &out->item[out->count++];
	text_format(&place, "%s:%u", source->path, config_setting_source_line(setting));
	item->list = SYNTAX_NO_LIST;
	item->file = source->file;
	item->plain = source->reader->alone;
	item->key = memory_text(key);
	item->source = text_take(&place);
	item->directory = memory_text(source->directory);
	return item->key && item->source && item->directory ? item : NULL;
}

/* An assignment in a list of data groups; group and field may be NULL. */
static struct assignment *add_in_list(const struct source *source, const config_setting_t *setting, int list,
	const char *group, const char *field)
{
	struct text key = {0};
	text_add(&key, syntax_list_names[list]);
	if (group)
		text_format(&key, ".%s", group);
	if (field)
		text_format(&key, ".%s", field);
	struct assignment *item = text_check(&key) ? NULL : add(source, setting, key.data);
	text_release(&key);
	if (!item)
		return NULL;
	item->list = list;
	item->value.kind = LITERAL_GROUP;
	item->group = group ? memory_text(group) : NULL;
	item->field = field ? memory_text(field) : NULL;
	return (group && !item->group) || (field && !item->field) ? NULL : item;
}

static int add_data_group(
	const struct source *source, const config_setting_t *setting, int list, const char *name)
{
	if (!syntax_name_valid(name))
		return source_fail(source, setting,
			"a dataset's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot, "
			"not '%.80s'",
			name);
	if (!add_in_list(source, setting, list, name, NULL))
		return error_status();
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *field = config_setting_get_elem(setting, (unsigned)i);
		if (setting->name == NULL && strcmp(config_setting_name(field), "name") == 0)
			continue;
		struct assignment *item = add_in_list(source, field, list, name, config_setting_name(field));
		int status = item ? literal_from_setting(source, field, &item->value) : error_status();
		if (status)
			return status;
	}
	return STATUS_OK;
}

/* data.train = ( { name = "a"; ... }, ... ): the list anew. data.train: { a: { ... } }: fields of groups by
 * name. */
static int add_data_list(const struct source *source, const config_setting_t *setting, int list)
{
	bool named = config_setting_is_group(setting);
	if (!named && !config_setting_is_list(setting))
		return source_fail(source, setting,
			"%s is a list of groups: ( { name = \"...\"; ... }, ... )", syntax_list_names[list]);
	if (!named && !add_in_list(source, setting, list, NULL, NULL))
		return error_status();
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *group = config_setting_get_elem(setting, (unsigned)i);
		if (!config_setting_is_group(group))
			return source_fail(source, group, "%s holds groups: { name = \"...\"; ... }",
				syntax_list_names[list]);
		const char *name = named ? config_setting_name(group) : NULL;
		if (!named && !config_setting_lookup_string(group, "name", &name))
			return source_fail(source, group, "a group of %s has no name = \"...\"",
				syntax_list_names[list]);
		int status = add_data_group(source, group, list, name);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static int check_format(struct source *source, const config_setting_t *setting)
{
	long long format = config_setting_type(setting) == CONFIG_TYPE_INT ||
					   config_setting_type(setting) == CONFIG_TYPE_INT64
				   ? config_setting_get_int64(setting)
				   : 0;
	if (format > SYNTAX_FORMAT)
		return error_set(STATUS_CONFIG,
			"%s:%u: format = %lld: made by a newer version (this one knows %d)", source->path,
			config_setting_source_line(setting), format, SYNTAX_FORMAT);
	if (format != SYNTAX_FORMAT)
		return source_fail(source, setting, "%s", "format must be 1");
	source->format_seen = true;
	return STATUS_OK;
}

static int add_setting(struct source *source, const config_setting_t *setting, const char *key);

static int add_settings(struct source *source, const config_setting_t *group, const char *prefix)
{
	int status = STATUS_OK;
	for (int i = 0; i < config_setting_length(group) && !status; i++) {
		const config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
		struct text key = {0};
		text_format(&key, "%s%s%s", prefix, *prefix ? "." : "", config_setting_name(setting));
		status = text_check(&key);
		if (!status)
			status = add_setting(source, setting, key.data);
		text_release(&key);
	}
	return status;
}

static int add_setting(struct source *source, const config_setting_t *setting, const char *key)
{
	int list = list_of_key(key);
	if (list != SYNTAX_NO_LIST)
		return add_data_list(source, setting, list);
	if (strcmp(key, "format") == 0)
		return check_format(source, setting);
	if (config_setting_is_group(setting))
		return add_settings(source, setting, key);
	struct assignment *item = add(source, setting, key);
	return item ? literal_from_setting(source, setting, &item->value) : error_status();
}

/* libconfig converts numbers by the locale, which no program of ours sets. */
static int parse_segment(struct source *source, const struct text *text)
{
	config_t config;
	int status;
	config_init(&config);
	if (config_read_string(&config, text->data ? text->data : ""))
		status = add_settings(source, config_root_setting(&config), "");
	else
		status = error_set(STATUS_CONFIG, "%s:%d: %s", source->path, config_error_line(&config),
			config_error_text(&config));
	config_destroy(&config);
	return status;
}

/* ===== files in files ===== */

static int read_path(struct reader *reader, const char *path);

static int read_include(struct source *source, int line, const char *name)
{
	if (source->reader->alone)
		return error_set(STATUS_CONFIG, "%s:%d: the configuration of a run includes no other file",
			source->path, line);
	char *path = path_join(source->directory, name);
	int status = path ? read_path(source->reader, path) : error_status();
	if (status)
		status = error_prefix("%s:%d", source->path, line);
	free(path);
	return status;
}

/* A newer format may have a syntax that this version cannot read: its first line says so before anything else
 * is looked at. */
static int check_first_line(const char *path, const char *data)
{
	char line[64];
	int64_t format;
	size_t length = strcspn(data, ";\n");
	if (!text_starts(data, "format = ") || data[length] != ';' || length >= sizeof line)
		return STATUS_OK;
	memcpy(line, data, length);
	line[length] = 0;
	if (text_to_int64(line + strlen("format = "), &format) && format > SYNTAX_FORMAT)
		return error_set(STATUS_CONFIG, "%s:1: %s: made by a newer version (this one knows %d)", path,
			line, SYNTAX_FORMAT);
	return STATUS_OK;
}

static int read_text(struct source *source, const char *data, size_t bytes)
{
	struct scan scan;
	char *include = NULL;
	int status = check_first_line(source->path, data);
	scan_start(&scan, source->path, data, bytes);
	do {
		free(include);
		include = NULL;
		if (!status)
			status = scan_segment(&scan, &include);
		if (!status)
			status = parse_segment(source, &scan.out);
		if (!status && include)
			status = read_include(source, scan.line, include);
	} while (!status && include);
	if (!status && source->reader->alone && !source->format_seen)
		status = error_set(
			STATUS_CONFIG, "%s: the line format = %d; is missing", source->path, SYNTAX_FORMAT);
	free(include);
	text_release(&scan.out);
	return status;
}

static int enter(struct reader *reader, const char *absolute)
{
	for (int i = 0; i < reader->depth; i++)
		if (strcmp(reader->stack[i], absolute) == 0)
			return error_set(STATUS_CONFIG, "%s includes itself", absolute);
	if (reader->depth > SYNTAX_INCLUDES)
		return error_set(STATUS_CONFIG, "files are included %d deep", SYNTAX_INCLUDES);
	reader->stack[reader->depth++] = absolute;
	return STATUS_OK;
}

static int read_path(struct reader *reader, const char *path)
{
	struct source source = {.reader = reader, .path = path, .file = reader->out->files++};
	char *absolute = path_absolute(path), *data = NULL;
	size_t bytes = 0;
	int status = absolute ? enter(reader, absolute) : error_status();
	if (status) {
		free(absolute);
		return status;
	}
	source.directory = path_directory(absolute);
	status = source.directory ? file_read(path, SYNTAX_FILE_BYTES, &data, &bytes) : error_status();
	if (!status)
		status = read_text(&source, data, bytes);
	reader->depth--;
	free(data);
	free(source.directory);
	free(absolute);
	return status;
}

int syntax_read(const char *path, bool alone, struct assignments *assignments)
{
	struct reader reader = {.out = assignments, .alone = alone};
	return read_path(&reader, path);
}

/* ===== words ===== */

/* data.train.NAME.field, where NAME may hold dots. */
static int split_data_key(struct assignment *item, const char *source)
{
	const char *name = item->key + strlen(syntax_list_names[item->list]) + 1;
	const char *dot = strrchr(name, '.');
	if (!dot || !dot[1])
		return error_set(STATUS_CONFIG, "%s: '%s': write %s.NAME.FIELD=VALUE", source, item->key,
			syntax_list_names[item->list]);
	item->field = memory_text(dot + 1);
	item->group = memory_text(name);
	if (!item->field || !item->group)
		return error_status();
	item->group[dot - name] = 0;
	if (!syntax_name_valid(item->group))
		return error_set(STATUS_CONFIG,
			"%s: a dataset's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a "
			"dot, not '%.80s'",
			source, item->group);
	return STATUS_OK;
}

static int word_in_list(struct assignment *item, const char *source, const char *value)
{
	for (int list = 0; list < SYNTAX_LISTS; list++) {
		size_t length = strlen(syntax_list_names[list]);
		if (strncmp(item->key, syntax_list_names[list], length) != 0 ||
			(item->key[length] != '.' && item->key[length]))
			continue;
		item->list = list;
		if (item->key[length] == '.')
			return split_data_key(item, source);
		if (strcmp(value, "()") != 0)
			return error_set(STATUS_CONFIG,
				"%s: %s=() empties the list; fields are set by %s.NAME.FIELD=VALUE", source,
				item->key, item->key);
	}
	return STATUS_OK;
}

int syntax_read_word(const char *word, const char *source, struct assignments *assignments)
{
	const char *equals = strchr(word, '=');
	if (!equals || equals == word)
		return error_set(STATUS_CONFIG, "%s: '%.200s' is not key=value", source, word);
	if (memory_grow(&assignments->item, &assignments->capacity, assignments->count + 1,
		    sizeof *assignments->item))
		return error_status();
	struct assignment *item = &assignments->item[assignments->count++];
	item->list = SYNTAX_NO_LIST;
	item->file = -1;
	item->key = memory_text(word);
	item->source = memory_text(source);
	if (!item->key || !item->source || literal_word(&item->value, equals + 1))
		return error_status();
	item->key[equals - word] = 0;
	return word_in_list(item, source, equals + 1);
}
