/*
 * Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a value is a pure function of
 * (seed, stream name, step, sample, element), so nothing about randomness is ever saved, and it does not depend on
 * threads, ranks or history. Transcendental functions are our own, built from + - * / sqrt only, so that the bytes are the
 * same on every machine.
 */
#ifndef NIGHTSHIFT_BASE_RANDOM_H
#define NIGHTSHIFT_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
	uint32_t key[2];
};
/* `stream` names the purpose ("noise", "flip", ...); different names give independent numbers. */
struct random random_stream(uint64_t seed, const char *stream);

void random_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
uint64_t random_bits(struct random r, uint64_t step, uint32_t sample, uint32_t element);
double random_uniform(struct random r, uint64_t step, uint32_t sample, uint32_t element); /* [0, 1), 53 bits */
/* Uniform in 0 .. bound-1 without bias worth mentioning (64-bit multiply); bound > 0. */
uint64_t random_below(struct random r, uint64_t step, uint32_t sample, uint32_t element, uint64_t bound);
/* count standard normals (Box-Muller), elements first .. first+count-1 of (step, sample); an element does not depend on
 * `first`. Bits, uniforms and normals of one stream are not independent of each other: a stream has one use. */
void random_normal(struct random r, uint64_t step, uint32_t sample, uint32_t first, float *out, size_t count);
/* The element at `index` of a keyed permutation of 0 .. count-1 (any count); `pass` chooses the permutation. */
uint64_t random_permute(struct random r, uint64_t pass, uint64_t index, uint64_t count);

/* Machine-independent functions (double; error below 1e-14 relative to the larger of 1 and the value; sine and cosine for
 * |x| < 2^19). */
double exact_sin(double x);
double exact_cos(double x);
void exact_sin_cos(double x, double *sine, double *cosine); /* both, the same bits */
double exact_log(double x);
double exact_exp(double x);

#endif
