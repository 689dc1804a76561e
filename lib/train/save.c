#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/save.h"

/* ---- what is saved ---- */

static int allocate_weights(struct saver *saver)
{
	bool *model = memory_new(saver->weights.model_count, sizeof(bool));
	bool *optimizer = memory_new(saver->weights.optimizer_count, sizeof(bool));
	int status = model && optimizer ? 0 : STATUS_FAILURE;

	if (!status)
		status = checkpoint_share(
			&saver->content, saver->comm->rank, saver->comm->size, model, optimizer);
	if (!status)
		status = weights_allocate(&saver->weights, model, optimizer);
	free(model);
	free(optimizer);
	return status;
}

static size_t largest_parameter(const struct store *store)
{
	size_t largest = 0;

	for (size_t i = 0; i < store_count(store); i++)
		if (store_parameter(store, i)->count > largest)
			largest = store_parameter(store, i)->count;
	return largest;
}

int saver_init(struct saver *saver, struct comm *comm, const struct shift *shift, const struct store *store,
	const struct checkpoint_content *content, int64_t keep)
{
	int status;

	memset(saver, 0, sizeof(*saver));
	saver->comm = comm;
	saver->shift = shift;
	saver->store = store;
	saver->keep = keep;
	status = weights_init(&saver->weights, store);
	saver->content = *content;
	saver->content.model = saver->weights.model;
	saver->content.model_count = saver->weights.model_count;
	saver->content.optimizer = saver->weights.optimizer;
	saver->content.optimizer_count = saver->weights.optimizer_count;
	if (!status)
		status = allocate_weights(saver);
	if (!status)
		status = checkpoint_bytes(&saver->content, &saver->bytes);
	if (!status)
		status = checkpoint_shards(&saver->content, &saver->shards);
	if (status)
		return status;
	saver->scratch = memory_new(largest_parameter(store), sizeof(*saver->scratch));
	saver->sums = memory_new((size_t)comm->size, sizeof(*saver->sums));
	saver->shard = memory_new((size_t)saver->shards, sizeof(*saver->shard));
	saver->all = memory_new((size_t)saver->shards * (size_t)comm->size, sizeof(*saver->all));
	return saver->scratch && saver->sums && saver->shard && saver->all ? 0 : STATUS_FAILURE;
}

void saver_release(struct saver *saver)
{
	if (!saver->comm)
		return;
	thread_job_wait(&saver->writing);
	thread_job_wait(&saver->pruning);
	if (saver->running && saver->comm->rank == 0 && saver->directory[0])
		checkpoint_abandon(saver->directory);
	train_state_release(&saver->state);
	weights_release(&saver->weights);
	free(saver->scratch);
	free(saver->sums);
	free(saver->shard);
	free(saver->all);
	memset(saver, 0, sizeof(*saver));
}

/* ---- the parts of a save ---- */

/* Rank 0 makes the directory; all learn its name. */
static int begin(struct saver *saver, int64_t step, bool weights)
{
	struct comm *comm = saver->comm;
	char *directory = NULL;
	int status = 0;

	memset(saver->directory, 0, sizeof(saver->directory));
	if (comm->rank == 0) {
		status = checkpoint_begin(saver->shift, step, weights, &directory);
		if (!status && directory &&
			snprintf(saver->directory, sizeof(saver->directory), "%s", directory) >=
				(int)sizeof(saver->directory))
			status = error_set(STATUS_FAILURE, "%s: path is too long", directory);
		free(directory);
	}
	status = comm_agree(comm, status, NULL, 0, NULL);
	return status ? status : comm->broadcast(comm, 0, saver->directory, sizeof(saver->directory));
}

static int write_share(void *context)
{
	struct saver *saver = context;
	int status = 0;

	if (saver->directory[0])
		status = checkpoint_write(saver->directory, &saver->content, saver->comm->rank,
			saver->comm->size, saver->shard);
	saver->written = clock_seconds();
	return status;
}

static int write_weights(struct saver *saver)
{
	struct checkpoint_content weights = saver->content;

	weights.optimizer = NULL;
	weights.optimizer_count = 0;
	return saver->directory[0] ? checkpoint_write(saver->directory, &weights, saver->comm->rank,
					     saver->comm->size, saver->shard)
				   : 0;
}

