/*
 * Small flat files of a run: one value a line.
 *
 * Two notations, the same meaning: "key = value;" (train.cfg, platform.cfg: integers, numbers, "texts" and [lists] of them) and
 * "key value" (claims, done: words that a shell script takes apart). Floats are written so that they read back equal. A reader
 * ignores keys that it does not know; a key that stands twice, a line that is no field and a NUL are STATUS_DATA with file and line.
 */
#ifndef NIGHTSHIFT_RUN_FIELDS_H
#define NIGHTSHIFT_RUN_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/text.h"

enum fields_notation { FIELDS_CFG, FIELDS_WORDS };

struct field {
	char *key, *value; /* into `data` */
	int line;
};
struct fields {
	char *path; /* for messages */
	enum fields_notation notation;
	char *data;
	struct field *item;
	size_t count, capacity;
};
/* Reads a file of at most `limit` bytes. Missing: STATUS_NO_INPUT. Release after success. */
int fields_read(const char *path, size_t limit, enum fields_notation notation, struct fields *fields);
/* The same from memory; `data` (from malloc, a NUL behind its `bytes` bytes) is taken over in every case. */
int fields_take(const char *path, char *data, size_t bytes, enum fields_notation notation, struct fields *fields);
void fields_release(struct fields *fields);

bool fields_has(const struct fields *fields, const char *key);
/* Each: STATUS_DATA where the key is missing, of another type or out of range (text: does not fit the buffer). */
int fields_integer(const struct fields *fields, const char *key, int64_t minimum, int64_t maximum, int64_t *value);
int fields_number(const struct fields *fields, const char *key, double *value);
int fields_text(const struct fields *fields, const char *key, char *buffer, size_t size);
/* Lists; *values is owned by the caller, NULL when empty. */
int fields_numbers(const struct fields *fields, const char *key, double **values, size_t *count);
int fields_integers(const struct fields *fields, const char *key, int64_t **values, size_t *count);
int fields_texts(const struct fields *fields, const char *key, struct names *values);

/* Writers of "key = value;" lines. */
void fields_put_integer(struct text *text, const char *key, int64_t value);
void fields_put_number(struct text *text, const char *key, double value);
void fields_put_text(struct text *text, const char *key, const char *value);
void fields_put_numbers(struct text *text, const char *key, const double *values, size_t count);
/* For other lists: "key = [", items separated by ", ", "];". */
void fields_put_quoted(struct text *text, const char *value);

#endif
