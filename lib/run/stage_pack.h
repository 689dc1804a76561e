/*
 * Copying a tree of files to local scratch as one pack (file/pack.h): what takes long with millions of small files is to make
 * them, not their bytes.
 *
 * Where each file stands follows from the listed names and sizes alone, so that several threads write pieces of whole files side
 * by side; each piece that is whole is journalled. The index comes last.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_PACK_H
#define NIGHTSHIFT_RUN_STAGE_PACK_H

#include "run/stage_files.h"
#include "run/stage_rows.h"
#include "run/stage_tree.h"

#define STAGE_PACK "pack.tar" /* its name below KEY/data */

/* Copies what is not in `have` as good, and reads back what is, which must have its digest; the source's files get their crc. `rows`
 * gets the pack's row. STATUS_AGAIN on notice, after whole pieces. Space is checked before the first byte. */
int stage_pack_copy(struct stage_tree *tree, const struct stage_rows *have, const struct stage_target *target,
	int jobs, const char *what, struct stage_rows *rows, struct stage_count *count);

#endif
