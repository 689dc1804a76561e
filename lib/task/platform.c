#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "cpu/cpu.h"
#include "task/platform.h"

#define PROGRAM_LIMIT ((size_t)1 << 30)

/* SHA-256 of the trainer's file; "" in other programs, which platform.cfg says nothing about. */
static int digest_program(char hex[65])
{
	struct sha256 state;
	char *data, name[4096];
	size_t bytes;
	ssize_t length = readlink("/proc/self/exe", name, sizeof(name) - 1);
	int status;

	name[length < 0 ? 0 : length] = 0;
	if (!text_ends(name, "train-step-loop"))
		return 0;
	status = file_read("/proc/self/exe", PROGRAM_LIMIT, &data, &bytes);
	if (status)
		return status;
	sha256_init(&state);
	sha256_update(&state, data, bytes);
	sha256_hex(&state, hex);
	free(data);
	return 0;
}

static int describe(struct platform *platform, int threads)
{
	struct run_platform *now = &platform->now;
	const struct device *device = platform->device;

	now->threads = threads;
	snprintf(now->isa, sizeof(now->isa), "%s", device->backend->isa(device));
	snprintf(now->precision, sizeof(now->precision), "%s", device->backend->precision(device));
	snprintf(now->device, sizeof(now->device), "%s", device->backend->name);
	snprintf(now->model, sizeof(now->model), "%s", device->backend->model(device));
	snprintf(now->libraries, sizeof(now->libraries), "glibc %s", gnu_get_libc_version());
	return digest_program(now->program);
}

/* Remembers one thing that is not as the first shift had it. */
static void differ(struct platform *platform, const char *what)
{
	size_t used = strlen(platform->differs);

	snprintf(platform->differs + used, sizeof(platform->differs) - used, "%s%s", used ? ", " : "", what);
}

/* ---- what ranks have in common ---- */

/* The CPUs of each rank, and where they are. */
struct place {
	char host[64];
	cpu_set_t set;
};

/* The threads of a rank where the configuration leaves them open: its CPUs, divided among the ranks that have the same ones; the
 * smallest number of all ranks. */
static int share_threads(struct comm *comm, int *threads)
{
	struct place mine = {0}, *all = memory_new((size_t)comm->size, sizeof(*all));
	int64_t count = threads_available(), sharing = 0, least;
	int status = all ? 0 : STATUS_FAILURE;

	if (gethostname(mine.host, sizeof(mine.host) - 1) ||
		sched_getaffinity(0, sizeof(mine.set), &mine.set))
		memset(&mine, 0, sizeof(mine));
	status = comm_agree(comm, status, &mine, sizeof(mine), all);
	for (int r = 0; r < comm->size && !status; r++)
		sharing += !memcmp(&all[r], &mine, sizeof(mine));
	least = sharing > 1 ? -(count / sharing) : -count;
	if (!status)
		status = comm->maximum(comm, &least, 1);
	*threads = least < 0 ? (int)-least : 1;
	free(all);
	return status;
}

/* From low to high. */
static const char *const isas[] = {"plain", "avx2", "avx512"};
static const char *const precisions[] = {"f32", "bf16-avx512", "bf16-amx"};
#define COUNT(list) ((int)(sizeof(list) / sizeof(list[0])))

static int place_of(const char *name, const char *const *list, int count)
{
	int i = count - 1;

	while (i > 0 && strcmp(list[i], name) != 0)
		i--;
	return i;
}

/* Opens the device again where another rank can do less. */
static int use_lowest(struct comm *comm, int status, struct device_settings *settings, struct device **device)
{
	int64_t mine[2], lowest[2];

	status = comm_agree(comm, status, NULL, 0, NULL);
	if (status || comm->size == 1)
		return status;
	mine[0] = lowest[0] = -place_of((*device)->backend->isa(*device), isas, COUNT(isas));
	mine[1] = lowest[1] =
		-place_of((*device)->backend->precision(*device), precisions, COUNT(precisions));
	status = comm->maximum(comm, lowest, 2);
	if (status || !memcmp(mine, lowest, sizeof(mine)))
		return status;
	(*device)->backend->close(*device);
	*device = NULL;
	settings->isa = isas[-lowest[0]];
	settings->precision = precisions[-lowest[1]];
	return cpu_backend.open(settings, device);
}

