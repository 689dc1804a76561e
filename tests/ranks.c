/*
 * Ranks: the exact reduction equals the tree it promises, bit for bit, whatever arrives first; agreement; silence; gradients of
 * micro-batches shared among ranks are those of one process, and their exchange starts while the backward pass runs.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "support/random_graph.h"
#include "support/thread_ranks.h"
#include "run/checkpoint_parts.h"
#include "run_fixture.h"
#include "train/exchange.h"
#include "train/save.h"

enum { LARGEST = 20011, FLIGHT = 3 };

/* ---- the exact reduction ---- */

/* A value of rank r: magnitudes differ so much that every order of adding has bits of its own. */
static float value_at(int rank, int round, size_t i)
{
	struct random random = random_stream(77, "ranks");
	double u = random_uniform(random, (uint64_t)round, (uint32_t)rank, (uint32_t)i);
	double v = random_uniform(random, (uint64_t)round + 1000, (uint32_t)rank, (uint32_t)i);
	return (float)((u - 0.5) * exp2(24 * v));
}

/* Pairs of consecutive ones from the left, level by level; one that is left over goes up as it is. */
static float explicit_tree(float *values, int count)
{
	while (count > 1) {
		int half = 0;
		for (int i = 0; i < count; i += 2)
			values[half++] = i + 1 < count ? values[i] + values[i + 1] : values[i];
		count = half;
	}
	return values[0];
}

static atomic_int wrong;

static void reduce_rounds(struct comm *comm, void *context)
{
	static const size_t counts[] = {1, 2, 3, 15, 16, 17, 31, 100, 1000, 4097, LARGEST};
	enum { ROUNDS = sizeof counts / sizeof *counts };
	struct comm_reduction *reduction[FLIGHT];
	float *data[FLIGHT];
	(void)context;
	for (int i = 0; i < FLIGHT; i++) {
		data[i] = memory_new(LARGEST, sizeof(float));
		if (!data[i] || comm->reduction_new(comm, LARGEST, &reduction[i]))
			wrong++;
	}
	/* As many under way as there is room for; each round's is awaited when its place is needed again. */
	for (int round = 0; round < ROUNDS + FLIGHT; round++) {
		int place = round % FLIGHT;
		if (round >= FLIGHT) {
			int before = round - FLIGHT;
			wrong += comm->reduction_wait(comm, reduction[place]) != 0;
			for (size_t i = 0; i < counts[before]; i++) {
				float values[16];
				for (int r = 0; r < comm->size; r++)
					values[r] = value_at(r, before, i);
				float expected = explicit_tree(values, comm->size);
				wrong += memcmp(&expected, &data[place][i], sizeof expected) != 0;
			}
		}
		for (size_t i = 0; round < ROUNDS && i < counts[round]; i++)
			data[place][i] = value_at(comm->rank, round, i);
		if (round < ROUNDS)
			wrong += comm->reduction_start(comm, reduction[place], data[place], counts[round]) !=
				 0;
	}
	for (int i = 0; i < FLIGHT; i++) {
		comm->reduction_free(comm, reduction[i]);
		free(data[i]);
	}
}

static void test_reduction(void)
{
	static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 11};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char name[64];
		wrong = 0;
		int status = thread_ranks_run(sizes[i], (unsigned)i + 1, reduce_rounds, NULL);
		snprintf(name, sizeof name, "exact sum of %d ranks is the tree's", sizes[i]);
		check_report(!status && !wrong, name, "status %d, %d wrong", status, wrong);
	}
}

static void reduce_too_much(struct comm *comm, void *context)
{
	struct comm_reduction *reduction;
	float data[4] = {0};
	(void)context;
	if (comm->reduction_new(comm, 2, &reduction))
		return;
	wrong += comm->reduction_start(comm, reduction, data, 4) != STATUS_FAILURE;
	comm->reduction_free(comm, reduction);
}

/* ---- the other calls ---- */

static void call_all(struct comm *comm, void *context)
{
	int64_t values[2] = {comm->rank, -comm->rank}, all[16][2];
	char word[8] = "";
	(void)context;
	wrong += comm->size != 5 || comm->local != 5;
	wrong += comm->gather(comm, values, sizeof values, all) != 0;
	for (int i = 0; i < comm->size; i++)
		wrong += all[i][0] != i || all[i][1] != -i;
	wrong += comm->maximum(comm, values, 2) != 0 || values[0] != comm->size - 1 || values[1] != 0;
	if (comm->rank == 3)
		memcpy(word, "three", 6);
	wrong += comm->broadcast(comm, 3, word, sizeof word) != 0 || strcmp(word, "three") != 0;
	wrong += comm->barrier(comm) != 0;
}

