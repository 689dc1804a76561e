/*
 * Differentiation: the forward nodes in reverse, one rule each.
 *
 * The gradient of a tensor is kept by memory root, so a reshape costs nothing. The first contribution to a
 * gradient is written, later ones are added by their writers (`accumulate`), so there are no additions of
 * gradients as nodes. An operand of an addition that is used nowhere else shares the gradient of the sum.
 */
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

struct derivation {
	struct graph *graph;
	bool *needs;    /* by root: a gradient is wanted */
	bool *reached;  /* by root: the loss depends on it */
	int *uses;      /* by root: contributions to its gradient */
	int *gradient;  /* by root: tensor that holds it, -1 before the first contribution */
	size_t tensors; /* sizes of the arrays above: tensors of the forward pass */
};

/* ---- where gradients go ---- */

static bool wanted(const struct derivation *d, int tensor)
{
	return tensor >= 0 && d->needs[graph_root(d->graph, tensor)];
}

/* Gradient of a forward tensor in its own shape; -1 when the loss does not depend on it. */
static int gradient_of(struct derivation *d, int tensor)
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
		return gradient_of(d, tensor);
	}
	if (graph->tensors[root].kind == TENSOR_PARAMETER) {
		d->gradient[root] = graph_add_like(graph, TENSOR_PARAMETER_GRADIENT, root);
		if (d->gradient[root] >= 0)
			graph->tensors[d->gradient[root]].parameter = graph->tensors[root].parameter;
	} else {
		d->gradient[root] = graph_add_like(graph, TENSOR_GRADIENT, root);
	}
	return d->gradient[root] < 0 ? -1 : gradient_of(d, tensor);
}

/* A backward node named after the forward one. */
static struct node *add_backward(struct derivation *d, enum operation operation, size_t forward)
{
	struct node *node = graph_add_node(d->graph, operation, d->graph->nodes[forward].name);
	const struct node *from = &d->graph->nodes[forward];

	if (!node)
		return NULL;
	switch (from->operation) {
	case OP_CONVOLUTION:
		node->convolution = from->convolution;
		break;
	case OP_GROUP_NORM:
	case OP_LAYER_NORM:
		node->norm = from->norm;
		break;
	case OP_ATTENTION:
		node->attention = from->attention;
		break;
	case OP_ACTIVATION:
		node->activation = from->activation;
		break;
	default:
		break;
	}
	return node;
}

/* Output k of the node is the gradient of `tensor`. */
static void set_output(struct derivation *d, struct node *node, int k, int tensor)
{
	bool add;

	node->out[k] = contribution(d, tensor, &add);
	if (add)
		node->accumulate |= 1u << k;
}

/* ---- rules: node `i`, gradient `dy` of its first output ---- */

static void derive_product(struct derivation *d, size_t i, int dy, enum operation weight, enum operation data)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	if (wanted(d, forward.in[1]) || wanted(d, forward.in[2])) {
		node = add_backward(d, weight, i);
		if (!node)
			return;
		node->in[0] = forward.in[0];
		node->in[1] = dy;
		set_output(d, node, 0, forward.in[1]);
		if (wanted(d, forward.in[2]))
			set_output(d, node, 1, forward.in[2]);
	}
	if (wanted(d, forward.in[0])) {
		node = add_backward(d, data, i);
		if (!node)
			return;
		node->in[0] = dy;
		node->in[1] = forward.in[1];
		set_output(d, node, 0, forward.in[0]);
	}
}

static void derive_convolution(struct derivation *d, size_t i, int dy)
{
	derive_product(d, i, dy, OP_CONVOLUTION_WEIGHT, OP_CONVOLUTION_DATA);
}

static void derive_linear(struct derivation *d, size_t i, int dy)
{
	derive_product(d, i, dy, OP_LINEAR_WEIGHT, OP_LINEAR_DATA);
}

static void derive_group_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = add_backward(d, OP_GROUP_NORM_BACKWARD, i);

	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[1];
	node->in[4] = forward.out[2];
	node->in[5] = dy;
	for (int k = 0; k < 3; k++)
		set_output(d, node, k, forward.in[k]);
}

static void derive_layer_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = add_backward(d, OP_LAYER_NORM_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = forward.out[1];
	node->in[3] = forward.out[2];
	node->in[4] = dy;
	for (int k = 0; k < 3; k++)
		set_output(d, node, k, forward.in[k]);
}

static bool is_earlier_input(const struct derivation *d, const struct node *node, int k)
{
	for (int j = 0; j < k; j++) {
		if (graph_root(d->graph, node->in[j]) == graph_root(d->graph, node->in[k]))
			return true;
	}
	return false;
}

static void derive_attention(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i], backward;
	struct node *node = add_backward(d, OP_ATTENTION_BACKWARD, i);

	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[0];
	node->in[4] = forward.out[1];
	node->in[5] = dy;
	for (int k = 0; k < 3; k++) {
		if (wanted(d, forward.in[k]) && is_earlier_input(d, &forward, k))
			node->out[k] = graph_add_like(d->graph, TENSOR_GRADIENT, forward.in[k]);
		else
			set_output(d, node, k, forward.in[k]);
	}
	/* a tensor that is two of q, k and v: one body cannot add to what it writes, so the second part is
	 * added after it */
	backward = *node;
	for (int k = 1; k < 3; k++) {
		if (!wanted(d, forward.in[k]) || !is_earlier_input(d, &forward, k))
			continue;
		node = add_backward(d, OP_COPY, i);
		if (!node)
			return;
		node->in[0] = backward.out[k];
		set_output(d, node, 0, forward.in[k]);
	}
}

