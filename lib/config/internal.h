/* What a struct config holds; for the files of lib/config alone. */
#ifndef NIGHTSHIFT_CONFIG_INTERNAL_H
#define NIGHTSHIFT_CONFIG_INTERNAL_H

#include "config/config.h"
#include "config/syntax.h"
#include "config/value.h"

enum slot_state { SLOT_NEW, SLOT_BUSY, SLOT_DONE };

/* One key's value. */
struct config_slot {
	struct config_value value;
	char *source;                  /* "demo.cfg:12", "argv[3]", "default" */
	const struct assignment *from; /* while composing: the assignment that counts; NULL: the default */
	enum slot_state state;
};
struct config_group {
	char *name;
	struct config_slot *slots;     /* by row of config_group_keys */
	const struct assignment *from; /* while composing: where it was begun last */
};
struct config_list {
	struct config_group *group;
	size_t count, capacity;
	const struct assignment *from; /* while composing: where it was emptied last */
};
struct config {
	struct config_slot *slots; /* by row of config_keys */
	struct config_list lists[SYNTAX_LISTS];
	char id[17];
};

/* Rows of a table that ends with a NULL key. */
size_t config_rows(const struct config_key *table);
/* Row of `key` in a table, or -1. */
int config_row(const struct config_key *table, const char *key);
/* Empty: every slot new, no groups. */
int config_new(struct config **config);
/* Group `name` of a list, or NULL. */
struct config_group *config_group_find(const struct config *config, int list, const char *name);
struct config_group *config_group_add(struct config *config, int list, const char *name);
void config_list_clear(struct config_list *list);
/* Fills config->id. */
int config_id_compute(struct config *config);
/* Whether a difference of this key changes numbers; list SYNTAX_NO_LIST for keys outside of groups. */
bool config_row_is_identity(const struct config_key *row, int list);
/* Whether it is the default of the task; one that is composed of other values never is. */
bool config_row_is_default(const struct config_key *row, const char *task, const struct config_value *value);

#endif
