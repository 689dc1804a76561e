#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/digest.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "task/depth_batch.h"
#include "task/groups.h"
#include "task/recipe.h"

#define ATTEMPTS 100 /* replacements tried for one bad sample */

struct encoded { /* one sample as latents: rgb [h,w,4], depth [h,w,4], mask [h,w], in one block */
	float *rgb, *depth, *mask;
};

struct depth_batches {
	const struct config *config;
	struct depth_model *model;
	struct depth_set set[SAMPLER_GROUPS];
	int groups;
	struct sampler sampler;
	struct recipe_share share;
	struct random flip, timestep, last, noise;
	double flip_share, last_share, quantile;
	bool original_holes, original_resize, masked, skip;
	struct encoded *cache[SAMPLER_GROUPS]; /* 2 a sample: as it is, flipped */
	uint64_t cached, cache_limit;
	pthread_mutex_t lock;                 /* of the cache and `named` */
	unsigned char *named[SAMPLER_GROUPS]; /* bad samples that were reported */
	struct depth_micro *micro;            /* the loader's slots */
	int slots;
	struct loader *loader;
};

static size_t cells(const struct depth_batches *batches, int group)
{
	size_t factor = (size_t)batches->model->codec->factor;
	const struct depth_set *set = &batches->set[group];

	return ((size_t)set->height / factor) * ((size_t)set->width / factor);
}

/* ---- one sample ---- */

/* A latent cell counts when all of its pixels are valid. */
static void pool_mask(const uint8_t *mask, int height, int width, int factor, float *out)
{
	for (int y = 0; y + factor <= height; y += factor)
		for (int x = 0; x + factor <= width; x += factor) {
			int valid = 1;

			for (int dy = 0; dy < factor; dy++)
				for (int dx = 0; dx < factor; dx++)
					valid &= mask[(size_t)(y + dy) * (size_t)width + (size_t)(x + dx)] !=
						 0;
			*out++ = (float)valid;
		}
}

static int encode_images(
	const struct depth_batches *batches, const struct depth_sample *sample, struct encoded *out)
{
	const struct latent_codec *codec = batches->model->codec;
	size_t pixels = (size_t)sample->height * (size_t)sample->width;
	float *image = memory_new(pixels * 3, sizeof(float));
	int status = image ? 0 : STATUS_FAILURE;

	for (size_t i = 0; i < pixels * 3 && !status; i++)
		image[i] = (float)sample->rgb[i] / 255 * 2 - 1;
	if (!status)
		status = codec->encode(codec, image, sample->height, sample->width, out->rgb);
	for (size_t i = 0; i < pixels && !status; i++)
		image[3 * i] = image[3 * i + 1] = image[3 * i + 2] = sample->depth[i];
	if (!status)
		status = codec->encode(codec, image, sample->height, sample->width, out->depth);
	free(image);
	return status;
}

/* Reads, flips, normalises at full resolution, resizes and encodes. */
static int encode_sample(
	const struct depth_batches *batches, int group, uint64_t index, bool flip, struct encoded *out)
{
	const struct depth_set *set = &batches->set[group];
	struct depth_sample sample = {0};
	int status = depth_read(set->data, index, &sample);

	if (status)
		return status;
	if (flip)
		depth_sample_flip(&sample);
	status = depth_normalise(sample.depth, sample.mask, (size_t)sample.height * (size_t)sample.width,
		batches->quantile, batches->original_holes, sample.depth);
	if (status)
		depth_error_prefix(set->data, index);
	else if (set->resize)
		status = depth_sample_resize(&sample, set->height, set->width, batches->original_resize);
	else if (sample.height != set->height || sample.width != set->width) {
		error_set(STATUS_DATA,
			"%dx%d pixels where the group's first sample has %dx%d; give the group a size",
			sample.width, sample.height, set->width, set->height);
		status = depth_error_prefix(set->data, index);
	}
	if (!status)
		status = encode_images(batches, &sample, out);
	if (!status)
		pool_mask(sample.mask, sample.height, sample.width, batches->model->codec->factor, out->mask);
	depth_sample_release(&sample);
	return status;
}

