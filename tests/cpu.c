/*
 * The CPU back end by itself: every operation against its formula in double (support/reference_bodies.c), on every instruction
 * set this processor has, with bits that do not depend on the number of threads, adding to old values where asked.
 * Shapes are odd on purpose: ragged panels, tails, windows and chains.
 */
#include <stdint.h>

#include "check.h"
#include "cpu/cpu.h"
#include "support/reference_bodies.h"

/* A case: dims of each tensor, ending with 0. */
struct trial {
	const char *name;
	struct node node;
	int64_t in[NODE_INPUTS][TENSOR_DIMS + 1], out[NODE_OUTPUTS][TENSOR_DIMS + 1];
	double tolerance; /* of the largest element; 0: 2e-6 */
};

static double random_value(uint64_t *state)
{
	double sum = 0;
	for (int i = 0; i < 4; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		sum += (double)(*state >> 11) * 0x1p-53;
	}
	return (sum - 2) * 1.7; /* near normal, deviation 1 */
}

static void tensor_set(struct tensor *tensor, const int64_t *dim)
{
	tensor->type = TENSOR_F32;
	tensor->elements = 1;
	while (dim[tensor->dims]) {
		tensor->dim[tensor->dims] = dim[tensor->dims];
		tensor->elements *= (size_t)dim[tensor->dims++];
	}
	tensor->bytes = tensor->elements * sizeof(float);
}

/* Tensors, inputs and old outputs of a trial, and what they should become. */
struct bench {
	const struct trial *trial;
	struct tensor in[NODE_INPUTS], out[NODE_OUTPUTS];
	float *x[NODE_INPUTS], *before[NODE_OUTPUTS], *y[NODE_OUTPUTS], *first[NODE_OUTPUTS];
	double *expected[NODE_OUTPUTS];
};

/* The formula's outputs for `node` and these inputs, into doubles; `in` may differ from the trial's. */
static void reference_run(const struct node *node, const struct tensor *const in[], float *const x[],
	const struct tensor *const out[], double *y[])
{
	struct call call = {.node = node};
	double *data[NODE_INPUTS] = {0};
	for (int i = 0; i < NODE_INPUTS; i++) {
		if (!x[i])
			continue;
		call.in[i] = in[i];
		data[i] = calloc(in[i]->elements, sizeof(double));
		for (size_t e = 0; e < in[i]->elements; e++)
			data[i][e] = x[i][e];
	}
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		call.out[i] = out[i];
		if (out[i])
			memset(y[i], 0, out[i]->elements * sizeof(double));
	}
	reference_bodies[node->operation](&call, data, y);
	for (int i = 0; i < NODE_INPUTS; i++)
		free(data[i]);
}

/* What the forward pass saved for a gradient must be true: input `at` is forward output `from`, and so on. */
static void forward_inputs(struct bench *b, enum operation forward, const int at[3])
{
	struct node node = b->trial->node;
	const struct tensor *in[NODE_INPUTS], *out[NODE_OUTPUTS] = {0};
	float *x[NODE_INPUTS] = {0}, *beta = calloc(b->in[0].elements, sizeof *beta);
	double *y[NODE_OUTPUTS] = {0};
	node.operation = forward;
	node.accumulate = 0;
	for (int i = 0; i < 3; i++) {
		const bool absent = forward == OP_LAYER_NORM && i == 2; /* its gradient does not know beta */
		in[i] = absent ? &b->in[1] : &b->in[i];
		x[i] = absent ? beta : b->x[i];
		out[i] = at[i] < 0 ? (i ? NULL : &b->in[0]) : &b->in[at[i]];
		y[i] = calloc(b->in[0].elements, sizeof(double));
	}
	reference_run(&node, in, x, out, y);
	for (int i = 0; i < 3; i++) {
		for (size_t e = 0; at[i] >= 0 && e < b->in[at[i]].elements; e++)
			b->x[at[i]][e] = (float)y[i][e];
		free(y[i]);
	}
	free(beta);
}

static void mask_inputs(struct bench *b)
{
	float count = 0;
	for (size_t i = 0; i < b->in[2].elements; i++)
		count += b->x[2][i] = b->x[2][i] > -0.5f;
	if (b->x[3])
		b->x[3][0] = count * (float)(b->in[0].elements / b->in[2].elements);
}

