#include "task/classify_model.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

/* ---- the configuration ---- */

static enum resnet3d_shortcut shortcut_of(const char *name)
{
	if (!strcmp(name, "A"))
		return RESNET3D_SHORTCUT_A;
	return strcmp(name, "B") ? RESNET3D_SHORTCUT_A_DETACHED : RESNET3D_SHORTCUT_B;
}

static int read_network(struct resnet3d *network, const struct config *config, size_t labels)
{
	int64_t classes = config_integer(config, "model.n_classes");

	if (!classes && !labels)
		return error_set(STATUS_CONFIG,
			"model.n_classes = 0 means as many as the data has labels, and it has none; say how "
			"many");
	if (classes && (size_t)classes < labels)
		return error_set(STATUS_CONFIG, "model.n_classes = %lld, but the data has %zu labels",
			(long long)classes, labels);
	*network = (struct resnet3d){
		.family = (enum resnet3d_family)resnet3d_family(config_text(config, "model.name")),
		.depth = (int)config_integer(config, "model.depth"),
		.classes = classes ? (int)classes : (int)labels,
		.in_channels = strcmp(config_text(config, "model.input"), "flow") ? 3 : 2,
		.shortcut = shortcut_of(config_text(config, "model.shortcut")),
		.conv1_t_size = (int)config_integer(config, "model.conv1_t_size"),
		.conv1_t_stride = (int)config_integer(config, "model.conv1_t_stride"),
		.max_pool = config_bool(config, "model.max_pool"),
		.widen_factor = config_number(config, "model.widen_factor"),
		.wide_k = (int)config_integer(config, "model.wide_k"),
		.cardinality = (int)config_integer(config, "model.cardinality"),
		.train_from = config_text(config, "train.from"),
		.frozen_norm = config_bool(config, "train.frozen_norm"),
	};
	return resnet3d_check(network);
}

int classify_model_init(
	struct classify_model *model, const struct config *config, struct device *device, size_t labels)
{
	int status;

	*model = (struct classify_model){
		.frames = (int)config_integer(config, "clip.duration"),
		.windows = (int)config_integer(config, "predict.windows"),
		.smoothing = config_number(config, "loss.smoothing"),
	};
	status = read_network(&model->network, config, labels);
	if (!status && !(model->program = program_new(device)))
		status = error_status();
	return status;
}

void classify_model_release(struct classify_model *model)
{
	program_free(model->program);
	free(model->input);
	*model = (struct classify_model){0};
}

/* ---- graphs ---- */

static int build(struct classify_model *model, struct classify_graph *made)
{
	int64_t clips[5] = {
		made->batch, model->frames, made->height, made->width, model->network.in_channels};
	struct graph *graph = graph_new(model->program, made->training ? "train" : "windows", made->training);

	if (!graph)
		return error_status();
	made->graph = graph;
	made->clips = graph_input(graph, "clips", TENSOR_F32, 5, clips);
	made->logits = resnet3d_build(graph, &model->network, made->clips, made->training);
	graph_output(graph, made->logits);
	if (!made->training)
		return STATUS_OK;
	made->target = graph_input(graph, "target", TENSOR_I32, 1, clips);
	made->entropy = graph_cross_entropy(graph, made->logits, made->target, model->smoothing);
	graph_output(graph, made->entropy.rank);
	return graph_backward(graph, made->entropy.loss);
}

static int find_or_build(
	struct classify_model *model, bool training, int batch, int height, int width, int *index)
{
	for (*index = 0; *index < model->graphs; ++*index) {
		const struct classify_graph *known = &model->graph[*index];

		if (known->training == training && known->batch == batch && known->height == height &&
			known->width == width)
			return STATUS_OK;
	}
	if (model->graphs == CLASSIFY_GRAPHS)
		return error_set(STATUS_CONFIG,
			"videos of more than %d different shapes; use predict.crop = center",
			CLASSIFY_GRAPHS / 2);
	model->graph[model->graphs] = (struct classify_graph){
		.training = training, .batch = batch, .height = height, .width = width};
	return build(model, &model->graph[model->graphs++]);
}

int classify_model_train_graph(struct classify_model *model, int batch, int size, int *index)
{
	return find_or_build(model, true, batch, size, size, index);
}

int classify_model_window_graph(struct classify_model *model, int batch, int height, int width, int *index)
{
	int before = model->graphs, status = find_or_build(model, false, batch, height, width, index);

	return status || !model->prepared || model->graphs == before ? status
								     : program_prepare(model->program);
}

int classify_model_prepare(struct classify_model *model)
{
	int status = program_prepare(model->program);

	model->prepared = !status;
	return status;
}

/* ---- windows ---- */

/* Reading the windows of one pass. */
struct pass {
	const struct classify_clip *clip;
	struct video_reader *reader;
	size_t sample;
	const struct classify_view *view;
	int64_t first, count;
	uint8_t *pixels; /* of one window */
	float *input;
	size_t elements; /* of one window */
};

