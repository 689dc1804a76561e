#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "task/predictions.h"

#define INFO_LIMIT 65536

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

int predictions_start(
	const char *directory, const struct predictions_info *info, struct predictions_output *output)
{
	int status;

	*output = (struct predictions_output){.directory = directory, .info = info};
	if (predictions_still(directory, info)) {
		file_sweep(directory, true);
		return 0;
	}
	output->fresh = true;
	status = file_remove_tree(directory);
	if (!status)
		status = file_make_directories(directory);
	return status ? status : write_info(directory, info);
}
