/*
 * The memory plan: random graphs give the same bits with every tensor in memory of its own as in the planned arena; what
 * lives at once does not overlap; a step allocates nothing; what was measured is what is allocated.
 */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "model/unet.h"

/* ---- counting allocations (not under a sanitizer, which has its own) ---- */

static _Atomic long heap_calls;

#if !defined(__SANITIZE_ADDRESS__)
#define HEAP_COUNTED true
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
	heap_calls++;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	heap_calls++;
	return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	heap_calls++;
	return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	heap_calls++;
	return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	heap_calls++;
	*memory = __libc_memalign(alignment, bytes);
	return *memory ? 0 : 12;
}
#else
#define HEAP_COUNTED false
#endif

/* The CPU back end with its allocations counted. */
static struct backend counting;
static uint64_t device_bytes;
static long device_calls;

static void *counted_allocate(struct device *device, size_t bytes)
{
	device_bytes += bytes;
	device_calls++;
	return cpu_backend.allocate(device, bytes);
}

static struct device *open_counted(void)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};
	struct device *device = NULL;

	counting = cpu_backend;
	counting.allocate = counted_allocate;
	device_bytes = 0;
	if (cpu_backend.open(&settings, &device))
		return NULL;
	device->backend = &counting;
	return device;
}

/* ---- random graphs ---- */

#define POOL 64
static const int64_t shape[4] = {2, 3, 4, 8};
static const int64_t tokens[3] = {2, 12, 8};

struct generator {
	struct random random;
	uint64_t seed;
	uint32_t drawn;
	struct graph *graph;
	int pool[POOL]; /* tensors of `shape` */
	int count;
};

static int draw(struct generator *g, int bound)
{
	return (int)random_below(g->random, g->seed, 0, g->drawn++, (uint64_t)bound);
}

static int any(struct generator *g)
{
	return g->pool[draw(g, g->count)];
}

/* A tensor of `shape` from some of the pool by one of a dozen pieces of networks. */
static int grow(struct generator *g, int index)
{
	struct graph *graph = g->graph;
	int x = any(g), y;
	char name[32];

	snprintf(name, sizeof(name), "layer%d", index);
	switch (draw(g, 11)) {
	case 0:
		return graph_convolution(graph, x, name,
			(struct convolution){.out = 8,
				.kernel = {3, 3},
				.pad_before = {1, 1},
				.pad_after = {1, 1},
				.bias = true});
	case 1:
		return graph_group_norm(graph, x, name, 2, 1e-5, ACTIVATION_SILU);
	case 2:
		return graph_activation(graph, x, ACTIVATION_GELU);
	case 3:
		y = graph_reshape(graph, x, 3, tokens);
		y = graph_attention(graph, y, graph_reshape(graph, any(g), 3, tokens), y, 2);
		return graph_reshape(graph, y, 4, shape);
	case 4:
		y = graph_concat(graph, x, any(g));
		return graph_convolution(graph, y, name, (struct convolution){.out = 8, .kernel = {1, 1}});
	case 5:
		return graph_geglu(graph, graph_concat(graph, x, any(g)));
	case 6:
		y = graph_linear(graph, graph_reshape(graph, x, 3, tokens), name, 8, true);
		return graph_reshape(graph, graph_layer_norm(graph, y, "norm", 1e-5), 4, shape);
	case 7:
		y = graph_convolution(graph, x, name,
			(struct convolution){.out = 8,
				.kernel = {3, 3},
				.stride = {2, 2},
				.pad_before = {1, 1},
				.pad_after = {1, 1}});
		return graph_upsample(graph, y, shape[1], shape[2]);
	default: /* additions most of all: they share gradients */
		return graph_add(graph, x, any(g));
	}
}

