#include "task/classify_batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/digest.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/epochs.h"
#include "task/groups.h"
#include "task/recipe.h"

#define ATTEMPTS 100 /* replacements tried for one bad sample */

/* What one thread needs beside the batch: readers (made when first used) and room for the bytes of a clip. */
struct worker {
	struct video_reader *reader[SAMPLER_GROUPS];
	uint8_t *pixels;
	bool busy;
};

struct classify_batches {
	const struct config *config;
	const struct classify_clip *clip;
	struct classify_set set[SAMPLER_GROUPS];
	int groups;
	struct classify_labels labels;
	uint64_t count[SAMPLER_GROUPS];
	bool weighted; /* groups have shares of their own, by the sampler; else all samples are one heap */
	struct sampler sampler;
	struct epochs epochs;
	int64_t samples; /* of a micro-batch */
	struct recipe_share share;
	bool skip;
	pthread_mutex_t lock;                 /* of the workers' busy flags and `named` */
	unsigned char *named[SAMPLER_GROUPS]; /* bad samples that were reported */
	struct worker *worker;
	int workers;
	struct classify_micro *micro; /* the loader's slots */
	int slots;
	struct loader *loader;
};

/* ---- one micro-batch ---- */

static struct worker *take_worker(struct classify_batches *batches)
{
	struct worker *taken = batches->worker;

	pthread_mutex_lock(&batches->lock);
	while (taken->busy) /* there are as many as threads */
		taken++;
	taken->busy = true;
	pthread_mutex_unlock(&batches->lock);
	return taken;
}

static void return_worker(struct classify_batches *batches, struct worker *worker)
{
	pthread_mutex_lock(&batches->lock);
	worker->busy = false;
	pthread_mutex_unlock(&batches->lock);
}

/* Says once that a sample is bad. The message is the present error. */
static void report_bad(struct classify_batches *batches, int group, uint64_t index)
{
	bool first;

	pthread_mutex_lock(&batches->lock);
	first = !batches->named[group][index];
	batches->named[group][index] = 1;
	pthread_mutex_unlock(&batches->lock);
	if (first)
		warn("%s: %s; another sample takes its place", batches->set[group].name, error_message());
}

static int read_clip(struct classify_batches *batches, struct worker *worker, int group, uint64_t index,
	int64_t m, int64_t slot, float *out)
{
	struct video_reader **reader = &worker->reader[group];
	int status = *reader ? STATUS_OK : video_reader_new(batches->set[group].videos, reader);

	if (!status)
		status = classify_clip_train(batches->clip, *reader, &batches->set[group], index, (uint64_t)m,
			(uint32_t)slot, worker->pixels, out);
	return status;
}

/* The sample in slot `slot` of micro-batch m. */
static void draw(const struct classify_batches *batches, int64_t m, int64_t slot, int attempt, int *group,
	uint64_t *index)
{
	if (batches->weighted) {
		*group = sampler_group(&batches->sampler, m);
		*index = sampler_index(&batches->sampler, m, slot, attempt);
		return;
	}
	*index = epochs_sample(&batches->epochs, m / batches->share.micros,
		m % batches->share.micros * batches->samples + slot, attempt);
	for (*group = 0; *index >= batches->count[*group]; ++*group)
		*index -= batches->count[*group];
}

/* Samples of micro-batch m. */
static int64_t samples_of(const struct classify_batches *batches, int64_t m)
{
	int64_t steps = batches->weighted ? 0 : epochs_steps(&batches->epochs);

	if (steps && batches->share.micros == 1 && m % steps == steps - 1)
		return epochs_last_batch(&batches->epochs);
	return batches->samples;
}

static int fill_slot(struct classify_batches *batches, struct worker *worker, int64_t m, int64_t slot,
	struct classify_micro *micro)
{
	size_t elements = classify_clip_elements(batches->clip, batches->clip->size, batches->clip->size);

	for (int attempt = 0; attempt <= ATTEMPTS; attempt++) {
		uint64_t index;
		int group, status;

		draw(batches, m, slot, attempt, &group, &index);
		status = read_clip(
			batches, worker, group, index, m, slot, micro->clips + (size_t)slot * elements);
		micro->target[slot] = (int32_t)classify_set_class(&batches->set[group], index);
		if (!status)
			return STATUS_OK;
		if (status != STATUS_DATA || !batches->skip)
			return error_prefix("%s", batches->set[group].name);
		report_bad(batches, group, index);
		micro->skipped++;
	}
	return error_set(STATUS_DATA, "%d samples in a row are bad; check the data", ATTEMPTS + 1);
}

