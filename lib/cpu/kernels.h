/*
 * Inner loops of the CPU back end, one table for each instruction set (kernels_plain.c, kernels_avx2.c,
 * kernels_avx512.c). They are serial and know no shapes beyond rows and columns; the operations split the work.
 *
 * A result may depend on the instruction set, never on how rows or elements are dealt out to calls, unless the text
 * of a function says so (sums: the caller fixes the pieces). Counts are in elements. Pointers need no alignment.
 */
#ifndef NIGHTSHIFT_CPU_KERNELS_H
#define NIGHTSHIFT_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"
#include "graph/hash_grid.h"

/*
 * A strip of a matrix product, at most one panel (kernels->panel columns) wide:
 *
 *	c[i][j] (+)= sum over s, k of a[s * a_segment + k * a_step + i * a_row] * b[s * b_segment + k * b_step + j]
 *
 * The sum is one chain of fused multiply-adds in order of (s, k); the old value or the bias is added at its end.
 */
struct strip {
	const float *a, *b, *bias; /* bias [columns] or NULL */
	/* What will be read soon: for a tile that starts at row i, segments * length cache lines from next + i * a_row on are
	 * fetched on the way; NULL: nothing. */
	const float *next;
	float *c;
	ptrdiff_t a_row, a_step, a_segment, b_step, b_segment, c_row;
	int64_t rows, segments, length;
	int columns;
	bool accumulate;
};

/* A 2x2 tile of outputs from its 16 transformed points, `point` floats apart: `height` by `width` of it are wanted. */
struct winograd_output {
	const float *from, *bias; /* bias [channels] or NULL */
	float *to;
	ptrdiff_t point, line, step; /* of `to`: floats from line to line and from pixel to pixel */
	int64_t channels;
	int height, width;
	bool accumulate;
};

/* Adam's constants of one step; `keep`: what decoupled decay leaves of the value. */
struct adam_step {
	float beta1_rest, beta2, beta2_rest, correction2, epsilon, step_size, scale, decay, keep;
};

/* SGD's constants of one step; `fresh`: how much of the gradient the buffer gets (1 - dampening; 1 in the first step). */
struct sgd_step {
	float rate, momentum, fresh, decay, scale;
	bool nesterov;
};

/* Batch norm in rows [rows, channels], dense, and what stands behind it; z = x * scale + shift (+ residual), through ReLU.
 * The gradient is masked by y where it is given, else by z. */
struct batch_rows {
	const float *x, *residual, *dy, *y;
	const float *scale, *shift,
		*middle; /* [channels]; middle: any number near the mean of x, gradient only */
	int64_t rows, channels;
	bool relu, add_x, add_residual;
};

/* Group norm and its gradient in rows [positions, channels], dense. With SiLU, z = x * scale + shift goes through it. */
struct norm_rows {
	const float *x, *dy;
	const float *scale, *shift,
		*middle; /* [channels]; middle: any number near the mean of x, gradient only */
	int64_t positions, channels;
	bool silu, accumulate;
};

/* A block of points in one level of a hash grid: coordinates u by axis, HASH_BLOCK of them; for each corner (x lowest) rows
 * and weights of the points, corners HASH_BLOCK apart; fractions by axis, NULL where nobody wants them. */
#define HASH_BLOCK 64
struct hash_points {
	const struct hash_level *level;
	const float *u[3];
	int64_t count;
	uint32_t *row;
	float *weight, *fraction[3];
};

struct kernels {
	const char *name;
	int panel;      /* widest strip, in columns */
	int strip_rows; /* of a strip that are computed together */

	void (*strip)(const struct strip *strip);
	void (*copy_rows)(float *to, ptrdiff_t to_row, const float *from, ptrdiff_t from_row, int64_t rows,
		int64_t columns);
	/* to[j * to_row + i] = from[i * from_row + j] */
	void (*turn)(float *to, ptrdiff_t to_row, const float *from, ptrdiff_t from_row, int64_t rows,
		int64_t columns);

	/*
	 * Winograd's F(2x2,3x3) (Lavin & Gray 2016), y = A^T [(G g G^T) (B^T d B)] A with the points 0, 1, -1 and infinity: 16
	 * points of a tile, `point` floats apart, each of `channels` floats.
	 * Tiles of 4x4 inputs and 2x2 gradients of outputs, whose pixels lie `step` and lines `line` floats apart:
	 */
	void (*winograd_input)(float *to, ptrdiff_t point, const float *from, ptrdiff_t line, ptrdiff_t step,
		int64_t channels);
	void (*winograd_gradient)(float *to, ptrdiff_t point, const float *from, ptrdiff_t line,
		ptrdiff_t step, int64_t channels);
	/* Rows of 3x3 taps, `tap` floats apart, to rows `columns` floats apart. */
	void (*winograd_kernel)(float *to, ptrdiff_t point, const float *from, ptrdiff_t tap, ptrdiff_t row,
		int64_t rows, int64_t columns);
	void (*winograd_output)(const struct winograd_output *output);
	/* One row of taps' gradients (+)= G^T m G. */
	void (*winograd_weight)(float *to, ptrdiff_t tap, const float *from, ptrdiff_t point, int64_t columns,
		bool accumulate);
	void (*activation)(enum activation kind, float *y, const float *x, int64_t count, bool accumulate);
	void (*activation_backward)(enum activation kind, float *dx, const float *x, const float *dy,
		int64_t count, bool accumulate);
	/* softplus(beta x) / beta */
	void (*softplus)(float *y, const float *x, float beta, int64_t count, bool accumulate);
	void (*softplus_backward)(
		float *dx, const float *x, const float *dy, float beta, int64_t count, bool accumulate);
	/* x [rows, 2 width] -> y [rows, width] */
	void (*geglu)(float *y, const float *x, int64_t rows, int64_t width, bool accumulate);
	void (*geglu_backward)(
		float *dx, const float *x, const float *dy, int64_t rows, int64_t width, bool accumulate);
	void (*add)(float *y, const float *a, const float *b, int64_t count);
	void (*scale)(float *y, const float *x, float factor, int64_t count);

