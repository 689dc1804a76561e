/* make-scenes: renders small synthetic datasets with exact ground truth. See make-scenes(1). */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/scenes.h"
#include "file/png.h"

enum { SIDE_MINIMUM = 8, SIDE_MAXIMUM = 8192 };

struct work {
	int64_t count, seed, first;
	const char *size;
	int height, width;
	const char *directory;
	atomic_size_t rendered;
};

static int parse_size(struct work *work)
{
	char *field[2] = {0}, *copy = memory_text(work->size);
	int64_t side[2] = {0};
	bool good;

	if (!copy)
		return error_status();
	good = text_split(copy, 'x', field, 2) == 2;
	for (int i = 0; good && i < 2; i++)
		good = text_to_int64(field[i], &side[i]) && side[i] >= SIDE_MINIMUM &&
		       side[i] <= SIDE_MAXIMUM;
	free(copy);
	if (!good)
		return error_set(STATUS_USAGE,
			"--size %s: must be height x width in pixels, as 96x128, each %d to %d", work->size,
			SIDE_MINIMUM, SIDE_MAXIMUM);
	work->height = (int)side[0];
	work->width = (int)side[1];
	return STATUS_OK;
}

static int check_arguments(struct work *work, const char **operands, int count)
{
	if (count < 1 || strcmp(operands[0], "depth") != 0)
		return error_set(
			STATUS_USAGE, "the kind of scenes comes first: depth; --help shows how it is called");
	if (count != 2)
		return error_set(STATUS_USAGE,
			count < 2 ? "DIR is missing; --help shows how it is called" : "more than one DIR");
	work->directory = operands[1];
	if (work->count < 1 || work->count > 10000000)
		return error_set(STATUS_USAGE, "-n must be 1 to 10000000");
	if (work->first < 0 || work->first > 10000000)
		return error_set(STATUS_USAGE, "--first must be 0 to 10000000");
	if (work->seed < 0)
		return error_set(STATUS_USAGE, "--seed must not be negative");
	return parse_size(work);
}

/* ---- the directory ---- */

/* One directory holds scenes of one seed and size: scenes.txt says which, and is written before any scene. */
static int check_settings(const struct work *work)
{
	struct text wanted = {0};
	char *path = path_join(work->directory, "scenes.txt"), *found = NULL;
	size_t bytes;
	int status = path ? STATUS_OK : error_status();

	text_format(&wanted, "format 1\nscenes depth\nseed %lld\nsize %dx%d\n", (long long)work->seed,
		work->height, work->width);
	if (!status)
		status = text_check(&wanted);
	if (!status && !file_exists(path))
		status = file_publish(path, wanted.data, wanted.length);
	if (!status)
		status = file_read(path, 1 << 16, &found, &bytes);
	if (!status && strcmp(found, wanted.data) != 0)
		status = error_set(STATUS_DATA,
			"%s holds scenes of another seed or size (its scenes.txt says which); choose another "
			"directory",
			work->directory);
	free(found);
	free(path);
	text_release(&wanted);
	return status;
}

static int make_directories(const struct work *work)
{
	static const char *const parts[] = {"rgb", "depth"};
	int status = file_make_directories(work->directory);

	for (int i = 0; !status && i < 2; i++) {
		char *path = path_join(work->directory, parts[i]);

		status = path ? file_make_directory(path) : error_status();
		free(path);
	}
	return status ? status : check_settings(work);
}

/* ---- scenes ---- */

static char *scene_path(const struct work *work, const char *part, int64_t index)
{
	struct text path = {0};

	text_format(&path, "%s/%s/%05lld.png", work->directory, part, (long long)index);
	return text_take(&path);
}

static int write_scene(const struct work *work, int64_t index, const char *rgb_path, const char *depth_path)
{
	size_t pixels = (size_t)work->height * (size_t)work->width;
	uint8_t *rgb = memory_new(pixels, 3);
	float *depth = memory_new(pixels, sizeof *depth);
	uint16_t *millimetres = memory_new(pixels, sizeof *millimetres);
	struct image picture = {work->width, work->height, 3, 8, rgb};
	struct image stored = {work->width, work->height, 1, 16, millimetres};
	int status = rgb && depth && millimetres ? STATUS_OK : error_status();

	if (!status) {
		scene_render((uint64_t)work->seed, (uint32_t)index, work->height, work->width, rgb, depth);
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

static int make_scene(void *context, size_t i)
{
	struct work *work = context;
	int64_t index = work->first + (int64_t)i;
	char *rgb = scene_path(work, "rgb", index), *depth = scene_path(work, "depth", index);
	int status = rgb && depth ? STATUS_OK : error_status();

	if (!status && !(file_exists(rgb) && file_exists(depth))) {
		if (signals_notice())
			status = error_set(STATUS_AGAIN,
				"stopped before scene %lld; the same command goes on", (long long)index);
		else
			status = write_scene(work, index, rgb, depth);
		work->rendered += !status;
	}
	free(rgb);
	free(depth);
	return status;
}

/* list.txt names every scene of the directory, also those of earlier calls. */
static int write_list(const struct work *work)
{
	struct text list = {0};
	struct names names = {0};
	char *rgb = path_join(work->directory, "rgb"), *path = path_join(work->directory, "list.txt");
	int status = rgb && path ? file_list(rgb, &names) : error_status();

	for (size_t i = 0; !status && i < names.count; i++) {
		struct text depth = {0};

		text_format(&depth, "%s/depth/%s", work->directory, names.name[i]);
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

static int make_scenes(struct work *work)
{
	int status = make_directories(work);

	if (!status)
		status = threads_run(threads_available(), (size_t)work->count, make_scene, work);
	if (!status)
		status = write_list(work);
	if (!status)
		note("%lld scenes in %s, %zu of them new", (long long)work->count, work->directory,
			(size_t)work->rendered);
	return status;
}

int main(int argc, char **argv)
{
	struct work work = {.count = 400, .seed = 1, .size = "96x128"};
	const struct option_row rows[] = {
		{"count", 'n', "COUNT", "how many scenes (400)", &work.count, OPTION_INTEGER},
		{"seed", 0, "N", "seed of the scenes (1)", &work.seed, OPTION_INTEGER},
		{"size", 0, "HxW", "height and width in pixels (96x128)", &work.size, OPTION_TEXT},
		{"first", 0, "K", "number of the first scene (0)", &work.first, OPTION_INTEGER},
		{0},
	};
	const struct program program = {
		.name = "make-scenes",
		.synopsis = "depth [-n COUNT] [--seed N] [--size HxW] [--first K] DIR",
		.purpose = "Render a small synthetic dataset with exact ground truth.",
		.rows = rows,
	};
	const char **operands;
	int count = 0, status;
	bool done = false;

	signals_block();
	error_program(argv[0]);
	guard_output();
	operands = memory_new((size_t)argc, sizeof *operands);
	status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done)
		status = check_arguments(&work, operands, count);
	if (!status && !done)
		status = signals_install();
	if (!status && !done)
		status = make_scenes(&work);
	free(operands);
	if (status)
		error_print(status);
	return close_stdout(status);
}
