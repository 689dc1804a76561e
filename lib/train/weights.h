/* Weights between a program's store and checkpoint files: names and shapes of the original projects. */
#ifndef NIGHTSHIFT_TRAIN_WEIGHTS_H
#define NIGHTSHIFT_TRAIN_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include "graph/graph.h"
#include "run/checkpoint.h"

/* The store's tensors for saving: model (values) and optimizer (NAME.exp_avg, NAME.exp_avg_sq, or NAME.momentum_buffer).
 * Buffers are allocated once by weights_init() and refilled by weights_fill(). */
struct weights {
	struct safetensor *model, *optimizer;
	size_t model_count, optimizer_count;
	float **memory; /* owned, one a tensor */
};
int weights_init(struct weights *weights, const struct store *store);
int weights_fill(struct weights *weights, const struct store *store);
void weights_release(struct weights *weights);

/* Loads every parameter from a checkpoint; names matching `ignore` (a shell pattern, or "") may be missing or of another shape.
 * STATUS_DATA names the first that is missing, has another shape, or is left over. */
int weights_load(struct store *store, const struct checkpoint *checkpoint, const char *ignore);
/* Loads the optimizer's moments of a step-* checkpoint. */
int weights_load_optimizer(struct store *store, const struct checkpoint *checkpoint);

#endif
