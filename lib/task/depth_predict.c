/* Prediction of the depth task: npy, 16-bit and coloured PNG for each sample of the data groups asked for. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/npy.h"
#include "file/png.h"
#include "task/depth.h"
#include "task/depth_model.h"
#include "task/depth_picture.h"
#include "task/depth_set.h"

struct depth_predictor {
	const struct run *run;
	struct depth_model model;
	struct depth_set *set;
	size_t sets;
	int steps;
	uint64_t seed;
};

/* Opens the groups as sets. */
static int add_sets(struct depth_predictor *predictor, const struct task_group *groups, size_t count)
{
	int status = 0;

	predictor->set = memory_new(count, sizeof(*predictor->set));
	if (!predictor->set)
		return error_status();
	for (size_t i = 0; i < count && !status; i++) {
		struct depth_set *set = &predictor->set[predictor->sets++];

		status = depth_set_open(set, predictor->run, groups[i].list, groups[i].index, true);
		if (!status)
			status = depth_check_stems(set->data);
		if (!status)
			status = depth_set_graph(set, &predictor->model);
	}
	return status;
}

int depth_predictor_open(const struct run *run, struct device *device, const struct checkpoint *checkpoint,
	const struct task_group *groups, size_t count, struct task_predictor *out)
{
	struct depth_predictor *predictor = memory_new(1, sizeof(*predictor));
	int status;

	(void)checkpoint; /* the configuration says all */
	memset(out, 0, sizeof(*out));
	out->state = predictor;
	if (!predictor)
		return STATUS_FAILURE;
	predictor->run = run;
	predictor->steps = (int)config_integer(run->config, "predict.steps");
	predictor->seed = (uint64_t)config_integer(run->config, "seed");
	status = depth_model_init(&predictor->model, run->config, device);
	if (!status)
		status = add_sets(predictor, groups, count);
	out->program = predictor->model.program;
	out->sets = predictor->sets;
	return status;
}

int depth_predictor_prepare(struct task_predictor *out)
{
	return depth_model_prepare(&((struct depth_predictor *)out->state)->model);
}

const char *depth_predictor_set(const struct task_predictor *out, size_t set)
{
	return ((const struct depth_predictor *)out->state)->set[set].name;
}

int64_t depth_predictor_samples(const struct task_predictor *out, size_t set)
{
	return (int64_t)depth_count(((const struct depth_predictor *)out->state)->set[set].data);
}

/* The data is named by where it was configured to be, not by where it was staged. */
char *depth_predictor_settings(const struct run *run, const struct task_group *group)
{
	const struct config *config = run->config;
	const char *list = group->list;
	size_t i = group->index;
	struct text text = {0};

	text_format(&text, "steps %lld seed %lld size", (long long)config_integer(config, "predict.steps"),
		(long long)config_integer(config, "seed"));
	if (config_group_count(config, list, i, "size") == 2)
		text_format(&text, " %.0fx%.0f", config_group_number_at(config, list, i, "size", 0),
			config_group_number_at(config, list, i, "size", 1));
	else
		text_add(&text, " native");
	text_format(&text, " layout %s%s path ", config_group_text(config, list, i, "layout"),
		config_group_bool(config, list, i, "benchmark_crop") ? "" : " whole");
	text_field(&text, config_group_text(config, list, i, "path"));
	text_add(&text, " list ");
	text_field(&text, *config_group_text(config, list, i, "list")
				  ? config_group_text(config, list, i, "list")
				  : "-");
	return text_take(&text);
}

/* The file of a sample below `directory`; owned by the caller. */
static char *sample_file(const char *directory, const char *stem, const char *suffix)
{
	struct text text = {0};

	text_format(&text, "%s/%s%s", directory, stem, suffix);
	return text_take(&text);
}

static int publish(
	const struct predictions_output *output, const char *stem, const float *depth, int height, int width)
{
	const char *directory = output->directory;
	char *npy = sample_file(directory, stem, ".npy"), *grey = sample_file(directory, stem, ".png");
	char *colour = sample_file(directory, stem, ".colour.png"),
	     *folder = npy ? path_directory(npy) : NULL;
	struct image image = {0};
	int status = npy && grey && colour && folder ? predictions_fence(output) : STATUS_FAILURE;

	if (!status)
		status = file_make_directories(folder);
	if (!status)
		status = depth_picture_colour(depth, height, width, &image);
	if (!status)
		status = png_publish(colour, &image);
	image_release(&image);
	if (!status)
		status = depth_picture_grey16(depth, height, width, &image);
	if (!status)
		status = png_publish(grey, &image);
	image_release(&image);
	if (!status) /* last: the sample is whole when its npy is there */
		status = npy_publish(npy, depth, 2, (int64_t[]){height, width});
	free(npy);
	free(grey);
	free(colour);
	free(folder);
	return status;
}

int depth_predictor_predict(
	struct task_predictor *out, size_t number, int64_t index, const struct predictions_output *output)
{
	struct depth_predictor *predictor = out->state;
	const struct depth_set *set = &predictor->set[number];
	struct depth_sample sample = {0};
	char *stem = depth_stem(set->data, (size_t)index),
	     *npy = stem ? sample_file(output->directory, stem, ".npy") : NULL;
	float *depth = NULL;
	int status = npy ? 0 : STATUS_FAILURE;

	if (!status && !output->fresh && file_exists(npy))
		goto out;
	if (!status)
		status = depth_read(set->data, (size_t)index, &sample);
	if (!status && !(depth = memory_new((size_t)sample.height * (size_t)sample.width, sizeof(float))))
		status = STATUS_FAILURE;
	if (!status)
		status = depth_set_predict(set, &predictor->model, &sample, predictor->steps, predictor->seed,
			(uint32_t)index, depth);
	if (!status)
		status = publish(output, stem, depth, sample.height, sample.width);
out:
	free(depth);
	free(npy);
	free(stem);
	depth_sample_release(&sample);
	return status;
}

void depth_predictor_close(struct task_predictor *out)
{
	struct depth_predictor *predictor = out->state;

	if (!predictor)
		return;
	for (size_t i = 0; i < predictor->sets; i++)
		depth_set_close(&predictor->set[i]);
	free(predictor->set);
	depth_model_release(&predictor->model);
	free(predictor);
	memset(out, 0, sizeof(*out));
}
