/* Rows of the operation table: what a U-Net is made of. */
#include "support/rows.h"

/* ---- products ---- */

/* n h w in, out, kernel, stride, padding before and after, groups, bias */
static int build_convolution(struct bench *bench, const int *s)
{
	return graph_convolution(bench->graph, row_image(bench, "x", s), "convolution",
		(struct convolution){.out = s[4],
			.kernel = {s[5], s[6]},
			.stride = {s[7], s[7]},
			.pad_before = {s[8], s[8]},
			.pad_after = {s[9], s[9]},
			.groups = s[10],
			.bias = s[11]});
}

/* n d h w in, out, kernel (frames, rows and columns), stride (the same), padding before, groups; the padding behind is one
 * more along the frames, one less along the columns */
static int build_convolution_3d(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 5, (int64_t[]){s[0], s[1], s[2], s[3], s[4]}), pad = s[10];

	return graph_convolution(bench->graph, x, "convolution",
		(struct convolution){.out = s[5],
			.kernel = {s[6], s[7], s[7]},
			.stride = {s[8], s[9], s[9]},
			.pad_before = {pad, pad, pad},
			.pad_after = {pad + 1, pad, pad - (pad > 0)},
			.groups = s[11],
			.bias = s[6] > 1});
}

/* rows, in, out, bias */
static int build_linear(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_linear(bench->graph, x, "linear", s[2], s[3]);
}

/* n h w c, groups, SiLU */
static int build_group_norm(struct bench *bench, const int *s)
{
	return graph_group_norm(bench->graph, row_image(bench, "x", s), "norm", s[4], 1e-5,
		s[5] ? ACTIVATION_SILU : ACTIVATION_NONE);
}

/* The same of values whose mean is a hundred times their spread. */
static int build_far_group_norm(struct bench *bench, const int *s)
{
	int x = row_image(bench, "far", s);

	return graph_group_norm(
		bench->graph, x, "norm", s[4], 1e-5, s[5] ? ACTIVATION_SILU : ACTIVATION_NONE);
}

/* n tokens c */
static int build_layer_norm(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 3, (int64_t[]){s[0], s[1], s[2]});

	return graph_layer_norm(bench->graph, x, "norm", 1e-5);
}

static int build_far_layer_norm(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "far", 3, (int64_t[]){s[0], s[1], s[2]});

	return graph_layer_norm(bench->graph, x, "norm", 1e-5);
}

/* n tokens width, heads */
static int build_causal_attention(struct bench *bench, const int *s)
{
	int64_t dim[3] = {s[0], s[1], s[2]};
	int q = row_variable(bench, "q", 3, dim), k = row_variable(bench, "k", 3, dim);

	return graph_causal_attention(bench->graph, q, k, row_variable(bench, "v", 3, dim), s[3]);
}

/* n queries keys width, heads, 1: one tensor is q, k and v */
static int build_attention(struct bench *bench, const int *s)
{
	int q = row_variable(bench, "q", 3, (int64_t[]){s[0], s[1], s[3]}), k, v;

	if (s[5])
		return graph_attention(bench->graph, q, q, q, s[4]);
	k = row_variable(bench, "k", 3, (int64_t[]){s[0], s[2], s[3]});
	v = row_variable(bench, "v", 3, (int64_t[]){s[0], s[2], s[3]});
	return graph_attention(bench->graph, q, k, v, s[4]);
}

/* rows, channels out */
static int build_geglu(struct bench *bench, const int *s)
{
	return graph_geglu(bench->graph, row_variable(bench, "x", 2, (int64_t[]){s[0], 2 * s[1]}));
}

/* rows, channels, kind */
static int build_activation(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_activation(bench->graph, x, (enum activation)s[2]);
}

/* n h w c, 1: both operands are one tensor */
static int build_add(struct bench *bench, const int *s)
{
	int a = row_image(bench, "a", s);

	return graph_add(bench->graph, a, s[4] ? a : row_image(bench, "b", s));
}

static int build_add_channels(struct bench *bench, const int *s)
{
	int v = row_variable(bench, "v", 2, (int64_t[]){s[0], s[3]});

	return graph_add_channels(bench->graph, row_image(bench, "x", s), v);
}

