#include "config/tasks.h"

#include <string.h>
#include "base/error.h"

const char *config_task(const struct config *config)
{
	return config->slots[config_row(config_keys, "task")].value.texts[0];
}

/* Whether `word` is one of "a|b|c". */
static bool is_among(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = words; *at; at += strcspn(at, "|"), at += *at == '|')
		if (strcspn(at, "|") == length && strncmp(at, word, length) == 0)
			return true;
	return false;
}

bool config_row_applies(const struct config_key *row, const char *task)
{
	return !row->tasks || is_among(row->tasks, task);
}

static const struct config_task_key *find(const struct config_key *row, const char *task)
{
	for (const struct config_task_key *at = config_task_keys; at->task; at++)
		if (strcmp(at->task, task) == 0 && strcmp(at->key, row->key) == 0)
			return at;
	return NULL;
}

const char *config_row_default(const struct config_key *row, const char *task)
{
	const struct config_task_key *special = find(row, task);

	return special && special->value ? special->value : row->value;
}

/* ===== checks ===== */

static int check_slot(
	const struct config_key *row, const struct config_slot *slot, const char *prefix, const char *task)
{
	const struct config_task_key *special = find(row, task);

	if (slot->from && !config_row_applies(row, task))
		return error_set(STATUS_CONFIG, "%s: %s%s is a key of task %s; this run's task is %s",
			slot->source, prefix, row->key, row->tasks, task);
	if (special && special->choices && !is_among(special->choices, slot->value.texts[0]))
		return error_set(STATUS_CONFIG, "%s: %s%s = %s does not go with task %s; it has %s",
			slot->source, prefix, row->key, slot->value.texts[0], task, special->choices);
	return STATUS_OK;
}

static int check_group(int list, const struct config_group *group, const char *task)
{
	struct text prefix = {0};
	int status;

	text_format(&prefix, "%s.%s.", syntax_list_names[list], group->name);
	status = text_check(&prefix);
	for (int row = 0; config_group_keys[row].key && !status; row++)
		status = check_slot(&config_group_keys[row], &group->slots[row], prefix.data, task);
	text_release(&prefix);
	return status;
}

int config_check_tasks(const struct config *config)
{
	const char *task = config_task(config);
	int status = STATUS_OK;

	for (int row = 0; config_keys[row].key && !status; row++)
		status = check_slot(&config_keys[row], &config->slots[row], "", task);
	for (int list = 0; list < SYNTAX_LISTS && !status; list++)
		for (size_t i = 0; i < config->lists[list].count && !status; i++)
			status = check_group(list, &config->lists[list].group[i], task);
	return status;
}
