/*
 * Unpacking a tar archive to local scratch: read once from front to back, small members written by several threads.
 * Links are made last, when what they point to is there: those to files as hard links, those to directories as links. One
 * that leaves the archive is refused. Of members with one name the last counts, as in tar.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_TAR_H
#define NIGHTSHIFT_RUN_STAGE_TAR_H

#include "file/tar.h"
#include "run/stage_files.h"
#include "run/stage_rows.h"

/* Unpacks what is not in `have` as good; fills `rows` with a row for each file of the archive. STATUS_AGAIN on notice, after
 * whole files. */
int stage_tar_unpack(const char *archive, const struct stage_rows *have, const struct stage_target *target,
	int jobs, const char *what, struct stage_rows *rows, struct stage_count *count);

/* What a link of an archive points to, below the root of the archive ("" is the root); owned by the caller. STATUS_DATA: it leaves it. */
int stage_tar_goal(const char *archive, const struct tar_member *member, char **goal);

/* Whether the name or the first bytes of `path` are those of a tar archive, compressed or not. */
bool stage_is_archive(const char *path);

#endif
