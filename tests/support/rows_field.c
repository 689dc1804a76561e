/* Rows of the operation table: what networks of fields (neural surfaces) are made of. */
#include "graph/field.h"
#include "support/rows.h"

static int points(struct bench *bench, const char *name, int64_t rows, int64_t channels)
{
	return row_variable(bench, name, 2, (int64_t[]){rows, channels});
}

/* ---- parameters ---- */

/* rows, in, out, bias */
static int build_weight_norm(struct bench *bench, const int *s)
{
	return graph_linear_normed(bench->graph, points(bench, "x", s[0], s[1]), "linear", s[2], s[3]);
}

/* rows of the table (7 or more), width, indices */
static int build_gather(struct bench *bench, const int *s)
{
	int index = row_integers(bench, "class", 1, (int64_t[]){s[2]});

	return graph_gather(bench->graph, points(bench, "x", s[0], s[1]), index);
}

static int build_embedding(struct bench *bench, const int *s)
{
	int index = row_integers(bench, "class", 2, (int64_t[]){s[2], 2});

	return graph_embedding(bench->graph, index, "code", s[0], s[1]);
}

/* ---- rows ---- */

/* rows, channels, times */
static int build_repeat(struct bench *bench, const int *s)
{
	return graph_repeat(bench->graph, points(bench, "x", s[0], s[1]), s[2]);
}

/* rows, channels */
static int build_normalise(struct bench *bench, const int *s)
{
	return graph_normalise(bench->graph, points(bench, "x", s[0], s[1]));
}

/* rows, channels */
static int build_reduce(struct bench *bench, const int *s)
{
	int x = points(bench, "x", s[0], s[1]);

	return graph_add(bench->graph, graph_mean(bench->graph, x),
		graph_scale(bench->graph, graph_sum(bench->graph, x), 0.01));
}

/* rows, channels, ten times beta */
static int build_softplus(struct bench *bench, const int *s)
{
	return graph_softplus(bench->graph, points(bench, "x", s[0], s[1]), 0.1 * s[2]);
}

/* rows, channels, kind */
static int build_activation(struct bench *bench, const int *s)
{
	return graph_activation(bench->graph, points(bench, "x", s[0], s[1]), (enum activation)s[2]);
}

/* ---- encodings ---- */

/* rows, inputs, levels */
static int build_fourier(struct bench *bench, const int *s)
{
	return graph_fourier(bench->graph, points(bench, "x", s[0], s[1]), s[2]);
}

/* rows, degree */
static int build_spherical_harmonics(struct bench *bench, const int *s)
{
	return graph_spherical_harmonics(bench->graph, points(bench, "x", s[0], 3), s[1]);
}

/* ---- surfaces ---- */

/* points, levels, features, log2 of the entries; a cube of 4, 8, 16 corners a side; two levels are active */
static int build_hash_grid(struct bench *bench, const int *s)
{
	struct hash_grid grid = {.levels = s[1],
		.features = s[2],
		.first = 2,
		.last = 1 + s[1],
		.entries = s[3],
		.low = -2,
		.high = 2};

	return graph_hash_grid(bench->graph, points(bench, "points", s[0], 3), "grid", &grid);
}

static int samples(struct bench *bench, const char *name, const int *s)
{
	return row_variable(bench, name, 3, (int64_t[]){s[0], s[1], 3});
}

static int rays(struct bench *bench, const int *s)
{
	return row_input(bench, "rays", 2, (int64_t[]){s[0], RAY_NUMBERS});
}

/* rays, samples, taps; 1: only the gradient is used, 2: only the trace */
static int build_stencil(struct bench *bench, const int *s)
{
	int f = points(bench, "x", s[0], s[1]);
	int taps = row_variable(bench, "taps", 3, (int64_t[]){s[2], s[0], s[1]});
	struct stencil stencil = graph_stencil(bench->graph, f, taps);

	if (s[3] == 1)
		return stencil.gradient;
	if (s[3] == 2)
		return stencil.trace;
	return graph_concat(bench->graph, stencil.gradient,
		graph_reshape(bench->graph, stencil.trace, 3, (int64_t[]){s[0], s[1], 1}));
}

