/*
 * The loader: makes numbered batches ahead of time in threads of its own and hands them over in order. What a batch holds is
 * a pure function of its number, so threads and timing change nothing.
 */
#ifndef NIGHTSHIFT_DATA_LOADER_H
#define NIGHTSHIFT_DATA_LOADER_H

#include <stdint.h>

struct loader_source {
	/* Makes batch `number` in place `slot` (0 .. slots-1) of the owner's memory; runs in several threads at once, never twice
	 * at the same slot. */
	int (*make)(void *context, int64_t number, int slot);
	void *context;
	int slots;
};

struct loader;
/* threads 0: batches are made inside loader_next(). The first batch asked for will be `first`. */
int loader_new(const struct loader_source *source, int threads, int64_t first, struct loader **loader);
/* The slot that holds batch `number`; numbers are asked for one after the other, each may be asked for again until the next
 * one. The slot is the caller's until then. *waited: seconds spent here. The status of its making is returned. */
int loader_next(struct loader *loader, int64_t number, int *slot, double *waited);
void loader_free(struct loader *loader); /* waits for the threads; NULL is fine */

#endif
