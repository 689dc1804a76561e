/*
 * The exact reduction: the data is cut into one slice a rank. Every rank sends each slice to its owner; the owner adds the parts in
 * the fixed order and sends the sum to everybody. Each rank sends and receives 2 (N-1)/N of the data, the least that is possible.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/ranks.h"

enum {
	ALIGNMENT = 16 /* floats of a cache line */,
	BLOCK = 2048 /* floats of all parts that are added at a time */,
	TAGS = 4096
};

enum phase {
	IDLE,
	PARTS /* slices travel to their owners */,
	SUMS /* and back */,
	LIBRARY /* the transport's own sum */
};

struct comm_reduction {
	enum phase phase;
	float *data;
	size_t count, largest;
	float *parts;                 /* of the own slice, from the other ranks; room for the largest */
	float **part;                 /* all of them, by rank */
	struct comm_request *request; /* first receives, then sends: one of each a peer */
	int requests, done;           /* started; those before `done` are complete */
	int tag;
};

static size_t slice_begin(const struct comm *comm, size_t count, int rank)
{
	size_t size = (count + (size_t)comm->size - 1) / (size_t)comm->size;
	size_t at = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT * (size_t)rank;
	return at < count ? at : count;
}

static size_t slice_count(const struct comm *comm, size_t count, int rank)
{
	return slice_begin(comm, count, rank + 1) - slice_begin(comm, count, rank);
}

int ranks_reduction_new(struct comm *comm, size_t largest, struct comm_reduction **result)
{
	struct comm_reduction *reduction = memory_new(1, sizeof *reduction);
	size_t others = (size_t)comm->size - 1;
	*result = reduction;
	if (!reduction)
		return error_status();
	reduction->largest = largest;
	reduction->parts =
		comm->exact ? memory_aligned(others * slice_count(comm, largest, 0) * sizeof(float)) : NULL;
	reduction->part = memory_new((size_t)comm->size, sizeof *reduction->part);
	reduction->request = memory_new(2 * others + 1, sizeof *reduction->request);
	if ((reduction->parts || !comm->exact) && reduction->part && reduction->request)
		return STATUS_OK;
	ranks_reduction_free(comm, reduction);
	*result = NULL;
	return error_status();
}

void ranks_reduction_free(struct comm *comm, struct comm_reduction *reduction)
{
	(void)comm;
	if (!reduction)
		return;
	free(reduction->parts);
	free(reduction->part);
	free(reduction->request);
	free(reduction);
}

/* ---- adding ---- */

static void add(float *restrict to, const float *restrict from, size_t count)
{
	size_t i = 0;
	for (; i + ALIGNMENT <= count; i += ALIGNMENT)
		for (size_t k = 0; k < ALIGNMENT; k++)
			to[i + k] += from[i + k];
	for (; i < count; i++)
		to[i] += from[i];
}

/* part[0] becomes the sum: (((0+1)+(2+3))+(4+5))+... */
static void add_tree(float *const *part, int parts, size_t count)
{
	for (size_t at = 0; at < count; at += BLOCK) {
		size_t block = count - at < BLOCK ? count - at : BLOCK;
		for (int stride = 1; stride < parts; stride *= 2)
			for (int i = 0; i + stride < parts; i += 2 * stride)
				add(part[i] + at, part[i + stride] + at, block);
	}
}

/* ---- the two phases ---- */

/* Rank `step` places further: so that not everybody talks to rank 0 first. */
static int peer_at(const struct comm *comm, int step)
{
	return (comm->rank + step) % comm->size;
}

static int peer_before(const struct comm *comm, int step)
{
	return (comm->rank - step + comm->size) % comm->size;
}

static int receive(
	struct comm *comm, struct comm_reduction *reduction, int from, int tag, float *data, size_t count)
{
	const struct comm_transport *transport = comm->transport;
	if (count == 0)
		return STATUS_OK;
	return ranks_check(comm,
		transport->receive(transport->state, from, tag, data, count * sizeof(float),
			&reduction->request[reduction->requests++]),
		"a reduction");
}

static int send(
	struct comm *comm, struct comm_reduction *reduction, int to, int tag, const float *data, size_t count)
{
	const struct comm_transport *transport = comm->transport;
	if (count == 0)
		return STATUS_OK;
	return ranks_check(comm,
		transport->send(transport->state, to, tag, data, count * sizeof(float),
			&reduction->request[reduction->requests++]),
		"a reduction");
}