/* Everything is added up in the end, so that most of the pool matters. */
static int build_random(struct generator *g)
{
	int inputs = 1 + draw(g, 2), pieces = 4 + draw(g, 24), y, mask, target;

	for (int i = 0; i < inputs; i++) {
		g->pool[g->count++] = graph_input(g->graph, i ? "b" : "a", TENSOR_F32, 4, shape);
		if (draw(g, 2))
			graph_want_gradient(g->graph, g->pool[i]);
	}
	y = graph_linear(g->graph, g->pool[0], "first", 8, true);
	g->pool[g->count++] = y;
	for (int i = 0; i < pieces; i++) {
		g->pool[g->count++] = grow(g, i);
		if (draw(g, 12) == 0)
			graph_output(g->graph, g->pool[g->count - 1]);
		if (draw(g, 6) == 0)
			graph_want_gradient(g->graph, g->pool[g->count - 1]);
	}
	for (int i = inputs; i < g->count; i++) {
		if (draw(g, 3))
			y = graph_add(g->graph, y, g->pool[i]);
	}
	target = graph_input(g->graph, "target", TENSOR_F32, 4, shape);
	mask = graph_input(g->graph, "mask", TENSOR_F32, 3, shape);
	return graph_masked_mse(g->graph, y, target, mask);
}

/* ---- running every tensor in memory of its own ---- */

static void fill(float *values, size_t count, uint64_t stream)
{
	random_normal(random_stream(stream, "values"), 0, 0, 0, values, count);
}

static void fill_inputs(struct graph *graph)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];
		float values[2 * 3 * 4 * 8];

		if (tensor->kind != TENSOR_INPUT || tensor->alias >= 0)
			continue;
		fill(values, tensor->elements, i);
		for (size_t j = 0; j < tensor->elements && !strcmp(tensor->name, "mask"); j++)
			values[j] = j % 3 != 0;
		graph_write(graph, (int)i, values);
	}
}

/* Memory by root: copies of inputs and parameters, not-a-number for all else. */
static float **private_memory(const struct graph *graph)
{
	float **memory = memory_new(graph->tensor_count, sizeof(*memory));

	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];

		if (tensor->alias >= 0)
			continue;
		memory[i] = memory_aligned(tensor->bytes);
		if (tensor->kind == TENSOR_INPUT || tensor->kind == TENSOR_PARAMETER)
			memcpy(memory[i], graph_address(graph, (int)i), tensor->bytes);
		else
			memset(memory[i], 0xff, tensor->bytes);
	}
	return memory;
}

static int run_privately(struct graph *graph, float **memory)
{
	struct device *device = graph->program->device;
	int status = STATUS_OK;

	for (size_t n = 0; n < graph->node_count && !status; n++) {
		struct call call;

		graph_call(graph, n, &call, true);
		for (int k = 0; k < NODE_INPUTS; k++) {
			if (call.in[k])
				call.in_data[k] = memory[graph_root(graph, graph->nodes[n].in[k])];
		}
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (call.out[k])
				call.out_data[k] = memory[graph_root(graph, graph->nodes[n].out[k])];
		}
		status = device->backend->run(device, &call);
	}
	return status;
}

/* Whether outputs and gradients of parameters are what private memory holds, by the bit. */
static bool same_results(const struct graph *graph, float **memory)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];

		if (!tensor->output && tensor->kind != TENSOR_PARAMETER_GRADIENT)
			continue;
		if (memcmp(graph_address(graph, (int)i), memory[graph_root(graph, (int)i)], tensor->bytes) !=
			0)
			return false;
	}
	return true;
}

static void private_release(const struct graph *graph, float **memory)
{
	for (size_t i = 0; i < graph->tensor_count; i++)
		free(memory[i]);
	free(memory);
}

/* ---- overlaps by brute force ---- */

/* Tensors that hold different values must not share a byte while both are needed. What may share: one shape of the
 * other, or an output in the place of an input that dies at its node, or a copy whose source nobody reads once it is
 * written again. The last two are found out by running; here: what is written by a node, and what a later node reads. */
static bool clobbers(const struct graph *graph, size_t writer, int read)
{
	const struct tensor *r = &graph->tensors[graph_root(graph, read)];

	for (int k = 0; k < NODE_OUTPUTS; k++) {
		int out = graph->nodes[writer].out[k];
		const struct tensor *w;

		if (out < 0 || !graph_in_arena(graph, graph_root(graph, out)) ||
			graph_root(graph, out) == graph_root(graph, read))
			continue;
		w = &graph->tensors[graph_root(graph, out)];
		if (w->offset < r->offset + r->bytes && r->offset < w->offset + w->bytes)
			return graph->nodes[writer].operation != OP_COPY || w->offset != r->offset;
	}
	return false;
}

