/* Levels of the hash grid, and the values it starts from. */
#include "graph/hash_grid.h"

#include <math.h>

bool hash_grid_valid(const struct hash_grid *grid)
{
	const int f = grid->features;

	return grid->levels >= 1 && grid->levels <= HASH_LEVELS && (f == 1 || f == 2 || f == 4 || f == 8) &&
	       grid->first >= 0 && grid->last >= grid->first && grid->last <= 20 && grid->entries >= 3 &&
	       grid->entries <= 28 && grid->high > grid->low;
}

/* Rows that a level of this resolution would like. */
static uint32_t wanted_entries(uint32_t resolution, int log2_most)
{
	const double cube = pow(resolution, 3), largest = 4294967295.0 / 2;
	uint32_t count = cube > largest ? (uint32_t)largest : (uint32_t)cube;
	const uint32_t most = (uint32_t)1 << log2_most;

	count = (count + 7) / 8 * 8;
	return count < most ? count : most;
}

size_t hash_grid_levels(const struct hash_grid *grid, struct hash_level levels[HASH_LEVELS])
{
	const double steps = grid->levels > 1 ? grid->levels - 1 : 1;
	const double growth = exp((log(exp2(grid->last)) - log(exp2(grid->first))) / steps);
	const float step = log2f((float)growth), base = exp2f((float)grid->first);
	size_t first = 0;

	for (int i = 0; i < grid->levels; i++) {
		struct hash_level *level = &levels[i];

		level->scale = exp2f((float)i * step) * base - 1.0f;
		level->resolution = (uint32_t)ceilf(level->scale) + 1;
		level->entries = wanted_entries(level->resolution, grid->entries);
		level->dense = level->resolution <= 0x659 && pow(level->resolution, 3) <= level->entries;
		level->first = first;
		first += level->entries;
	}
	return first;
}

/* pcg32 (O'Neill 2014), stream 1. */
static uint32_t pcg32(uint64_t *state)
{
	const uint64_t old = *state, multiplier = 0x5851f42d4c957f2d, increment = 3;
	const uint32_t shifted = (uint32_t)(((old >> 18) ^ old) >> 27), turn = (uint32_t)(old >> 59);

	*state = old * multiplier + increment;
	return shifted >> turn | shifted << ((~turn + 1) & 31);
}

/* 23 bits behind the point of a number in [1, 2). */
static float unit_float(uint32_t word)
{
	union {
		uint32_t bits;
		float value;
	} number = {.bits = word >> 9 | 0x3f800000};

	return number.value - 1.0f;
}

/* Four draws for each of its threads, a whole number of blocks of 128. */
void hash_grid_initialise(uint64_t seed, float *values, size_t count)
{
	const size_t threads = ((count + 3) / 4 + 127) / 128 * 128;
	uint64_t state = 0;

	pcg32(&state);
	state += seed;
	pcg32(&state);
	for (size_t i = 0; i < threads; i++) {
		for (size_t j = 0; j < 4; j++) {
			const float draw = unit_float(pcg32(&state)) * 2e-4f - 1e-4f;

			if (i + threads * j < count)
				values[i + threads * j] = draw;
		}
	}
}
