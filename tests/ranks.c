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
	test_saving();
	return check_summary();
}
