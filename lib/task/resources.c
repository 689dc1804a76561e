#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "task/recipe.h"
#include "task/resources.h"
#include "train/epoch.h"
#include "train/leave.h"
#include "train/weights.h"

#define FLOPS_A_THREAD 10e9 /* a cautious rate for the notice before anything was measured */
#define LOG_BYTES_A_STEP 400

static void row(struct text *rows, const char *item, double value, const char *unit)
{
	text_format(rows, "%s\t", item);
	text_number(rows, value);
	text_format(rows, "\t%s\n", unit);
}

/* A row of /proc/meminfo, such as "MemTotal:"; 0 when it cannot be read. */
static uint64_t memory_row(const char *key)
{
	char *data = NULL, *line;
	size_t bytes;
	uint64_t kib = 0;

	line = file_read("/proc/meminfo", 65536, &data, &bytes) ? NULL : strstr(data, key);
	if (line) {
		line += strlen(key);
		line[strcspn(line, "k")] = '\0';
		text_to_bytes(line + strspn(line, " "), &kib);
	}
	free(data);
	return kib * 1024;
}

/* What is there by that row, or the configured budget where that is smaller. */
static uint64_t memory_here(const struct run *run, const char *key)
{
	uint64_t budget = config_bytes(run->config, "memory"), there = memory_row(key);

	return budget && (budget < there || !there) ? budget : there;
}

static int too_large(uint64_t needed, uint64_t here)
{
	char need[32], have[32];

	return error_set(STATUS_UNAVAILABLE,
		"the run needs %s of memory, here are %s; make batch.micro, the images or the model smaller",
		text_of_bytes(needed, need), text_of_bytes(here, have));
}

/* Bytes of the weights, from the shapes alone. */
static uint64_t weights_bytes(const struct task_training *training)
{
	const struct store *store = program_store(training->loop.program);
	uint64_t bytes = 0;

	for (size_t i = 0; i < store_count(store); i++)
		bytes += store_parameter(store, i)->count * sizeof(float);
	return bytes;
}

/* Bytes of one checkpoint: the weights, and the state of those that are trained. */
static uint64_t checkpoint_bytes_of(const struct task_training *training)
{
	const struct store *store = program_store(training->loop.program);
	uint64_t slots = (uint64_t)program_state_slots(training->loop.program), bytes = 0;

	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);

		if (!parameter->frozen && !parameter->statistic)
			bytes += parameter->count * sizeof(float) * slots;
	}
	return bytes + weights_bytes(training);
}

/* Beside what the device holds there is the copy of the weights that a save is written from. */
static uint64_t memory_needed(const struct task_training *training, const struct program_bytes *bytes)
{
	return bytes->total + checkpoint_bytes_of(training);
}

/* Sizes of the program, which computes results again where it would not fit beside that copy. */
static int measure(const struct run *run, const struct task_training *training, struct program_bytes *bytes)
{
	uint64_t here = memory_here(run, "MemTotal:"), copy = checkpoint_bytes_of(training);

	program_memory(training->loop.program, here > copy ? here - copy : here);
	return program_measure(training->loop.program, bytes);
}

int resources_check(const struct run *run, const struct task_training *training)
{
	uint64_t here = memory_here(run, "MemTotal:"), available = memory_here(run, "MemAvailable:"), needed;
	struct program_bytes bytes;
	char need[32], have[32];
	int status = measure(run, training, &bytes);

	if (status)
		return status;
	needed = memory_needed(training, &bytes);
	if (here && needed > here)
		return too_large(needed, here);
	if (available && needed > available)
		warn("the run needs %s of memory, of which %s are free now", text_of_bytes(needed, need),
			text_of_bytes(available, have));
	return 0;
}

static double parameters(const struct task_training *training)
{
	return (double)(weights_bytes(training) / sizeof(float));
}

static void rows_of_device(const struct program_bytes *bytes, struct text *rows)
{
	row(rows, "parameters_bytes", (double)bytes->parameters, "B");
	row(rows, "gradients_bytes", (double)bytes->gradients, "B");
	row(rows, "accumulators_bytes", (double)bytes->accumulators, "B");
	row(rows, "state_bytes", (double)bytes->state, "B");
	row(rows, "inputs_bytes", (double)bytes->inputs, "B");
	row(rows, "activations_bytes", (double)bytes->arena, "B");
	row(rows, "workspace_bytes", (double)bytes->workspace, "B");
	row(rows, "device_bytes", (double)bytes->total, "B");
}