/* dx from x and dy. */
static void derive_pointwise(struct derivation *d, size_t i, int dy, enum operation operation)
{
	int x = d->graph->nodes[i].in[0];
	struct node *node = add_backward(d, operation, i);

	if (!node)
		return;
	node->in[0] = x;
	node->in[1] = dy;
	set_output(d, node, 0, x);
}

static void derive_geglu(struct derivation *d, size_t i, int dy)
{
	derive_pointwise(d, i, dy, OP_GEGLU_BACKWARD);
}

static void derive_activation(struct derivation *d, size_t i, int dy)
{
	derive_pointwise(d, i, dy, OP_ACTIVATION_BACKWARD);
}

/* The gradient of `tensor` is dy itself: shared where it has no other contribution, else copied or added. */
static void pass_on(struct derivation *d, size_t i, int dy, int tensor)
{
	int root = graph_root(d->graph, tensor);
	struct node *node;

	if (!d->needs[root])
		return;
	if (d->uses[root] == 1 && d->graph->tensors[root].kind == TENSOR_ACTIVATION) {
		d->gradient[root] = graph_add_alias(d->graph, dy, root);
		return;
	}
	node = add_backward(d, OP_COPY, i);
	if (!node)
		return;
	node->in[0] = dy;
	set_output(d, node, 0, tensor);
}

static void derive_add(struct derivation *d, size_t i, int dy)
{
	int a = d->graph->nodes[i].in[0], b = d->graph->nodes[i].in[1];

	pass_on(d, i, dy, a);
	pass_on(d, i, dy, b);
}

static void derive_add_channels(struct derivation *d, size_t i, int dy)
{
	int x = d->graph->nodes[i].in[0], v = d->graph->nodes[i].in[1];
	struct node *node;

	if (wanted(d, v)) {
		node = add_backward(d, OP_CHANNEL_SUM, i);
		if (!node)
			return;
		node->in[0] = dy;
		set_output(d, node, 0, v);
	}
	pass_on(d, i, dy, x);
}

static void derive_concat(struct derivation *d, size_t i, int dy)
{
	int part[2] = {d->graph->nodes[i].in[0], d->graph->nodes[i].in[1]};
	struct node *node;

	/* one tensor in both halves: its gradient has two contributions, which one node cannot write at once
	 */
	for (int first = 0; first < 2; first++) {
		bool together = graph_root(d->graph, part[0]) != graph_root(d->graph, part[1]);

		if (together ? first : !wanted(d, part[first]))
			continue;
		node = add_backward(d, OP_CONCAT_BACKWARD, i);
		if (!node)
			return;
		node->in[0] = dy;
		for (int k = 0; k < 2; k++) {
			if (wanted(d, part[k]) && (together || k == first))
				set_output(d, node, k, part[k]);
		}
	}
}

static void derive_upsample(struct derivation *d, size_t i, int dy)
{
	int x = d->graph->nodes[i].in[0];
	struct node *node = add_backward(d, OP_UPSAMPLE_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = dy;
	set_output(d, node, 0, x);
}

static void derive_masked_mse(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	(void)dy;
	if (wanted(d, forward.in[1]) || wanted(d, forward.in[2])) {
		graph_fail(d->graph, "%s: the target or the mask would need a gradient", forward.name);
		return;
	}
	node = add_backward(d, OP_MASKED_MSE_BACKWARD, i);
	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[1];
	set_output(d, node, 0, forward.in[0]);
}

static void (*const rules[OP_COUNT])(struct derivation *d, size_t i, int dy) = {
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
	[OP_MASKED_MSE] = derive_masked_mse,
};

/* ---- the pass ---- */

static bool input_needs(const struct derivation *d, const struct node *node)
{
	for (int k = 0; k < NODE_INPUTS; k++) {
		if (wanted(d, node->in[k]))
			return true;
	}
	return false;
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
		if (tensor->kind == TENSOR_PARAMETER &&
			!store_parameter(graph->program->store, (size_t)tensor->parameter)->frozen)
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

/* What the loss depends on, and how many contributions each gradient gets. */
static void count_uses(struct derivation *d, int loss)
{
	struct graph *graph = d->graph;

	d->reached[graph_root(graph, loss)] = true;
	for (size_t i = graph->forward_count; i-- > 0;) {
		const struct node *node = &graph->nodes[i];

		if (!d->reached[graph_root(graph, node->out[0])])
			continue;
		for (int k = 0; k < NODE_INPUTS; k++) {
			if (!wanted(d, node->in[k]))
				continue;
			d->reached[graph_root(graph, node->in[k])] = true;
			d->uses[graph_root(graph, node->in[k])]++;
		}
	}
}

static void derive_nodes(struct derivation *d, int loss)
{
	struct graph *graph = d->graph;

	for (size_t i = graph->forward_count; i-- > 0 && !graph->status;) {
		const struct node *node = &graph->nodes[i];
		int root = graph_root(graph, node->out[0]);
		bool is_loss = root == graph_root(graph, loss);

		if (!d->reached[root] || !input_needs(d, node))
			continue;
		if (!rules[node->operation]) {
			graph_fail(graph, "%s: %s is not differentiable", node->name,
				operation_name(node->operation));
			return;
		}
		if (is_loss != (node->operation == OP_MASKED_MSE)) {
			graph_fail(graph, "the gradient starts at a loss, not at %s",
				operation_name(node->operation));
			return;
		}
		rules[node->operation](d, i, is_loss ? -1 : gradient_of(d, node->out[0]));
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
		gradient = gradient_of(d, (int)i);
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
		return status;
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
	derive_nodes(&derivation, loss);
	publish(&derivation);
	status = graph->status;
out:
	derivation_release(&derivation);
	return status;
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
