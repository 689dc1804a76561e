#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "config/internal.h"

size_t config_rows(const struct config_key *table)
{
	size_t count = 0;
	while (table[count].key)
		count++;
	return count;
}

int config_row(const struct config_key *table, const char *key)
{
	for (int i = 0; table[i].key; i++)
		if (strcmp(table[i].key, key) == 0)
			return i;
	return -1;
}

int config_new(struct config **config)
{
	struct config *made = memory_new(1, sizeof *made);
	if (made)
		made->slots = memory_new(config_rows(config_keys), sizeof *made->slots);
	if (!made || !made->slots) {
		config_free(made);
		return error_status();
	}
	*config = made;
	return STATUS_OK;
}

static void slots_free(struct config_slot *slots, size_t count)
{
	for (size_t i = 0; slots && i < count; i++) {
		value_release(&slots[i].value);
		free(slots[i].source);
	}
	free(slots);
}

static void group_release(struct config_group *group)
{
	free(group->name);
	slots_free(group->slots, config_rows(config_group_keys));
	memset(group, 0, sizeof *group);
}

void config_list_clear(struct config_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		group_release(&list->group[i]);
	list->count = 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (int list = 0; list < SYNTAX_LISTS; list++) {
		config_list_clear(&config->lists[list]);
		free(config->lists[list].group);
	}
	slots_free(config->slots, config_rows(config_keys));
	free(config);
}

struct config_group *config_group_find(const struct config *config, int list, const char *name)
{
	const struct config_list *groups = &config->lists[list];
	for (size_t i = 0; i < groups->count; i++)
		if (strcmp(groups->group[i].name, name) == 0)
			return &groups->group[i];
	return NULL;
}

struct config_group *config_group_add(struct config *config, int list, const char *name)
{
	struct config_list *groups = &config->lists[list];
	if (memory_grow(&groups->group, &groups->capacity, groups->count + 1, sizeof *groups->group))
		return NULL;
	struct config_group *group = &groups->group[groups->count];
	memset(group, 0, sizeof *group);
	group->name = memory_text(name);
	group->slots = memory_new(config_rows(config_group_keys), sizeof *group->slots);
	if (!group->name || !group->slots) {
		group_release(group);
		return NULL;
	}
	groups->count++;
	return group;
}

/* ===== getters ===== */

/* A wrong key is a mistake in the program, found at the first run of its line. */
static _Noreturn void abort_key(const char *key, const char *what)
{
	fprintf(stderr, "%s: config key %s: %s\n", error_program_name(), key, what);
	abort();
}

static const struct config_value *value_of(const struct config_key *table, const struct config_slot *slots,
	const char *key, unsigned types, size_t i)
{
	int row = config_row(table, key);
	if (row < 0)
		abort_key(key, "no such key");
	if (!(1u << table[row].type & types))
		abort_key(key, value_type_name(table[row].type));
	if (i >= slots[row].value.count)
		abort_key(key, "no such member");
	return &slots[row].value;
}

static const struct config_value *value_at(
	const struct config *config, const char *key, unsigned types, size_t i)
{
	return value_of(config_keys, config->slots, key, types, i);
}

#define TYPES_TEXT (1u << CONFIG_TEXT | 1u << CONFIG_CHOICE | 1u << CONFIG_PATH)
#define TYPES_NUMBER (1u << CONFIG_NUMBER | 1u << CONFIG_SECONDS)

bool config_bool(const struct config *config, const char *key)
{
	return value_at(config, key, 1u << CONFIG_BOOL, 0)->integers[0] != 0;
}

int64_t config_integer(const struct config *config, const char *key)
{
	return value_at(config, key, 1u << CONFIG_INTEGER, 0)->integers[0];
}

double config_number(const struct config *config, const char *key)
{
	return value_at(config, key, TYPES_NUMBER, 0)->numbers[0];
}

const char *config_text(const struct config *config, const char *key)
{
	return value_at(config, key, TYPES_TEXT, 0)->texts[0];
}

uint64_t config_bytes(const struct config *config, const char *key)
{
	return (uint64_t)value_at(config, key, 1u << CONFIG_BYTES, 0)->integers[0];
}

size_t config_count(const struct config *config, const char *key)
{
	int row = config_row(config_keys, key);
	if (row < 0)
		abort_key(key, "no such key");
	return config->slots[row].value.count;
}

int64_t config_integer_at(const struct config *config, const char *key, size_t i)
{
	return value_at(config, key, 1u << CONFIG_INTEGERS, i)->integers[i];
}

double config_number_at(const struct config *config, const char *key, size_t i)
{
	return value_at(config, key, 1u << CONFIG_NUMBERS, i)->numbers[i];
}

const char *config_text_at(const struct config *config, const char *key, size_t i)
{
	return value_at(config, key, 1u << CONFIG_TEXTS, i)->texts[i];
}

/* ===== data groups ===== */

static const struct config_list *list_of(const struct config *config, const char *list)
{
	for (int i = 0; i < SYNTAX_LISTS; i++)
		if (strcmp(list, syntax_list_names[i]) == 0)
			return &config->lists[i];
	abort_key(list, "no such list");
}

static const struct config_group *group_of(const struct config *config, const char *list, size_t i)
{
	const struct config_list *groups = list_of(config, list);
	if (i >= groups->count)
		abort_key(list, "no such group");
	return &groups->group[i];
}

size_t config_groups(const struct config *config, const char *list)
{
	return list_of(config, list)->count;
}

const char *config_group_text(const struct config *config, const char *list, size_t i, const char *field)
{
	const struct config_group *group = group_of(config, list, i);
	if (strcmp(field, "name") == 0)
		return group->name;
	return value_of(config_group_keys, group->slots, field, TYPES_TEXT, 0)->texts[0];
}

int64_t config_group_integer(const struct config *config, const char *list, size_t i, const char *field)
{
	return value_of(config_group_keys, group_of(config, list, i)->slots, field, 1u << CONFIG_INTEGER, 0)
		->integers[0];
}

double config_group_number(const struct config *config, const char *list, size_t i, const char *field)
{
	return value_of(config_group_keys, group_of(config, list, i)->slots, field, TYPES_NUMBER, 0)
		->numbers[0];
}

bool config_group_bool(const struct config *config, const char *list, size_t i, const char *field)
{
	return value_of(config_group_keys, group_of(config, list, i)->slots, field, 1u << CONFIG_BOOL, 0)
		       ->integers[0] != 0;
}

size_t config_group_count(const struct config *config, const char *list, size_t i, const char *field)
{
	const struct config_group *group = group_of(config, list, i);
	int row = config_row(config_group_keys, field);
	if (row < 0)
		abort_key(field, "no such field");
	return group->slots[row].value.count;
}

/* Members of lists of numbers and of integers alike. */
double config_group_number_at(
	const struct config *config, const char *list, size_t i, const char *field, size_t j)
{
	const struct config_value *value = value_of(config_group_keys, group_of(config, list, i)->slots,
		field, 1u << CONFIG_NUMBERS | 1u << CONFIG_INTEGERS, j);
	return value->numbers ? value->numbers[j] : (double)value->integers[j];
}
