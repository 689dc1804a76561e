/*
 * The configuration of a run: every key of the option table with a typed value and where it came from.
 *
 * Reading, merging and checking happen once (config/compose.h for mkconfig, config_load() for the other programs); after
 * that every key of the table exists, is in range, and getters cannot fail: asking for a key that is not in the table or with
 * the wrong type is a programming error and aborts with the key's name.
 *
 * Data groups: data.train, data.val, data.vis and data.test are ordered lists of groups. A group's fields are addressed as
 * "data.train.NAME.field" in files and words; in code by config_groups() and config_group_*().
 */
#ifndef NIGHTSHIFT_CONFIG_CONFIG_H
#define NIGHTSHIFT_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;

/* Reads RUN/config.cfg (format = 1; newer formats: STATUS_CONFIG "made by a newer version"). */
int config_load(const char *path, struct config **config);
void config_free(struct config *config);

bool config_bool(const struct config *config, const char *key);
int64_t config_integer(const struct config *config, const char *key);
double config_number(const struct config *config, const char *key);      /* numbers, durations (s) */
const char *config_text(const struct config *config, const char *key);   /* strings, choices, paths; "" when empty */
uint64_t config_bytes(const struct config *config, const char *key);
size_t config_count(const struct config *config, const char *key);       /* of a list */
int64_t config_integer_at(const struct config *config, const char *key, size_t i);
double config_number_at(const struct config *config, const char *key, size_t i);
const char *config_text_at(const struct config *config, const char *key, size_t i);

/* `list` is "data.train", "data.val", "data.vis" or "data.test"; fields are those of the data group table, and "name".
 * A dataset of one name is the same in all lists (config/check.h). */
size_t config_groups(const struct config *config, const char *list);
const char *config_group_text(const struct config *config, const char *list, size_t i, const char *field);
int64_t config_group_integer(const struct config *config, const char *list, size_t i, const char *field);
double config_group_number(const struct config *config, const char *list, size_t i, const char *field);
bool config_group_bool(const struct config *config, const char *list, size_t i, const char *field);
size_t config_group_count(const struct config *config, const char *list, size_t i, const char *field);
double config_group_number_at(const struct config *config, const char *list, size_t i, const char *field, size_t j);

/* The config id: SHA-256 (first 16 hex digits) of the text of all identity keys and data groups (data.test aside) that are not at
 * their default; of paths the last component alone. So new keys do not change the id of a run, and files may move. */
const char *config_id(const struct config *config);
/* Canonical text of the whole configuration (what config.cfg holds); owned by the caller. */
char *config_canonical(const struct config *config);

#endif