static void special_inputs(struct bench *b)
{
	switch (b->trial->node.operation) {
	case OP_GROUP_NORM_BACKWARD:
		forward_inputs(b, OP_GROUP_NORM, (int[]){-1, 3, 4});
		break;
	case OP_LAYER_NORM_BACKWARD:
		forward_inputs(b, OP_LAYER_NORM, (int[]){-1, 2, 3});
		break;
	case OP_ATTENTION_BACKWARD:
		forward_inputs(b, OP_ATTENTION, (int[]){3, 4, -1});
		break;
	case OP_MASKED_MSE:
	case OP_MASKED_MSE_BACKWARD:
		mask_inputs(b);
		break;
	case OP_TIMESTEP_EMBEDDING:
		for (size_t i = 0; i < b->in[0].elements; i++)
			b->x[0][i] = (float)(i * 37 % 1000);
		break;
	default:
		break;
	}
}

static void bench_expect(struct bench *b)
{
	const struct tensor *in[NODE_INPUTS], *out[NODE_OUTPUTS];
	for (int i = 0; i < NODE_INPUTS; i++)
		in[i] = &b->in[i];
	for (int i = 0; i < NODE_OUTPUTS; i++)
		out[i] = b->y[i] ? &b->out[i] : NULL;
	reference_run(&b->trial->node, in, b->x, out, b->expected);
	for (int i = 0; i < NODE_OUTPUTS; i++)
		for (size_t e = 0; b->y[i] && b->trial->node.accumulate >> i & 1 && e < b->out[i].elements;
			e++)
			b->expected[i][e] += b->before[i][e];
}

static void bench_init(struct bench *b, const struct trial *trial)
{
	uint64_t state = 1;
	*b = (struct bench){.trial = trial};
	for (int i = 0; i < NODE_INPUTS; i++) {
		if (!trial->in[i][0])
			continue;
		tensor_set(&b->in[i], trial->in[i]);
		b->x[i] = malloc(b->in[i].bytes);
		for (size_t e = 0; e < b->in[i].elements; e++)
			b->x[i][e] = (float)random_value(&state);
	}
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		if (!trial->out[i][0])
			continue;
		tensor_set(&b->out[i], trial->out[i]);
		b->y[i] = malloc(b->out[i].bytes);
		b->before[i] = malloc(b->out[i].bytes);
		b->first[i] = malloc(b->out[i].bytes);
		b->expected[i] = calloc(b->out[i].elements, sizeof(double));
		for (size_t e = 0; e < b->out[i].elements; e++)
			b->before[i][e] = (float)random_value(&state);
	}
	special_inputs(b);
	bench_expect(b);
}

static void bench_release(struct bench *b)
{
	for (int i = 0; i < NODE_INPUTS; i++)
		free(b->x[i]);
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		free(b->y[i]);
		free(b->before[i]);
		free(b->first[i]);
		free(b->expected[i]);
	}
}

/* Runs it; the workspace is exactly as large as asked for and full of not-a-number. */
static bool bench_run(struct bench *b, struct device *device)
{
	struct call call = {.node = &b->trial->node};
	for (int i = 0; i < NODE_INPUTS; i++)
		call.in[i] = b->x[i] ? &b->in[i] : NULL;
	for (int i = 0; i < NODE_OUTPUTS; i++)
		call.out[i] = b->y[i] ? &b->out[i] : NULL;
	if (!device->backend->supports(device, &call))
		return false;
	const size_t bytes = device->backend->workspace(device, &call);
	call.workspace = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
	memset(call.workspace, 0xff, bytes);
	memset((char *)call.workspace + bytes, 0x5a, 64);
	for (int i = 0; i < NODE_INPUTS; i++)
		call.in_data[i] = b->x[i];
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		call.out_data[i] = b->y[i];
		if (b->y[i])
			memcpy(b->y[i], b->before[i], b->out[i].bytes);
	}
	bool good = device->backend->run(device, &call) == STATUS_OK;
	for (int i = 0; i < 64; i++)
		good = good && ((unsigned char *)call.workspace)[bytes + (size_t)i] == 0x5a;
	free(call.workspace);
	return good;
}

/* Largest difference from what was expected, over the largest expected value. */
static double bench_error(const struct bench *b, int *output)
{
	double worst = 0;
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		double scale = 1e-30, error = 0;
		for (size_t e = 0; b->y[i] && e < b->out[i].elements; e++) {
			double difference = fabs(b->y[i][e] - b->expected[i][e]);
			scale = fmax(scale, fabs(b->expected[i][e]));
			error = isnan(difference) ? INFINITY : fmax(error, difference);
		}
		if (error / scale > worst) {
			worst = error / scale;
			*output = i;
		}
	}
	return worst;
}

