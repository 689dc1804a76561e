/*
 * Every operation once more, in double, by its definition and without any cleverness: what tests/cpu.c compares with.
 * Gradients are written from the derivative of the definition, element by element.
 */
#ifndef NIGHTSHIFT_TESTS_CPU_REFERENCE_H
#define NIGHTSHIFT_TESTS_CPU_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/operation.h"

__attribute__((unused)) static double random_value(uint64_t *state)
{
	double sum = 0;
	for (int i = 0; i < 4; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		sum += (double)(*state >> 11) * 0x1p-53;
	}
	return (sum - 2) * 1.7; /* near normal, deviation 1 */
}

struct reference_call {
	const struct node *node;
	const struct tensor *in[NODE_INPUTS], *out[NODE_OUTPUTS];
	const double *x[NODE_INPUTS];
	double *y[NODE_OUTPUTS]; /* zeroed */
};

static int64_t last(const struct tensor *t)
{
	return t->dim[t->dims - 1];
}

static double normal_distribution(double x)
{
	return 0.5 * erfc(-x / sqrt(2.0));
}

static double reference_activate(enum activation kind, double x)
{
	switch (kind) {
	case ACTIVATION_RELU:
		return x > 0 ? x : 0;
	case ACTIVATION_SILU:
		return x / (1 + exp(-x));
	case ACTIVATION_GELU:
		return x * normal_distribution(x);
	case ACTIVATION_SIGMOID:
		return 1 / (1 + exp(-x));
	default:
		return x;
	}
}

static double reference_slope(enum activation kind, double x)
{
	double s = 1 / (1 + exp(-x));
	switch (kind) {
	case ACTIVATION_RELU:
		return x > 0;
	case ACTIVATION_SILU:
		return s + x * s * (1 - s);
	case ACTIVATION_GELU:
		return normal_distribution(x) + x * exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
	case ACTIVATION_SIGMOID:
		return s * (1 - s);
	default:
		return 1;
	}
}

/* One visit for each pair of an input and an output element that a weight joins. */
static void reference_convolution(const struct reference_call *r, enum operation pass)
{
	const struct convolution *v = &r->node->convolution;
	const struct tensor *x = pass == OP_CONVOLUTION_DATA ? r->out[0] : r->in[0];
	const struct tensor *y = pass == OP_CONVOLUTION        ? r->out[0]
				 : pass == OP_CONVOLUTION_DATA ? r->in[0]
							       : r->in[1];
	const int64_t groups = v->groups ? v->groups : 1, cg = x->dim[3] / groups, og = y->dim[3] / groups;
	const int64_t sh = v->stride[0] ? v->stride[0] : 1, sw = v->stride[1] ? v->stride[1] : 1;
	for (int64_t n = 0; n < x->dim[0]; n++)
		for (int64_t h = 0; h < y->dim[1]; h++)
			for (int64_t w = 0; w < y->dim[2]; w++)
				for (int64_t o = 0; o < y->dim[3]; o++) {
					int64_t yi = ((n * y->dim[1] + h) * y->dim[2] + w) * y->dim[3] + o;
					if (pass == OP_CONVOLUTION && r->x[2])
						r->y[0][yi] += r->x[2][o];
					if (pass == OP_CONVOLUTION_WEIGHT && r->y[1])
						r->y[1][o] += r->x[1][yi];
					for (int64_t i = 0; i < v->kernel[0]; i++)
						for (int64_t j = 0; j < v->kernel[1]; j++)
							for (int64_t c = 0; c < cg; c++) {
								int64_t ih = h * sh + i - v->pad_before[0],
									iw = w * sw + j - v->pad_before[1];
								if (ih < 0 || ih >= x->dim[1] || iw < 0 ||
									iw >= x->dim[2])
									continue;
								int64_t xi =
									((n * x->dim[1] + ih) * x->dim[2] +
										iw) *
										x->dim[3] +
									o / og * cg + c;
								int64_t wi =
									((i * v->kernel[1] + j) * cg + c) *
										y->dim[3] +
									o;
								if (pass == OP_CONVOLUTION)
									r->y[0][yi] +=
										r->x[0][xi] * r->x[1][wi];
								else if (pass == OP_CONVOLUTION_DATA)
									r->y[0][xi] +=
										r->x[0][yi] * r->x[1][wi];
								else
									r->y[0][wi] +=
										r->x[0][xi] * r->x[1][yi];
							}
				}
}