static void agree(struct comm *comm, void *context)
{
	int32_t mine = comm->rank * 10, all[16];
	int status;
	(void)context;
	wrong += comm_agree(comm, 0, &mine, sizeof mine, all) != 0;
	for (int i = 0; i < comm->size; i++)
		wrong += all[i] != i * 10;
	status = comm->rank == 2   ? error_set(STATUS_DATA, "bad sample")
		 : comm->rank == 4 ? error_set(STATUS_IO, "disk")
				   : 0;
	status = comm_agree(comm, status, NULL, 0, NULL);
	wrong += status != STATUS_DATA;
	wrong += strcmp(error_message(), comm->rank == 2 ? "bad sample" : "rank 2: bad sample") != 0;
	status = comm->rank == 0   ? error_set(STATUS_AGAIN, "left")
		 : comm->rank == 1 ? error_set(STATUS_IO, "disk")
				   : 0;
	wrong += comm_agree(comm, status, NULL, 0, NULL) != STATUS_IO;
	status = comm->rank == 0 ? error_set(STATUS_AGAIN, "left") : 0;
	wrong += comm_agree(comm, status, NULL, 0, NULL) != STATUS_AGAIN;
}

static void one_is_silent(struct comm *comm, void *context)
{
	double start = clock_seconds();
	(void)context;
	comm->timeout = 0.3;
	if (comm->rank == 1) {
		clock_sleep(0.6);
		return;
	}
	int status = comm_agree(comm, 0, NULL, 0, NULL);
	wrong += status != STATUS_FAILURE || !comm->lost || !strstr(error_message(), "peer lost");
	wrong += clock_seconds() - start > 20;
	wrong += comm->barrier(comm) != STATUS_FAILURE;
	wrong += comm_agree(comm, 0, NULL, 0, NULL) != STATUS_FAILURE;
}

static void one_is_silent_in_a_sum(struct comm *comm, void *context)
{
	struct comm_reduction *reduction;
	float data[96] = {0};
	(void)context;
	comm->timeout = 0.3;
	if (comm->rank == 1) {
		clock_sleep(0.6);
		return;
	}
	if (comm->reduction_new(comm, 96, &reduction) || comm->reduction_start(comm, reduction, data, 96))
		wrong++;
	wrong += comm->reduction_wait(comm, reduction) != STATUS_FAILURE || !comm->lost;
	wrong += !strstr(error_message(), "rank 1 ");
	comm->reduction_free(comm, reduction);
}

static void run(int size, void (*body)(struct comm *comm, void *context), const char *name)
{
	wrong = 0;
	int status = thread_ranks_run(size, 9, body, NULL);
	check_report(!status && !wrong, name, "status %d, %d wrong", status, wrong);
}

/* ---- gradients ---- */

enum { MICROS = 8, SEEDS = 6 };

struct shared { /* of all ranks */
	uint64_t seed;
	float *expected;
	size_t count;
	atomic_int early, buckets, graphs;
};

/* One rank's part of a step of MICROS micro-batches; inputs are a function of the micro-batch. */
static int run_step(struct program *program, struct graph *graph, uint64_t seed, int rank, int ranks)
{
	int micros = MICROS / ranks, status = 0;
	for (int micro = 0; micro < micros && !status; micro++) {
		status = random_graph_fill(graph, seed * 100 + (uint64_t)(rank * micros + micro));
		/* the values of parameters, too: all micro-batches must have the same */
		if (!status)
			status = store_initialise(program_store(program), seed);
		program_begin(program, micro, micros);
		if (!status)
			status = graph_run(graph);
		if (!status)
			status = program_collect(program, micro, micros);
	}
	return status;
}

static int open_program(
	uint64_t seed, int ranks, struct device **device, struct program **program, struct graph **graph)
{
	struct device_settings settings = {.threads = 1, .isa = "auto"};
	struct optimizer_rule rule = {.kind = OPTIMIZER_SGD};
	int status = cpu_backend.open(&settings, device);
	*program = status ? NULL : program_new(*device);
	*graph = *program ? random_graph(*program, seed) : NULL;
	if (!*graph)
		return STATUS_FAILURE;
	program_micros(*program, MICROS / ranks);
	status = program_update_rule(*program, &rule);
	return status ? status : program_prepare(*program);
}

static void close_program(struct device *device, struct program *program)
{
	program_free(program);
	device->backend->close(device);
}