static bool bench_same(const struct bench *b)
{
	for (int i = 0; i < NODE_OUTPUTS; i++)
		if (b->y[i] && memcmp(b->y[i], b->first[i], b->out[i].bytes))
			return false;
	return true;
}

static void run_trial(const struct trial *trial, const char *isa)
{
	struct bench b;
	char name[160];
	bench_init(&b, trial);
	for (int threads = 1; threads <= 3; threads++) {
		struct device *device = NULL;
		int output = 0;
		if (cpu_backend.open(&(struct device_settings){.threads = threads, .isa = isa}, &device)) {
			check_report(false, trial->name, "%s", error_message());
			break;
		}
		snprintf(name, sizeof name, "%s, %s%s", trial->name, isa,
			threads == 1   ? ""
			: threads == 2 ? ": same bits with two threads"
				       : ": same bits with three threads");
		if (!bench_run(&b, device)) {
			check_report(false, name, "refused, failed or wrote behind its workspace");
		} else if (threads == 1) {
			double limit = trial->tolerance > 0 ? trial->tolerance : 2e-6,
			       error = bench_error(&b, &output);
			check_report(
				error <= limit, name, "output %d is off by %.3g of its scale", output, error);
		} else {
			check_report(bench_same(&b), name, "bits differ from one thread's");
		}
		for (int i = 0; i < NODE_OUTPUTS && threads == 1; i++)
			if (b.y[i])
				memcpy(b.first[i], b.y[i], b.out[i].bytes);
		device->backend->close(device);
	}
	bench_release(&b);
}

#define CONVOLUTION(pass, o, k, s, p, g)                                                                     \
	{                                                                                                    \
		.operation = pass, .convolution = {                                                          \
			.out = o,                                                                            \
			.kernel = {k, k},                                                                    \
			.stride = {s, s},                                                                    \
			.pad_before = {p, p},                                                                \
			.pad_after = {p, p},                                                                 \
			.groups = g,                                                                         \
			.bias = true                                                                         \
		}                                                                                            \
	}
#define NORM(pass, g, kind)                                                                                  \
	{                                                                                                    \
		.operation = pass, .norm = {.groups = g, .epsilon = 1e-5, .activation = kind }               \
	}
#define ATTENTION(pass, h)                                                                                   \
	{                                                                                                    \
		.operation = pass, .attention = {.heads = h }                                                \
	}
#define SIMPLE(pass, bits)                                                                                   \
	{                                                                                                    \
		.operation = pass, .accumulate = bits                                                        \
	}
#define ACTIVATION(pass, kind)                                                                               \
	{                                                                                                    \
		.operation = pass, .activation = kind                                                        \
	}

/* One convolution, three passes: x [N,H,W,C], y [N,OH,OW,O], kernel k, stride s, pad p, groups g. */
#define CONVOLUTIONS(title, n, h, w, c, oh, ow, o, k, s, p, g)                                               \
	{title, CONVOLUTION(OP_CONVOLUTION, o, k, s, p, g), {{n, h, w, c}, {k, k, (c) / (g), o}, {o}},       \
		{{n, oh, ow, o}}},                                                                           \
		{title ", data", CONVOLUTION(OP_CONVOLUTION_DATA, o, k, s, p, g),                            \
			{{n, oh, ow, o}, {k, k, (c) / (g), o}}, {{n, h, w, c}}},                             \
	{                                                                                                    \
		title ", weight", CONVOLUTION(OP_CONVOLUTION_WEIGHT, o, k, s, p, g),                         \
			{{n, h, w, c}, {n, oh, ow, o}},                                                      \
		{                                                                                            \
			{k, k, (c) / (g), o},                                                                \
			{                                                                                    \
				o                                                                            \
			}                                                                                    \
		}                                                                                            \
	}
#define LINEARS(title, rows, i, o)                                                                           \
	{title, SIMPLE(OP_LINEAR, 0), {{rows, i}, {i, o}, {o}}, {{rows, o}}},                                \
		{title ", data", SIMPLE(OP_LINEAR_DATA, 1), {{rows, o}, {i, o}}, {{rows, i}}},               \
	{                                                                                                    \
		title ", weight", SIMPLE(OP_LINEAR_WEIGHT, 3), {{rows, i}, {rows, o}},                       \
		{                                                                                            \
			{i, o},                                                                              \
			{                                                                                    \
				o                                                                            \
			}                                                                                    \
		}                                                                                            \
	}
