/*
 * Training batches of a classification run: clips are drawn, decoded, augmented and normalised by threads ahead of the network,
 * straight into the floats that it is given. A micro-batch is a pure function of (seed, its global number).
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_BATCH_H
#define NIGHTSHIFT_TASK_CLASSIFY_BATCH_H

#include "comm/comm.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "task/classify_clip.h"

struct classify_micro {  /* one micro-batch, ready for the network */
	float *clips;    /* [N,T,S,S,C] */
	int32_t *target; /* [N] */
	int64_t count;   /* N */
	int64_t skipped;
};

struct classify_batches; /* the data groups and the loader */

/* Opens the groups of data.train. Of each step's micro-batches this rank makes its own alone. */
int classify_batches_open(const struct run *run, const struct comm *comm, const struct classify_clip *clip,
	struct classify_batches **batches);
void classify_batches_close(struct classify_batches *batches);
/* Of the first group: the run's. */
const struct classify_labels *classify_batches_labels(const struct classify_batches *batches);
int64_t classify_batches_samples(const struct classify_batches *batches); /* of all groups */
/* Steps of an epoch (0: batches go on across its end), and the samples of its last one. */
int64_t classify_batches_epoch_steps(const struct classify_batches *batches);
int64_t classify_batches_last_batch(const struct classify_batches *batches);
/* CRC-32C of the names of all groups and samples, in their order. */
uint32_t classify_batches_sum(const struct classify_batches *batches);
/* Files that are missing, over all groups: count, and the first one's name (owned by the caller). */
int classify_batches_missing(const struct classify_batches *batches, size_t *count, char **first);
/* Starts the loader at global micro-batch `first`, the first one of a step. */
int classify_batches_start(struct classify_batches *batches, int64_t first);
/* Micro-batch `m`, the next one of this rank, valid until the next call; *waited: seconds spent waiting. */
int classify_batches_next(
	struct classify_batches *batches, int64_t m, const struct classify_micro **micro, double *waited);
/* "kinetics/abc_000001_000011, ..." of micro-batch m; owned by the caller. */
char *classify_batches_names(const struct classify_batches *batches, int64_t m);

#endif
