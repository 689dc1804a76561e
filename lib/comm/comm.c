/* Ranks: which launcher started us, the body "self" for one process, agreement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/ranks.h"

/* Where a launcher says who we are; a row counts when both variables hold numbers. */
static const struct launcher {
	const char *rank, *size;
	bool slurm;
} launchers[] = {
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
	{"PMIX_RANK", "PMIX_SIZE", false},
	{"PMI_RANK", "PMI_SIZE", false},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true},
	{"SLURM_PROCID", "SLURM_NTASKS", true},
	{"RANK", "WORLD_SIZE", false},
};

static bool number_of(const char *variable, int64_t *value)
{
	const char *text = getenv(variable);
	return text && text_to_int64(text, value) && *value >= 0;
}

/* A batch script has SLURM_PROCID and SLURM_NTASKS too, but its step has one of SLURM's reserved ids. */
static bool in_slurm_step(void)
{
	enum { FIRST_RESERVED_STEP_BELOW = 16 };
	int64_t step;
	return number_of("SLURM_STEP_ID", &step) && step < INT64_C(0x100000000) - FIRST_RESERVED_STEP_BELOW;
}

/* What the launcher says: *size processes; 1 without one. */
static const struct launcher *find_launcher(int64_t *rank, int64_t *size)
{
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		const struct launcher *launcher = &launchers[i];
		if (number_of(launcher->rank, rank) && number_of(launcher->size, size) &&
			(!launcher->slurm || in_slurm_step()))
			return launcher;
	}
	*rank = 0;
	*size = 1;
	return NULL;
}

/* MPI under srun ends the process with a page of text where srun does not speak its language. */
static bool speaks_to_mpi(const struct launcher *launcher)
{
	return !launcher->slurm || getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("PMI_FD");
}

static int open_launched(const struct launcher *launcher, int64_t rank, int64_t size, struct comm **comm)
{
	const struct comm_transport *transport;
	int status = comm_load_plugin(&transport);
	if (!status && !speaks_to_mpi(launcher))
		status = error_set(STATUS_UNAVAILABLE,
			"use srun --mpi=pmix (srun --mpi=list shows what there is) or mpirun");
	if (!status)
		status = comm_open_ranks(transport, comm);
	if (!status && (*comm)->size != size) {
		status = error_set(STATUS_UNAVAILABLE,
			"MPI sees %d processes; use srun --mpi=pmix, or the mpirun of the MPI "
			"this was built with",
			(*comm)->size);
		(*comm)->close(*comm);
		*comm = NULL;
	}
	if (status)
		error_prefix("started as rank %lld of %lld (%s)", (long long)rank, (long long)size,
			launcher->size);
	return status;
}

static int self_maximum(struct comm *comm, int64_t *values, size_t count)
{
	(void)comm, (void)values, (void)count;
	return STATUS_OK;
}

static int self_gather(struct comm *comm, const void *mine, size_t bytes, void *all)
{
	(void)comm;
	memcpy(all, mine, bytes);
	return STATUS_OK;
}

static int self_broadcast(struct comm *comm, int root, void *data, size_t bytes)
{
	(void)comm, (void)root, (void)data, (void)bytes;
	return STATUS_OK;
}

static int self_barrier(struct comm *comm)
{
	(void)comm;
	return STATUS_OK;
}

static int self_reduction_new(struct comm *comm, size_t largest, struct comm_reduction **reduction)
{
	(void)comm, (void)largest;
	*reduction = NULL;
	return STATUS_OK;
}

static void self_reduction_free(struct comm *comm, struct comm_reduction *reduction)
{
	(void)comm, (void)reduction;
}

static int self_reduction_start(
	struct comm *comm, struct comm_reduction *reduction, float *data, size_t count)
{
	(void)comm, (void)reduction, (void)data, (void)count;
	return STATUS_OK;
}

static int self_reduction_test(struct comm *comm, struct comm_reduction *reduction, bool *done)
{
	(void)comm, (void)reduction;
	*done = true;
	return STATUS_OK;
}

