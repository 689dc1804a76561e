/* Rules of differentiation: batch norm, pooling, parts of tensors, dropout and losses. */
#include "graph/derive.h"

void derive_max_pool(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_MAX_POOL_BACKWARD, d->graph->nodes[i].out[1]);
}

void derive_average_pool(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_AVERAGE_POOL_BACKWARD, -1);
}

void derive_global_pool(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_GLOBAL_POOL_BACKWARD, -1);
}

void derive_subsample(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_SUBSAMPLE_BACKWARD, -1);
}

void derive_slice(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_SLICE_BACKWARD, -1);
}

void derive_dropout(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_DROPOUT, -1);
}

void derive_scale(struct derivation *d, size_t i, int dy)
{
	int factor = d->graph->nodes[i].in[1];

	if (factor >= 0)
		derive_refuse(d, i, 1, "the factor");
	if (derive_wanted(d, d->graph->nodes[i].in[0]))
		derive_from_gradient(d, i, dy, OP_SCALE, factor);
}

void derive_batch_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_BATCH_NORM_BACKWARD, i);

	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[1];
	node->in[4] = forward.out[2];
	node->in[5] = dy;
	if (forward.in[3] >= 0 && forward.norm.activation == ACTIVATION_RELU)
		node->in[6] = forward.out[0];
	derive_outputs(d, i, forward.in, 4);
}

/* ---- losses ---- */

void derive_difference(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	for (int k = 1; k < 3; k++)
		derive_refuse(d, i, k, "the target or the mask");
	node = derive_node(d, forward.operation == OP_L1 ? OP_L1_BACKWARD : OP_MASKED_MSE_BACKWARD, i);
	if (!node)
		return;
	for (int k = 0; k < 3; k++)
		node->in[k] = forward.in[k];
	node->in[3] = forward.out[1];
	node->in[4] = dy;
	derive_output(d, node, 0, forward.in[0]);
}

void derive_cross_entropy(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_CROSS_ENTROPY_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = forward.out[1];
	node->in[3] = dy;
	derive_output(d, node, 0, forward.in[0]);
}
