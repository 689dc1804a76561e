/*
 * Ranks: the processes that train one run together. One table of functions with the bodies "self" (one process) and "ranks" (over
 * a transport: MPI, loaded as a plugin only when a launcher has started several processes).
 *
 * Every rank calls the same functions in the same order, from its main thread. Floats that decide or are logged are gathered and
 * added in global order by the caller, never reduced here.
 *
 * A rank that is silent for `timeout` seconds while another one waits for it, or whose process is gone, is lost: the call that
 * waited fails with STATUS_FAILURE, `lost` becomes true, and from then on every call fails at once. The process then ends by
 * _exit() (comm.c's bodies would wait for ever in MPI_Finalize); close() must not be called.
 */
#ifndef NIGHTSHIFT_COMM_COMM_H
#define NIGHTSHIFT_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm_transport; /* comm/transport.h */

/* One reduction at a time; its memory is made once. */
struct comm_reduction;

struct comm {
	int rank, size;
	int local;      /* ranks on this host, this one included */
	double timeout; /* seconds; 600 until set */
	bool exact;     /* reductions add in the fixed order; true until set */
	bool lost;
	int (*maximum)(struct comm *comm, int64_t *values, size_t count); /* in place over all ranks */
	/* `bytes` of every rank, in the order of ranks, to every rank. */
	int (*gather)(struct comm *comm, const void *mine, size_t bytes, void *all);
	int (*broadcast)(struct comm *comm, int root, void *data, size_t bytes);
	int (*barrier)(struct comm *comm);
	/*
	 * The sum of `count` floats over all ranks, in place, by a binary tree that pairs consecutive ranks from the left (the tree of
	 * program_collect() over micro-batches), whatever the network: every rank gets the same bits. Started in the same order on
	 * every rank; gets on only inside calls of this table. *done is true when the data is the sum and may be touched again.
	 */
	int (*reduction_new)(struct comm *comm, size_t largest, struct comm_reduction **reduction);
	void (*reduction_free)(struct comm *comm, struct comm_reduction *reduction); /* NULL is fine; not while it runs */
	int (*reduction_start)(struct comm *comm, struct comm_reduction *reduction, float *data, size_t count);
	int (*reduction_test)(struct comm *comm, struct comm_reduction *reduction, bool *done);
	int (*reduction_wait)(struct comm *comm, struct comm_reduction *reduction);
	void (*close)(struct comm *comm); /* frees it; NULL is not fine */

	const struct comm_transport *transport; /* of the ranks body */
	void *state;
	int next_tag; /* of reductions: the same on every rank */
	char *buffer; /* of comm_agree() */
	size_t buffer_bytes;
};

/*
 * Size 1 without ranks. When the environment says that several ranks were started (spec/formats.md section 12.1), loads the MPI
 * plugin and joins them. STATUS_UNAVAILABLE with one line when that cannot be: no plugin, or the launcher does not speak the
 * process management that MPI wants.
 */
int comm_open(struct comm **comm);

/* Size 1, whatever the environment says. */
int comm_open_self(struct comm **comm);
/* The ranks body over any transport; takes it over (closed in every case). */
int comm_open_ranks(const struct comm_transport *transport, struct comm **comm);

/*
 * Ranks agree on how it went: each gives its status (with its message), all get the same one: 0, or that of the lowest rank which
 * failed (STATUS_AGAIN only where nobody failed otherwise), its message with "rank R: " in front. `bytes` of each rank (`mine`)
 * come along into `all`; bytes may be 0.
 */
int comm_agree(struct comm *comm, int status, const void *mine, size_t bytes, void *all);

#endif