static int self_reduction_wait(struct comm *comm, struct comm_reduction *reduction)
{
	(void)comm, (void)reduction;
	return STATUS_OK;
}

static void self_close(struct comm *comm)
{
	free(comm->buffer);
	free(comm);
}

int comm_open_self(struct comm **comm)
{
	*comm = memory_new(1, sizeof **comm);
	if (!*comm)
		return error_status();
	**comm = (struct comm){.size = 1,
		.local = 1,
		.timeout = 600,
		.exact = true,
		.maximum = self_maximum,
		.gather = self_gather,
		.broadcast = self_broadcast,
		.barrier = self_barrier,
		.reduction_new = self_reduction_new,
		.reduction_free = self_reduction_free,
		.reduction_start = self_reduction_start,
		.reduction_test = self_reduction_test,
		.reduction_wait = self_reduction_wait,
		.close = self_close};
	return STATUS_OK;
}

int comm_open(struct comm **comm)
{
	int64_t rank, size;
	const struct launcher *launcher = find_launcher(&rank, &size);
	*comm = NULL;
	return size > 1 ? open_launched(launcher, rank, size, comm) : comm_open_self(comm);
}

/* ---- agreement ---- */

enum { MESSAGE_BYTES = 2048 };

/* Room for what all ranks give, and for what this one gives. */
static int make_room(struct comm *comm, size_t record)
{
	size_t bytes;
	if (size_multiply(record, (size_t)comm->size + 1, &bytes))
		return error_set(STATUS_FAILURE, "out of memory");
	if (bytes > comm->buffer_bytes) {
		free(comm->buffer);
		comm->buffer_bytes = 0;
		comm->buffer = memory_new(bytes, 1);
		if (!comm->buffer)
			return error_status();
		comm->buffer_bytes = bytes;
	}
	return STATUS_OK;
}

/* The rank whose status counts; -1: all went well. */
static int first_failure(const struct comm *comm, const char *records, size_t record, int *status)
{
	int found = -1;
	for (int i = 0; i < comm->size; i++) {
		int64_t one;
		memcpy(&one, records + (size_t)i * record, sizeof one);
		if (!one || (found >= 0 && *status != STATUS_AGAIN))
			continue;
		if (found >= 0 && one == STATUS_AGAIN)
			continue;
		found = i;
		*status = (int)one;
	}
	return found;
}

static int share_message(struct comm *comm, int root, int status, int mine)
{
	char message[MESSAGE_BYTES] = "";
	if (comm->rank == root)
		snprintf(message, sizeof message, "%s", error_message());
	if (comm->broadcast(comm, root, message, sizeof message))
		return error_status();
	if (comm->rank == root || mine == status)
		return status;
	return error_set(status, "rank %d: %s", root, message);
}

int comm_agree(struct comm *comm, int status, const void *mine, size_t bytes, void *all)
{
	size_t record = sizeof(int64_t) + bytes;
	int64_t own = status;
	int root, agreed = STATUS_OK;
	if (comm->size == 1) {
		if (bytes)
			memcpy(all, mine, bytes);
		return status;
	}
	if (comm->lost)
		return status ? status
			      : error_set(STATUS_FAILURE, "peer lost: the ranks do not answer any more");
	if (make_room(comm, record))
		return error_status();
	char *sent = comm->buffer + (size_t)comm->size * record;
	memcpy(sent, &own, sizeof own);
	if (bytes)
		memcpy(sent + sizeof own, mine, bytes);
	if (comm->gather(comm, sent, record, comm->buffer))
		return error_status();
	for (int i = 0; i < comm->size && bytes; i++)
		memcpy((char *)all + (size_t)i * bytes, comm->buffer + (size_t)i * record + sizeof own,
			bytes);
	root = first_failure(comm, comm->buffer, record, &agreed);
	return root < 0 ? STATUS_OK : share_message(comm, root, agreed, status);
}
