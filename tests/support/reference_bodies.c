/* The operations as plain formulas in double (lib/graph/operation.h has their contracts). */
#include <math.h>
#include <stdlib.h>
#include "reference_bodies.h"

/* ---- convolution ---- */

/* One multiplication of a convolution: y gets x * w. */
struct tap {
	int64_t x, w, y, o;
};

/* Element of x under position `tap` of the kernel at output position p, without its channel; -1 in the padding. */
static int64_t input_position(
	const struct convolution *c, const struct tensor *x, const struct tensor *y, int64_t p, int64_t tap)
{
	int64_t position = 0, scale = 1;

	for (int axis = x->dims - 3; axis >= 0; axis--) {
		int64_t at =
			p % y->dim[axis + 1] * c->stride[axis] + tap % c->kernel[axis] - c->pad_before[axis];

		if (at < 0 || at >= x->dim[axis + 1])
			return -1;
		position += at * scale;
		scale *= x->dim[axis + 1];
		p /= y->dim[axis + 1];
		tap /= c->kernel[axis];
	}
	return p * scale + position;
}

/* Calls `each` for the pairs of one output position and one position under the kernel. */
static void visit_channels(const struct convolution *c, int64_t in, int64_t out, struct tap tap,
	double **data, void (*each)(const struct tap *tap, double **data))
{
	int64_t group_in = in / c->groups, group_out = out / c->groups;
	struct tap at;

	for (at.o = 0; at.o < out; at.o++) {
		for (int64_t q = 0; q < group_in; q++) {
			at.w = (tap.w * group_in + q) * out + at.o;
			at.y = tap.y * out + at.o;
			at.x = tap.x * in + at.o / group_out * group_in + q;
			each(&at, data);
		}
	}
}

/* Calls `each` for every pair of an output element and an input element under the kernel. */
static void visit_taps(const struct convolution *c, const struct tensor *x, const struct tensor *y,
	double **data, void (*each)(const struct tap *tap, double **data))
{
	int64_t taps = 1;

	for (int axis = 0; axis < x->dims - 2; axis++)
		taps *= c->kernel[axis];
	for (int64_t p = 0; p < reference_rows(y); p++) {
		for (int64_t t = 0; t < taps; t++) {
			struct tap tap = {.x = input_position(c, x, y, p, t), .w = t, .y = p};

			if (tap.x >= 0)
				visit_channels(
					c, reference_channels(x), reference_channels(y), tap, data, each);
		}
	}
}

static void forward_tap(const struct tap *tap, double **data)
{
	data[2][tap->y] += data[0][tap->x] * data[1][tap->w];
}

static void data_tap(const struct tap *tap, double **data)
{
	data[2][tap->x] += data[0][tap->y] * data[1][tap->w];
}

static void weight_tap(const struct tap *tap, double **data)
{
	data[2][tap->w] += data[0][tap->x] * data[1][tap->y];
}

static void add_bias(const struct tensor *y, const double *bias, double *out)
{
	for (size_t p = 0; bias && p < y->elements; p++)
		out[p] += bias[p % (size_t)reference_channels(y)];
}

static void sum_bias(const struct tensor *dy, const double *in, double *bias)
{
	for (size_t p = 0; bias && p < dy->elements; p++)
		bias[p % (size_t)reference_channels(dy)] += in[p];
}

static void convolution(const struct call *call, double **in, double **out)
{
	visit_taps(&call->node->convolution, call->in[0], call->out[0], (double *[]){in[0], in[1], out[0]},
		forward_tap);
	add_bias(call->out[0], in[2], out[0]);
}

static void convolution_data(const struct call *call, double **in, double **out)
{
	visit_taps(&call->node->convolution, call->out[0], call->in[0], (double *[]){in[0], in[1], out[0]},
		data_tap);
}

static void convolution_weight(const struct call *call, double **in, double **out)
{
	visit_taps(&call->node->convolution, call->in[0], call->in[1], (double *[]){in[0], in[1], out[0]},
		weight_tap);
	sum_bias(call->in[1], in[1], out[1]);
}