static void share_step(struct comm *comm, void *context)
{
	struct shared *shared = context;
	struct exchange exchange;
	struct device *device;
	struct program *program;
	struct graph *graph;
	size_t count;
	int status = open_program(shared->seed, comm->size, &device, &program, &graph);
	if (!status)
		status = exchange_init(&exchange, comm, program);
	for (int i = 0; i < 2 && !status; i++) {
		exchange_begin(&exchange);
		status = run_step(program, graph, shared->seed, comm->rank, comm->size);
	}
	float *gradients = program_gradients(program, &count);
	wrong += status || count != shared->count ||
		 memcmp(gradients, shared->expected, count * sizeof(float));
	shared->early += (int)exchange.early;
	shared->buckets += (int)exchange.buckets;
	exchange_release(&exchange);
	close_program(device, program);
}

/* A rank whose step has failed joins the exchange all the same, and nobody waits for ever. */
static void fail_step(struct comm *comm, void *context)
{
	struct shared *shared = context;
	struct exchange exchange;
	struct device *device;
	struct program *program;
	struct graph *graph;
	int status = open_program(shared->seed, comm->size, &device, &program, &graph);
	if (!status)
		status = exchange_init(&exchange, comm, program);
	if (comm->rank == 1)
		status = status                       ? status
			 : exchange_finish(&exchange) ? STATUS_FAILURE
						      : error_set(STATUS_DATA, "bad");
	else
		status = status ? status : run_step(program, graph, shared->seed, comm->rank, comm->size);
	wrong += comm_agree(comm, status, NULL, 0, NULL) != STATUS_DATA;
	exchange_release(&exchange);
	close_program(device, program);
}

static int expect_step(struct shared *shared)
{
	struct device *device;
	struct program *program;
	struct graph *graph;
	int status = open_program(shared->seed, 1, &device, &program, &graph);
	if (!status)
		status = run_step(program, graph, shared->seed, 0, 1);
	const float *gradients = program_gradients(program, &shared->count);
	shared->expected = memory_copy(gradients, shared->count * sizeof(float));
	close_program(device, program);
	return status;
}

static void test_gradients(void)
{
	static const int sizes[] = {2, 4, 8};
	struct shared shared = {0};
	int failed = 0, steps = 0;
	wrong = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		shared.seed = seed;
		failed += expect_step(&shared) != 0;
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, steps++)
			failed += thread_ranks_run(sizes[i], (unsigned)seed, share_step, &shared) != 0;
		if (seed == 1)
			failed += thread_ranks_run(3, 5, fail_step, &shared) != 0;
		free(shared.expected);
	}
	check_report(!failed && !wrong, "gradients of 2, 4 and 8 ranks are those of one",
		"%d failed, %d wrong", failed, wrong);
	check_report(shared.early > 0, "buckets start before the last operation of the backward pass",
		"%d of %d", shared.early, shared.buckets);
	printf("# %d of %d buckets in %d steps started early\n", shared.early, shared.buckets, steps);
}

/* ---- batch norms over ranks ---- */

enum { NORM_ROWS = 24, NORM_CHANNELS = 3, NORM_PARAMETERS = 18 };

/* A linear layer, a batch norm behind it with ReLU and a loss over `rows` rows; the vector of one channel has no layer. */
struct normed {
	struct device *device;
	struct program *program;
	struct graph *graph;
	int x, target;
	bool vector;
};

static int normed_open(struct normed *normed, int64_t rows, bool vector, enum norm_extent extent, int ranks)
{
	const struct device_settings settings = {.threads = 1, .isa = "auto"};
	const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD};
	const struct batch_norm norm = {
		.epsilon = 1e-5, .momentum = 0.1, .activation = vector ? ACTIVATION_NONE : ACTIVATION_RELU};
	int64_t shape[2] = {rows, vector ? 1 : 2}, wanted[2] = {rows, vector ? 1 : NORM_CHANNELS};
	int status = cpu_backend.open(&settings, &normed->device);
	normed->vector = vector;
	normed->program = status ? NULL : program_new(normed->device);
	normed->graph = normed->program ? graph_new(normed->program, "train", true) : NULL;
	if (!normed->graph)
		return STATUS_FAILURE;
	normed->x = graph_input(normed->graph, "x", TENSOR_F32, 2, shape);
	normed->target = graph_input(normed->graph, "target", TENSOR_F32, 2, wanted);
	int y = vector ? normed->x : graph_linear(normed->graph, normed->x, "first", NORM_CHANNELS, false);
	y = graph_batch_norm(normed->graph, y, "norm", norm, -1);
	graph_backward(normed->graph, graph_mse(normed->graph, y, normed->target));
	program_norm_extent(normed->program, extent, ranks);
	program_update_rule(normed->program, &rule);
	status = program_prepare(normed->program);
	return status ? status : store_initialise(program_store(normed->program), 3);
}

