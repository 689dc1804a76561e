/*
 * What the rules of differentiation share. A rule is given node `i` of the forward pass and the gradient `dy` of its first
 * output (-1: a loss where the pass starts, or an output that the loss does not depend on), and appends the nodes that
 * compute the gradients of its inputs.
 */
#ifndef NIGHTSHIFT_GRAPH_DERIVE_H
#define NIGHTSHIFT_GRAPH_DERIVE_H

#include "graph/internal.h"

struct derivation {
	struct graph *graph;
	bool *needs;    /* by root: a gradient is wanted */
	bool *reached;  /* by root: the loss depends on it */
	int *uses;      /* by root: contributions to its gradient */
	int *gradient;  /* by root: tensor that holds it, -1 before the first contribution */
	size_t tensors; /* sizes of the arrays above: tensors of the forward pass */
};

typedef void derive_rule(struct derivation *d, size_t i, int dy);

/* Whether a gradient must reach this tensor; -1 is fine. */
bool derive_wanted(const struct derivation *d, int tensor);
/* Gradient of a forward tensor in its own shape; -1 when the loss does not depend on it. */
int derive_gradient(struct derivation *d, int tensor);
/* A backward node named after the forward one, with its attributes and no tensors; NULL after an error. */
struct node *derive_node(struct derivation *d, enum operation operation, size_t forward);
/* Output k of the node is the gradient of `tensor`, scratch when nobody wants it. */
void derive_output(struct derivation *d, struct node *node, int k, int tensor);
/* Output k of the last node is the gradient of to[k], absent when nobody wants it or to[k] is -1; a tensor may stand there
 * twice. */
void derive_outputs(struct derivation *d, size_t i, const int *to, int count);
/* A node whose first output is the gradient of the forward node's first input, from dy and then from `second` (-1: absent), or
 * from the forward node's input and then from dy. */
void derive_from_gradient(struct derivation *d, size_t i, int dy, enum operation operation, int second);
void derive_from_input(struct derivation *d, size_t i, int dy, enum operation operation);
/* The gradient of `tensor` is dy itself: shared where it has no other contribution, else copied or added. */
void derive_pass_on(struct derivation *d, size_t i, int dy, int tensor);
/* An error when a gradient would have to reach input k of the forward node. */
void derive_refuse(struct derivation *d, size_t i, int k, const char *what);

/* derive_rules.c, derive_vision.c */
derive_rule derive_convolution, derive_linear, derive_group_norm, derive_layer_norm, derive_attention,
	derive_geglu, derive_activation, derive_add, derive_add_channels, derive_concat, derive_upsample;
derive_rule derive_difference, derive_batch_norm, derive_max_pool, derive_average_pool, derive_global_pool,
	derive_subsample, derive_slice, derive_dropout, derive_scale, derive_cross_entropy;
/* derive_field.c */
derive_rule derive_weight_norm, derive_gather, derive_repeat, derive_normalise, derive_reduce, derive_fourier,
	derive_spherical_harmonics, derive_hash_grid, derive_stencil, derive_render, derive_eikonal,
	derive_curvature;

#endif