static void reference_linear(const struct reference_call *r, enum operation pass)
{
	const struct tensor *x = pass == OP_LINEAR_DATA ? r->out[0] : r->in[0];
	const struct tensor *y = pass == OP_LINEAR ? r->out[0] : pass == OP_LINEAR_DATA ? r->in[0] : r->in[1];
	const int64_t in = last(x), out = last(y), rows = (int64_t)x->elements / in;
	for (int64_t i = 0; i < rows; i++)
		for (int64_t o = 0; o < out; o++) {
			if (pass == OP_LINEAR && r->x[2])
				r->y[0][i * out + o] += r->x[2][o];
			if (pass == OP_LINEAR_WEIGHT && r->y[1])
				r->y[1][o] += r->x[1][i * out + o];
			for (int64_t c = 0; c < in; c++) {
				if (pass == OP_LINEAR)
					r->y[0][i * out + o] += r->x[0][i * in + c] * r->x[1][c * out + o];
				else if (pass == OP_LINEAR_DATA)
					r->y[0][i * in + c] += r->x[0][i * out + o] * r->x[1][c * out + o];
				else
					r->y[0][c * out + o] += r->x[0][i * in + c] * r->x[1][i * out + o];
			}
		}
}

/* A set of elements that share mean and variance: `count` of them, element e at index(e). */
struct norm_set {
	int64_t start, outer, outer_step, inner; /* index = start + (e / inner) * outer_step + e % inner */
};

static int64_t set_index(const struct norm_set *s, int64_t e)
{
	return s->start + e / s->inner * s->outer_step + e % s->inner;
}

static void set_statistics(
	const struct norm_set *s, const double *x, double epsilon, double *mean, double *rstd)
{
	const int64_t count = s->outer * s->inner;
	double sum = 0, square = 0;
	for (int64_t e = 0; e < count; e++)
		sum += x[set_index(s, e)];
	*mean = sum / (double)count;
	for (int64_t e = 0; e < count; e++)
		square += pow(x[set_index(s, e)] - *mean, 2);
	*rstd = 1 / sqrt(square / (double)count + epsilon);
}

static void set_forward(const struct norm_set *s, const struct reference_call *r, enum activation kind,
	double epsilon, int64_t set)
{
	const int64_t channels = last(r->in[0]);
	double mean, rstd;
	set_statistics(s, r->x[0], epsilon, &mean, &rstd);
	r->y[1][set] = mean;
	r->y[2][set] = rstd;
	for (int64_t e = 0; e < s->outer * s->inner; e++) {
		int64_t i = set_index(s, e), c = i % channels;
		r->y[0][i] = reference_activate(kind, (r->x[0][i] - mean) * rstd * r->x[1][c] + r->x[2][c]);
	}
}

/* d loss / d x_i = sum over e of d loss / d normal_e * d normal_e / d x_i, the whole Jacobian. */
static void set_backward(const struct norm_set *s, const struct reference_call *r, const double *dy,
	const double *beta, enum activation kind, double epsilon)
{
	const int64_t channels = last(r->in[0]), count = s->outer * s->inner;
	const double *x = r->x[0], *gamma = r->x[1];
	double mean, rstd, *g = calloc((size_t)count, sizeof *g);
	set_statistics(s, x, epsilon, &mean, &rstd);
	for (int64_t e = 0; e < count; e++) {
		int64_t i = set_index(s, e), c = i % channels;
		double normal = (x[i] - mean) * rstd;
		double inner = dy[i] * reference_slope(kind, normal * gamma[c] + (beta ? beta[c] : 0));
		r->y[1][c] += inner * normal;
		r->y[2][c] += inner;
		g[e] = inner * gamma[c];
	}
	for (int64_t a = 0; a < count; a++) {
		int64_t i = set_index(s, a);
		for (int64_t e = 0; e < count; e++) {
			double normal_a = (x[i] - mean) * rstd, normal_e = (x[set_index(s, e)] - mean) * rstd;
			r->y[0][i] += g[e] * rstd * ((a == e) - (1 + normal_a * normal_e) / (double)count);
		}
	}
	free(g);
}

static void reference_norm(const struct reference_call *r, enum operation operation)
{
	const struct tensor *x = r->in[0];
	const bool group = operation == OP_GROUP_NORM || operation == OP_GROUP_NORM_BACKWARD;
	const int64_t channels = last(x), groups = group ? r->node->norm.groups : 1;
	const int64_t batch = group ? x->dim[0] : (int64_t)x->elements / channels,
		      each = (int64_t)x->elements / batch;
	for (int64_t i = 0; i < batch * groups; i++) {
		const struct norm_set set = {.start = i / groups * each + i % groups * (channels / groups),
			.outer = each / channels,
			.outer_step = channels,
			.inner = channels / groups};
		const enum activation kind = group ? r->node->norm.activation : ACTIVATION_NONE;
		if (operation == OP_GROUP_NORM || operation == OP_LAYER_NORM)
			set_forward(&set, r, kind, r->node->norm.epsilon, i);
		else
			set_backward(&set, r, r->x[group ? 5 : 4], group ? r->x[2] : NULL, kind,
				r->node->norm.epsilon);
	}
}

