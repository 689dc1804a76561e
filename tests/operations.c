/*
 * The operation table: every operation of lib/graph/operation.h in several shapes, forward and backward, against the plain
 * formulas in double (support/reference_bodies.c), whose gradients are checked by differences of the loss. Each row also
 * runs with every input and parameter used twice, so that gradients are added into what was written. Results must not
 * depend on the number of threads by a bit.
 */
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "support/reference.h"

#define SIZES 12
#define SHAPES 10
#define RESULTS 64
#define INPUTS 8

/* One graph of a row on one device. */
struct bench {
	struct device *device;
	struct program *program;
	struct graph *graph;
	int input[INPUTS], inputs;
	int loss;
	int result[RESULTS], results; /* tensors that are compared */
	double *values; /* of the results, one after the other, then of the parameters' gradients */
	size_t count;
};

/* A device under test. */
#define TARGETS 3
struct target {
	const struct backend *backend;
	const char *isa;
};

struct row {
	const char *name;
	int (*build)(struct bench *bench, const int *s); /* the operation on inputs of sizes s */
	double tolerance; /* largest error over the root mean square of the tensor */
	int shapes[SHAPES][SIZES];
};

/* ---- rows ---- */

/* The input of that name; made when it is new. */
static int input(struct bench *bench, const char *name, int dims, const int64_t *dim)
{
	int tensor;

	for (int i = 0; i < bench->inputs; i++) {
		if (!strcmp(bench->graph->tensors[bench->input[i]].name, name))
			return bench->input[i];
	}
	tensor = graph_input(bench->graph, name, TENSOR_F32, dims, dim);
	bench->input[bench->inputs++] = tensor;
	return tensor;
}

/* An input with a gradient. */
static int variable(struct bench *bench, const char *name, int dims, const int64_t *dim)
{
	int tensor = input(bench, name, dims, dim);

	graph_want_gradient(bench->graph, tensor);
	return tensor;
}

static int image(struct bench *bench, const char *name, const int *s)
{
	return variable(bench, name, 4, (int64_t[]){s[0], s[1], s[2], s[3]});
}

/* n h w in, out, kernel, stride, padding before and after, groups, bias */
static int build_convolution(struct bench *bench, const int *s)
{
	return graph_convolution(bench->graph, image(bench, "x", s), "convolution",
		(struct convolution){.out = s[4],
			.kernel = {s[5], s[6]},
			.stride = {s[7], s[7]},
			.pad_before = {s[8], s[8]},
			.pad_after = {s[9], s[9]},
			.groups = s[10],
			.bias = s[11]});
}

/* n d h w in, out, kernel (frames, rows and columns), stride (the same), padding before, groups; the padding behind is one
 * more along the frames, one less along the columns */
static int build_convolution_3d(struct bench *bench, const int *s)
{
	int x = variable(bench, "x", 5, (int64_t[]){s[0], s[1], s[2], s[3], s[4]}), pad = s[10];

	return graph_convolution(bench->graph, x, "convolution",
		(struct convolution){.out = s[5],
			.kernel = {s[6], s[7], s[7]},
			.stride = {s[8], s[9], s[9]},
			.pad_before = {pad, pad, pad},
			.pad_after = {pad + 1, pad, pad - (pad > 0)},
			.groups = s[11],
			.bias = s[6] > 1});
}

/* rows, in, out, bias */
static int build_linear(struct bench *bench, const int *s)
{
	int x = variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_linear(bench->graph, x, "linear", s[2], s[3]);
}

/* n h w c, groups, SiLU */
static int build_group_norm(struct bench *bench, const int *s)
{
	return graph_group_norm(bench->graph, image(bench, "x", s), "norm", s[4], 1e-5,
		s[5] ? ACTIVATION_SILU : ACTIVATION_NONE);
}

/* The same of values whose mean is a hundred times their spread. */
static int build_far_group_norm(struct bench *bench, const int *s)
{
	int x = image(bench, "far", s);

	return graph_group_norm(
		bench->graph, x, "norm", s[4], 1e-5, s[5] ? ACTIVATION_SILU : ACTIVATION_NONE);
}

