/* code.manifest as rows, and what differs between two of them. */
#ifndef NIGHTSHIFT_RUN_SNAPSHOT_MANIFEST_H
#define NIGHTSHIFT_RUN_SNAPSHOT_MANIFEST_H

#include <stddef.h>

#include "base/text.h"
#include "run/snapshot_files.h"

struct manifest_row {
	char *kind, *name, *value, *bytes, *note; /* into `data` */
};
struct code_manifest {
	char *data;
	struct manifest_row *row;
	size_t count, capacity;
};
/* Reads a manifest's text (from malloc, taken over). STATUS_DATA with the line of what is no row. */
int code_manifest_parse(struct code_manifest *manifest, const char *path, char *data);
void code_manifest_release(struct code_manifest *manifest);
/* The first row of a kind (and name, unless NULL); NULL when there is none. */
const struct manifest_row *code_manifest_find(
	const struct code_manifest *manifest, const char *kind, const char *name);

/* The whole text for the files, with the digest of the archive where there is one ("" without), programs and libraries. */
int code_manifest_format(
	const struct snapshot_files *files, const char *tar_digest, uint64_t tar_bytes, struct text *text);

/* Rows "added|removed|changed<TAB>kind<TAB>name" of files, links, submodules, programs and libraries. */
int code_manifest_compare(const struct code_manifest *before, const struct code_manifest *after,
	struct text *rows, size_t *count);

#endif
