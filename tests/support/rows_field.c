/* Rows of the operation table: what networks of fields (neural surfaces) are made of. */
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
};
const struct table field_rows = {rows, sizeof(rows) / sizeof(*rows)};
