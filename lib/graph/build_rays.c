/* Operations without gradient as builder functions: noise, sampling along rays, resizing. */
#include "graph/build.h"

int graph_stencil_points(struct graph *graph, int x, int taps)
{
	char text[128];

	if (!graph_floats(graph, "stencil-points", &x, 1))
		return -1;
	if (graph_dims(graph, x) != 3 || graph_dim(graph, x, 2) != 3 || (taps != 4 && taps != 6))
		return graph_fail(
			graph, "stencil-points: %d taps around %s", taps, graph_shape_text(graph, x, text));
	return graph_add_call(graph, OP_STENCIL_POINTS, "stencil-points", &x, 1, 4,
		(int64_t[]){taps, graph_dim(graph, x, 0), graph_dim(graph, x, 1), 3});
}

static int add_noise(struct graph *graph, const char *name, bool normal, int dims, const int64_t *dim)
{
	int y = graph->status ? -1 : graph_add_operation(graph, OP_NOISE, name, dims, dim);

	if (y >= 0)
		graph_last_node(graph)->normal = normal;
	return y;
}

int graph_noise_uniform(struct graph *graph, const char *name, int dims, const int64_t *dim)
{
	return add_noise(graph, name, false, dims, dim);
}

int graph_noise_normal(struct graph *graph, const char *name, int dims, const int64_t *dim)
{
	return add_noise(graph, name, true, dims, dim);
}

/* ---- rays ---- */

static bool are_rays(struct graph *graph, const char *what, int rays)
{
	if (!graph_floats(graph, what, &rays, 1))
		return false;
	if (graph_dims(graph, rays) == 2 && graph_dim(graph, rays, 1) == RAY_NUMBERS)
		return true;
	graph_fail(graph, "%s: a ray has %d numbers", what, RAY_NUMBERS);
	return false;
}

static int add_samples(struct graph *graph, int rays, int64_t count, int noise, bool background)
{
	int64_t dim[2] = {graph_dim(graph, rays, 0), count};
	int y;

	if (!are_rays(graph, "ray-samples", rays) ||
		(noise >= 0 && !graph_floats(graph, "ray-samples", &noise, 1)))
		return -1;
	if (noise >= 0 && (graph_dims(graph, noise) != 2 || graph_dim(graph, noise, 0) != dim[0] ||
				  graph_dim(graph, noise, 1) != count))
		return graph_fail_shapes(graph, "ray-samples", rays, noise);
	y = graph_add_call(graph, OP_RAY_SAMPLES, "ray-samples", (int[]){rays, noise}, 2, 2, dim);
	if (y >= 0)
		graph_last_node(graph)->background = background;
	return y;
}

int graph_ray_samples(struct graph *graph, int rays, int64_t count, int noise)
{
	return add_samples(graph, rays, count, noise, false);
}

int graph_ray_background(struct graph *graph, int rays, int64_t count, int noise)
{
	return add_samples(graph, rays, count, noise, true);
}

int graph_ray_points(struct graph *graph, int rays, int distance)
{
	if (!are_rays(graph, "ray-points", rays) || !graph_floats(graph, "ray-points", &distance, 1))
		return -1;
	if (graph_dims(graph, distance) != 2 || graph_dim(graph, distance, 0) != graph_dim(graph, rays, 0))
		return graph_fail_shapes(graph, "ray-points", rays, distance);
	return graph_add_call(graph, OP_RAY_POINTS, "ray-points", (int[]){rays, distance}, 2, 3,
		(int64_t[]){graph_dim(graph, rays, 0), graph_dim(graph, distance, 1), 3});
}

int graph_inverse_sphere(struct graph *graph, int points)
{
	struct tensor shape;
	char text[128];

	if (!graph_floats(graph, "inverse-sphere", &points, 1))
		return -1;
	shape = graph->tensors[points];
	if (shape.dim[shape.dims - 1] != 3)
		return graph_fail(
			graph, "inverse-sphere: takes points, not %s", graph_shape_text(graph, points, text));
	shape.dim[shape.dims - 1] = 4;
	return graph_add_call(graph, OP_INVERSE_SPHERE, "inverse-sphere", &points, 1, shape.dims, shape.dim);
}

/* ---- up-sampling ---- */

int graph_ray_weights(struct graph *graph, int distance, int sdf, double slope)
{
	int y;

	if (!graph_floats(graph, "ray-weights", (int[]){distance, sdf}, 2))
		return -1;
	if (graph_dims(graph, distance) != 2 || !graph_same_shape(graph, distance, sdf) ||
		graph_dim(graph, distance, 1) < 2)
		return graph_fail_shapes(graph, "ray-weights", distance, sdf);
	y = graph_add_call(graph, OP_RAY_WEIGHTS, "ray-weights", (int[]){distance, sdf}, 2, 2,
		(int64_t[]){graph_dim(graph, distance, 0), graph_dim(graph, distance, 1) - 1});
	if (y >= 0)
		graph_last_node(graph)->slope = slope;
	return y;
}

int graph_inverse_cdf(struct graph *graph, int distance, int weights, int64_t count)
{
	if (!graph_floats(graph, "inverse-cdf", (int[]){distance, weights}, 2))
		return -1;
	if (graph_dims(graph, distance) != 2 || graph_dims(graph, weights) != 2 ||
		graph_dim(graph, distance, 0) != graph_dim(graph, weights, 0) ||
		graph_dim(graph, distance, 1) != graph_dim(graph, weights, 1) + 1)
		return graph_fail_shapes(graph, "inverse-cdf", distance, weights);
	return graph_add_call(graph, OP_INVERSE_CDF, "inverse-cdf", (int[]){distance, weights}, 2, 2,
		(int64_t[]){graph_dim(graph, distance, 0), count});
}

struct merged graph_merge(struct graph *graph, int a, int b, int value_a, int value_b)
{
	struct merged none = {-1, -1}, merged = {-1, -1};
	bool values = value_a >= 0;
	int64_t dim[2];

	if (!graph_floats(graph, "merge", (int[]){a, b, value_a, value_b}, values ? 4 : 2))
		return none;
	if (graph_dims(graph, a) != 2 || graph_dims(graph, b) != 2 ||
		graph_dim(graph, a, 0) != graph_dim(graph, b, 0) ||
		(values && (!graph_same_shape(graph, a, value_a) || !graph_same_shape(graph, b, value_b)))) {
		graph_fail_shapes(graph, "merge", a, b);
		return none;
	}
	dim[0] = graph_dim(graph, a, 0);
	dim[1] = graph_dim(graph, a, 1) + graph_dim(graph, b, 1);
	merged.distance = graph_add_call(graph, OP_MERGE, "merge",
		(int[]){a, b, values ? value_a : -1, values ? value_b : -1}, 4, 2, dim);
	if (merged.distance >= 0 && values)
		merged.value = graph_add_result(graph, 1, TENSOR_F32, 2, dim);
	return merged;
}

/* ---- images ---- */

int graph_resize(struct graph *graph, int x, enum resize kind, int64_t height, int64_t width)
{
	char text[128];
	int y;

	if (!graph_floats(graph, "resize", &x, 1))
		return -1;
	if (graph_dims(graph, x) != 4)
		return graph_fail(graph, "resize: takes [N,H,W,C], not %s", graph_shape_text(graph, x, text));
	y = graph_add_call(graph, OP_RESIZE, "resize", &x, 1, 4,
		(int64_t[]){graph_dim(graph, x, 0), height, width, graph_channels(graph, x)});
	if (y >= 0)
		graph_last_node(graph)->resize = kind;
	return y;
}