/* Probabilities of one query of one head; returns its log-sum-exp. */
static double reference_probabilities(
	const struct reference_call *r, int64_t n, int64_t head, int64_t t, double *p)
{
	const int64_t row = r->in[0]->dim[2], width = row / r->node->attention.heads, keys = r->in[1]->dim[1];
	const double *q = r->x[0] + (n * r->in[0]->dim[1] + t) * row + head * width;
	double sum = 0;
	for (int64_t s = 0; s < keys; s++) {
		const double *k = r->x[1] + (n * keys + s) * row + head * width;
		p[s] = 0;
		for (int64_t d = 0; d < width; d++)
			p[s] += q[d] * k[d];
		p[s] = exp(p[s] / sqrt((double)width));
		sum += p[s];
	}
	for (int64_t s = 0; s < keys; s++)
		p[s] /= sum;
	return log(sum);
}

/* Gradients through one query's softmax. */
static void reference_attention_backward(
	const struct reference_call *r, int64_t n, int64_t head, int64_t t, const double *p)
{
	const int64_t row = r->in[0]->dim[2], width = row / r->node->attention.heads, keys = r->in[1]->dim[1];
	const int64_t at = (n * r->in[0]->dim[1] + t) * row + head * width,
		      keys_at = n * keys * row + head * width;
	double mean = 0, *dp = calloc((size_t)keys, sizeof *dp);
	for (int64_t s = 0; s < keys; s++) {
		for (int64_t d = 0; d < width; d++)
			dp[s] += r->x[5][at + d] * r->x[2][keys_at + s * row + d];
		mean += p[s] * dp[s];
	}
	for (int64_t s = 0; s < keys; s++) {
		double ds = p[s] * (dp[s] - mean) / sqrt((double)width);
		for (int64_t d = 0; d < width; d++) {
			r->y[0][at + d] += ds * r->x[1][keys_at + s * row + d];
			r->y[1][keys_at + s * row + d] += ds * r->x[0][at + d];
			r->y[2][keys_at + s * row + d] += p[s] * r->x[5][at + d];
		}
	}
	free(dp);
}

static void reference_attention(const struct reference_call *r, enum operation operation)
{
	const int64_t row = r->in[0]->dim[2], tokens = r->in[0]->dim[1], heads = r->node->attention.heads;
	const int64_t keys = r->in[1]->dim[1], width = row / heads;
	double *p = calloc((size_t)keys, sizeof *p);
	for (int64_t i = 0; i < r->in[0]->dim[0] * heads * tokens; i++) {
		const int64_t t = i % tokens, head = i / tokens % heads, n = i / tokens / heads;
		double lse = reference_probabilities(r, n, head, t, p);
		if (operation == OP_ATTENTION_BACKWARD) {
			reference_attention_backward(r, n, head, t, p);
			continue;
		}
		r->y[1][i] = lse;
		for (int64_t s = 0; s < keys; s++)
			for (int64_t d = 0; d < width; d++)
				r->y[0][(n * tokens + t) * row + head * width + d] +=
					p[s] * r->x[2][(n * keys + s) * row + head * width + d];
	}
	free(p);
}

static void reference_geglu(const struct reference_call *r, bool backward)
{
	const int64_t width = last(r->in[0]) / 2, rows = (int64_t)r->in[0]->elements / (2 * width);
	for (int64_t i = 0; i < rows * width; i++) {
		const int64_t at = i / width * 2 * width + i % width;
		const double a = r->x[0][at], g = r->x[0][at + width];
		if (!backward) {
			r->y[0][i] = a * reference_activate(ACTIVATION_GELU, g);
			continue;
		}
		r->y[0][at] = r->x[1][i] * reference_activate(ACTIVATION_GELU, g);
		r->y[0][at + width] = r->x[1][i] * a * reference_slope(ACTIVATION_GELU, g);
	}
}

static void reference_upsample(const struct reference_call *r, bool backward)
{
	const struct tensor *x = backward ? r->out[0] : r->in[0], *y = backward ? r->in[0] : r->out[0];
	for (int64_t i = 0; i < (int64_t)y->elements; i++) {
		const int64_t c = i % y->dim[3], w = i / y->dim[3] % y->dim[2],
			      h = i / y->dim[3] / y->dim[2] % y->dim[1];
		const int64_t n = i / y->dim[3] / y->dim[2] / y->dim[1];
		const int64_t ih = h * x->dim[1] / y->dim[1], iw = w * x->dim[2] / y->dim[2];
		const int64_t from = ((n * x->dim[1] + ih) * x->dim[2] + iw) * x->dim[3] + c;
		if (backward)
			r->y[0][from] += r->x[0][i];
		else
			r->y[0][i] = r->x[0][from];
	}
}

