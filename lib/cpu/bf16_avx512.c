/* Products with VDPBF16PS (bf16.h): up to 14 rows by two vectors of sums in registers. */
#include "cpu/bf16.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(                                                                                \
	__attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),                   \
	apply_to = function)
#else
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>
#include <string.h>

#include "cpu/bf16_pack.h"

#define ROWS 8 /* of a tile; BF16_ROWS is a multiple */

static inline __m512i broadcast_pair(const uint16_t *a)
{
	int32_t pair;
	memcpy(&pair, a, sizeof pair);
	return _mm512_set1_epi32(pair);
}

/* ROWS rows of one step. */
static inline __attribute__((always_inline)) void add_step(
	__m512 sum[ROWS][2], const uint16_t *a, ptrdiff_t a_row, const uint16_t *b)
{
	for (int k = 0; k < BF16_STEP; k += 2, a += 2, b += 2 * BF16_COLUMNS) {
		const __m512bh left = (__m512bh)_mm512_loadu_si512(b),
			       right = (__m512bh)_mm512_loadu_si512(b + 32);
#pragma GCC unroll 8
		for (int i = 0; i < ROWS; i++) {
			const __m512bh pair = (__m512bh)broadcast_pair(a + i * a_row);
			sum[i][0] = _mm512_dpbf16_ps(sum[i][0], pair, left);
			sum[i][1] = _mm512_dpbf16_ps(sum[i][1], pair, right);
		}
	}
}

/* The first chain is stored, later ones are added. */
static inline __attribute__((always_inline)) void end_chain(__m512 sum[ROWS][2], float *c, bool first)
{
#pragma GCC unroll 8
	for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 2
		for (int j = 0; j < 2; j++) {
			float *at = c + i * BF16_COLUMNS + 16 * j;
			_mm512_storeu_ps(
				at, first ? sum[i][j] : _mm512_add_ps(_mm512_loadu_ps(at), sum[i][j]));
			sum[i][j] = _mm512_setzero_ps();
		}
	}
}

static void multiply_rows(const struct bf16_product *p, int64_t row)
{
	float *c = p->c + row * BF16_COLUMNS;
	__m512 sum[ROWS][2];
	int64_t added = 0;
#pragma GCC unroll 8
	for (int i = 0; i < ROWS; i++)
		sum[i][0] = sum[i][1] = _mm512_setzero_ps();
	for (int64_t s = 0; s < p->segments; s++) {
		const uint16_t *a = p->a + p->a_segment[s] + row * p->a_row, *b = p->b + p->b_segment[s];
		for (int64_t step = 0; step < p->steps; step++, added++) {
			if (added > 0 && added % BF16_CHAIN == 0)
				end_chain(sum, c, added == BF16_CHAIN);
			add_step(sum, a + step * BF16_STEP, p->a_row, b + step * BF16_STEP_SIZE);
		}
	}
	end_chain(sum, c, added <= BF16_CHAIN);
}

static void multiply(const struct bf16_product *p)
{
	for (int64_t row = 0; row < p->rows; row += ROWS)
		multiply_rows(p, row);
}

static void nothing(void)
{
}

const struct bf16 bf16_avx512 = {.name = "bf16-avx512",
	.begin = nothing,
	.end = nothing,
	.multiply = multiply,
	.convert = convert,
	.pairs = pairs,
	.turned_pairs = turned_pairs,
	.turn = turn,
	.store = store};
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