/* rays, samples, samples behind (0: nothing), white */
static int build_render(struct bench *bench, const int *s)
{
	struct graph *graph = bench->graph;
	struct render render = {.distance = graph_ray_samples(graph, rays(bench, s), s[1], -1),
		.sdf = points(bench, "x", s[0], s[1]),
		.gradient = samples(bench, "gradient", s),
		.colour = samples(bench, "colour", s),
		.slope = row_variable(bench, "slope", 1, (int64_t[]){1}),
		.rays = rays(bench, s),
		.background_distance = -1,
		.white = s[3]};

	if (s[2]) {
		render.background_distance = graph_ray_background(graph, render.rays, s[2], -1);
		render.density = points(bench, "density", s[0], s[2]);
		render.background_colour = row_variable(bench, "behind", 3, (int64_t[]){s[0], s[2], 3});
	}
	return graph_render(graph, render).colour;
}

/* rays, samples */
static int build_eikonal(struct bench *bench, const int *s)
{
	return graph_eikonal(bench->graph, samples(bench, "x", s), rays(bench, s));
}

static int build_curvature(struct bench *bench, const int *s)
{
	return graph_curvature(bench->graph, points(bench, "x", s[0], s[1]), rays(bench, s));
}

static const struct row rows[] = {
	{"weight-norm", build_weight_norm, 5e-6,
		{{1, 2, 1, 0}, {3, 5, 7, 1}, {4, 17, 33, 1}, {20, 64, 48, 0}}},
	{"gather", build_gather, 4e-6, {{7, 1, 1}, {9, 3, 5}, {8, 17, 40}, {300, 8, 100}}},
	{"embedding", build_embedding, 6e-6, {{7, 1, 1}, {9, 3, 5}, {8, 17, 40}, {300, 8, 100}}},
	{"repeat", build_repeat, 2e-6, {{1, 1, 1}, {3, 5, 7}, {2, 17, 40}, {16, 16, 128}}},
	{"normalise", build_normalise, 2e-6, {{1, 3}, {3, 2}, {17, 3}, {60, 17}, {3000, 3}}},
	{"reduce", build_reduce, 2e-6, {{1, 1}, {3, 7}, {11, 5}, {100, 257}}},
	{"softplus", build_softplus, 2e-6, {{1, 1, 10}, {3, 7, 5}, {50, 33, 1000}, {11, 5, 30}}},
	{"exp", build_activation, 4e-6,
		{{1, 1, ACTIVATION_EXP}, {3, 7, ACTIVATION_EXP}, {50, 33, ACTIVATION_EXP}}},
	{"absolute", build_activation, 2e-6,
		{{1, 1, ACTIVATION_ABSOLUTE}, {3, 7, ACTIVATION_ABSOLUTE}, {50, 33, ACTIVATION_ABSOLUTE}}},
	{"fourier", build_fourier, 4e-6, {{1, 1, 1}, {3, 4, 2}, {7, 3, 3}, {4000, 4, 5}}},
	{"spherical-harmonics", build_spherical_harmonics, 2e-6, {{1, 0}, {3, 1}, {7, 2}, {17, 3}, {700, 3}}},
	{"hash-grid", build_hash_grid, 2e-5,
		{{1, 1, 1, 6}, {3, 2, 2, 9}, {7, 3, 4, 6}, {20, 2, 8, 7}, {300, 3, 4, 11}, {1100, 3, 2, 12}}},
	{"stencil", build_stencil, 4e-6,
		{{1, 1, 4}, {3, 5, 4}, {2, 7, 6}, {5, 3, 4, 1}, {2, 2, 6, 2}, {16, 300, 4}}},
	/* single precision knows an interval of 1/32 of a distance near 2 to 1e-5, and few samples are seen */
	{"render", build_render, 2e-4,
		{{1, 1, 0, 0}, {3, 5, 0, 1}, {5, 4, 3, 0}, {2, 16, 0, 0}, {4, 2, 1, 1}, {12, 64, 16, 0}}},
	{"eikonal", build_eikonal, 5e-6, {{1, 1}, {3, 7}, {5, 3}, {40, 128}}},
	{"curvature", build_curvature, 5e-6, {{1, 1}, {3, 7}, {5, 3}, {40, 128}}},
};
const struct table field_rows = {rows, sizeof(rows) / sizeof(*rows)};
