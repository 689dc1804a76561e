/* Products on AMX tiles (bf16.h): 2x2 tiles of sums, 32 rows by 32 columns, whatever is wanted of them. */
#include "cpu/bf16.h"

#ifdef __x86_64__
#define TARGET "amx-tile,amx-bf16,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target(TARGET))), apply_to = function)
#else
#pragma GCC target("amx-tile,amx-bf16,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>

#include "cpu/bf16_pack.h"

/* The layout LDTILECFG reads. */
struct tiles {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

static void begin(void)
{
	static const struct tiles tiles = {.palette = 1,
		.bytes = {64, 64, 64, 64, 64, 64, 64, 64},
		.rows = {16, 16, 16, 16, 16, 16, 16, 16}};
	_tile_loadconfig(&tiles);
}

static void end(void)
{
	_tile_release();
}

#define A_BYTES ((long)p->a_row * 2)
#define B_BYTES (BF16_COLUMNS * 4)
#define C_BYTES (BF16_COLUMNS * 4)
#define LOWER (16 * p->a_row) /* to the second tile of rows */
#define RIGHT 32              /* to the second tile of columns of b */

/* All steps of all segments: `a` and `b` are where the tiles of one step start. */
#define EACH_STEP(STATEMENTS)                                                                                \
	for (int64_t s = 0; s < p->segments; s++) {                                                          \
		const uint16_t *a = p->a + p->a_segment[s] + row * p->a_row, *b = p->b + p->b_segment[s];    \
		for (int64_t step = 0; step < p->steps; step++, a += BF16_STEP, b += BF16_STEP_SIZE) {       \
			STATEMENTS                                                                           \
		}                                                                                            \
	}

static void two_by_two(const struct bf16_product *p, int64_t row)
{
	float *c = p->c + row * BF16_COLUMNS;
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	EACH_STEP(_tile_loadd(4, a, A_BYTES); _tile_loadd(6, b, B_BYTES); _tile_dpbf16ps(0, 4, 6);
		  _tile_loadd(7, b + RIGHT, B_BYTES); _tile_dpbf16ps(1, 4, 7);
		  _tile_loadd(5, a + LOWER, A_BYTES); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);)
	_tile_stored(0, c, C_BYTES);
	_tile_stored(1, c + 16, C_BYTES);
	_tile_stored(2, c + 16 * BF16_COLUMNS, C_BYTES);
	_tile_stored(3, c + 16 * BF16_COLUMNS + 16, C_BYTES);
}

static void one_by_two(const struct bf16_product *p, int64_t row)
{
	float *c = p->c + row * BF16_COLUMNS;
	_tile_zero(0);
	_tile_zero(1);
	EACH_STEP(_tile_loadd(4, a, A_BYTES); _tile_loadd(6, b, B_BYTES); _tile_dpbf16ps(0, 4, 6);
		  _tile_loadd(7, b + RIGHT, B_BYTES); _tile_dpbf16ps(1, 4, 7);)
	_tile_stored(0, c, C_BYTES);
	_tile_stored(1, c + 16, C_BYTES);
}

static void two_by_one(const struct bf16_product *p, int64_t row)
{
	float *c = p->c + row * BF16_COLUMNS;
	_tile_zero(0);
	_tile_zero(2);
	EACH_STEP(_tile_loadd(4, a, A_BYTES); _tile_loadd(6, b, B_BYTES); _tile_dpbf16ps(0, 4, 6);
		  _tile_loadd(5, a + LOWER, A_BYTES); _tile_dpbf16ps(2, 5, 6);)
	_tile_stored(0, c, C_BYTES);
	_tile_stored(2, c + 16 * BF16_COLUMNS, C_BYTES);
}

static void one_by_one(const struct bf16_product *p, int64_t row)
{
	_tile_zero(0);
	EACH_STEP(_tile_loadd(4, a, A_BYTES); _tile_loadd(6, b, B_BYTES); _tile_dpbf16ps(0, 4, 6);)
	_tile_stored(0, p->c + row * BF16_COLUMNS, C_BYTES);
}

static void multiply(const struct bf16_product *p)
{
	const bool wide = p->columns > 16;
	int64_t row = 0;
	for (; p->rows - row > 16; row += 32)
		(wide ? two_by_two : two_by_one)(p, row);
	if (row < p->rows)
		(wide ? one_by_two : one_by_one)(p, row);
}

const struct bf16 bf16_amx = {.name = "bf16-amx",
	.begin = begin,
	.end = end,
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
