#include "config/explain.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "config/tasks.h"

/* ===== where values came from ===== */

typedef void (*row_writer)(const struct config *config, const char *key, const struct config_key *row,
	int list, const struct config_slot *slot, struct text *out);

static void explain_row(const struct config *config, const char *key, const struct config_key *row, int list,
	const struct config_slot *slot, struct text *out)
{
	struct text value = {0};
	(void)config;
	(void)list;
	value_word(row->type, &slot->value, &value);
	text_format(out, "%s\t", key);
	text_field(out, value.data ? value.data : "");
	text_add(out, "\t");
	text_field(out, slot->source);
	text_add(out, "\n");
	out->failed = out->failed || value.failed;
	text_release(&value);
}

static void survey_row(const struct config *config, const char *key, const struct config_key *row, int list,
	const struct config_slot *slot, struct text *out)
{
	const char *task = config_task(config);
	explain_row(config, key, row, list, slot, out);
	if (out->length)
		out->length--; /* its newline */
	text_format(out, "\t%s\t", config_row_is_default(row, task, &slot->value) ? "no" : "yes");
	text_field(out, config_row_default(row, task));
	text_format(out, "\t%s\n", config_row_is_identity(row, list) ? "identity" : "operational");
}

static void write_group(const struct config *config, int list, const struct config_group *group,
	row_writer write, struct text *out)
{
	struct text key = {0};
	for (int row = 0; config_group_keys[row].key; row++) {
		if (!config_row_applies(&config_group_keys[row], config_task(config)))
			continue;
		text_clear(&key);
		text_format(
			&key, "%s.%s.%s", syntax_list_names[list], group->name, config_group_keys[row].key);
		write(config, key.data ? key.data : "", &config_group_keys[row], list, &group->slots[row],
			out);
	}
	out->failed = out->failed || key.failed;
	text_release(&key);
}

static void write_rows(const struct config *config, row_writer write, struct text *out)
{
	for (int row = 0; config_keys[row].key; row++)
		if (config_row_applies(&config_keys[row], config_task(config)))
			write(config, config_keys[row].key, &config_keys[row], SYNTAX_NO_LIST,
				&config->slots[row], out);
	for (int list = 0; list < SYNTAX_LISTS; list++)
		for (size_t i = 0; i < config->lists[list].count; i++)
			write_group(config, list, &config->lists[list].group[i], write, out);
}

void config_explain(const struct config *config, struct text *out)
{
	text_add(out, "#key\tvalue\tsource\n");
	write_rows(config, explain_row, out);
}

void config_survey(const struct config *config, struct text *out)
{
	text_add(out, "#key\tvalue\tsource\tset\tdefault\tkind\n");
	write_rows(config, survey_row, out);
}

/* "classify=0.1", or "-". */
static void special_defaults(const struct config_key *row, struct text *out)
{
	const char *between = "";
	for (const struct config_task_key *at = config_task_keys; at->task; at++) {
		if (strcmp(at->key, row->key) != 0 || !at->value)
			continue;
		text_format(out, "%s%s=%s", between, at->task, at->value);
		between = ",";
	}
	if (!*between)
		text_add(out, "-");
}

static void key_row(const char *prefix, const struct config_key *row, struct text *out)
{
	static const char *const types[] = {
		[CONFIG_BOOL] = "bool",
		[CONFIG_INTEGER] = "integer",
		[CONFIG_NUMBER] = "number",
		[CONFIG_TEXT] = "string",
		[CONFIG_CHOICE] = "choice",
		[CONFIG_PATH] = "path",
		[CONFIG_BYTES] = "bytes",
		[CONFIG_SECONDS] = "seconds",
		[CONFIG_INTEGERS] = "integers",
		[CONFIG_NUMBERS] = "numbers",
		[CONFIG_TEXTS] = "strings",
	};
	text_format(out, "%s%s\t%s\t%s\t%s\t%s\t", prefix, row->key, types[row->type], row->value, row->unit,
		row->identity ? "identity" : "operational");
	if (row->type == CONFIG_CHOICE) {
		text_add(out, row->choices);
	} else if (row->minimum != 0 || row->maximum != 0) {
		text_number(out, row->minimum);
		text_add(out, "..");
		text_number(out, row->maximum);
	}
	text_format(out, "\t%s\t%s\t", row->help, row->tasks ? row->tasks : "-");
	special_defaults(row, out);
	text_add(out, "\n");
}

void config_key_table(struct text *out)
{
	text_add(out, "#key\ttype\tdefault\tunit\tkind\trange\thelp\ttask\ttask_default\n");
	for (int row = 0; config_keys[row].key; row++)
		key_row("", &config_keys[row], out);
	for (int row = 0; config_group_keys[row].key; row++)
		key_row("data.LIST.NAME.", &config_group_keys[row], out);
}