/* Rows `first` on of what all ranks have together. */
static int normed_fill(struct normed *normed, int64_t first, int64_t rows)
{
	float x[2 * NORM_ROWS], target[NORM_CHANNELS * NORM_ROWS];
	for (int64_t i = 0; i < rows; i++) {
		for (int k = 0; k < 2; k++)
			x[2 * i + k] = normed->vector ? 0 : value_at(k, 0, (size_t)(first + i)) / 1e5f;
		if (normed->vector)
			x[i] = (float)(first + i + 1);
		for (int k = 0; k < NORM_CHANNELS; k++)
			target[(normed->vector ? 1 : NORM_CHANNELS) * i + (normed->vector ? 0 : k)] =
				value_at(k, 1, (size_t)(first + i)) / 1e6f;
	}
	int status = graph_write(normed->graph, normed->x, x);
	return status ? status : graph_write(normed->graph, normed->target, target);
}

/* Two steps; then all parameters, the statistics among them. */
static int normed_train(
	struct normed *normed, struct exchange *exchange, int64_t first, int64_t rows, float *out)
{
	const struct step_scalars scalars = {.learning_rate = 0.1, .step = 1};
	int status = 0;
	for (int step = 0; step < 2 && !status; step++) {
		if (exchange)
			exchange_begin(exchange);
		program_set_scalars(normed->program, &scalars);
		program_begin(normed->program, 0, 1);
		status = normed_fill(normed, first, rows);
		if (!status)
			status = graph_run(normed->graph);
		if (!status)
			status = program_collect(normed->program, 0, 1);
		if (exchange)
			status = exchange_settle(exchange, status);
		if (!status)
			status = program_update(normed->program, &scalars);
		if (normed->vector)
			break;
	}
	for (size_t i = 0; i < store_count(program_store(normed->program)) && !status; i++) {
		status = store_export(program_store(normed->program), i, SLOT_VALUE, out);
		out += store_parameter(program_store(normed->program), i)->count;
	}
	return status;
}

static void normed_close(struct normed *normed)
{
	close_program(normed->device, normed->program);
}

struct normed_case {
	enum norm_extent extent;
	bool vector;
	int64_t rows; /* of all ranks */
	float got[4][NORM_PARAMETERS];
};

static void normed_rank(struct comm *comm, void *context)
{
	struct normed_case *c = context;
	struct normed normed = {0};
	struct exchange exchange;
	int64_t rows = c->rows / comm->size;
	int status = normed_open(&normed, rows, c->vector, c->extent, comm->size);
	if (!status)
		status = exchange_init(&exchange, comm, normed.program);
	if (!status)
		status = normed_train(&normed, &exchange, comm->rank * rows, rows, c->got[comm->rank]);
	wrong += status != 0;
	exchange_release(&exchange);
	normed_close(&normed);
}

/* Over all samples of a step: what one process with all of them does. */
static void test_norms(void)
{
	struct normed whole = {0};
	float expected[NORM_PARAMETERS] = {0};
	int status = normed_open(&whole, NORM_ROWS, false, NORM_MICRO, 1);
	if (!status)
		status = normed_train(&whole, NULL, 0, NORM_ROWS, expected);
	normed_close(&whole);
	for (int ranks = 2; ranks <= 4; ranks++) {
		struct normed_case c = {.extent = NORM_STEP, .rows = NORM_ROWS};
		bool close = true, same = true;
		wrong = 0;
		status = status ? status : thread_ranks_run(ranks, (unsigned)ranks, normed_rank, &c);
		for (int i = 0; i < NORM_PARAMETERS; i++)
			close = close && fabsf(c.got[0][i] - expected[i]) <= 2e-6f * (1 + fabsf(expected[i]));
		for (int r = 1; r < ranks; r++)
			same = same && !memcmp(c.got[0], c.got[r], sizeof c.got[0]);
		check_report(!status && !wrong && close && same,
			"batch norms over 2, 3 and 4 ranks are those of one process",
			"status %d, %d wrong, close %d, same %d", status, wrong, close, same);
	}
}

