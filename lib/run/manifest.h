/*
 * MANIFEST: what a checkpoint directory holds, one line "crc32c<TAB>bytes<TAB>path" a file, sorted by path; the last line is
 * the CRC-32C of the lines above. Eight hex digits each.
 */
#ifndef NIGHTSHIFT_RUN_MANIFEST_H
#define NIGHTSHIFT_RUN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manifest_file {
	char *path; /* owned; relative to the directory */
	uint64_t bytes;
	uint32_t crc;
};
struct manifest {
	struct manifest_file *file;
	size_t count, capacity;
	uint32_t crc;        /* the last line */
	uint32_t crc_model;  /* of the lines of model/ */
};
void manifest_release(struct manifest *manifest);
int manifest_add(struct manifest *manifest, const char *path, uint64_t bytes, uint32_t crc);
/* Sorts, sets both sums and publishes DIRECTORY/MANIFEST; *bytes is its length. */
int manifest_publish(struct manifest *manifest, const char *directory, uint64_t *bytes);
/* STATUS_DATA where it is damaged, missing, not sorted, or names a path outside. */
int manifest_read(const char *directory, struct manifest *manifest);
/* The same from memory: `data` is `bytes` long, ends with a NUL behind them and is taken apart in place; `name` is for messages. */
int manifest_parse(const char *name, char *data, size_t bytes, struct manifest *manifest);
/* Index of a path; -1 when there is none. */
int manifest_find(const struct manifest *manifest, const char *path);

/* Reads one file completely into memory (from malloc; a NUL behind it), checking length and CRC: STATUS_DATA. */
int manifest_load(const char *directory, const struct manifest_file *file, char **data);
/* The same without keeping it. `cold`: asks the system to read it from the storage again. */
int manifest_check(const char *directory, const struct manifest_file *file, bool cold);

#endif
