/*
 * What is whole in a copy: the rows of KEY/journal (pieces, in the order they became whole) and of
 * KEY/MANIFEST (files, sorted by name). A large file is copied in pieces, so that many threads share it and
 * an interrupted one goes on.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_ROWS_H
#define NIGHTSHIFT_RUN_STAGE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct stage_row {
	char *path; /* below KEY/data */
	uint64_t offset, bytes;
	uint32_t crc;
	size_t order; /* where it stood: of equal pieces the last counts */
	bool good;    /* set by stage_rows_check() */
};
struct stage_rows {
	struct stage_row *row;
	size_t count, capacity;
	bool files; /* each row is a whole file: what is there must not be longer either */
};
void stage_rows_release(struct stage_rows *rows);
int stage_rows_add(struct stage_rows *rows, const char *path, uint64_t offset, uint64_t bytes, uint32_t crc);
/* Sorts by path and offset and drops all but the last of equal ones; needed before find, check and write. */
void stage_rows_sort(struct stage_rows *rows);
const struct stage_row *stage_rows_find(const struct stage_rows *rows, const char *path, uint64_t offset);

/* The text of one journal row. */
void stage_rows_format(struct text *text, const char *path, uint64_t offset, uint64_t bytes, uint32_t crc);
/* Reads KEY/journal (a torn last row is ignored); missing: no rows. Sorted. */
int stage_rows_read_journal(struct stage_rows *rows, const char *path);
/* Reads KEY/MANIFEST; missing or damaged: *whole false, no rows. Sorted. */
int stage_rows_read_manifest(struct stage_rows *rows, const char *path, bool *whole);
/* The text of KEY/MANIFEST; every row is a whole file. */
void stage_rows_manifest(const struct stage_rows *rows, struct text *text);

/* Marks the rows whose piece is there in full below the directory `descriptor`; with `read`, whose bytes have
 * the digest, read from the disk where the system can be made to. *bad (may be NULL): how many are not good.
 */
int stage_rows_check(struct stage_rows *rows, int descriptor, bool read, int jobs, size_t *bad);

#endif
