/* Ranks as threads of one process: a transport for tests, with messages that arrive late in an order of chance. */
#ifndef NIGHTSHIFT_TESTS_THREAD_RANKS_H
#define NIGHTSHIFT_TESTS_THREAD_RANKS_H

#include "comm/comm.h"

/* Runs body(comm, context) in `size` threads, each a rank over this transport. `seed` makes the delays. 0 when all could join. */
int thread_ranks_run(int size, unsigned seed, void (*body)(struct comm *comm, void *context), void *context);

#endif
