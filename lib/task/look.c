#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "graph/look.h"
#include "task/look.h"

#define WARM_STEPS 2

/* ---- the graphs ---- */

static int print(const struct program *program, bool drawing, FILE *out)
{
	if (drawing)
		return program_draw(program, out);
	program_print(program, out);
	return STATUS_OK;
}

int look_dump(const struct task_training *training, const char *path)
{
	struct program *program = training->loop.program;
	bool standard = !strcmp(path, "-");
	struct program_bytes bytes;
	char *data = NULL;
	size_t length = 0;
	FILE *out = standard ? stdout : open_memstream(&data, &length);
	int status = out ? program_measure(program, &bytes) : error_errno(STATUS_FAILURE, "%s", path);

	if (!status)
		status = print(program, text_ends(path, ".dot"), out);
	if (standard)
		return status;
	if (out && fclose(out) && !status)
		status = error_errno(STATUS_FAILURE, "%s", path);
	if (!status)
		status = file_publish(path, data, length);
	free(data);
	return status;
}

/* ---- the time ---- */

/* One of this rank's micro-batches; `profile` is NULL while the machine warms up. */
static int profile_micro(const struct loop_task *task, int64_t step, int64_t first, int64_t i, int64_t micros,
	struct profile *profile)
{
	double start = clock_seconds();
	struct loop_micro result = {0};
	const struct step_scalars scalars = {
		.step = step + 1, .seed = task->seed, .micro = first + i}; /* a rate of 0 */
	int status;

	program_set_scalars(task->program, &scalars);
	program_begin(task->program, i, micros);
	status = task->micro(task->state, step, first + i, &result);
	if (!status && profile)
		status = profile_add(profile, "data", start, result.data_seconds);
	start = clock_seconds();
	if (!status)
		status = program_collect(task->program, i, micros);
	if (!status && profile)
		status = profile_add(profile, "collect", start, clock_seconds() - start);
	return status;
}

static int profile_step(
	const struct loop_task *task, const struct comm *comm, int64_t step, struct profile *profile)
{
	int64_t micros = task->micros / comm->size;
	int status = STATUS_OK;
	double start, norm;

	for (int64_t i = 0; i < micros && !status; i++)
		status = profile_micro(task, step, comm->rank * micros, i, micros, profile);
	start = clock_seconds();
	if (!status)
		status = program_gradient_norm(task->program, &norm);
	if (!status && profile)
		status = profile_add(profile, "gradient-norm", start, clock_seconds() - start);
	return status;
}

static int profile_steps(const struct loop_task *task, const struct comm *comm,
	const struct look_profile *options, struct profile *profile, double *seconds)
{
	int status = STATUS_OK;
	double start;

	for (int64_t i = 0; i < WARM_STEPS && !status; i++)
		status = profile_step(task, comm, options->first + i, NULL);
	program_set_watch(task->program, watch_profile, profile);
	start = clock_seconds();
	for (int64_t i = 0; i < options->steps && !status; i++)
		status = profile_step(task, comm, options->first + WARM_STEPS + i, profile);
	*seconds = clock_seconds() - start;
	program_set_watch(task->program, NULL, NULL);
	return status;
}

static int write_trace(const struct profile *profile, int rank, const char *trace)
{
	struct text path = {0}, json = {0};
	int status;

	text_add(&path, trace);
	if (rank)
		text_format(&path, ".%d", rank);
	status = profile_trace(profile, rank, &json);
	if (!status && !(status = text_check(&path)))
		status = file_publish(path.data, json.data, json.length);
	text_release(&path);
	text_release(&json);
	return status;
}

int look_profile(const struct task_training *training, struct device *device, const struct comm *comm,
	const struct look_profile *options, struct text *rows)
{
	struct profile *profile = profile_new();
	struct machine machine = {0};
	double seconds = 0;
	int status = profile ? machine_measure(device, &machine) : error_status();

	if (!status)
		status = profile_steps(&training->loop, comm, options, profile, &seconds);
	if (!status)
		status = profile_table(profile, &machine, options->steps, seconds, rows);
	if (!status && options->trace)
		status = write_trace(profile, comm->rank, options->trace);
	profile_free(profile);
	return status;
}
