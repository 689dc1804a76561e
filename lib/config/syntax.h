/*
 * Configuration files as lists of assignments. The one place that uses libconfig.
 *
 * A file is a sequence of settings and groups of settings. @include "FILE" at the top level reads another
 * file there, its name relative to the including one; later lines override it. Setting a key twice inside one
 * file is an error (found by the caller, which sees `file`), across files an override.
 */
#ifndef NIGHTSHIFT_CONFIG_SYNTAX_H
#define NIGHTSHIFT_CONFIG_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>
#include "config/value.h"

#define SYNTAX_FORMAT 1             /* the format of config.cfg that this version writes and reads */
#define SYNTAX_FILE_BYTES (1 << 20) /* a longer file is refused */
#define SYNTAX_INCLUDES 10          /* files in files */

enum syntax_list { SYNTAX_TRAIN, SYNTAX_VAL, SYNTAX_VIS, SYNTAX_TEST, SYNTAX_LISTS, SYNTAX_NO_LIST = -1 };
/* "data.train", ... */
extern const char *const syntax_list_names[SYNTAX_LISTS];

/*
 * key = value at one place. In lists of data groups, `list` says which and
 *   group NULL: the list is emptied;  field NULL: the group begins;  else the field of that group is set.
 */
struct assignment {
	char *key; /* in full: "optimizer.lr", "data.train.rooms.weight" */
	int list;  /* enum syntax_list */
	char *group;
	char *field;
	struct literal value;
	char *source;    /* "demo.cfg:12", "argv[3]" */
	char *directory; /* where relative paths start; NULL: the current directory */
	int file;        /* number of the file (each reading of one counts), -1 for words */
	bool plain;      /* of a run's config.cfg: holds no references */
};
struct assignments {
	struct assignment *item;
	size_t count, capacity;
	int files; /* read so far */
};
void assignments_release(struct assignments *assignments);

/* A dataset's name: [A-Za-z0-9._-]{1,64}. */
bool syntax_name_valid(const char *name);

/* Appends the assignments of a file. `alone`: the file must say format = 1 and may include nothing
 * (RUN/config.cfg). STATUS_CONFIG with file and line; a newer format is STATUS_CONFIG too; reading: see
 * file_read(). */
int syntax_read(const char *path, bool alone, struct assignments *assignments);
/* Appends the assignment of one word "key=value"; `source` names it. STATUS_CONFIG. */
int syntax_read_word(const char *word, const char *source, struct assignments *assignments);

#endif
