/*
 * Copying files to local scratch. Small files go in batches of one directory, opened relative to it; large
 * ones in pieces that several threads take at once. Digests are taken of the bytes read from the source; what
 * is whole is journalled.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_FILES_H
#define NIGHTSHIFT_RUN_STAGE_FILES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "run/stage_rows.h"
#include "run/stage_tree.h"

/* What one call has copied, and the line that says so; safe from many threads. */
struct stage_count {
	pthread_mutex_t lock;
	struct progress progress;
	uint64_t files, bytes;         /* copied */
	uint64_t all_files, all_bytes; /* to copy; 0 bytes: not known */
};
void stage_count_start(struct stage_count *count, const char *what, uint64_t files, uint64_t bytes);
void stage_count_add(struct stage_count *count, uint64_t files, uint64_t bytes);
void stage_count_end(struct stage_count *count);

/* Where copies are written. */
struct stage_target {
	int descriptor;   /* of KEY/data */
	const char *path; /* the same, for messages */
	int journal;      /* descriptor, O_APPEND */
};

/* STATUS_CANNOT_CREATE, with the figures, when the file system of the target has not room for these. */
int stage_space_check(const struct stage_target *target, uint64_t bytes, uint64_t files);
/* One new file below the target, 0600 (an old one of that name is removed first); -1 with a message. */
int stage_create(const struct stage_target *target, int directory, const char *name);
/* Makes one directory below the target; there is fine. */
int stage_make_directory(const struct stage_target *target, const char *path);

/* Writes all bytes at an offset of an open file below the target; `path` is for messages. */
int stage_write_at(const struct stage_target *target, const char *path, int descriptor, const void *data,
	size_t bytes, uint64_t offset);
/* Reads exactly `bytes` bytes at an offset of an open file of the source; STATUS_DATA when it has become shorter. */
int stage_read_at(const struct stage_tree *tree, const struct stage_file *file, int descriptor, void *data,
	size_t bytes, uint64_t offset);
/* STATUS_DATA when an open file of the source is no more what was listed. */
int stage_check_source(const struct stage_tree *tree, const struct stage_file *file, int descriptor);

/* Length and CRC-32C of a file below the target. */
int stage_digest(const struct stage_target *target, const char *path, uint64_t *bytes, uint32_t *crc);

/*
 * Copies the files of `tree` that are not in `have` as good. On return each file's crc is set when the status
 * is STATUS_OK. STATUS_AGAIN on notice, after whole pieces. Space and inodes are checked before the first
 * byte.
 */
int stage_files_copy(struct stage_tree *tree, const struct stage_rows *have,
	const struct stage_target *target, int jobs, const char *what, struct stage_count *count);

#endif