static int new_encoded(const struct depth_batches *batches, int group, struct encoded *out)
{
	size_t count = cells(batches, group), channels = (size_t)batches->model->codec->channels;

	out->rgb = memory_new(count * (2 * channels + 1), sizeof(float));
	if (!out->rgb)
		return STATUS_FAILURE;
	out->depth = out->rgb + count * channels;
	out->mask = out->depth + count * channels;
	return 0;
}

/* The encoded sample, from the cache or made now. `mine` tells that the caller frees it. */
static int encoded_sample(
	struct depth_batches *batches, int group, uint64_t index, bool flip, struct encoded *out, bool *mine)
{
	struct encoded *place = &batches->cache[group][2 * index + flip];
	uint64_t bytes =
		cells(batches, group) * (2 * (uint64_t)batches->model->codec->channels + 1) * sizeof(float);
	int status;

	pthread_mutex_lock(&batches->lock);
	*out = *place;
	pthread_mutex_unlock(&batches->lock);
	*mine = false;
	if (out->rgb)
		return 0;
	status = new_encoded(batches, group, out);
	if (!status)
		status = encode_sample(batches, group, index, flip, out);
	*mine = true;
	pthread_mutex_lock(&batches->lock);
	if (!status && !place->rgb && batches->cached + bytes <= batches->cache_limit) {
		*place = *out;
		batches->cached += bytes;
		*mine = false;
	}
	pthread_mutex_unlock(&batches->lock);
	return status;
}

/* ---- one micro-batch ---- */

static int draw_timestep(const struct depth_batches *batches, int64_t m, int64_t slot)
{
	uint64_t steps = (uint64_t)batches->model->diffusion.steps;

	if (random_uniform(batches->last, (uint64_t)m, (uint32_t)slot, 0) < batches->last_share)
		return (int)steps - 1;
	return (int)random_below(batches->timestep, (uint64_t)m, (uint32_t)slot, 0, steps);
}

/* Writes sample `slot` of the micro-batch: latents, noise, target. */
static void place_sample(struct depth_batches *batches, const struct encoded *encoded, int64_t m,
	int64_t slot, struct depth_micro *micro)
{
	size_t count = cells(batches, micro->group), channels = (size_t)batches->model->codec->channels;
	size_t at = (size_t)slot * count * channels;
	int t = draw_timestep(batches, m, slot);
	float *noise = micro->target + at; /* the target takes its place below */

	memcpy(micro->rgb + at, encoded->rgb, count * channels * sizeof(float));
	for (size_t i = 0; i < count; i++)
		micro->mask[(size_t)slot * count + i] = batches->masked ? encoded->mask[i] : 1;
	micro->t[slot] = (float)t;
	random_normal(batches->noise, (uint64_t)m, (uint32_t)slot, 0, noise, count * channels);
	diffusion_add_noise(&batches->model->diffusion, t, encoded->depth, noise, micro->noisy + at,
		micro->target + at, count * channels);
}

/* Says once that a sample is bad. The message is the present error. */
static void report_bad(struct depth_batches *batches, int group, uint64_t index)
{
	bool first;

	pthread_mutex_lock(&batches->lock);
	first = !batches->named[group][index];
	batches->named[group][index] = 1;
	pthread_mutex_unlock(&batches->lock);
	if (first)
		warn("%s: %s; another sample takes its place", batches->set[group].name, error_message());
}

static int fill_slot(struct depth_batches *batches, int64_t m, int64_t slot, struct depth_micro *micro)
{
	bool flip = random_uniform(batches->flip, (uint64_t)m, (uint32_t)slot, 0) < batches->flip_share;
	struct encoded encoded;
	bool mine;
	int status = STATUS_DATA;

	for (int attempt = 0; attempt <= ATTEMPTS; attempt++) {
		uint64_t index = sampler_index(&batches->sampler, m, slot, attempt);

		status = encoded_sample(batches, micro->group, index, flip, &encoded, &mine);
		if (!status)
			place_sample(batches, &encoded, m, slot, micro);
		if (mine)
			free(encoded.rgb);
		if (status != STATUS_DATA || !batches->skip)
			return status ? error_prefix("%s", batches->set[micro->group].name) : 0;
		report_bad(batches, micro->group, index);
		micro->skipped++;
	}
	return error_set(STATUS_DATA, "%s: %d samples in a row are bad; check the data",
		batches->set[micro->group].name, ATTEMPTS + 1);
}

