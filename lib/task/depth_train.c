/* Training of the depth task: what the loop asks for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "metric/depth.h"
#include "task/depth.h"
#include "task/depth_batch.h"
#include "task/depth_model.h"
#include "task/depth_picture.h"
#include "task/depth_set.h"
#include "task/recipe.h"

#define TEXTS 2

struct depth_training {
	const struct run *run;
	struct depth_model model;
	struct depth_batches *batches;
	int graph[SAMPLER_GROUPS]; /* training graph of each group */
	struct depth_set *val, *vis;
	size_t vals, viss;
	int validate_steps;
	int64_t picture_count; /* of each vis group */
	uint64_t seed;
	struct text text[TEXTS]; /* config.json, scheduler_config.json */
	struct checkpoint_text texts[TEXTS];
};

/* ---- one micro-batch ---- */

static int write_micro(const struct depth_graph *graph, const struct depth_micro *micro)
{
	const struct {
		int tensor;
		const float *data;
	} inputs[] = {{graph->rgb, micro->rgb}, {graph->noisy, micro->noisy}, {graph->target, micro->target},
		{graph->mask, micro->mask}, {graph->t, micro->t}};
	int status = 0;

	for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]) && !status; i++)
		status = graph_write(graph->graph, inputs[i].tensor, inputs[i].data);
	return status;
}

static int run_micro(void *state, int64_t step, int64_t number, struct loop_micro *result)
{
	struct depth_training *training = state;
	int64_t micros = recipe_micros(training->run->config);
	const struct depth_micro *micro;
	const struct depth_graph *graph;
	float loss = 0;
	int status =
		depth_batches_next(training->batches, step * micros + number, &micro, &result->data_seconds);

	if (status)
		return status;
	result->skipped = micro->skipped;
	graph = &training->model.graph[training->graph[micro->group]];
	status = write_micro(graph, micro);
	if (!status)
		status = graph_run(graph->graph);
	if (!status)
		status = graph_read(graph->graph, graph->loss, &loss);
	result->loss = (double)loss;
	return status;
}

static char *sample_names(void *state, int64_t step, int64_t number)
{
	struct depth_training *training = state;
	int64_t micros = recipe_micros(training->run->config);

	return depth_batches_names(training->batches, step * micros + number);
}

/* ---- validation and pictures ---- */

static const char *val_name(void *state, size_t set)
{
	return ((struct depth_training *)state)->val[set].name;
}

static int64_t val_samples(void *state, size_t set)
{
	return (int64_t)depth_count(((struct depth_training *)state)->val[set].data);
}

/* Reads sample `number` of a set and predicts it; *depth is the caller's. */
static int predict_sample(struct depth_training *training, const struct depth_set *set, int64_t number,
	struct depth_sample *sample, float **depth)
{
	int status = depth_read(set->data, (size_t)number, sample);

	*depth = NULL;
	if (!status && !(*depth = memory_new((size_t)sample->height * (size_t)sample->width, sizeof(float))))
		status = STATUS_FAILURE;
	if (!status)
		status = depth_set_predict(set, &training->model, sample, training->validate_steps,
			training->seed, (uint32_t)number, *depth);
	return status;
}

static int validate(void *state, size_t number, int64_t index, double *metrics)
{
	struct depth_training *training = state;
	const struct depth_set *set = &training->val[number];
	struct depth_sample sample = {0};
	double minimum, maximum;
	float *depth = NULL;
	int status = predict_sample(training, set, index, &sample, &depth);
	size_t count = (size_t)sample.height * (size_t)sample.width;

	depth_range(set->data, &minimum, &maximum);
	if (!status)
		status = depth_align(DEPTH_ALIGN_LEAST_SQUARES, depth, sample.depth, sample.mask, count,
			minimum, maximum, depth);
	if (!status)
		depth_metrics(depth, sample.depth, sample.mask, count, metrics);
	free(depth);
	depth_sample_release(&sample);
	return status;
}

static int draw_picture(void *state, int64_t index, struct image *image, char name[128])
{
	struct depth_training *training = state;
	struct depth_sample sample = {0};
	const struct depth_set *set = training->vis;
	float *depth = NULL;
	int64_t left = index;
	int status;

	for (size_t i = 0; i < training->viss; i++, set++) {
		int64_t count = (int64_t)depth_count(set->data);

		count = count < training->picture_count ? count : training->picture_count;
		if (left < count)
			break;
		left -= count;
	}
	snprintf(name, 128, "%.64s-%05lld", set->name, (long long)left);
	status = predict_sample(training, set, left, &sample, &depth);
	if (!status)
		status = depth_picture(&sample, depth, image);
	free(depth);
	depth_sample_release(&sample);
	return status;
}

/* ---- opening ---- */

static int open_sets(
	struct depth_training *training, const char *list, struct depth_set **sets, size_t *count)
{
	size_t groups = config_groups(training->run->config, list);
	int status = 0;

	*sets = memory_new(groups, sizeof(**sets));
	if (!*sets)
		return STATUS_FAILURE;
	while (*count < groups && !status) {
		struct depth_set *set = &(*sets)[*count];

		status = depth_set_open(set, training->run, list, (*count)++, false);
		if (!status)
			status = depth_set_graph(set, &training->model);
	}
	return status;
}

