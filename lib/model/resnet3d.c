/* 3D ResNets: checks, sizes of the families, stems and the order of the stages. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/text.h"
#include "model/resnet3d_blocks.h"

#define STAGES 4
#define NORM_EPSILON 1e-5

static const char *const family_names[] = {
	"resnet", "resnet2p1d", "preresnet", "wideresnet", "resnext", "densenet"};

const char *resnet3d_family_name(enum resnet3d_family family)
{
	return family_names[family];
}

int resnet3d_family(const char *name)
{
	for (int i = 0; i < RESNET3D_FAMILIES; i++) {
		if (!strcmp(family_names[i], name))
			return i;
	}
	return -1;
}

struct resnet3d resnet3d_default(enum resnet3d_family family, int depth, int classes)
{
	return (struct resnet3d){.family = family,
		.depth = depth,
		.classes = classes,
		.in_channels = 3,
		.conv1_t_size = 7,
		.conv1_t_stride = 1,
		.max_pool = true,
		.widen_factor = 1,
		.wide_k = 2,
		.cardinality = 32};
}

/* ---- sizes ---- */

static const struct {
	int depth, blocks[STAGES];
} depths[] = {{10, {1, 1, 1, 1}}, {18, {2, 2, 2, 2}}, {34, {3, 4, 6, 3}}, {50, {3, 4, 6, 3}},
	{101, {3, 4, 23, 3}}, {152, {3, 8, 36, 3}}, {200, {3, 24, 36, 3}}};

/* Blocks of each stage; NULL when the family has no such depth. */
static const int *blocks_of(const struct resnet3d *resnet)
{
	bool deep = resnet->family == RESNET3D_WIDERESNET || resnet->family == RESNET3D_RESNEXT;

	for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
		if (depths[i].depth == resnet->depth && !(deep && resnet->depth < 50))
			return depths[i].blocks;
	}
	return NULL;
}

/* Channels of the first convolution. */
static int first_width(const struct resnet3d *resnet)
{
	switch (resnet->family) {
	case RESNET3D_WIDERESNET:
		return 64 * resnet->wide_k;
	case RESNET3D_RESNEXT:
		return 128;
	case RESNET3D_DENSENET:
		return 64;
	default:
		return (int)(64 * resnet->widen_factor);
	}
}

static struct resnet3d_stage stage_of(const struct resnet3d *resnet, int i)
{
	struct resnet3d_stage stage = {.bottleneck = resnet->depth >= 50, .groups = 1};

	switch (resnet->family) {
	case RESNET3D_WIDERESNET:
		stage.width = (64 << i) * resnet->wide_k;
		stage.out = 2 * stage.width;
		break;
	case RESNET3D_RESNEXT:
		stage.width = resnet->cardinality * (128 << i) / 32;
		stage.out = 2 * (128 << i);
		stage.groups = resnet->cardinality;
		break;
	default:
		stage.width = (int)((64 << i) * resnet->widen_factor);
		stage.out = stage.width * (stage.bottleneck ? 4 : 1);
	}
	return stage;
}

/* ---- modules ---- */

/* Names in the order of the network; the last one is NULL. */
static const char *const *modules_of(enum resnet3d_family family)
{
	static const char *const usual[] = {
		"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc", NULL};
	static const char *const split[] = {
		"conv1_s", "bn1_s", "conv1_t", "bn1_t", "layer1", "layer2", "layer3", "layer4", "fc", NULL};
	static const char *const dense[] = {"conv1", "norm1", "denseblock1", "transition1", "denseblock2",
		"transition2", "denseblock3", "transition3", "denseblock4", "norm5", "classifier", NULL};

	return family == RESNET3D_DENSENET ? dense : family == RESNET3D_RESNET2P1D ? split : usual;
}

static bool trains_all(const struct resnet3d *resnet)
{
	return !resnet->train_from || !*resnet->train_from;
}

void resnet3d_module(struct resnet3d_builder *b, const char *name)
{
	if (!trains_all(b->resnet) && !strcmp(name, b->resnet->train_from))
		b->frozen_norm = false;
}

/* Whether a parameter's module is `name`: its first part, behind "features." */
static bool is_of_module(const char *parameter, const char *name)
{
	static const char features[] = "features.";
	size_t length = strlen(name);

	if (!strncmp(parameter, features, sizeof(features) - 1))
		parameter += sizeof(features) - 1;
	return !strncmp(parameter, name, length) && parameter[length] == '.';
}

static void freeze_before(struct store *store, const struct resnet3d *resnet)
{
	if (trains_all(resnet))
		return;
	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);

		if (is_of_module(parameter->name, resnet->train_from))
			return;
		if (!parameter->statistic)
			store_freeze(store, parameter->name);
	}
}

/* ---- checks ---- */