/* n h w a, b, 1: one half has no gradient, 2: both halves are one tensor */
static int build_concat(struct bench *bench, const int *s)
{
	int64_t dim[4] = {s[0], s[1], s[2], s[4]};
	int a = row_image(bench, "a", s), b;

	if (s[5] == 2)
		return graph_concat(bench->graph, a, a);
	b = s[5] ? row_input(bench, "b", 4, dim) : row_variable(bench, "b", 4, dim);
	return graph_concat(bench->graph, a, b);
}

/* n h w c, height, width */
static int build_upsample(struct bench *bench, const int *s)
{
	return graph_upsample(bench->graph, row_image(bench, "x", s), s[4], s[5]);
}

/* n, width; a linear layer behind it, for there is no gradient to the time */
static int build_timestep_embedding(struct bench *bench, const int *s)
{
	int e = graph_timestep_embedding(bench->graph, row_input(bench, "t", 1, (int64_t[]){s[0]}), s[1]);

	return graph_linear(bench->graph, graph_output(bench->graph, e), "linear", 3, true);
}

/* n h w c; a masked mean square is the loss of every row */
static int build_masked_mse(struct bench *bench, const int *s)
{
	return row_image(bench, "x", s);
}

/* n h w c: [N,H,W,C] as tokens, to a layer and back */
static int build_reshape(struct bench *bench, const int *s)
{
	int x = row_image(bench, "x", s), y;

	y = graph_reshape(bench->graph, x, 3, (int64_t[]){s[0], s[1] * s[2], s[3]});
	y = graph_linear(bench->graph, y, "linear", s[3], false);
	y = graph_reshape(bench->graph, y, 4, (int64_t[]){s[0], s[1], s[2], s[3]});
	return graph_add(bench->graph, y, x);
}

