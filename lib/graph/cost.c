/* What a node costs: floating-point operations (multiply and add count one each) and bytes moved. */
#include "graph/internal.h"

/* Operations an element of the point-wise and normalising bodies, counted on their formulas; exp, erf and
 * sqrt are one. */
static double per_element(enum operation operation)
{
	switch (operation) {
	case OP_ADD:
	case OP_ADD_CHANNELS:
	case OP_CHANNEL_SUM:
	case OP_UPSAMPLE_BACKWARD:
	case OP_GLOBAL_POOL:
	case OP_SCALE:
	case OP_REDUCE:
	case OP_GATHER_BACKWARD:
		return 1;
	case OP_MASKED_MSE:
	case OP_MASKED_MSE_BACKWARD:
	case OP_L1:
	case OP_L1_BACKWARD:
	case OP_CROSS_ENTROPY:
	case OP_CROSS_ENTROPY_BACKWARD:
	case OP_WEIGHT_NORM:
	case OP_NORMALISE:
	case OP_SPHERICAL_HARMONICS:
	case OP_STENCIL:
	case OP_STENCIL_BACKWARD:
	case OP_EIKONAL:
	case OP_EIKONAL_BACKWARD:
	case OP_CURVATURE:
	case OP_CURVATURE_BACKWARD:
	case OP_STENCIL_POINTS:
	case OP_RAY_SAMPLES:
	case OP_RAY_POINTS:
	case OP_INVERSE_SPHERE:
	case OP_INVERSE_CDF:
	case OP_MERGE:
	case OP_ACTIVATION:
		return 4;
	case OP_LAYER_NORM:
	case OP_ACTIVATION_BACKWARD:
	case OP_GEGLU:
	case OP_BATCH_NORM:
	case OP_WEIGHT_NORM_BACKWARD:
	case OP_NORMALISE_BACKWARD:
	case OP_FOURIER:
	case OP_FOURIER_BACKWARD:
	case OP_SPHERICAL_HARMONICS_BACKWARD:
		return 8;
	case OP_GROUP_NORM:
	case OP_LAYER_NORM_BACKWARD:
	case OP_GEGLU_BACKWARD:
	case OP_BATCH_NORM_BACKWARD:
	case OP_DROPOUT:
	case OP_NOISE:
	case OP_RAY_WEIGHTS:
	case OP_RESIZE:
		return 12;
	case OP_GROUP_NORM_BACKWARD:
		return 20;
	default:
		return 0;
	}
}

static double elements(const struct graph *graph, int tensor)
{
	return tensor < 0 ? 0 : (double)graph->tensors[tensor].elements;
}

static double largest(const struct graph *graph, const struct node *node)
{
	double count = 0;

	for (int k = 0; k < NODE_INPUTS; k++)
		count = elements(graph, node->in[k]) > count ? elements(graph, node->in[k]) : count;
	for (int k = 0; k < NODE_OUTPUTS; k++)
		count = elements(graph, node->out[k]) > count ? elements(graph, node->out[k]) : count;
	return count;
}

/* Each row of y meets the whole weight, in channels of the group. Taps in the padding count. */
static double product_flops(const struct graph *graph, int y, int weight)
{
	const struct tensor *out = &graph->tensors[y];
	double rows = (double)out->elements / (double)out->dim[out->dims - 1];

	return 2 * rows * elements(graph, weight);
}

/* An addition or comparison for each place of the window, in the larger grid's or the smaller one's elements. */
static double pool_flops(const struct graph *graph, const struct node *node, int small)
{
	double places = 1;

	for (int axis = 0; axis < graph->tensors[small].dims - 2; axis++)
		places *= node->pool.kernel[axis];
	return places * elements(graph, small);
}

static double points_of(const struct graph *graph, const struct node *node)
{
	return elements(graph, node->in[0]) / 3;
}

