/*
 * Parameters updated while the backward pass runs, and results computed again to fit into a memory budget: the same bits as
 * without, less memory, nothing allocated beyond what was measured.
 */
#include "base/memory.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "model/unet.h"
#include "support/random_graph.h"

static struct backend counting;
static uint64_t device_bytes;

static void *counted_allocate(struct device *device, size_t bytes)
{
	device_bytes += bytes;
	return cpu_backend.allocate(device, bytes);
}

static struct device *open_counted(void)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};
	struct device *device = NULL;

	counting = cpu_backend;
	counting.allocate = counted_allocate;
	if (cpu_backend.open(&settings, &device))
		return NULL;
	device->backend = &counting;
	return device;
}

/* ---- random graphs ---- */

/* What two steps leave behind. */
struct result {
	int status;
	float *values;
	size_t count;
	struct program_bytes bytes;
	double norm;
	size_t repeated;
};

static void take(struct result *result, const float *values, size_t count)
{
	result->values = realloc(result->values, (result->count + count) * sizeof(float));
	memcpy(result->values + result->count, values, count * sizeof(float));
	result->count += count;
}

/* Outputs of the graph, then parameters and moments. */
static int collect(struct graph *graph, struct result *result)
{
	struct store *store = graph->program->store;
	int status = STATUS_OK;

	for (size_t i = 0; i < graph->tensor_count && !status; i++) {
		size_t count = graph->tensors[i].elements;
		float *values = memory_new(count, sizeof(*values));

		if (graph->tensors[i].output && graph->tensors[i].kind != TENSOR_PARAMETER_GRADIENT) {
			status = graph_read(graph, (int)i, values);
			take(result, values, count);
		}
		free(values);
	}
	for (size_t i = 0; i < store_count(store) && !status; i++) {
		take(result, store_data(store, i, SLOT_VALUE), store_parameter(store, i)->count);
		if (store_keeps(store, i, SLOT_MOMENT2))
			take(result, store_data(store, i, SLOT_MOMENT2), store_parameter(store, i)->count);
	}
	return status;
}

static int run_steps(struct graph *graph, struct result *result)
{
	struct program *program = graph->program;
	int status = STATUS_OK;

	for (int64_t step = 1; step <= 2 && !status; step++) {
		struct step_scalars scalars = {.learning_rate = 1e-2, .step = step, .seed = 5};

		program_set_scalars(program, &scalars);
		status = graph_run(graph) || program_collect(program, 0, 1) ||
			 program_gradient_norm(program, &result->norm) || program_not_finite(program) ||
			 program_update(program, &scalars);
	}
	for (size_t n = 0; n < graph->node_count; n++)
		result->repeated += graph->nodes[n].repeated;
	return status ? status : collect(graph, result);
}

static struct result run_random(struct device *device, uint64_t seed, bool early, uint64_t memory)
{
	static const struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-3, .decay = 0.1};
	struct program *program = program_new(device);
	struct graph *graph = random_graph(program, seed);
	struct result result = {0};

	if (early)
		program_early_updates(program);
	program_memory(program, memory);
	program_update_rule(program, &rule);
	result.status = program_measure(program, &result.bytes);
	device_bytes = 0;
	if (!result.status)
		result.status = program_prepare(program);
	if (!result.status && device_bytes != result.bytes.total)
		result.status = error_set(STATUS_FAILURE, "%llu bytes are measured, %llu allocated",
			(unsigned long long)result.bytes.total, (unsigned long long)device_bytes);
	if (!result.status)
		result.status = random_graph_fill(graph, seed);
	if (!result.status)
		result.status = run_steps(graph, &result);
	program_free(program);
	return result;
}

static bool same(const struct result *a, const struct result *b)
{
	return !a->status && !b->status && a->count == b->count && a->norm == b->norm &&
	       !memcmp(a->values, b->values, a->count * sizeof(float));
}

struct tally {
	int fits, misses; /* budgets met and not */
	size_t repeated;
	double smallest; /* share of the arena that was enough */
};

/* Ever smaller budgets until one is not met. NULL, or what is wrong. */
static const char *try_budgets(
	struct device *device, uint64_t seed, bool early, const struct result *plain, struct tally *tally)
{
	struct result free_run = run_random(device, seed, early, 0);
	uint64_t others = free_run.bytes.total - free_run.bytes.arena;
	const char *wrong = same(&free_run, plain) ? NULL
			    : early                ? "early updates differ"
						   : "two runs differ";
	bool missed = false;

	for (double share = 0.9; share > 0.2 && !wrong && !missed; share -= 0.1) {
		uint64_t budget = others + (uint64_t)(share * (double)free_run.bytes.arena);
		struct result result = run_random(device, seed, early, budget);

		missed = result.bytes.total > budget;
		if (!same(&result, plain))
			wrong = result.status ? error_message() : "what is computed again differs";
		else if (result.bytes.total > free_run.bytes.total)
			wrong = "a budget made it larger";
		tally->fits += !missed;
		tally->misses += missed;
		tally->repeated += result.repeated;
		tally->smallest = missed ? tally->smallest : fmin(tally->smallest, share);
		free(result.values);
	}
	free(free_run.values);
	return wrong;
}

#define GRAPHS 40

