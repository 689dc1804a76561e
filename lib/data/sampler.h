/*
 * Which samples a micro-batch holds: a pure function of (seed, global micro-batch, slot), so that neither resume nor the number
 * of ranks or threads changes it.
 *
 * Every micro-batch comes from one group of data (one resolution). Groups take their shares exactly in each block of
 * SAMPLER_BLOCK micro-batches, in an order shuffled by block; within a group the samples come without repetition, in a new
 * order for each pass over the group.
 */
#ifndef NIGHTSHIFT_DATA_SAMPLER_H
#define NIGHTSHIFT_DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include "base/random.h"

#define SAMPLER_BLOCK 1024
#define SAMPLER_GROUPS 64

struct sampler {
	struct random blocks, passes, replacements;
	int groups;
	int64_t micro;                  /* samples a micro-batch */
	uint64_t count[SAMPLER_GROUPS]; /* samples of each group */
	uint64_t share
		[SAMPLER_GROUPS]; /* micro-batches of each group in a block; they add up to SAMPLER_BLOCK */
};
/* weights need not add up to 1. STATUS_CONFIG: no group, more than SAMPLER_GROUPS, an empty group, no positive weight. */
int sampler_init(struct sampler *sampler, uint64_t seed, int groups, const uint64_t *count,
	const double *weight, int64_t micro);
/* The group of global micro-batch m. */
int sampler_group(const struct sampler *sampler, int64_t m);
/* The sample in its `slot`; attempt 0, or 1, 2, ... for the replacement of a bad sample. */
uint64_t sampler_index(const struct sampler *sampler, int64_t m, int64_t slot, int attempt);

#endif
