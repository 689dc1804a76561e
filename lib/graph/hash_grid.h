/* The multi-resolution hash grid (Mueller et al. 2022) as tiny-cuda-nn lays it out: its levels, for builders and back ends. */
#ifndef NIGHTSHIFT_GRAPH_HASH_GRID_H
#define NIGHTSHIFT_GRAPH_HASH_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_LEVELS 16

/* Resolutions grow by a constant factor from 2^first to 2^last over the cube [low, high]^3; a level has at most 2^entries rows
 * of `features` (1, 2, 4 or 8) numbers. */
struct hash_grid {
	int levels, features, first, last, entries;
	double low, high;
};

/*
 * u = (x - low) / (high - low), p = fma(scale, u, 0.5), all in float32; the corners are floor(p) and one more on each axis, as
 * 32-bit unsigned numbers that wrap. A dense level's row is x + resolution (y + resolution z), a hashed one's x xor
 * 2654435761 y xor 805459861 z; both modulo `entries`.
 */
struct hash_level {
	float scale;
	uint32_t resolution; /* corners along an axis */
	uint32_t entries;
	bool dense;
	size_t first; /* row of the table */
};

bool hash_grid_valid(const struct hash_grid *grid);
/* Fills grid->levels levels; returns the rows of the whole table. */
size_t hash_grid_levels(const struct hash_grid *grid, struct hash_level levels[HASH_LEVELS]);
/* The values that tiny-cuda-nn starts from: uniform in +-1e-4, in an order of its own; seed 1337 is its. */
void hash_grid_initialise(uint64_t seed, float *values, size_t count);

#endif
