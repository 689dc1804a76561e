/* Counter-based random numbers: Philox 4x32-10 and what is made of it. */
#include "base/random.h"

#include <math.h>

enum { ROUNDS = 10 };

void random_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
	uint32_t k0 = key[0], k1 = key[1];
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t a = (uint64_t)0xd2511f53 * c0, b = (uint64_t)0xcd9e8d57 * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
	out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void draw(struct random r, uint64_t step, uint32_t sample, uint32_t element, uint32_t out[4])
{
	uint32_t counter[4] = {element, sample, (uint32_t)step, (uint32_t)(step >> 32)};
	random_philox(r.key, counter, out);
}

struct random random_stream(uint64_t seed, const char *stream)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a of the name */
	uint32_t out[4];
	for (const unsigned char *c = (const unsigned char *)stream; *c; c++)
		hash = (hash ^ *c) * 0x100000001b3;
	struct random name = {{(uint32_t)hash, (uint32_t)(hash >> 32)}};
	draw(name, seed, 0, 0, out);
	return (struct random){{out[0], out[1]}};
}

uint64_t random_bits(struct random r, uint64_t step, uint32_t sample, uint32_t element)
{
	uint32_t out[4];
	draw(r, step, sample, element, out);
	return (uint64_t)out[1] << 32 | out[0];
}

double random_uniform(struct random r, uint64_t step, uint32_t sample, uint32_t element)
{
	return (double)(random_bits(r, step, sample, element) >> 11) * 0x1p-53;
}

uint64_t random_below(struct random r, uint64_t step, uint32_t sample, uint32_t element, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)random_bits(r, step, sample, element) * bound >> 64);
}

/* One Philox block gives elements 4 x block .. 4 x block + 3. The radius uses (0, 1), so that log() is
 * finite. */
static void normal_block(struct random r, uint64_t step, uint32_t sample, uint32_t block, float out[4])
{
	uint32_t bits[4];
	draw(r, step, sample, block, bits);
	for (int i = 0; i < 4; i += 2) {
		double radius = sqrt(-2 * exact_log((bits[i] + 0.5) * 0x1p-32));
		double sine, cosine;
		exact_sin_cos(bits[i + 1] * (0x1p-32 * 6.283185307179586), &sine, &cosine);
		out[i] = (float)(radius * cosine);
		out[i + 1] = (float)(radius * sine);
	}
}

void random_normal(struct random r, uint64_t step, uint32_t sample, uint32_t first, float *out, size_t count)
{
	size_t i = 0;
	while (i < count) {
		uint32_t element = first + (uint32_t)i;
		if (element % 4 == 0 && count - i >= 4) {
			normal_block(r, step, sample, element / 4, out + i);
			i += 4;
			continue;
		}
		float four[4];
		normal_block(r, step, sample, element / 4, four);
		for (uint32_t k = element % 4; k < 4 && i < count; k++)
			out[i++] = four[k];
	}
}

enum { FEISTEL_ROUNDS = 8, SMALLEST_HALF = 3 };

/* One application of the network on 2 x `half` bits. */
static uint64_t feistel(struct random r, uint64_t pass, uint64_t value, int half)
{
	uint64_t mask = (UINT64_C(1) << half) - 1, left = value >> half, right = value & mask;
	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint64_t mixed = left ^ (random_bits(r, pass, round, (uint32_t)right) & mask);
		left = right;
		right = mixed;
	}
	return left << half | right;
}

uint64_t random_permute(struct random r, uint64_t pass, uint64_t index, uint64_t count)
{
	int half = SMALLEST_HALF;
	while (half < 32 && count > UINT64_C(1) << (2 * half))
		half++;
	/* Walking the cycle until it comes back below count keeps it a permutation of 0 .. count-1. */
	do {
		index = feistel(r, pass, index, half);
	} while (index >= count);
	return index;
}
