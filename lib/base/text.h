/*
 * Text: a growing string, strict number parsing in the C locale, and the number formats of all our files.
 *
 *	struct text line = {0};
 *	text_format(&line, "%s\t", name);
 *	text_number(&line, loss);             17 digits that round-trip
 *	...
 *	text_release(&line);
 *
 * Appending never fails visibly: after a failed allocation `failed` is set and later calls do nothing; text_check()
 * turns that into a status once, at the end.
 */
#ifndef NIGHTSHIFT_BASE_TEXT_H
#define NIGHTSHIFT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *data;    /* NUL-terminated when not NULL */
	size_t length; /* without the NUL */
	size_t capacity;
	bool failed;
};

void text_release(struct text *text);
void text_clear(struct text *text); /* length 0, keeps the memory */
int text_check(const struct text *text);
void text_append(struct text *text, const char *data, size_t length);
void text_add(struct text *text, const char *string);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Shortest of 15, 16, 17 digits that reads back equal; "nan", "inf", "-inf". */
void text_number(struct text *text, double value);
/* A field of a tab-separated table: tab, newline and backslash as \t \n \\ . */
void text_field(struct text *text, const char *value);
/* Undoes text_field() in place. */
void text_unescape(char *field);
/* The string, owned by the caller (free()), "" when empty; the text is empty afterwards. NULL with a message. */
char *text_take(struct text *text);

/* Strict: the whole string, C locale, no overflow; false leaves *value alone and no message. */
bool text_to_int64(const char *string, int64_t *value);
bool text_to_uint64(const char *string, uint64_t *value);
bool text_to_double(const char *string, double *value); /* accepts nan, inf, -inf too */
/* "18 GiB", "500 MB", "123": bytes. */
bool text_to_bytes(const char *string, uint64_t *bytes);
/* "55m", "2h30m", "90s", "1-02:03:04", "02:03:04", "90": seconds. */
bool text_to_seconds(const char *string, double *seconds);
/* "1.5 GiB" for people. `buffer` holds at least 32 bytes; returned. */
const char *text_of_bytes(uint64_t bytes, char buffer[32]);
/* "1:02:03" for people. */
const char *text_of_seconds(double seconds, char buffer[32]);

/* Splits `line` in place at `separator`; returns the number of fields, at most `limit` (the rest stays in the last). */
int text_split(char *line, char separator, char **fields, int limit);
/* Edit distance, for "did you mean". */
int text_distance(const char *a, const char *b);
/* The nearest of `count` names (by `get(context, i)`), or NULL when none is near. */
const char *text_nearest(const char *name, size_t count, const char *(*get)(const void *context, size_t i), const void *context);
/* Shell-style match with * and ?. */
bool text_match(const char *pattern, const char *string);
bool text_starts(const char *string, const char *prefix);
bool text_ends(const char *string, const char *suffix);

#endif
