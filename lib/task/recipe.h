/* How a run's configuration says that a network is trained: what is the same for every task. */
#ifndef NIGHTSHIFT_TASK_RECIPE_H
#define NIGHTSHIFT_TASK_RECIPE_H

#include "comm/comm.h"
#include "config/config.h"
#include "data/loader.h"
#include "graph/graph.h"
#include "train/loop.h"

/* batch.size / batch.micro */
int64_t recipe_micros(const struct config *config);
/* batch.norm */
enum norm_extent recipe_norm(const struct config *config);
/* The update rule of optimizer.*, the extent of batch norms, how many micro-batches this rank has, and updates during the backward pass where nothing needs all
 * gradients at once. After the graphs were built, before program_prepare(). */
int recipe_update_rule(const struct config *config, const struct comm *comm, struct program *program);
/* Batch, micro-batches, seed, rate and schedule of loop. */
void recipe_loop(const struct config *config, struct loop_task *loop);
/* How many steps the run has: those of train.epochs, or train.steps. */
int64_t recipe_steps(const struct config *config, const struct loop_task *loop);
/* Whether there are validation and pictures at all. */
bool recipe_validates(const struct config *config);
bool recipe_draws(const struct config *config);

/* A rank's micro-batches of each step are consecutive ones; its loader counts those alone. */
struct recipe_share {
	int64_t micros, own, first_own; /* micro-batches of a step, those of this rank, and their first */
};
struct recipe_share recipe_share(const struct config *config, const struct comm *comm);
int64_t recipe_share_global(const struct recipe_share *share, int64_t number); /* of the loader's number */
/* A loader with the threads of data.threads, from this rank's first micro-batch of the step that begins with the global one `first`. */
int recipe_share_load(const struct recipe_share *share, const struct config *config,
	const struct loader_source *source, int64_t first, struct loader **loader);
/* loader_next() of the global micro-batch m, one of this rank's. */
int recipe_share_next(
	const struct recipe_share *share, struct loader *loader, int64_t m, int *slot, double *waited);

#endif
