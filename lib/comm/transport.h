/*
 * What the ranks body needs of a message passing library. Everything between open and close is started here and completed by
 * test(), so that waiting (and giving up) is ours. Functions return 0, or -1 with the text in failure().
 *
 * The MPI plugin exports `const struct comm_transport nightshift_transport`. It knows nothing of the programs that load it.
 */
#ifndef NIGHTSHIFT_COMM_TRANSPORT_H
#define NIGHTSHIFT_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_TRANSPORT_VERSION 1

struct comm_request {
	uint64_t handle[2]; /* the transport's; nothing needs releasing after test() said done */
};

struct comm_transport {
	int version;
	void *state;
	int (*open)(void *state, int *rank, int *size);
	void (*close)(void *state); /* waits for the other ranks to close, too */
	/* Messages between two ranks with one tag arrive in the order in which they were started. At most 1 GiB each. */
	int (*send)(void *state, int to, int tag, const void *data, size_t bytes, struct comm_request *request);
	int (*receive)(void *state, int from, int tag, void *data, size_t bytes, struct comm_request *request);
	/* Collective: all ranks start the same ones in the same order. */
	int (*gather)(void *state, const void *mine, size_t bytes, void *all, struct comm_request *request);
	int (*broadcast)(void *state, int root, void *data, size_t bytes, struct comm_request *request);
	int (*maximum)(void *state, int64_t *values, size_t count, struct comm_request *request);
	int (*sum)(void *state, float *values, size_t count, struct comm_request *request); /* in any order */
	int (*barrier)(void *state, struct comm_request *request);
	int (*test)(void *state, struct comm_request *request, bool *done);
	const char *(*failure)(void *state);
};

#endif
