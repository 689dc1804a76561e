#include "config/compose.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "config/check.h"
#include "config/internal.h"
#include "config/resolve.h"
#include "config/tasks.h"

/* ===== unknown keys ===== */

static const char *key_name(const void *context, size_t i)
{
	const struct config_key *table = context;
	return table[i].key;
}

/* The key whose last part is `name`: "lr" for optimizer.lr. */
static const char *key_ending(const char *name)
{
	for (int row = 0; config_keys[row].key; row++) {
		const char *dot = strrchr(config_keys[row].key, '.');
		if (dot && strcmp(dot + 1, name) == 0)
			return config_keys[row].key;
	}
	return NULL;
}

static int refuse_key(const struct assignment *item)
{
	size_t length = strlen(item->key);
	for (int row = 0; config_keys[row].key; row++)
		if (strncmp(config_keys[row].key, item->key, length) == 0 &&
			config_keys[row].key[length] == '.')
			return error_set(STATUS_CONFIG, "%s: '%s' is a group of keys (%s, ...)", item->source,
				item->key, config_keys[row].key);
	const char *near = text_nearest(item->key, config_rows(config_keys), key_name, config_keys);
	const char *dot = strrchr(item->key, '.');
	if (!near)
		near = key_ending(dot ? dot + 1 : item->key);
	if (near)
		return error_set(STATUS_CONFIG, "%s: unknown key '%.200s'; did you mean %s?", item->source,
			item->key, near);
	return error_set(STATUS_CONFIG, "%s: unknown key '%.200s' (mkconfig --keys lists them)", item->source,
		item->key);
}

static int refuse_field(const struct assignment *item)
{
	const char *near =
		text_nearest(item->field, config_rows(config_group_keys), key_name, config_group_keys);
	return error_set(STATUS_CONFIG, "%s: unknown field '%.200s' of %s.%s%s%s%s", item->source,
		item->field, syntax_list_names[item->list], item->group, near ? "; did you mean " : "",
		near ? near : "", near ? "?" : "");
}

/* ===== applying ===== */

/* Lets `item` count in place of *from; twice in one file, or among the words, is an error. */
static int take(const struct assignment **from, const struct assignment *item)
{
	if (*from && (*from)->file == item->file)
		return error_set(STATUS_CONFIG, "%s: %s is set twice (first at %s)", item->source, item->key,
			(*from)->source);
	*from = item;
	return STATUS_OK;
}

static int apply_in_list(struct config *config, const struct assignment *item)
{
	struct config_list *list = &config->lists[item->list];
	if (!item->group) {
		config_list_clear(list);
		return take(&list->from, item);
	}
	struct config_group *group = config_group_find(config, item->list, item->group);
	if (!group)
		group = config_group_add(config, item->list, item->group);
	if (!group)
		return error_status();
	if (!item->field)
		return take(&group->from, item);
	int row = config_row(config_group_keys, item->field);
	return row < 0 ? refuse_field(item) : take(&group->slots[row].from, item);
}

static int apply(struct config *config, const struct assignment *item)
{
	if (item->list != SYNTAX_NO_LIST)
		return apply_in_list(config, item);
	int row = config_row(config_keys, item->key);
	return row < 0 ? refuse_key(item) : take(&config->slots[row].from, item);
}

/* Files in order, then the words that empty lists, then the other words. */
static int apply_all(struct config *config, const struct assignments *all)
{
	int status = STATUS_OK;
	for (int pass = 0; pass < 3; pass++) {
		for (size_t i = 0; i < all->count && !status; i++) {
			const struct assignment *item = &all->item[i];
			int due = item->file >= 0 ? 0 : item->list != SYNTAX_NO_LIST && !item->group ? 1 : 2;
			if (due == pass)
				status = apply(config, item);
		}
	}
	return status;
}

/* The assignments end with the composition. */
static void forget_assignments(struct config *config)
{
	for (int row = 0; config_keys[row].key; row++)
		config->slots[row].from = NULL;
	for (int list = 0; list < SYNTAX_LISTS; list++) {
		config->lists[list].from = NULL;
		for (size_t i = 0; i < config->lists[list].count; i++) {
			struct config_group *group = &config->lists[list].group[i];
			group->from = NULL;
			for (int row = 0; config_group_keys[row].key; row++)
				group->slots[row].from = NULL;
		}
	}
}

int config_compose(const struct config_layer *layers, size_t count, struct config **config)
{
	struct assignments all = {0};
	struct config *made = NULL;
	int status = config_new(&made);
	for (size_t i = 0; i < count && !status; i++)
		status = layers[i].kind == LAYER_WORD
				 ? syntax_read_word(layers[i].text, layers[i].source, &all)
				 : syntax_read(layers[i].text, layers[i].kind == LAYER_RUN, &all);
	if (!status)
		status = apply_all(made, &all);
	if (!status)
		status = config_resolve(made);
	if (!status)
		status = config_check_tasks(made);
	if (!status) {
		forget_assignments(made);
		status = config_check(made);
	}
	if (!status)
		status = config_id_compute(made);
	if (!status) {
		*config = made;
		made = NULL;
	}
	config_free(made);
	assignments_release(&all);
	return status;
}

int config_load(const char *path, struct config **config)
{
	struct config_layer layer = {.text = path, .kind = LAYER_RUN};
	return config_compose(&layer, 1, config);
}

const char *config_source(const struct config *config, const char *key)
{
	int row = config_row(config_keys, key);
	return row < 0 ? "default" : config->slots[row].source;
}