/* n tokens c */
static int build_layer_norm(struct bench *bench, const int *s)
{
	int x = variable(bench, "x", 3, (int64_t[]){s[0], s[1], s[2]});

	return graph_layer_norm(bench->graph, x, "norm", 1e-5);
}

static int build_far_layer_norm(struct bench *bench, const int *s)
{
	int x = variable(bench, "far", 3, (int64_t[]){s[0], s[1], s[2]});

	return graph_layer_norm(bench->graph, x, "norm", 1e-5);
}

/* n queries keys width, heads, 1: one tensor is q, k and v */
static int build_attention(struct bench *bench, const int *s)
{
	int q = variable(bench, "q", 3, (int64_t[]){s[0], s[1], s[3]}), k, v;

	if (s[5])
		return graph_attention(bench->graph, q, q, q, s[4]);
	k = variable(bench, "k", 3, (int64_t[]){s[0], s[2], s[3]});
	v = variable(bench, "v", 3, (int64_t[]){s[0], s[2], s[3]});
	return graph_attention(bench->graph, q, k, v, s[4]);
}

/* rows, channels out */
static int build_geglu(struct bench *bench, const int *s)
{
	return graph_geglu(bench->graph, variable(bench, "x", 2, (int64_t[]){s[0], 2 * s[1]}));
}

/* rows, channels, kind */
static int build_activation(struct bench *bench, const int *s)
{
	int x = variable(bench, "x", 2, (int64_t[]){s[0], s[1]});

	return graph_activation(bench->graph, x, (enum activation)s[2]);
}

/* n h w c, 1: both operands are one tensor */
static int build_add(struct bench *bench, const int *s)
{
	int a = image(bench, "a", s);

	return graph_add(bench->graph, a, s[4] ? a : image(bench, "b", s));
}

static int build_add_channels(struct bench *bench, const int *s)
{
	int v = variable(bench, "v", 2, (int64_t[]){s[0], s[3]});

	return graph_add_channels(bench->graph, image(bench, "x", s), v);
}

/* n h w a, b, 1: one half has no gradient, 2: both halves are one tensor */
static int build_concat(struct bench *bench, const int *s)
{
	int64_t dim[4] = {s[0], s[1], s[2], s[4]};
	int a = image(bench, "a", s), b;

	if (s[5] == 2)
		return graph_concat(bench->graph, a, a);
	b = s[5] ? input(bench, "b", 4, dim) : variable(bench, "b", 4, dim);
	return graph_concat(bench->graph, a, b);
}

/* n h w c, height, width */
static int build_upsample(struct bench *bench, const int *s)
{
	return graph_upsample(bench->graph, image(bench, "x", s), s[4], s[5]);
}

/* n, width; a linear layer behind it, for there is no gradient to the time */
static int build_timestep_embedding(struct bench *bench, const int *s)
{
	int e = graph_timestep_embedding(bench->graph, input(bench, "t", 1, (int64_t[]){s[0]}), s[1]);

	return graph_linear(bench->graph, graph_output(bench->graph, e), "linear", 3, true);
}

/* n h w c; a masked mean square is the loss of every row */
static int build_masked_mse(struct bench *bench, const int *s)
{
	return image(bench, "x", s);
}

/* n h w c: [N,H,W,C] as tokens, to a layer and back */
static int build_reshape(struct bench *bench, const int *s)
{
	int x = image(bench, "x", s), y;

	y = graph_reshape(bench->graph, x, 3, (int64_t[]){s[0], s[1] * s[2], s[3]});
	y = graph_linear(bench->graph, y, "linear", s[3], false);
	y = graph_reshape(bench->graph, y, 4, (int64_t[]){s[0], s[1], s[2], s[3]});
	return graph_add(bench->graph, y, x);
}

