/* Formulas in double: batch norm, pooling, parts of tensors, dropout, losses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "reference_bodies.h"

int32_t reference_integer(double value)
{
	float bits = (float)value;
	int32_t integer;

	memcpy(&integer, &bits, sizeof(integer));
	return integer;
}

double reference_float_of(int32_t integer)
{
	float bits;

	memcpy(&bits, &integer, sizeof(bits));
	return (double)bits;
}

/* ---- batch norm ---- */

void reference_batch_norm(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[0]), all = (int64_t)call->in[0]->elements;
	double count = (double)(all / c), *variance = calloc((size_t)c, sizeof(*variance));

	for (int64_t p = 0; p < all; p++)
		out[1][p % c] += in[4] ? in[4][p % c] / count : in[0][p] / count;
	for (int64_t p = 0; p < all; p++)
		variance[p % c] += (in[5] ? in[5][p % c] : pow(in[0][p] - out[1][p % c], 2)) / count;
	for (int64_t i = 0; i < c; i++) {
		out[2][i] = 1 / sqrt(variance[i] + call->node->norm.epsilon);
		if (out[3])
			out[3][i] = out[1][i];
		if (out[4])
			out[4][i] = variance[i] * count / (count - 1);
	}
	for (int64_t p = 0; p < all; p++) {
		double y = (in[0][p] - out[1][p % c]) * out[2][p % c] * in[1][p % c] + in[2][p % c];

		y += in[3] ? in[3][p] : 0;
		out[0][p] = call->node->norm.activation == ACTIVATION_RELU && y < 0 ? 0 : y;
	}
	free(variance);
}

/* dy through ReLU at element p. */
static double behind_relu(const struct call *call, double **in, int64_t p, int64_t i)
{
	double z = (in[0][p] - in[3][i]) * in[4][i] * in[1][i] + in[2][i];

	if (call->node->norm.activation == ACTIVATION_RELU && (in[6] ? in[6][p] : z) <= 0)
		return 0;
	return in[5][p];
}

void reference_batch_norm_backward(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[0]), all = (int64_t)call->in[0]->elements;
	double count = (double)(all / c), *sums = calloc((size_t)c, 2 * sizeof(*sums));

	for (int64_t p = 0; p < all; p++) {
		double g = behind_relu(call, in, p, p % c);

		sums[2 * (p % c)] += g;
		sums[2 * (p % c) + 1] += g * (in[0][p] - in[3][p % c]) * in[4][p % c];
	}
	for (int64_t i = 0; i < c; i++) {
		if (out[1])
			out[1][i] = sums[2 * i + 1];
		if (out[2])
			out[2][i] = sums[2 * i];
	}
	for (int64_t p = 0; p < all; p++) {
		int64_t i = p % c;
		double g = behind_relu(call, in, p, i), xhat = (in[0][p] - in[3][i]) * in[4][i];
		double through = call->node->norm.frozen ? 0 : (sums[2 * i] + xhat * sums[2 * i + 1]) / count;

		if (out[0])
			out[0][p] = in[1][i] * in[4][i] * (g - through);
		if (out[3])
			out[3][p] = g;
	}
	free(sums);
}

/* ---- pooling ---- */

/* Position of x under place `place` of the window at position p of y; -1: padding. */
static int64_t under(
	const struct pool *pool, const struct tensor *x, const struct tensor *y, int64_t p, int64_t place)
{
	int64_t position = 0, scale = 1;

	for (int axis = x->dims - 3; axis >= 0; axis--) {
		int64_t at = p % y->dim[axis + 1] * pool->stride[axis] + place % pool->kernel[axis] -
			     pool->pad_before[axis];

		if (at < 0 || at >= x->dim[axis + 1])
			return -1;
		position += at * scale;
		scale *= x->dim[axis + 1];
		p /= y->dim[axis + 1];
		place /= pool->kernel[axis];
	}
	return p * scale + position;
}

static int64_t places(const struct call *call, const struct tensor *x)
{
	int64_t count = 1;

	for (int axis = 0; axis < x->dims - 2; axis++)
		count *= call->node->pool.kernel[axis];
	return count;
}

void reference_max_pool(const struct call *call, double **in, double **out)
{
	const struct tensor *x = call->in[0], *y = call->out[0];
	int64_t c = reference_channels(x);

	for (int64_t p = 0; p < (int64_t)y->elements; p++) {
		out[0][p] = -INFINITY;
		for (int64_t place = 0; place < places(call, x); place++) {
			int64_t from = under(&call->node->pool, x, y, p / c, place);

			if (from < 0 || in[0][from * c + p % c] <= out[0][p])
				continue;
			out[0][p] = in[0][from * c + p % c];
			out[1][p] = reference_float_of((int32_t)place);
		}
	}
}

void reference_max_pool_backward(const struct call *call, double **in, double **out)
{
	const struct tensor *x = call->out[0], *y = call->in[0];
	int64_t c = reference_channels(x);

	for (int64_t p = 0; p < (int64_t)y->elements; p++)
		out[0][under(&call->node->pool, x, y, p / c, reference_integer(in[1][p])) * c + p % c] +=
			in[0][p];
}

void reference_average_pool(const struct call *call, double **in, double **out)
{
	const struct tensor *x = call->in[0], *y = call->out[0];
	int64_t c = reference_channels(x), count = places(call, x);

	for (int64_t p = 0; p < (int64_t)y->elements * count; p++) {
		int64_t at = p / count, from = under(&call->node->pool, x, y, at / c, p % count);

		if (from >= 0)
			out[0][at] += in[0][from * c + at % c] / (double)count;
	}
}

