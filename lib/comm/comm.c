/* Ranks: which launcher started us, and the body "self" for one process. */
#include "comm/comm.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

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

static int check_environment(void)
{
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		const struct launcher *launcher = &launchers[i];
		int64_t rank, size;
		if (!number_of(launcher->rank, &rank) || !number_of(launcher->size, &size) ||
			(launcher->slurm && !in_slurm_step()))
			continue;
		if (size <= 1)
			return STATUS_OK;
		return error_set(STATUS_UNAVAILABLE,
			"started as rank %lld of %lld (%s), but this build runs one process only; start one "
			"task "
			"(srun -n 1)",
			(long long)rank, (long long)size, launcher->size);
	}
	return STATUS_OK;
}

static int self_maximum(struct comm *comm, int64_t *values, size_t count)
{
	(void)comm, (void)values, (void)count;
	return STATUS_OK;
}

static int self_broadcast(struct comm *comm, void *data, size_t bytes)
{
	(void)comm, (void)data, (void)bytes;
	return STATUS_OK;
}

static int self_barrier(struct comm *comm)
{
	(void)comm;
	return STATUS_OK;
}

static void self_close(struct comm *comm)
{
	free(comm);
}

int comm_open(struct comm **comm)
{
	*comm = NULL;
	int status = check_environment();
	if (status)
		return status;
	struct comm *self = memory_new(1, sizeof *self);
	if (!self)
		return error_status();
	*self = (struct comm){.size = 1,
		.maximum = self_maximum,
		.broadcast = self_broadcast,
		.barrier = self_barrier,
		.close = self_close};
	*comm = self;
	return STATUS_OK;
}