static int start_parts(struct comm *comm, struct comm_reduction *reduction)
{
	size_t own = slice_count(comm, reduction->count, comm->rank);
	int status = STATUS_OK;
	reduction->phase = PARTS;
	reduction->requests = reduction->done = 0;
	reduction->part[comm->rank] = reduction->data + slice_begin(comm, reduction->count, comm->rank);
	for (int i = 1; i < comm->size && !status; i++) {
		int from = peer_before(comm, i);
		reduction->part[from] = reduction->parts + (size_t)(i - 1) * own;
		status = receive(comm, reduction, from, reduction->tag, reduction->part[from], own);
	}
	for (int i = 1; i < comm->size && !status; i++) {
		int to = peer_at(comm, i);
		status = send(comm, reduction, to, reduction->tag,
			reduction->data + slice_begin(comm, reduction->count, to),
			slice_count(comm, reduction->count, to));
	}
	return status;
}

/* All parts of the own slice are here, and those of the others are on their way out. */
static int start_sums(struct comm *comm, struct comm_reduction *reduction)
{
	float *own = reduction->data + slice_begin(comm, reduction->count, comm->rank);
	size_t count = slice_count(comm, reduction->count, comm->rank);
	int status = STATUS_OK;
	reduction->phase = SUMS;
	reduction->requests = reduction->done = 0;
	add_tree(reduction->part, comm->size, count);
	if (reduction->part[0] != own)
		memcpy(own, reduction->part[0], count * sizeof(float));
	for (int i = 1; i < comm->size && !status; i++) {
		int from = peer_before(comm, i);
		status = receive(comm, reduction, from, reduction->tag + 1,
			reduction->data + slice_begin(comm, reduction->count, from),
			slice_count(comm, reduction->count, from));
	}
	for (int i = 1; i < comm->size && !status; i++)
		status = send(comm, reduction, peer_at(comm, i), reduction->tag + 1, own, count);
	return status;
}

int ranks_reduction_start(struct comm *comm, struct comm_reduction *reduction, float *data, size_t count)
{
	const struct comm_transport *transport = comm->transport;
	if (comm->lost)
		return error_set(STATUS_FAILURE, "peer lost: the ranks do not answer any more");
	if (reduction->phase != IDLE || count > reduction->largest)
		return error_set(STATUS_FAILURE, "a reduction of %zu floats was not prepared", count);
	reduction->data = data;
	reduction->count = count;
	if (!comm->exact) {
		reduction->phase = LIBRARY;
		reduction->requests = 1;
		reduction->done = 0;
		return ranks_check(comm, transport->sum(transport->state, data, count, reduction->request),
			"a reduction");
	}
	reduction->tag = comm->next_tag;
	comm->next_tag = (comm->next_tag + 2) % TAGS;
	return start_parts(comm, reduction);
}

/* Whether all requests of the present phase are complete. */
static int test_requests(struct comm *comm, struct comm_reduction *reduction, bool *done)
{
	const struct comm_transport *transport = comm->transport;
	*done = true;
	while (reduction->done < reduction->requests) {
		if (ranks_check(comm,
			    transport->test(transport->state, &reduction->request[reduction->done], done),
			    "a reduction"))
			return error_status();
		if (!*done)
			return STATUS_OK;
		reduction->done++;
	}
	return STATUS_OK;
}

int ranks_reduction_test(struct comm *comm, struct comm_reduction *reduction, bool *done)
{
	*done = reduction->phase == IDLE;
	if (comm->lost)
		return error_set(STATUS_FAILURE, "peer lost: the ranks do not answer any more");
	while (!*done) {
		bool complete;
		if (test_requests(comm, reduction, &complete))
			return error_status();
		if (!complete)
			return STATUS_OK;
		if (reduction->phase == PARTS) {
			if (start_sums(comm, reduction))
				return error_status();
			continue;
		}
		reduction->phase = IDLE;
		*done = true;
	}
	return STATUS_OK;
}

/* The rank whose part has not come: receives are the first requests, from the rank before, the one before that, ... Later on a rank
 * that is waited for may itself wait for another one. */
static int waits_for(const struct comm *comm, const struct comm_reduction *reduction)
{
	if (reduction->phase != PARTS || !slice_count(comm, reduction->count, comm->rank) ||
		reduction->done >= comm->size - 1)
		return -1;
	return peer_before(comm, reduction->done + 1);
}

int ranks_reduction_wait(struct comm *comm, struct comm_reduction *reduction)
{
	struct comm_wait wait = {0};
	bool done = false;
	int status = ranks_reduction_test(comm, reduction, &done);
	while (!status && !done) {
		status = ranks_wait(comm, &wait, waits_for(comm, reduction));
		if (!status)
			status = ranks_reduction_test(comm, reduction, &done);
	}
	return status;
}
