/* The U-Net builder. Tensor names and order of operations: diffusers' UNet2DConditionModel, Rombach et al.
 * 2022. */
#include "base/error.h"
#include "model/unet.h"

#define NORM_EPSILON 1e-5
#define TRANSFORMER_NORM_EPSILON 1e-6
#define UNET_SKIPS (UNET_LEVELS * 9 + 1)

/* ---- configuration ---- */

static int check_level(const struct unet *unet, int i)
{
	if (unet->width[i] < 2 || unet->width[i] > 65536 || unet->width[i] % 2)
		return error_set(STATUS_CONFIG,
			"model.widths: %d channels, not an even number from 2 to 65536", unet->width[i]);
	if (unet->norm_groups < 1 || unet->width[i] % unet->norm_groups)
		return error_set(STATUS_CONFIG,
			"model.norm_groups: %d channels are not divisible by %d groups", unet->width[i],
			unet->norm_groups);
	if (unet->heads[i] < 1 || unet->width[i] % unet->heads[i])
		return error_set(STATUS_CONFIG, "model.heads: %d channels are not divisible by %d heads",
			unet->width[i], unet->heads[i]);
	return STATUS_OK;
}

int unet_check(const struct unet *unet)
{
	if (unet->levels < 1 || unet->levels > UNET_LEVELS)
		return error_set(
			STATUS_CONFIG, "model.widths: 1 to %d levels, not %d", UNET_LEVELS, unet->levels);
	if (unet->layers < 1 || unet->layers > 8)
		return error_set(STATUS_CONFIG, "model.layers: 1 to 8, not %d", unet->layers);
	if (unet->context_width < 1)
		return error_set(
			STATUS_CONFIG, "model.context_width: at least 1, not %d", unet->context_width);
	if (unet->in_channels < 1 || unet->out_channels < 1)
		return error_set(STATUS_CONFIG, "the network needs channels in and out");
	for (int i = 0; i < unet->levels; i++) {
		if (check_level(unet, i))
			return error_status();
	}
	return STATUS_OK;
}

/* ---- blocks ---- */

struct builder {
	struct graph *graph;
	const struct unet *unet;
	int time;    /* SiLU of the time embedding, [N, 4 width] */
	int context; /* [N, L, context_width] */
	int skip[UNET_SKIPS];
	int skips;
};

static int convolve(struct builder *b, int x, const char *name, int out, int kernel, int stride)
{
	int pad = kernel / 2;

	return graph_convolution(b->graph, x, name,
		(struct convolution){.out = out,
			.kernel = {kernel, kernel},
			.stride = {stride, stride},
			.pad_before = {pad, pad},
			.pad_after = {pad, pad},
			.bias = true});
}

static int resnet(struct builder *b, int x, int out, const char *list, int index)
{
	struct graph *graph = b->graph;
	int in = (int)graph_dim(graph, x, 3), u, time;

	graph_push(graph, "%s.%d.", list, index);
	u = graph_group_norm(graph, x, "norm1", b->unet->norm_groups, NORM_EPSILON, ACTIVATION_SILU);
	u = convolve(b, u, "conv1", out, 3, 1);
	time = graph_linear(graph, b->time, "time_emb_proj", out, true);
	u = graph_add_channels(graph, u, time);
	u = graph_group_norm(graph, u, "norm2", b->unet->norm_groups, NORM_EPSILON, ACTIVATION_SILU);
	u = convolve(b, u, "conv2", out, 3, 1);
	if (in != out)
		x = convolve(b, x, "conv_shortcut", out, 1, 1);
	graph_pop(graph);
	return graph_add(graph, x, u);
}

/* Attention of z to `source` tokens: z itself, or the context. */
static int attend(struct builder *b, int z, int source, const char *name, int heads)
{
	struct graph *graph = b->graph;
	int width = (int)graph_dim(graph, z, 2), q, k, v;

	graph_push(graph, "%s.", name);
	q = graph_linear(graph, z, "to_q", width, false);
	k = graph_linear(graph, source, "to_k", width, false);
	v = graph_linear(graph, source, "to_v", width, false);
	z = graph_attention(graph, q, k, v, heads);
	z = graph_linear(graph, z, "to_out.0", width, true);
	graph_pop(graph);
	return z;
}