static int make_micro(void *context, int64_t number, int place)
{
	struct classify_batches *batches = context;
	int64_t m = recipe_share_global(&batches->share, number);
	struct classify_micro *micro = &batches->micro[place];
	struct worker *worker = take_worker(batches);
	int status = STATUS_OK;

	micro->count = samples_of(batches, m);
	micro->skipped = 0;
	for (int64_t slot = 0; slot < micro->count && !status; slot++)
		status = fill_slot(batches, worker, m, slot, micro);
	return_worker(batches, worker);
	return status;
}

/* ---- opening ---- */

/* A clip without a class cannot be learned from. */
static int check_labelled(const struct classify_set *set)
{
	for (size_t i = 0; i < classify_set_count(set); i++)
		if (classify_set_class(set, i) < 0)
			return error_set(STATUS_DATA, "dataset %s: %s has no label to train on", set->name,
				video_set_sample(set->videos, i)->id);
	return STATUS_OK;
}

static int open_groups(struct classify_batches *batches, const struct run *run)
{
	size_t groups = config_groups(batches->config, "data.train");
	int status = STATUS_OK;

	if (groups > SAMPLER_GROUPS)
		return error_set(STATUS_CONFIG, "data.train: %zu groups, at most %d are possible", groups,
			SAMPLER_GROUPS);
	for (; (size_t)batches->groups < groups && !status; batches->groups++) {
		int g = batches->groups;
		struct classify_set *set = &batches->set[g];

		status = classify_set_open(set, run, "data.train", (size_t)g, &batches->labels);
		if (!status && g == 0)
			status = classify_labels_of(set->videos, &batches->labels);
		if (!status)
			status = check_labelled(set);
		if (status)
			return status;
		batches->count[g] = classify_set_count(set);
		batches->weighted = batches->weighted || set->weight != batches->set[0].weight;
		batches->named[g] = memory_new(batches->count[g], 1);
		if (!batches->named[g])
			return error_status();
	}
	return status;
}

static int open_order(struct classify_batches *batches)
{
	uint64_t seed = (uint64_t)config_integer(batches->config, "seed");
	const char *rest = config_text(batches->config, "batch.rest");
	double weight[SAMPLER_GROUPS];

	batches->samples = config_integer(batches->config, "batch.micro");
	if (!batches->weighted)
		return epochs_init(&batches->epochs, seed, (uint64_t)classify_batches_samples(batches),
			config_integer(batches->config, "batch.size"), (enum epochs_rest)epochs_rest(rest));
	if (strcmp(rest, "carry") != 0)
		return error_set(STATUS_CONFIG,
			"batch.rest = %s: datasets of different weights have no epochs of whole steps; give "
			"them the same weight, or use carry",
			rest);
	for (int g = 0; g < batches->groups; g++)
		weight[g] = batches->set[g].weight;
	return sampler_init(
		&batches->sampler, seed, batches->groups, batches->count, weight, batches->samples);
}

/* The loader's slots, and what its threads work with. Room that is not used yet costs nothing. */
static int new_slots(struct classify_batches *batches)
{
	size_t micro = (size_t)batches->samples,
	       elements = classify_clip_elements(batches->clip, batches->clip->size, batches->clip->size);
	int threads = (int)config_integer(batches->config, "data.threads");

	batches->slots = threads + 1; /* one is held by the network */
	batches->workers = threads ? threads : 1;
	batches->micro = memory_new((size_t)batches->slots, sizeof *batches->micro);
	batches->worker = memory_new((size_t)batches->workers, sizeof *batches->worker);
	if (!batches->micro || !batches->worker)
		return error_status();
	for (int i = 0; i < batches->slots; i++) {
		batches->micro[i].clips = memory_new(micro, elements * sizeof(float));
		batches->micro[i].target = memory_new(micro, sizeof(int32_t));
		if (!batches->micro[i].clips || !batches->micro[i].target)
			return error_status();
	}
	for (int i = 0; i < batches->workers; i++)
		if (!(batches->worker[i].pixels = memory_new(elements, 1)))
			return error_status();
	return STATUS_OK;
}

int classify_batches_open(const struct run *run, const struct comm *comm, const struct classify_clip *clip,
	struct classify_batches **result)
{
	struct classify_batches *batches = memory_new(1, sizeof *batches);
	int status;