static const struct row table[] = {
	{"convolution", build_convolution, 5e-6,
		{{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0}, {2, 5, 7, 3, 4, 3, 3, 1, 1, 1, 1, 1},
			{1, 6, 5, 8, 16, 3, 3, 2, 1, 1, 1, 1}, {1, 7, 6, 5, 3, 3, 3, 2, 0, 1, 1, 1},
			{2, 4, 3, 6, 9, 1, 1, 1, 0, 0, 1, 1}, {1, 5, 4, 8, 12, 3, 2, 1, 1, 0, 4, 0},
			{2, 6, 8, 40, 24, 3, 3, 1, 1, 1, 1, 1}, {1, 12, 16, 64, 32, 3, 3, 1, 1, 1, 1, 1}}},
	{"convolution-3d", build_convolution_3d, 5e-6,
		{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1}, {2, 3, 4, 5, 3, 4, 3, 3, 1, 1, 1, 1},
			{1, 5, 6, 5, 4, 6, 3, 3, 2, 2, 1, 1}, {1, 1, 4, 3, 2, 3, 3, 3, 1, 1, 1, 1},
			{2, 4, 5, 4, 4, 8, 3, 3, 1, 2, 1, 2}, {1, 4, 3, 5, 3, 2, 1, 1, 2, 2, 0, 1},
			{1, 5, 9, 8, 3, 20, 5, 7, 1, 2, 3, 1}, {2, 2, 6, 7, 40, 24, 3, 3, 1, 1, 1, 1},
			{1, 3, 2, 3, 4, 3, 2, 2, 3, 3, 1, 1}}},
	{"linear", build_linear, 5e-6,
		{{1, 1, 1, 0}, {3, 5, 7, 1}, {2, 128, 33, 1}, {37, 24, 17, 0}, {192, 64, 130, 1},
			{500, 16, 16, 1}}},
	{"group-norm", build_group_norm, 4e-6,
		{{1, 1, 2, 2, 1, 0}, {2, 3, 5, 6, 3, 1}, {1, 5, 4, 8, 8, 1}, {2, 7, 9, 32, 8, 1},
			{3, 6, 8, 48, 4, 0}}},
	{"layer-norm", build_layer_norm, 4e-6, {{1, 1, 3}, {2, 3, 7}, {1, 12, 32}, {2, 48, 65}}},
	/* single precision knows a mean of 100 to 4e-6 of the spread, in every term of a sum alike */
	{"group-norm of large means", build_far_group_norm, 1e-4,
		{{1, 5, 4, 8, 8, 1}, {2, 7, 9, 32, 8, 1}, {3, 6, 8, 48, 4, 0}}},
	{"layer-norm of large means", build_far_layer_norm, 1e-4, {{2, 3, 7}, {1, 12, 32}, {2, 48, 65}}},
	{"attention", build_attention, 1e-5,
		{{1, 1, 1, 1, 1, 0}, {2, 5, 3, 6, 2, 0}, {1, 7, 7, 8, 1, 1}, {2, 33, 2, 32, 1, 0},
			{2, 48, 48, 64, 2, 0}, {1, 130, 130, 24, 3, 0}}},
	{"geglu", build_geglu, 5e-6, {{1, 1}, {3, 5}, {17, 16}, {40, 129}}},
	{"relu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_RELU}, {3, 7, ACTIVATION_RELU}, {50, 33, ACTIVATION_RELU}}},
	{"silu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_SILU}, {3, 7, ACTIVATION_SILU}, {50, 33, ACTIVATION_SILU}}},
	{"gelu", build_activation, 2e-6,
		{{1, 1, ACTIVATION_GELU}, {3, 7, ACTIVATION_GELU}, {50, 33, ACTIVATION_GELU}}},
	{"sigmoid", build_activation, 2e-6,
		{{1, 1, ACTIVATION_SIGMOID}, {3, 7, ACTIVATION_SIGMOID}, {50, 33, ACTIVATION_SIGMOID}}},
	{"add", build_add, 2e-6, {{1, 1, 1, 1, 0}, {2, 3, 5, 7, 0}, {1, 3, 3, 5, 1}, {2, 12, 16, 17, 0}}},
	{"add-channels", build_add_channels, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 12, 16, 33}}},
	{"concat", build_concat, 2e-6,
		{{1, 1, 1, 1, 1, 0}, {2, 3, 5, 7, 4, 0}, {1, 4, 3, 2, 9, 1}, {1, 2, 3, 5, 5, 2},
			{2, 12, 16, 17, 32, 0}}},
	{"upsample", build_upsample, 2e-6,
		{{1, 1, 1, 1, 1, 1}, {2, 3, 5, 4, 6, 10}, {1, 2, 4, 3, 3, 7}, {1, 3, 4, 2, 8, 9},
			{2, 6, 8, 33, 12, 15}}},
	{"timestep-embedding", build_timestep_embedding, 2e-6, {{1, 2}, {5, 32}, {3, 320}}},
	{"masked-mse", build_masked_mse, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 4}, {3, 25, 33, 4}}},
	{"reshape", build_reshape, 2e-6, {{1, 1, 1, 1}, {2, 3, 5, 4}}},
};