/* What rank 0 reads is what all go by. */
static int read_recorded(const struct run *run, struct comm *comm, bool *recorded, struct run_platform *first)
{
	int32_t found = 0;
	int status = 0;

	memset(first, 0, sizeof(*first));
	if (comm->rank == 0) {
		status = run_platform_read(run, recorded, first);
		found = *recorded;
	}
	status = comm_agree(comm, status, NULL, 0, NULL);
	if (!status)
		status = comm->broadcast(comm, 0, &found, sizeof(found));
	if (!status)
		status = comm->broadcast(comm, 0, first, sizeof(*first));
	*recorded = found;
	return status;
}

/* ---- opening ---- */

/* Opens what comes nearest to the first shift's: its instruction set before any, its unit of bfloat16 before another, float32
 * where there is none. */
static int open_nearest(
	const struct run_platform *first, struct device_settings *settings, struct device **device)
{
	const char *const sets[] = {first->isa, "auto"};
	const char *const units[] = {
		first->precision, text_starts(first->precision, "bf16") ? "bf16" : "f32", "f32"};
	int status = STATUS_UNAVAILABLE;

	for (int i = 0; i < COUNT(sets) * COUNT(units) && status; i++) {
		settings->isa = sets[i / COUNT(units)];
		settings->precision = units[i % COUNT(units)];
		status = cpu_backend.open(settings, device);
	}
	return status;
}

static int open_recorded(const struct run_platform *first, struct comm *comm, struct platform *platform)
{
	struct device_settings settings = {.threads = first->threads};
	int status = use_lowest(
		comm, open_nearest(first, &settings, &platform->device), &settings, &platform->device);
	const struct device *device = platform->device;

	if (!status && strcmp(first->isa, device->backend->isa(device)) != 0)
		differ(platform, "instruction set");
	if (!status && strcmp(first->precision, device->backend->precision(device)) != 0)
		differ(platform, "precision");
	return status;
}

static int compare(
	const struct run *run, const struct run_platform *first, struct platform *platform, bool same_bits)
{
	if (platform->now.program[0] && strcmp(first->program, platform->now.program))
		differ(platform, "program");
	if (strcmp(first->libraries, platform->now.libraries))
		differ(platform, "libraries");
	if (!platform->differs[0])
		return 0;
	if (same_bits)
		return error_set(STATUS_UNAVAILABLE,
			"%s: not the first shift's %s, so the bits may differ (--same-bits)", run->path,
			platform->differs);
	if (strcmp(platform->now.precision, "f32") == 0 && strcmp(first->precision, "f32") != 0)
		warn("%s: not the first shift's %s; products are float32 here, not %s", run->path,
			platform->differs, first->precision);
	else
		warn("%s: not the first shift's %s; the numbers may differ in the last bits", run->path,
			platform->differs);
	return 0;
}

int platform_open(const struct run *run, bool same_bits, struct comm *comm, struct platform *platform)
{
	struct run_platform first;
	struct device_settings settings = {.isa = config_text(run->config, "cpu.isa"),
		.precision = config_text(run->config, "precision")};
	int status;

	memset(platform, 0, sizeof(*platform));
	status = read_recorded(run, comm, &platform->recorded, &first);
	if (status)
		return status;
	if (platform->recorded) {
		status = open_recorded(&first, comm, platform);
		if (!status)
			status = describe(platform, first.threads);
		return status ? status : compare(run, &first, platform, same_bits);
	}
	settings.threads = (int)config_integer(run->config, "cpu.threads");
	if (settings.threads == 0)
		status = share_threads(comm, &settings.threads);
	if (!status)
		status = cpu_backend.open(&settings, &platform->device);
	status = use_lowest(comm, status, &settings, &platform->device);
	return status ? status : describe(platform, settings.threads);
}

int platform_record(const struct run *run, struct platform *platform)
{
	if (platform->recorded)
		return 0;
	platform->recorded = true;
	return run_platform_write(run, &platform->now);
}

void platform_close(struct platform *platform)
{
	if (platform->device)
		platform->device->backend->close(platform->device);
	platform->device = NULL;
}
