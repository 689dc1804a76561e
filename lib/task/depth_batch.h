/*
 * Training batches of a depth run: samples are read, flipped, normalised, resized and encoded to latents (kept in memory up to
 * data.cache bytes), then noised for the step's timesteps (spec/marigold.md sections 2.6, 4, 6.4). A micro-batch is a pure
 * function of (seed, its global number).
 */
#ifndef NIGHTSHIFT_TASK_DEPTH_BATCH_H
#define NIGHTSHIFT_TASK_DEPTH_BATCH_H

#include "comm/comm.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "task/depth_set.h"

struct depth_micro { /* one micro-batch, ready for the network */
	int group;
	float *rgb, *noisy, *target; /* [N,h,w,4] */
	float *mask;                 /* [N,h,w] */
	float *t;                    /* [N] */
	int64_t skipped;
};

struct depth_batches; /* the data groups, their cache and the loader */

/* Opens the groups of data.train. Of each step's micro-batches this rank makes its own alone. */
int depth_batches_open(const struct run *run, const struct comm *comm, struct depth_model *model,
	struct depth_batches **batches);
void depth_batches_close(struct depth_batches *batches);
int depth_batches_groups(const struct depth_batches *batches);
const char *depth_batches_name(const struct depth_batches *batches, int group);
/* Size of a group's images. */
void depth_batches_size(const struct depth_batches *batches, int group, int *height, int *width);
int64_t depth_batches_samples(const struct depth_batches *batches); /* of all groups */
/* CRC-32C of the names of all groups and samples, in their order. */
uint32_t depth_batches_sum(const struct depth_batches *batches);
/* The group that most micro-batches come from. */
int depth_batches_main_group(const struct depth_batches *batches);
/* Files that are missing, over all groups: count, and the first one's name (owned by the caller). */
int depth_batches_missing(const struct depth_batches *batches, size_t *count, char **first);
/* Starts the loader at global micro-batch `first`, the first one of a step. */
int depth_batches_start(struct depth_batches *batches, int64_t first);
/* Micro-batch `m`, the next one of this rank, valid until the next call; *waited: seconds spent waiting. */
int depth_batches_next(
	struct depth_batches *batches, int64_t m, const struct depth_micro **micro, double *waited);
/* "rooms/rgb/00012.png, ..." of micro-batch m; owned by the caller. */
char *depth_batches_names(const struct depth_batches *batches, int64_t m);

#endif
