/* Losses and how they are put together, as builder functions. */
#include "graph/build.h"

/* ---- differences ---- */

/* Whether mask has the shape of x without its last dimension. */
static bool is_mask(const struct graph *graph, int mask, int x)
{
	if (graph_dims(graph, mask) != graph_dims(graph, x) - 1)
		return false;
	for (int i = 0; i < graph_dims(graph, mask); i++) {
		if (graph_dim(graph, mask, i) != graph_dim(graph, x, i))
			return false;
	}
	return true;
}

static int add_difference(struct graph *graph, enum operation operation, int prediction, int target, int mask)
{
	const char *name = operation_name(operation);
	int loss;

	if (!graph_floats(graph, name, (int[]){prediction, target, mask}, mask < 0 ? 2 : 3))
		return -1;
	if (!graph_same_shape(graph, prediction, target))
		return graph_fail_shapes(graph, name, prediction, target);
	if (mask >= 0 && !is_mask(graph, mask, prediction))
		return graph_fail_shapes(graph, name, prediction, mask);
	loss = graph_add_call(
		graph, operation, name, (int[]){prediction, target, mask}, 3, 1, (int64_t[]){1});
	if (loss < 0 || graph_add_result(graph, 1, TENSOR_F32, 1, (int64_t[]){1}) < 0)
		return -1;
	return loss;
}

int graph_masked_mse(struct graph *graph, int prediction, int target, int mask)
{
	if (!graph_usable(graph, &mask, 1))
		return -1;
	return add_difference(graph, OP_MASKED_MSE, prediction, target, mask);
}

int graph_mse(struct graph *graph, int prediction, int target)
{
	return add_difference(graph, OP_MASKED_MSE, prediction, target, -1);
}

int graph_l1(struct graph *graph, int prediction, int target)
{
	return add_difference(graph, OP_L1, prediction, target, -1);
}

/* ---- classes ---- */

struct cross_entropy graph_cross_entropy(struct graph *graph, int logits, int target, double smoothing)
{
	struct cross_entropy result = {-1, -1, -1};
	int64_t samples;

	if (!graph_usable(graph, (int[]){logits, target}, 2) ||
		!graph_is_float(graph, "cross-entropy", logits))
		return result;
	if (graph_dims(graph, logits) != 2 || graph_dims(graph, target) != 1 ||
		graph_dim(graph, logits, 0) != graph_dim(graph, target, 0)) {
		graph_fail_shapes(graph, "cross-entropy", logits, target);
		return result;
	}
	if (graph->tensors[target].type != TENSOR_I32 || !(smoothing >= 0 && smoothing <= 1)) {
		graph_fail(graph, "cross-entropy: takes int32 classes and a smoothing between 0 and 1");
		return result;
	}
	samples = graph_dim(graph, logits, 0);
	result.loss = graph_add_call(
		graph, OP_CROSS_ENTROPY, "cross-entropy", (int[]){logits, target}, 2, 1, (int64_t[]){1});
	if (result.loss < 0)
		return result;
	graph_last_node(graph)->smoothing = smoothing;
	graph_add_result(graph, 1, TENSOR_F32, 1, &samples);
	result.losses = graph_add_result(graph, 2, TENSOR_F32, 1, &samples);
	result.rank = graph_add_result(graph, 3, TENSOR_I32, 1, &samples);
	return result;
}

/* ---- weighted sums ---- */

int graph_scale(struct graph *graph, int x, double factor)
{
	int y;

	if (!graph_floats(graph, "scale", &x, 1))
		return -1;
	y = graph_add_call_like(graph, OP_SCALE, "scale", &x, 1, x);
	if (y >= 0)
		graph_last_node(graph)->factor = factor;
	return y;
}

int graph_scale_by(struct graph *graph, int x, int factor)
{
	int y;

	if (!graph_floats(graph, "scale", (int[]){x, factor}, 2))
		return -1;
	if (graph_elements(graph, factor) != 1)
		return graph_fail_shapes(graph, "scale", x, factor);
	y = graph_add_call_like(graph, OP_SCALE, "scale", (int[]){x, factor}, 2, x);
	if (y >= 0)
		graph_last_node(graph)->factor = 1;
	return y;
}
