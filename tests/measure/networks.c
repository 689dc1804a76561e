/*
 * Takes training steps of whole networks, one whenever it is asked; not a test. tests/bench/networks asks it and its peer in turn.
 *
 *	build/tests/measure/networks WORK [THREADS [ISA [PRECISION [profile]]]]
 *
 * WORK: resnet3d-18, resnet3d-50 (4 clips of 3x16x112x112, 400 classes, SGD), unet-demo (widths 32, 64; 12x16 latents; batch 8),
 * unet-fifth (64, 128, 256, 256; 60x80; batch 2), unet-full (320 to 1280; 60x80; batch 1), all with Adam, or surface (a signed
 * distance on a hash grid of 8 levels, 128 rays of 32 samples, AdamW). Two steps are taken first; then a line says what runs. Each
 * line of the standard input is answered by "seconds TAB peak of the resident set in bytes". With one thread the seconds are those
 * of the processor time, which a busy machine disturbs less. With `profile` the time of each operation follows at the end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "cpu/cpu.h"
#include "graph/look.h"
#include "model/resnet3d.h"
#include "model/unet.h"
#include "support/field.h"

struct network {
	struct program *program;
	struct graph *graph, *first; /* the second runs before it: the samples of rays */
	int loss, from, to;          /* a result of `first` that is an input of `graph` */
	float *passed;
	struct step_scalars scalars;
};

/* ---- inputs ---- */

static struct random numbers;

/* Writes `count` uniform numbers from low to high. */
static int write_uniform(struct graph *graph, int tensor, double low, double high)
{
	const size_t count = graph_elements(graph, tensor);
	float *values = memory_new(count, sizeof *values);
	if (!values)
		return error_status();
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(low +
				    (high - low) * random_uniform(numbers, 0, (uint64_t)tensor, (uint32_t)i));
	const int status = graph_write(graph, tensor, values);
	free(values);
	return status;
}

static int write_classes(struct graph *graph, int tensor, int32_t classes)
{
	const size_t count = graph_elements(graph, tensor);
	int32_t *values = memory_new(count, sizeof *values);
	if (!values)
		return error_status();
	for (size_t i = 0; i < count; i++)
		values[i] = (int32_t)(i * 7) % classes;
	const int status = graph_write(graph, tensor, values);
	free(values);
	return status;
}

/* Rays from around the unit sphere to places near its middle. */
static int write_rays(const struct network *network, int first, int second, int count)
{
	float *rays = memory_new((size_t)count * RAY_NUMBERS, sizeof *rays);
	if (!rays)
		return error_status();
	for (int r = 0; r < count; r++) {
		float *ray = rays + r * RAY_NUMBERS;
		double length = 0, along = 0, inside = -1;
		for (int k = 0; k < 3; k++) {
			ray[k] = (float)(k == 2 ? -3
						: random_uniform(numbers, 1, (uint64_t)r, (uint32_t)k) - 0.5);
			ray[3 + k] =
				(float)((random_uniform(numbers, 2, (uint64_t)r, (uint32_t)k) - 0.5) * 0.8) -
				ray[k];
			length += (double)ray[3 + k] * ray[3 + k];
		}
		for (int k = 0; k < 3; k++) {
			ray[3 + k] = (float)(ray[3 + k] / sqrt(length));
			along += (double)ray[k] * ray[3 + k];
			inside += (double)ray[k] * ray[k];
		}
		const double root = sqrt(along * along - inside);
		ray[6] = (float)(-along - root);
		ray[7] = (float)(-along + root);
		ray[8] = 1;
	}
	int status = graph_write(network->first, first, rays);
	if (!status)
		status = graph_write(network->graph, second, rays);
	free(rays);
	return status;
}

/* ---- networks ---- */