/* ADD_CHANNELS, CHANNEL_SUM, CONCAT and its gradient. */
static void reference_channels(const struct reference_call *r, enum operation operation)
{
	const struct tensor *whole = operation == OP_CONCAT ? r->out[0] : r->in[0];
	const int64_t channels = last(whole), each = (int64_t)whole->elements / whole->dim[0];
	const bool concat = operation == OP_CONCAT || operation == OP_CONCAT_BACKWARD;
	const int64_t a = !concat                  ? 0
			  : operation == OP_CONCAT ? last(r->in[0])
			  : r->out[0]              ? last(r->out[0])
						   : channels - last(r->out[1]);
	for (int64_t i = 0; i < (int64_t)whole->elements; i++) {
		const int64_t c = i % channels, row = i / channels, v = i / each * channels + c;
		const int side = c >= a;
		const int64_t part = side ? row * (channels - a) + c - a : row * a + c;
		if (operation == OP_ADD_CHANNELS)
			r->y[0][i] = r->x[0][i] + r->x[1][v];
		else if (operation == OP_CHANNEL_SUM)
			r->y[0][v] += r->x[0][i];
		else if (operation == OP_CONCAT)
			r->y[0][i] = r->x[side][part];
		else if (r->y[side])
			r->y[side][part] = r->x[0][i];
	}
}

static void reference_masked_mse(const struct reference_call *r, bool backward)
{
	const int64_t columns = (int64_t)(r->in[0]->elements / r->in[2]->elements);
	double sum = 0, count = 0;
	for (int64_t i = 0; i < (int64_t)r->in[0]->elements; i++) {
		double selected = r->x[2][i / columns], difference = r->x[0][i] - r->x[1][i];
		sum += selected * difference * difference;
		count += selected;
	}
	for (int64_t i = 0; i < (int64_t)r->in[0]->elements && backward && count > 0; i++)
		r->y[0][i] = 2 * r->x[2][i / columns] * (r->x[0][i] - r->x[1][i]) / count;
	if (!backward) {
		r->y[0][0] = count > 0 ? sum / count : 0;
		r->y[1][0] = count;
	}
}

static void reference_elementwise(const struct reference_call *r, enum operation operation)
{
	for (int64_t i = 0; i < (int64_t)r->out[0]->elements; i++) {
		const double x = r->x[0][i];
		if (operation == OP_ACTIVATION)
			r->y[0][i] = reference_activate(r->node->activation, x);
		else if (operation == OP_ACTIVATION_BACKWARD)
			r->y[0][i] = r->x[1][i] * reference_slope(r->node->activation, x);
		else
			r->y[0][i] = operation == OP_ADD ? x + r->x[1][i] : x;
	}
}

static void reference_timestep(const struct reference_call *r)
{
	const int64_t width = last(r->out[0]), half_width = width / 2;
	for (int64_t i = 0; i < (int64_t)r->out[0]->elements; i++) {
		const int64_t n = i / width, j = i % width;
		const double angle =
			r->x[0][n] * pow(10000.0, -(double)(j % half_width) / (double)half_width);
		r->y[0][i] = j >= 2 * half_width ? 0 : j < half_width ? cos(angle) : sin(angle);
	}
}

__attribute__((unused)) static void reference_run(const struct reference_call *r)
{
	const enum operation operation = r->node->operation;
	switch (operation) {
	case OP_CONVOLUTION:
	case OP_CONVOLUTION_DATA:
	case OP_CONVOLUTION_WEIGHT:
		reference_convolution(r, operation);
		break;
	case OP_LINEAR:
	case OP_LINEAR_DATA:
	case OP_LINEAR_WEIGHT:
		reference_linear(r, operation);
		break;
	case OP_GROUP_NORM:
	case OP_GROUP_NORM_BACKWARD:
	case OP_LAYER_NORM:
	case OP_LAYER_NORM_BACKWARD:
		reference_norm(r, operation);
		break;
	case OP_ATTENTION:
	case OP_ATTENTION_BACKWARD:
		reference_attention(r, operation);
		break;
	case OP_GEGLU:
	case OP_GEGLU_BACKWARD:
		reference_geglu(r, operation == OP_GEGLU_BACKWARD);
		break;
	case OP_UPSAMPLE:
	case OP_UPSAMPLE_BACKWARD:
		reference_upsample(r, operation == OP_UPSAMPLE_BACKWARD);
		break;
	case OP_ADD_CHANNELS:
	case OP_CHANNEL_SUM:
	case OP_CONCAT:
	case OP_CONCAT_BACKWARD:
		reference_channels(r, operation);
		break;
	case OP_MASKED_MSE:
	case OP_MASKED_MSE_BACKWARD:
		reference_masked_mse(r, operation == OP_MASKED_MSE_BACKWARD);
		break;
	case OP_TIMESTEP_EMBEDDING:
		reference_timestep(r);
		break;
	default:
		reference_elementwise(r, operation);
	}
}

#endif
