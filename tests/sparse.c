/*
 * Updates by rows: tables of hash grids and embeddings have, at every look, the bits of updates of everything, whatever the optimizer;
 * rows wait in between.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/field.h"
#include "graph/internal.h"

enum { POINTS = 5, ROWS = 60, WIDTH = 3, STEPS = 37, EARLY = 1, MICROS = 2 };

static const struct hash_grid grid = {4, 2, 2, 4, 8, -1, 1};

struct trial {
	struct device *device;
	struct program *program;
	struct graph *graph, *look; /* the latter reads without training */
	int x, index, target, seen_x, seen;
};

static int network(struct graph *graph, int x, int index)
{
	int y = graph_concat(graph, graph_hash_grid(graph, x, "grid", &grid),
		graph_embedding(graph, index, "words", ROWS, WIDTH));
	return graph_linear(graph, y, "last", 2, true);
}

static int open_trial(struct trial *t, const struct optimizer_rule *rule, int mode, bool sparse, int threads)
{
	const struct device_settings settings = {.threads = threads, .isa = "auto"};
	int status = cpu_backend.open(&settings, &t->device);
	t->program = status ? NULL : program_new(t->device);
	t->graph = t->program ? graph_new(t->program, "train", true) : NULL;
	t->look = t->program ? graph_new(t->program, "look", false) : NULL;
	if (!t->graph || !t->look)
		return STATUS_FAILURE;
	t->x = graph_input(t->graph, "x", TENSOR_F32, 2, (int64_t[]){POINTS, 3});
	t->index = graph_input(t->graph, "index", TENSOR_I32, 1, (int64_t[]){POINTS});
	t->target = graph_input(t->graph, "target", TENSOR_F32, 2, (int64_t[]){POINTS, 2});
	graph_backward(t->graph, graph_mse(t->graph, network(t->graph, t->x, t->index), t->target));
	t->seen_x = graph_input(t->look, "x", TENSOR_F32, 2, (int64_t[]){POINTS, 3});
	t->seen = graph_output(t->look, graph_hash_grid(t->look, t->seen_x, "grid", &grid));
	program_update_rule(t->program, rule);
	if (sparse)
		program_sparse_updates(t->program);
	if (mode == EARLY)
		program_early_updates(t->program);
	program_micros(t->program, mode == MICROS ? 2 : 1);
	status = program_prepare(t->program);
	return status ? status : store_initialise(program_store(t->program), 5);
}

static void close_trial(struct trial *t)
{
	program_free(t->program);
	t->device->backend->close(t->device);
}

/* Points, words and targets of a micro-batch; some rows come often, some never. */
static int fill(struct trial *t, int64_t number)
{
	struct random random = random_stream(11, "sparse");
	float x[POINTS * 3], target[POINTS * 2];
	int32_t index[POINTS];
	for (uint32_t i = 0; i < POINTS * 3; i++)
		x[i] = (float)(2 * random_uniform(random, (uint64_t)number, 0, i) - 1) *
		       (number % 3 ? 0.2f : 1);
	for (uint32_t i = 0; i < POINTS * 2; i++)
		target[i] = (float)random_uniform(random, (uint64_t)number, 1, i);
	for (uint32_t i = 0; i < POINTS; i++)
		index[i] = (int32_t)random_below(random, (uint64_t)number, 2, i, number % 4 ? 6 : ROWS - 9);
	int status = graph_write(t->graph, t->x, x);
	status = status ? status : graph_write(t->graph, t->index, index);
	return status ? status : graph_write(t->graph, t->target, target);
}

static int step(struct trial *t, int64_t number, int mode)
{
	const struct step_scalars scalars = {.step = number,
		.learning_rate = 0.01 / (double)(1 + number % 5),
		.active_levels = number < 9 ? 2 : 0};
	const int64_t micros = mode == MICROS ? 2 : 1;
	int status = STATUS_OK;
	program_set_scalars(t->program, &scalars);
	for (int64_t micro = 0; micro < micros && !status; micro++) {
		status = fill(t, number * 2 + micro);
		if (!status)
			status = graph_run(t->graph);
		if (!status)
			status = program_collect(t->program, micro, micros);
	}
	return status ? status : program_update(t->program, &scalars);
}

/* Whether some row of a table waits for an update. */
static bool waits(const struct trial *t)
{
	const struct store *store = t->program->store;
	for (size_t i = 0; i < store->count; i++) {
		const struct entry *entry = &store->entries[i];
		for (size_t row = 0; entry->done && row < entry->parameter.count / entry->parameter.row;
			row++)
			if (entry->done[row] < entry->updates)
				return true;
	}
	return false;
}

