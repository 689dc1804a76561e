/* Rules of differentiation: products, normalisation, attention and what moves and adds. */
#include "graph/derive.h"

static void derive_product(struct derivation *d, size_t i, int dy, enum operation weight, enum operation data)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	if (derive_wanted(d, forward.in[1]) || derive_wanted(d, forward.in[2])) {
		node = derive_node(d, weight, i);
		if (!node)
			return;
		node->in[0] = forward.in[0];
		node->in[1] = dy;
		derive_output(d, node, 0, forward.in[1]);
		if (derive_wanted(d, forward.in[2]))
			derive_output(d, node, 1, forward.in[2]);
	}
	if (derive_wanted(d, forward.in[0])) {
		node = derive_node(d, data, i);
		if (!node)
			return;
		node->in[0] = dy;
		node->in[1] = forward.in[1];
		derive_output(d, node, 0, forward.in[0]);
	}
}

void derive_convolution(struct derivation *d, size_t i, int dy)
{
	derive_product(d, i, dy, OP_CONVOLUTION_WEIGHT, OP_CONVOLUTION_DATA);
}

void derive_linear(struct derivation *d, size_t i, int dy)
{
	derive_product(d, i, dy, OP_LINEAR_WEIGHT, OP_LINEAR_DATA);
}

void derive_group_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_GROUP_NORM_BACKWARD, i);

	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[1];
	node->in[4] = forward.out[2];
	node->in[5] = dy;
	for (int k = 0; k < 3; k++)
		derive_output(d, node, k, forward.in[k]);
}

void derive_layer_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_LAYER_NORM_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = forward.out[1];
	node->in[3] = forward.out[2];
	node->in[4] = dy;
	for (int k = 0; k < 3; k++)
		derive_output(d, node, k, forward.in[k]);
}

void derive_attention(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_ATTENTION_BACKWARD, i);

	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[0];
	node->in[4] = forward.out[1];
	node->in[5] = dy;
	for (int k = 0; k < 3; k++) {
		if (!derive_wanted(d, forward.in[k]))
			node->out[k] = graph_add_like(d->graph, TENSOR_GRADIENT, forward.in[k]);
	}
	derive_outputs(d, i, forward.in, 3);
}

void derive_geglu(struct derivation *d, size_t i, int dy)
{
	derive_from_input(d, i, dy, OP_GEGLU_BACKWARD);
}

void derive_activation(struct derivation *d, size_t i, int dy)
{
	derive_from_input(d, i, dy, OP_ACTIVATION_BACKWARD);
}

void derive_add(struct derivation *d, size_t i, int dy)
{
	int a = d->graph->nodes[i].in[0], b = d->graph->nodes[i].in[1];

	derive_pass_on(d, i, dy, a);
	derive_pass_on(d, i, dy, b);
}

void derive_add_channels(struct derivation *d, size_t i, int dy)
{
	int x = d->graph->nodes[i].in[0], v = d->graph->nodes[i].in[1];
	struct node *node;

	if (derive_wanted(d, v)) {
		node = derive_node(d, OP_CHANNEL_SUM, i);
		if (!node)
			return;
		node->in[0] = dy;
		derive_output(d, node, 0, v);
	}
	derive_pass_on(d, i, dy, x);
}

void derive_concat(struct derivation *d, size_t i, int dy)
{
	int part[2] = {d->graph->nodes[i].in[0], d->graph->nodes[i].in[1]};
	struct node *node;

	/* one tensor in both halves: its gradient has two contributions, which one node cannot write at once
	 */
	for (int first = 0; first < 2; first++) {
		bool together = graph_root(d->graph, part[0]) != graph_root(d->graph, part[1]);

		if (together ? first : !derive_wanted(d, part[first]))
			continue;
		node = derive_node(d, OP_CONCAT_BACKWARD, i);
		if (!node)
			return;
		node->in[0] = dy;
		for (int k = 0; k < 2; k++) {
			if (derive_wanted(d, part[k]) && (together || k == first))
				derive_output(d, node, k, part[k]);
		}
	}
}

void derive_upsample(struct derivation *d, size_t i, int dy)
{
	int x = d->graph->nodes[i].in[0];
	struct node *node = derive_node(d, OP_UPSAMPLE_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = dy;
	derive_output(d, node, 0, x);
}
