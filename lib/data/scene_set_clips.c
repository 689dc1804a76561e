/*
 * Directories of clips, in the layout of the 3D-ResNets project: DIRECTORY/CLASS/clip-00017/image_00001.png, and
 * annotation.json beside the classes. Clip K is of class K modulo their number.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/scene_clips.h"
#include "data/scene_set_parts.h"
#include "file/png.h"

static int class_of(int64_t index)
{
	return (int)(index % CLIP_CLASSES);
}

static char *clip_path(const struct scene_set *set, int64_t index)
{
	char before[64];

	snprintf(before, sizeof before, "%s/clip-", clip_class_name(class_of(index)));
	return scene_path(set, before, index, "");
}

static void clips_settings(const struct scene_set *set, struct text *text)
{
	text_format(text, "format 1\nscenes clips\nseed %lld\nsize %dx%d\nframes %d\n", (long long)set->seed,
		set->height, set->width, set->frames);
}

static int make_class_directories(const struct scene_set *set)
{
	int status = STATUS_OK;

	for (int i = 0; !status && i < CLIP_CLASSES; i++) {
		char *path = path_join(set->directory, clip_class_name(i));

		status = path ? file_make_directory(path) : error_status();
		if (!status)
			file_sweep(path, false);
		free(path);
	}
	return status;
}

/* ---- one clip ---- */

/* A new file in a directory that will be published whole. */
static int write_frame(const char *path, const struct image *picture)
{
	struct text png = {0};
	int descriptor = -1, status = png_encode(picture, &png);

	if (!status)
		descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (!status && descriptor < 0)
		status = error_errno(0, "%s: cannot create", path);
	if (!status)
		status = file_write_all(descriptor, png.data, png.length, path);
	if (!status && fsync(descriptor))
		status = error_errno(0, "%s: fsync", path);
	if (descriptor >= 0 && close(descriptor) && !status)
		status = error_errno(0, "%s: close", path);
	text_release(&png);
	return status;
}

static int write_frames(const struct scene_set *set, int64_t index, const char *directory)
{
	uint8_t *rgb = memory_new((size_t)set->height * (size_t)set->width, 3);
	struct image picture = {set->width, set->height, 3, 8, rgb};
	int status = rgb ? STATUS_OK : error_status();

	for (int i = 0; !status && i < set->frames; i++) {
		struct text path = {0};

		clip_render((uint64_t)set->seed, (uint32_t)index, class_of(index), i, set->frames,
			set->height, set->width, rgb);
		text_format(&path, "%s/image_%05d.png", directory, i + 1);
		status = text_check(&path);
		if (!status)
			status = write_frame(path.data, &picture);
		text_release(&path);
	}
	free(rgb);
	return status;
}

static int write_clip(const struct scene_set *set, int64_t index, const char *path)
{
	char *temporary = path_temporary(path, "partial");
	int status = temporary ? file_make_directory(temporary) : error_status();

	if (!status)
		status = write_frames(set, index, temporary);
	if (!status)
		status = file_sync_directory(temporary);
	if (!status)
		status = file_rename(temporary, path);
	if (status && temporary) {
		char *message = memory_text(error_message());

		file_remove_tree(temporary);
		error_set(status, "%s", message ? message : "no memory");
		free(message);
	}
	free(temporary);
	return status;
}

static int make_clip(const struct scene_set *set, int64_t index, bool *made)
{
	char *path = clip_path(set, index);
	int status = path ? STATUS_OK : error_status();

	if (!status && !file_exists(path)) {
		status = scene_may_go_on(index);
		if (!status)
			status = write_clip(set, index, path);
		*made = !status;
	}
	free(path);
	return status;
}

/* ---- annotation.json ---- */

struct numbers {
	int64_t *number;
	size_t count, capacity;
};

static int compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The clips of a class that are there. */
static int find_clips(const struct scene_set *set, int class, struct numbers *found)
{
	static const char prefix[] = "clip-";
	struct names names = {0};
	char *directory = path_join(set->directory, clip_class_name(class));
	int status = directory ? file_list(directory, &names) : error_status();

	for (size_t i = 0; !status && i < names.count; i++) {
		int64_t number;

		if (!text_starts(names.name[i], prefix) ||
			!text_to_int64(names.name[i] + strlen(prefix), &number) || class_of(number) != class)
			continue;
		status = memory_grow(
			&found->number, &found->capacity, found->count + 1, sizeof *found->number);
		if (!status)
			found->number[found->count++] = number;
	}
	names_release(&names);
	free(directory);
	return status;
}

static void format_annotation(const struct scene_set *set, const struct numbers *clips, struct text *json)
{
	text_add(json, "{\"labels\": [");
	for (int i = 0; i < CLIP_CLASSES; i++)
		text_format(json, "%s\"%s\"", i ? ", " : "", clip_class_name(i));
	text_add(json, "], \"database\": {");
	for (size_t i = 0; i < clips->count; i++) {
		int64_t number = clips->number[i], round = number / CLIP_CLASSES;
		bool held_out = set->validation && round % set->validation == set->validation - 1;

		text_format(json,
			"%s\"clip-%05lld\": {\"subset\": \"%s\", \"annotations\": {\"label\": \"%s\", "
			"\"segment\": [1, %d]}}",
			i ? ", " : "", (long long)number, held_out ? "validation" : "training",
			clip_class_name(class_of(number)), set->frames + 1);
	}
	text_add(json, "}}");
}

/* All clips of the directory, also those of earlier calls, by number. */
static int write_annotation(const struct scene_set *set)
{
	struct numbers clips = {0};
	struct text json = {0};
	char *path = path_join(set->directory, "annotation.json");
	int status = path ? STATUS_OK : error_status();

	for (int i = 0; !status && i < CLIP_CLASSES; i++)
		status = find_clips(set, i, &clips);
	if (!status) {
		qsort(clips.number, clips.count, sizeof *clips.number, compare_numbers);
		format_annotation(set, &clips, &json);
		status = text_check(&json);
	}
	if (!status)
		status = file_publish(path, json.data, json.length);
	free(clips.number);
	free(path);
	text_release(&json);
	return status;
}

const struct scene_maker scene_clips_maker = {
	clips_settings, make_class_directories, make_clip, write_annotation};
