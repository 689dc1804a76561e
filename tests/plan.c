/*
 * The memory plan: random graphs give the same bits with every tensor in memory of its own as in the planned arena; what
 * lives at once does not overlap; a step allocates nothing; what was measured is what is allocated.
 */
#include "base/memory.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "model/unet.h"
#include "support/random_graph.h"
#include "support/reference.h"

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

/* ---- running every tensor in memory of its own ---- */

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
	struct graph *graph = random_graph(program, seed);
	const char *wrong = NULL;
	float **memory;

	if (!graph || program_prepare(program) || random_graph_fill(graph, seed)) {
		program_free(program);
		return error_message();
	}
	memory = private_memory(graph);
	memset(program->arena, 0xff, program->bytes.arena);
	if (program->workspace)
		memset(program->workspace, 0xff, program->bytes.workspace);
	if (graph_run(graph))
		wrong = error_message();
	else if (run_privately(graph, memory))
		wrong = error_message();
	else if (!same_results(graph, memory))
		wrong = "results differ from those in memory of their own";
	else if (!no_overlap(graph))
		wrong = "a value is overwritten before it is read";
	count_plan(graph, tally);
	private_release(graph, memory);
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

/* ---- gradients of random graphs ---- */

static double loss_at(struct graph *graph, double *value, double x)
{
	double had = *value, loss;

	*value = x;
	graph_run(graph);
	loss = *reference_at(graph->program->device, graph_address(graph, graph->loss));
	*value = had;
	return loss;
}

/* Error of one element's gradient against a difference of fourth order, over `scale`. */
static double element_error(struct graph *graph, double *value, double gradient, double scale)
{
	double x = *value, h = 1e-4;
	double slope = (8 * (loss_at(graph, value, x + h) - loss_at(graph, value, x - h)) -
			       (loss_at(graph, value, x + 2 * h) - loss_at(graph, value, x - 2 * h))) /
		       (12 * h);

	return fabs(slope - gradient) / scale;
}

/* Some elements of one tensor. */
static double tensor_error(struct graph *graph, void *values, void *gradients, size_t count)
{
	struct device *dev = graph->program->device;
	double *value = reference_at(dev, values), *gradient = reference_at(dev, gradients), kept[4],
	       largest = 0;
	double worst = 0;
	size_t step = count / 3 + 1;

	graph_run(graph);
	for (size_t j = 0; j < count; j++)
		largest = fmax(largest, fabs(gradient[j]));
	for (size_t j = 0, k = 0; j < count; j += step)
		kept[k++] = gradient[j];
	for (size_t j = 0, k = 0; j < count; j += step)
		worst = fmax(worst, element_error(graph, &value[j], kept[k++], fmax(largest, 1e-6)));
	return worst;
}

static double graph_error(struct graph *graph)
{
	struct store *store = graph->program->store;
	double worst = 0;

	for (size_t i = 0; i < store_count(store); i++) {
		if (store_data(store, i, SLOT_GRADIENT) && !store_parameter(store, i)->statistic)
			worst = fmax(worst, tensor_error(graph, store_data(store, i, SLOT_VALUE),
						    store_data(store, i, SLOT_GRADIENT),
						    store_parameter(store, i)->count));
	}
	for (size_t i = 0; i < graph->tensor_count; i++) {
		int gradient = graph->tensors[i].gradient;

		if (graph->tensors[i].kind == TENSOR_INPUT && gradient >= 0)
			worst = fmax(
				worst, tensor_error(graph, graph_address(graph, (int)i),
					       graph_address(graph, gradient), graph->tensors[i].elements));
	}
	return worst;
}

static void test_random_gradients(void)
{
	struct device *device = NULL;
	double worst = 0;
	int which = 0;

	if (reference_backend.open(NULL, &device))
		return;
	for (int seed = 1; seed <= 12; seed++) {
		struct program *program = program_new(device);
		struct graph *graph = random_graph(program, (uint64_t)seed);
		double error = program_prepare(program) || random_graph_fill(graph, (uint64_t)seed)
				       ? INFINITY
				       : graph_error(graph);

		if (error > worst || isnan(error)) {
			worst = error;
			which = seed;
		}
		program_free(program);
	}
	check_report(worst < 1e-6, "gradients of 12 random graphs are those of the loss by differences",
		"%.3g in graph %d", worst, which);
	reference_backend.close(device);
}

/* ---- a step of a network ---- */

struct step {
	bool early; /* updates in the backward pass, and a budget; else clipping and micro-batches */
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
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = !step->early};
	struct program_bytes bytes;

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
	program_micros(step->program, step->early ? 1 : 4);
	if (!step->early || program_update_rule(step->program, &rule))
		return program_update_rule(step->program, &rule);
	program_early_updates(step->program);
	if (program_measure(step->program, &bytes))
		return error_status();
	program_memory(step->program, bytes.total - bytes.arena / 4);
	return STATUS_OK;
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
	int micros = step->early ? 1 : 4;
	double norm;
	float loss;

	program_set_scalars(step->program, &scalars);
	for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); i++)
		ones[i] = 1;
	for (int micro = 0; micro < micros; micro++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
			values[i] = (float)((i * 37 + (size_t)micro) % 11) / 11 - 0.5f;
		if (graph_write(step->train, step->x, values) || graph_write(step->train, step->t, times) ||
			graph_write(step->train, step->context, values) ||
			graph_write(step->train, step->target, values + 7) ||
			graph_write(step->train, step->mask, ones) || graph_run(step->train) ||
			graph_read(step->train, step->loss, &loss) ||
			program_collect(step->program, micro, micros))
			return error_status();
	}
	if (program_gradient_norm(step->program, &norm) || program_not_finite(step->program) ||
		program_update(step->program, &scalars))
		return error_status();
	return graph_run(step->predict);
}

static void test_bytes_and_calls(bool early)
{
	struct step step = {.early = early};
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
	if (early)
		check(before.gradients == 0 && before.accumulators == 0 && before.state > 0,
			"gradients are in the arena alone");
	else
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
	test_random_gradients();
	test_bytes_and_calls(false);
	test_bytes_and_calls(true);
	return check_summary();
}
