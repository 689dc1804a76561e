/* The U-Net: checks, the order of its blocks, its configuration file. The blocks are in unet_blocks.c. */
#include "base/error.h"
#include "model/unet_blocks.h"

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

/* ---- the network ---- */

static int time_embedding(struct unet_blocks *b, int t)
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
	struct unet_blocks b = {.graph = graph, .unet = unet, .context = context};

	if (unet_check(unet))
		return graph_fail(graph, "%s", error_message());
	if (graph_dim(graph, x, 3) != unet->in_channels ||
		graph_dim(graph, context, 2) != unet->context_width)
		return graph_fail(graph,
			"the network takes %d channels and a condition of width %d, not %lld and %lld",
			unet->in_channels, unet->context_width, (long long)graph_dim(graph, x, 3),
			(long long)graph_dim(graph, context, 2));
	b.time = time_embedding(&b, t);
	x = unet_convolution(&b, x, "conv_in", unet->width[0], 3, 1);
	unet_push_skip(&b, x);
	for (int i = 0; i < unet->levels; i++)
		x = unet_down(&b, x, i);
	x = unet_middle(&b, x);
	for (int i = 0; i < unet->levels; i++)
		x = unet_up(&b, x, i);
	x = graph_group_norm(
		graph, x, "conv_norm_out", unet->norm_groups, UNET_NORM_EPSILON, ACTIVATION_SILU);
	return unet_convolution(&b, x, "conv_out", unet->out_channels, 3, 1);
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
