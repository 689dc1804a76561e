/*
 * Data parallel: the gradients of all ranks are added up in buckets while the backward pass of the step's last micro-batch runs
 * (DESIGN section 7). The block of gradients fills from its end, so buckets are cut from there.
 */
#ifndef NIGHTSHIFT_TRAIN_EXCHANGE_H
#define NIGHTSHIFT_TRAIN_EXCHANGE_H

#include "comm/comm.h"
#include "graph/graph.h"

#define EXCHANGE_FLIGHT 4 /* buckets under way at a time; each needs memory for the parts of the other ranks */

struct exchange {
	struct comm *comm;
	float *block;
	size_t count;            /* floats */
	size_t bucket, buckets;  /* floats in one (the last may be smaller), how many */
	size_t ready_from;       /* complete from this float on */
	size_t started, finished;
	bool over;               /* of this step */
	bool meets;              /* the ranks meet in batch norms */
	bool apart;              /* a rank failed, so they meet no more in this step */
	int32_t *failed;         /* by rank */
	struct comm_reduction *reduction[EXCHANGE_FLIGHT]; /* bucket b uses b modulo EXCHANGE_FLIGHT */
	/* of the last step, for people */
	size_t early;            /* buckets that were started before the backward pass had ended */
	double waited;           /* seconds between its end and the sums */
};

/* Whether a step of `micros` micro-batches can be shared by the ranks, with one micro-batch each where `one_each` (else STATUS_CONFIG); a share that gives other bits than one
 * process does is one warning of rank 0. */
int exchange_check(const struct comm *comm, int64_t micros, bool one_each);
/* For a prepared program; with several ranks it becomes the program's exchange. Borrows both. */
int exchange_init(struct exchange *exchange, struct comm *comm, struct program *program);
void exchange_release(struct exchange *exchange);
/* Before the first micro-batch of a step. */
void exchange_begin(struct exchange *exchange);
/* Behind the last micro-batch of a step, with this rank's status: where ranks meet in batch norms, one that failed says so here, so
 * that the others do not wait for it in the next. STATUS_AGAIN where another one has. */
int exchange_settle(struct exchange *exchange, int status);
/* Adds up what is left, ready or not: every rank must come here in a step, also one whose step has failed. Nothing the second time. */
int exchange_finish(struct exchange *exchange);

#endif
