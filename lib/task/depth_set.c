#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "task/depth.h"
#include "task/depth_set.h"
#include "task/groups.h"

int depth_set_options(
	const struct run *run, const char *list, size_t i, struct depth_options *options, char **path)
{
	const struct config *config = run->config;

	*options = (struct depth_options){
		.name = config_group_text(config, list, i, "name"),
		.layout = config_group_text(config, list, i, "layout"),
		.list = config_group_text(config, list, i, "list"),
		.scale = config_group_number(config, list, i, "scale"),
		.minimum = config_group_number(config, list, i, "min"),
		.maximum = config_group_number(config, list, i, "max"),
		.crop = (enum depth_crop)depth_crop_find(config_group_text(config, list, i, "crop")),
		.benchmark_crop = config_group_bool(config, list, i, "benchmark_crop"),
	};
	*path = task_group_path(run, list, i);
	options->path = *path;
	return *path ? 0 : error_status();
}

/* The size of the first sample that can be read. */
static int first_size(struct depth_set *set)
{
	int status = STATUS_DATA;

	for (size_t i = 0; i < depth_count(set->data) && status == STATUS_DATA; i++) {
		struct depth_sample sample = {0};

		status = depth_read_any(set->data, i, &sample);
		set->height = sample.height;
		set->width = sample.width;
		depth_sample_release(&sample);
	}
	return status == STATUS_DATA
		       ? error_prefix("none of %zu samples can be read, the last is", depth_count(set->data))
		       : status;
}

int depth_set_open(struct depth_set *set, const struct run *run, const char *list, size_t i, bool rgb_only)
{
	const struct config *config = run->config;
	size_t sides = config_group_count(config, list, i, "size");
	struct depth_options options;
	char *path;
	int status;

	memset(set, 0, sizeof(*set));
	set->graph = -1;
	set->name = config_group_text(config, list, i, "name");
	set->weight = config_group_number(config, list, i, "weight");
	set->resize = sides == 2;
	status = depth_set_options(run, list, i, &options, &path);
	options.rgb_only = rgb_only;
	if (!status)
		status = depth_open(&options, &set->data);
	free(path);
	if (!status && set->resize) {
		set->height = (int)config_group_number_at(config, list, i, "size", 0);
		set->width = (int)config_group_number_at(config, list, i, "size", 1);
	} else if (!status) {
		status = first_size(set);
		if (status)
			error_prefix("dataset %s", set->name);
	}
	return status;
}

int depth_group_check(const struct run *run, const char *list, size_t group, size_t *missing, char **first)
{
	struct depth_options options;
	struct depth_dataset *data = NULL;
	char *path;
	int status = depth_set_options(run, list, group, &options, &path);

	*missing = 0;
	*first = NULL;
	if (!status)
		status = depth_open(&options, &data);
	if (!status)
		status = depth_check_stems(data);
	if (!status)
		status = depth_missing(data, missing, first);
	depth_close(data);
	free(path);
	return status;
}

void depth_set_close(struct depth_set *set)
{
	depth_close(set->data);
	set->data = NULL;
}

static int padded(int side, int factor)
{
	return (side + factor - 1) / factor * factor;
}

int depth_set_graph(struct depth_set *set, struct depth_model *model)
{
	int factor = model->codec->factor;

	return depth_model_predict_graph(
		model, padded(set->height, factor), padded(set->width, factor), &set->graph);
}

/* 8-bit RGB at the set's size, to [-1,1], the last row and column repeated into the padding. */
static void to_input(const uint8_t *rgb, int height, int width, const struct depth_graph *graph, float *input)
{
	for (int y = 0; y < graph->height; y++)
		for (int x = 0; x < graph->width; x++) {
			int sy = y < height ? y : height - 1, sx = x < width ? x : width - 1;

			for (int c = 0; c < 3; c++)
				input[((size_t)y * (size_t)graph->width + (size_t)x) * 3 + (size_t)c] =
					(float)rgb[((size_t)sy * (size_t)width + (size_t)sx) * 3 +
						   (size_t)c] /
						255 * 2 -
					1;
		}
}

/* The prediction without its padding, in place. */
static void crop(float *depth, const struct depth_graph *graph, int height, int width)
{
	for (int y = 0; y < height; y++)
		memmove(depth + (size_t)y * (size_t)width, depth + (size_t)y * (size_t)graph->width,
			(size_t)width * sizeof(float));
}

int depth_set_predict(const struct depth_set *set, struct depth_model *model,
	const struct depth_sample *sample, int steps, uint64_t seed, uint32_t number, float *depth)
{
	const struct depth_graph *graph = &model->graph[set->graph];
	bool same = sample->height == set->height && sample->width == set->width;
	size_t pixels = (size_t)graph->height * (size_t)graph->width;
	float *input = memory_new(pixels * 4, sizeof(float)), *output = input ? input + 3 * pixels : NULL;
	uint8_t *resized = same ? NULL : memory_new((size_t)set->height * (size_t)set->width * 3, 1);
	int status = input && (same || resized) ? 0 : STATUS_FAILURE;

	if (!status && !same)
		status = resize_antialiased_u8(sample->rgb, sample->height, sample->width, 3, RESIZE_BILINEAR,
			resized, set->height, set->width);
	if (!status) {
		to_input(same ? sample->rgb : resized, set->height, set->width, graph, input);
		status = depth_model_predict(
			model, set->graph, input, steps, random_stream(seed, "predict"), number, output);
	}
	if (!status) {
		crop(output, graph, set->height, set->width);
		if (same)
			memcpy(depth, output, (size_t)set->height * (size_t)set->width * sizeof(float));
		else
			status = resize_antialiased(output, set->height, set->width, 1, RESIZE_BILINEAR,
				depth, sample->height, sample->width);
	}
	free(input);
	free(resized);
	return status;
}