void reference_average_pool_backward(const struct call *call, double **in, double **out)
{
	const struct tensor *x = call->out[0], *y = call->in[0];
	int64_t c = reference_channels(x), count = places(call, x);

	for (int64_t p = 0; p < (int64_t)y->elements * count; p++) {
		int64_t at = p / count, from = under(&call->node->pool, x, y, at / c, p % count);

		if (from >= 0)
			out[0][from * c + at % c] += in[0][at] / (double)count;
	}
}

/* Element of [N,C] that belongs to element p of [N,...,C]. */
static int64_t pooled_at(const struct tensor *x, int64_t p)
{
	int64_t c = reference_channels(x);

	return p / ((int64_t)x->elements / x->dim[0]) * c + p % c;
}

static double positions(const struct tensor *x)
{
	return (double)(reference_rows(x) / x->dim[0]);
}

void reference_global_pool(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][pooled_at(call->in[0], p)] += in[0][p] / positions(call->in[0]);
}

void reference_global_pool_backward(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][pooled_at(call->out[0], p)] / positions(call->out[0]);
}

/* ---- parts ---- */

/* Element of the large tensor that element p of the small one is; -1: a zero channel. */
static int64_t taken_from(
	const struct call *call, const struct tensor *small, const struct tensor *large, int64_t p)
{
	int64_t c = p % reference_channels(small), position = 0, scale = 1;

	p /= reference_channels(small);
	if (c >= reference_channels(large))
		return -1;
	for (int axis = large->dims - 3; axis >= 0; axis--) {
		position += p % small->dim[axis + 1] * call->node->pool.stride[axis] * scale;
		scale *= large->dim[axis + 1];
		p /= small->dim[axis + 1];
	}
	return (p * scale + position) * reference_channels(large) + c;
}

void reference_subsample(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++) {
		int64_t from = taken_from(call, call->out[0], call->in[0], p);

		out[0][p] = from < 0 ? 0 : in[0][from];
	}
}

void reference_subsample_backward(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++) {
		int64_t from = taken_from(call, call->in[0], call->out[0], p);

		if (from >= 0)
			out[0][from] = in[0][p];
	}
}

void reference_slice(const struct call *call, double **in, double **out)
{
	int64_t all = reference_channels(call->in[0]), c = reference_channels(call->out[0]);

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][p / c * all + call->node->first + p % c];
}

void reference_slice_backward(const struct call *call, double **in, double **out)
{
	int64_t all = reference_channels(call->out[0]), c = reference_channels(call->in[0]);

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][p / c * all + call->node->first + p % c] = in[0][p];
}

void reference_dropout(const struct call *call, double **in, double **out)
{
	struct random random = random_stream(call->scalars->seed, call->node->name);

	for (size_t i = 0; i < call->out[0]->elements; i++) {
		uint32_t counter[4] = {
			(uint32_t)(i / 4), (uint32_t)call->scalars->micro, (uint32_t)call->scalars->step, 0};
		uint32_t word[4];

		random_philox(random.key, counter, word);
		if (ldexp(word[i % 4], -32) >= call->node->probability)
			out[0][i] = in[0][i] / (1 - call->node->probability);
	}
}

void reference_scale(const struct call *call, double **in, double **out)
{
	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = call->node->factor * (in[1] ? in[1][0] : 1) * in[0][i];
}

void reference_fill(const struct call *call, double **in, double **out)
{
	(void)in;
	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = call->node->value;
}

/* ---- losses ---- */

static double counted(const struct call *call, double **in)
{
	double count = 0;

	for (size_t n = 0; n < call->in[1]->elements; n++)
		count += reference_integer(in[1][n]) >= 0;
	return count;
}

static double target_of(const struct call *call, int64_t k, int64_t class)
{
	double smoothing = call->node->smoothing;

	return smoothing / (double)call->in[0]->dim[1] + (k == class ? 1 - smoothing : 0);
}

void reference_cross_entropy(const struct call *call, double **in, double **out)
{
	int64_t classes = call->in[0]->dim[1];

	for (int64_t n = 0; n < call->in[0]->dim[0]; n++) {
		const double *z = in[0] + n * classes;
		int64_t class = reference_integer(in[1][n]), rank = 0;
		double sum = 0;

		for (int64_t k = 0; k < classes; k++)
			sum += exp(z[k]);
		out[1][n] = log(sum);
		for (int64_t k = 0; k < classes && class >= 0; k++) {
			out[2][n] -= target_of(call, k, class) * (z[k] - out[1][n]);
			rank += z[k] > z[class] || (z[k] == z[class] && k < class);
		}
		out[3][n] = reference_float_of((int32_t)(class < 0 ? classes : rank));
		out[0][0] += counted(call, in) > 0 ? out[2][n] / counted(call, in) : 0;
	}
}

void reference_cross_entropy_backward(const struct call *call, double **in, double **out)
{
	int64_t classes = call->in[0]->dim[1];
	double factor = counted(call, in) > 0 ? (in[3] ? in[3][0] : 1) / counted(call, in) : 0;

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++) {
		int64_t class = reference_integer(in[1][p / classes]);

		if (class >= 0)
			out[0][p] = factor * (exp(in[0][p] - in[2][p / classes]) -
						     target_of(call, p % classes, class));
	}
}

void reference_l1(const struct call *call, double **in, double **out)
{
	double count = (double)call->in[0]->elements;

	for (size_t p = 0; p < call->in[0]->elements; p++)
		out[0][0] += fabs(in[0][p] - in[1][p]) / count;
	out[1][0] = count;
}

void reference_l1_backward(const struct call *call, double **in, double **out)
{
	for (size_t p = 0; p < call->in[0]->elements; p++)
		out[0][p] =
			(in[4] ? in[4][0] : 1) * ((in[0][p] > in[1][p]) - (in[0][p] < in[1][p])) / in[3][0];
}
