/*
 * The files of a code snapshot: which belong to it, what is left out and why, and their content.
 *
 * With git: what is tracked, and what is neither tracked nor ignored, of the repository and of those within it. Without: all
 * but what tools leave behind. Never: run directories, the output files of batch jobs, secrets.
 */
#ifndef NIGHTSHIFT_RUN_SNAPSHOT_FILES_H
#define NIGHTSHIFT_RUN_SNAPSHOT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/snapshot_git.h"

enum snapshot_kind {
	SNAPSHOT_FILE,
	SNAPSHOT_LINK,      /* value: the target */
	SNAPSHOT_SUBMODULE, /* value: its commit, or "not checked out" */
	SNAPSHOT_OMITTED,   /* value: why */
};
struct snapshot_entry {
	char *path; /* below the top */
	enum snapshot_kind kind;
	bool tracked, executable;
	char *value; /* of a file: SHA-256 in hexadecimal */
	char *data;  /* content of a file */
	uint64_t bytes;
	const char *note; /* "" or a remark: "Git LFS pointer", "leaves the tree" */
};
struct snapshot_files {
	char *top;                      /* absolute */
	struct git_state git;           /* top is NULL without git */
	char why[256];                  /* why there is no git */
	struct snapshot_entry *entries; /* in byte order of their paths */
	size_t count, capacity;
	size_t untracked;
};
/* Lists and reads. `run_path` is the run directory: never part of it. Large files (over 1 MiB) are left out and more than 50 MiB
 * in all or 50,000 files refused (STATUS_DATA, the largest named by notes), unless `force`. */
int snapshot_files_read(
	struct snapshot_files *files, const char *directory, const char *run_path, bool force);
void snapshot_files_release(struct snapshot_files *files);

#endif