static size_t last_write_before(const struct graph *graph, size_t node, int tensor)
{
	for (size_t n = node; n-- > 0;) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (graph->nodes[n].out[k] >= 0 &&
				graph_root(graph, graph->nodes[n].out[k]) == graph_root(graph, tensor))
				return n;
		}
	}
	return SIZE_MAX;
}

/* Every value that a node reads still stands where it was written. */
static bool no_overlap(const struct graph *graph)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		for (int k = 0; k < NODE_INPUTS; k++) {
			int in = graph->nodes[n].in[k];
			size_t from;

			if (in < 0 || !graph_in_arena(graph, graph_root(graph, in)))
				continue;
			from = last_write_before(graph, n, in);
			if (from == SIZE_MAX)
				return false;
			for (size_t m = from + 1; m < n; m++) {
				if (clobbers(graph, m, in))
					return false;
			}
		}
	}
	return true;
}

/* ---- the tests ---- */

struct tally {
	int graphs, nodes, elided, in_place;
	double worst; /* arena over the lower bound */
};

static void count_plan(const struct graph *graph, struct tally *tally)
{
	tally->graphs++;
	tally->nodes += (int)graph->node_count;
	tally->elided += (int)(graph->node_count - graph->call_count);
	for (size_t n = 0; n < graph->call_count; n++)
		tally->in_place += graph->calls[n].in_data[0] == graph->calls[n].out_data[0];
	tally->worst = fmax(tally->worst, (double)graph->arena_bytes / (double)graph->lower_bound_bytes);
}

/* NULL, or what is wrong. */
static const char *try_random(struct device *device, uint64_t seed, struct tally *tally)
{
	struct program *program = program_new(device);
	struct generator generator = {.random = random_stream(11, "graph"), .seed = seed};
	const char *wrong = NULL;
	float **memory;

	generator.graph = graph_new(program, "random", true);
	graph_backward(generator.graph, build_random(&generator));
	if (program_prepare(program) || store_initialise(program_store(program), seed)) {
		program_free(program);
		return error_message();
	}
	fill_inputs(generator.graph);
	memory = private_memory(generator.graph);
	memset(program->arena, 0xff, program->bytes.arena);
	if (program->workspace)
		memset(program->workspace, 0xff, program->bytes.workspace);
	if (graph_run(generator.graph))
		wrong = error_message();
	else if (run_privately(generator.graph, memory))
		wrong = error_message();
	else if (!same_results(generator.graph, memory))
		wrong = "results differ from those in memory of their own";
	else if (!no_overlap(generator.graph))
		wrong = "a value is overwritten before it is read";
	count_plan(generator.graph, tally);
	private_release(generator.graph, memory);
	program_free(program);
	return wrong;
}

static void test_random_graphs(void)
{
	struct device *device = open_counted();
	struct tally tally = {0};
	const char *wrong = NULL;
	uint64_t seed = 0;

	while (seed < 300 && !wrong)
		wrong = try_random(device, ++seed, &tally);
	check_report(!wrong, "300 random graphs give the same bits as without a plan", "graph %d: %s",
		(int)seed, wrong ? wrong : "");
	check(tally.elided > 50 && tally.in_place > 1000, "copies are left out and operations run in place");
	check_report(tally.worst < 1.25, "arenas of random graphs are near the lower bound", "%.3f of it",
		tally.worst);
	printf("# %d graphs, %d nodes, %d copies left out, %d in place, arena at most %.3f of the bound\n",
		tally.graphs, tally.nodes, tally.elided, tally.in_place, tally.worst);
	device->backend->close(device);
}

/* ---- a step of a network ---- */

struct step {
	struct device *device;
	struct program *program;
	struct graph *train, *predict;
	int x, t, context, target, mask, loss, out;
};