/* ---- linear ---- */

/* c[i][j] += sum over k of a[i][k] b[k][j], with element strides. */
static void product(int64_t m, int64_t n, int64_t k, const double *a, const int64_t *as, const double *b,
	const int64_t *bs, double *c)
{
	for (int64_t i = 0; i < m; i++) {
		for (int64_t j = 0; j < n; j++) {
			for (int64_t l = 0; l < k; l++)
				c[i * n + j] += a[i * as[0] + l * as[1]] * b[l * bs[0] + j * bs[1]];
		}
	}
}

static void linear(const struct call *call, double **in, double **out)
{
	int64_t i = reference_channels(call->in[0]), o = reference_channels(call->out[0]);

	product(reference_rows(call->in[0]), o, i, in[0], (int64_t[]){i, 1}, in[1], (int64_t[]){o, 1},
		out[0]);
	add_bias(call->out[0], in[2], out[0]);
}

static void linear_data(const struct call *call, double **in, double **out)
{
	int64_t i = reference_channels(call->out[0]), o = reference_channels(call->in[0]);

	product(reference_rows(call->in[0]), i, o, in[0], (int64_t[]){o, 1}, in[1], (int64_t[]){1, o},
		out[0]);
}

static void linear_weight(const struct call *call, double **in, double **out)
{
	int64_t i = reference_channels(call->in[0]), o = reference_channels(call->in[1]);

	product(i, o, reference_rows(call->in[0]), in[0], (int64_t[]){1, i}, in[1], (int64_t[]){o, 1},
		out[0]);
	sum_bias(call->in[1], in[1], out[1]);
}

/* ---- activations ---- */

static double gauss(double x)
{
	return 0.5 * (1 + erf(x / sqrt(2)));
}

static double activate(enum activation activation, double x)
{
	switch (activation) {
	case ACTIVATION_RELU:
		return x > 0 ? x : 0;
	case ACTIVATION_SILU:
		return x / (1 + exp(-x));
	case ACTIVATION_GELU:
		return x * gauss(x);
	case ACTIVATION_SIGMOID:
		return 1 / (1 + exp(-x));
	case ACTIVATION_EXP:
		return exp(x);
	case ACTIVATION_ABSOLUTE:
		return fabs(x);
	case ACTIVATION_SOFTPLUS:
		return x > 20 ? x : log1p(exp(x));
	default:
		return x;
	}
}

static double slope(enum activation activation, double x)
{
	double s = 1 / (1 + exp(-x));

	switch (activation) {
	case ACTIVATION_RELU:
		return x > 0;
	case ACTIVATION_SILU:
		return s * (1 + x * (1 - s));
	case ACTIVATION_GELU:
		return gauss(x) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
	case ACTIVATION_SIGMOID:
		return s * (1 - s);
	case ACTIVATION_EXP:
		return exp(x);
	case ACTIVATION_ABSOLUTE:
		return (x > 0) - (x < 0);
	case ACTIVATION_SOFTPLUS:
		return x > 20 ? 1 : s;
	default:
		return 1;
	}
}

static double beta_of(const struct node *node)
{
	return node->activation == ACTIVATION_SOFTPLUS ? node->beta : 1;
}

static void activation(const struct call *call, double **in, double **out)
{
	double beta = beta_of(call->node);

	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = activate(call->node->activation, beta * in[0][i]) / beta;
}

static void activation_backward(const struct call *call, double **in, double **out)
{
	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = slope(call->node->activation, beta_of(call->node) * in[0][i]) * in[1][i];
}

static void geglu(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->out[0]);

	for (int64_t p = 0; p < reference_rows(call->out[0]) * c; p++) {
		const double *x = in[0] + p / c * 2 * c + p % c;

		out[0][p] = x[0] * activate(ACTIVATION_GELU, x[c]);
	}
}

static void geglu_backward(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[1]);

	for (int64_t p = 0; p < reference_rows(call->in[1]) * c; p++) {
		int64_t at = p / c * 2 * c + p % c;

		out[0][at] = in[1][p] * activate(ACTIVATION_GELU, in[0][at + c]);
		out[0][at + c] = in[1][p] * in[0][at] * slope(ACTIVATION_GELU, in[0][at + c]);
	}
}

