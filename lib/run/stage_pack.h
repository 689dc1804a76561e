/*
 * Copying a tree of files to local scratch as one pack (file/pack.h): what takes long with millions of small files is to make
 * them, not their bytes.
 *
 * Where each file stands follows from the listed names and sizes alone, so that several threads write pieces of whole files side
 * by side; each piece that is whole is journalled. The index comes last.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_PACK_H
#define NIGHTSHIFT_RUN_STAGE_PACK_H

#include "file/pack.h"
#include "run/stage_files.h"
#include "run/stage_rows.h"
#include "run/stage_tree.h"

#define STAGE_PACK "pack.tar" /* its name below KEY/data */

/* Copies what is not in `have` as good, and reads back what is, which must have its digest; the source's files get their crc. `rows`
 * gets the pack's row. STATUS_AGAIN on notice, after whole pieces. Space is checked before the first byte. */
int stage_pack_copy(struct stage_tree *tree, const struct stage_rows *have, const struct stage_target *target,
	int jobs, const char *what, struct stage_rows *rows, struct stage_count *count);

/* The same of a tar archive, read once from front to back. Links to files are entries of their own with the same data; one to a
 * directory, or to what is not there, is STATUS_DATA. An interrupted one begins anew. */
int stage_pack_archive(const char *archive, const struct stage_target *target, struct stage_rows *rows,
	struct stage_count *count);

/* For both: opens the pack after a look at the space; and ends it behind the members, whose digest is `crc`, with the index of
 * `entries`, the file's length, and its row. */
int stage_pack_open(const struct stage_target *target, uint64_t bytes, int *descriptor);
int stage_pack_close(const struct stage_target *target, int descriptor, struct pack_entry *entries,
	size_t count, uint64_t end, uint32_t crc, struct stage_rows *rows);

#endif