static int check_depth(const struct resnet3d *resnet)
{
	static const int dense[] = {121, 169, 201, 264};
	const char *name;

	if ((unsigned)resnet->family >= RESNET3D_FAMILIES)
		return error_set(STATUS_CONFIG, "model.name: no such family of 3D ResNets");
	name = family_names[resnet->family];
	if (resnet->family != RESNET3D_DENSENET)
		return blocks_of(resnet)
			       ? STATUS_OK
			       : error_set(STATUS_CONFIG,
					 "model.depth: %s has depths %s101, 152 and 200, not %d", name,
					 resnet->family == RESNET3D_WIDERESNET ||
							 resnet->family == RESNET3D_RESNEXT
						 ? "50, "
						 : "10, 18, 34, 50, ",
					 resnet->depth);
	for (size_t i = 0; i < sizeof(dense) / sizeof(*dense); i++) {
		if (dense[i] == resnet->depth)
			return STATUS_OK;
	}
	return error_set(STATUS_CONFIG, "model.depth: densenet has depths 121, 169, 201 and 264, not %d",
		resnet->depth);
}

static int check_widths(const struct resnet3d *resnet)
{
	if (!(resnet->widen_factor > 0 && resnet->widen_factor <= 16) || first_width(resnet) < 1)
		return error_set(STATUS_CONFIG, "model.widen_factor: %g makes %d channels of 64",
			resnet->widen_factor, (int)(64 * fmin(fmax(resnet->widen_factor, 0), 1024)));
	if (resnet->wide_k < 1 || resnet->wide_k > 16)
		return error_set(STATUS_CONFIG, "model.wide_k: 1 to 16, not %d", resnet->wide_k);
	if (resnet->family == RESNET3D_RESNEXT && (resnet->cardinality < 1 || resnet->cardinality > 1024))
		return error_set(STATUS_CONFIG, "model.cardinality: 1 to 1024, not %d", resnet->cardinality);
	return STATUS_OK;
}

static int check_train_from(const struct resnet3d *resnet)
{
	const char *const *modules = modules_of(resnet->family);
	struct text list = {0};
	int status = STATUS_OK;

	if (trains_all(resnet))
		return STATUS_OK;
	for (int i = 0; modules[i]; i++) {
		if (!strcmp(modules[i], resnet->train_from))
			goto out;
		text_format(&list, "%s%s", i ? ", " : "", modules[i]);
	}
	status = error_set(STATUS_CONFIG, "train.from: %s has no module %s, but %s",
		family_names[resnet->family], resnet->train_from, list.data ? list.data : "");
out:
	text_release(&list);
	return status;
}

int resnet3d_check(const struct resnet3d *resnet)
{
	if (check_depth(resnet) || check_widths(resnet))
		return error_status();
	if (resnet->classes < 1 || resnet->classes > 1000000)
		return error_set(STATUS_CONFIG, "model.n_classes: 1 to 1000000, not %d", resnet->classes);
	if (resnet->in_channels < 1 || resnet->in_channels > 1024)
		return error_set(
			STATUS_CONFIG, "the network takes 1 to 1024 channels, not %d", resnet->in_channels);
	if (resnet->conv1_t_size < 1 || resnet->conv1_t_size > 99)
		return error_set(STATUS_CONFIG, "model.conv1_t_size: 1 to 99, not %d", resnet->conv1_t_size);
	if (resnet->conv1_t_stride < 1 || resnet->conv1_t_stride > 99)
		return error_set(
			STATUS_CONFIG, "model.conv1_t_stride: 1 to 99, not %d", resnet->conv1_t_stride);
	return check_train_from(resnet);
}

/* ---- layers ---- */

int resnet3d_convolution(struct resnet3d_builder *b, int x, const char *name, int out, const int kernel[3],
	const int stride[3], int groups)
{
	struct convolution convolution = {.out = out, .groups = groups};

	for (int axis = 0; axis < 3; axis++) {
		convolution.kernel[axis] = kernel[axis];
		convolution.stride[axis] = stride[axis];
		convolution.pad_before[axis] = convolution.pad_after[axis] = kernel[axis] / 2;
	}
	return graph_convolution(b->graph, x, name, convolution);
}

int resnet3d_cube(struct resnet3d_builder *b, int x, const char *name, int out, int kernel, int stride)
{
	return resnet3d_convolution(
		b, x, name, out, (int[]){kernel, kernel, kernel}, (int[]){stride, stride, stride}, 1);
}

int resnet3d_norm(struct resnet3d_builder *b, int x, const char *name, int residual, bool relu)
{
	return graph_batch_norm(b->graph, x, name,
		(struct batch_norm){.epsilon = NORM_EPSILON,
			.momentum = RESNET3D_NORM_MOMENTUM,
			.activation = relu ? ACTIVATION_RELU : ACTIVATION_NONE,
			.frozen = b->frozen_norm},
		residual);
}