/* Each shard's entry comes from the rank that has written it. */
static int collect_shards(struct saver *saver)
{
	struct comm *comm = saver->comm;
	size_t count = (size_t)saver->shards;
	int status = comm->gather(comm, saver->shard, count * sizeof(*saver->shard), saver->all);

	for (size_t k = 0; k < count && !status; k++)
		saver->shard[k] = saver->all[k % (size_t)comm->size * count + k];
	return status;
}

/* After all have written: rank 0 publishes; state NULL: weights alone. */
static int commit(struct saver *saver, int status, int64_t step, const struct train_state *state)
{
	struct checkpoint_content content = saver->content;
	struct comm *comm = saver->comm;

	if (!state) {
		content.optimizer = NULL;
		content.optimizer_count = 0;
	}
	status = comm_agree(comm, status, NULL, 0, NULL);
	if (!status)
		status = collect_shards(saver);
	if (comm->rank == 0 && saver->directory[0]) {
		if (status)
			checkpoint_abandon(saver->directory);
		else
			status = checkpoint_commit(
				saver->shift, step, state, &content, saver->directory, saver->shard);
		status = shift_failed(saver->shift, status); /* a newer shift sweeps what this one writes */
	}
	return comm_agree(comm, status, NULL, 0, NULL);
}

static int prune(void *context)
{
	struct saver *saver = context;

	return checkpoint_prune(saver->shift, saver->keep);
}

int saver_settle(struct saver *saver)
{
	return thread_job_wait(&saver->pruning);
}

/* Before anything is begun in the directory of checkpoints. */
static int clear_way(struct saver *saver, int status)
{
	int settled = saver_settle(saver);

	status = status ? status : settled;
	if (saver->running)
		return saver_finish(saver, status);
	return comm_agree(saver->comm, status, NULL, 0, NULL);
}

/* Every rank computes the same update of the same weights. Where one has other libraries or another processor than its name says,
 * they drift apart, which nobody would see in a loss. */
static int compare_ranks(struct saver *saver, int status)
{
	struct comm *comm = saver->comm;
	uint32_t sum = 0;

	for (size_t i = 0; i < store_count(saver->store) && !status && comm->size > 1; i++) {
		status = store_export(saver->store, i, SLOT_VALUE, saver->scratch);
		sum = crc32c(sum, saver->scratch, store_parameter(saver->store, i)->count * sizeof(float));
	}
	status = comm_agree(comm, status, &sum, sizeof(sum), saver->sums);
	for (int r = 1; r < comm->size && !status; r++)
		if (saver->sums[r] != saver->sums[0])
			status = error_set(STATUS_FAILURE,
				"the weights of rank %d are not those of rank 0: their computers or "
				"libraries "
				"differ; nothing was saved",
				r);
	return status;
}

/* ---- saves ---- */

int saver_start(struct saver *saver, int status, const struct train_state *state)
{
	status = clear_way(saver, status);
	if (status)
		return status;
	saver->started = clock_seconds();
	status = saver_settle(saver); /* of the one that clear_way() has finished */
	if (!status)
		status = weights_fill(&saver->weights, saver->store);
	train_state_release(&saver->state);
	if (!status)
		status = train_state_copy(&saver->state, state);
	status = compare_ranks(saver, status);
	if (!status)
		status = begin(saver, state->step, false);
	if (status)
		return status;
	saver->running = true;
	thread_job_start(&saver->writing, write_share, saver);
	return 0;
}

bool saver_written(const struct saver *saver)
{
	return thread_job_done(&saver->writing);
}

int saver_finish(struct saver *saver, int status)
{
	double start;
	int written;

	if (!saver->running)
		return status;
	written = thread_job_wait(&saver->writing);
	saver->running = false;
	start = clock_seconds();
	status = commit(saver, status ? status : written, saver->state.step, &saver->state);
	saver->seconds = saver->written - saver->started + clock_seconds() - start;
	if (!status && saver->comm->rank == 0)
		thread_job_start(&saver->pruning, prune, saver);
	return status;
}

int saver_keep_weights(struct saver *saver, int status, int64_t step)
{
	status = clear_way(saver, status);
	if (!status)
		status = saver_settle(saver);
	if (!status)
		status = weights_fill(&saver->weights, saver->store);
	status = comm_agree(saver->comm, status, NULL, 0, NULL);
	if (!status)
		status = begin(saver, step, true);
	return status ? status : commit(saver, write_weights(saver), step, NULL);
}
