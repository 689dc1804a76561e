/*
 * Threads: a pool that runs numbered jobs, for files and decoding (the CPU back end uses OpenMP instead).
 * All threads keep USR2 and TERM blocked.
 */
#ifndef NIGHTSHIFT_BASE_THREADS_H
#define NIGHTSHIFT_BASE_THREADS_H

#include <stddef.h>

/* CPUs in the affinity mask of this process. */
int threads_available(void);

/* Runs job(context, i) for i = 0 .. count-1 on up to `threads` threads, started in order of i. The first failure (by
 * index, not by time) is the status returned, with its message; after a failure no new index is started. */
int threads_run(int threads, size_t count, int (*job)(void *context, size_t index), void *context);

#endif
