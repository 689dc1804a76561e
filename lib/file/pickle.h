/*
 * Python's pickles as plain values. Nothing is executed: a call of a global becomes an object that holds the global's name and its
 * arguments. Globals that no file of weights needs (anything but torch, collections, numpy and the plain classes of a
 * configuration) are refused by name, so that a hostile file is called what it is.
 *
 * Protocols 0x80 2 to 5 with the operations that Python's pickler writes for plain data; others are refused. Bounded: at most
 * PICKLE_BYTES bytes and PICKLE_VALUES values. Values may be shared and may hold themselves: whoever walks them bounds the depth.
 */
#ifndef NIGHTSHIFT_FILE_PICKLE_H
#define NIGHTSHIFT_FILE_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PICKLE_BYTES ((size_t)1 << 28)
#define PICKLE_VALUES ((size_t)1 << 22)

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INTEGER,
	PICKLE_LONG, /* an integer beyond 64 bits: its little-endian bytes */
	PICKLE_FLOAT,
	PICKLE_TEXT,
	PICKLE_BYTES_OF,
	PICKLE_TUPLE,
	PICKLE_LIST,
	PICKLE_DICT,
	PICKLE_SET,
	PICKLE_GLOBAL, /* text "module.name" */
	PICKLE_OBJECT, /* item[0]: the global, item[1]: its arguments; behind them what was put in like into a dict or list */
	PICKLE_PERSISTENT /* item[0]: what the file calls it by */
};

struct pickle_value {
	enum pickle_kind kind;
	int64_t integer; /* of booleans, too */
	double number;
	char *text; /* NUL-terminated */
	size_t length;
	struct pickle_value **item; /* of a dict: key, value, key, value ... */
	size_t count, capacity;
};

struct pickle {
	const struct pickle_value *value;
	const struct pickle_value **persistent; /* all of that kind, in their order */
	size_t persistents;
	void *memory; /* opaque */
};
/* Reads one pickle from the front; *used (may be NULL): its bytes. `name` is for messages; STATUS_DATA. */
int pickle_read(const char *name, const void *data, size_t bytes, size_t *used, struct pickle *pickle);
void pickle_release(struct pickle *pickle);

/* The entries of a dict, or of an object that is one (collections.OrderedDict, Counter): first item and number of pairs. False
 * for anything else. */
bool pickle_dict(const struct pickle_value *value, struct pickle_value ***item, size_t *pairs);
/* The last value of a text key; NULL where there is none, or no dict. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);
/* The global that an object was made by, "" for anything else. */
const char *pickle_maker(const struct pickle_value *value);

#endif