static double node_flops(const struct graph *graph, const struct node *node)
{
	const struct tensor *q = node->in[0] < 0 ? NULL : &graph->tensors[node->in[0]];

	switch (node->operation) {
	case OP_CONVOLUTION:
	case OP_LINEAR:
		return product_flops(graph, node->out[0], node->in[1]);
	case OP_CONVOLUTION_DATA:
	case OP_LINEAR_DATA:
		return product_flops(graph, node->in[0], node->in[1]);
	case OP_CONVOLUTION_WEIGHT:
	case OP_LINEAR_WEIGHT:
		return product_flops(graph, node->in[1], node->out[0]);
	case OP_ATTENTION: /* two products of T x S x D a head */
		return 4 * (double)q->elements * (double)graph->tensors[node->in[1]].dim[1];
	case OP_ATTENTION_BACKWARD: /* five, the scores being computed again */
		return 10 * (double)q->elements * (double)graph->tensors[node->in[1]].dim[1];
	case OP_MAX_POOL:
	case OP_AVERAGE_POOL:
		return pool_flops(graph, node, node->out[0]);
	case OP_HASH_GRID: /* eight corners: a weight of three factors, then a product and a sum a feature */
		return 8 * (3 * (double)node->grid.levels * points_of(graph, node) +
				   2 * elements(graph, node->out[0]));
	case OP_HASH_GRID_BACKWARD:
		return 8 * (3 * (double)node->grid.levels * points_of(graph, node) +
				   2 * elements(graph, node->in[2]));
	case OP_RENDER:
	case OP_RENDER_BACKWARD:
		return 40 * elements(graph, node->in[0]);
	case OP_MAX_POOL_BACKWARD:
	case OP_AVERAGE_POOL_BACKWARD:
		return pool_flops(graph, node, node->in[0]);
	default:
		return per_element(node->operation) * largest(graph, node);
	}
}

/* An update reads the gradient, and reads and writes the value and its state. */
static double update_traffic(const struct graph *graph, const struct node *node)
{
	const struct tensor *gradient = &graph->tensors[node->in[0]];
	const struct parameter *parameter =
		store_parameter(graph->program->store, (size_t)gradient->parameter);
	int state = parameter->statistic ? 0 : program_state_slots(graph->program);

	return (double)gradient->bytes * (1 + 2 * (1 + state));
}

static double node_traffic(const struct graph *graph, const struct node *node)
{
	double bytes = 0;

	if (node->operation == OP_UPDATE)
		return update_traffic(graph, node);
	for (int k = 0; k < NODE_INPUTS; k++)
		bytes += node->in[k] < 0 ? 0 : (double)graph->tensors[node->in[k]].bytes;
	for (int k = 0; k < NODE_OUTPUTS; k++) {
		if (node->out[k] >= 0)
			bytes += (double)graph->tensors[node->out[k]].bytes *
				 (node->accumulate >> k & 1 ? 2 : 1);
	}
	return bytes;
}

void graph_cost(struct graph *graph)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		graph->nodes[n].flops = node_flops(graph, &graph->nodes[n]);
		graph->nodes[n].traffic = node_traffic(graph, &graph->nodes[n]);
	}
}

double graph_flops(const struct graph *graph)
{
	double sum = 0;

	for (size_t n = 0; n < graph->node_count; n++)
		sum += node_flops(graph, &graph->nodes[n]);
	return sum;
}

/* Of the places of a window along one axis, those that lie in the input and not in its padding, over all windows. */
static double places_inside(const struct convolution *c, int axis, int64_t in, int64_t out)
{
	double inside = 0;

	for (int64_t o = 0; o < out; o++) {
		for (int k = 0; k < c->kernel[axis]; k++) {
			int64_t i = o * c->stride[axis] + k - c->pad_before[axis];

			inside += i >= 0 && i < in;
		}
	}
	return inside;
}

/* The part of a convolution's products that meets its input: axes are independent of each other. */
static double part_inside(const struct graph *graph, const struct node *node)
{
	const bool data = node->operation == OP_CONVOLUTION_DATA;
	const struct tensor *x = &graph->tensors[data ? node->out[0] : node->in[0]];
	const struct tensor *y = &graph->tensors[node->operation == OP_CONVOLUTION ? node->out[0]
						 : data                            ? node->in[0]
										   : node->in[1]];
	double part = 1;

	for (int axis = 0; axis < x->dims - 2; axis++)
		part *= places_inside(&node->convolution, axis, x->dim[axis + 1], y->dim[axis + 1]) /
			((double)y->dim[axis + 1] * node->convolution.kernel[axis]);
	return part;
}

double graph_padding_flops(const struct graph *graph)
{
	double sum = 0;

	for (size_t n = 0; n < graph->node_count; n++) {
		const struct node *node = &graph->nodes[n];

		if (node->operation == OP_CONVOLUTION || node->operation == OP_CONVOLUTION_DATA ||
			node->operation == OP_CONVOLUTION_WEIGHT)
			sum += node_flops(graph, node) * (1 - part_inside(graph, node));
	}
	return sum;
}

double graph_traffic(const struct graph *graph)
{
	double sum = 0;

	for (size_t n = 0; n < graph->node_count; n++)
		sum += node_traffic(graph, &graph->nodes[n]);
	return sum;
}