/* ---- norms: elements of one statistic are those of a sample (or row) and a group of channels ---- */

struct norm {
	int64_t outer, positions, channels,
		width; /* samples or rows, positions in each, channels, channels a group */
};

static struct norm group_norm_of(const struct call *call)
{
	const struct tensor *x = call->in[0];

	return (struct norm){.outer = x->dim[0],
		.positions = reference_rows(x) / x->dim[0],
		.channels = reference_channels(x),
		.width = reference_channels(x) / call->node->norm.groups};
}

static struct norm layer_norm_of(const struct call *call)
{
	const struct tensor *x = call->in[0];

	return (struct norm){.outer = reference_rows(x),
		.positions = 1,
		.channels = reference_channels(x),
		.width = reference_channels(x)};
}

/* Statistic that element p belongs to. */
static int64_t statistic(const struct norm *norm, int64_t p)
{
	int64_t sample = p / norm->channels / norm->positions, group = p % norm->channels / norm->width;

	return sample * (norm->channels / norm->width) + group;
}

static void norm_forward(
	const struct call *call, const struct norm *norm, enum activation act, double **in, double **out)
{
	int64_t all = norm->outer * norm->positions * norm->channels;
	int64_t statistics = norm->outer * norm->channels / norm->width;
	double count = (double)(norm->positions * norm->width);

	for (int64_t p = 0; p < all; p++)
		out[1][statistic(norm, p)] += in[0][p] / count;
	for (int64_t p = 0; p < all; p++)
		out[2][statistic(norm, p)] += pow(in[0][p] - out[1][statistic(norm, p)], 2) / count;
	for (int64_t s = 0; s < statistics; s++)
		out[2][s] = 1 / sqrt(out[2][s] + call->node->norm.epsilon);
	for (int64_t p = 0; p < all; p++) {
		int64_t s = statistic(norm, p), c = p % norm->channels;

		out[0][p] = activate(act, (in[0][p] - out[1][s]) * out[2][s] * in[1][c] + in[2][c]);
	}
}

static void group_norm(const struct call *call, double **in, double **out)
{
	struct norm norm = group_norm_of(call);

	norm_forward(call, &norm, call->node->norm.activation, in, out);
}

static void layer_norm(const struct call *call, double **in, double **out)
{
	struct norm norm = layer_norm_of(call);

	norm_forward(call, &norm, ACTIVATION_NONE, in, out);
}

/* With u = xhat gamma + beta and du = dy act'(u). */
static void norm_backward(const struct norm *norm, enum activation act, const double *x, const double *gamma,
	const double *beta, const double *mean, const double *rstd, const double *dy, double **out)
{
	int64_t all = norm->outer * norm->positions * norm->channels;
	int64_t statistics = norm->outer * norm->channels / norm->width;
	double count = (double)(norm->positions * norm->width);
	double *sums = calloc((size_t)statistics * 2, sizeof(*sums));

	for (int pass = 0; pass < 2; pass++) {
		for (int64_t p = 0; p < all; p++) {
			int64_t s = statistic(norm, p), c = p % norm->channels;
			double xhat = (x[p] - mean[s]) * rstd[s];
			double du = dy[p] * slope(act, xhat * gamma[c] + (beta ? beta[c] : 0));

			if (pass == 0) {
				out[1][c] += du * xhat;
				out[2][c] += du;
				sums[2 * s] += du * gamma[c] / count;
				sums[2 * s + 1] += du * gamma[c] * xhat / count;
			} else {
				out[0][p] = rstd[s] * (du * gamma[c] - sums[2 * s] - xhat * sums[2 * s + 1]);
			}
		}
	}
	free(sums);
}

static void group_norm_backward(const struct call *call, double **in, double **out)
{
	struct norm norm = group_norm_of(call);

	norm_backward(&norm, call->node->norm.activation, in[0], in[1], in[2], in[3], in[4], in[5], out);
}

