/*
 * Typed values and the literals they are made from.
 *
 * A literal is what a source wrote (a token of a file, a word of the command line, a default of the option
 * table); a value is that literal seen through the key's type: converted, checked against range and choices,
 * and written in one canonical form.
 */
#ifndef NIGHTSHIFT_CONFIG_VALUE_H
#define NIGHTSHIFT_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"
#include "config/table.h"

enum literal_kind {
	LITERAL_WORD, /* text without a type yet: command line, defaults, results of interpolation */
	LITERAL_BOOL, /* integer 0 or 1 */
	LITERAL_INTEGER,
	LITERAL_FLOAT,
	LITERAL_STRING,
	LITERAL_LIST, /* members */
	LITERAL_GROUP /* a data group begins here; no content of its own */
};

struct literal {
	enum literal_kind kind;
	int64_t integer;
	double number;
	char *text;             /* owned */
	struct literal *member; /* owned */
	size_t count;
};
void literal_release(struct literal *literal);
/* A LITERAL_WORD holding a copy of `text`. */
int literal_word(struct literal *literal, const char *text);

/*
 * One storage for all types: `count` members (1 for scalars) in the array that the type uses.
 * bool, integer, bytes, integers: integers; number, seconds, numbers: numbers; text, choice, path, texts:
 * texts.
 */
struct config_value {
	size_t count;
	int64_t *integers;
	double *numbers;
	char **texts;
};
void value_release(struct config_value *value);

bool value_type_is_list(enum config_type type);
bool value_type_is_text(enum config_type type);
const char *value_type_name(enum config_type type); /* "an integer", for messages */

/* Converts and checks `literal` for `row`; `key` (the full name) begins the message. Releases what *value
 * held. STATUS_CONFIG. */
int value_convert(const struct config_key *row, const char *key, const struct literal *literal,
	struct config_value *value);
bool value_equal(enum config_type type, const struct config_value *a, const struct config_value *b);
/* As on the command line: true, 8, 0.5, a,b,c, text as it is. */
void value_word(enum config_type type, const struct config_value *value, struct text *out);
/* As in a file: strings quoted, lists in brackets, L behind integers outside 32 bits, 17 digits. */
void value_canonical(enum config_type type, const struct config_value *value, struct text *out);
/* A quoted libconfig string; "${" is written "$${", which is read back as text. */
void value_quote(struct text *out, const char *string);

#endif
