/* The ten depth metrics in one pass, and the alignment by least squares. */
#include "metric/depth.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

const char *const depth_metric_names[DEPTH_METRICS] = {"abs_relative_difference",
	"squared_relative_difference", "rmse_linear", "rmse_log", "log10", "delta1_acc", "delta2_acc",
	"delta3_acc", "i_rmse", "silog_rmse"};

const char *const depth_align_names[3] = {"none", "least-squares", "disparity"};

int depth_align_find(const char *name)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(name, depth_align_names[i]) == 0)
			return i;
	return -1;
}

/*
 * Valid pixels are packed into blocks, and sums run in four lanes of their own that are added at the end: the
 * compiler makes vectors of any width from that, and the result does not depend on which.
 */
enum { LANES = 4, BLOCK = 256 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef uint64_t lanes_bits __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef float lanes_float __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lanes_int __attribute__((vector_size(LANES * sizeof(int32_t))));

struct pixels {
	const float *p, *g; /* prediction, truth */
	const uint8_t *mask;
	size_t count;
};

struct block {
	float p[BLOCK] __attribute__((aligned(32)));
	float g[BLOCK] __attribute__((aligned(32)));
	size_t filled; /* valid pixels */
};

/* Packs valid pixels from *next on, and completes the last lanes with `pad_p` and `pad_g`. */
static void fill_block(
	const struct pixels *pixels, size_t *next, float pad_p, float pad_g, struct block *block)
{
	size_t filled = 0, i = *next;

	for (; i < pixels->count && filled < BLOCK; i++) {
		block->p[filled] = pixels->p[i];
		block->g[filled] = pixels->g[i];
		filled += pixels->mask[i] != 0;
	}
	*next = i;
	block->filled = filled;
	for (; filled % LANES; filled++) {
		block->p[filled] = pad_p;
		block->g[filled] = pad_g;
	}
}

static double add_lanes(const lanes *sum)
{
	return ((*sum)[0] + (*sum)[1]) + ((*sum)[2] + (*sum)[3]);
}

/* The body of a pass is compiled twice; the same operations in the same order, so the results are the same. */
#define BODY static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
static bool have_wide(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define WIDE
static bool have_wide(void)
{
	return false;
}
#endif

/* ---- least squares ---- */

struct moments {
	lanes p, g, pp, pg; /* sums of the values less the pivots */
	float pivot_p, pivot_g;
};

BODY void add_moments(struct moments *moments, const struct block *block)
{
	lanes sum_p = moments->p, sum_g = moments->g, sum_pp = moments->pp, sum_pg = moments->pg;

	for (size_t i = 0; i < block->filled; i += LANES) {
		lanes p = __builtin_convertvector(*(const lanes_float *)(block->p + i), lanes);
		lanes g = __builtin_convertvector(*(const lanes_float *)(block->g + i), lanes);

		p -= (double)moments->pivot_p;
		g -= (double)moments->pivot_g;
		sum_p += p;
		sum_g += g;
		sum_pp += p * p;
		sum_pg += p * g;
	}
	moments->p = sum_p, moments->g = sum_g, moments->pp = sum_pp, moments->pg = sum_pg;
}

WIDE static void add_moments_wide(struct moments *moments, const struct block *block)
{
	add_moments(moments, block);
}

static void add_moments_plain(struct moments *moments, const struct block *block)
{
	add_moments(moments, block);
}

/* The first valid pixel is the pivot: sums of differences lose nothing to a common offset. Returns how many are valid. */
static size_t sum_moments(const struct pixels *pixels, struct moments *moments)
{
	void (*add)(struct moments *, const struct block *) =
		have_wide() ? add_moments_wide : add_moments_plain;
	struct block block;
	size_t next = 0, total = 0;

	*moments = (struct moments){0};
	while (next < pixels->count) {
		fill_block(pixels, &next, moments->pivot_p, moments->pivot_g, &block);
		if (!total && block.filled) {
			moments->pivot_p = block.p[0];
			moments->pivot_g = block.g[0];
			for (size_t i = block.filled; i % LANES; i++) {
				block.p[i] = block.p[0];
				block.g[i] = block.g[0];
			}
		}
		total += block.filled;
		add(moments, &block);
	}
	return total;
}

/*
 * Minimises sum (s p + t - g)^2. The original takes the singular value decomposition of the columns (p, 1) and drops a singular
 * value below eps x n of the largest; both values follow from trace and determinant of the 2 x 2 normal matrix. Where one is
 * dropped the prediction is constant, and the minimum-norm solution is left.
 */
static void solve_moments(const struct moments *moments, double n, double *scale, double *shift)
{
	double sum_p = add_lanes(&moments->p), sum_g = add_lanes(&moments->g);
	double mean_p = moments->pivot_p + sum_p / n, mean_g = moments->pivot_g + sum_g / n;
	double spread = add_lanes(&moments->pp) - sum_p * sum_p / n;
	double trace = spread + n * mean_p * mean_p + n, determinant = n * spread;
	double root = sqrt(fmax(trace * trace - 4 * determinant, 0)), largest = (trace + root) / 2;
	double cut = DBL_EPSILON * n * largest;

	if (!(determinant > cut * cut)) {
		*shift = mean_g / (mean_p * mean_p + 1);
		*scale = *shift * mean_p;
		return;
	}
	*scale = (add_lanes(&moments->pg) - sum_p * sum_g / n) / spread;
	*shift = mean_g - *scale * mean_p;
}

int depth_fit(const float *prediction, const float *truth, const uint8_t *mask, size_t count, double *scale,
	double *shift)
{
	struct pixels pixels = {prediction, truth, mask, count};
	struct moments moments;
	size_t total = sum_moments(&pixels, &moments);

	if (!total)
		return error_set(STATUS_DATA, "no valid pixel to align on");
	if (!isfinite(add_lanes(&moments.pp)))
		return error_set(STATUS_DATA, "the prediction is not finite at a valid pixel");
	if (!isfinite(add_lanes(&moments.g)))
		return error_set(STATUS_DATA, "the truth is not finite at a valid pixel");
	solve_moments(&moments, (double)total, scale, shift);
	return STATUS_OK;
}

/* ---- alignment ---- */

static float clip(float value, float minimum, float maximum)
{
	value = value < minimum ? minimum : value;
	value = value > maximum ? maximum : value;
	return value < 1e-6f ? 1e-6f : value;
}

/* Scale and shift are rounded to float32 first, and the map is made in float32, as in the original. */
static int align_depth(const struct pixels *pixels, float minimum, float maximum, float *out)
{
	double scale, shift;
	int status = depth_fit(pixels->p, pixels->g, pixels->mask, pixels->count, &scale, &shift);
	float s, t;

	if (status)
		return status;
	s = (float)scale, t = (float)shift;
#pragma omp simd
	for (size_t i = 0; i < pixels->count; i++)
		out[i] = clip(pixels->p[i] * s + t, minimum, maximum);
	return STATUS_OK;
}

static int align_disparity(const struct pixels *pixels, float minimum, float maximum, float *out)
{
	size_t count = pixels->count;
	float *disparity = memory_new(count, sizeof *disparity), s, t;
	uint8_t *mask = memory_new(count, 1);
	double scale, shift;
	int status = disparity && mask ? STATUS_OK : error_status();

	if (status)
		goto out;
	for (size_t i = 0; i < count; i++) {
		float g = pixels->g[i];

		disparity[i] = g > 0 ? 1 / g : 0;
		/* What is not a number stays in, so that the fit refuses it. */
		mask[i] = pixels->mask[i] && g > 0 && !(pixels->p[i] <= 0);
	}
	status = depth_fit(pixels->p, disparity, mask, count, &scale, &shift);
	if (status)
		goto out;
	s = (float)scale, t = (float)shift;
	for (size_t i = 0; i < count; i++) {
		float inverse = pixels->p[i] * s + t;

		out[i] = clip(1 / (inverse < 1e-3f ? 1e-3f : inverse), minimum, maximum);
	}
out:
	free(disparity);
	free(mask);
	return status;
}

static int align_nothing(const struct pixels *pixels, float minimum, float maximum, float *out)
{
	for (size_t i = 0; i < pixels->count; i++)
		if (pixels->mask[i] && !isfinite(pixels->p[i]))
			return error_set(STATUS_DATA, "the prediction is not finite at a valid pixel");
	for (size_t i = 0; i < pixels->count; i++)
		out[i] = clip(pixels->p[i], minimum, maximum);
	return STATUS_OK;
}

int depth_align(enum depth_align kind, const float *prediction, const float *truth, const uint8_t *mask,
	size_t count, double minimum, double maximum, float *out)
{
	static int (*const align[])(const struct pixels *, float, float, float *) = {
		[DEPTH_ALIGN_NONE] = align_nothing,
		[DEPTH_ALIGN_LEAST_SQUARES] = align_depth,
		[DEPTH_ALIGN_DISPARITY] = align_disparity,
	};
	struct pixels pixels = {prediction, truth, mask, count};

	return align[kind](&pixels, (float)minimum, (float)maximum, out);
}

/* ---- metrics ---- */

struct sums {
	lanes relative, squared_relative, squared, logarithm, absolute_logarithm, squared_logarithm, inverse;
	lanes_int miss[3]; /* pixels whose ratio is not below 1.25, 1.25^2, 1.25^3 */
};

/* ln x of positive finite normal doubles: x = 2^k m with m in [sqrt 1/2, sqrt 2), ln m by the series of atanh. */
BODY void lanes_log(const lanes *x, lanes *logarithm)
{
	const uint64_t root_half = 0x3fe6a09e667f3bcd, exponent = 52;
	lanes_bits bits = (lanes_bits)*x;
	lanes_bits biased = (bits - root_half + ((uint64_t)1024 << exponent)) >> exponent; /* k + 1024 */
	lanes m = (lanes)(bits - ((biased - 1024) << exponent));
	lanes k = (lanes)(biased | 0x4330000000000000) - (0x1p52 + 1024); /* the mantissa of 2^52 + biased */
	lanes s = (m - 1) / (m + 1), z = s * s, sum = z * 0 + 1.0 / 21;

	sum = sum * z + 1.0 / 19;
	sum = sum * z + 1.0 / 17;
	sum = sum * z + 1.0 / 15;
	sum = sum * z + 1.0 / 13;
	sum = sum * z + 1.0 / 11;
	sum = sum * z + 1.0 / 9;
	sum = sum * z + 1.0 / 7;
	sum = sum * z + 1.0 / 5;
	sum = sum * z + 1.0 / 3;
	sum = sum * z + 1;
	*logarithm = k * 0x1.62e42feep-1 + (2 * s * sum + k * 0x1.a39ef35793c76p-33);
}

/* ln (p/g) of the block; false when a pair has no finite logarithm by this way. */
BODY bool block_logarithms(const struct block *block, double *logarithm)
{
	lanes_bits good = ~(lanes_bits){0};

	for (size_t i = 0; i < block->filled; i += LANES) {
		lanes p = __builtin_convertvector(*(const lanes_float *)(block->p + i), lanes);
		lanes g = __builtin_convertvector(*(const lanes_float *)(block->g + i), lanes);
		lanes ratio = p / g;

		good &= (lanes_bits)((ratio > 0) & (ratio < HUGE_VAL) & (p > 0));
		lanes_log(&ratio, (lanes *)(logarithm + i));
	}
	return good[0] & good[1] & good[2] & good[3];
}

BODY void add_block(struct sums *sums, const struct block *block, const double *logarithm)
{
	struct sums sum = *sums;
	const lanes_bits sign = ~(lanes_bits){0} >> 1;

	for (size_t i = 0; i < block->filled; i += LANES) {
		lanes_float pf = *(const lanes_float *)(block->p + i),
			    gf = *(const lanes_float *)(block->g + i);
		lanes_float over = pf / gf, under = gf / pf;
		lanes p = __builtin_convertvector(pf, lanes), g = __builtin_convertvector(gf, lanes);
		lanes error = p - g, inverse_g = 1 / g, apart = 1 / p - inverse_g;
		lanes d = *(const lanes *)(logarithm + i);

		sum.relative += (lanes)((lanes_bits)error & sign) * inverse_g;
		sum.squared_relative += error * error * inverse_g;
		sum.squared += error * error;
		sum.logarithm += d;
		sum.absolute_logarithm += (lanes)((lanes_bits)d & sign);
		sum.squared_logarithm += d * d;
		sum.inverse += apart * apart;
		sum.miss[0] += ~((over < 1.25f) & (under < 1.25f));
		sum.miss[1] += ~((over < 1.5625f) & (under < 1.5625f));
		sum.miss[2] += ~((over < 1.953125f) & (under < 1.953125f));
	}
	*sums = sum;
}

/* Values that a clipped prediction cannot have get what the C library says: -inf, inf or nan. */
static void repair_logarithms(const struct block *block, double *logarithm)
{
	for (size_t i = 0; i < block->filled; i++)
		logarithm[i] = log(block->p[i]) - log(block->g[i]);
}

BODY void measure_block(struct sums *sums, const struct block *block)
{
	double logarithm[BLOCK] __attribute__((aligned(32)));

	if (!block_logarithms(block, logarithm))
		repair_logarithms(block, logarithm);
	add_block(sums, block, logarithm);
}

WIDE static void measure_block_wide(struct sums *sums, const struct block *block)
{
	measure_block(sums, block);
}

static void measure_block_plain(struct sums *sums, const struct block *block)
{
	measure_block(sums, block);
}

static double share_hit(const lanes_int *miss, double n)
{
	/* A lane counts down: true is -1. */
	int64_t missed = -((int64_t)(*miss)[0] + (*miss)[1] + (*miss)[2] + (*miss)[3]);

	return (n - (double)missed) / n;
}

void depth_metrics(const float *aligned, const float *truth, const uint8_t *mask, size_t count,
	double metrics[DEPTH_METRICS])
{
	void (*measure)(struct sums *, const struct block *) =
		have_wide() ? measure_block_wide : measure_block_plain;
	struct pixels pixels = {aligned, truth, mask, count};
	struct sums sums = {0};
	struct block block;
	size_t next = 0, total = 0;
	double n, mean, variance;

	while (next < count) {
		fill_block(&pixels, &next, 1, 1, &block);
		total += block.filled;
		measure(&sums, &block);
	}
	for (int i = 0; i < DEPTH_METRICS; i++)
		metrics[i] = NAN;
	if (!total)
		return;
	n = (double)total;
	mean = add_lanes(&sums.logarithm) / n;
	variance = add_lanes(&sums.squared_logarithm) / n - mean * mean;
	metrics[0] = add_lanes(&sums.relative) / n;
	metrics[1] = add_lanes(&sums.squared_relative) / n;
	metrics[2] = sqrt(add_lanes(&sums.squared) / n);
	metrics[3] = sqrt(add_lanes(&sums.squared_logarithm) / n);
	metrics[4] = add_lanes(&sums.absolute_logarithm) / n * 0.43429448190325182765; /* log10 e */
	for (int i = 0; i < 3; i++)
		metrics[5 + i] = share_hit(&sums.miss[i], n);
	metrics[8] = sqrt(add_lanes(&sums.inverse) / n);
	metrics[9] = 100 * sqrt(variance < 0 ? 0 : variance);
}