static int make_micro(void *context, int64_t number, int place)
{
	struct depth_batches *batches = context;
	int64_t m = recipe_share_global(&batches->share, number);
	struct depth_micro *micro = &batches->micro[place];
	int status = 0;

	micro->group = sampler_group(&batches->sampler, m);
	micro->skipped = 0;
	for (int64_t slot = 0; slot < batches->sampler.micro && !status; slot++)
		status = fill_slot(batches, m, slot, micro);
	return status;
}

/* ---- opening ---- */

static int open_groups(struct depth_batches *batches, const struct run *run)
{
	size_t groups = config_groups(batches->config, "data.train");
	uint64_t count[SAMPLER_GROUPS];
	double weight[SAMPLER_GROUPS];
	int status = 0;

	if (groups > SAMPLER_GROUPS)
		return error_set(STATUS_CONFIG, "data.train: %zu groups, at most %d are possible", groups,
			SAMPLER_GROUPS);
	for (; (size_t)batches->groups < groups && !status; batches->groups++) {
		int g = batches->groups;
		struct depth_set *set = &batches->set[g];

		status = depth_set_open(set, run, "data.train", (size_t)g, false);
		if (status)
			return status;
		count[g] = depth_count(set->data);
		weight[g] = set->weight;
		batches->cache[g] = memory_new(2 * count[g], sizeof(struct encoded));
		batches->named[g] = memory_new(count[g], 1);
		if (!batches->cache[g] || !batches->named[g])
			return STATUS_FAILURE;
	}
	return sampler_init(&batches->sampler, (uint64_t)config_integer(batches->config, "seed"),
		batches->groups, count, weight, config_integer(batches->config, "batch.micro"));
}

static void read_options(struct depth_batches *batches)
{
	const struct config *config = batches->config;
	uint64_t seed = (uint64_t)config_integer(config, "seed");

	batches->flip = random_stream(seed, "flip");
	batches->timestep = random_stream(seed, "timestep");
	batches->last = random_stream(seed, "last timestep");
	batches->noise = random_stream(seed, "noise");
	batches->flip_share = config_number(config, "data.flip");
	batches->last_share = config_number(config, "diffusion.last_share");
	batches->quantile = config_number(config, "depth.quantile");
	batches->original_holes = !strcmp(config_text(config, "depth.holes"), "original");
	batches->original_resize = !strcmp(config_text(config, "depth.resize"), "original");
	batches->masked = config_bool(config, "depth.mask");
	batches->skip = config_bool(config, "data.skip");
	batches->cache_limit = config_bytes(config, "data.cache");
}

/* The loader's slots, each large enough for every group. */
static int new_slots(struct depth_batches *batches)
{
	size_t micro = (size_t)batches->sampler.micro, channels = (size_t)batches->model->codec->channels,
	       largest = 0;
	int threads = (int)config_integer(batches->config, "data.threads");

	for (int g = 0; g < batches->groups; g++)
		largest = cells(batches, g) > largest ? cells(batches, g) : largest;
	batches->slots = threads ? 2 * threads + 1 : 1;
	batches->micro = memory_new((size_t)batches->slots, sizeof(*batches->micro));
	for (int i = 0; batches->micro && i < batches->slots; i++) {
		struct depth_micro *slot = &batches->micro[i];
		size_t latent = micro * largest * channels;

		slot->rgb = memory_new(3 * latent + micro * largest + micro, sizeof(float));
		if (!slot->rgb)
			return STATUS_FAILURE;
		slot->noisy = slot->rgb + latent;
		slot->target = slot->noisy + latent;
		slot->mask = slot->target + latent;
		slot->t = slot->mask + micro * largest;
	}
	return batches->micro ? 0 : STATUS_FAILURE;
}

