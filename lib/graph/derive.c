/*
 * Differentiation: the forward nodes in reverse, one rule each.
 *
 * The gradient of a tensor is kept by memory root, so a reshape costs nothing. The first contribution to a
 * gradient is written, later ones are added by their writers (`accumulate`), so there are no additions of
 * gradients as nodes. An operand of an addition that is used nowhere else shares the gradient of the sum.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/derive.h"

/* ---- where gradients go ---- */

bool derive_wanted(const struct derivation *d, int tensor)
{
	return tensor >= 0 && d->needs[graph_root(d->graph, tensor)];
}

int derive_gradient(struct derivation *d, int tensor)
{
	int root = graph_root(d->graph, tensor);

	return d->gradient[root] < 0 ? -1 : graph_add_alias(d->graph, d->gradient[root], tensor);
}

/* The tensor for a contribution to the gradient of `tensor`, in its shape, and whether it must be added. A
 * gradient that nobody wants goes to scratch. */
static int contribution(struct derivation *d, int tensor, bool *add)
{
	struct graph *graph = d->graph;
	int root = graph_root(graph, tensor);

	*add = false;
	if (!d->needs[root])
		return graph_add_like(graph, TENSOR_GRADIENT, tensor);
	if (d->gradient[root] >= 0) {
		*add = true;
		return derive_gradient(d, tensor);
	}
	if (graph->tensors[root].kind == TENSOR_PARAMETER) {
		d->gradient[root] = graph_add_like(graph, TENSOR_PARAMETER_GRADIENT, root);
		if (d->gradient[root] >= 0)
			graph->tensors[d->gradient[root]].parameter = graph->tensors[root].parameter;
	} else {
		d->gradient[root] = graph_add_like(graph, TENSOR_GRADIENT, root);
	}
	return d->gradient[root] < 0 ? -1 : derive_gradient(d, tensor);
}

struct node *derive_node(struct derivation *d, enum operation operation, size_t forward)
{
	struct node *node = graph_add_node(d->graph, operation, NULL), empty;
	const struct node *from = &d->graph->nodes[forward];

	if (!node)
		return NULL;
	empty = *node;
	*node = *from;
	node->operation = operation;
	memcpy(node->in, empty.in, sizeof(node->in));
	memcpy(node->out, empty.out, sizeof(node->out));
	node->name = memory_text(from->name);
	free(empty.name);
	if (!node->name) {
		graph_fail(d->graph, "no memory for the backward pass");
		return NULL;
	}
	return node;
}

void derive_output(struct derivation *d, struct node *node, int k, int tensor)
{
	bool add;

	node->out[k] = contribution(d, tensor, &add);
	if (add)
		node->accumulate |= 1u << k;
}

static bool is_earlier(const struct derivation *d, const int *to, int k)
{
	for (int j = 0; j < k; j++) {
		if (to[j] >= 0 && graph_root(d->graph, to[j]) == graph_root(d->graph, to[k]))
			return true;
	}
	return false;
}

/* One body cannot add to what it writes: a tensor's second part is scratch, added by a node behind. */
void derive_outputs(struct derivation *d, size_t i, const int *to, int count)
{
	struct node *node = d->graph->status ? NULL : &d->graph->nodes[d->graph->node_count - 1];
	int part[NODE_OUTPUTS];

	for (int k = 0; k < count && node; k++) {
		part[k] = -1;
		if (!derive_wanted(d, to[k]))
			continue;
		if (is_earlier(d, to, k))
			node->out[k] = part[k] = graph_add_like(d->graph, TENSOR_GRADIENT, to[k]);
		else
			derive_output(d, node, k, to[k]);
	}
	for (int k = 0; k < count && node; k++) {
		if (part[k] < 0)
			continue;
		node = derive_node(d, OP_COPY, i);
		if (!node)
			return;
		node->in[0] = part[k];
		derive_output(d, node, 0, to[k]);
	}
}

void derive_from_gradient(struct derivation *d, size_t i, int dy, enum operation operation, int second)
{
	int x = d->graph->nodes[i].in[0];
	struct node *node = derive_node(d, operation, i);

	if (!node)
		return;
	node->in[0] = dy;
	node->in[1] = second;
	derive_output(d, node, 0, x);
}

void derive_from_input(struct derivation *d, size_t i, int dy, enum operation operation)
{
	int x = d->graph->nodes[i].in[0];
	struct node *node = derive_node(d, operation, i);

	if (!node)
		return;
	node->in[0] = x;
	node->in[1] = dy;
	derive_output(d, node, 0, x);
}

