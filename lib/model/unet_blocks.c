/* The U-Net's blocks. Tensor names and order: diffusers' UNet2DConditionModel, Rombach et al. 2022. */
#include "model/unet_blocks.h"

#define TRANSFORMER_NORM_EPSILON 1e-6

int unet_convolution(struct unet_blocks *b, int x, const char *name, int out, int kernel, int stride)
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

int unet_resnet(struct unet_blocks *b, int x, int out)
{
	struct graph *graph = b->graph;
	int in = (int)graph_dim(graph, x, 3), u, time;

	u = graph_group_norm(graph, x, "norm1", b->unet->norm_groups, UNET_NORM_EPSILON, ACTIVATION_SILU);
	u = unet_convolution(b, u, "conv1", out, 3, 1);
	time = graph_linear(graph, b->time, "time_emb_proj", out, true);
	u = graph_add_channels(graph, u, time);
	u = graph_group_norm(graph, u, "norm2", b->unet->norm_groups, UNET_NORM_EPSILON, ACTIVATION_SILU);
	u = unet_convolution(b, u, "conv2", out, 3, 1);
	if (in != out)
		x = unet_convolution(b, x, "conv_shortcut", out, 1, 1);
	return graph_add(graph, x, u);
}

/* Attention of z to `source` tokens: z itself, or the context. */
static int attend(struct unet_blocks *b, int z, int source, const char *name, int heads)
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

static int feed_forward(struct unet_blocks *b, int z)
{
	int width = (int)graph_dim(b->graph, z, 2);

	z = graph_linear(b->graph, z, "ff.net.0.proj", 8 * width, true);
	z = graph_geglu(b->graph, z);
	return graph_linear(b->graph, z, "ff.net.2", width, true);
}

static int transformer_block(struct unet_blocks *b, int z, int heads)
{
	struct graph *graph = b->graph;
	int y;

	graph_push(graph, "transformer_blocks.0.");
	y = graph_layer_norm(graph, z, "norm1", UNET_NORM_EPSILON);
	z = graph_add(graph, z, attend(b, y, y, "attn1", heads));
	y = graph_layer_norm(graph, z, "norm2", UNET_NORM_EPSILON);
	z = graph_add(graph, z, attend(b, y, b->context, "attn2", heads));
	y = graph_layer_norm(graph, z, "norm3", UNET_NORM_EPSILON);
	z = graph_add(graph, z, feed_forward(b, y));
	graph_pop(graph);
	return z;
}

int unet_transformer(struct unet_blocks *b, int x, int heads)
{
	struct graph *graph = b->graph;
	int64_t n = graph_dim(graph, x, 0), h = graph_dim(graph, x, 1), w = graph_dim(graph, x, 2);
	int64_t width = graph_dim(graph, x, 3);
	int z;

	z = graph_group_norm(
		graph, x, "norm", b->unet->norm_groups, TRANSFORMER_NORM_EPSILON, ACTIVATION_NONE);
	z = graph_reshape(graph, z, 3, (int64_t[]){n, h * w, width});
	z = graph_linear(graph, z, "proj_in", (int)width, true);
	z = transformer_block(b, z, heads);
	z = graph_linear(graph, z, "proj_out", (int)width, true);
	z = graph_reshape(graph, z, 4, (int64_t[]){n, h, w, width});
	return graph_add(graph, x, z);
}

/* ---- levels ---- */

static int named_resnet(struct unet_blocks *b, int x, int level, int j)
{
	graph_push(b->graph, "resnets.%d.", j);
	x = unet_resnet(b, x, b->unet->width[level]);
	graph_pop(b->graph);
	return x;
}

static int named_transformer(struct unet_blocks *b, int x, int level, int j)
{
	graph_push(b->graph, "attentions.%d.", j);
	x = unet_transformer(b, x, b->unet->heads[level]);
	graph_pop(b->graph);
	return x;
}

/* ResNet j of a level and its transformer. */
static int layer(struct unet_blocks *b, int x, int level, int j)
{
	x = named_resnet(b, x, level, j);
	return b->unet->attention[level] ? named_transformer(b, x, level, j) : x;
}

void unet_push_skip(struct unet_blocks *b, int x)
{
	b->skip[b->skips++] = x;
}

int unet_down(struct unet_blocks *b, int x, int i)
{
	const struct unet *unet = b->unet;

	graph_push(b->graph, "down_blocks.%d.", i);
	for (int j = 0; j < unet->layers; j++) {
		x = layer(b, x, i, j);
		unet_push_skip(b, x);
	}
	if (i < unet->levels - 1) {
		x = unet_convolution(b, x, "downsamplers.0.conv", unet->width[i], 3, 2);
		unet_push_skip(b, x);
	}
	graph_pop(b->graph);
	return x;
}

int unet_middle(struct unet_blocks *b, int x)
{
	int last = b->unet->levels - 1;

	graph_push(b->graph, "mid_block.");
	x = named_resnet(b, x, last, 0);
	x = named_transformer(b, x, last, 0);
	x = named_resnet(b, x, last, 1);
	graph_pop(b->graph);
	return x;
}

/* Up block i works at level `levels - 1 - i`. Odd sizes: upsampling aims at the size of the next skip. */
int unet_up(struct unet_blocks *b, int x, int i)
{
	const struct unet *unet = b->unet;
	int level = unet->levels - 1 - i;

	graph_push(b->graph, "up_blocks.%d.", i);
	for (int j = 0; j <= unet->layers; j++) {
		x = graph_concat(b->graph, x, b->skip[--b->skips]);
		x = layer(b, x, level, j);
	}
	if (level > 0) {
		int next = b->skip[b->skips - 1];

		x = graph_upsample(b->graph, x, graph_dim(b->graph, next, 1), graph_dim(b->graph, next, 2));
		x = unet_convolution(b, x, "upsamplers.0.conv", unet->width[level], 3, 1);
	}
	graph_pop(b->graph);
	return x;
}
