/* Rules of differentiation: encodings and what networks of fields are made of. */
#include "graph/derive.h"

void derive_weight_norm(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_WEIGHT_NORM_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = forward.out[1];
	node->in[3] = dy;
	derive_outputs(d, i, forward.in, 2);
}

void derive_gather(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_GATHER_BACKWARD, d->graph->nodes[i].in[1]);
}

void derive_repeat(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_CHANNEL_SUM, -1);
}

void derive_normalise(struct derivation *d, size_t i, int dy)
{
	derive_from_input(d, i, dy, OP_NORMALISE_BACKWARD);
}

void derive_reduce(struct derivation *d, size_t i, int dy)
{
	derive_from_gradient(d, i, dy, OP_REDUCE_BACKWARD, -1);
}

void derive_fourier(struct derivation *d, size_t i, int dy)
{
	derive_from_input(d, i, dy, OP_FOURIER_BACKWARD);
}

void derive_spherical_harmonics(struct derivation *d, size_t i, int dy)
{
	derive_from_input(d, i, dy, OP_SPHERICAL_HARMONICS_BACKWARD);
}
