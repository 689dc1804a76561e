/* Rows of the operation table: batch norm, pooling, parts, dropout and losses, for networks over clips. */
#include "support/rows.h"

/* ---- norm ---- */

static int clip(struct bench *bench, const char *name, const int *s)
{
	return row_variable(bench, name, 5, (int64_t[]){s[0], s[1], s[2], s[3], s[4]});
}

/* n d h w c, ReLU, residual (2: the input itself), frozen */
static int build_batch_norm(struct bench *bench, const int *s)
{
	int x = clip(bench, "x", s), residual = s[6] == 1 ? clip(bench, "residual", s) : s[6] ? x : -1;

	return graph_batch_norm(bench->graph, x, row_name(bench, "norm", "other.norm"),
		(struct batch_norm){.epsilon = 1e-5,
			.momentum = 0.1,
			.activation = s[5] ? ACTIVATION_RELU : ACTIVATION_NONE,
			.frozen = s[7]},
		residual);
}

/* The same of values whose mean is a hundred times their spread. */
static int build_far_batch_norm(struct bench *bench, const int *s)
{
	return graph_batch_norm(bench->graph, clip(bench, "far", s), row_name(bench, "norm", "other.norm"),
		(struct batch_norm){.epsilon = 1e-5, .momentum = 0.1}, -1);
}

/* ---- pooling and parts ---- */

/* kernel, stride, padding before; one less behind the columns */
static struct pool pool_of(const int *s)
{
	int behind = s[2] - (s[2] > 0);

	return (struct pool){.kernel = {s[0], s[0], s[0]},
		.stride = {s[1], s[1], s[1]},
		.pad_before = {s[2], s[2], s[2]},
		.pad_after = {s[2], s[2], behind}};
}

/* n d h w c, kernel, stride, padding; d 0: images */
static int pool_input(struct bench *bench, const char *name, const int *s)
{
	if (s[1])
		return clip(bench, name, s);
	return row_variable(bench, name, 4, (int64_t[]){s[0], s[2], s[3], s[4]});
}

static int build_max_pool(struct bench *bench, const int *s)
{
	return graph_max_pool(bench->graph, pool_input(bench, "distinct", s), pool_of(s + 5));
}

static int build_average_pool(struct bench *bench, const int *s)
{
	return graph_average_pool(bench->graph, pool_input(bench, "x", s), pool_of(s + 5));
}

static int build_global_pool(struct bench *bench, const int *s)
{
	return graph_global_pool(bench->graph, clip(bench, "x", s));
}

/* n d h w c, strides, channels out; d 0: images */
static int build_subsample(struct bench *bench, const int *s)
{
	return graph_subsample(bench->graph, pool_input(bench, "x", s), s + (s[1] ? 5 : 6), s[8]);
}

/* rows, channels, first, count */
static int build_slice(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_slice(bench->graph, x, s[2], s[3]);
}

/* rows, channels, per cent */
static int build_dropout(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_dropout(bench->graph, x, row_name(bench, "drop", "drop again"), s[2] / 100.0);
}

/* rows, channels: by a constant and by a number that is given */
static int build_scale(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});
	int factor = row_input(bench, "factor", 1, (int64_t[]){1});

	return graph_add(
		bench->graph, graph_scale(bench->graph, x, 0.7), graph_scale_by(bench->graph, x, factor));
}

/* ---- losses ---- */

/* n, classes (7 or more), smoothing in per cent; 1: a sample is left out */
static int build_cross_entropy(struct bench *bench, const int *s)
{
	int x = row_variable(bench, "x", 2, (int64_t[]){s[0], s[1]});
	int class = row_integers(bench, "class", 1, (int64_t[]){s[0]});

	return graph_cross_entropy(bench->graph, x, class, s[2] / 100.0).loss;
}

/* rows, channels */
static int build_mse(struct bench *bench, const int *s)
{
	int64_t dim[2] = {s[0], s[1]};

	return graph_mse(bench->graph, row_variable(bench, "x", 2, dim), row_input(bench, "goal", 2, dim));
}

static int build_l1(struct bench *bench, const int *s)
{
	int64_t dim[2] = {s[0], s[1]};

	return graph_l1(
		bench->graph, row_variable(bench, "distinct", 2, dim), row_input(bench, "grid", 2, dim));
}

static const struct row rows[] = {
	{"batch-norm", build_batch_norm, 5e-6,
		{{1, 1, 2, 3, 1, 0, 0, 0}, {2, 2, 3, 2, 3, 1, 0, 0}, {1, 2, 3, 2, 8, 1, 1, 0},
			{2, 2, 3, 3, 6, 0, 1, 0}, {2, 2, 3, 2, 5, 1, 2, 0}, {2, 3, 1, 5, 7, 1, 1, 1},
			{1, 2, 2, 3, 17, 1, 0, 1}, {2, 4, 7, 9, 32, 1, 1, 0}, {3, 5, 6, 8, 48, 0, 0, 0}}},
	{"batch-norm of large means", build_far_batch_norm, 1e-4,
		{{1, 2, 3, 2, 5}, {2, 3, 4, 5, 3}, {2, 4, 7, 9, 32}}},
	{"max-pool", build_max_pool, 4e-6,
		{{1, 1, 1, 1, 1, 1, 1, 0}, {1, 0, 5, 6, 3, 3, 2, 1}, {2, 4, 5, 3, 2, 3, 2, 1},
			{1, 3, 4, 4, 7, 2, 2, 0}, {1, 2, 3, 5, 3, 2, 1, 1}, {2, 5, 9, 8, 33, 3, 2, 1},
			{1, 0, 7, 5, 4, 2, 3, 1}}},
	{"average-pool", build_average_pool, 2e-6,
		{{1, 1, 1, 1, 1, 1, 1, 0}, {1, 0, 5, 6, 3, 2, 2, 0}, {2, 4, 5, 3, 2, 3, 2, 1},
			{1, 3, 4, 4, 7, 2, 2, 0}, {2, 5, 9, 8, 33, 3, 1, 1}}},
	{"global-pool", build_global_pool, 2e-6,
		{{1, 1, 1, 1, 1}, {2, 3, 2, 5, 3}, {3, 1, 4, 4, 17}, {2, 4, 7, 6, 64}}},
	{"subsample", build_subsample, 4e-6,
		{{1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 4, 5, 3, 2, 2, 2, 2, 5}, {1, 0, 5, 4, 3, 1, 2, 3, 3},
			{1, 3, 4, 4, 7, 1, 2, 2, 9}, {2, 4, 9, 8, 33, 2, 2, 2, 66}}},
	{"slice", build_slice, 2e-6, {{1, 1, 0, 1}, {3, 7, 2, 4}, {5, 9, 0, 8}, {80, 257, 1, 256}}},
	{"dropout", build_dropout, 2e-6, {{1, 3, 50}, {3, 7, 20}, {17, 5, 90}, {200, 257, 50}}},
	{"scale", build_scale, 2e-6, {{1, 1}, {3, 7}, {11, 5}, {200, 257}}},
	{"cross-entropy", build_cross_entropy, 5e-6,
		{{1, 7, 0}, {3, 9, 10}, {8, 7, 0}, {5, 33, 100}, {130, 400, 5}}},
	{"mse", build_mse, 5e-6, {{1, 1}, {3, 7}, {11, 5}, {100, 257}}},
	{"l1", build_l1, 5e-6, {{1, 1}, {3, 7}, {11, 5}, {40, 57}}},
};
const struct table vision_rows = {rows, sizeof(rows) / sizeof(*rows)};