/* ---- building ---- */

static void compare(struct bench *bench, int tensor)
{
	if (tensor >= 0 && bench->results < RESULTS)
		bench->result[bench->results++] = graph_output(bench->graph, tensor);
}

/* Everything the forward nodes make is compared, and all gradients. */
static void collect_results(struct bench *bench)
{
	struct graph *graph = bench->graph;

	for (size_t n = 0; n < graph->forward_count; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++)
			compare(bench, graph->nodes[n].out[k]);
	}
	for (int i = 0; i < bench->inputs; i++)
		compare(bench, graph_gradient(graph, bench->input[i]));
}

static int build(struct bench *bench, const struct row *row, const int *s, bool twice)
{
	struct graph *graph = bench->graph;
	int y = row->build(bench, s), target, mask, dims;
	int64_t dim[TENSOR_DIMS];

	if (twice)
		y = graph_add(graph, y, graph_activation(graph, row->build(bench, s), ACTIVATION_SILU));
	dims = graph_dims(graph, y);
	for (int i = 0; i < dims; i++)
		dim[i] = graph_dim(graph, y, i);
	target = input(bench, "target", dims, dim);
	mask = input(bench, "mask", dims - 1, dim);
	bench->loss = graph_masked_mse(graph, y, target, mask);
	if (graph_backward(graph, bench->loss))
		return graph->status;
	collect_results(bench);
	return program_prepare(bench->program);
}

/* Values are functions of the name alone, so every device gets the same. */
static void fill(const char *name, float *values, size_t count)
{
	struct random random = random_stream(7, name);

	random_normal(random, 0, 0, 0, values, count);
	for (size_t i = 0; i < count; i++) {
		double u = random_uniform(random, 1, 0, (uint32_t)i);

		if (!strcmp(name, "mask"))
			values[i] = i == 0 || u < 0.7;
		else if (!strcmp(name, "t"))
			values[i] = (float)floor(1000 * u);
		else if (!strcmp(name, "far"))
			values[i] += 100;
		else if (strstr(name, "norm.weight"))
			values[i] = 1 + 0.3f * values[i];
	}
}

static int fill_all(struct bench *bench)
{
	struct store *store = program_store(bench->program);
	int status = STATUS_OK;

	for (int i = 0; i < bench->inputs && !status; i++) {
		const struct tensor *tensor = &bench->graph->tensors[bench->input[i]];
		float *values = memory_new(tensor->elements, sizeof(*values));

		fill(tensor->name, values, tensor->elements);
		status = graph_write(bench->graph, bench->input[i], values);
		free(values);
	}
	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		float *values = memory_new(parameter->count, sizeof(*values));

		fill(parameter->name, values, parameter->count);
		status = store_import(store, i, SLOT_VALUE, values);
		free(values);
	}
	return status;
}

/* ---- results ---- */

static void append(struct bench *bench, const void *address, size_t count)
{
	const double *exact =
		bench->device->backend == &reference_backend ? reference_at(bench->device, address) : NULL;
	float *values = memory_new(count, sizeof(*values));

	bench->values = realloc(bench->values, (bench->count + count) * sizeof(*bench->values));
	if (!exact)
		bench->device->backend->read(bench->device, values, address, count * sizeof(*values));
	for (size_t i = 0; i < count; i++)
		bench->values[bench->count + i] = exact ? exact[i] : (double)values[i];
	bench->count += count;
	free(values);
}