	/* sum[c] += x[r][c], in double */
	void (*column_sums)(double *sum, const float *x, int64_t rows, int64_t columns);
	/* sum[c] = the sum of x, square[c] = of x * x; both come in as 0 */
	void (*column_moments)(double *sum, double *square, const float *x, int64_t rows, int64_t columns);
	/* y = silu or identity of x * scale + shift */
	void (*norm_apply)(const struct norm_rows *rows, float *y);
	/* With g = dy times the derivative of the activation: sum[c] += g, product[c] += g * (x - middle). With SiLU, g is
	 * also stored in `keep` [positions, channels] unless that is NULL. */
	void (*norm_gradient_sums)(const struct norm_rows *rows, float *keep, double *sum, double *product);
	/* dx (+)= g * scale + x * slope + offset, slope and offset [channels] */
	void (*norm_gradient)(
		const struct norm_rows *rows, const float *slope, const float *offset, float *dx);

	void (*batch_norm)(const struct batch_rows *rows, float *y);
	/* With g = dy through ReLU: sum[c] += g, product[c] += g * (x - middle) */
	void (*batch_norm_sums)(const struct batch_rows *rows, double *sum, double *product);
	/* dx (+)= g * scale + x * slope + offset, slope and offset [channels]; dresidual (+)= g; either may be NULL */
	void (*batch_norm_gradient)(const struct batch_rows *rows, const float *slope, const float *offset,
		float *dx, float *dresidual);
	/* Where x is larger than y, or not a number: y = x, place[i] = tap. */
	void (*pool_largest)(float *y, int32_t *place, const float *x, int32_t tap, int64_t count);
	/* dx += dy where place is tap */
	void (*pool_select)(float *dx, const float *dy, const int32_t *place, int32_t tap, int64_t count);
	/* y += factor * x */
	void (*add_scaled)(float *y, const float *x, float factor, int64_t count);

	/* Layer norm of rows [rows, columns]; mean and rstd [rows] */
	void (*layer_norm)(float *y, float *mean, float *rstd, const float *x, const float *gamma,
		const float *beta, int64_t rows, int64_t columns, double epsilon);
	/* dgamma and dbeta [columns] are added to in double */
	void (*layer_norm_backward)(float *dx, double *dgamma, double *dbeta, const float *x,
		const float *gamma, const float *mean, const float *rstd, const float *dy, int64_t rows,
		int64_t columns, bool accumulate);

	/* Attention on transposed scores [keys, queries], row stride `queries`.
	 * Takes a block of scores to exp(score * scale - largest), keeping `largest` and `sum` [queries] of the blocks
	 * so far; factor [queries]: what earlier sums and outputs must be multiplied by. */
	void (*softmax_block)(float *scores, int64_t keys, int64_t queries, float scale, float *largest,
		float *sum, float *factor);
	/* p: scores to exp(score * scale - lse); d: products to p * (d - delta) * scale */
	void (*softmax_backward)(float *p, float *d, int64_t keys, int64_t queries, float scale,
		const float *lse, const float *delta);
	/* The same where these are all keys: probabilities are made to add up to 1 and delta is their mean of d, so that
	 * what the keys have in common cancels. */
	void (*softmax_backward_whole)(
		float *p, float *d, int64_t keys, int64_t queries, float scale, const float *lse);
	double (*dot)(const float *a, const float *b, int64_t count);

	void (*hash_corners)(const struct hash_points *points);
	/* y[i * stride + f] = the sum over corners of weight times the table's row */
	void (*hash_read)(
		const struct hash_points *points, const float *table, float *y, int64_t stride, int features);
	/* The table's rows first .. end - 1 += weight times dy, points in order. */
	void (*hash_add)(const struct hash_points *points, float *table, const float *dy, int64_t stride,
		uint32_t first, uint32_t end, int features);

	double (*sum_squares)(const float *x, int64_t count);
	/* sum over elements of selected rows of (a - b)^2 in double; mask [rows], selected where not 0; NULL: all */
	double (*masked_squares)(
		const float *a, const float *b, const float *mask, int64_t rows, int64_t columns);
	/* sum of |a - b| in double */
	double (*absolutes)(const float *a, const float *b, int64_t count);
	/* d (+)= factor, -factor or 0 as a is larger, smaller or neither */
	void (*signs)(float *d, const float *a, const float *b, int64_t count, float factor, bool accumulate);
	/* d (+)= mask[r] ? factor * (a - b) : 0 */
	void (*masked_difference)(float *d, const float *a, const float *b, const float *mask, int64_t rows,
		int64_t columns, float factor, bool accumulate);
	void (*adam)(const struct adam_step *step, float *value, const float *gradient, float *moment1,
		float *moment2, int64_t count);
	/* buffer may be NULL: no momentum */
	void (*sgd)(const struct sgd_step *step, float *value, const float *gradient, float *buffer,
		int64_t count);
	/* to = keep * to + fresh * from */
	void (*blend)(float *to, const float *from, float keep, float fresh, int64_t count);
};

extern const struct kernels kernels_plain, kernels_avx2, kernels_avx512;

#endif