/* One channel, 1 to 4 on one rank and 5 to 8 on the other; weight, bias, running mean and variance come out. */
static void test_norm_vectors(void)
{
	static const struct {
		enum norm_extent extent;
		float mean, variance;
	} rows[] = {
		{NORM_STEP, 0.45f, 1.5f}, {NORM_RANK, 0.25f, 1.06666667f}, {NORM_MICRO, 0.45f, 1.06666667f}};
	static const char *const names[] = {
		"running statistics over a step", "over rank 0's", "over micro-batches"};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct normed_case c = {.extent = rows[i].extent, .vector = true, .rows = 8};
		bool right = true;
		wrong = 0;
		int status = thread_ranks_run(2, 3, normed_rank, &c);
		for (int r = 0; r < 2; r++)
			right = right && fabsf(c.got[r][2] - rows[i].mean) < 1e-7f &&
				fabsf(c.got[r][3] - rows[i].variance) < 2e-7f;
		check_report(!status && !wrong && right, names[i], "status %d, %d wrong: %.9g %.9g", status,
			wrong, (double)c.got[1][2], (double)c.got[1][3]);
	}
}

/* A rank that fails before or behind its run does not leave the others waiting. */
static void normed_fail(struct comm *comm, void *context)
{
	const bool *before = context;
	struct normed normed = {0};
	struct exchange exchange;
	int status = normed_open(&normed, 8, false, NORM_STEP, comm->size), others;
	comm->timeout = 20;
	if (!status)
		status = exchange_init(&exchange, comm, normed.program);
	wrong += status != 0;
	exchange_begin(&exchange);
	if (comm->rank == 1 && *before) {
		status = exchange_settle(&exchange, error_set(STATUS_DATA, "bad"));
	} else {
		program_begin(normed.program, 0, 1);
		status = normed_fill(&normed, 8 * comm->rank, 8);
		status = status ? status : graph_run(normed.graph);
		if (!status && comm->rank == 1)
			status = error_set(STATUS_DATA, "bad");
		status = exchange_settle(&exchange, status);
	}
	wrong += status != (comm->rank == 1 ? STATUS_DATA : STATUS_AGAIN);
	others = exchange_finish(&exchange);
	wrong += comm_agree(comm, status ? status : others, NULL, 0, NULL) != STATUS_DATA || comm->lost;
	exchange_release(&exchange);
	normed_close(&normed);
}

static void test_norm_failures(void)
{
	for (int before = 0; before < 2; before++) {
		bool early = before;
		wrong = 0;
		int status = thread_ranks_run(3, 5, normed_fail, &early);
		check_report(!status && !wrong, "a rank that fails takes the others out of their batch norms",
			"status %d, %d wrong", status, wrong);
	}
}

/* ---- weights ---- */

struct save {
	const struct shift *shift;
	int64_t step;
	bool drift; /* of rank 2's weights */
};

static void save(struct comm *comm, void *context)
{
	const struct save *save = context;
	const struct checkpoint_content content = {.model_stem = "net", .optimizer_stem = "optimizer"};
	struct train_state state = {.step = save->step};
	struct device *device;
	struct program *program;
	struct graph *graph;
	struct saver saver;
	int status = open_program(3, comm->size, &device, &program, &graph);
	struct store *store = program_store(program);
	if (!status)
		status = store_initialise(store, 5);
	if (!status && save->drift && comm->rank == 2)
		status = store_initialise(store, 6);
	if (!status)
		status = saver_init(&saver, comm, save->shift, store, &content, 2);
	wrong += status != 0;
	status = saver_start(&saver, status, &state);
	if (save->drift)
		wrong += status != STATUS_FAILURE || !strstr(error_message(), "weights of rank 2");
	else
		wrong += status != 0 || saver_finish(&saver, status) != 0;
	saver_release(&saver);
	close_program(device, program);
}

static void test_saving(void)
{
	char *path = fixture_make("saving", NULL);
	struct run run;
	struct shift shift;
	struct checkpoint_entry *entries;
	size_t count = 0;
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	for (int drift = 0; drift < 2; drift++) {
		struct save context = {.shift = &shift, .step = 10 + drift, .drift = drift};
		wrong = 0;
		int status = thread_ranks_run(3, 4, save, &context);
		check_report(!status && !wrong,
			drift ? "ranks whose weights differ save nothing" : "ranks save together",
			"status %d, %d wrong", status, wrong);
	}
	check(!checkpoint_list(&run, &entries, &count) && count == 1 && entries[0].step == 10,
		"one checkpoint is there");
	free(entries);
	run_close(&run);
	free(path);
}

int main(void)
{
	error_program("ranks");
	test_reduction();
	run(2, reduce_too_much, "a sum that was not prepared is refused");
	run(5, call_all, "gather, maximum, broadcast, barrier");
	run(5, agree, "ranks agree on the lowest rank's failure");
	run(3, one_is_silent, "a silent rank ends the waiting");
	run(3, one_is_silent_in_a_sum, "a silent rank is named");
	test_gradients();
	test_norms();
	test_norm_vectors();
	test_norm_failures();
	test_saving();
	return check_summary();
}
