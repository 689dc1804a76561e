/* Rows of the operation table: what has no gradient, with a linear layer behind it that has. */
#include "graph/field.h"
#include "support/rows.h"

/* The operation's result is compared as it is; the layer gives the row a loss with a gradient. */
static int behind(struct bench *bench, int y)
{
	return graph_linear(bench->graph, graph_output(bench->graph, y), "linear", 3, true);
}

static int rays(struct bench *bench, const int *s)
{
	return row_input(bench, "rays", 2, (int64_t[]){s[0], RAY_NUMBERS});
}

/* rays, samples, taps */
static int build_stencil_points(struct bench *bench, const int *s)
{
	int x = row_input(bench, "x", 3, (int64_t[]){s[0], s[1], 3});

	return behind(bench, graph_stencil_points(bench->graph, x, s[2]));
}

/* rows, columns */
static int build_uniform(struct bench *bench, const int *s)
{
	return behind(bench, graph_noise_uniform(bench->graph, row_name(bench, "noise", "more noise"), 2,
				     (int64_t[]){s[0], s[1]}));
}

static int build_normal(struct bench *bench, const int *s)
{
	return behind(bench, graph_noise_normal(bench->graph, row_name(bench, "noise", "more noise"), 2,
				     (int64_t[]){s[0], s[1]}));
}

/* rays, samples, noise, background */
static int build_ray_samples(struct bench *bench, const int *s)
{
	int noise = s[2] ? graph_noise_uniform(bench->graph, "jitter", 2, (int64_t[]){s[0], s[1]}) : -1;

	if (s[3])
		return behind(bench, graph_ray_background(bench->graph, rays(bench, s), s[1], noise));
	return behind(bench, graph_ray_samples(bench->graph, rays(bench, s), s[1], noise));
}

/* rays, samples */
static int build_ray_points(struct bench *bench, const int *s)
{
	int distance = graph_ray_samples(bench->graph, rays(bench, s), s[1], -1);

	return behind(bench, graph_ray_points(bench->graph, rays(bench, s), distance));
}

/* rows */
static int build_inverse_sphere(struct bench *bench, const int *s)
{
	return behind(
		bench, graph_inverse_sphere(bench->graph, row_input(bench, "x", 2, (int64_t[]){s[0], 3})));
}

/* rays, samples (2 or more) */
static int build_ray_weights(struct bench *bench, const int *s)
{
	int distance = graph_ray_samples(bench->graph, rays(bench, s), s[1], -1);
	int sdf = row_input(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return behind(bench, graph_ray_weights(bench->graph, distance, sdf, 3));
}

/* rays, samples (2 or more), wanted */
static int build_inverse_cdf(struct bench *bench, const int *s)
{
	int distance = graph_ray_samples(bench->graph, rays(bench, s), s[1], -1);
	int weights = row_input(bench, "share", 2, (int64_t[]){s[0], s[1] - 1});

	return behind(bench, graph_inverse_cdf(bench->graph, distance, weights, s[2]));
}

/* rays, samples, other samples, values */
static int build_merge(struct bench *bench, const int *s)
{
	int a = graph_ray_samples(bench->graph, rays(bench, s), s[1], -1);
	int b = graph_ray_samples(bench->graph, rays(bench, s), s[2],
		graph_noise_uniform(bench->graph, "jitter", 2, (int64_t[]){s[0], s[2]}));
	int of_a = s[3] ? row_input(bench, "x", 2, (int64_t[]){s[0], s[1]}) : -1;
	int of_b = s[3] ? row_input(bench, "y", 2, (int64_t[]){s[0], s[2]}) : -1;
	struct merged merged = graph_merge(bench->graph, a, b, of_a, of_b);

	return behind(bench, s[3] ? graph_add(bench->graph, merged.distance, merged.value) : merged.distance);
}

/* n h w c, height, width, kind */
static int build_resize(struct bench *bench, const int *s)
{
	int x = row_input(bench, "x", 4, (int64_t[]){s[0], s[1], s[2], s[3]});

	return behind(
		bench, graph_resize(bench->graph, x, s[6] ? RESIZE_BICUBIC : RESIZE_BILINEAR, s[4], s[5]));
}

static const struct row rows[] = {
	{"stencil-points", build_stencil_points, 4e-6, {{1, 1, 4}, {3, 5, 6}, {2, 7, 4}, {16, 300, 4}}},
	{"uniform noise", build_uniform, 4e-6, {{1, 1}, {3, 7}, {11, 5}, {60, 257}}},
	{"normal noise", build_normal, 4e-6, {{1, 1}, {3, 7}, {11, 5}, {60, 257}}},
	{"ray-samples", build_ray_samples, 4e-6,
		{{1, 1, 0, 0}, {3, 5, 1, 0}, {2, 7, 0, 1}, {5, 4, 1, 1}, {40, 64, 1, 0}}},
	{"ray-points", build_ray_points, 4e-6, {{1, 1}, {3, 7}, {11, 5}, {40, 128}}},
	{"inverse-sphere", build_inverse_sphere, 4e-6, {{1}, {3}, {7}, {5000}}},
	{"ray-weights", build_ray_weights, 1e-5, {{1, 2}, {3, 7}, {11, 5}, {40, 64}}},
	{"inverse-cdf", build_inverse_cdf, 2e-5, {{1, 2, 1}, {3, 7, 4}, {5, 5, 9}, {40, 64, 16}}},
	{"merge", build_merge, 4e-6, {{1, 1, 1, 0}, {3, 7, 4, 1}, {5, 5, 9, 0}, {40, 64, 16, 1}}},
	{"resize", build_resize, 4e-6,
		{{1, 1, 1, 1, 1, 1, 0}, {2, 3, 5, 2, 7, 4, 0}, {1, 4, 3, 3, 9, 8, 1}, {1, 8, 9, 1, 3, 4, 1},
			{2, 12, 16, 4, 31, 17, 1}}},
};
const struct table ray_rows = {rows, sizeof(rows) / sizeof(*rows)};
