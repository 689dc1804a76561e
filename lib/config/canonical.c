/* The canonical text of a configuration, and its id. */
#include <stdlib.h>
#include <string.h>
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "config/tasks.h"

static void write_groups(const struct config_list *list, const char *task, struct text *out)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct config_group *group = &list->group[i];
		text_format(out, "%s\n\t\t{\n\t\t\tname = \"%s\";\n", i > 0 ? "," : "", group->name);
		for (int row = 0; config_group_keys[row].key; row++) {
			if (!config_row_applies(&config_group_keys[row], task))
				continue;
			text_format(out, "\t\t\t%s = ", config_group_keys[row].key);
			value_canonical(config_group_keys[row].type, &group->slots[row].value, out);
			text_add(out, ";\n");
		}
		text_add(out, "\t\t}");
	}
	if (list->count > 0)
		text_add(out, "\n\t");
}

static void write_lists(const struct config *config, struct text *out)
{
	for (int list = 0; list < SYNTAX_LISTS; list++) {
		text_format(out, "\t%s = (", strchr(syntax_list_names[list], '.') + 1);
		write_groups(&config->lists[list], config_task(config), out);
		text_add(out, ");\n");
	}
}

/* Length of "model" in "model.widths", 0 for keys at the top. */
static size_t prefix_length(const char *key)
{
	const char *dot = key ? strchr(key, '.') : NULL;
	return dot ? (size_t)(dot - key) : 0;
}

/* The next row of this task behind `row`, or NULL. */
static const char *key_behind(int row, const char *task)
{
	do
		row++;
	while (config_keys[row].key && !config_row_applies(&config_keys[row], task));
	return config_keys[row].key;
}

/* Keys of one group follow each other in the table; those of other tasks are left out. The lists of data groups end the group
 * "data". */
char *config_canonical(const struct config *config)
{
	const char *task = config_task(config), *before = NULL;
	struct text out = {0};
	text_format(&out, "format = %d;\n", SYNTAX_FORMAT);
	for (int row = 0; config_keys[row].key; row++) {
		const char *key = config_keys[row].key, *after = key_behind(row, task);
		size_t length = prefix_length(key);
		if (!config_row_applies(&config_keys[row], task))
			continue;
		if (length > 0 &&
			!(before && prefix_length(before) == length && strncmp(before, key, length + 1) == 0))
			text_format(&out, "%.*s:\n{\n", (int)length, key);
		text_format(&out, "%s%s = ", length > 0 ? "\t" : "", length > 0 ? key + length + 1 : key);
		value_canonical(config_keys[row].type, &config->slots[row].value, &out);
		text_add(&out, ";\n");
		before = key;
		if (length == 0 ||
			(after && prefix_length(after) == length && strncmp(after, key, length + 1) == 0))
			continue;
		if (strncmp(key, "data.", 5) == 0)
			write_lists(config, &out);
		text_add(&out, "};\n");
	}
	return text_take(&out);
}

/* ===== identity ===== */

bool config_row_is_identity(const struct config_key *row, int list)
{
	return row->identity && list != SYNTAX_TEST;
}

bool config_row_is_default(const struct config_key *row, const char *task, const struct config_value *value)
{
	const char *word = config_row_default(row, task);
	struct literal literal = {0};
	struct config_value standard = {0};
	bool equal = !strstr(word, "${") && !literal_word(&literal, word) &&
		     !value_convert(row, row->key, &literal, &standard) &&
		     value_equal(row->type, value, &standard);
	value_release(&standard);
	literal_release(&literal);
	return equal;
}

/* Files may move, so of a path only the last component counts. */
static void add_identity(const struct config_key *row, int list, const char *task, const char *prefix,
	const struct config_value *value, struct text *out)
{
	if (!config_row_is_identity(row, list) || config_row_is_default(row, task, value))
		return;
	text_format(out, "%s%s = ", prefix, row->key);
	if (row->type == CONFIG_PATH)
		value_quote(out, path_base(value->texts[0]));
	else
		value_canonical(row->type, value, out);
	text_add(out, "\n");
}

int config_id_compute(struct config *config)
{
	const char *task = config_task(config);
	struct text out = {0};
	struct sha256 digest;
	char hex[65];
	for (int row = 0; config_keys[row].key; row++)
		add_identity(&config_keys[row], SYNTAX_NO_LIST, task, "", &config->slots[row].value, &out);
	for (int list = 0; list < SYNTAX_TEST; list++) {
		for (size_t i = 0; i < config->lists[list].count; i++) {
			const struct config_group *group = &config->lists[list].group[i];
			text_format(&out, "%s %s\n", syntax_list_names[list], group->name);
			for (int row = 0; config_group_keys[row].key; row++)
				add_identity(&config_group_keys[row], list, task, " ",
					&group->slots[row].value, &out);
		}
	}
	int status = text_check(&out);
	if (!status) {
		sha256_init(&digest);
		sha256_update(&digest, out.data ? out.data : "", out.length);
		sha256_hex(&digest, hex);
		memcpy(config->id, hex, 16);
	}
	text_release(&out);
	return status;
}

const char *config_id(const struct config *config)
{
	return config->id;
}