static int feed_forward(struct builder *b, int z)
{
	int width = (int)graph_dim(b->graph, z, 2);

	z = graph_linear(b->graph, z, "ff.net.0.proj", 8 * width, true);
	z = graph_geglu(b->graph, z);
	return graph_linear(b->graph, z, "ff.net.2", width, true);
}

static int transformer_block(struct builder *b, int z, int heads)
{
	struct graph *graph = b->graph;
	int y;

	graph_push(graph, "transformer_blocks.0.");
	y = graph_layer_norm(graph, z, "norm1", NORM_EPSILON);
	z = graph_add(graph, z, attend(b, y, y, "attn1", heads));
	y = graph_layer_norm(graph, z, "norm2", NORM_EPSILON);
	z = graph_add(graph, z, attend(b, y, b->context, "attn2", heads));
	y = graph_layer_norm(graph, z, "norm3", NORM_EPSILON);
	z = graph_add(graph, z, feed_forward(b, y));
	graph_pop(graph);
	return z;
}

static int transformer(struct builder *b, int x, int heads, int index)
{
	struct graph *graph = b->graph;
	int64_t n = graph_dim(graph, x, 0), h = graph_dim(graph, x, 1), w = graph_dim(graph, x, 2);
	int64_t width = graph_dim(graph, x, 3);
	int z;

	graph_push(graph, "attentions.%d.", index);
	z = graph_group_norm(
		graph, x, "norm", b->unet->norm_groups, TRANSFORMER_NORM_EPSILON, ACTIVATION_NONE);
	z = graph_reshape(graph, z, 3, (int64_t[]){n, h * w, width});
	z = graph_linear(graph, z, "proj_in", (int)width, true);
	z = transformer_block(b, z, heads);
	z = graph_linear(graph, z, "proj_out", (int)width, true);
	z = graph_reshape(graph, z, 4, (int64_t[]){n, h, w, width});
	graph_pop(graph);
	return graph_add(graph, x, z);
}

/* ---- the network ---- */

static void push_skip(struct builder *b, int x)
{
	b->skip[b->skips++] = x;
}

static int down_level(struct builder *b, int x, int i)
{
	const struct unet *unet = b->unet;

	graph_push(b->graph, "down_blocks.%d.", i);
	for (int j = 0; j < unet->layers; j++) {
		x = resnet(b, x, unet->width[i], "resnets", j);
		if (unet->attention[i])
			x = transformer(b, x, unet->heads[i], j);
		push_skip(b, x);
	}
	if (i < unet->levels - 1) {
		x = convolve(b, x, "downsamplers.0.conv", unet->width[i], 3, 2);
		push_skip(b, x);
	}
	graph_pop(b->graph);
	return x;
}

static int middle(struct builder *b, int x)
{
	int last = b->unet->levels - 1;

	graph_push(b->graph, "mid_block.");
	x = resnet(b, x, b->unet->width[last], "resnets", 0);
	x = transformer(b, x, b->unet->heads[last], 0);
	x = resnet(b, x, b->unet->width[last], "resnets", 1);
	graph_pop(b->graph);
	return x;
}

/* Up block i works at level `levels - 1 - i`. Odd sizes: upsampling aims at the size of the next skip. */
static int up_level(struct builder *b, int x, int i)
{
	const struct unet *unet = b->unet;
	int level = unet->levels - 1 - i;

	graph_push(b->graph, "up_blocks.%d.", i);
	for (int j = 0; j <= unet->layers; j++) {
		x = graph_concat(b->graph, x, b->skip[--b->skips]);
		x = resnet(b, x, unet->width[level], "resnets", j);
		if (unet->attention[level])
			x = transformer(b, x, unet->heads[level], j);
	}
	if (level > 0) {
		int next = b->skip[b->skips - 1];

		x = graph_upsample(b->graph, x, graph_dim(b->graph, next, 1), graph_dim(b->graph, next, 2));
		x = convolve(b, x, "upsamplers.0.conv", unet->width[level], 3, 1);
	}
	graph_pop(b->graph);
	return x;
}

