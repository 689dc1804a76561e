/*
 * Ranks: one table of functions with the bodies "self" (one process) and MPI. Every rank calls the same functions in the
 * same order. Floats that decide or are logged are gathered and added in global order by the caller, never reduced here.
 */
#ifndef NIGHTSHIFT_COMM_COMM_H
#define NIGHTSHIFT_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

struct comm {
	int rank, size;
	int (*maximum)(struct comm *comm, int64_t *values, size_t count); /* in place over all ranks */
	int (*broadcast)(struct comm *comm, void *data, size_t bytes);   /* from rank 0 */
	int (*barrier)(struct comm *comm);
	void (*close)(struct comm *comm); /* frees it */
	void *state;
};
/* Size 1 without ranks. When the environment says that several ranks were started (spec/formats.md section 12.1) and this
 * build cannot join them: STATUS_UNAVAILABLE. */
int comm_open(struct comm **comm);

#endif