static void layer_norm_backward(const struct call *call, double **in, double **out)
{
	struct norm norm = layer_norm_of(call);

	norm_backward(&norm, ACTIVATION_NONE, in[0], in[1], NULL, in[2], in[3], in[4], out);
}

/* ---- attention ---- */

struct attention {
	int64_t samples, queries, keys, width, heads, size;
	double scale;
};

static struct attention attention_of(const struct call *call)
{
	const struct tensor *q = call->in[0], *k = call->in[1];
	int64_t heads = call->node->attention.heads, size = q->dim[2] / heads;

	return (struct attention){
		q->dim[0], q->dim[1], k->dim[1], q->dim[2], heads, size, 1 / sqrt((double)size)};
}

/* Keys that query t sees. */
static int64_t seen(const struct call *call, const struct attention *a, int64_t t)
{
	return call->node->attention.causal ? t + 1 : a->keys;
}

/* First element of a token's part for one head. */
static int64_t part(const struct attention *a, int64_t tokens, int64_t n, int64_t h, int64_t token)
{
	return (n * tokens + token) * a->width + h * a->size;
}

static double dot(const double *a, const double *b, int64_t count)
{
	double sum = 0;

	for (int64_t i = 0; i < count; i++)
		sum += a[i] * b[i];
	return sum;
}

static void attention(const struct call *call, double **in, double **out)
{
	struct attention a = attention_of(call);

	for (int64_t i = 0; i < a.samples * a.heads * a.queries; i++) {
		int64_t n = i / a.queries / a.heads, h = i / a.queries % a.heads, t = i % a.queries;
		const double *q = in[0] + part(&a, a.queries, n, h, t);
		double *o = out[0] + part(&a, a.queries, n, h, t), sum = 0, top = -INFINITY;

		for (int64_t s = 0; s < seen(call, &a, t); s++)
			top = fmax(top, a.scale * dot(q, in[1] + part(&a, a.keys, n, h, s), a.size));
		for (int64_t s = 0; s < seen(call, &a, t); s++) {
			double p = exp(a.scale * dot(q, in[1] + part(&a, a.keys, n, h, s), a.size) - top);

			sum += p;
			for (int64_t d = 0; d < a.size; d++)
				o[d] += p * in[2][part(&a, a.keys, n, h, s) + d];
		}
		for (int64_t d = 0; d < a.size; d++)
			o[d] /= sum;
		out[1][i] = top + log(sum);
	}
}

/* inputs q, k, v, o, lse, do. */
static void attention_backward(const struct call *call, double **in, double **out)
{
	struct attention a = attention_of(call);

	for (int64_t i = 0; i < a.samples * a.heads * a.queries; i++) {
		int64_t n = i / a.queries / a.heads, h = i / a.queries % a.heads, t = i % a.queries;
		int64_t at = part(&a, a.queries, n, h, t);
		double delta = dot(in[3] + at, in[5] + at, a.size);

		for (int64_t s = 0; s < seen(call, &a, t); s++) {
			int64_t key = part(&a, a.keys, n, h, s);
			double p = exp(a.scale * dot(in[0] + at, in[1] + key, a.size) - in[4][i]);
			double ds = p * (dot(in[5] + at, in[2] + key, a.size) - delta) * a.scale;

			for (int64_t d = 0; d < a.size; d++) {
				out[0][at + d] += ds * in[1][key + d];
				out[1][key + d] += ds * in[0][at + d];
				out[2][key + d] += p * in[5][at + d];
			}
		}
	}
}

/* ---- moving and adding ---- */

static void add(const struct call *call, double **in, double **out)
{
	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = in[0][i] + in[1][i];
}

static void copy(const struct call *call, double **in, double **out)
{
	for (size_t i = 0; i < call->out[0]->elements; i++)
		out[0][i] = in[0][i];
}

/* Element of v [N,C] that belongs to element p of x [N,...,C]. */
static int64_t channel_of(const struct tensor *x, int64_t p)
{
	int64_t c = reference_channels(x), sample = (int64_t)x->elements / x->dim[0];

	return p / sample * c + p % c;
}