#define GROUP_NORMS(title, n, h, w, c, g, kind)                                                              \
	{title, NORM(OP_GROUP_NORM, g, kind), {{n, h, w, c}, {c}, {c}}, {{n, h, w, c}, {n, g}, {n, g}}},     \
	{                                                                                                    \
		title ", backward", NORM(OP_GROUP_NORM_BACKWARD, g, kind),                                   \
			{{n, h, w, c}, {c}, {c}, {n, g}, {n, g}, {n, h, w, c}},                              \
		{                                                                                            \
			{n, h, w, c}, {c},                                                                   \
			{                                                                                    \
				c                                                                            \
			}                                                                                    \
		}                                                                                            \
	}
#define LAYER_NORMS(title, n, t, c)                                                                          \
	{title, NORM(OP_LAYER_NORM, 0, ACTIVATION_NONE), {{n, t, c}, {c}, {c}},                              \
		{{n, t, c}, {n, t}, {n, t}}},                                                                \
	{                                                                                                    \
		title ", backward", NORM(OP_LAYER_NORM_BACKWARD, 0, ACTIVATION_NONE),                        \
			{{n, t, c}, {c}, {n, t}, {n, t}, {n, t, c}},                                         \
		{                                                                                            \
			{n, t, c}, {c},                                                                      \
			{                                                                                    \
				c                                                                            \
			}                                                                                    \
		}                                                                                            \
	}
#define ATTENTIONS(title, n, t, s, w, h)                                                                     \
	{title, ATTENTION(OP_ATTENTION, h), {{n, t, w}, {n, s, w}, {n, s, w}}, {{n, t, w}, {n, h, t}}},      \
	{                                                                                                    \
		title ", backward", ATTENTION(OP_ATTENTION_BACKWARD, h),                                     \
			{{n, t, w}, {n, s, w}, {n, s, w}, {n, t, w}, {n, h, t}, {n, t, w}},                  \
			{{n, t, w}, {n, s, w}, {n, s, w}}, 4e-6                                              \
	}
#define ACTIVATIONS(title, kind)                                                                             \
	{title, ACTIVATION(OP_ACTIVATION, kind), {{3, 7001}}, {{3, 7001}}},                                  \
	{                                                                                                    \
		title ", backward", ACTIVATION(OP_ACTIVATION_BACKWARD, kind), {{3, 7001}, {3, 7001}},        \
		{                                                                                            \
			{                                                                                    \
				3, 7001                                                                      \
			}                                                                                    \
		}                                                                                            \
	}

