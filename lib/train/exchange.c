#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/exchange.h"

#define BUCKET_LARGEST ((size_t)1 << 20) /* floats: 4 MiB */
#define BUCKET_SMALLEST ((size_t)1 << 10)
#define BUCKETS_WANTED 8 /* small models have several, too: the first can start early */

static size_t bucket_begin(const struct exchange *exchange, size_t b)
{
	size_t end = (b + 1) * exchange->bucket;

	return end < exchange->count ? exchange->count - end : 0;
}

static size_t bucket_end(const struct exchange *exchange, size_t b)
{
	return exchange->count - b * exchange->bucket;
}

static int test(struct exchange *exchange, size_t b, bool *done)
{
	return exchange->comm->reduction_test(exchange->comm, exchange->reduction[b % EXCHANGE_FLIGHT], done);
}

/* Gets on with the buckets under way. */
static int test_all(struct exchange *exchange)
{
	int status = 0;

	for (size_t b = exchange->finished; b < exchange->started && !status; b++) {
		bool done = false;

		status = test(exchange, b, &done);
		if (!status && done && b == exchange->finished)
			exchange->finished++;
	}
	return status;
}

/* Starts what is ready, as far as there is room. */
static int start_ready(struct exchange *exchange)
{
	struct comm *comm = exchange->comm;
	int status = 0;

	/* Collective calls come in one order on all ranks, but whether there is room for the next bucket is a matter of time. */
	if (exchange->meets && !comm->exact && exchange->ready_from > 0)
		return 0;
	while (!status && exchange->started < exchange->buckets &&
		exchange->started - exchange->finished < EXCHANGE_FLIGHT) {
		size_t b = exchange->started, begin = bucket_begin(exchange, b);

		if (begin < exchange->ready_from)
			break;
		status = comm->reduction_start(comm, exchange->reduction[b % EXCHANGE_FLIGHT],
			exchange->block + begin, bucket_end(exchange, b) - begin);
		exchange->started++;
	}
	return status;
}

static int ready(void *state, size_t from)
{
	struct exchange *exchange = state;
	int status;

	if (from >= exchange->count)
		return 0;
	exchange->ready_from = from;
	status = test_all(exchange);
	if (!status)
		status = start_ready(exchange);
	if (from > 0)
		exchange->early = exchange->started;
	return status;
}

void exchange_begin(struct exchange *exchange)
{
	exchange->started = exchange->finished = exchange->early = 0;
	exchange->ready_from = exchange->count;
	exchange->over = false;
	exchange->apart = false;
}

int exchange_finish(struct exchange *exchange)
{
	struct comm *comm = exchange->comm;
	double start = clock_seconds();
	int status = 0;

	if (exchange->over)
		return 0;
	exchange->ready_from = 0;
	while (!status && exchange->finished < exchange->buckets) {
		status = start_ready(exchange);
		if (!status)
			status = comm->reduction_wait(
				comm, exchange->reduction[exchange->finished % EXCHANGE_FLIGHT]);
		if (!status)
			status = test_all(exchange);
	}
	exchange->waited = clock_seconds() - start;
	exchange->over = true;
	return status;
}

static int finish(void *state)
{
	return exchange_finish(state);
}

/* ---- batch norms over ranks ---- */

/* Whether all ranks are still there to gather. */
static int meet(struct exchange *exchange, bool failed)
{
	struct comm *comm = exchange->comm;
	int32_t mine = failed;
	int status = comm->gather(comm, &mine, sizeof(mine), exchange->failed);

	for (int r = 0; r < comm->size && !status; r++)
		exchange->apart = exchange->apart || exchange->failed[r];
	if (status || failed || !exchange->apart)
		return status;
	return error_set(STATUS_AGAIN, "another rank has failed");
}

static int gather(void *state, const double *mine, size_t count, double *all)
{
	struct exchange *exchange = state;
	int status = meet(exchange, false);

	return status ? status : exchange->comm->gather(exchange->comm, mine, count * sizeof(*mine), all);
}

int exchange_settle(struct exchange *exchange, int status)
{
	int met;

	if (!exchange->meets || exchange->apart || exchange->comm->lost)
		return status;
	met = meet(exchange, status != 0);
	return status ? status : met;
}

/* ---- the whole ---- */

int exchange_check(const struct comm *comm, int64_t micros, bool one_each)
{
	int64_t own = micros / comm->size;

	if (one_each && micros != comm->size)
		return error_set(STATUS_CONFIG,
			"batch.norm needs one micro-batch a rank (or micro): a step has %lld, there %s %d; "
			"start "
			"%lld, or change batch.micro",
			(long long)micros, comm->size == 1 ? "is" : "are", comm->size, (long long)micros);
	if (micros % comm->size)
		return error_set(STATUS_CONFIG,
			"the %lld micro-batches of a step (batch.size / batch.micro) cannot be shared by %d "
			"ranks; start as "
			"many as divide them",
			(long long)micros, comm->size);
	if (comm->size > 1 && comm->rank == 0 && own & (own - 1))
		warn("%lld micro-batches a rank are no power of two: the sums of %d ranks have other last "
		     "bits than those of "
		     "one process",
			(long long)own, comm->size);
	return 0;
}

int exchange_init(struct exchange *exchange, struct comm *comm, struct program *program)
{
	bool meets = program_norms_meet(program);
	struct program_exchange hooks = {.state = exchange,
		.ready = ready,
		.finish = finish,
		.ranks = comm->size,
		.rank = comm->rank,
		.gather = meets ? gather : NULL};
	int status = 0;

	memset(exchange, 0, sizeof(*exchange));
	exchange->comm = comm;
	exchange->meets = meets;
	exchange->failed = memory_new((size_t)comm->size, sizeof(*exchange->failed));
	if (!exchange->failed)
		return error_status();
	exchange->block = program_gradients(program, &exchange->count);
	if (comm->size == 1)
		return 0;
	exchange->bucket = exchange->count / BUCKETS_WANTED / 16 * 16;
	if (exchange->bucket < BUCKET_SMALLEST)
		exchange->bucket = BUCKET_SMALLEST;
	if (exchange->bucket > BUCKET_LARGEST)
		exchange->bucket = BUCKET_LARGEST;
	exchange->buckets = (exchange->count + exchange->bucket - 1) / exchange->bucket;
	exchange_begin(exchange);
	for (int i = 0; i < EXCHANGE_FLIGHT && !status; i++)
		status = comm->reduction_new(comm, exchange->bucket, &exchange->reduction[i]);
	if (!status)
		program_set_exchange(program, &hooks);
	return status;
}

void exchange_release(struct exchange *exchange)
{
	for (int i = 0; exchange->comm && i < EXCHANGE_FLIGHT; i++)
		exchange->comm->reduction_free(exchange->comm, exchange->reduction[i]);
	free(exchange->failed);
	memset(exchange, 0, sizeof(*exchange));
}
