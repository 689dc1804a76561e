#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "file/safetensors.h"
#include "task/depth_model.h"

static int choice(const char *value, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(value, names[i]))
			return i;
	return -1;
}

static int read_unet(struct unet *unet, const struct config *config, int latent_channels)
{
	size_t levels = config_count(config, "model.widths");

	if (levels > UNET_LEVELS)
		return error_set(STATUS_CONFIG, "model.widths: %zu levels, at most %d are possible", levels,
			UNET_LEVELS);
	unet->in_channels = 2 * latent_channels;
	unet->out_channels = latent_channels;
	unet->levels = (int)levels;
	for (size_t i = 0; i < levels; i++) {
		unet->width[i] = (int)config_integer_at(config, "model.widths", i);
		unet->heads[i] = (int)config_integer_at(config, "model.heads", i);
		unet->attention[i] = config_integer_at(config, "model.attention", i) != 0;
	}
	unet->layers = (int)config_integer(config, "model.layers");
	unet->norm_groups = (int)config_integer(config, "model.norm_groups");
	unet->context_width = (int)config_integer(config, "model.context_width");
	return unet_check(unet);
}

static int read_diffusion(struct diffusion *diffusion, const struct config *config)
{
	static const char *const predictions[] = {"v", "epsilon", "sample", NULL};
	static const char *const spacings[] = {"trailing", "leading", "linspace", NULL};

	diffusion->steps = (int)config_integer(config, "diffusion.timesteps");
	diffusion->beta_start = config_number(config, "diffusion.beta_start");
	diffusion->beta_end = config_number(config, "diffusion.beta_end");
	diffusion->zero_snr = config_bool(config, "diffusion.zero_snr");
	diffusion->prediction =
		(enum diffusion_prediction)choice(config_text(config, "diffusion.prediction"), predictions);
	diffusion->spacing =
		(enum diffusion_spacing)choice(config_text(config, "diffusion.spacing"), spacings);
	diffusion->final_alpha_one = !strcmp(config_text(config, "diffusion.final_alpha"), "one");
	return diffusion_init(diffusion);
}

/* The encoding of the empty prompt: from a file, or fixed random numbers (the same for every seed, so that weights carry over). */
static int read_context(struct depth_model *model, const char *path)
{
	size_t count = (size_t)DEPTH_TOKENS * (size_t)model->unet.context_width;
	struct safetensors file = {0};
	const struct safetensor *tensor;
	int status;

	model->context = memory_new(count, sizeof(float));
	if (!model->context)
		return STATUS_FAILURE;
	if (!path[0]) {
		random_normal(random_stream(0, "context"), 0, 0, 0, model->context, count);
		return 0;
	}
	status = safetensors_read(path, &file);
	tensor = status ? NULL : safetensors_find(&file, "empty_text_embed");
	if (!status && (!tensor || tensor->dims != 3 || tensor->dim[0] != 1 ||
			       tensor->dim[1] != DEPTH_TOKENS || tensor->dim[2] != model->unet.context_width))
		status = error_set(STATUS_DATA, "%s: no tensor empty_text_embed of shape [1,%d,%d]", path,
			DEPTH_TOKENS, model->unet.context_width);
	if (!status)
		status = safetensors_to_float(tensor, model->context);
	safetensors_release(&file);
	return status;
}

int depth_model_init(struct depth_model *model, const struct config *config, struct device *device)
{
	int status;

	memset(model, 0, sizeof(*model));
	model->codec = latent_codec_find(config_text(config, "model.codec"));
	if (!model->codec)
		return error_status();
	status = read_unet(&model->unet, config, model->codec->channels);
	if (!status)
		status = read_diffusion(&model->diffusion, config);
	if (!status)
		status = read_context(model, config_text(config, "model.context"));
	if (!status && !(model->program = program_new(device)))
		status = STATUS_FAILURE;
	return status;
}

void depth_model_release(struct depth_model *model)
{
	program_free(model->program);
	diffusion_release(&model->diffusion);
	free(model->context);
	free(model->scratch);
	memset(model, 0, sizeof(*model));
}

static int build(struct depth_model *model, struct depth_graph *made, bool training)
{
	int factor = model->codec->factor;
	int64_t latent[4] = {
		made->batch, made->height / factor, made->width / factor, model->codec->channels};
	int64_t context[3] = {made->batch, DEPTH_TOKENS, model->unet.context_width};
	struct graph *graph = graph_new(model->program, training ? "train" : "predict", training);

	if (!graph)
		return STATUS_FAILURE;
	made->graph = graph;
	made->rgb = graph_input(graph, "rgb", TENSOR_F32, 4, latent);
	made->noisy = graph_input(graph, "noisy", TENSOR_F32, 4, latent);
	made->t = graph_input(graph, "timestep", TENSOR_F32, 1, latent);
	made->context = graph_input(graph, "context", TENSOR_F32, 3, context);
	made->prediction = unet_build(
		graph, &model->unet, graph_concat(graph, made->rgb, made->noisy), made->t, made->context);
	if (!training) {
		graph_output(graph, made->prediction);
		return 0;
	}
	made->target = graph_input(graph, "target", TENSOR_F32, 4, latent);
	made->mask = graph_input(graph, "mask", TENSOR_F32, 3, latent);
	made->loss = graph_masked_mse(graph, made->prediction, made->target, made->mask);
	return graph_backward(graph, made->loss);
}

