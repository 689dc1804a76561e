/* Pooling and the operations that take some of the positions or channels, as builder functions. */
#include "base/error.h"
#include "graph/build.h"

/* ---- windows ---- */

static int64_t pooled(const struct graph *graph, int x, int axis, const struct pool *pool)
{
	int64_t padded = graph_dim(graph, x, axis + 1) + pool->pad_before[axis] + pool->pad_after[axis];

	return padded < pool->kernel[axis] ? 0 : (padded - pool->kernel[axis]) / pool->stride[axis] + 1;
}

/* A window must not lie in the padding alone. */
static int check_pool(struct graph *graph, int x, const char *what, const struct pool *pool)
{
	char text[128];
	int dims = graph_dims(graph, x);

	if (dims != 4 && dims != 5)
		return graph_fail(graph, "%s: takes [N,H,W,C] or [N,D,H,W,C], not %s", what,
			graph_shape_text(graph, x, text));
	for (int axis = 0; axis < dims - 2; axis++) {
		if (pool->kernel[axis] <= 0 || pool->stride[axis] <= 0 || pool->pad_before[axis] < 0 ||
			pool->pad_after[axis] < 0 || pool->pad_before[axis] >= pool->kernel[axis] ||
			pool->pad_after[axis] >= pool->kernel[axis])
			return graph_fail(graph, "%s: impossible kernel, stride or padding", what);
		if (pooled(graph, x, axis, pool) <= 0)
			return graph_fail(graph, "%s: the window is larger than the padded input %s", what,
				graph_shape_text(graph, x, text));
	}
	return STATUS_OK;
}

static int add_pool(struct graph *graph, enum operation operation, const char *name, int x, struct pool pool)
{
	int64_t dim[TENSOR_DIMS];
	int dims, y;

	if (!graph_floats(graph, name, &x, 1))
		return -1;
	for (int axis = 0; axis < 3; axis++)
		pool.stride[axis] = pool.stride[axis] ? pool.stride[axis] : pool.kernel[axis];
	if (check_pool(graph, x, name, &pool))
		return -1;
	dims = graph_dims(graph, x);
	dim[0] = graph_dim(graph, x, 0);
	dim[dims - 1] = graph_channels(graph, x);
	for (int axis = 0; axis < dims - 2; axis++)
		dim[axis + 1] = pooled(graph, x, axis, &pool);
	y = graph_add_call(graph, operation, name, &x, 1, dims, dim);
	if (y >= 0)
		graph_last_node(graph)->pool = pool;
	return y;
}

int graph_max_pool(struct graph *graph, int x, struct pool pool)
{
	int y = add_pool(graph, OP_MAX_POOL, "max-pool", x, pool);
	struct tensor shape;

	if (y < 0)
		return -1;
	shape = graph->tensors[y];
	return graph_add_result(graph, 1, TENSOR_I32, shape.dims, shape.dim) < 0 ? -1 : y;
}

int graph_average_pool(struct graph *graph, int x, struct pool pool)
{
	return add_pool(graph, OP_AVERAGE_POOL, "average-pool", x, pool);
}

int graph_global_pool(struct graph *graph, int x)
{
	char text[128];

	if (!graph_floats(graph, "global-pool", &x, 1))
		return -1;
	if (graph_dims(graph, x) < 3)
		return graph_fail(
			graph, "global-pool: takes [N,...,C], not %s", graph_shape_text(graph, x, text));
	return graph_add_call(graph, OP_GLOBAL_POOL, "global-pool", &x, 1, 2,
		(int64_t[]){graph_dim(graph, x, 0), graph_channels(graph, x)});
}

/* ---- some of the positions, some of the channels ---- */

int graph_subsample(struct graph *graph, int x, const int *stride, int64_t channels)
{
	int64_t dim[TENSOR_DIMS];
	char text[128];
	int dims, y;

	if (!graph_floats(graph, "subsample", &x, 1))
		return -1;
	dims = graph_dims(graph, x);
	if ((dims != 4 && dims != 5) || channels < graph_channels(graph, x))
		return graph_fail(graph,
			"subsample: takes [N,H,W,C] or [N,D,H,W,C], not %s, and at least as many "
			"channels, not %lld",
			graph_shape_text(graph, x, text), (long long)channels);
	dim[0] = graph_dim(graph, x, 0);
	dim[dims - 1] = channels;
	for (int axis = 0; axis < dims - 2; axis++) {
		if (stride[axis] <= 0)
			return graph_fail(graph, "subsample: impossible stride");
		dim[axis + 1] = (graph_dim(graph, x, axis + 1) - 1) / stride[axis] + 1;
	}
	y = graph_add_call(graph, OP_SUBSAMPLE, "subsample", &x, 1, dims, dim);
	for (int axis = 0; axis < dims - 2 && y >= 0; axis++)
		graph_last_node(graph)->pool.stride[axis] = stride[axis];
	return y;
}

int graph_slice(struct graph *graph, int x, int64_t first, int64_t count)
{
	struct tensor shape;
	char text[128];
	int y;

	if (!graph_floats(graph, "slice", &x, 1))
		return -1;
	shape = graph->tensors[x];
	if (first < 0 || count <= 0 || first > shape.dim[shape.dims - 1] - count)
		return graph_fail(graph, "slice: channels %lld to %lld of %s", (long long)first,
			(long long)(first + count - 1), graph_shape_text(graph, x, text));
	shape.dim[shape.dims - 1] = count;
	y = graph_add_call(graph, OP_SLICE, "slice", &x, 1, shape.dims, shape.dim);
	if (y >= 0)
		graph_last_node(graph)->first = first;
	return y;
}