static void collect_values(struct bench *bench)
{
	struct store *store = program_store(bench->program);

	for (int i = 0; i < bench->results; i++)
		append(bench, graph_address(bench->graph, bench->result[i]),
			graph_elements(bench->graph, bench->result[i]));
	for (size_t i = 0; i < store_count(store); i++)
		append(bench, store_data(store, i, SLOT_GRADIENT), store_parameter(store, i)->count);
}

static void bench_release(struct bench *bench)
{
	program_free(bench->program);
	if (bench->device)
		bench->device->backend->close(bench->device);
	free(bench->values);
	*bench = (struct bench){0};
}

static int bench_run(struct bench *bench, const struct backend *backend,
	const struct device_settings *settings, const struct row *row, const int *s, bool twice)
{
	int status = backend->open(settings, &bench->device);

	if (status)
		return status;
	bench->program = program_new(bench->device);
	bench->graph = graph_new(bench->program, row->name, true);
	status = build(bench, row, s, twice);
	if (!status)
		status = fill_all(bench);
	if (!status)
		status = graph_run(bench->graph);
	if (!status)
		collect_values(bench);
	return status;
}

/* Largest error over the root mean square, over all tensors; 0 where both are zero. */
static double tensor_error(const double *values, const double *exact, size_t count)
{
	double squares = 0, worst = 0;

	for (size_t i = 0; i < count; i++) {
		double error = fabs(values[i] - exact[i]);

		squares += exact[i] * exact[i];
		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst == 0 ? 0 : worst / sqrt(squares / (double)count);
}

static double bench_error(const struct bench *bench, const struct bench *exact)
{
	struct store *store = program_store(exact->program);
	double worst = 0;
	size_t at = 0;

	if (bench->count != exact->count)
		return INFINITY;
	for (int i = 0; i < exact->results + (int)store_count(store); i++) {
		size_t count = i < exact->results
				       ? graph_elements(exact->graph, exact->result[i])
				       : store_parameter(store, (size_t)(i - exact->results))->count;
		double error = tensor_error(bench->values + at, exact->values + at, count);

		worst = error > worst || isnan(error) ? error : worst;
		at += count;
	}
	return worst;
}

/* ---- gradients of the reference ---- */

static double loss_at(struct bench *bench, double *value, double x)
{
	double had = *value, loss;

	*value = x;
	graph_run(bench->graph);
	loss = *reference_at(bench->device, graph_address(bench->graph, bench->loss));
	*value = had;
	return loss;
}

/* Difference quotient of fourth order. */
static double slope_at(struct bench *bench, double *value)
{
	double x = *value, h = 1e-3;

	return (8 * (loss_at(bench, value, x + h) - loss_at(bench, value, x - h)) -
		       (loss_at(bench, value, x + 2 * h) - loss_at(bench, value, x - 2 * h))) /
	       (12 * h);
}

/* Worst error of up to 24 elements of a tensor's gradient, over the largest of the tensor's gradients. */
static double slope_error(struct bench *bench, double *values, const double *gradient, size_t count)
{
	size_t step = count / 24 + 1;
	double *copy, largest = 1e-9, worst = 0;

	graph_run(bench->graph);
	copy = memory_copy(gradient, count * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(copy[i]));
	for (size_t i = 0; i < count; i += step)
		worst = fmax(worst, fabs(slope_at(bench, &values[i]) - copy[i]));
	free(copy);
	return worst / largest;
}

static double gradient_error(struct bench *bench)
{
	struct store *store = program_store(bench->program);
	double worst = 0;

	for (int i = 0; i < bench->inputs; i++) {
		int x = bench->input[i], dx = graph_gradient(bench->graph, x);

		if (dx >= 0)
			worst = fmax(
				worst, slope_error(bench,
					       reference_at(bench->device, graph_address(bench->graph, x)),
					       reference_at(bench->device, graph_address(bench->graph, dx)),
					       graph_elements(bench->graph, x)));
	}
	for (size_t i = 0; i < store_count(store); i++)
		worst = fmax(worst,
			slope_error(bench, reference_at(bench->device, store_data(store, i, SLOT_VALUE)),
				reference_at(bench->device, store_data(store, i, SLOT_GRADIENT)),
				store_parameter(store, i)->count));
	return worst;
}

/* ---- the tests ---- */

static const char *shape_name(const struct row *row, const int *s, bool twice, char buffer[128])
{
	int length = snprintf(buffer, 128, "%s", row->name);

	for (int i = 0; i < SIZES && s[i]; i++)
		length += snprintf(buffer + length, 128 - (size_t)length, "%c%d", i ? 'x' : ' ', s[i]);
	snprintf(buffer + length, 128 - (size_t)length, "%s", twice ? " twice" : "");
	return buffer;
}

/* What came out for one row on one device. */
struct outcome {
	bool ran, equal;
	double worst;
	char worst_shape[128], unequal_shape[128];
};

/* One shape on one device with 1, 2 and 3 threads. */
static void try_shape(const struct row *row, const int *s, bool twice, const struct target *target,
	const struct bench *exact, struct outcome *outcome)
{
	struct bench one = {0};

	for (int threads = 1; threads <= 3 && outcome->ran; threads++) {
		struct bench bench = {0};
		struct device_settings settings = {.threads = threads, .isa = target->isa};
		double error;

		outcome->ran = !bench_run(&bench, target->backend, &settings, row, s, twice);
		error = outcome->ran ? bench_error(&bench, exact) : 0;
		if (error > outcome->worst || isnan(error)) {
			outcome->worst = error;
			shape_name(row, s, twice, outcome->worst_shape);
		}
		if (threads == 1) {
			one = bench;
			continue;
		}
		if (bench.count != one.count ||
			memcmp(bench.values, one.values, one.count * sizeof(*one.values)) != 0) {
			outcome->equal = false;
			shape_name(row, s, twice, outcome->unequal_shape);
		}
		bench_release(&bench);
	}
	bench_release(&one);
}

static void report(const struct row *row, const struct target *target, const struct outcome *outcome)
{
	char name[256];

	snprintf(name, sizeof(name), "%s on %s %s equals the formula", row->name, target->backend->name,
		target->isa);
	check_report(outcome->ran && outcome->worst <= row->tolerance, name,
		"%.3g of the root mean square in %s %s", outcome->worst, outcome->worst_shape,
		outcome->ran ? "" : error_message());
	snprintf(name, sizeof(name), "%s on %s %s: the same bits with 1, 2 and 3 threads", row->name,
		target->backend->name, target->isa);
	check_report(outcome->equal, name, "not in %s", outcome->unequal_shape);
}

/* One row in all shapes, each once and with its inputs used twice: gradients of the reference, then every device. */
static void test_row(const struct row *row, const struct target *targets, size_t count)
{
	struct outcome outcomes[TARGETS];
	char name[256], shape[128] = "";
	double worst = 0;
	int checked = 0;

	for (size_t k = 0; k < count; k++)
		outcomes[k] = (struct outcome){.ran = true, .equal = true};
	for (int i = 0; i < 2 * SHAPES && row->shapes[i / 2][0]; i++) {
		const int *s = row->shapes[i / 2];
		bool twice = i % 2;
		struct bench exact = {0};
		double error = 0;

		if (bench_run(&exact, &reference_backend, NULL, row, s, twice))
			break;
		for (size_t k = 0; k < count; k++)
			try_shape(row, s, twice, &targets[k], &exact, &outcomes[k]);
		if (graph_flops(exact.graph) < 3e5) {
			error = gradient_error(&exact);
			checked++;
		}
		if (error > worst || isnan(error)) {
			worst = error;
			shape_name(row, s, twice, shape);
		}
		bench_release(&exact);
	}
	snprintf(name, sizeof(name), "%s: gradients are those of the loss by differences", row->name);
	check_report(checked >= 4 && worst < 1e-7, name, "%.3g in %s, %d shapes", worst, shape, checked);
	for (size_t k = 0; k < count; k++)
		report(row, &targets[k], &outcomes[k]);
}

/* A mask without a selected element: no loss, no gradient. */
static void test_empty_mask(const struct backend *backend, const char *isa)
{
	const struct row row = {"masked-mse", build_masked_mse, 0, {{2, 3, 5, 4}}};
	struct device_settings settings = {.threads = 2, .isa = isa};
	struct bench bench = {0};
	float zeros[2 * 3 * 5 * 4] = {0}, gradient[2 * 3 * 5 * 4], loss = 1;
	bool good = !bench_run(&bench, backend, &settings, &row, row.shapes[0], false) &&
		    !graph_write(bench.graph, bench.input[2], zeros) && !graph_run(bench.graph) &&
		    !graph_read(bench.graph, bench.loss, &loss) &&
		    !graph_read(bench.graph, graph_gradient(bench.graph, bench.input[0]), gradient);

	check(good && loss == 0 && !memcmp(gradient, zeros, sizeof(zeros)),
		"an empty mask gives neither loss nor gradient");
	bench_release(&bench);
}

/* ---- functions over whole parameters ---- */

struct vectors {
	struct device *device;
	float *slot[4]; /* value, gradient, moments */
	size_t count;
};

static int vectors_init(struct vectors *v, const struct backend *backend,
	const struct device_settings *settings, size_t count)
{
	float *values = memory_new(count, sizeof(*values));
	int status = backend->open(settings, &v->device);

	v->count = count;
	for (int k = 0; k < 4 && !status; k++) {
		char name[2] = {(char)('a' + k), 0};

		v->slot[k] = backend->allocate(v->device, count * sizeof(float));
		fill(name, values, count);
		for (size_t i = 0; k == 3 && i < count; i++)
			values[i] *= values[i];
		status = v->slot[k] ? backend->write(v->device, v->slot[k], values, count * sizeof(float))
				    : STATUS_FAILURE;
	}
	free(values);
	return status;
}

static void vectors_release(struct vectors *v)
{
	for (int k = 0; k < 4; k++)
		v->device->backend->release(v->device, v->slot[k]);
	v->device->backend->close(v->device);
}

/* Adds, scales, squares, copies and updates; all slots and the sum end up in `out` (4 count + 1). */
static int vectors_run(struct vectors *v, const struct optimizer_rule *rule, double *out)
{
	const struct backend *backend = v->device->backend;
	struct step_scalars scalars = {.learning_rate = 1e-2, .step = 3};
	struct update_call call = {
		v->slot[0], v->slot[1], v->slot[2], v->slot[3], v->count, rule, &scalars, 0.7};
	float *values = memory_new(v->count, sizeof(*values));
	int status = backend->add(v->device, v->slot[1], v->slot[0], v->count);

	if (rule->kind == OPTIMIZER_SGD)
		call.moment2 = NULL;
	if (!status)
		status = backend->scale(v->device, v->slot[1], 1.0 / 3, v->count);
	for (int64_t step = 3; step < 6 && !status; step++) {
		scalars.step = step;
		status = backend->update(v->device, &call);
	}
	if (!status)
		status = backend->sum_squares(v->device, v->slot[0], v->count, &out[4 * v->count]);
	for (int k = 0; k < 4 && !status; k++) {
		const double *exact =
			backend == &reference_backend ? reference_at(v->device, v->slot[k]) : NULL;

		status = backend->read(v->device, values, v->slot[k], v->count * sizeof(float));
		for (size_t i = 0; i < v->count; i++)
			out[(size_t)k * v->count + i] = exact ? exact[i] : (double)values[i];
	}
	if (!status)
		status = backend->copy(v->device, v->slot[1], v->slot[0], v->count * sizeof(float));
	if (!status)
		status = backend->read(v->device, values, v->slot[1], v->count * sizeof(float));
	for (size_t i = 0; i < v->count && !status; i++)
		status = values[i] != (float)out[i];
	free(values);
	return status;
}

static void test_vectors(
	const struct backend *backend, const char *isa, const char *what, const struct optimizer_rule *rule)
{
	static const size_t counts[] = {1, 7, 1000, 100003};
	double worst = 0;
	bool ran = true, equal = true;
	char name[256];

	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts) && ran; c++) {
		size_t count = counts[c], all = 4 * count + 1;
		double *out = memory_new(5 * all, sizeof(*out)); /* reference, then 1 to 3 threads */

		for (int threads = 0; threads <= 3; threads++) {
			struct device_settings settings = {.threads = threads, .isa = isa};
			struct vectors v = {0};
			double *mine = out + (size_t)threads * all;

			ran = ran &&
			      !vectors_init(&v, threads ? backend : &reference_backend, &settings, count) &&
			      !vectors_run(&v, rule, mine);
			vectors_release(&v);
			for (size_t k = 0; threads && k < 4; k++)
				worst = fmax(worst, tensor_error(mine + k * count, out + k * count, count));
			if (threads)
				worst = fmax(worst, fabs(mine[4 * count] / out[4 * count] - 1));
			equal = equal && (threads < 2 || !memcmp(mine, out + all, all * sizeof(*out)));
		}
		free(out);
	}
	snprintf(name, sizeof(name), "%s on %s %s equals the formula", what, backend->name, isa);
	check_report(ran && worst < 2e-6, name, "%.3g of the root mean square; %s", worst, error_message());
	snprintf(name, sizeof(name), "%s on %s %s: the same bits with 1, 2 and 3 threads", what,
		backend->name, isa);
	check(equal, name);
}

