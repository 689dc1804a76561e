/* make-scenes: renders small synthetic datasets with exact ground truth. See make-scenes(1). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "data/scene_set.h"

enum { SIDE_MINIMUM = 8, SIDE_MAXIMUM = 8192, FRAMES_MAXIMUM = 10000 };

static const struct {
	const char *name, *size; /* size: where none is given */
} kinds[] = {
	[SCENES_DEPTH] = {"depth", "96x128"},
	[SCENES_CLIPS] = {"clips", "64x64"},
};

static int parse_size(const char *size, struct scene_set *set)
{
	char *field[2] = {0}, *copy = memory_text(size);
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
			"--size %s: must be height x width in pixels, as 96x128, each %d to %d", size,
			SIDE_MINIMUM, SIDE_MAXIMUM);
	set->height = (int)side[0];
	set->width = (int)side[1];
	return STATUS_OK;
}

static int find_kind(const char *name, struct scene_set *set)
{
	for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(name, kinds[i].name) == 0) {
			set->kind = (enum scene_kind)i;
			return STATUS_OK;
		}
	return error_set(STATUS_USAGE,
		"the kind of scenes comes first: depth or clips; --help shows how it is called");
}

/* What is for clips alone: -1 where it was not given. */
static int check_clips(int64_t frames, int64_t validation, struct scene_set *set)
{
	if (set->kind != SCENES_CLIPS && (frames != -1 || validation != -1))
		return error_set(STATUS_USAGE, "--frames and --validation are for clips");
	set->frames = frames == -1 ? 20 : (int)frames;
	set->validation = validation == -1 ? 5 : validation;
	if (frames < -1 || frames == 0 || frames > FRAMES_MAXIMUM)
		return error_set(STATUS_USAGE, "--frames must be 1 to %d", FRAMES_MAXIMUM);
	if (set->validation < 0)
		return error_set(STATUS_USAGE, "--validation must not be negative");
	return STATUS_OK;
}

static int check_arguments(const char *size, const char **operands, int count, struct scene_set *set)
{
	int status = find_kind(count ? operands[0] : NULL, set);

	if (status)
		return status;
	if (count != 2)
		return error_set(STATUS_USAGE,
			count < 2 ? "DIR is missing; --help shows how it is called" : "more than one DIR");
	set->directory = operands[1];
	if (set->count < 1 || set->count > 10000000)
		return error_set(STATUS_USAGE, "-n must be 1 to 10000000");
	if (set->first < 0 || set->first > 10000000)
		return error_set(STATUS_USAGE, "--first must be 0 to 10000000");
	if (set->seed < 0)
		return error_set(STATUS_USAGE, "--seed must not be negative");
	return parse_size(size ? size : kinds[set->kind].size, set);
}

int main(int argc, char **argv)
{
	struct scene_set set = {.count = 400, .seed = 1};
	const char *size = NULL;
	int64_t frames = -1, validation = -1;
	const struct option_row rows[] = {
		{"count", 'n', "COUNT", "how many scenes (400)", &set.count, OPTION_INTEGER},
		{"seed", 0, "N", "seed of the scenes (1)", &set.seed, OPTION_INTEGER},
		{"size", 0, "HxW", "height and width in pixels (depth 96x128, clips 64x64)", &size,
			OPTION_TEXT},
		{"first", 0, "K", "number of the first scene (0)", &set.first, OPTION_INTEGER},
		{"frames", 0, "T", "frames of a clip (20)", &frames, OPTION_INTEGER},
		{"validation", 0, "K", "every K-th clip of a class is for validation (5)", &validation,
			OPTION_INTEGER},
		{0},
	};
	const struct program program = {
		.name = "make-scenes",
		.synopsis = "depth [-n COUNT] [--seed N] [--size HxW] [--first K] DIR\n"
			    "clips [-n COUNT] [--seed N] [--size HxW] [--first K] [--frames T] [--validation "
			    "K] DIR",
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
		status = check_arguments(size, operands, count, &set);
	if (!status && !done)
		status = check_clips(frames, validation, &set);
	if (!status && !done)
		status = signals_install();
	if (!status && !done)
		status = scene_set_make(&set);
	if (!status && !done)
		note("%lld scenes in %s, %zu of them new", (long long)set.count, set.directory,
			(size_t)set.rendered);
	free(operands);
	if (status)
		error_print(status);
	return close_stdout(status);
}
