/*
 * Products in bfloat16: operands are rounded to it (to nearest, ties to even) while they are packed, products and sums are
 * float32. A unit is what multiplies: AMX tiles, AVX512_BF16, or a plain body that gives the bits of either, for tests.
 *
 * Everything goes by steps of 32 terms and panels of 32 columns, filled up with zeros. The operand a lies in rows, b in steps of
 * pairs: [steps][16][32 columns][2]. What fills a row of a up must be finite, for it meets zeros.
 *
 * A denormal operand counts as 0, and so does a denormal sum: the processors do it so.
 */
#ifndef NIGHTSHIFT_CPU_BF16_H
#define NIGHTSHIFT_CPU_BF16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BF16_STEP 32
#define BF16_COLUMNS 32
#define BF16_ROWS 16                              /* rows are computed by so many */
#define BF16_STEP_SIZE (BF16_STEP * BF16_COLUMNS) /* elements of a step of b */
#define BF16_CHAIN 12 /* steps that AVX512_BF16 adds in one chain; AMX adds each step's sum */

/*
 * c [rows][BF16_COLUMNS] = the sum over segments s and terms k < BF16_STEP * steps of a[a_segment[s] + i * a_row + k] times the
 * panel at b + b_segment[s]. a is read and c written for rows up to the next multiple of BF16_ROWS.
 */
struct bf16_product {
	const uint16_t *a, *b;
	const ptrdiff_t *a_segment, *b_segment;
	ptrdiff_t a_row;
	int64_t segments, steps, rows;
	int columns; /* only these are wanted, of the panel's */
	float *c;
};

struct bf16 {
	const char *name;
	/* Around calls of multiply(), on the thread that makes them. */
	void (*begin)(void);
	void (*end)(void);
	void (*multiply)(const struct bf16_product *product);
	void (*convert)(uint16_t *to, const float *from, int64_t count);
	/* A step of b from its 32 rows, of `columns` floats each; NULL: zeros. */
	void (*pairs)(uint16_t *to, const float *const row[BF16_STEP], int columns);
	/* A step of b from its 32 columns, of `terms` floats each; NULL: zeros. */
	void (*turned_pairs)(uint16_t *to, const float *const column[BF16_COLUMNS], int terms);
	/* to[j * to_row + i] = row[i][j]: a step of `columns` rows of a. */
	void (*turn)(uint16_t *to, ptrdiff_t to_row, const uint16_t *const row[BF16_STEP], int64_t columns);
	/* to [rows][columns] (+)= from [rows][BF16_COLUMNS] + bias; bias NULL: none */
	void (*store)(float *to, ptrdiff_t to_row, const float *from, int64_t rows, int columns,
		const float *bias, bool accumulate);
};

/* bf16_avx512.c and bf16_amx.c; available once bf16_choose() gave them out */
extern const struct bf16 bf16_avx512, bf16_amx;
/* bf16_plain.c: the same bits from plain arithmetic */
extern const struct bf16 bf16_avx512_plain, bf16_amx_plain;

/*
 * The unit of that name, "bf16-amx" or "bf16-avx512" (with "-plain" behind it the plain body), or of "bf16" the best here.
 * STATUS_UNAVAILABLE where the processor, or the system, does not have it.
 */
int bf16_choose(const char *name, const struct bf16 **unit);

/* Steps of `terms` terms, panels of `columns` columns. */
static inline int64_t bf16_steps(int64_t terms)
{
	return (terms + BF16_STEP - 1) / BF16_STEP;
}

static inline int64_t bf16_panels(int64_t columns)
{
	return (columns + BF16_COLUMNS - 1) / BF16_COLUMNS;
}

#endif
