/*
 * Times single operations; not a test. tests/bench/operations asks it and its peer in turn.
 *
 *	build/tests/measure/operations [THREADS [ISA [SECONDS [PRECISION]]]]
 *
 * Each line of the standard input is an operation and its sizes (the table at the end); the answer is a line for each node it
 * is made of, forward and backward: operation, fastest seconds, floating-point operations; then an empty line. With one
 * thread the seconds are those of its processor time, which a busy machine disturbs less.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/text.h"
#include "cpu/cpu.h"
#include "graph/backend.h"

#define SIZES 16
#define INPUTS 4

/* Seconds of each operation in the run that goes on, and in the fastest one. */
static struct {
	double now, fastest, flops;
} spent[OP_COUNT];

static clockid_t clock_used = CLOCK_MONOTONIC;

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(clock_used, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int timed_run(struct device *device, const struct call *call)
{
	const double start = seconds_now();
	const int status = cpu_backend.run(device, call);
	spent[call->node->operation].now += seconds_now() - start;
	spent[call->node->operation].flops += call->node->flops;
	return status;
}

struct trial {
	struct program *program;
	struct graph *graph;
	int input[INPUTS], inputs;
};

static int input(struct trial *trial, enum tensor_type type, int dims, const int64_t *dim)
{
	char name[16];
	snprintf(name, sizeof name, "input %d", trial->inputs);
	const int tensor = graph_input(trial->graph, name, type, dims, dim);
	trial->input[trial->inputs++] = tensor;
	return tensor;
}

static int variable(struct trial *trial, int dims, const int64_t *dim)
{
	const int tensor = input(trial, TENSOR_F32, dims, dim);
	graph_want_gradient(trial->graph, tensor);
	return tensor;
}

/* n d h w c; d 0: images */
static int clip(struct trial *trial, const int *s)
{
	if (s[1])
		return variable(trial, 5, (int64_t[]){s[0], s[1], s[2], s[3], s[4]});
	return variable(trial, 4, (int64_t[]){s[0], s[2], s[3], s[4]});
}

static int rows(struct trial *trial, const int *s)
{
	return variable(trial, 2, (int64_t[]){s[0], s[1]});
}

static int build_convolution(struct trial *trial, const int *s)
{
	struct convolution convolution = {.out = s[5], .groups = s[15], .bias = s[1] == 0};
	const int axis = s[1] ? 0 : 1, x = clip(trial, s);
	for (int i = axis; i < 3; i++) {
		convolution.kernel[i - axis] = s[6 + i];
		convolution.stride[i - axis] = s[9 + i];
		convolution.pad_before[i - axis] = convolution.pad_after[i - axis] = s[12 + i];
	}
	return graph_convolution(trial->graph, x, "layer", convolution);
}

static int build_linear(struct trial *trial, const int *s)
{
	return graph_linear(trial->graph, rows(trial, s), "layer", s[2], true);
}

static int build_batch_norm(struct trial *trial, const int *s)
{
	const struct batch_norm norm = {
		.epsilon = 1e-5, .momentum = 0.1, .activation = s[5] ? ACTIVATION_RELU : ACTIVATION_NONE};
	const int x = clip(trial, s), residual = s[6] ? clip(trial, s) : -1;
	return graph_batch_norm(trial->graph, x, "layer", norm, residual);
}

static int build_group_norm(struct trial *trial, const int *s)
{
	return graph_group_norm(
		trial->graph, clip(trial, s), "layer", s[5], 1e-5, s[6] ? ACTIVATION_SILU : ACTIVATION_NONE);
}

static int build_layer_norm(struct trial *trial, const int *s)
{
	return graph_layer_norm(trial->graph, rows(trial, s), "layer", 1e-5);
}

static int build_attention(struct trial *trial, const int *s)
{
	const int q = variable(trial, 3, (int64_t[]){s[0], s[1], s[3]});
	const int k = variable(trial, 3, (int64_t[]){s[0], s[2], s[3]});
	return graph_attention(trial->graph, q, k, variable(trial, 3, (int64_t[]){s[0], s[2], s[3]}), s[4]);
}

static int build_geglu(struct trial *trial, const int *s)
{
	return graph_geglu(trial->graph, rows(trial, s));
}

static int build_activation(struct trial *trial, const int *s)
{
	return graph_activation(trial->graph, rows(trial, s), (enum activation)s[2]);
}

static struct pool pool_of(const int *s)
{
	return (struct pool){.kernel = {s[0], s[0], s[0]},
		.stride = {s[1], s[1], s[1]},
		.pad_before = {s[2], s[2], s[2]},
		.pad_after = {s[2], s[2], s[2]}};
}

static int build_max_pool(struct trial *trial, const int *s)
{
	return graph_max_pool(trial->graph, clip(trial, s), pool_of(s + 5));
}

static int build_average_pool(struct trial *trial, const int *s)
{
	return graph_average_pool(trial->graph, clip(trial, s), pool_of(s + 5));
}

static int build_global_pool(struct trial *trial, const int *s)
{
	return graph_global_pool(trial->graph, clip(trial, s));
}

static int build_upsample(struct trial *trial, const int *s)
{
	return graph_upsample(trial->graph, clip(trial, s), 2L * s[2], 2L * s[3]);
}

static int build_concat(struct trial *trial, const int *s)
{
	const int a = clip(trial, s);
	return graph_concat(trial->graph, a, clip(trial, s));
}

static int build_add(struct trial *trial, const int *s)
{
	const int a = rows(trial, s);
	return graph_add(trial->graph, a, rows(trial, s));
}

static int build_cross_entropy(struct trial *trial, const int *s)
{
	const int x = rows(trial, s);
	return graph_cross_entropy(
		trial->graph, x, input(trial, TENSOR_I32, 1, (int64_t[]){s[0]}), s[2] / 100.0)
		.loss;
}

static int build_embedding(struct trial *trial, const int *s)
{
	return graph_embedding(
		trial->graph, input(trial, TENSOR_I32, 1, (int64_t[]){s[2]}), "layer", s[0], s[1]);
}

static const struct {
	const char *name;
	int (*build)(struct trial *trial, const int *s);
} builders[] = {
	{"convolution", build_convolution}, /* n d h w c out, kernel, stride, padding (each d h w), groups */
	{"linear", build_linear},           /* rows in out */
	{"batch-norm", build_batch_norm},   /* n d h w c, ReLU, residual */
	{"group-norm", build_group_norm},   /* n d h w c groups, SiLU */
	{"layer-norm", build_layer_norm},   /* rows c */
	{"attention", build_attention},     /* n queries keys width heads */
	{"geglu", build_geglu},             /* rows 2c */
	{"activation", build_activation},   /* rows c kind */
	{"max-pool", build_max_pool},       /* n d h w c, kernel stride padding */
	{"average-pool", build_average_pool},   /* the same */
	{"global-pool", build_global_pool},     /* n d h w c */
	{"upsample", build_upsample},           /* n 0 h w c */
	{"concat", build_concat},               /* n d h w c */
	{"add", build_add},                     /* rows c */
	{"cross-entropy", build_cross_entropy}, /* n classes, smoothing in per cent */
	{"embedding", build_embedding},         /* rows width count */
};

static int trial_build(struct trial *trial, const char *name, const int *s)
{
	struct graph *graph = trial->graph;
	int y = -1, dims;
	int64_t dim[5] = {0};
	for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
		if (strcmp(builders[i].name, name) == 0)
			y = builders[i].build(trial, s);
	if (y < 0)
		return error_set(STATUS_USAGE, "%s: no such operation, or not of these sizes", name);
	dims = graph_dims(graph, y);
	for (int i = 0; i < dims; i++)
		dim[i] = graph_dim(graph, y, i);
	graph_backward(graph, dims == 1 ? y : graph_mse(graph, y, input(trial, TENSOR_F32, dims, dim)));
	return program_prepare(trial->program);
}

/* Numbers from -1 to 1, integers from 0 to 6. */
static int trial_fill(struct trial *trial)
{
	int status = store_initialise(program_store(trial->program), 1);
	for (int i = 0; i < trial->inputs && !status; i++) {
		const size_t count = graph_elements(trial->graph, trial->input[i]);
		const bool integers = graph_dims(trial->graph, trial->input[i]) == 1;
		float *data = calloc(count, sizeof *data);
		int32_t *numbers = (int32_t *)data;
		for (size_t e = 0; data && e < count; e++) {
			const uint32_t random = (uint32_t)e * 2654435761u >> 8;
			if (integers)
				numbers[e] = (int32_t)(random % 7);
			else
				data[e] = (float)random / 8388608.0f - 1;
		}
		status = data ? graph_write(trial->graph, trial->input[i], data) : STATUS_FAILURE;
		free(data);
	}
	return status;
}

static int trial_measure(struct trial *trial, double seconds)
{
	int status = graph_run(trial->graph);
	for (int i = 0; i < OP_COUNT; i++)
		spent[i].fastest = 1e9;
	const double start = seconds_now();
	for (int run = 0; !status && (run < 3 || seconds_now() - start < seconds); run++) {
		for (int i = 0; i < OP_COUNT; i++)
			spent[i].now = spent[i].flops = 0;
		status = graph_run(trial->graph);
		for (int i = 0; i < OP_COUNT; i++)
			spent[i].fastest = spent[i].now < spent[i].fastest ? spent[i].now : spent[i].fastest;
	}
	for (int i = 0; i < OP_COUNT && !status; i++)
		if (spent[i].fastest > 0)
			printf("%s\t%.9f\t%.0f\n", operation_name((enum operation)i), spent[i].fastest,
				spent[i].flops);
	return status;
}

static int answer(struct device *device, char *line, double seconds)
{
	char *word[SIZES + 1] = {line};
	int s[SIZES] = {0};
	line[strcspn(line, "\n")] = '\0';
	const int words = text_split(line, ' ', word, SIZES + 1);
	for (int i = 1; i < words; i++) {
		int64_t value;
		if (!text_to_int64(word[i], &value))
			return error_set(STATUS_USAGE, "%s: not a size", word[i]);
		s[i - 1] = (int)value;
	}
	struct trial trial = {.program = program_new(device)};
	trial.graph = graph_new(trial.program, "trial", true);
	int status = trial_build(&trial, word[0], s);
	if (!status)
		status = trial_fill(&trial);
	if (!status)
		status = trial_measure(&trial, seconds);
	printf("\n");
	fflush(stdout);
	program_free(trial.program);
	return status;
}

int main(int argc, char **argv)
{
	int64_t threads = 2;
	double seconds = 0.2;
	struct device *device = NULL;
	struct backend timed = cpu_backend;
	char line[512];
	error_program(argv[0]);
	if ((argc > 1 && !text_to_int64(argv[1], &threads)) ||
		(argc > 3 && !text_to_double(argv[3], &seconds)))
		return error_print(
			error_set(STATUS_USAGE, "usage: operations [THREADS [ISA [SECONDS [PRECISION]]]]"));
	const struct device_settings settings = {.threads = (int)threads,
		.isa = argc > 2 ? argv[2] : "auto",
		.precision = argc > 4 ? argv[4] : "auto"};
	int status = cpu_backend.open(&settings, &device);
	if (status)
		return error_print(status);
	timed.run = timed_run;
	clock_used = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
	device->backend = &timed;
	while (!status && fgets(line, sizeof line, stdin))
		status = answer(device, line, seconds);
	cpu_backend.close(device);
	return status ? error_print(status) : close_stdout(0);
}