static const struct trial trials[] = {
	CONVOLUTIONS("convolution 3x3, ragged", 2, 9, 11, 19, 9, 11, 37, 3, 1, 1, 1),
	CONVOLUTIONS("convolution 3x3 of whole panels", 3, 12, 16, 32, 12, 16, 64, 3, 1, 1, 1),
	CONVOLUTIONS("convolution 3x3 of many channels", 1, 5, 6, 200, 5, 6, 130, 3, 1, 1, 1),
	CONVOLUTIONS("convolution 3x3 to 4 channels", 2, 12, 16, 32, 12, 16, 4, 3, 1, 1, 1),
	CONVOLUTIONS("convolution 3x3, stride 2, odd size", 2, 15, 20, 24, 8, 10, 40, 3, 2, 1, 1),
	CONVOLUTIONS("convolution 3x3, stride 2, padded behind only", 2, 12, 10, 16, 6, 5, 16, 3, 2, 0, 1),
	CONVOLUTIONS("convolution 3x3, stride 4: inputs without a tap", 1, 17, 13, 6, 5, 4, 10, 3, 4, 1, 1),
	CONVOLUTIONS("convolution 5x5 in 3 groups", 2, 8, 7, 12, 8, 7, 15, 5, 1, 2, 3),
	CONVOLUTIONS("convolution 1x1", 2, 9, 11, 48, 9, 11, 33, 1, 1, 0, 1),
	CONVOLUTIONS("convolution 1x1, stride 2", 2, 9, 11, 10, 5, 6, 33, 1, 2, 0, 1),
	CONVOLUTIONS("convolution 3x3 of one pixel", 1, 1, 1, 5, 1, 1, 3, 3, 1, 1, 1),
	CONVOLUTIONS("convolution 7x7 without padding, wide", 1, 8, 500, 3, 2, 494, 9, 7, 1, 0, 1),
	LINEARS("linear, ragged", 131, 45, 67),
	LINEARS("linear, long sum", 70, 1000, 96),
	LINEARS("linear, few rows", 3, 128, 256),
	LINEARS("linear, many rows", 1009, 32, 24),
	LINEARS("linear 1 to 1", 1, 1, 1),
	LINEARS("linear, wide", 130, 20, 600),
	GROUP_NORMS("group norm with SiLU", 3, 7, 9, 24, 8, ACTIVATION_SILU),
	GROUP_NORMS("group norm without activation", 2, 5, 3, 42, 6, ACTIVATION_NONE),
	GROUP_NORMS("group norm in several pieces", 2, 20, 25, 64, 32, ACTIVATION_SILU),
	LAYER_NORMS("layer norm", 2, 150, 37),
	LAYER_NORMS("layer norm, wide", 2, 40, 640),
	ATTENTIONS("attention, one block", 2, 30, 17, 36, 3),
	ATTENTIONS("attention, several blocks", 2, 150, 531, 64, 2),
	ATTENTIONS("attention, two keys", 3, 200, 2, 32, 1),
	ACTIVATIONS("relu", ACTIVATION_RELU),
	ACTIVATIONS("silu", ACTIVATION_SILU),
	ACTIVATIONS("gelu", ACTIVATION_GELU),
	ACTIVATIONS("sigmoid", ACTIVATION_SIGMOID),
	{"geglu", SIMPLE(OP_GEGLU, 0), {{3, 111, 74}}, {{3, 111, 37}}},
	{"geglu, backward", SIMPLE(OP_GEGLU_BACKWARD, 0), {{3, 111, 74}, {3, 111, 37}}, {{3, 111, 74}}},
	{"geglu, backward, added", SIMPLE(OP_GEGLU_BACKWARD, 1), {{3, 111, 74}, {3, 111, 37}},
		{{3, 111, 74}}},
	{"add", SIMPLE(OP_ADD, 0), {{5, 10007}, {5, 10007}}, {{5, 10007}}},
	{"copy", SIMPLE(OP_COPY, 0), {{5, 10007}}, {{5, 10007}}},
	{"copy, added", SIMPLE(OP_COPY, 1), {{5, 10007}}, {{5, 10007}}},
	{"add channels", SIMPLE(OP_ADD_CHANNELS, 0), {{3, 17, 29, 37}, {3, 37}}, {{3, 17, 29, 37}}},
	{"channel sum", SIMPLE(OP_CHANNEL_SUM, 0), {{3, 17, 29, 37}}, {{3, 37}}},
	{"channel sum, added", SIMPLE(OP_CHANNEL_SUM, 1), {{3, 40, 29, 37}}, {{3, 37}}},
	{"concat", SIMPLE(OP_CONCAT, 0), {{3, 17, 29, 37}, {3, 17, 29, 16}}, {{3, 17, 29, 53}}},
	{"concat, backward", SIMPLE(OP_CONCAT_BACKWARD, 2), {{3, 17, 29, 53}},
		{{3, 17, 29, 37}, {3, 17, 29, 16}}},
	{"concat, backward, second only", SIMPLE(OP_CONCAT_BACKWARD, 0), {{3, 17, 29, 53}},
		{{0}, {3, 17, 29, 16}}},
	{"upsample", SIMPLE(OP_UPSAMPLE, 0), {{3, 8, 10, 37}}, {{3, 15, 20, 37}}},
	{"upsample, backward", SIMPLE(OP_UPSAMPLE_BACKWARD, 0), {{3, 15, 20, 37}}, {{3, 8, 10, 37}}},
	{"upsample, backward, added", SIMPLE(OP_UPSAMPLE_BACKWARD, 1), {{3, 15, 20, 37}}, {{3, 8, 10, 37}}},
	{"timestep embedding", SIMPLE(OP_TIMESTEP_EMBEDDING, 0), {{8}}, {{8, 320}}},
	{"masked mse", SIMPLE(OP_MASKED_MSE, 0), {{3, 40, 50, 4}, {3, 40, 50, 4}, {3, 40, 50}}, {{1}, {1}}},
	{"masked mse, backward", SIMPLE(OP_MASKED_MSE_BACKWARD, 0),
		{{3, 40, 50, 4}, {3, 40, 50, 4}, {3, 40, 50}, {1}}, {{3, 40, 50, 4}}},
};