static int find_or_build(
	struct depth_model *model, bool training, int batch, int height, int width, int *index)
{
	int factor = model->codec->factor;

	for (*index = 0; *index < model->graphs; ++*index) {
		const struct depth_graph *known = &model->graph[*index];

		if (known->height == height && known->width == width && known->batch == batch &&
			training == (known->loss >= 0))
			return 0;
	}
	if (model->graphs == 2 * DEPTH_SIZES)
		return error_set(STATUS_CONFIG,
			"more than %d different image sizes; give the data groups a size", DEPTH_SIZES);
	if (height % factor || width % factor)
		return error_set(STATUS_CONFIG,
			"image size %dx%d: sides must be multiples of %d; give the data group a size", height,
			width, factor);
	model->graph[model->graphs] =
		(struct depth_graph){.height = height, .width = width, .batch = batch, .loss = -1};
	return build(model, &model->graph[model->graphs++], training);
}

int depth_model_train_graph(struct depth_model *model, int batch, int height, int width, int *index)
{
	return find_or_build(model, true, batch, height, width, index);
}

int depth_model_predict_graph(struct depth_model *model, int height, int width, int *index)
{
	return find_or_build(model, false, 1, height, width, index);
}

/* The text condition is the same for every sample and step. */
static int write_context(const struct depth_model *model, const struct depth_graph *graph)
{
	size_t count = (size_t)DEPTH_TOKENS * (size_t)model->unet.context_width;
	float *all = memory_new((size_t)graph->batch * count, sizeof(float));
	int status = all ? 0 : STATUS_FAILURE;

	for (int n = 0; n < graph->batch && !status; n++)
		memcpy(all + (size_t)n * count, model->context, count * sizeof(float));
	if (!status)
		status = graph_write(graph->graph, graph->context, all);
	free(all);
	return status;
}

int depth_model_prepare(struct depth_model *model)
{
	size_t largest = 0;
	int status = program_prepare(model->program);

	for (int i = 0; i < model->graphs && !status; i++) {
		const struct depth_graph *graph = &model->graph[i];
		size_t pixels = (size_t)graph->height * (size_t)graph->width;
		size_t needed =
			3 * pixels + 3 * graph_elements(graph->graph, graph->rgb) / (size_t)graph->batch;

		largest = needed > largest ? needed : largest;
		status = write_context(model, graph);
	}
	if (status)
		return status;
	model->scratch = memory_new(largest, sizeof(float));
	return model->scratch ? 0 : STATUS_FAILURE;
}

/* Samples the depth latent: x starts as noise and is refined in place. */
static int sample(struct depth_model *model, const struct depth_graph *graph, int steps, float *x,
	float *prediction, size_t count)
{
	int *list = memory_new((size_t)steps + 1, sizeof(int));
	int timesteps = list ? diffusion_timesteps(&model->diffusion, steps, list) : 0;
	int status = timesteps ? 0 : error_status();

	for (int i = 0; i < timesteps && !status; i++) {
		float t = (float)list[i];

		status = graph_write(graph->graph, graph->t, &t);
		if (!status)
			status = graph_write(graph->graph, graph->noisy, x);
		if (!status)
			status = graph_run(graph->graph);
		if (!status)
			status = graph_read(graph->graph, graph->prediction, prediction);
		if (!status)
			diffusion_ddim_step(&model->diffusion, steps, list[i], prediction, x, count);
	}
	free(list);
	return status;
}

int depth_model_predict(struct depth_model *model, int index, const float *rgb, int steps,
	struct random noise, uint32_t number, float *depth)
{
	const struct depth_graph *graph = &model->graph[index];
	const struct latent_codec *codec = model->codec;
	size_t pixels = (size_t)graph->height * (size_t)graph->width;
	size_t count = graph_elements(graph->graph, graph->rgb);
	float *image = model->scratch, *x = image + 3 * pixels, *latent = x + count,
	      *prediction = latent + count;
	int status = codec->encode(codec, rgb, graph->height, graph->width, latent);

	if (!status)
		status = graph_write(graph->graph, graph->rgb, latent);
	random_normal(noise, 0, number, 0, x, count);
	if (!status)
		status = sample(model, graph, steps, x, prediction, count);
	if (!status)
		status = codec->decode(codec, x, graph->height, graph->width, image);
	for (size_t i = 0; i < pixels && !status; i++) {
		float mean = (image[3 * i] + image[3 * i + 1] + image[3 * i + 2]) / 3;

		depth[i] = (fminf(fmaxf(mean, -1), 1) + 1) / 2;
	}
	return status;
}
