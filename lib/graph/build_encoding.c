/* Encodings, rows of tables, weight norm and reductions, as builder functions. */
#include <math.h>
#include <string.h>
#include "graph/build.h"

/* ---- weight norm ---- */

/* The normed weight of that name in this graph; -1: not yet. */
static int find_normed(const struct graph *graph, int direction)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		if (graph->nodes[n].operation == OP_WEIGHT_NORM && graph->nodes[n].in[0] == direction)
			return graph->nodes[n].out[0];
	}
	return -1;
}

/* [in,out] in memory. */
static int add_normed(struct graph *graph, const char *name, int64_t in, int64_t out)
{
	int direction = graph_add_parameter(graph, name, ".weight_v", 2, (int64_t[]){out, in}, LAYOUT_LINEAR,
		INITIAL_UNIFORM, 1 / sqrt((double)in));
	int length = graph_add_parameter(
		graph, name, ".weight_g", 2, (int64_t[]){out, 1}, LAYOUT_PLAIN, INITIAL_ONE, 0);
	int found, w;

	if (length < 0)
		return -1;
	found = find_normed(graph, direction);
	if (found >= 0)
		return found;
	w = graph_add_call_like(graph, OP_WEIGHT_NORM, name, (int[]){direction, length}, 2, direction);
	return w < 0 || graph_add_result(graph, 1, TENSOR_F32, 1, &out) < 0 ? -1 : w;
}

int graph_linear_normed(struct graph *graph, int x, const char *name, int out, bool with_bias)
{
	int weight, bias = -1, y;
	struct tensor shape;
	int64_t in;

	if (!graph_floats(graph, name, &x, 1))
		return -1;
	if (out <= 0)
		return graph_fail(graph, "%s: %d outputs", name, out);
	in = graph_channels(graph, x);
	if (with_bias)
		bias = graph_add_parameter(graph, name, ".bias", 1, (int64_t[]){out}, LAYOUT_PLAIN,
			INITIAL_UNIFORM, 1 / sqrt((double)in));
	weight = add_normed(graph, name, in, out);
	if (weight < 0)
		return -1;
	shape = graph->tensors[x];
	shape.dim[shape.dims - 1] = out;
	y = graph_add_call(graph, OP_LINEAR, name, (int[]){x, weight, bias}, 3, shape.dims, shape.dim);
	return y;
}

/* ---- rows ---- */

int graph_gather(struct graph *graph, int x, int index)
{
	struct tensor shape;

	if (!graph_floats(graph, "gather", &x, 1) || !graph_usable(graph, &index, 1))
		return -1;
	shape = graph->tensors[index];
	if (graph_dims(graph, x) != 2 || shape.type != TENSOR_I32 || shape.dims == TENSOR_DIMS)
		return graph_fail_shapes(graph, "gather", x, index);
	shape.dim[shape.dims++] = graph_channels(graph, x);
	return graph_add_call(graph, OP_GATHER, "gather", (int[]){x, index}, 2, shape.dims, shape.dim);
}

int graph_embedding(struct graph *graph, int index, const char *name, int64_t rows, int width)
{
	int table = graph->status ? -1
				  : graph_add_parameter(graph, name, ".weight", 2, (int64_t[]){rows, width},
					    LAYOUT_PLAIN, INITIAL_NORMAL, 1);

	if (table >= 0)
		store_set_row(graph->program->store, graph->tensors[table].parameter, (size_t)width);
	return graph_gather(graph, table, index);
}

int graph_repeat(struct graph *graph, int x, int64_t count)
{
	char text[128];

	if (!graph_floats(graph, "repeat", &x, 1))
		return -1;
	if (graph_dims(graph, x) != 2 || count <= 0)
		return graph_fail(
			graph, "repeat: %s, %lld times", graph_shape_text(graph, x, text), (long long)count);
	return graph_add_call(graph, OP_REPEAT, "repeat", &x, 1, 3,
		(int64_t[]){graph_dim(graph, x, 0), count, graph_channels(graph, x)});
}

int graph_normalise(struct graph *graph, int x)
{
	if (!graph_floats(graph, "normalise", &x, 1))
		return -1;
	return graph_add_call_like(graph, OP_NORMALISE, "normalise", &x, 1, x);
}

/* ---- reductions ---- */

static int reduce(struct graph *graph, int x, bool mean)
{
	int y;

	if (!graph_floats(graph, "reduce", &x, 1))
		return -1;
	y = graph_add_call(graph, OP_REDUCE, mean ? "mean" : "sum", &x, 1, 1, (int64_t[]){1});
	if (y >= 0)
		graph_last_node(graph)->factor = mean ? 1 / (double)graph_elements(graph, x) : 1;
	return y;
}

int graph_sum(struct graph *graph, int x)
{
	return reduce(graph, x, false);
}

int graph_mean(struct graph *graph, int x)
{
	return reduce(graph, x, true);
}

/* ---- encodings ---- */

int graph_fourier(struct graph *graph, int x, int levels)
{
	struct tensor shape;
	int y;

	if (!graph_floats(graph, "fourier", &x, 1))
		return -1;
	if (levels < 1 || levels > 20)
		return graph_fail(graph, "fourier: %d levels, not 1 to 20", levels);
	shape = graph->tensors[x];
	shape.dim[shape.dims - 1] *= 2 * levels;
	y = graph_add_call(graph, OP_FOURIER, "fourier", &x, 1, shape.dims, shape.dim);
	if (y >= 0)
		graph_last_node(graph)->levels = levels;
	return y;
}

int graph_spherical_harmonics(struct graph *graph, int x, int degree)
{
	struct tensor shape;
	int y;

	if (!graph_floats(graph, "spherical-harmonics", &x, 1))
		return -1;
	shape = graph->tensors[x];
	if (shape.dim[shape.dims - 1] != 3 || degree < 0 || degree > 3)
		return graph_fail(graph, "spherical-harmonics: takes three channels and a degree of 0 to 3");
	shape.dim[shape.dims - 1] = (degree + 1) * (degree + 1);
	y = graph_add_call(
		graph, OP_SPHERICAL_HARMONICS, "spherical-harmonics", &x, 1, shape.dims, shape.dim);
	if (y >= 0)
		graph_last_node(graph)->degree = degree;
	return y;
}