static int open_train(struct depth_training *training, const struct comm *comm)
{
	int batch = (int)config_integer(training->run->config, "batch.micro"), height, width;
	int status = depth_batches_open(training->run, comm, &training->model, &training->batches);

	for (int g = 0; !status && g < depth_batches_groups(training->batches); g++) {
		depth_batches_size(training->batches, g, &height, &width);
		status = depth_model_train_graph(&training->model, batch, height, width, &training->graph[g]);
		if (status)
			error_prefix("data.train.%s", depth_batches_name(training->batches, g));
	}
	return status;
}

static int make_texts(struct depth_training *training)
{
	static const char *const paths[TEXTS] = {
		"model/unet/config.json", "model/scheduler/scheduler_config.json"};
	int status = unet_config_json(&training->model.unet, &training->text[0]);

	if (!status)
		status = diffusion_config_json(&training->model.diffusion, &training->text[1]);
	for (int i = 0; i < TEXTS && !status; i++)
		training->texts[i] = (struct checkpoint_text){
			.path = paths[i], .data = training->text[i].data, .bytes = training->text[i].length};
	return status;
}

static void describe(struct depth_training *training, struct task_training *out)
{
	const struct config *config = training->run->config;
	struct loop_task *loop = &out->loop;
	const struct depth_graph *graph =
		&training->model.graph[training->graph[depth_batches_main_group(training->batches)]];

	loop->state = training;
	loop->program = training->model.program;
	recipe_loop(config, loop);
	loop->epoch_samples = depth_batches_samples(training->batches);
	loop->data_sum = depth_batches_sum(training->batches);
	loop->micro = run_micro;
	loop->samples = sample_names;
	loop->sets = training->vals;
	loop->set_name = val_name;
	loop->set_samples = val_samples;
	loop->metrics = DEPTH_METRICS;
	loop->metric_names = depth_metric_names;
	loop->validate = validate;
	for (size_t i = 0; i < training->viss; i++) {
		int64_t count = (int64_t)depth_count(training->vis[i].data);

		loop->pictures += count < training->picture_count ? count : training->picture_count;
	}
	loop->picture = draw_picture;
	loop->model_stem = "unet/diffusion_pytorch_model";
	loop->texts = training->texts;
	loop->text_count = TEXTS;
	out->flops = graph_flops(graph->graph) * (double)loop->micros;
	out->traffic = graph_traffic(graph->graph) * (double)loop->micros;
}

/* Missing files of every group that training reads. */
static int count_missing(struct depth_training *training, struct task_training *out)
{
	int status = depth_batches_missing(training->batches, &out->missing, &out->first_missing);

	for (size_t i = 0; i < training->vals + training->viss && !status; i++) {
		const struct depth_set *set =
			i < training->vals ? &training->val[i] : &training->vis[i - training->vals];
		size_t count = 0;
		char *first = NULL;

		status = depth_missing(set->data, &count, &first);
		task_missing_add(&out->missing, &out->first_missing, count, first);
	}
	return status;
}

int depth_training_open(
	const struct run *run, struct device *device, const struct comm *comm, struct task_training *out)
{
	struct depth_training *training = memory_new(1, sizeof(*training));
	const struct config *config = run->config;
	int status;

	memset(out, 0, sizeof(*out));
	out->state = training;
	if (!training)
		return STATUS_FAILURE;
	training->run = run;
	training->seed = (uint64_t)config_integer(config, "seed");
	training->validate_steps = (int)config_integer(config, "validate.steps");
	training->picture_count = config_integer(config, "picture.count");
	status = depth_model_init(&training->model, config, device);
	if (!status)
		status = open_train(training, comm);
	if (!status && recipe_validates(config))
		status = open_sets(training, "data.val", &training->val, &training->vals);
	if (!status && recipe_draws(config))
		status = open_sets(training, "data.vis", &training->vis, &training->viss);
	if (!status)
		status = recipe_update_rule(config, comm, training->model.program);
	if (!status)
		status = make_texts(training);
	if (!status)
		describe(training, out);
	if (!status && comm->rank == 0)
		status = count_missing(training, out);
	return status;
}

int depth_training_prepare(struct task_training *out)
{
	return depth_model_prepare(&((struct depth_training *)out->state)->model);
}

int depth_training_start(struct task_training *out, int64_t first)
{
	return depth_batches_start(((struct depth_training *)out->state)->batches, first * out->loop.micros);
}

void depth_training_close(struct task_training *out)
{
	struct depth_training *training = out->state;

	free(out->first_missing);
	if (!training)
		return;
	depth_batches_close(training->batches);
	for (size_t i = 0; i < training->vals; i++)
		depth_set_close(&training->val[i]);
	for (size_t i = 0; i < training->viss; i++)
		depth_set_close(&training->vis[i]);
	for (int i = 0; i < TEXTS; i++)
		text_release(&training->text[i]);
	free(training->val);
	free(training->vis);
	depth_model_release(&training->model);
	free(training);
	memset(out, 0, sizeof(*out));
}
