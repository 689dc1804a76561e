/* What the files of the ranks body share. */
#ifndef NIGHTSHIFT_COMM_RANKS_H
#define NIGHTSHIFT_COMM_RANKS_H

#include "comm/comm.h"
#include "comm/transport.h"

struct comm_wait { /* one time of waiting */
	double seconds, last, looked;
	int turns;
};

/* The result of a transport call as a status; a failure loses the ranks. `what` is for the message. */
int ranks_check(struct comm *comm, int result, const char *what);
/* Called while something is not done: gives the processor away more and more, and fails when a rank is lost. `from`: the rank that
 * is waited for; -1: any. */
int ranks_wait(struct comm *comm, struct comm_wait *wait, int from);

/* reduce.c */
int ranks_reduction_new(struct comm *comm, size_t largest, struct comm_reduction **reduction);
void ranks_reduction_free(struct comm *comm, struct comm_reduction *reduction);
int ranks_reduction_start(struct comm *comm, struct comm_reduction *reduction, float *data, size_t count);
int ranks_reduction_test(struct comm *comm, struct comm_reduction *reduction, bool *done);
int ranks_reduction_wait(struct comm *comm, struct comm_reduction *reduction);

/* plugin.c: the transport of the MPI plugin, or STATUS_UNAVAILABLE. */
int comm_load_plugin(const struct comm_transport **transport);

#endif