static const struct row rows[] = {
	{"convolution", build_convolution, 5e-6,
		{{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0}, {2, 5, 7, 3, 4, 3, 3, 1, 1, 1, 1, 1},
			{1, 6, 5, 8, 16, 3, 3, 2, 1, 1, 1, 1}, {1, 7, 6, 5, 3, 3, 3, 2, 0, 1, 1, 1},
			{2, 4, 3, 6, 9, 1, 1, 1, 0, 0, 1, 1}, {1, 5, 4, 8, 12, 3, 2, 1, 1, 0, 4, 0},
			{2, 6, 8, 40, 24, 3, 3, 1, 1, 1, 1, 1}, {1, 12, 16, 64, 32, 3, 3, 1, 1, 1, 1, 1}}},
	{"convolution-3d", build_convolution_3d, 5e-6,
		{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1}, {2, 3, 4, 5, 3, 4, 3, 3, 1, 1, 1, 1},
			{1, 5, 6, 5, 4, 6, 3, 3, 2, 2, 1, 1}, {1, 1, 4, 3, 2, 3, 3, 3, 1, 1, 1, 1},
			{2, 4, 5, 4, 4, 8, 3, 3, 1, 2, 1, 2}, {1, 4, 3, 5, 3, 2, 1, 1, 2, 2, 0, 1},
			{1, 5, 9, 8, 3, 20, 5, 7, 1, 2, 3, 1}, {2, 2, 6, 7, 40, 24, 3, 3, 1, 1, 1, 1},
			{1, 3, 2, 3, 4, 3, 2, 2, 3, 3, 1, 1}}},
	/* many tiles, many channels, many weights: ways of their own */
	{"convolution of 3x3 taps", build_convolution, 5e-6,
		{{1, 1, 1, 16, 16, 3, 3, 1, 1, 1, 1, 1}, {1, 2, 2, 17, 16, 3, 3, 1, 1, 1, 1, 0},
			{2, 3, 5, 16, 19, 3, 3, 1, 0, 1, 1, 1}, {1, 4, 3, 18, 33, 3, 3, 1, 2, 0, 1, 1},
			{1, 5, 4, 16, 16, 3, 3, 1, 0, 0, 1, 1}, {2, 37, 41, 16, 20, 3, 3, 1, 1, 1, 1, 1},
			{1, 6, 5, 400, 64, 3, 3, 1, 1, 1, 1, 1}, {1, 15, 28, 16, 1300, 3, 3, 1, 1, 1, 1, 0}}},
	{"convolution of 3x3x3 taps", build_convolution_3d, 5e-6,
		{{1, 1, 1, 2, 16, 16, 3, 3, 1, 1, 1, 1}, {1, 1, 1, 2, 16, 16, 1, 3, 1, 1, 1, 1},
			{1, 2, 1, 2, 16, 17, 2, 3, 3, 1, 1, 1}, {1, 2, 2, 3, 16, 16, 3, 3, 1, 1, 1, 1},
			{1, 1, 3, 2, 16, 17, 3, 3, 1, 1, 1, 1}, {1, 4, 3, 4, 19, 16, 3, 3, 2, 1, 1, 1},
			{1, 2, 4, 5, 16, 18, 1, 3, 1, 1, 1, 1}, {1, 3, 3, 2, 16, 16, 2, 3, 3, 1, 2, 1},
			{2, 5, 15, 14, 24, 40, 3, 3, 1, 1, 1, 1}, {1, 3, 4, 4, 200, 64, 3, 3, 1, 1, 1, 1}}},
	{"linear", build_linear, 5e-6,
		{{1, 1, 1, 0}, {3, 5, 7, 1}, {2, 128, 33, 1}, {37, 24, 17, 0}, {192, 64, 130, 1},
			{500, 16, 16, 1}}},
	{"group-norm", build_group_norm, 4e-6,
		{{1, 1, 2, 2, 1, 0}, {2, 3, 5, 6, 3, 1}, {1, 5, 4, 8, 8, 1}, {2, 7, 9, 32, 8, 1},
			{3, 6, 8, 48, 4, 0}}},
	{"layer-norm", build_layer_norm, 4e-6, {{1, 1, 3}, {2, 3, 7}, {1, 12, 32}, {2, 48, 65}}},
	/* single precision knows a mean of 100 to 4e-6 of the spread, in every term of a sum alike */
	{"group-norm of large means", build_far_group_norm, 1e-4,
		{{1, 5, 4, 8, 8, 1}, {2, 7, 9, 32, 8, 1}, {3, 6, 8, 48, 4, 0}}},
	{"layer-norm of large means", build_far_layer_norm, 1e-4, {{2, 3, 7}, {1, 12, 32}, {2, 48, 65}}},
	{"attention", build_attention, 1e-5,
		{{1, 1, 1, 1, 1, 0}, {2, 5, 3, 6, 2, 0}, {1, 7, 7, 8, 1, 1}, {2, 33, 2, 32, 1, 0},
			{2, 48, 48, 64, 2, 0}, {1, 130, 130, 24, 3, 0}}},
	{"causal attention", build_causal_attention, 1e-5,
		{{1, 1, 1, 1}, {2, 5, 6, 2}, {1, 9, 8, 1}, {2, 33, 8, 1}, {1, 70, 24, 3}, {1, 300, 8, 1}}},
	{"geglu", build_geglu, 5e-6, {{1, 1}, {3, 5}, {17, 16}, {40, 129}}},
	{"relu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_RELU}, {3, 7, ACTIVATION_RELU}, {50, 33, ACTIVATION_RELU}}},
	{"silu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_SILU}, {3, 7, ACTIVATION_SILU}, {50, 33, ACTIVATION_SILU}}},
	{"gelu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_GELU}, {3, 7, ACTIVATION_GELU}, {50, 33, ACTIVATION_GELU}}},
	{"sigmoid", build_activation, 2e-6,
		{{1, 1, ACTIVATION_SIGMOID}, {3, 7, ACTIVATION_SIGMOID}, {50, 33, ACTIVATION_SIGMOID}}},
	{"add", build_add, 2e-6, {{1, 1, 1, 1, 0}, {2, 3, 5, 7, 0}, {1, 3, 3, 5, 1}, {2, 12, 16, 17, 0}}},
	{"add-channels", build_add_channels, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 12, 16, 33}}},
	{"concat", build_concat, 2e-6,
		{{1, 1, 1, 1, 1, 0}, {2, 3, 5, 7, 4, 0}, {1, 4, 3, 2, 9, 1}, {1, 2, 3, 5, 5, 2},
			{2, 12, 16, 17, 32, 0}}},
	{"upsample", build_upsample, 2e-6,
		{{1, 1, 1, 1, 1, 1}, {2, 3, 5, 4, 6, 10}, {1, 2, 4, 3, 3, 7}, {1, 3, 4, 2, 8, 9},
			{2, 6, 8, 33, 12, 15}}},
	{"timestep-embedding", build_timestep_embedding, 2e-6, {{1, 2}, {5, 32}, {3, 320}}},
	{"masked-mse", build_masked_mse, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 4}, {3, 25, 33, 4}}},
	{"reshape", build_reshape, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 4}}},
};

const struct table network_rows = {rows, sizeof(rows) / sizeof(*rows)};
