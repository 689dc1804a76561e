/* The MPI plugin: a transport over one communicator. All calls come from the main thread. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "comm/transport.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(struct comm_request), "a request holds MPI's handle");

static struct {
	MPI_Comm comm;
	char failure[MPI_MAX_ERROR_STRING + 64];
} plugin;

static int fail(const char *text)
{
	snprintf(plugin.failure, sizeof plugin.failure, "%s", text);
	return -1;
}

/* Keeps the request of a call that went well. */
static int finish(int code, const MPI_Request *from, struct comm_request *to)
{
	int length;
	if (code != MPI_SUCCESS) {
		if (MPI_Error_string(code, plugin.failure, &length) != MPI_SUCCESS)
			fail("an MPI error without a text");
		return -1;
	}
	if (to)
		memcpy(to, from, sizeof *from);
	return 0;
}

static int plugin_open(void *state, int *rank, int *size)
{
	int provided, code;
	(void)state;
	code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
	if (code == MPI_SUCCESS && provided < MPI_THREAD_FUNNELED)
		return fail("MPI cannot be used beside threads (MPI_THREAD_FUNNELED)");
	if (code == MPI_SUCCESS)
		code = MPI_Comm_dup(MPI_COMM_WORLD, &plugin.comm);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(plugin.comm, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_rank(plugin.comm, rank);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_size(plugin.comm, size);
	return finish(code, NULL, NULL);
}

static void plugin_close(void *state)
{
	int running;
	(void)state;
	if (MPI_Initialized(&running) == MPI_SUCCESS && running)
		MPI_Finalize();
}

static int too_long(size_t count)
{
	return count > INT_MAX ? fail("a message is too long") : 0;
}

static int plugin_send(
	void *state, int to, int tag, const void *data, size_t bytes, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	return too_long(bytes) ? -1
			       : finish(MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, plugin.comm, &handle),
					 &handle, request);
}

static int plugin_receive(
	void *state, int from, int tag, void *data, size_t bytes, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	return too_long(bytes)
		       ? -1
		       : finish(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, plugin.comm, &handle),
				 &handle, request);
}

static int plugin_gather(void *state, const void *mine, size_t bytes, void *all, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	if (too_long(bytes))
		return -1;
	return finish(
		MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, plugin.comm, &handle),
		&handle, request);
}

static int plugin_broadcast(void *state, int root, void *data, size_t bytes, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	return too_long(bytes) ? -1
			       : finish(MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, plugin.comm, &handle),
					 &handle, request);
}

static int plugin_maximum(void *state, int64_t *values, size_t count, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	if (too_long(count))
		return -1;
	return finish(
		MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_INT64_T, MPI_MAX, plugin.comm, &handle),
		&handle, request);
}

static int plugin_sum(void *state, float *values, size_t count, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	if (too_long(count))
		return -1;
	return finish(
		MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, plugin.comm, &handle),
		&handle, request);
}

static int plugin_barrier(void *state, struct comm_request *request)
{
	MPI_Request handle;
	(void)state;
	return finish(MPI_Ibarrier(plugin.comm, &handle), &handle, request);
}

static int plugin_test(void *state, struct comm_request *request, bool *done)
{
	MPI_Request handle;
	int flag = 0, code;
	(void)state;
	memcpy(&handle, request, sizeof handle);
	code = MPI_Test(&handle, &flag, MPI_STATUS_IGNORE);
	*done = flag;
	return finish(code, &handle, request);
}

static const char *plugin_failure(void *state)
{
	(void)state;
	return plugin.failure;
}

extern const struct comm_transport nightshift_transport;
const struct comm_transport nightshift_transport = {
	.version = COMM_TRANSPORT_VERSION,
	.open = plugin_open,
	.close = plugin_close,
	.send = plugin_send,
	.receive = plugin_receive,
	.gather = plugin_gather,
	.broadcast = plugin_broadcast,
	.maximum = plugin_maximum,
	.sum = plugin_sum,
	.barrier = plugin_barrier,
	.test = plugin_test,
	.failure = plugin_failure,
};
