/* How a run's configuration says that a network is trained: what is the same for every task. */
#ifndef NIGHTSHIFT_TASK_RECIPE_H
#define NIGHTSHIFT_TASK_RECIPE_H

#include "comm/comm.h"
#include "config/config.h"
#include "graph/graph.h"
#include "train/loop.h"

/* batch.size / batch.micro */
int64_t recipe_micros(const struct config *config);
/* The update rule of optimizer.*, and how many micro-batches this rank has. Before program_prepare(). */
int recipe_update_rule(const struct config *config, const struct comm *comm, struct program *program);
/* Batch, micro-batches, seed, rate and schedule of loop. */
void recipe_loop(const struct config *config, struct loop_task *loop);

#endif
