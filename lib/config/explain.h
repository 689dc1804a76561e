/* Configurations as tables: where values came from, what differs, which keys there are. Tab-separated, header
 * line first. */
#ifndef NIGHTSHIFT_CONFIG_EXPLAIN_H
#define NIGHTSHIFT_CONFIG_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include "base/text.h"
#include "config/config.h"

/* Appends "#key value source" and a row for each key. */
void config_explain(const struct config *config, struct text *out);
/* Appends "#key value source set default kind" and a row for each key: `set` is yes where the value is not the task's default,
 * kind is identity or operational. */
void config_survey(const struct config *config, struct text *out);
/* Appends "#key type default unit kind range help task task_default" and a row for each key of the option tables. */
void config_key_table(struct text *out);

/* One key whose value differs, values as on the command line. Of a list of data groups (key "data.train") the
 * values are the names of its groups. */
struct config_difference {
	char *key, *before, *after;
	bool identity; /* changes numbers; of a path only the last component does */
};
struct config_differences {
	struct config_difference *item; /* owned */
	size_t count, capacity;
};
void config_differences_release(struct config_differences *differences);
/* Fills `differences` ({0}) with what differs, in table order; a group that only one side has is compared
 * with defaults. */
int config_compare(
	const struct config *before, const struct config *after, struct config_differences *differences);

#endif