static void add_channels(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][p] + in[1][channel_of(call->out[0], p)];
}

static void channel_sum(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][channel_of(call->in[0], p)] += in[0][p];
}

static void concat(const struct call *call, double **in, double **out)
{
	int64_t a = reference_channels(call->in[0]), b = reference_channels(call->in[1]);

	for (int64_t p = 0; p < reference_rows(call->out[0]) * (a + b); p++) {
		int64_t row = p / (a + b), c = p % (a + b);

		out[0][p] = c < a ? in[0][row * a + c] : in[1][row * b + c - a];
	}
}

static void concat_backward(const struct call *call, double **in, double **out)
{
	int64_t all = reference_channels(call->in[0]);
	int64_t a = call->out[0] ? reference_channels(call->out[0]) : all - reference_channels(call->out[1]);

	for (int64_t p = 0; p < reference_rows(call->in[0]) * all; p++) {
		int64_t row = p / all, c = p % all;

		if (c < a && out[0])
			out[0][row * a + c] = in[0][p];
		if (c >= a && out[1])
			out[1][row * (all - a) + c - a] = in[0][p];
	}
}

/* Element of the small image that element p of the large one is a copy of. */
static int64_t nearest(const struct tensor *large, const struct tensor *small, int64_t p)
{
	int64_t c = reference_channels(large), w = large->dim[2], h = large->dim[1];
	int64_t column = p / c % w, row = p / c / w % h, n = p / c / w / h;

	return ((n * small->dim[1] + row * small->dim[1] / h) * small->dim[2] + column * small->dim[2] / w) *
		       c +
	       p % c;
}

static void upsample(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][nearest(call->out[0], call->in[0], p)];
}

static void upsample_backward(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][nearest(call->in[0], call->out[0], p)] += in[0][p];
}

static void timestep_embedding(const struct call *call, double **in, double **out)
{
	int64_t width = reference_channels(call->out[0]), half = width / 2;

	for (int64_t p = 0; p < reference_rows(call->out[0]) * width; p++) {
		double angle = in[0][p / width] * exp(-log(10000) * (double)(p % half) / (double)half);

		out[0][p] = p % width < half ? cos(angle) : sin(angle);
	}
}

/* ---- loss ---- */

static double selected(const struct call *call, double **in, int64_t p)
{
	return in[2] ? in[2][p / reference_channels(call->in[0])] : 1;
}

static void masked_mse(const struct call *call, double **in, double **out)
{
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++) {
		out[0][0] += selected(call, in, p) * pow(in[0][p] - in[1][p], 2);
		out[1][0] += selected(call, in, p);
	}
	out[0][0] = out[1][0] > 0 ? out[0][0] / out[1][0] : 0;
}

static void masked_mse_backward(const struct call *call, double **in, double **out)
{
	double factor = in[3][0] > 0 ? 2 * (in[4] ? in[4][0] : 1) / in[3][0] : 0;

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][p] = factor * selected(call, in, p) * (in[0][p] - in[1][p]);
}

