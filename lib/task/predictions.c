#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "task/predictions.h"

#define INFO_LIMIT 65536
#define START_TRIES 10
#define LOCK_SECONDS 60.0

static int parse(char *data, const char *path, struct predictions_info *info)
{
	char *lines[16], *settings = NULL;
	bool step = false, digest = false;
	int count = text_split(data, '\n', lines, 16);

	for (int i = 0; i < count; i++) {
		char *words[2];

		if (text_split(lines[i], ' ', words, 2) != 2)
			continue;
		if (!strcmp(words[0], "step"))
			step = text_to_int64(words[1], &info->step);
		else if (!strcmp(words[0], "digest") && strlen(words[1]) < sizeof(info->digest))
			digest = snprintf(info->digest, sizeof(info->digest), "%s", words[1]) > 0;
		else if (!strcmp(words[0], "settings"))
			settings = words[1];
	}
	if (!step || !digest || !settings)
		return error_set(
			STATUS_DATA, "%s: not an INFO file of predictions; remove its directory", path);
	info->settings = memory_text(settings);
	return info->settings ? 0 : STATUS_FAILURE;
}

int predictions_read(const char *directory, bool *found, struct predictions_info *info)
{
	char *path = path_join(directory, "INFO"), *data = NULL;
	size_t bytes;
	int status = path ? 0 : STATUS_FAILURE;

	memset(info, 0, sizeof(*info));
	*found = !status && file_exists(path);
	if (*found)
		status = file_read(path, INFO_LIMIT, &data, &bytes);
	if (!status && *found)
		status = parse(data, path, info);
	free(data);
	free(path);
	return status;
}

bool predictions_equal(const struct predictions_info *a, const struct predictions_info *b)
{
	return a->step == b->step && !strcmp(a->digest, b->digest) && !strcmp(a->settings, b->settings);
}

static int write_info(const char *directory, const struct predictions_info *info)
{
	char *path = path_join(directory, "INFO");
	struct text text = {0};
	int status = path ? 0 : STATUS_FAILURE;

	text_format(&text, "step %lld\ndigest %s\nsettings %s\n", (long long)info->step, info->digest,
		info->settings);
	if (!status)
		status = text_check(&text);
	if (!status)
		status = file_publish(path, text.data, text.length);
	text_release(&text);
	free(path);
	return status;
}

bool predictions_still(const char *directory, const struct predictions_info *info)
{
	struct predictions_info now;
	bool found = false, equal;

	if (predictions_read(directory, &found, &now))
		return false;
	equal = found && predictions_equal(&now, info);
	free((char *)(uintptr_t)now.settings);
	return equal;
}

int predictions_fence(const struct predictions_output *output)
{
	if (predictions_still(output->directory, output->info))
		return 0;
	return error_set(STATUS_FENCED, "%s: has been taken over by predictions of other weights or settings",
		output->directory);
}

/* Puts a directory that holds INFO alone in place of what is there. *made false: another process was faster. */
static int replace_directory(const char *directory, const struct predictions_info *info, bool *made)
{
	char *fresh = path_temporary(directory, "partial"), *dead = path_temporary(directory, "dead");
	int status = fresh && dead ? file_make_directory(fresh) : STATUS_FAILURE;

	if (!status)
		status = write_info(fresh, info);
	if (!status && rename(directory, dead) && errno != ENOENT)
		status = error_errno(0, "cannot move %s away", directory);
	*made = !status && !rename(fresh, directory);
	if (!status && !*made && errno != EEXIST && errno != ENOTEMPTY)
		status = error_errno(0, "%s: cannot be put in place", directory);
	if (fresh && !*made)
		file_remove_tree(fresh);
	/* Its owner may still be writing into it; what stays is swept another time. */
	if (dead && file_remove_tree(dead) && !status)
		error_clear();
	free(fresh);
	free(dead);
	return status;
}

/* Of several processes that find the same stale directory one replaces it, the others then find it replaced: INFO is locked
 * meanwhile. Where there is no INFO nothing is lost. */
static int start_once(
	const char *directory, const char *path, const struct predictions_info *info, bool *still, bool *made)
{
	int lock = -1, status = file_lock(path, LOCK_SECONDS, &lock);

	*still = !status && predictions_still(directory, info);
	if (!status && !*still)
		status = replace_directory(directory, info, made);
	if (lock >= 0)
		close(lock);
	return status;
}

int predictions_start(
	const char *directory, const struct predictions_info *info, struct predictions_output *output)
{
	char *parent = path_directory(directory), *path = path_join(directory, "INFO");
	bool still = false;
	int status = parent && path ? file_make_directories(parent) : STATUS_FAILURE;

	*output = (struct predictions_output){.directory = directory, .info = info};
	if (!status)
		file_sweep(parent, false);
	for (int i = 0; i < START_TRIES && !status && !output->fresh && !still; i++)
		status = start_once(directory, path, info, &still, &output->fresh);
	if (still)
		file_sweep(directory, true);
	if (!status && !output->fresh && !still)
		status = error_set(STATUS_UNAVAILABLE,
			"%s: other processes write other predictions there; wait for their end", directory);
	free(parent);
	free(path);
	return status;
}
