#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/transport.h"
#include "support/thread_ranks.h"

enum kind { SENT, RECEIVE, COLLECTIVE };

struct message {
	struct message *next;
	int from, to, tag;
	bool taken;
	size_t bytes;
	char data[];
};

struct hall { /* what the threads share */
	pthread_mutex_t lock;
	int size;
	struct message *first, **last;
};

struct rank {
	struct hall *hall;
	struct comm_transport transport;
	int number, collectives;
	unsigned seed;
	struct pending *started; /* all, done or not */
	void (*body)(struct comm *comm, void *context);
	void *context;
	int status;
};

struct pending {
	struct pending *next;
	enum kind kind;
	bool done;
	int from, tag;
	void *data;
	size_t bytes;
	void (*combine)(void *to, const void *from, size_t bytes, int rank);
	bool *arrived; /* of a collective, by rank */
};

static int post(struct rank *rank, int to, int tag, const void *data, size_t bytes)
{
	struct hall *hall = rank->hall;
	struct message *message = calloc(1, sizeof *message + bytes);
	if (!message)
		return -1;
	message->from = rank->number;
	message->to = to;
	message->tag = tag;
	message->bytes = bytes;
	memcpy(message->data, data, bytes);
	pthread_mutex_lock(&hall->lock);
	*hall->last = message;
	hall->last = &message->next;
	pthread_mutex_unlock(&hall->lock);
	return 0;
}

/* The next message from one rank with this tag; it stays in the list until the end. */
static struct message *take(struct rank *rank, int from, int tag)
{
	struct hall *hall = rank->hall;
	struct message *found = NULL;
	pthread_mutex_lock(&hall->lock);
	for (struct message *m = hall->first; m && !found; m = m->next)
		if (!m->taken && m->from == from && m->to == rank->number && m->tag == tag)
			found = m;
	if (found)
		found->taken = true;
	pthread_mutex_unlock(&hall->lock);
	return found;
}

static int keep(struct rank *rank, struct comm_request *request, struct pending pending)
{
	struct pending *kept = memory_copy(&pending, sizeof pending);
	request->handle[0] = (uint64_t)(uintptr_t)kept;
	if (!kept)
		return -1;
	kept->next = rank->started;
	rank->started = kept;
	return 0;
}

static int rank_send(
	void *state, int to, int tag, const void *data, size_t bytes, struct comm_request *request)
{
	return post(state, to, tag, data, bytes) ? -1 : keep(state, request, (struct pending){.kind = SENT});
}

static int rank_receive(
	void *state, int from, int tag, void *data, size_t bytes, struct comm_request *request)
{
	return keep(state, request,
		(struct pending){.kind = RECEIVE, .from = from, .tag = tag, .data = data, .bytes = bytes});
}

/* Everybody gets everybody's bytes and combines them: collectives have tags of their own, below zero. */
static int start(struct rank *rank, const void *mine, size_t bytes, void *to,
	void (*combine)(void *, const void *, size_t, int), struct comm_request *request)
{
	int tag = -1 - rank->collectives++;
	struct pending pending = {
		.kind = COLLECTIVE, .tag = tag, .data = to, .bytes = bytes, .combine = combine};
	pending.arrived = memory_new((size_t)rank->hall->size, sizeof(bool));
	if (!pending.arrived)
		return -1;
	for (int i = 0; i < rank->hall->size; i++)
		if (post(rank, i, tag, mine, bytes))
			return -1;
	return keep(rank, request, pending);
}

static void combine_gather(void *to, const void *from, size_t bytes, int rank)
{
	memcpy((char *)to + (size_t)rank * bytes, from, bytes);
}

static void combine_nothing(void *to, const void *from, size_t bytes, int rank)
{
	(void)to, (void)from, (void)bytes, (void)rank;
}

static void combine_maximum(void *to, const void *from, size_t bytes, int rank)
{
	int64_t *a = to;
	const int64_t *b = from;
	(void)rank;
	for (size_t i = 0; i < bytes / sizeof *a; i++)
		a[i] = a[i] > b[i] ? a[i] : b[i];
}