reference_body *const reference_bodies[OP_COUNT] = {
	[OP_CONVOLUTION] = convolution,
	[OP_CONVOLUTION_DATA] = convolution_data,
	[OP_CONVOLUTION_WEIGHT] = convolution_weight,
	[OP_LINEAR] = linear,
	[OP_LINEAR_DATA] = linear_data,
	[OP_LINEAR_WEIGHT] = linear_weight,
	[OP_GROUP_NORM] = group_norm,
	[OP_GROUP_NORM_BACKWARD] = group_norm_backward,
	[OP_LAYER_NORM] = layer_norm,
	[OP_LAYER_NORM_BACKWARD] = layer_norm_backward,
	[OP_ATTENTION] = attention,
	[OP_ATTENTION_BACKWARD] = attention_backward,
	[OP_GEGLU] = geglu,
	[OP_GEGLU_BACKWARD] = geglu_backward,
	[OP_ACTIVATION] = activation,
	[OP_ACTIVATION_BACKWARD] = activation_backward,
	[OP_ADD] = add,
	[OP_COPY] = copy,
	[OP_ADD_CHANNELS] = add_channels,
	[OP_CHANNEL_SUM] = channel_sum,
	[OP_CONCAT] = concat,
	[OP_CONCAT_BACKWARD] = concat_backward,
	[OP_UPSAMPLE] = upsample,
	[OP_UPSAMPLE_BACKWARD] = upsample_backward,
	[OP_TIMESTEP_EMBEDDING] = timestep_embedding,
	[OP_MASKED_MSE] = masked_mse,
	[OP_MASKED_MSE_BACKWARD] = masked_mse_backward,
	[OP_L1] = reference_l1,
	[OP_L1_BACKWARD] = reference_l1_backward,
	[OP_BATCH_NORM] = reference_batch_norm,
	[OP_BATCH_NORM_BACKWARD] = reference_batch_norm_backward,
	[OP_MAX_POOL] = reference_max_pool,
	[OP_MAX_POOL_BACKWARD] = reference_max_pool_backward,
	[OP_AVERAGE_POOL] = reference_average_pool,
	[OP_AVERAGE_POOL_BACKWARD] = reference_average_pool_backward,
	[OP_GLOBAL_POOL] = reference_global_pool,
	[OP_GLOBAL_POOL_BACKWARD] = reference_global_pool_backward,
	[OP_SUBSAMPLE] = reference_subsample,
	[OP_SUBSAMPLE_BACKWARD] = reference_subsample_backward,
	[OP_SLICE] = reference_slice,
	[OP_SLICE_BACKWARD] = reference_slice_backward,
	[OP_DROPOUT] = reference_dropout,
	[OP_SCALE] = reference_scale,
	[OP_FILL] = reference_fill,
	[OP_CROSS_ENTROPY] = reference_cross_entropy,
	[OP_CROSS_ENTROPY_BACKWARD] = reference_cross_entropy_backward,
	[OP_WEIGHT_NORM] = reference_weight_norm,
	[OP_WEIGHT_NORM_BACKWARD] = reference_weight_norm_backward,
	[OP_GATHER] = reference_gather,
	[OP_GATHER_BACKWARD] = reference_gather_backward,
	[OP_REPEAT] = reference_repeat,
	[OP_NORMALISE] = reference_normalise,
	[OP_NORMALISE_BACKWARD] = reference_normalise_backward,
	[OP_REDUCE] = reference_reduce,
	[OP_REDUCE_BACKWARD] = reference_reduce_backward,
	[OP_FOURIER] = reference_fourier,
	[OP_FOURIER_BACKWARD] = reference_fourier_backward,
	[OP_SPHERICAL_HARMONICS] = reference_spherical_harmonics,
	[OP_SPHERICAL_HARMONICS_BACKWARD] = reference_spherical_harmonics_backward,
	[OP_HASH_GRID] = reference_hash_grid,
	[OP_HASH_GRID_BACKWARD] = reference_hash_grid_backward,
	[OP_STENCIL] = reference_stencil,
	[OP_STENCIL_BACKWARD] = reference_stencil_backward,
	[OP_RENDER] = reference_render,
	[OP_RENDER_BACKWARD] = reference_render_backward,
	[OP_EIKONAL] = reference_eikonal,
	[OP_EIKONAL_BACKWARD] = reference_eikonal_backward,
	[OP_CURVATURE] = reference_curvature,
	[OP_CURVATURE_BACKWARD] = reference_curvature_backward,
	[OP_STENCIL_POINTS] = reference_stencil_points,
	[OP_NOISE] = reference_noise,
	[OP_RAY_SAMPLES] = reference_ray_samples,
	[OP_RAY_POINTS] = reference_ray_points,
	[OP_INVERSE_SPHERE] = reference_inverse_sphere,
	[OP_RAY_WEIGHTS] = reference_ray_weights,
	[OP_INVERSE_CDF] = reference_inverse_cdf,
	[OP_MERGE] = reference_merge,
	[OP_RESIZE] = reference_resize,
};