/* Every gradient that may be asked to add does so. */
static void test_adding(const char *isa)
{
	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
		struct trial trial = trials[i];
		char name[128];
		switch (trial.node.operation) {
		case OP_CONVOLUTION_DATA:
		case OP_CONVOLUTION_WEIGHT:
		case OP_GROUP_NORM_BACKWARD:
		case OP_LAYER_NORM_BACKWARD:
		case OP_ATTENTION_BACKWARD:
		case OP_ACTIVATION_BACKWARD:
		case OP_MASKED_MSE_BACKWARD:
			break;
		default:
			continue;
		}
		snprintf(name, sizeof name, "%s, added", trial.name);
		trial.name = name;
		trial.node.accumulate = 7;
		run_trial(&trial, isa);
	}
}

/* ---- hard cases ---- */

/* A mean a thousand times the deviation. */
static void test_large_mean(struct device *device)
{
	const struct trial trial = {"group norm of a large mean", NORM(OP_GROUP_NORM, 2, ACTIVATION_NONE),
		{{2, 9, 7, 20}, {20}, {20}}, {{2, 9, 7, 20}, {2, 2}, {2, 2}}};
	struct bench b;
	int output;
	bench_init(&b, &trial);
	for (size_t i = 0; i < b.in[0].elements; i++)
		b.x[0][i] = 1000 + b.x[0][i];
	bench_expect(&b);
	check(bench_run(&b, device) && bench_error(&b, &output) < 3e-4, "group norm of a large mean");
	bench_release(&b);
}

/* Scores of thousands: one key takes all, nothing overflows. */
static void test_large_scores(struct device *device)
{
	const struct trial trial = {"attention with large scores", ATTENTION(OP_ATTENTION, 1),
		{{1, 70, 16}, {1, 300, 16}, {1, 300, 16}}, {{1, 70, 16}, {1, 1, 70}}};
	struct bench b;
	int output;
	bench_init(&b, &trial);
	for (size_t i = 0; i < b.in[1].elements; i++)
		b.x[1][i] *= 40; /* the definition in double holds out to 700 */
	bench_expect(&b);
	check(bench_run(&b, device) && bench_error(&b, &output) < 1e-4, "attention with large scores");
	for (size_t i = 0; i < b.in[1].elements; i++)
		b.x[1][i] *= 1000;
	bool finite = bench_run(&b, device);
	for (size_t i = 0; i < b.out[0].elements; i++)
		finite = finite && isfinite(b.y[0][i]) && fabs(b.y[0][i]) < 10;
	check(finite, "attention with scores of a hundred thousand stays finite");
	bench_release(&b);
}

/* Nothing selected: loss 0 and gradient 0. */
static void test_empty_mask(struct device *device)
{
	const struct trial trials_of_none[] = {
		{"loss", SIMPLE(OP_MASKED_MSE, 0), {{2, 3, 4, 2}, {2, 3, 4, 2}, {2, 3, 4}}, {{1}, {1}}},
		{"gradient", SIMPLE(OP_MASKED_MSE_BACKWARD, 0), {{2, 3, 4, 2}, {2, 3, 4, 2}, {2, 3, 4}, {1}},
			{{2, 3, 4, 2}}}};
	for (int k = 0; k < 2; k++) {
		struct bench b;
		bench_init(&b, &trials_of_none[k]);
		memset(b.x[2], 0, b.in[2].bytes);
		if (k == 1)
			b.x[3][0] = 0;
		bool zero = bench_run(&b, device);
		for (size_t i = 0; i < b.out[0].elements; i++)
			zero = zero && b.y[0][i] == 0;
		check(zero, k ? "gradient is 0 where all is masked" : "loss is 0 where all is masked");
		bench_release(&b);
	}
}

static const char *const isas[] = {"plain", "avx2", "avx512"};

static void test_operations(void)
{
	for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
		struct device *device = NULL;
		if (cpu_backend.open(&(struct device_settings){.threads = 1, .isa = isas[k]}, &device)) {
			check_status(error_status(), STATUS_UNAVAILABLE,
				"an instruction set that is not there is refused");
			check_skip(isas[k], "this processor does not have it");
			continue;
		}
		check_text(device->backend->isa(device), isas[k], "the instruction set asked for is used");
		test_large_mean(device);
		test_large_scores(device);
		test_empty_mask(device);
		device->backend->close(device);
		for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
			run_trial(&trials[i], isas[k]);
		test_adding(isas[k]);
	}
}

int main(void)
{
	test_operations();
	return check_summary();
}