void derive_pass_on(struct derivation *d, size_t i, int dy, int tensor)
{
	int root = graph_root(d->graph, tensor);
	struct node *node;

	if (!d->needs[root])
		return;
	if (d->uses[root] == 1 && d->graph->tensors[root].kind == TENSOR_ACTIVATION) {
		d->gradient[root] = graph_add_alias(d->graph, dy, root);
		return;
	}
	node = derive_node(d, OP_COPY, i);
	if (!node)
		return;
	node->in[0] = dy;
	derive_output(d, node, 0, tensor);
}

void derive_refuse(struct derivation *d, size_t i, int k, const char *what)
{
	const struct node *node = &d->graph->nodes[i];

	if (derive_wanted(d, node->in[k]))
		graph_fail(d->graph, "%s: %s would need a gradient", node->name, what);
}

/* ---- the pass ---- */

static derive_rule *const rules[OP_COUNT] = {
	[OP_CONVOLUTION] = derive_convolution,
	[OP_LINEAR] = derive_linear,
	[OP_GROUP_NORM] = derive_group_norm,
	[OP_LAYER_NORM] = derive_layer_norm,
	[OP_ATTENTION] = derive_attention,
	[OP_GEGLU] = derive_geglu,
	[OP_ACTIVATION] = derive_activation,
	[OP_ADD] = derive_add,
	[OP_ADD_CHANNELS] = derive_add_channels,
	[OP_CONCAT] = derive_concat,
	[OP_UPSAMPLE] = derive_upsample,
	[OP_MASKED_MSE] = derive_difference,
	[OP_L1] = derive_difference,
	[OP_BATCH_NORM] = derive_batch_norm,
	[OP_MAX_POOL] = derive_max_pool,
	[OP_AVERAGE_POOL] = derive_average_pool,
	[OP_GLOBAL_POOL] = derive_global_pool,
	[OP_SUBSAMPLE] = derive_subsample,
	[OP_SLICE] = derive_slice,
	[OP_DROPOUT] = derive_dropout,
	[OP_SCALE] = derive_scale,
	[OP_CROSS_ENTROPY] = derive_cross_entropy,
	[OP_WEIGHT_NORM] = derive_weight_norm,
	[OP_GATHER] = derive_gather,
	[OP_REPEAT] = derive_repeat,
	[OP_NORMALISE] = derive_normalise,
	[OP_REDUCE] = derive_reduce,
	[OP_FOURIER] = derive_fourier,
	[OP_SPHERICAL_HARMONICS] = derive_spherical_harmonics,
	[OP_HASH_GRID] = derive_hash_grid,
	[OP_STENCIL] = derive_stencil,
	[OP_RENDER] = derive_render,
	[OP_EIKONAL] = derive_eikonal,
	[OP_CURVATURE] = derive_curvature,
};

static bool input_needs(const struct derivation *d, const struct node *node)
{
	for (int k = 0; k < NODE_INPUTS && !node->detached; k++) {
		if (derive_wanted(d, node->in[k]))
			return true;
	}
	return false;
}

static bool is_trained(const struct graph *graph, const struct tensor *tensor)
{
	const struct parameter *parameter = store_parameter(graph->program->store, (size_t)tensor->parameter);

	return !parameter->frozen && !parameter->statistic;
}

/* What needs a gradient: trained parameters, wanted tensors and what depends on them. */
static void find_needs(struct derivation *d)
{
	struct graph *graph = d->graph;

	for (size_t i = 0; i < d->tensors; i++) {
		const struct tensor *tensor = &graph->tensors[i];
		int root = graph_root(graph, (int)i);

		if (tensor->wanted)
			d->needs[root] = true;
		if (tensor->kind == TENSOR_PARAMETER && is_trained(graph, tensor))
			d->needs[root] = true;
	}
	for (size_t i = 0; i < graph->forward_count; i++) {
		if (!input_needs(d, &graph->nodes[i]))
			continue;
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (graph->nodes[i].out[k] >= 0)
				d->needs[graph_root(graph, graph->nodes[i].out[k])] = true;
		}
	}
}

/* Whether the loss depends on an output from number `first` on. */
static bool reached(const struct derivation *d, const struct node *node, int first)
{
	for (int k = first; k < NODE_OUTPUTS; k++) {
		if (node->out[k] >= 0 && d->reached[graph_root(d->graph, node->out[k])])
			return true;
	}
	return false;
}