/* ===== differences ===== */

void config_differences_release(struct config_differences *differences)
{
	for (size_t i = 0; i < differences->count; i++) {
		free(differences->item[i].key);
		free(differences->item[i].before);
		free(differences->item[i].after);
	}
	free(differences->item);
	memset(differences, 0, sizeof *differences);
}

/* Takes the three texts, released in any case. */
static int add(struct config_differences *differences, struct text *key, struct text *before,
	struct text *after, bool identity)
{
	int status = memory_grow(&differences->item, &differences->capacity, differences->count + 1,
		sizeof *differences->item);
	if (!status) {
		struct config_difference *item = &differences->item[differences->count++];
		item->key = text_take(key);
		item->before = text_take(before);
		item->after = text_take(after);
		item->identity = identity;
		if (!item->key || !item->before || !item->after)
			status = error_status();
	}
	text_release(key);
	text_release(before);
	text_release(after);
	return status;
}

/* Files may move; another file is another run. */
static bool changes_numbers(const struct config_key *row, int list, const struct config_value *before,
	const struct config_value *after)
{
	if (!config_row_is_identity(row, list))
		return false;
	return row->type != CONFIG_PATH ||
	       strcmp(path_base(before->texts[0]), path_base(after->texts[0])) != 0;
}

static int compare_slot(const char *prefix, const struct config_key *row, int list,
	const struct config_value *before, const struct config_value *after, struct config_differences *out)
{
	struct text key = {0}, old = {0}, new = {0};
	if (value_equal(row->type, before, after))
		return STATUS_OK;
	text_format(&key, "%s%s", prefix, row->key);
	value_word(row->type, before, &old);
	value_word(row->type, after, &new);
	return add(out, &key, &old, &new, changes_numbers(row, list, before, after));
}

static int default_value(const struct config_key *row, const char *task, struct config_value *value)
{
	struct literal literal = {0};
	int status = literal_word(&literal, config_row_default(row, task));
	if (!status)
		status = value_convert(row, row->key, &literal, value);
	literal_release(&literal);
	return status;
}

/* Either group may be missing: its fields are the defaults. */
static int compare_group(int list, const char *task, const struct config_group *before,
	const struct config_group *after, struct config_differences *out)
{
	struct text prefix = {0};
	text_format(&prefix, "%s.%s.", syntax_list_names[list], before ? before->name : after->name);
	int status = text_check(&prefix);
	for (int row = 0; config_group_keys[row].key && !status; row++) {
		struct config_value standard = {0};
		status = default_value(&config_group_keys[row], task, &standard);
		if (!status)
			status = compare_slot(prefix.data, &config_group_keys[row], list,
				before ? &before->slots[row].value : &standard,
				after ? &after->slots[row].value : &standard, out);
		value_release(&standard);
	}
	text_release(&prefix);
	return status;
}

static void list_word(const struct config_list *list, struct text *out)
{
	for (size_t i = 0; i < list->count; i++)
		text_format(out, "%s%s", i > 0 ? "," : "", list->group[i].name);
}

static int compare_list(
	int list, const struct config *before, const struct config *after, struct config_differences *out)
{
	struct text key = {0}, old = {0}, new = {0};
	list_word(&before->lists[list], &old);
	list_word(&after->lists[list], &new);
	text_add(&key, syntax_list_names[list]);
	int status = STATUS_OK;
	if (strcmp(old.data ? old.data : "", new.data ? new.data : "") != 0)
		status = add(out, &key, &old, &new, list != SYNTAX_TEST);
	for (size_t i = 0; i < before->lists[list].count && !status; i++) {
		const struct config_group *group = &before->lists[list].group[i];
		status = compare_group(
			list, config_task(before), group, config_group_find(after, list, group->name), out);
	}
	for (size_t i = 0; i < after->lists[list].count && !status; i++) {
		const struct config_group *group = &after->lists[list].group[i];
		if (!config_group_find(before, list, group->name))
			status = compare_group(list, config_task(after), NULL, group, out);
	}
	text_release(&key);
	text_release(&old);
	text_release(&new);
	return status;
}

int config_compare(
	const struct config *before, const struct config *after, struct config_differences *differences)
{
	int status = STATUS_OK;
	for (int row = 0; config_keys[row].key && !status; row++)
		status = compare_slot("", &config_keys[row], SYNTAX_NO_LIST, &before->slots[row].value,
			&after->slots[row].value, differences);
	for (int list = 0; list < SYNTAX_LISTS && !status; list++)
		status = compare_list(list, before, after, differences);
	return status;
}