int resnet3d_stem_pool(struct resnet3d_builder *b, int x)
{
	static const struct pool pool = {
		.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .pad_before = {1, 1, 1}, .pad_after = {1, 1, 1}};

	return b->resnet->max_pool ? graph_max_pool(b->graph, x, pool) : x;
}

int resnet3d_stem(struct resnet3d_builder *b, int x, const char *convolution, const char *norm, int out)
{
	const struct resnet3d *resnet = b->resnet;

	resnet3d_module(b, convolution);
	x = resnet3d_convolution(b, x, convolution, out, (int[]){resnet->conv1_t_size, 7, 7},
		(int[]){resnet->conv1_t_stride, 2, 2}, 1);
	resnet3d_module(b, norm);
	x = resnet3d_norm(b, x, norm, -1, true);
	return resnet3d_stem_pool(b, x);
}

/* As many channels between the two parts as make the parameters of a whole convolution of three channels. */
static int split_stem(struct resnet3d_builder *b, int x, int out)
{
	const struct resnet3d *resnet = b->resnet;
	int k = resnet->conv1_t_size, middle = 3 * out * k * 49 / (147 + k * out);

	resnet3d_module(b, "conv1_s");
	x = resnet3d_convolution(b, x, "conv1_s", middle, (int[]){1, 7, 7}, (int[]){1, 2, 2}, 1);
	resnet3d_module(b, "bn1_s");
	x = resnet3d_norm(b, x, "bn1_s", -1, true);
	resnet3d_module(b, "conv1_t");
	x = resnet3d_convolution(
		b, x, "conv1_t", out, (int[]){k, 1, 1}, (int[]){resnet->conv1_t_stride, 1, 1}, 1);
	resnet3d_module(b, "bn1_t");
	x = resnet3d_norm(b, x, "bn1_t", -1, true);
	return resnet3d_stem_pool(b, x);
}

/* ---- networks ---- */

static int stages(struct resnet3d_builder *b, int x)
{
	static resnet3d_block *const blocks[RESNET3D_FAMILIES] = {
		[RESNET3D_RESNET] = resnet3d_post_block,
		[RESNET3D_RESNET2P1D] = resnet3d_2p1d_block,
		[RESNET3D_PRERESNET] = resnet3d_pre_block,
		[RESNET3D_WIDERESNET] = resnet3d_post_block,
		[RESNET3D_RESNEXT] = resnet3d_post_block,
	};
	const int *count = blocks_of(b->resnet);

	for (int i = 0; i < STAGES; i++) {
		struct resnet3d_stage stage = stage_of(b->resnet, i);
		char name[32];

		snprintf(name, sizeof(name), "layer%d", i + 1);
		resnet3d_module(b, name);
		for (int j = 0; j < count[i]; j++) {
			graph_push(b->graph, "%s.%d.", name, j);
			x = blocks[b->resnet->family](b, x, &stage, i > 0 && j == 0 ? 2 : 1);
			graph_pop(b->graph);
		}
	}
	return x;
}

/* Registration gave PyTorch's default initial values; the original sets others. */
static void set_initial_values(struct store *store, const struct resnet3d *resnet)
{
	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);

		if (parameter->layout == LAYOUT_CONVOLUTION) {
			double fan_out = (double)parameter->count / (double)parameter->dim[1];

			store_set_initial(store, (int)i, INITIAL_NORMAL, sqrt(2 / fan_out));
		}
	}
	if (resnet->family == RESNET3D_DENSENET)
		store_set_initial(store, store_find(store, "classifier.bias"), INITIAL_ZERO, 0);
}

int resnet3d_build(struct graph *graph, const struct resnet3d *resnet, int x, bool training)
{
	struct resnet3d_builder b = {.graph = graph, .resnet = resnet};
	struct store *store;
	int y;

	if (resnet3d_check(resnet))
		return graph_fail(graph, "%s", error_message());
	if (graph_dims(graph, x) != 5 || graph_dim(graph, x, 4) != resnet->in_channels)
		return graph_fail(graph, "the network takes clips of %d channels, not of %lld",
			resnet->in_channels, (long long)graph_dim(graph, x, 4));
	b.frozen_norm = resnet->frozen_norm && !trains_all(resnet);
	if (resnet->family == RESNET3D_DENSENET)
		y = densenet3d_features(&b, x);
	else if (resnet->family == RESNET3D_RESNET2P1D)
		y = graph_global_pool(graph, stages(&b, split_stem(&b, x, first_width(resnet))));
	else
		y = graph_global_pool(
			graph, stages(&b, resnet3d_stem(&b, x, "conv1", "bn1", first_width(resnet))));
	y = graph_linear(
		graph, y, resnet->family == RESNET3D_DENSENET ? "classifier" : "fc", resnet->classes, true);
	if (y < 0)
		return -1;
	store = graph_store(graph);
	set_initial_values(store, resnet);
	if (training)
		freeze_before(store, resnet);
	return y;
}