/* What the loss depends on, and how many contributions each gradient gets. */
static void count_uses(struct derivation *d, int loss)
{
	struct graph *graph = d->graph;

	d->reached[graph_root(graph, loss)] = true;
	for (size_t i = graph->forward_count; i-- > 0;) {
		const struct node *node = &graph->nodes[i];

		if (node->detached || !reached(d, node, 0))
			continue;
		for (int k = 0; k < NODE_INPUTS; k++) {
			if (!derive_wanted(d, node->in[k]))
				continue;
			d->reached[graph_root(graph, node->in[k])] = true;
			d->uses[graph_root(graph, node->in[k])]++;
		}
	}
}

/* Losses start by themselves; another scalar's gradient is written first. */
static void start(struct derivation *d, int loss)
{
	struct graph *graph = d->graph;
	int root = graph_root(graph, loss);
	struct node *node;

	for (size_t i = 0; i < graph->forward_count; i++) {
		if (graph->nodes[i].out[0] >= 0 && graph_root(graph, graph->nodes[i].out[0]) == root &&
			operation_is_loss(graph->nodes[i].operation))
			return;
	}
	node = graph_add_node(graph, OP_FILL, "loss");
	if (!node)
		return;
	node->value = 1;
	d->gradient[root] = graph_add_like(graph, TENSOR_GRADIENT, root);
	node->out[0] = d->gradient[root];
}

static void derive_nodes(struct derivation *d)
{
	struct graph *graph = d->graph;

	for (size_t i = graph->forward_count; i-- > 0 && !graph->status;) {
		const struct node *node = &graph->nodes[i];

		if (!reached(d, node, 0) || !input_needs(d, node))
			continue;
		if (!rules[node->operation] || reached(d, node, operation_results(node->operation))) {
			graph_fail(graph, "%s: %s is not differentiable", node->name,
				operation_name(node->operation));
			return;
		}
		rules[node->operation](d, i, derive_gradient(d, node->out[0]));
	}
}

/* Tensors whose gradient was asked for keep it. */
static void publish(struct derivation *d)
{
	struct graph *graph = d->graph;

	for (size_t i = 0; i < d->tensors && !graph->status; i++) {
		int gradient;

		if (!graph->tensors[i].wanted)
			continue;
		gradient = derive_gradient(d, (int)i);
		graph->tensors[i].gradient = gradient;
		if (gradient >= 0)
			graph->tensors[gradient].output = true;
	}
}

static void derivation_release(struct derivation *d)
{
	free(d->needs);
	free(d->reached);
	free(d->uses);
	free(d->gradient);
}

static int derivation_init(struct derivation *d, struct graph *graph)
{
	d->graph = graph;
	d->tensors = graph->tensor_count;
	d->needs = memory_new(d->tensors, sizeof(*d->needs));
	d->reached = memory_new(d->tensors, sizeof(*d->reached));
	d->uses = memory_new(d->tensors, sizeof(*d->uses));
	d->gradient = memory_new(d->tensors, sizeof(*d->gradient));
	if (!d->needs || !d->reached || !d->uses || !d->gradient)
		return error_status();
	for (size_t i = 0; i < d->tensors; i++)
		d->gradient[i] = -1;
	return STATUS_OK;
}

int graph_backward(struct graph *graph, int loss)
{
	struct derivation derivation = {0};
	int status = STATUS_FAILURE;

	if (!graph_usable(graph, &loss, 1))
		return graph->status;
	if (!graph->training || graph->loss >= 0 || graph_elements(graph, loss) != 1) {
		graph_fail(graph,
			"a backward pass needs a training graph, one scalar loss and no backward pass yet");
		return graph->status;
	}
	if (derivation_init(&derivation, graph)) {
		graph_fail(graph, "no memory for the backward pass");
		goto out;
	}
	graph->loss = loss;
	graph->tensors[loss].output = true;
	find_needs(&derivation);
	count_uses(&derivation, loss);
	if (!derivation.needs[graph_root(graph, loss)])
		graph_fail(graph, "the loss depends on no parameter that is trained");
	start(&derivation, loss);
	derive_nodes(&derivation);
	publish(&derivation);
	status = graph->status;
out:
	derivation_release(&derivation);
	return status;
}

void graph_detach(struct graph *graph, int x)
{
	if (!graph_usable(graph, &x, 1))
		return;
	for (size_t i = 0; i < graph->node_count; i++) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (graph->nodes[i].out[k] >= 0 &&
				graph_root(graph, graph->nodes[i].out[k]) == graph_root(graph, x))
				graph->nodes[i].detached = true;
		}
	}
}

void graph_want_gradient(struct graph *graph, int tensor)
{
	if (graph_usable(graph, &tensor, 1))
		graph->tensors[tensor].wanted = true;
}

int graph_gradient(struct graph *graph, int tensor)
{
	return tensor < 0 ? -1 : graph->tensors[tensor].gradient;
}