#define LARGEST 10

/* A row each, named by kind, graph and operation. */
static void rows_of_tensors(const struct program *program, struct text *rows)
{
	struct program_tensor largest[LARGEST];
	size_t count = program_largest(program, largest, LARGEST);

	for (size_t i = 0; i < count; i++) {
		text_format(rows, "%s %s:", largest[i].kind, largest[i].graph);
		text_field(rows, largest[i].name);
		text_format(rows, "\t%llu\tB\n", (unsigned long long)largest[i].bytes);
	}
}

static double notice(const struct run *run, const struct platform *platform,
	const struct task_training *training, uint64_t save_bytes)
{
	struct leave leave = {0};
	double step = training->flops / (FLOPS_A_THREAD * platform->now.threads);

	if (leave_probe(&leave, run->path)) {
		warn("%s; the save time is not known", error_message());
		return leave_notice_needed(step, 0);
	}
	return leave_notice_needed(step, leave_save_estimate(&leave, save_bytes));
}

/* Checkpoints, weights that are kept, logs. */
static double run_size(const struct config *config, const struct task_training *training, uint64_t checkpoint)
{
	int64_t steps = recipe_steps(config, &training->loop),
		every = config_integer(config, "checkpoint.keep_every"),
		epochs = config_integer(config, "checkpoint.keep_epochs");
	double kept = (double)(every > 0 ? steps / every : 0) +
		      (double)(epochs > 0 ? epoch_of(&training->loop, steps) / epochs : 0) + 1;

	return (double)checkpoint * (double)(config_integer(config, "checkpoint.keep") + 1) +
	       kept * (double)weights_bytes(training) + (double)steps * LOG_BYTES_A_STEP;
}

int resources_missing(const struct task_training *training)
{
	if (!training->missing)
		return STATUS_OK;
	return error_set(STATUS_NO_INPUT, "%zu data files are missing, the first is %s%s", training->missing,
		training->first_missing, training->missing_hint ? training->missing_hint : "");
}

int resources_describe(const struct run *run, const struct platform *platform,
	const struct task_training *training, struct text *rows, int *status_of_run)
{
	const struct config *config = run->config;
	int64_t steps = recipe_steps(config, &training->loop);
	uint64_t checkpoint = checkpoint_bytes_of(training), here = memory_here(run, "MemAvailable:"), needed;
	struct program_bytes bytes;
	int status = measure(run, training, &bytes);

	if (status)
		return status;
	needed = memory_needed(training, &bytes);
	text_add(rows, "#item\tvalue\tunit\n");
	row(rows, "parameters", parameters(training), "");
	row(rows, "steps", (double)steps, "");
	row(rows, "samples_per_step", (double)training->loop.batch, "");
	row(rows, "flops_per_step", training->flops, "FLOP");
	row(rows, "bytes_moved_per_step", training->traffic, "B");
	rows_of_device(&bytes, rows);
	row(rows, "checkpoint_bytes", (double)checkpoint, "B");
	row(rows, "run_bytes", run_size(config, training, checkpoint), "B");
	row(rows, "missing_files", (double)training->missing, "");
	row(rows, "notice", ceil(notice(run, platform, training, checkpoint)), "s");
	row(rows, "threads", platform->now.threads, "");
	text_format(rows, "isa\t%s\t\nprecision\t%s\t\ndevice\t%s\t\n", platform->now.isa,
		platform->now.precision, platform->now.model);
	row(rows, "memory_bytes", (double)needed, "B");
	row(rows, "memory_here_bytes", (double)here, "B");
	text_format(rows, "fits\t%s\t\n", needed <= here ? "yes" : "no");
	rows_of_tensors(training->loop.program, rows);
	if (training->missing)
		*status_of_run = resources_missing(training);
	else if (needed > here)
		*status_of_run = too_large(needed, here);
	else
		*status_of_run = 0;
	return text_check(rows);
}
