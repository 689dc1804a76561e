/*
 * The option table: one row a key. The rows make mkconfig's checks, its --explain and help, and nightshift-run(5)'s list
 * of keys (a test compares them). A new key is one new row, whose default means
 * what was done before there was the key; a default is never changed (config ids leave defaults out; presets may say otherwise).
 */
#ifndef NIGHTSHIFT_CONFIG_TABLE_H
#define NIGHTSHIFT_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum config_type {
	CONFIG_BOOL, CONFIG_INTEGER, CONFIG_NUMBER, CONFIG_TEXT, CONFIG_CHOICE, CONFIG_PATH, CONFIG_BYTES, CONFIG_SECONDS,
	CONFIG_INTEGERS, CONFIG_NUMBERS, CONFIG_TEXTS
};

struct config_key {
	const char *key;      /* "optimizer.lr"; for the group table the field alone ("layout") */
	enum config_type type;
	bool identity;        /* changes numbers; operational otherwise */
	const char *value;    /* default, as written on the command line */
	double minimum, maximum; /* of numbers, integers, list members; both 0: no bound */
	const char *choices;  /* "adam|sgd" for CONFIG_CHOICE */
	const char *unit;     /* "steps", "s", "" */
	const char *help;     /* one line */
	const char *tasks;    /* "depth" where it is a key of that task alone, "a|b" of several; NULL: of all */
};
extern const struct config_key config_keys[];       /* ends with a NULL key */
extern const struct config_key config_group_keys[]; /* fields of a data group */

/* What a task has otherwise: another default (which may hold references), fewer choices. */
struct config_task_key {
	const char *task, *key;
	const char *value;   /* NULL: the row's */
	const char *choices; /* NULL: the row's */
};
extern const struct config_task_key config_task_keys[]; /* ends with a NULL task */

#endif