	*result = batches;
	if (!batches)
		return error_status();
	batches->config = run->config;
	batches->clip = clip;
	batches->share = recipe_share(run->config, comm);
	batches->skip = config_bool(run->config, "data.skip");
	pthread_mutex_init(&batches->lock, NULL);
	status = open_groups(batches, run);
	for (int g = 0; g < batches->groups && !status && comm->rank == 0; g++)
		classify_set_warn(&batches->set[g]);
	if (!status)
		status = open_order(batches);
	if (!status)
		status = new_slots(batches);
	if (status) {
		classify_batches_close(batches);
		*result = NULL;
	}
	return status;
}

void classify_batches_close(struct classify_batches *batches)
{
	uint64_t replaced = 0;

	if (!batches)
		return;
	loader_free(batches->loader);
	for (int i = 0; batches->worker && i < batches->workers; i++) {
		for (int g = 0; g < SAMPLER_GROUPS; g++)
			classify_reader_free(batches->worker[i].reader[g], &replaced);
		free(batches->worker[i].pixels);
	}
	classify_warn_replaced(replaced);
	for (int i = 0; batches->micro && i < batches->slots; i++) {
		free(batches->micro[i].clips);
		free(batches->micro[i].target);
	}
	for (int g = 0; g < SAMPLER_GROUPS; g++) {
		free(batches->named[g]);
		classify_set_close(&batches->set[g]);
	}
	classify_labels_release(&batches->labels);
	free(batches->worker);
	free(batches->micro);
	pthread_mutex_destroy(&batches->lock);
	free(batches);
}

/* ---- what there is ---- */

const struct classify_labels *classify_batches_labels(const struct classify_batches *batches)
{
	return &batches->labels;
}

int64_t classify_batches_samples(const struct classify_batches *batches)
{
	uint64_t total = 0;

	for (int g = 0; g < batches->groups; g++)
		total += batches->count[g];
	return (int64_t)total;
}

int64_t classify_batches_epoch_steps(const struct classify_batches *batches)
{
	return batches->weighted ? 0 : epochs_steps(&batches->epochs);
}

int64_t classify_batches_last_batch(const struct classify_batches *batches)
{
	return batches->weighted ? batches->samples * batches->share.micros
				 : epochs_last_batch(&batches->epochs);
}

uint32_t classify_batches_sum(const struct classify_batches *batches)
{
	uint32_t sum = 0;

	for (int g = 0; g < batches->groups; g++) {
		const struct classify_set *set = &batches->set[g];
		struct text name = {0};

		sum = crc32c(sum, set->name, strlen(set->name) + 1);
		for (size_t i = 0; i < classify_set_count(set); i++) {
			text_clear(&name);
			classify_set_sample_name(set, i, &name);
			sum = crc32c(sum, name.data ? name.data : "", name.length);
			sum = crc32c(sum, "", 1);
		}
		text_release(&name);
	}
	return sum;
}

int classify_batches_missing(const struct classify_batches *batches, size_t *count, char **first)
{
	int status = STATUS_OK;

	*count = 0;
	*first = NULL;
	for (int g = 0; g < batches->groups && !status; g++) {
		size_t here = 0;
		char *name = NULL;

		status = video_set_missing(batches->set[g].videos, &here, &name);
		task_missing_add(count, first, here, name);
	}
	return status;
}

int classify_batches_start(struct classify_batches *batches, int64_t first)
{
	struct loader_source source = {.make = make_micro, .context = batches, .slots = batches->slots};

	return recipe_share_load(&batches->share, batches->config, &source, first, &batches->loader);
}

int classify_batches_next(
	struct classify_batches *batches, int64_t m, const struct classify_micro **micro, double *waited)
{
	int slot, status = recipe_share_next(&batches->share, batches->loader, m, &slot, waited);

	*micro = &batches->micro[slot];
	return status;
}

char *classify_batches_names(const struct classify_batches *batches, int64_t m)
{
	struct text text = {0};

	for (int64_t slot = 0; slot < samples_of(batches, m); slot++) {
		uint64_t index;
		int group;

		draw(batches, m, slot, 0, &group, &index);
		text_format(&text, "%s%s/", slot ? ", " : "", batches->set[group].name);
		classify_set_sample_name(&batches->set[group], index, &text);
	}
	return text_take(&text);
}