static const struct optimizer_rule sgd = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-3};
static const struct optimizer_rule adam = {
	.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const struct optimizer_rule adamw = {
	.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 1e-2};

static int prepare(struct network *network, const struct optimizer_rule *rule)
{
	int status = program_update_rule(network->program, rule);
	program_early_updates(network->program);
	if (!status)
		status = program_prepare(network->program);
	return status ? status : store_initialise(program_store(network->program), 1);
}

static int build_resnet(struct network *network, int depth)
{
	const struct resnet3d resnet = resnet3d_default(RESNET3D_RESNET, depth, 400);
	struct graph *graph = network->graph = graph_new(network->program, "train", true);
	if (!graph)
		return error_status();
	const int x = graph_input(graph, "clips", TENSOR_F32, 5, (int64_t[]){4, 16, 112, 112, 3});
	const int classes = graph_input(graph, "classes", TENSOR_I32, 1, (int64_t[]){4});
	network->loss = graph_cross_entropy(graph, resnet3d_build(graph, &resnet, x, true), classes, 0).loss;
	graph_backward(graph, network->loss);
	int status = prepare(network, &sgd);
	if (!status)
		status = write_uniform(graph, x, -1.5, 1.5);
	return status ? status : write_classes(graph, classes, 400);
}

static int build_unet(struct network *network, const struct unet *unet, int64_t n, int64_t h, int64_t w)
{
	struct graph *graph = network->graph = graph_new(network->program, "train", true);
	if (!graph)
		return error_status();
	const int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){n, h, w, unet->in_channels});
	const int t = graph_input(graph, "t", TENSOR_F32, 1, (int64_t[]){n});
	const int context =
		graph_input(graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, unet->context_width});
	const int target =
		graph_input(graph, "target", TENSOR_F32, 4, (int64_t[]){n, h, w, unet->out_channels});
	network->loss = graph_mse(graph, unet_build(graph, unet, x, t, context), target);
	graph_backward(graph, network->loss);
	int status = prepare(network, &adam);
	if (!status)
		status = write_uniform(graph, x, -1.5, 1.5) || write_uniform(graph, t, 0, 999) ||
			 write_uniform(graph, context, -1, 1) || write_uniform(graph, target, -1, 1);
	return status ? error_status() : STATUS_OK;
}

static int build_surface(struct network *network)
{
	static const struct field field = {.grid = {8, 4, 4, 9, 18, -2, 2},
		.sdf_layers = 1,
		.sdf_hidden = 64,
		.colour_layers = 2,
		.colour_hidden = 64,
		.rays = 128,
		.coarse = 16,
		.fine = 8,
		.rounds = 2,
		.taps = 4};
	const struct field_samples samples = field_add_samples(network->program, &field);
	const struct field_graph graph = field_add_graph(network->program, &field, true);
	network->first = samples.graph;
	network->graph = graph.graph;
	network->loss = graph.total;
	network->from = samples.distance;
	network->to = graph.distance;
	network->scalars.anneal = 1;
	network->scalars.epsilon = 1.0 / 513;
	network->passed = memory_new(graph_elements(graph.graph, graph.distance), sizeof *network->passed);
	int status = network->passed ? prepare(network, &adamw) : error_status();
	if (!status)
		status = write_rays(network, samples.rays, graph.rays, field.rays);
	if (!status)
		status = write_uniform(graph.graph, graph.target, 0, 1);
	return status ? status : graph_write(graph.graph, graph.curvature_weight, &(float){5e-4f});
}

static const struct unet demo = {.in_channels = 8,
	.out_channels = 4,
	.levels = 2,
	.width = {32, 64},
	.heads = {1, 2},
	.attention = {true, true},
	.layers = 1,
	.norm_groups = 8,
	.context_width = 32};
static const struct unet fifth = {.in_channels = 8,
	.out_channels = 4,
	.levels = 4,
	.width = {64, 128, 256, 256},
	.heads = {1, 2, 4, 4},
	.attention = {true, true, true, false},
	.layers = 2,
	.norm_groups = 32,
	.context_width = 1024};
static const struct unet full = {.in_channels = 8,
	.out_channels = 4,
	.levels = 4,
	.width = {320, 640, 1280, 1280},
	.heads = {5, 10, 20, 20},
	.attention = {true, true, true, false},
	.layers = 2,
	.norm_groups = 32,
	.context_width = 1024};

