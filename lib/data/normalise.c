/*
 * The depth normaliser. Quantiles come from a selection by digits instead of a sort: positive floats order as
 * their bits do, so a histogram over the upper 16 bits finds the bin of a rank, and one over the lower 16
 * bits the value in it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/depth.h"

enum { DIGITS = 1 << 16 };

struct selection {
	const float *depth;
	const uint8_t *mask; /* or NULL */
	size_t count;
	uint32_t *upper, *lower; /* histograms, owned */
};

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float value_of(uint32_t upper, uint32_t lower)
{
	uint32_t bits = upper << 16 | lower;
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static bool selected(const struct selection *selection, size_t i)
{
	return (!selection->mask || selection->mask[i]) && selection->depth[i] > 0;
}

/* The bin that holds `rank`, and the rank inside it. */
static uint32_t find_bin(const uint32_t *histogram, uint64_t rank, uint64_t *rest)
{
	uint32_t bin = 0;

	while (rank >= histogram[bin])
		rank -= histogram[bin++];
	*rest = rank;
	return bin;
}

static void count_lower(struct selection *selection, uint32_t upper)
{
	memset(selection->lower, 0, DIGITS * sizeof *selection->lower);
	for (size_t i = 0; i < selection->count; i++)
		if (selected(selection, i) && bits_of(selection->depth[i]) >> 16 == upper)
			selection->lower[bits_of(selection->depth[i]) & 0xffff]++;
}

/* The order statistics number `rank` and rank + 1 (the first again when it is the last). */
static void select_pair(struct selection *selection, uint64_t rank, uint64_t total, float pair[2])
{
	uint32_t previous = 0;
	bool counted = false;

	for (int i = 0; i < 2; i++) {
		uint64_t wanted = rank + (uint64_t)i < total ? rank + (uint64_t)i : total - 1, rest;
		uint32_t upper = find_bin(selection->upper, wanted, &rest);

		if (!counted || upper != previous)
			count_lower(selection, upper);
		previous = upper;
		counted = true;
		pair[i] = value_of(upper, find_bin(selection->lower, rest, &rest));
	}
}

/* The original's numerics: the rank is a float32 product, and the interpolation starts from the nearer end.
 */
static float select_quantile(struct selection *selection, double quantile, uint64_t total)
{
	float rank = (float)quantile * (float)(total - 1);
	float weight = rank - floorf(rank), pair[2];

	select_pair(selection, (uint64_t)rank < total ? (uint64_t)rank : total - 1, total, pair);
	return weight < 0.5f ? pair[0] + weight * (pair[1] - pair[0])
			     : pair[1] - (pair[1] - pair[0]) * (1 - weight);
}

int depth_quantiles(
	const float *depth, const uint8_t *mask, size_t count, double quantile, float *low, float *high)
{
	struct selection selection = {.depth = depth, .mask = mask, .count = count};
	uint64_t total = 0;
	int status = STATUS_OK;

	if (count > UINT32_MAX)
		return error_set(STATUS_DATA, "%zu pixels are too many to normalise", count);
	selection.upper = memory_new(DIGITS, sizeof *selection.upper);
	selection.lower = memory_new(DIGITS, sizeof *selection.lower);
	if (!selection.upper || !selection.lower) {
		status = error_status();
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		if (selected(&selection, i)) {
			selection.upper[bits_of(depth[i]) >> 16]++;
			total++;
		}
	if (!total) {
		status = error_set(STATUS_DATA, "no valid depth to normalise");
		goto out;
	}
	*low = select_quantile(&selection, quantile, total);
	*high = select_quantile(&selection, 1 - quantile, total);
out:
	free(selection.upper);
	free(selection.lower);
	return status;
}

static float clamp_norm(float value)
{
	return value < -1 ? -1 : value > 1 ? 1 : value;
}

int depth_normalise(
	const float *depth, const uint8_t *mask, size_t count, double quantile, bool original, float *out)
{
	float low, high;
	int status = depth_quantiles(depth, mask, count, quantile, &low, &high);

	if (status)
		return status;
	if (!(low < high) || !isfinite(high))
		return error_set(STATUS_DATA, "constant depth of %g m cannot be normalised", (double)low);
#pragma omp simd
	for (size_t i = 0; i < count; i++)
		out[i] = clamp_norm((depth[i] - low) / (high - low) * 2 - 1);
	if (mask && !original)
		for (size_t i = 0; i < count; i++)
			out[i] = mask[i] ? out[i] : 1;
	return STATUS_OK;
}
