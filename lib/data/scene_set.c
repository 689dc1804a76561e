/* What all kinds of scenes share, and rooms. */
#include "data/scene_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/scene_set_parts.h"
#include "data/scenes.h"
#include "file/png.h"

/* ---- rooms ---- */

static int make_depth_directories(const struct scene_set *set)
{
	static const char *const parts[] = {"rgb", "depth"};
	int status = STATUS_OK;

	for (int i = 0; !status && i < 2; i++) {
		char *path = path_join(set->directory, parts[i]);

		status = path ? file_make_directory(path) : error_status();
		free(path);
	}
	return status;
}

static int write_room(
	const struct scene_set *set, int64_t index, const char *rgb_path, const char *depth_path)
{
	size_t pixels = (size_t)set->height * (size_t)set->width;
	uint8_t *rgb = memory_new(pixels, 3);
	float *depth = memory_new(pixels, sizeof *depth);
	uint16_t *millimetres = memory_new(pixels, sizeof *millimetres);
	struct image picture = {set->width, set->height, 3, 8, rgb};
	struct image stored = {set->width, set->height, 1, 16, millimetres};
	int status = rgb && depth && millimetres ? STATUS_OK : error_status();

	if (!status) {
		scene_render((uint64_t)set->seed, (uint32_t)index, set->height, set->width, rgb, depth);
		for (size_t i = 0; i < pixels; i++)
			millimetres[i] = (uint16_t)((double)depth[i] * 1000 + 0.5);
		status = png_publish(rgb_path, &picture);
	}
	if (!status)
		status = png_publish(depth_path, &stored);
	free(rgb);
	free(depth);
	free(millimetres);
	return status;
}

static int make_room(const struct scene_set *set, int64_t index, bool *made)
{
	char *rgb = scene_path(set, "rgb/", index, ".png"), *depth = scene_path(set, "depth/", index, ".png");
	int status = rgb && depth ? STATUS_OK : error_status();

	if (!status && !(file_exists(rgb) && file_exists(depth))) {
		status = scene_may_go_on(index);
		if (!status)
			status = write_room(set, index, rgb, depth);
		*made = !status;
	}
	free(rgb);
	free(depth);
	return status;
}

/* list.txt names every scene of the directory, also those of earlier calls. */
static int write_list(const struct scene_set *set)
{
	struct text list = {0};
	struct names names = {0};
	char *rgb = path_join(set->directory, "rgb"), *path = path_join(set->directory, "list.txt");
	int status = rgb && path ? file_list(rgb, &names) : error_status();

	for (size_t i = 0; !status && i < names.count; i++) {
		struct text depth = {0};

		text_format(&depth, "%s/depth/%s", set->directory, names.name[i]);
		status = text_check(&depth);
		if (!status && text_ends(names.name[i], ".png") && file_exists(depth.data))
			text_format(&list, "rgb/%s depth/%s\n", names.name[i], names.name[i]);
		text_release(&depth);
	}
	if (!status)
		status = text_check(&list);
	if (!status)
		status = file_publish(path, list.data, list.length);
	names_release(&names);
	text_release(&list);
	free(rgb);
	free(path);
	return status;
}

static void depth_settings(const struct scene_set *set, struct text *text)
{
	text_format(text, "format 1\nscenes depth\nseed %lld\nsize %dx%d\n", (long long)set->seed,
		set->height, set->width);
}

static const struct scene_maker depth_maker = {depth_settings, make_depth_directories, make_room, write_list};

/* ---- all kinds ---- */

static const struct scene_maker *const makers[] = {
	[SCENES_DEPTH] = &depth_maker,
	[SCENES_CLIPS] = &scene_clips_maker,
};

char *scene_path(const struct scene_set *set, const char *before, int64_t index, const char *after)
{
	struct text path = {0};

	text_format(&path, "%s/%s%05lld%s", set->directory, before, (long long)index, after);
	return text_take(&path);
}

int scene_may_go_on(int64_t index)
{
	if (!signals_notice())
		return STATUS_OK;
	return error_set(
		STATUS_AGAIN, "stopped before scene %lld; the same command goes on", (long long)index);
}

static int check_settings(const struct scene_set *set)
{
	struct text wanted = {0};
	char *path = path_join(set->directory, "scenes.txt"), *found = NULL;
	size_t bytes;
	int status = path ? STATUS_OK : error_status();

	makers[set->kind]->settings(set, &wanted);
	if (!status)
		status = text_check(&wanted);
	if (!status && !file_exists(path))
		status = file_publish(path, wanted.data, wanted.length);
	if (!status)
		status = file_read(path, 1 << 16, &found, &bytes);
	if (!status && strcmp(found, wanted.data) != 0)
		status = error_set(STATUS_DATA,
			"%s holds scenes of another kind, seed or size (its scenes.txt says which); choose "
			"another directory",
			set->directory);
	free(found);
	free(path);
	text_release(&wanted);
	return status;
}

static int make_scene(void *context, size_t i)
{
	struct scene_set *set = context;
	bool made = false;
	int status = makers[set->kind]->scene(set, set->first + (int64_t)i, &made);

	set->rendered += made;
	return status;
}

int scene_set_make(struct scene_set *set)
{
	const struct scene_maker *maker = makers[set->kind];
	int status = file_make_directories(set->directory);

	if (!status)
		status = check_settings(set);
	if (!status)
		status = maker->directories(set);
	if (!status)
		status = threads_run(threads_available(), (size_t)set->count, make_scene, set);
	if (!status)
		status = maker->table(set);
	return status;
}
