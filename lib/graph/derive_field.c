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

void derive_hash_grid(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node = derive_node(d, OP_HASH_GRID_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = dy;
	derive_outputs(d, i, forward.in, 2);
}

void derive_stencil(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	int dtrace = derive_gradient(d, forward.out[1]);
	struct node *node = derive_node(d, OP_STENCIL_BACKWARD, i);

	if (!node)
		return;
	node->in[0] = dy;
	node->in[1] = dtrace;
	derive_outputs(d, i, forward.in, 2);
}

#define RENDER_INPUTS 9
#define RENDER_GRADIENTS 6

void derive_render(struct derivation *d, size_t i, int dy)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	for (int k = RENDER_GRADIENTS; k < RENDER_INPUTS; k++)
		derive_refuse(d, i, k, "a distance or a ray");
	node = derive_node(d, OP_RENDER_BACKWARD, i);
	if (!node)
		return;
	for (int k = 0; k < RENDER_INPUTS; k++)
		node->in[k] = forward.in[k];
	node->in[RENDER_INPUTS] = dy;
	derive_outputs(d, i, forward.in, RENDER_GRADIENTS);
}

/* A loss of samples and their rays. */
static void derive_sample_loss(struct derivation *d, size_t i, int dy, enum operation operation)
{
	struct node forward = d->graph->nodes[i];
	struct node *node;

	derive_refuse(d, i, 1, "a ray");
	node = derive_node(d, operation, i);
	if (!node)
		return;
	node->in[0] = forward.in[0];
	node->in[1] = forward.in[1];
	node->in[2] = dy;
	derive_output(d, node, 0, forward.in[0]);
}

void derive_eikonal(struct derivation *d, size_t i, int dy)
{
	derive_sample_loss(d, i, dy, OP_EIKONAL_BACKWARD);
}

void derive_curvature(struct derivation *d, size_t i, int dy)
{
	derive_sample_loss(d, i, dy, OP_CURVATURE_BACKWARD);
}