static bool same_slots(const struct trial *a, const struct trial *b)
{
	bool same = true;
	for (size_t i = 0; i < store_count(a->program->store); i++) {
		const size_t count = store_parameter(a->program->store, i)->count;
		float *x = memory_new(count, sizeof *x), *y = memory_new(count, sizeof *y);
		for (int slot = 0; slot < STORE_SLOTS; slot++) {
			if (slot == SLOT_GRADIENT ||
				!store_keeps(a->program->store, i, (enum store_slot)slot))
				continue;
			same = same && !store_export(a->program->store, i, (enum store_slot)slot, x) &&
			       !store_export(b->program->store, i, (enum store_slot)slot, y) &&
			       !memcmp(x, y, count * sizeof *x);
		}
		free(x);
		free(y);
	}
	return same;
}

/* A graph that does not train sees what it would see. */
static bool same_look(struct trial *a, struct trial *b)
{
	float x[POINTS * 3], seen[2][POINTS * 8];
	for (int i = 0; i < POINTS * 3; i++)
		x[i] = (float)(i % 7) / 4 - 0.8f;
	if (graph_write(a->look, a->seen_x, x) || graph_run(a->look) ||
		graph_read(a->look, a->seen, seen[0]) || graph_write(b->look, b->seen_x, x) ||
		graph_run(b->look) || graph_read(b->look, b->seen, seen[1]))
		return false;
	return !memcmp(seen[0], seen[1], sizeof seen[0]);
}

static void compare(const char *name, const struct optimizer_rule *rule, int mode, int64_t steps)
{
	struct trial dense = {0}, sparse = {0};
	bool same = true, waited = false;
	int status = open_trial(&dense, rule, mode, false, 1);
	if (!status)
		status = open_trial(&sparse, rule, mode, true, 2);
	for (int64_t number = 1; number <= steps && !status; number++) {
		status = step(&dense, number, mode);
		if (!status)
			status = step(&sparse, number, mode);
		waited = waited || waits(&sparse);
		if (number == 15)
			same = same && same_look(&dense, &sparse);
		if (number == 20 && rule->average > 0)
			same = same && !store_swap_averages(dense.program->store) &&
			       !store_swap_averages(sparse.program->store) && same_look(&dense, &sparse) &&
			       !store_swap_averages(dense.program->store) &&
			       !store_swap_averages(sparse.program->store);
		if (number == 25 || number == steps)
			same = same && same_slots(&dense, &sparse) && !waits(&sparse);
	}
	check_report(!status && same && waited, name, "status %d (%s), same %d, waited %d", status,
		status ? error_message() : "", same, waited);
	close_trial(&dense);
	close_trial(&sparse);
}

/* What is kept by row counts as state, before memory is allocated and behind. */
static void test_bytes(void)
{
	static const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD};
	struct program_bytes dense_bytes, sparse_size;
	struct trial dense = {0}, sparse = {0};
	struct hash_level levels[HASH_LEVELS];
	int status = open_trial(&dense, &rule, 0, false, 1);
	if (!status)
		status = open_trial(&sparse, &rule, 0, true, 1);
	if (!status)
		status = program_measure(dense.program, &dense_bytes);
	if (!status)
		status = program_measure(sparse.program, &sparse_size);
	check(!status && sparse_size.state - dense_bytes.state ==
				 align_up(hash_grid_levels(&grid, levels) * sizeof(uint16_t)) +
					 align_up(ROWS * sizeof(uint16_t)),
		"two bytes a row");
	close_trial(&dense);
	close_trial(&sparse);
}

int main(void)
{
	static const struct optimizer_rule
		adam = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-15},
		adam_decay = {.kind = OPTIMIZER_ADAM,
			.beta1 = 0.9,
			.beta2 = 0.999,
			.epsilon = 1e-8,
			.decay = 0.1,
			.average = 0.9},
		adamw = {.kind = OPTIMIZER_ADAMW,
			.beta1 = 0.9,
			.beta2 = 0.99,
			.epsilon = 1e-8,
			.decay = 0.01,
			.clip = 0.05},
		momentum = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.5, .decay = 0.01};
	compare("Adam by rows", &adam, 0, STEPS);
	compare("Adam by rows while the backward pass runs", &adam, EARLY, STEPS);
	compare("Adam by rows over two micro-batches", &adam, MICROS, STEPS);
	compare("Adam with decay and averages by rows", &adam_decay, 0, STEPS);
	compare("AdamW with clipping by rows", &adamw, 0, STEPS);
	compare("SGD with momentum by rows", &momentum, 0, STEPS);
	compare("more updates than are remembered", &adam_decay, EARLY, ROW_UPDATES + 30);
	test_bytes();
	return check_summary();
}
