/* The ranks body: blocking calls over a transport, with an end to waiting. */
#include "comm/ranks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

#define LARGEST_MESSAGE ((size_t)256 << 20)
#define LOOK_SECONDS 0.2 /* between looks at the processes on this host */
#define LEAP_SECONDS                                                                                         \
	1.0 /* a longer time between two turns means that we did not run (suspended), not that others were silent */
enum { SPIN_TURNS = 200, YIELD_TURNS = 2000, SHORT_SLEEP = 50, LONG_SLEEP = 500 /* microseconds */ };

/* Where a rank lives: a process id means something on the same boot of a kernel, in the same namespace. */
struct peer {
	char host[64], boot[48], namespace[32];
	int64_t process;
};
struct ranks {
	struct peer *peer; /* by rank */
	struct peer mine;
};

/* ---- being lost ---- */

int ranks_check(struct comm *comm, int result, const char *what)
{
	if (!result)
		return STATUS_OK;
	comm->lost = true;
	return error_set(STATUS_FAILURE, "peer lost: %s between ranks failed: %s", what,
		comm->transport->failure(comm->transport->state));
}

static int check_usable(struct comm *comm)
{
	return comm->lost ? error_set(STATUS_FAILURE, "peer lost: the ranks do not answer any more")
			  : STATUS_OK;
}

static bool is_here(const struct ranks *ranks, const struct peer *peer)
{
	return !strcmp(peer->boot, ranks->mine.boot) && !strcmp(peer->namespace, ranks->mine.namespace) &&
	       peer->boot[0];
}

static int look_for_dead(struct comm *comm)
{
	const struct ranks *ranks = comm->state;
	for (int i = 0; ranks->peer && i < comm->size; i++) {
		const struct peer *peer = &ranks->peer[i];
		if (i == comm->rank || !is_here(ranks, peer) || !kill((pid_t)peer->process, 0) ||
			errno != ESRCH)
			continue;
		comm->lost = true;
		return error_set(STATUS_FAILURE, "peer lost: rank %d (process %lld on %s) is gone", i,
			(long long)peer->process, peer->host);
	}
	return STATUS_OK;
}

static int give_up(struct comm *comm, int from)
{
	const struct ranks *ranks = comm->state;
	comm->lost = true;
	if (from < 0 || !ranks->peer)
		return error_set(STATUS_FAILURE,
			"peer lost: a rank has been silent for %g s (parallel.timeout)", comm->timeout);
	return error_set(STATUS_FAILURE,
		"peer lost: rank %d (process %lld on %s) has been silent for %g s (parallel.timeout)", from,
		(long long)ranks->peer[from].process, ranks->peer[from].host, comm->timeout);
}

/* ---- waiting ---- */

static void pause_turn(int turns)
{
	if (turns < SPIN_TURNS)
		return;
	if (turns < YIELD_TURNS)
		sched_yield();
	else
		usleep(turns < 2 * YIELD_TURNS ? SHORT_SLEEP : LONG_SLEEP);
}

int ranks_wait(struct comm *comm, struct comm_wait *wait, int from)
{
	double now = clock_seconds(), passed = now - wait->last;
	if (wait->turns++ && passed > 0)
		wait->seconds += passed < LEAP_SECONDS ? passed : LEAP_SECONDS;
	wait->last = now;
	if (wait->seconds > comm->timeout)
		return give_up(comm, from);
	if (wait->seconds - wait->looked > LOOK_SECONDS) {
		wait->looked = wait->seconds;
		if (look_for_dead(comm))
			return error_status();
	}
	pause_turn(wait->turns);
	return STATUS_OK;
}

/* Waits for what a transport call has started. */
static int complete(struct comm *comm, int result, struct comm_request *request, const char *what)
{
	struct comm_wait wait = {0};
	bool done = false;
	int status = ranks_check(comm, result, what);
	while (!status && !done) {
		status = ranks_check(
			comm, comm->transport->test(comm->transport->state, request, &done), what);
		if (!status && !done)
			status = ranks_wait(comm, &wait, -1);
	}
	return status;
}

/* ---- the table ---- */

static int ranks_maximum(struct comm *comm, int64_t *values, size_t count)
{
	struct comm_request request;
	if (check_usable(comm))
		return error_status();
	return complete(comm, comm->transport->maximum(comm->transport->state, values, count, &request),
		&request, "a maximum");
}