static int read_pass(void *context)
{
	const struct pass *pass = context;
	int status = STATUS_OK;

	for (int64_t i = 0; i < pass->count && !status; i++)
		status = classify_view_read(pass->clip, pass->reader, pass->sample, pass->view,
			pass->first + i, pass->pixels, pass->input + (size_t)i * pass->elements);
	return status;
}

/* Room for two passes of floats and the bytes of a window behind them. */
static int make_room(struct classify_model *model, size_t elements)
{
	size_t needed = (2 * (size_t)model->windows + 1) * elements;

	if (needed <= model->input_size)
		return STATUS_OK;
	free(model->input);
	model->input = memory_new(needed, sizeof *model->input);
	model->input_size = model->input ? needed : 0;
	return model->input ? STATUS_OK : error_status();
}

static int run_pass(struct classify_model *model, const struct pass *pass, float *logits)
{
	const struct clip_geometry *geometry = &pass->view->geometry;
	const struct classify_graph *graph;
	int index, status = classify_model_window_graph(
			   model, (int)pass->count, geometry->height, geometry->width, &index);

	if (status)
		return status;
	graph = &model->graph[index];
	status = graph_write(graph->graph, graph->clips, pass->input);
	if (!status)
		status = graph_run(graph->graph);
	if (!status)
		status = graph_read(graph->graph, graph->logits,
			logits + (size_t)pass->first * (size_t)model->network.classes);
	return status;
}

/* The pass that begins at window `first`. */
static void next_pass(const struct classify_model *model, struct pass *pass, int64_t first)
{
	int64_t left = pass->view->windows.count - first;

	pass->first = first;
	pass->count = left >= model->windows ? model->windows : left > 0;
	pass->input = pass->input == model->input ? model->input + (size_t)model->windows * pass->elements
						  : model->input;
}

int classify_model_windows(struct classify_model *model, const struct classify_clip *clip,
	struct video_reader *reader, size_t sample, const struct classify_view *view, float **logits)
{
	size_t elements = classify_clip_elements(clip, view->geometry.height, view->geometry.width);
	struct pass ahead = {.clip = clip,
			    .reader = reader,
			    .sample = sample,
			    .view = view,
			    .elements = elements},
		    now;
	struct thread_job job = {0};
	int read, status = make_room(model, elements);

	*logits = memory_new((size_t)view->windows.count, (size_t)model->network.classes * sizeof **logits);
	if (status || !*logits)
		return error_status();
	ahead.pixels = (uint8_t *)(model->input + 2 * (size_t)model->windows * elements);
	next_pass(model, &ahead, 0);
	status = read_pass(&ahead);
	while (!status && ahead.count) {
		now = ahead;
		next_pass(model, &ahead, now.first + now.count);
		thread_job_start(&job, read_pass, &ahead);
		status = run_pass(model, &now, *logits);
		read = thread_job_wait(&job);
		status = status ? status : read;
	}
	return status;
}

/* ---- beside the weights ---- */

static void add_numbers(struct text *text, const char *name, const float *value, int count)
{
	text_format(text, "  \"%s\": [", name);
	for (int i = 0; i < count; i++) {
		text_add(text, i ? ", " : "");
		text_number(text, (double)value[i]);
	}
	text_add(text, "],\n");
}

int classify_model_config_json(
	const struct classify_model *model, const struct classify_clip *clip, struct text *text)
{
	static const char *const shortcuts[] = {[RESNET3D_SHORTCUT_B] = "B",
		[RESNET3D_SHORTCUT_A] = "A",
		[RESNET3D_SHORTCUT_A_DETACHED] = "A-original"};
	const struct resnet3d *network = &model->network;

	text_format(text, "{\n  \"arch\": \"%s-%d\",\n  \"n_classes\": %d,\n  \"n_input_channels\": %d,\n",
		resnet3d_family_name(network->family), network->depth, network->classes,
		network->in_channels);
	text_format(text, "  \"shortcut\": \"%s\",\n  \"conv1_t_size\": %d,\n  \"conv1_t_stride\": %d,\n",
		shortcuts[network->shortcut], network->conv1_t_size, network->conv1_t_stride);
	text_format(text, "  \"max_pool\": %s,\n  \"widen_factor\": ", network->max_pool ? "true" : "false");
	text_number(text, network->widen_factor);
	text_format(text, ",\n  \"wide_k\": %d,\n  \"cardinality\": %d,\n", network->wide_k,
		network->cardinality);
	text_format(text,
		"  \"sample_size\": %d,\n  \"sample_duration\": %lld,\n  \"sample_t_stride\": %lld,\n",
		clip->size, (long long)clip->duration, (long long)clip->stride);
	add_numbers(text, "mean", clip->statistics.mean, clip->channels);
	add_numbers(text, "std", clip->statistics.std, clip->channels);
	text_add(text, "  \"value_scale\": ");
	text_number(text, (double)clip->statistics.scale);
	text_add(text, "\n}\n");
	return text_check(text);
}
