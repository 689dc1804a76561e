/* Weights between a program's store and checkpoint files: names and shapes of the original projects. */
#ifndef NIGHTSHIFT_TRAIN_WEIGHTS_H
#define NIGHTSHIFT_TRAIN_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/comm.h"
#include "graph/graph.h"
#include "run/checkpoint.h"

/*
 * The store's tensors for saving. Of the model: the values, or their running averages where there are any, and the int64 scalar
 * NAME.num_batches_tracked of each batch norm that has running statistics, as the original project's files have it: the updates of
 * NAME.running_mean. Of the optimizer: NAME.exp_avg and NAME.exp_avg_sq (of SGD the former is the momentum buffer), and NAME.trained,
 * the values, where the model has the averages.
 * Described by weights_init(); those that this process writes get memory once, and are refilled by weights_fill().
 */
struct weights {
	struct safetensor *model, *optimizer;
	size_t model_count, optimizer_count;
	struct weights_source *source; /* owned, one a tensor, of the model and then of the optimizer */
};
int weights_init(struct weights *weights, const struct store *store);
/* `model` and `optimizer`: one flag a tensor. */
int weights_allocate(struct weights *weights, const bool *model, const bool *optimizer);
int weights_fill(struct weights *weights, const struct store *store);
void weights_release(struct weights *weights);

/* Loads every parameter, and numbers of updates where there are any, from a checkpoint. Those whose names match `ignore` (a shell
 * pattern, or "") stay as they are, and may be missing in it or of another shape. STATUS_DATA names the first that is missing, has another shape, or is left over. */
int weights_load(struct store *store, const struct checkpoint *checkpoint, const char *ignore);
/* The same checks, loading nothing. The message names the first that does not fit, counts the others, and says what to do where the
 * names tell: a wrapper around the network, the other kind of shortcut, another head. */
int weights_check(const struct store *store, const struct checkpoint *checkpoint, const char *ignore);
bool weights_same_shape(const struct safetensor *tensor, const struct parameter *parameter);
/* After weights_load(): the optimizer's state of a step-* checkpoint. */
int weights_load_optimizer(struct store *store, const struct checkpoint *checkpoint);

/* The values and numbers of updates of rank 0's parameters become those of all. Every rank calls it. */
int weights_broadcast(struct store *store, struct comm *comm);

#endif