static int build_part(struct step *step, struct graph *graph, int64_t n, int64_t h, int64_t w)
{
	static const struct unet unet = {.in_channels = 8,
		.out_channels = 4,
		.levels = 2,
		.width = {16, 32},
		.heads = {1, 2},
		.attention = {true, true},
		.layers = 1,
		.norm_groups = 4,
		.context_width = 8};

	step->x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){n, h, w, 8});
	step->t = graph_input(graph, "t", TENSOR_F32, 1, &n);
	step->context = graph_input(graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, 8});
	return unet_build(graph, &unet, step->x, step->t, step->context);
}

static int step_open(struct step *step)
{
	struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1};

	step->device = open_counted();
	if (!step->device)
		return error_status();
	step->program = program_new(step->device);
	step->predict = graph_new(step->program, "predict", false);
	graph_output(step->predict, build_part(step, step->predict, 1, 8, 10));
	step->train = graph_new(step->program, "train", true);
	step->out = build_part(step, step->train, 2, 6, 5);
	step->target = graph_input(step->train, "target", TENSOR_F32, 4, (int64_t[]){2, 6, 5, 4});
	step->mask = graph_input(step->train, "mask", TENSOR_F32, 3, (int64_t[]){2, 6, 5});
	step->loss = graph_masked_mse(step->train, step->out, step->target, step->mask);
	graph_backward(step->train, step->loss);
	program_micros(step->program, 4);
	return program_update_rule(step->program, &rule);
}

static void step_close(struct step *step)
{
	program_free(step->program);
	step->device->backend->close(step->device);
}

static int step_run(struct step *step, int64_t number)
{
	static float values[2 * 6 * 5 * 8], ones[2 * 6 * 5], times[2] = {3, 700};
	struct step_scalars scalars = {.learning_rate = 1e-3, .step = number};
	double norm;
	float loss;

	for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); i++)
		ones[i] = 1;
	for (int micro = 0; micro < 4; micro++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
			values[i] = (float)((i * 37 + (size_t)micro) % 11) / 11 - 0.5f;
		if (graph_write(step->train, step->x, values) || graph_write(step->train, step->t, times) ||
			graph_write(step->train, step->context, values) ||
			graph_write(step->train, step->target, values + 7) ||
			graph_write(step->train, step->mask, ones) || graph_run(step->train) ||
			graph_read(step->train, step->loss, &loss) ||
			program_collect(step->program, micro, 4))
			return error_status();
	}
	if (program_gradient_norm(step->program, &norm) || program_not_finite(step->program) ||
		program_update(step->program, &scalars))
		return error_status();
	return graph_run(step->predict);
}

static void test_bytes_and_calls(void)
{
	struct step step = {0};
	struct program_bytes before = {0}, after = {0};
	long heap, calls;

	if (!check_status(step_open(&step), 0, "a network is built") ||
		!check_status(program_measure(step.program, &before), 0,
			"it is measured before anything is allocated"))
		return;
	check(device_bytes == 0, "nothing is allocated by then");
	check_status(program_prepare(step.program), 0, "it is prepared");
	check_report(device_bytes == before.total && before.total > 0,
		"what was measured is what is allocated", "%llu bytes measured, %llu allocated",
		(unsigned long long)before.total, (unsigned long long)device_bytes);
	check(!program_measure(step.program, &after) && !memcmp(&before, &after, sizeof(after)),
		"measuring afterwards gives the same");
	check(before.state == 2 * before.gradients && before.accumulators == 2 * before.gradients,
		"two moments, and two partial sums for four micro-batches");
	check(before.total == before.parameters + before.gradients + before.accumulators + before.state +
				      before.inputs + before.arena + before.workspace,
		"the kinds add up");
	store_initialise(program_store(step.program), 1);
	check_status(step_run(&step, 1), 0, "a first step");
	heap = heap_calls;
	calls = device_calls;
	check_status(step_run(&step, 2) || step_run(&step, 3), 0, "two more steps");
	check(device_calls == calls, "a step allocates nothing on the device");
	if (HEAP_COUNTED)
		check_report(heap_calls == heap, "a step allocates nothing in the host", "%ld calls",
			heap_calls - heap);
	else
		check_skip("a step allocates nothing in the host", "allocations are the sanitizer's");
	step_close(&step);
}

int main(void)
{
	test_random_graphs();
	test_bytes_and_calls();
	return check_summary();
}
