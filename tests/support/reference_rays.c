/* Formulas in double: noise, sampling along rays, resizing. */
#include <math.h>
#include <stdlib.h>
#include "base/random.h"
#include "reference_bodies.h"

void reference_noise(const struct call *call, double **in, double **out)
{
	struct random random = random_stream(call->scalars->seed, call->node->name);

	(void)in;
	for (size_t i = 0; i < call->out[0]->elements; i++) {
		uint32_t counter[4] = {
			(uint32_t)(i / 4), (uint32_t)call->scalars->micro, (uint32_t)call->scalars->step, 0};
		uint32_t word[4];
		float normal;

		random_philox(random.key, counter, word);
		random_normal(random, (uint64_t)call->scalars->step, (uint32_t)call->scalars->micro,
			(uint32_t)i, &normal, 1);
		out[0][i] = call->node->normal ? (double)normal : floor(ldexp(word[i % 4], -8)) / (1 << 24);
	}
}

void reference_ray_samples(const struct call *call, double **in, double **out)
{
	int64_t count = call->out[0]->dim[1];

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++) {
		const double *ray = in[0] + p / count * RAY_NUMBERS;
		double part = ((double)(p % count) + (in[1] ? in[1][p] : 0.5)) / (double)count;

		out[0][p] = call->node->background ? ray[7] / (1 - part + 1e-5)
						   : ray[6] + (ray[7] - ray[6]) * part;
	}
}

void reference_ray_points(const struct call *call, double **in, double **out)
{
	int64_t count = call->out[0]->dim[1];

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++) {
		const double *ray = in[0] + p / 3 / count * RAY_NUMBERS;

		out[0][p] = ray[p % 3] + in[1][p / 3] * ray[3 + p % 3];
	}
}

void reference_inverse_sphere(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++) {
		const double *x = in[0] + p / 4 * 3;
		double length = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);

		out[0][p] = (p % 4 == 3 ? 1 : x[p % 4]) / length;
	}
}

static double logistic(double x)
{
	return 1 / (1 + exp(-x));
}

void reference_ray_weights(const struct call *call, double **in, double **out)
{
	int64_t n = call->in[0]->dim[1];

	for (int64_t r = 0; r < call->in[0]->dim[0]; r++) {
		const double *t = in[0] + r * n, *f = in[1] + r * n;
		double left = 1;

		for (int64_t j = 0; j + 1 < n; j++) {
			double before = j ? (f[j] - f[j - 1]) / (t[j] - t[j - 1] + 1e-5) : 0,
			       d = t[j + 1] - t[j];
			double c = fmin(before, (f[j + 1] - f[j]) / (d + 1e-5)), m = (f[j] + f[j + 1]) / 2;
			double p = logistic(call->node->slope * (m - c * d / 2));
			double q = logistic(call->node->slope * (m + c * d / 2));
			double alpha = fmin(fmax((p - q) / (p + 1e-5), 0), 1);

			out[0][r * (n - 1) + j] = alpha * left;
			left *= 1 - alpha;
		}
	}
}

void reference_inverse_cdf(const struct call *call, double **in, double **out)
{
	int64_t n = call->in[0]->dim[1], m = call->out[0]->dim[1];
	double *cdf = calloc((size_t)n, sizeof(*cdf));

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++) {
		const double *t = in[0] + p / m * n, *w = in[1] + p / m * (n - 1);
		double u = ((double)(p % m) + 0.5) / (double)m, sum = 0;
		int64_t index = 0, low, high;

		for (int64_t j = 0; j + 1 < n; j++)
			sum += fabs(w[j]);
		for (int64_t j = 0; j + 1 < n; j++)
			cdf[j + 1] = cdf[j] + w[j] / fmax(sum, 1e-12);
		while (index < n && cdf[index] <= u)
			index++;
		low = index > 0 ? index - 1 : 0;
		high = index < n ? index : n - 1;
		out[0][p] = t[low] + (u - cdf[low]) / (cdf[high] - cdf[low] + 1e-8) * (t[high] - t[low]);
	}
	free(cdf);
}

/* Place of element i of a row: how many come before it. */
static int64_t place(const double *own, int64_t i, const double *other, int64_t count, bool first)
{
	int64_t before = i;

	for (int64_t j = 0; j < count; j++)
		before += first ? other[j] < own[i] : other[j] <= own[i];
	return before;
}

void reference_merge(const struct call *call, double **in, double **out)
{
	int64_t n = call->in[0]->dim[1], m = call->in[1]->dim[1];

	for (int64_t r = 0; r < call->in[0]->dim[0]; r++) {
		const double *a = in[0] + r * n, *b = in[1] + r * m;

		for (int64_t i = 0; i < n + m; i++) {
			int64_t at = r * (n + m) +
				     (i < n ? place(a, i, b, m, true) : place(b, i - n, a, n, false));

			out[0][at] = i < n ? a[i] : b[i - n];
			if (out[1])
				out[1][at] = i < n ? in[2][r * n + i] : in[3][r * m + i - n];
		}
	}
}

/* Weight of input position `at` (which may lie outside) for a centre. */
static double weight(enum resize kind, double distance)
{
	double x = fabs(distance), a = -0.75;

	if (kind == RESIZE_BILINEAR)
		return fmax(0, 1 - x);
	if (x <= 1)
		return (a + 2) * x * x * x - (a + 3) * x * x + 1;
	return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

static int64_t clamp(int64_t at, int64_t size)
{
	return at < 0 ? 0 : at >= size ? size - 1 : at;
}

void reference_resize(const struct call *call, double **in, double **out)
{
	const struct tensor *x = call->in[0], *y = call->out[0];
	int64_t c = y->dim[3];

	for (int64_t p = 0; p < (int64_t)y->elements; p++) {
		int64_t column = p / c % y->dim[2], row = p / c / y->dim[2] % y->dim[1],
			n = p / c / y->dim[2] / y->dim[1];
		double v = ((double)row + 0.5) * (double)x->dim[1] / (double)y->dim[1] - 0.5;
		double h = ((double)column + 0.5) * (double)x->dim[2] / (double)y->dim[2] - 0.5;

		for (int64_t k = 0; k < 36; k++) {
			int64_t i = (int64_t)floor(v) - 2 + k / 6, j = (int64_t)floor(h) - 2 + k % 6;
			int64_t from =
				(n * x->dim[1] + clamp(i, x->dim[1])) * x->dim[2] + clamp(j, x->dim[2]);

			out[0][p] += weight(call->node->resize, v - (double)i) *
				     weight(call->node->resize, h - (double)j) * in[0][from * c + p % c];
		}
	}
}