static void test_random_graphs(void)
{
	struct device *device = open_counted();
	struct tally tally = {.smallest = 1};
	const char *wrong = NULL;
	uint64_t seed = 0, late = 0, early = 0;

	while (seed < GRAPHS && !wrong) {
		struct result plain = run_random(device, ++seed, false, 0),
			      other = run_random(device, seed, true, 0);

		wrong = plain.status ? error_message() : NULL;
		late += plain.bytes.total;
		early += other.bytes.total;
		if (!wrong)
			wrong = try_budgets(device, seed, false, &plain, &tally);
		if (!wrong)
			wrong = try_budgets(device, seed, true, &plain, &tally);
		free(plain.values);
		free(other.values);
	}
	check_report(!wrong,
		"random graphs: early updates and budgets change no bit, and no byte more is allocated",
		"graph %d: %s", (int)seed, wrong ? wrong : "");
	check_report(early < late, "early updates need less memory", "%llu bytes, not less than %llu",
		(unsigned long long)early, (unsigned long long)late);
	check_report(tally.fits > 40 && tally.repeated > 200 && tally.smallest < 0.75,
		"budgets are met by computing again", "%d met, %zu results again, smallest share %.2f",
		tally.fits, tally.repeated, tally.smallest);
	check_report(tally.misses > 40, "budgets that cannot be met are seen", "%d", tally.misses);
	printf("# %d budgets met, %d not, %zu results computed again, down to %.2f of the arena\n",
		tally.fits, tally.misses, tally.repeated, tally.smallest);
	device->backend->close(device);
}

/* ---- the sizes of a network ---- */

static const struct unet small_unet = {.in_channels = 8,
	.out_channels = 4,
	.levels = 4,
	.width = {32, 64, 128, 128},
	.heads = {1, 1, 2, 2},
	.attention = {true, true, true, false},
	.layers = 2,
	.norm_groups = 8,
	.context_width = 32};

static struct graph *build_unet(struct program *program)
{
	struct graph *graph = graph_new(program, "train", true);
	int64_t n = 2;
	int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){n, 32, 40, 8});
	int t = graph_input(graph, "t", TENSOR_F32, 1, &n);
	int context = graph_input(graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, 32});
	int y = unet_build(graph, &small_unet, x, t, context);
	int target = graph_input(graph, "target", TENSOR_F32, 4, (int64_t[]){n, 32, 40, 4});

	graph_backward(graph, graph_mse(graph, y, target));
	return graph;
}

/* Bytes and operations with a budget of this share of the arena (1: none); false where it cannot be met. */
static bool measure(bool early, double share, struct program_bytes *bytes, double *flops)
{
	static const struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
	struct device *device = open_counted();
	struct program *program = program_new(device);
	struct graph *graph = build_unet(program);
	bool fits;
	int status;

	if (early)
		program_early_updates(program);
	program_update_rule(program, &rule);
	status = program_measure(program, bytes);
	if (!status && share < 1) {
		program_memory(
			program, bytes->total - bytes->arena + (uint64_t)(share * (double)bytes->arena));
		status = program_measure(program, bytes);
	}
	*flops = graph_flops(graph);
	fits = !status && (share == 1 || bytes->total <= program->memory);
	program_free(program);
	device->backend->close(device);
	return fits;
}

static void test_network(void)
{
	struct program_bytes late, early, tight;
	double flops, once, again;

	check(measure(false, 1, &late, &flops) && measure(true, 1, &early, &once), "a U-Net is measured");
	check_report(early.total < late.total && early.gradients == 0 &&
			     early.arena < late.arena + late.gradients / 2,
		"its gradients need little memory of their own",
		"arena %llu, with early updates %llu; gradients %llu", (unsigned long long)late.arena,
		(unsigned long long)early.arena, (unsigned long long)late.gradients);
	check(measure(true, 0.75, &tight, &again) && again < 1.02 * once,
		"a quarter of the arena goes for 2 % more operations");
	check_report(measure(true, 0.5, &tight, &again) && again < 1.35 * once,
		"half of the arena goes for a third more operations", "%.3f times as many", again / once);
	for (double share = 0.9; share > 0.1 && measure(true, share, &tight, &again); share -= 0.1)
		printf("# a share of %.1f of the arena: %.3f times the operations\n", share, again / once);
	check(!measure(true, 0.02, &tight, &again) && tight.arena < 0.3 * (double)early.arena,
		"an impossible budget is come near to");
}

/* ---- wrong use ---- */

static void test_wrong_use(void)
{
	static const struct optimizer_rule clipping = {.kind = OPTIMIZER_SGD, .clip = 1};
	static const struct optimizer_rule plain = {.kind = OPTIMIZER_SGD};
	struct device *device = open_counted();
	struct step_scalars scalars = {.learning_rate = 0.1, .step = 1};

	for (int i = 0; i < 3; i++) {
		struct program *program = program_new(device);
		struct graph *graph = random_graph(program, 3);

		program_update_rule(program, i ? &plain : &clipping);
		program_micros(program, i == 1 ? 2 : 1);
		program_early_updates(program);
		if (i < 2) {
			check(program_prepare(program) != 0,
				i ? "no early updates with micro-batches" : "no early updates with clipping");
		} else {
			check(!program_prepare(program) && !random_graph_fill(graph, 3) && graph_run(graph),
				"no early update before a step is set");
			program_set_scalars(program, &scalars);
			check(!graph_run(graph) && !program_update(program, &scalars) &&
					program_update(program, &scalars),
				"one update a run");
		}
		program_free(program);
	}
	device->backend->close(device);
}

int main(void)
{
	test_random_graphs();
	test_network();
	test_wrong_use();
	return check_summary();
}
