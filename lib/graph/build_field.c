/* Neural surfaces as builder functions: the grid, differences of a signed distance, rendering and its losses. */
#include "graph/build.h"

int graph_hash_grid(struct graph *graph, int x, const char *name, const struct hash_grid *grid)
{
	struct hash_level levels[HASH_LEVELS];
	struct tensor shape;
	int64_t count;
	int table, y;

	if (!graph_floats(graph, name, &x, 1))
		return -1;
	shape = graph->tensors[x];
	if (!hash_grid_valid(grid) || shape.dim[shape.dims - 1] != 3)
		return graph_fail(graph, "%s: takes three coordinates and a grid of possible sizes", name);
	count = (int64_t)hash_grid_levels(grid, levels) * grid->features;
	table = graph_add_parameter(graph, name, ".params", 1, &count, LAYOUT_PLAIN, INITIAL_HASH_GRID, 0);
	if (table < 0)
		return -1;
	store_set_row(graph->program->store, graph->tensors[table].parameter, (size_t)grid->features);
	shape.dim[shape.dims - 1] = grid->levels * grid->features;
	y = graph_add_call(graph, OP_HASH_GRID, name, (int[]){x, table}, 2, shape.dims, shape.dim);
	if (y >= 0)
		graph_last_node(graph)->grid = *grid;
	return y;
}

/* ---- shapes over rays ---- */

/* Whether a tensor is [rows, samples] or, with channels, [rows, samples, channels]. */
static bool is_samples(const struct graph *graph, int tensor, int64_t rows, int64_t samples, int64_t channels)
{
	return graph_dims(graph, tensor) == (channels ? 3 : 2) && graph_dim(graph, tensor, 0) == rows &&
	       graph_dim(graph, tensor, 1) == samples && graph_dim(graph, tensor, 2) == channels;
}

static bool is_rays(const struct graph *graph, int tensor, int64_t rows)
{
	return graph_dims(graph, tensor) == 2 && graph_dim(graph, tensor, 0) == rows &&
	       graph_dim(graph, tensor, 1) == RAY_NUMBERS;
}

struct stencil graph_stencil(struct graph *graph, int f, int taps)
{
	struct stencil none = {-1, -1}, stencil;
	int64_t rows, samples;

	if (!graph_floats(graph, "stencil", (int[]){f, taps}, 2))
		return none;
	rows = graph_dim(graph, f, 0);
	samples = graph_dim(graph, f, 1);
	if (graph_dims(graph, f) != 2 || graph_dims(graph, taps) != 3 ||
		(graph_dim(graph, taps, 0) != 4 && graph_dim(graph, taps, 0) != 6) ||
		graph_dim(graph, taps, 1) != rows || graph_dim(graph, taps, 2) != samples) {
		graph_fail_shapes(graph, "stencil", f, taps);
		return none;
	}
	stencil.gradient = graph_add_call(
		graph, OP_STENCIL, "stencil", (int[]){f, taps}, 2, 3, (int64_t[]){rows, samples, 3});
	if (stencil.gradient >= 0)
		graph_last_node(graph)->taps = (int)graph_dim(graph, taps, 0);
	stencil.trace = stencil.gradient < 0
				? -1
				: graph_add_result(graph, 1, TENSOR_F32, 2, (int64_t[]){rows, samples});
	return stencil.trace < 0 ? none : stencil;
}

/* ---- rendering ---- */

static bool render_fits(struct graph *graph, const struct render *r)
{
	int64_t rows = graph_dim(graph, r->distance, 0), samples = graph_dim(graph, r->distance, 1), behind;

	if (!is_samples(graph, r->distance, rows, samples, 0) ||
		!is_samples(graph, r->sdf, rows, samples, 0) ||
		!is_samples(graph, r->gradient, rows, samples, 3) ||
		!is_samples(graph, r->colour, rows, samples, 3) || !is_rays(graph, r->rays, rows) ||
		graph_elements(graph, r->slope) != 1)
		return false;
	behind = graph_dim(graph, r->background_distance, 1);
	return r->background_distance < 0 ||
	       (is_samples(graph, r->background_distance, rows, behind, 0) &&
		       is_samples(graph, r->density, rows, behind, 0) &&
		       is_samples(graph, r->background_colour, rows, behind, 3));
}

struct rendered graph_render(struct graph *graph, struct render r)
{
	int in[9] = {r.sdf, r.gradient, r.colour, r.slope, r.density, r.background_colour, r.distance, r.rays,
		r.background_distance};
	struct rendered none = {-1, -1}, rendered;
	int64_t rows, samples;

	if (r.background_distance < 0)
		in[4] = in[5] = in[8] = -1;
	for (int k = 0; k < 9; k++) {
		if ((in[k] >= 0 || r.background_distance >= 0 || (k != 4 && k != 5 && k != 8)) &&
			!graph_floats(graph, "render", &in[k], 1))
			return none;
	}
	if (!render_fits(graph, &r)) {
		graph_fail(graph, "render: the tensors are not of the same rays and samples");
		return none;
	}
	rows = graph_dim(graph, r.distance, 0);
	samples = graph_dim(graph, r.distance, 1) + graph_dim(graph, in[8], 1);
	rendered.colour = graph_add_call(graph, OP_RENDER, "render", in, 9, 2, (int64_t[]){rows, 3});
	if (rendered.colour < 0)
		return none;
	graph_last_node(graph)->white = r.white;
	rendered.weights = graph_add_result(graph, 1, TENSOR_F32, 2, (int64_t[]){rows, samples});
	return rendered;
}

/* ---- losses ---- */

static int add_sample_loss(
	struct graph *graph, enum operation operation, int samples, int rays, int64_t channels)
{
	const char *name = operation_name(operation);

	if (!graph_floats(graph, name, (int[]){samples, rays}, 2))
		return -1;
	if (!is_samples(
		    graph, samples, graph_dim(graph, samples, 0), graph_dim(graph, samples, 1), channels) ||
		!is_rays(graph, rays, graph_dim(graph, samples, 0)))
		return graph_fail_shapes(graph, name, samples, rays);
	return graph_add_call(graph, operation, name, (int[]){samples, rays}, 2, 1, (int64_t[]){1});
}

int graph_eikonal(struct graph *graph, int gradient, int rays)
{
	return add_sample_loss(graph, OP_EIKONAL, gradient, rays, 3);
}

int graph_curvature(struct graph *graph, int trace, int rays)
{
	return add_sample_loss(graph, OP_CURVATURE, trace, rays, 0);
}