static int ranks_gather(struct comm *comm, const void *mine, size_t bytes, void *all)
{
	struct comm_request request;
	if (check_usable(comm))
		return error_status();
	return complete(comm, comm->transport->gather(comm->transport->state, mine, bytes, all, &request),
		&request, "a gather");
}

static int ranks_broadcast(struct comm *comm, int root, void *data, size_t bytes)
{
	struct comm_request request;
	int status = check_usable(comm);
	for (size_t at = 0; at < bytes && !status; at += LARGEST_MESSAGE) {
		size_t part = bytes - at < LARGEST_MESSAGE ? bytes - at : LARGEST_MESSAGE;
		status = complete(comm,
			comm->transport->broadcast(
				comm->transport->state, root, (char *)data + at, part, &request),
			&request, "a broadcast");
	}
	return status;
}

static int ranks_barrier(struct comm *comm)
{
	struct comm_request request;
	if (check_usable(comm))
		return error_status();
	return complete(
		comm, comm->transport->barrier(comm->transport->state, &request), &request, "a barrier");
}

static void ranks_close(struct comm *comm)
{
	struct ranks *ranks = comm->state;
	comm->transport->close(comm->transport->state);
	free(ranks->peer);
	free(ranks);
	free(comm->buffer);
	free(comm);
}

/* ---- opening ---- */

/* One line of a small file, or the empty text. */
static void read_line(const char *path, char *line, size_t size)
{
	char *data;
	size_t bytes;
	line[0] = 0;
	if (file_read(path, 4096, &data, &bytes)) {
		error_clear();
		return;
	}
	snprintf(line, size, "%.*s", (int)strcspn(data, "\n"), data);
	free(data);
}

static void describe_self(struct peer *peer)
{
	ssize_t length = readlink("/proc/self/ns/pid", peer->namespace, sizeof peer->namespace - 1);
	peer->namespace[length < 0 ? 0 : length] = 0;
	read_line("/proc/sys/kernel/random/boot_id", peer->boot, sizeof peer->boot);
	if (gethostname(peer->host, sizeof peer->host - 1))
		peer->host[0] = 0;
	peer->process = getpid();
}

static int meet(struct comm *comm)
{
	struct ranks *ranks = comm->state;
	struct peer *peer = memory_new((size_t)comm->size, sizeof *peer);
	int status = peer ? STATUS_OK : error_status();
	describe_self(&ranks->mine);
	if (!status)
		status = ranks_gather(comm, &ranks->mine, sizeof ranks->mine, peer);
	ranks->peer = peer;
	comm->local = 0;
	for (int i = 0; i < comm->size && !status; i++)
		comm->local += i == comm->rank || is_here(ranks, &peer[i]);
	return status;
}

int comm_open_ranks(const struct comm_transport *transport, struct comm **result)
{
	struct comm *comm = memory_new(1, sizeof *comm);
	struct ranks *ranks = memory_new(1, sizeof *ranks);
	int status = comm && ranks ? STATUS_OK : error_status();
	*result = NULL;
	if (!status && transport->version != COMM_TRANSPORT_VERSION)
		status = error_set(STATUS_UNAVAILABLE,
			"the MPI plugin is of another version than this program; build both anew");
	if (status)
		goto fail;
	*comm = (struct comm){.timeout = 600,
		.exact = true,
		.maximum = ranks_maximum,
		.gather = ranks_gather,
		.broadcast = ranks_broadcast,
		.barrier = ranks_barrier,
		.reduction_new = ranks_reduction_new,
		.reduction_free = ranks_reduction_free,
		.reduction_start = ranks_reduction_start,
		.reduction_test = ranks_reduction_test,
		.reduction_wait = ranks_reduction_wait,
		.close = ranks_close,
		.transport = transport,
		.state = ranks};
	if (transport->open(transport->state, &comm->rank, &comm->size)) {
		status = error_set(STATUS_UNAVAILABLE, "cannot join the other ranks: %s",
			transport->failure(transport->state));
		goto fail;
	}
	status = meet(comm);
	if (status)
		goto fail;
	*result = comm;
	return STATUS_OK;
fail:
	if (ranks)
		free(ranks->peer);
	free(ranks);
	free(comm);
	return status;
}