static int time_embedding(struct builder *b, int t)
{
	struct graph *graph = b->graph;
	int width = b->unet->width[0], e;

	graph_push(graph, "time_embedding.");
	e = graph_timestep_embedding(graph, t, width);
	e = graph_linear(graph, e, "linear_1", 4 * width, true);
	e = graph_activation(graph, e, ACTIVATION_SILU);
	e = graph_linear(graph, e, "linear_2", 4 * width, true);
	graph_pop(graph);
	return graph_activation(graph, e, ACTIVATION_SILU);
}

int unet_build(struct graph *graph, const struct unet *unet, int x, int t, int context)
{
	struct builder b = {.graph = graph, .unet = unet, .context = context};

	if (unet_check(unet))
		return graph_fail(graph, "%s", error_message());
	if (graph_dim(graph, x, 3) != unet->in_channels ||
		graph_dim(graph, context, 2) != unet->context_width)
		return graph_fail(graph,
			"the network takes %d channels and a condition of width %d, not %lld and %lld",
			unet->in_channels, unet->context_width, (long long)graph_dim(graph, x, 3),
			(long long)graph_dim(graph, context, 2));
	b.time = time_embedding(&b, t);
	x = convolve(&b, x, "conv_in", unet->width[0], 3, 1);
	push_skip(&b, x);
	for (int i = 0; i < unet->levels; i++)
		x = down_level(&b, x, i);
	x = middle(&b, x);
	for (int i = 0; i < unet->levels; i++)
		x = up_level(&b, x, i);
	x = graph_group_norm(graph, x, "conv_norm_out", unet->norm_groups, NORM_EPSILON, ACTIVATION_SILU);
	return convolve(&b, x, "conv_out", unet->out_channels, 3, 1);
}

/* ---- configuration file ---- */

static void add_integers(struct text *out, const char *key, const int *values, int count)
{
	text_format(out, "  \"%s\": [", key);
	for (int i = 0; i < count; i++)
		text_format(out, "%s%d", i ? ", " : "", values[i]);
	text_add(out, "],\n");
}

static void add_blocks(struct text *out, const struct unet *unet, bool up)
{
	text_format(out, "  \"%s_block_types\": [", up ? "up" : "down");
	for (int i = 0; i < unet->levels; i++) {
		int level = up ? unet->levels - 1 - i : i;

		text_format(out, "%s\"%s%sBlock2D\"", i ? ", " : "",
			unet->attention[level] ? "CrossAttn" : "", up ? "Up" : "Down");
	}
	text_add(out, "],\n");
}

int unet_config_json(const struct unet *unet, struct text *out)
{
	text_add(out, "{\n  \"_class_name\": \"UNet2DConditionModel\",\n  \"act_fn\": \"silu\",\n");
	add_integers(out, "attention_head_dim", unet->heads, unet->levels);
	add_integers(out, "block_out_channels", unet->width, unet->levels);
	text_add(out, "  \"center_input_sample\": false,\n");
	text_format(out, "  \"cross_attention_dim\": %d,\n", unet->context_width);
	add_blocks(out, unet, false);
	text_add(out, "  \"downsample_padding\": 1,\n  \"dual_cross_attention\": false,\n");
	text_add(out, "  \"flip_sin_to_cos\": true,\n  \"freq_shift\": 0,\n");
	text_format(out, "  \"in_channels\": %d,\n", unet->in_channels);
	text_format(out, "  \"layers_per_block\": %d,\n", unet->layers);
	text_add(out, "  \"mid_block_scale_factor\": 1,\n  \"norm_eps\": 1e-05,\n");
	text_format(out, "  \"norm_num_groups\": %d,\n", unet->norm_groups);
	text_add(out, "  \"only_cross_attention\": false,\n");
	text_format(out, "  \"out_channels\": %d,\n", unet->out_channels);
	text_add(out, "  \"sample_size\": 96,\n");
	add_blocks(out, unet, true);
	text_add(out, "  \"use_linear_projection\": true\n}\n");
	return text_check(out);
}
