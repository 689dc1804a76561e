/*
 * Which samples a step takes where an epoch is a whole number of steps: each epoch has its own order of all samples, and no batch
 * holds samples of two. A pure function of (seed, step, slot), so that neither resume nor the number of ranks or threads changes it.
 */
#ifndef NIGHTSHIFT_DATA_EPOCHS_H
#define NIGHTSHIFT_DATA_EPOCHS_H

#include <stdint.h>
#include "base/random.h"

enum epochs_rest {
	EPOCHS_CARRY, /* the batch at an epoch's end is filled from the next one */
	EPOCHS_DROP,  /* what fills no batch is left out, other samples in each epoch */
	EPOCHS_SHORT  /* the last batch is smaller */
};

struct epochs {
	struct random order, replacements;
	uint64_t count;
	int64_t batch;
	enum epochs_rest rest;
};

/* batch.rest by its name; -1 for an unknown one. */
int epochs_rest(const char *name);
/* STATUS_CONFIG: no samples, or fewer than a batch where the rest is dropped. */
int epochs_init(struct epochs *epochs, uint64_t seed, uint64_t count, int64_t batch, enum epochs_rest rest);
/* Steps of an epoch; 0 where batches go on across its end. */
int64_t epochs_steps(const struct epochs *epochs);
/* Samples of an epoch's last step. */
int64_t epochs_last_batch(const struct epochs *epochs);
/* The sample in slot `slot` of 0-based step `step`; attempt 0, or 1, 2, ... for the replacement of a bad sample. */
uint64_t epochs_sample(const struct epochs *epochs, int64_t step, int64_t slot, int attempt);

#endif