static int build(struct network *network, const char *work)
{
	if (!strcmp(work, "resnet3d-18"))
		return build_resnet(network, 18);
	if (!strcmp(work, "resnet3d-50"))
		return build_resnet(network, 50);
	if (!strcmp(work, "unet-demo"))
		return build_unet(network, &demo, 8, 12, 16);
	if (!strcmp(work, "unet-fifth"))
		return build_unet(network, &fifth, 2, 60, 80);
	if (!strcmp(work, "unet-full"))
		return build_unet(network, &full, 1, 60, 80);
	if (!strcmp(work, "surface"))
		return build_surface(network);
	return error_set(STATUS_USAGE,
		"%s: no such work; choose resnet3d-18, resnet3d-50, unet-demo, unet-fifth, unet-full or "
		"surface",
		work);
}

/* ---- steps ---- */

/* The loss, too, is read, as a training loop does. */
static int step(struct network *network)
{
	float loss;
	int status = STATUS_OK;
	network->scalars.step++;
	network->scalars.learning_rate = 1e-4;
	program_set_scalars(network->program, &network->scalars);
	if (network->first) {
		status = graph_run(network->first);
		if (!status)
			status = graph_read(network->first, network->from, network->passed);
		if (!status)
			status = graph_write(network->graph, network->to, network->passed);
	}
	if (!status)
		status = graph_run(network->graph);
	if (!status)
		status = program_collect(network->program, 0, 1);
	if (!status)
		status = program_update(network->program, &network->scalars);
	if (!status)
		status = graph_read(network->graph, network->loss, &loss);
	if (!status && !isfinite(loss))
		return error_set(STATUS_FAILURE, "the loss is %g at step %lld", loss,
			(long long)network->scalars.step);
	return status;
}

static clockid_t clock_used = CLOCK_MONOTONIC;

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(clock_used, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int answer(struct network *network, struct profile *profile)
{
	char line[64];
	double total = 0;
	int64_t steps = 0;
	while (fgets(line, sizeof line, stdin)) {
		const double start = seconds_now();
		if (step(network))
			return error_status();
		const double took = seconds_now() - start;
		struct rusage usage;
		getrusage(RUSAGE_SELF, &usage);
		printf("%.6f\t%.0f\n", took, (double)usage.ru_maxrss * 1024);
		fflush(stdout);
		total += took;
		steps++;
	}
	if (!profile || !steps)
		return STATUS_OK;
	struct machine machine = {.flops = 1, .traffic = 1};
	struct text rows = {0};
	int status = profile_table(profile, &machine, steps, total, &rows);
	if (!status)
		fputs(rows.data, stdout);
	text_release(&rows);
	return status;
}

static int run(const char *work, const struct device_settings *settings, bool profiled)
{
	struct device *device = NULL;
	struct network network = {0};
	struct profile *profile = NULL;
	int status = cpu_backend.open(settings, &device);
	if (status)
		return status;
	numbers = random_stream(1, "measure");
	network.program = program_new(device);
	status = network.program ? build(&network, work) : error_status();
	for (int i = 0; i < 2 && !status; i++)
		status = step(&network);
	if (!status && profiled) {
		profile = profile_new();
		status = profile ? STATUS_OK : error_status();
		program_set_watch(network.program, watch_profile, profile);
	}
	if (!status) {
		printf("nightshift %s, %s, %s\n", NIGHTSHIFT_VERSION, cpu_backend.isa(device),
			cpu_backend.precision(device));
		fflush(stdout);
		status = answer(&network, profile);
	}
	profile_free(profile);
	free(network.passed);
	program_free(network.program);
	cpu_backend.close(device);
	return status;
}

int main(int argc, char **argv)
{
	int64_t threads = 2;
	error_program(argv[0]);
	if (argc < 2 || (argc > 2 && !text_to_int64(argv[2], &threads)))
		return error_print(error_set(
			STATUS_USAGE, "usage: networks WORK [THREADS [ISA [PRECISION [profile]]]]"));
	clock_used = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
	const struct device_settings settings = {.threads = (int)threads,
		.isa = argc > 3 ? argv[3] : "auto",
		.precision = argc > 4 ? argv[4] : "f32"};
	return run(argv[1], &settings, argc > 5) ? error_print(error_status()) : close_stdout(0);
}
