/*
 * Where data files are opened: a directory, or a pack of one (file/pack.h). Readers name files relative to it and see no
 * difference; whoever reads a dataset opens its `path` here once and goes through these functions.
 *
 * Names may not leave the source ("..", absolute: STATUS_DATA). Messages name files as PATH/NAME in both cases. All functions but
 * open and close are thread-safe.
 */
#ifndef NIGHTSHIFT_FILE_SOURCE_H
#define NIGHTSHIFT_FILE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/files.h"

struct source;
/* STATUS_NO_INPUT: nothing there, or a file that is no pack. */
int source_open(const char *path, struct source **source);
void source_close(struct source *source);

enum source_kind { SOURCE_NOTHING, SOURCE_FILE, SOURCE_DIRECTORY };
/* What a name ("" is the source itself) stands for; links are followed. An error of the storage is a status. */
int source_look(const struct source *source, const char *name, enum source_kind *kind);
/* The names in one directory ("" is the top), in byte order; to be given to names_release(). */
int source_list(const struct source *source, const char *directory, struct names *names);
/* A whole file, as file_read_regular(); what a pack holds is compared with its digest (STATUS_IO). */
int source_read(const struct source *source, const char *name, size_t limit, char **data, size_t *bytes);
/* PATH/NAME, for messages; owned by the caller. */
char *source_name(const struct source *source, const char *name);

/* For libraries that read parts of a large file themselves: which bytes of which file on disk it is. */
struct source_place {
	char *path; /* owned by the caller, free() */
	uint64_t offset, bytes;
};
int source_locate(const struct source *source, const char *name, struct source_place *place);

#endif