int depth_batches_open(const struct run *run, const struct comm *comm, struct depth_model *model,
	struct depth_batches **result)
{
	struct depth_batches *batches = memory_new(1, sizeof(*batches));
	int status;

	*result = batches;
	if (!batches)
		return STATUS_FAILURE;
	batches->config = run->config;
	batches->share = recipe_share(run->config, comm);
	batches->model = model;
	pthread_mutex_init(&batches->lock, NULL);
	read_options(batches);
	status = open_groups(batches, run);
	if (!status)
		status = new_slots(batches);
	if (status) {
		depth_batches_close(batches);
		*result = NULL;
	}
	return status;
}

void depth_batches_close(struct depth_batches *batches)
{
	if (!batches)
		return;
	loader_free(batches->loader);
	for (int g = 0; g < SAMPLER_GROUPS; g++) {
		size_t count = batches->set[g].data ? depth_count(batches->set[g].data) : 0;

		for (size_t i = 0; batches->cache[g] && i < 2 * count; i++)
			free(batches->cache[g][i].rgb);
		free(batches->cache[g]);
		free(batches->named[g]);
		depth_set_close(&batches->set[g]);
	}
	for (int i = 0; batches->micro && i < batches->slots; i++)
		free(batches->micro[i].rgb);
	free(batches->micro);
	pthread_mutex_destroy(&batches->lock);
	free(batches);
}

int depth_batches_groups(const struct depth_batches *batches)
{
	return batches->groups;
}

const char *depth_batches_name(const struct depth_batches *batches, int group)
{
	return batches->set[group].name;
}

void depth_batches_size(const struct depth_batches *batches, int group, int *height, int *width)
{
	*height = batches->set[group].height;
	*width = batches->set[group].width;
}

int64_t depth_batches_samples(const struct depth_batches *batches)
{
	uint64_t total = 0;

	for (int g = 0; g < batches->groups; g++)
		total += batches->sampler.count[g];
	return (int64_t)total;
}

uint32_t depth_batches_sum(const struct depth_batches *batches)
{
	uint32_t sum = 0;

	for (int g = 0; g < batches->groups; g++) {
		const struct depth_set *set = &batches->set[g];

		sum = crc32c(sum, set->name, strlen(set->name) + 1);
		for (size_t i = 0; i < depth_count(set->data); i++)
			sum = crc32c(sum, depth_name(set->data, i), strlen(depth_name(set->data, i)) + 1);
	}
	return sum;
}

int depth_batches_main_group(const struct depth_batches *batches)
{
	int main_group = 0;

	for (int g = 1; g < batches->groups; g++)
		if (batches->sampler.share[g] > batches->sampler.share[main_group])
			main_group = g;
	return main_group;
}

int depth_batches_missing(const struct depth_batches *batches, size_t *count, char **first)
{
	int status = 0;

	*count = 0;
	*first = NULL;
	for (int g = 0; g < batches->groups && !status; g++) {
		size_t here = 0;
		char *name = NULL;

		status = depth_missing(batches->set[g].data, &here, &name);
		task_missing_add(count, first, here, name);
	}
	return status;
}

int depth_batches_start(struct depth_batches *batches, int64_t first)
{
	struct loader_source source = {.make = make_micro, .context = batches, .slots = batches->slots};

	return recipe_share_load(&batches->share, batches->config, &source, first, &batches->loader);
}

int depth_batches_next(
	struct depth_batches *batches, int64_t m, const struct depth_micro **micro, double *waited)
{
	int slot, status = recipe_share_next(&batches->share, batches->loader, m, &slot, waited);

	*micro = &batches->micro[slot];
	return status;
}

char *depth_batches_names(const struct depth_batches *batches, int64_t m)
{
	const struct depth_set *set = &batches->set[sampler_group(&batches->sampler, m)];
	struct text text = {0};

	for (int64_t slot = 0; slot < batches->sampler.micro; slot++)
		text_format(&text, "%s%s/%s", slot ? ", " : "", set->name,
			depth_name(set->data, sampler_index(&batches->sampler, m, slot, 0)));
	return text_take(&text);
}