/* A sum of squares is not finite exactly when an element is not. */
static void test_not_finite(const struct backend *backend, const char *isa)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct device_settings settings = {.threads = 2, .isa = isa};
	struct vectors v = {0};
	float large[1000];
	double sum;
	bool good = !vectors_init(&v, backend, &settings, 1000);

	for (size_t i = 0; i < 1000; i++)
		large[i] = 3e38f;
	good = good && !backend->write(v.device, v.slot[0], large, sizeof(large)) &&
	       !backend->sum_squares(v.device, v.slot[0], 1000, &sum) && isfinite(sum);
	for (size_t i = 0; i < 1000 && good; i += 37) {
		large[i] = bad[i % 3];
		good = !backend->write(v.device, v.slot[0], large, sizeof(large)) &&
		       !backend->sum_squares(v.device, v.slot[0], 1000, &sum) && !isfinite(sum);
		large[i] = 3e38f;
	}
	check(good, "a sum of squares shows every element that is not finite, and no other");
	vectors_release(&v);
}

static void test_whole_parameters(const struct target *target)
{
	static const struct optimizer_rule adam = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
	static const struct optimizer_rule momentum = {.kind = OPTIMIZER_SGD, .momentum = 0.9};

	test_empty_mask(target->backend, target->isa);
	test_vectors(target->backend, target->isa, "adam", &adam);
	test_vectors(target->backend, target->isa, "sgd with momentum", &momentum);
	test_not_finite(target->backend, target->isa);
}

