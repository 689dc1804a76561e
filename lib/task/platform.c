#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
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
	snprintf(now->precision, sizeof(now->precision), "f32");
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

static int open_recorded(const struct run_platform *first, struct platform *platform)
{
	struct device_settings settings = {.threads = first->threads, .isa = first->isa};
	int status = cpu_backend.open(&settings, &platform->device);

	if (status != STATUS_UNAVAILABLE)
		return status;
	differ(platform, "instruction set");
	settings.isa = "auto";
	return cpu_backend.open(&settings, &platform->device);
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
	warn("%s: not the first shift's %s; the numbers may differ in the last bits", run->path,
		platform->differs);
	return 0;
}

int platform_open(const struct run *run, bool same_bits, struct platform *platform)
{
	struct run_platform first;
	struct device_settings settings = {.isa = config_text(run->config, "cpu.isa")};
	int status;

	memset(platform, 0, sizeof(*platform));
	status = run_platform_read(run, &platform->recorded, &first);
	if (status)
		return status;
	if (platform->recorded) {
		status = open_recorded(&first, platform);
		if (!status)
			status = describe(platform, first.threads);
		return status ? status : compare(run, &first, platform, same_bits);
	}
	settings.threads = (int)config_integer(run->config, "cpu.threads");
	if (settings.threads == 0)
		settings.threads = threads_available();
	status = cpu_backend.open(&settings, &platform->device);
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
