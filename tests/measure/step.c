/*
 * Times a training step of a U-Net and says where the time goes; not a test.
 *
 *	build/tests/measure/step [demo|fifth|full] [THREADS [ISA [SECONDS]]]
 *
 * demo: the depth demo's (widths 32, 64; 12x16 latents; batch 8). fifth: widths 64, 128, 256, 256; 60x80; batch 2.
 * full: the published one, widths 320 to 1280; 60x80; batch 1.
 * Rows: #what calls mean_s cpu_s share gflops gbytes_s. cpu_s: processor time of all threads, which a busy machine
 * disturbs less; share and rates are of cpu_s, so the rates are those of one core. The last row is the whole step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cpu/cpu.h"
#include "graph/backend.h"
#include "model/unet.h"

/* What each operation took. */
static struct {
	double seconds, cpu, flops, traffic;
	int64_t calls;
} spent[OP_COUNT];
static bool counting;

static double cpu_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int timed_run(struct device *device, const struct call *call)
{
	double start = clock_seconds(), cpu = cpu_seconds();
	int status = cpu_backend.run(device, call);
	if (counting) {
		const enum operation operation = call->node->operation;
		spent[operation].seconds += clock_seconds() - start;
		spent[operation].cpu += cpu_seconds() - cpu;
		spent[operation].flops += call->node->flops;
		spent[operation].traffic += call->node->traffic;
		spent[operation].calls++;
	}
	return status;
}

struct workload {
	const char *name;
	struct unet unet;
	int64_t batch, height, width;
};

static const struct workload workloads[] = {
	{"demo",
		{.in_channels = 8,
			.out_channels = 4,
			.levels = 2,
			.width = {32, 64},
			.heads = {1, 2},
			.attention = {true, true},
			.layers = 1,
			.norm_groups = 8,
			.context_width = 32},
		8, 12, 16},
	{"fifth",
		{.in_channels = 8,
			.out_channels = 4,
			.levels = 4,
			.width = {64, 128, 256, 256},
			.heads = {1, 2, 4, 4},
			.attention = {true, true, true, false},
			.layers = 2,
			.norm_groups = 32,
			.context_width = 1024},
		2, 60, 80},
	{"full",
		{.in_channels = 8,
			.out_channels = 4,
			.levels = 4,
			.width = {320, 640, 1280, 1280},
			.heads = {5, 10, 20, 20},
			.attention = {true, true, true, false},
			.layers = 2,
			.norm_groups = 32,
			.context_width = 1024},
		1, 60, 80},
};

struct network {
	struct program *program;
	struct graph *graph;
	int input[5], loss;
};

static int network_build(struct network *network, struct device *device, const struct workload *work)
{
	const int64_t n = work->batch, h = work->height, w = work->width;
	const struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1};
	network->program = program_new(device);
	if (!network->program)
		return error_status();
	struct graph *graph = network->graph = graph_new(network->program, "train", true);
	if (!graph)
		return error_status();
	int *in = network->input;
	in[0] = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){n, h, w, work->unet.in_channels});
	in[1] = graph_input(graph, "t", TENSOR_F32, 1, (int64_t[]){n});
	in[2] = graph_input(graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, work->unet.context_width});
	in[3] = graph_input(graph, "target", TENSOR_F32, 4, (int64_t[]){n, h, w, work->unet.out_channels});
	in[4] = graph_input(graph, "mask", TENSOR_F32, 3, (int64_t[]){n, h, w});
	int y = unet_build(graph, &work->unet, in[0], in[1], in[2]);
	network->loss = graph_masked_mse(graph, y, in[3], in[4]);
	graph_backward(graph, network->loss);
	int status = program_update_rule(network->program, &rule);
	return status ? status : program_prepare(network->program);
}

static int network_fill(struct network *network)
{
	int status = store_initialise(program_store(network->program), 1);
	for (int i = 0; i < 5 && !status; i++) {
		size_t count = graph_elements(network->graph, network->input[i]);
		float *data = calloc(count, sizeof *data);
		for (size_t e = 0; data && e < count; e++)
			data[e] = i == 4   ? 1.0f
				  : i == 1 ? (float)(e * 131 % 1000)
					   : (float)((e * 2654435761u >> 8 & 255) / 128.0 - 1);
		status = data ? graph_write(network->graph, network->input[i], data) : STATUS_FAILURE;
		free(data);
	}
	return status;
}