/* An operation without a row is not tested. */
static void test_complete(void)
{
	struct text missing = {0};

	for (int operation = 0; operation < OP_COUNT; operation++) {
		if (!reference_ran((enum operation)operation))
			text_format(&missing, " %s", operation_name((enum operation)operation));
	}
	check_report(!missing.length, "every operation has a row", "not%s", missing.data ? missing.data : "");
	text_release(&missing);
}

/* The instruction sets of this processor. */
static size_t find_targets(struct target *targets)
{
	static const char *const sets[TARGETS] = {"plain", "avx2", "avx512"};
	size_t count = 0;

	for (size_t i = 0; i < TARGETS; i++) {
		struct device_settings settings = {.threads = 1, .isa = sets[i]};
		struct device *device = NULL;

		if (cpu_backend.open(&settings, &device) || strcmp(cpu_backend.isa(device), sets[i]) != 0)
			check_skip(sets[i], "this processor has not got it");
		else
			targets[count++] = (struct target){&cpu_backend, sets[i]};
		if (device)
			cpu_backend.close(device);
	}
	return count;
}

int main(void)
{
	struct target targets[TARGETS];
	size_t count = find_targets(targets);

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		test_row(&table[i], targets, count);
	test_complete();
	for (size_t k = 0; k < count; k++)
		test_whole_parameters(&targets[k]);
	return check_summary();
}
