/* The units' sums in plain arithmetic, and packing for any processor (bf16.h). */
#include <math.h>
#include <string.h>

#include "cpu/bf16.h"

static float widen(uint16_t value)
{
	const uint32_t bits = (value & 0x7f80) ? (uint32_t)value << 16 : (uint32_t)(value & 0x8000) << 16;
	float wide;
	memcpy(&wide, &bits, sizeof wide);
	return wide;
}

static uint16_t narrow(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	if ((bits & 0x7f800000) == 0)
		return (uint16_t)(bits >> 16 & 0x8000);
	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Denormal results are 0. */
static float flushed(float value)
{
	return fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

static float add_product(uint16_t a, uint16_t b, float sum)
{
	return flushed(fmaf(widen(a), widen(b), sum));
}

/* One step's sum as a tile multiplication makes it: even and odd terms apart. */
static float tile_sum(const uint16_t *a, const uint16_t *b)
{
	float even = 0, odd = 0;
	for (int k = 0; k < BF16_STEP / 2; k++) {
		even = add_product(a[2 * k], b[k * 2 * BF16_COLUMNS], even);
		odd = add_product(a[2 * k + 1], b[k * 2 * BF16_COLUMNS + 1], odd);
	}
	return flushed(even + odd);
}

static void multiply_amx(const struct bf16_product *p)
{
	for (int64_t i = 0; i < p->rows; i++)
		for (int j = 0; j < p->columns; j++) {
			float sum = 0;
			for (int64_t s = 0; s < p->segments * p->steps; s++) {
				const int64_t segment = s / p->steps, step = s % p->steps;
				sum = flushed(sum + tile_sum(p->a + p->a_segment[segment] + i * p->a_row +
								     step * BF16_STEP,
							    p->b + p->b_segment[segment] +
								    step * BF16_STEP_SIZE + 2 * j));
			}
			p->c[i * BF16_COLUMNS + j] = sum;
		}
}

/* One step as VDPBF16PS adds it: of each pair the odd term first. */
static float chain_sum(const uint16_t *a, const uint16_t *b, float sum)
{
	for (int k = 0; k < BF16_STEP / 2; k++) {
		sum = add_product(a[2 * k + 1], b[k * 2 * BF16_COLUMNS + 1], sum);
		sum = add_product(a[2 * k], b[k * 2 * BF16_COLUMNS], sum);
	}
	return sum;
}

static void multiply_avx512(const struct bf16_product *p)
{
	for (int64_t i = 0; i < p->rows; i++)
		for (int j = 0; j < p->columns; j++) {
			float total = 0, sum = 0;
			for (int64_t s = 0; s < p->segments * p->steps; s++) {
				const int64_t segment = s / p->steps, step = s % p->steps;
				if (s > 0 && s % BF16_CHAIN == 0) {
					total = s == BF16_CHAIN ? sum : total + sum;
					sum = 0;
				}
				sum = chain_sum(
					p->a + p->a_segment[segment] + i * p->a_row + step * BF16_STEP,
					p->b + p->b_segment[segment] + step * BF16_STEP_SIZE + 2 * j, sum);
			}
			p->c[i * BF16_COLUMNS + j] = p->segments * p->steps <= BF16_CHAIN ? sum : total + sum;
		}
}

static void convert(uint16_t *to, const float *from, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		to[i] = narrow(from[i]);
}

static void pairs(uint16_t *to, const float *const row[BF16_STEP], int columns)
{
	memset(to, 0, BF16_STEP_SIZE * sizeof *to);
	for (int k = 0; k < BF16_STEP; k++)
		for (int j = 0; j < columns && row[k]; j++)
			to[(k / 2 * BF16_COLUMNS + j) * 2 + k % 2] = narrow(row[k][j]);
}

static void turned_pairs(uint16_t *to, const float *const column[BF16_COLUMNS], int terms)
{
	memset(to, 0, BF16_STEP_SIZE * sizeof *to);
	for (int j = 0; j < BF16_COLUMNS; j++)
		for (int k = 0; k < terms && column[j]; k++)
			to[(k / 2 * BF16_COLUMNS + j) * 2 + k % 2] = narrow(column[j][k]);
}

static void turn(uint16_t *to, ptrdiff_t to_row, const uint16_t *const row[BF16_STEP], int64_t columns)
{
	for (int64_t j = 0; j < columns; j++)
		for (int i = 0; i < BF16_STEP; i++)
			to[j * to_row + i] = row[i][j];
}

static void store(float *to, ptrdiff_t to_row, const float *from, int64_t rows, int columns,
	const float *bias, bool accumulate)
{
	for (int64_t i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			float *at = to + i * to_row + j, sum = from[i * BF16_COLUMNS + j];
			if (accumulate)
				sum += *at;
			if (bias)
				sum += bias[j];
			*at = sum;
		}
}

static void nothing(void)
{
}

const struct bf16 bf16_amx_plain = {.name = "bf16-amx-plain",
	.begin = nothing,
	.end = nothing,
	.multiply = multiply_amx,
	.convert = convert,
	.pairs = pairs,
	.turned_pairs = turned_pairs,
	.turn = turn,
	.store = store};

const struct bf16 bf16_avx512_plain = {.name = "bf16-avx512-plain",
	.begin = nothing,
	.end = nothing,
	.multiply = multiply_avx512,
	.convert = convert,
	.pairs = pairs,
	.turned_pairs = turned_pairs,
	.turn = turn,
	.store = store};