static int network_step(struct network *network, int64_t step)
{
	const struct step_scalars scalars = {.learning_rate = 1e-3, .step = step};
	int status = graph_run(network->graph);
	if (!status)
		status = program_collect(network->program, 0, 1);
	return status ? status : program_update(network->program, &scalars);
}

static void print_row(
	const char *what, int64_t count, double mean, double cpu, double whole, double flops, double traffic)
{
	printf("%s\t%lld\t%.6f\t%.6f\t%.3f\t%.1f\t%.1f\n", what, (long long)count, mean, cpu, cpu / whole,
		flops / cpu * 1e-9, traffic / cpu * 1e-9);
}

static void print_operations(int64_t steps, double total, double cpu, const struct graph *graph)
{
	double rest = total, cpu_rest = cpu, n = (double)steps;
	printf("#what\tcalls\tmean_s\tcpu_s\tshare\tgflops\tgbytes_s\n");
	for (int i = 0; i < OP_COUNT; i++) {
		if (!spent[i].calls)
			continue;
		print_row(operation_name((enum operation)i), spent[i].calls / steps, spent[i].seconds / n,
			spent[i].cpu / n, cpu, spent[i].flops / n, spent[i].traffic / n);
		rest -= spent[i].seconds / n;
		cpu_rest -= spent[i].cpu / n;
	}
	print_row("update and the rest", 1, rest, cpu_rest, cpu, 0, 0);
	print_row("step", steps, total, cpu, cpu, graph_flops(graph), graph_traffic(graph));
}

/* Warms up for a fifth of the time, then measures; steps are at least one and three. */
static int measure(struct network *network, double limit)
{
	float first = 0, last = 0;
	int64_t step = 0, steps = 0;
	int status = graph_run(network->graph);
	if (!status)
		status = graph_read(network->graph, network->loss, &first);
	for (double start = clock_seconds(); !status && (step < 1 || clock_seconds() - start < limit / 5);)
		status = network_step(network, ++step);
	counting = true;
	double start = clock_seconds(), cpu = cpu_seconds(), fastest = 1e9;
	while (!status && (steps < 3 || clock_seconds() - start < limit)) {
		double before = clock_seconds();
		status = network_step(network, ++step);
		double took = clock_seconds() - before;
		fastest = took < fastest ? took : fastest;
		steps++;
	}
	double total = (clock_seconds() - start) / (double)steps;
	cpu = (cpu_seconds() - cpu) / (double)steps;
	if (!status)
		status = graph_read(network->graph, network->loss, &last);
	if (status)
		return status;
	print_operations(steps, total, cpu, network->graph);
	printf("# fastest step %.6f s\n", fastest);
	printf("# loss %.6g before, %.6g after %lld steps\n", first, last, (long long)step);
	return STATUS_OK;
}

static int run(const struct workload *work, int threads, const char *isa, double seconds)
{
	struct device *device = NULL;
	struct network network = {0};
	struct backend timed = cpu_backend;
	int status = cpu_backend.open(&(struct device_settings){.threads = threads, .isa = isa}, &device);
	if (status)
		return status;
	timed.run = timed_run;
	device->backend = &timed;
	printf("# %s, %s, %d threads, %s\n", work->name, cpu_backend.isa(device), threads,
		cpu_backend.model(device));
	status = network_build(&network, device, work);
	if (!status)
		status = network_fill(&network);
	if (!status)
		status = measure(&network, seconds);
	program_free(network.program);
	cpu_backend.close(device);
	return status;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "demo", *isa = argc > 3 ? argv[3] : "auto";
	int64_t threads = 2;
	double seconds = 5;
	error_program(argv[0]);
	if ((argc > 2 && !text_to_int64(argv[2], &threads)) ||
		(argc > 4 && !text_to_double(argv[4], &seconds)))
		return error_print(
			error_set(STATUS_USAGE, "usage: step [demo|fifth|full] [THREADS [ISA [SECONDS]]]"));
	for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
		if (strcmp(workloads[i].name, name) == 0)
			return run(&workloads[i], (int)threads, isa, seconds) ? error_print(error_status())
									      : close_stdout(0);
	return error_print(error_set(STATUS_USAGE, "%s: no such workload; choose demo, fifth or full", name));
}