static int rank_gather(void *state, const void *mine, size_t bytes, void *all, struct comm_request *request)
{
	return start(state, mine, bytes, all, combine_gather, request);
}

static int rank_maximum(void *state, int64_t *values, size_t count, struct comm_request *request)
{
	return start(state, values, count * sizeof *values, values, combine_maximum, request);
}

static int rank_barrier(void *state, struct comm_request *request)
{
	return start(state, "", 1, NULL, combine_nothing, request);
}

static int rank_broadcast(void *state, int root, void *data, size_t bytes, struct comm_request *request)
{
	struct rank *rank = state;
	int tag = -1 - rank->collectives++;
	if (rank->number != root)
		return rank_receive(state, root, tag, data, bytes, request);
	for (int i = 0; i < rank->hall->size; i++)
		if (i != root && post(rank, i, tag, data, bytes))
			return -1;
	return keep(state, request, (struct pending){.kind = SENT});
}

static bool finish_receive(struct rank *rank, struct pending *pending)
{
	struct message *message = take(rank, pending->from, pending->tag);
	if (message)
		memcpy(pending->data, message->data, pending->bytes);
	return message;
}

static bool finish_collective(struct rank *rank, struct pending *pending)
{
	bool all = true;
	for (int i = 0; i < rank->hall->size; i++) {
		struct message *message = pending->arrived[i] ? NULL : take(rank, i, pending->tag);
		if (message)
			pending->combine(pending->data, message->data, pending->bytes, i);
		pending->arrived[i] = pending->arrived[i] || message;
		all = all && pending->arrived[i];
	}
	return all;
}

static int rank_test(void *state, struct comm_request *request, bool *done)
{
	struct rank *rank = state;
	struct pending *pending = (struct pending *)(uintptr_t)request->handle[0];
	*done = pending->done;
	if (pending->done || rand_r(&rank->seed) % 3 == 0)
		return 0;
	pending->done = pending->kind == SENT ||
			(pending->kind == RECEIVE && finish_receive(rank, pending)) ||
			(pending->kind == COLLECTIVE && finish_collective(rank, pending));
	*done = pending->done;
	return 0;
}

static int rank_open(void *state, int *number, int *size)
{
	struct rank *rank = state;
	*number = rank->number;
	*size = rank->hall->size;
	return 0;
}

static void rank_close(void *state)
{
	(void)state;
}

static const char *rank_failure(void *state)
{
	(void)state;
	return "no memory";
}

static void *run(void *argument)
{
	struct rank *rank = argument;
	struct comm *comm;
	rank->status = comm_open_ranks(&rank->transport, &comm);
	if (!rank->status) {
		rank->body(comm, rank->context);
		comm->close(comm);
	}
	for (struct pending *p = rank->started, *next; p; p = next) {
		next = p->next;
		free(p->arrived);
		free(p);
	}
	return NULL;
}

int thread_ranks_run(int size, unsigned seed, void (*body)(struct comm *comm, void *context), void *context)
{
	struct hall hall = {.lock = PTHREAD_MUTEX_INITIALIZER, .size = size, .last = &hall.first};
	struct rank *rank = memory_new((size_t)size, sizeof *rank);
	pthread_t *thread = memory_new((size_t)size, sizeof *thread);
	int status = rank && thread ? 0 : STATUS_FAILURE, started = 0;
	for (; started < size && !status; started++) {
		rank[started] = (struct rank){.hall = &hall,
			.number = started,
			.seed = seed * 1000 + (unsigned)started,
			.body = body,
			.context = context};
		rank[started].transport = (struct comm_transport){COMM_TRANSPORT_VERSION, &rank[started],
			rank_open, rank_close, rank_send, rank_receive, rank_gather, rank_broadcast,
			rank_maximum, NULL, rank_barrier, rank_test, rank_failure};
		if (pthread_create(&thread[started], NULL, run, &rank[started]))
			break;
	}
	for (int i = 0; i < started; i++) {
		pthread_join(thread[i], NULL);
		status = status ? status : rank[i].status;
	}
	for (struct message *m = hall.first, *next; m; m = next) {
		next = m->next;
		free(m);
	}
	free(rank);
	free(thread);
	return started == size ? status : STATUS_FAILURE;
}
