#include <math.h>
#include <string.h>
#include "base/error.h"
#include "data/sampler.h"

/* Largest remainder: shares of a block by weight, every positive weight gets at least one micro-batch. */
static void apportion(struct sampler *sampler, const double *weight, double total)
{
	double rest[SAMPLER_GROUPS];
	uint64_t given = 0;

	for (int g = 0; g < sampler->groups; g++) {
		double exact = SAMPLER_BLOCK * weight[g] / total;

		sampler->share[g] = (uint64_t)exact;
		rest[g] = exact - (double)sampler->share[g];
		if (weight[g] > 0 && sampler->share[g] == 0) {
			sampler->share[g] = 1;
			rest[g] = 0;
		}
		given += sampler->share[g];
	}
	while (given != SAMPLER_BLOCK) {
		int best = 0;

		for (int g = 1; g < sampler->groups; g++)
			if (given < SAMPLER_BLOCK ? rest[g] > rest[best]
						  : sampler->share[g] > sampler->share[best])
				best = g;
		if (given < SAMPLER_BLOCK) {
			sampler->share[best]++;
			rest[best] -= 1;
			given++;
		} else {
			sampler->share[best]--;
			given--;
		}
	}
}

int sampler_init(struct sampler *sampler, uint64_t seed, int groups, const uint64_t *count,
	const double *weight, int64_t micro)
{
	double total = 0;

	memset(sampler, 0, sizeof(*sampler));
	if (groups < 1 || groups > SAMPLER_GROUPS)
		return error_set(STATUS_CONFIG, "data.train has %d groups, 1 to %d are possible", groups,
			SAMPLER_GROUPS);
	for (int g = 0; g < groups; g++) {
		if (count[g] == 0)
			return error_set(STATUS_CONFIG, "data.train: group %d has no samples", g);
		sampler->count[g] = count[g];
		total += weight[g];
	}
	if (!(total > 0) || !isfinite(total))
		return error_set(STATUS_CONFIG, "data.train: no group has a positive weight");
	sampler->blocks = random_stream(seed, "sampler blocks");
	sampler->passes = random_stream(seed, "sampler passes");
	sampler->replacements = random_stream(seed, "sampler replacements");
	sampler->groups = groups;
	sampler->micro = micro;
	apportion(sampler, weight, total);
	return 0;
}

/* Where micro-batch m falls in its shuffled block: its group, and how many of the group's micro-batches of all blocks are
 * numbered below it. */
static uint64_t locate(const struct sampler *sampler, int64_t m, int *group)
{
	uint64_t block = (uint64_t)m / SAMPLER_BLOCK;
	uint64_t place = sampler->groups == 1 ? (uint64_t)m % SAMPLER_BLOCK
					      : random_permute(sampler->blocks, block,
							(uint64_t)m % SAMPLER_BLOCK, SAMPLER_BLOCK);

	*group = 0;
	while (place >= sampler->share[*group])
		place -= sampler->share[(*group)++];
	return block * sampler->share[*group] + place;
}

int sampler_group(const struct sampler *sampler, int64_t m)
{
	int group;

	locate(sampler, m, &group);
	return group;
}

uint64_t sampler_index(const struct sampler *sampler, int64_t m, int64_t slot, int attempt)
{
	int group;
	uint64_t draw = locate(sampler, m, &group) * (uint64_t)sampler->micro + (uint64_t)slot;
	uint64_t count = sampler->count[group];
	struct random passes = sampler->passes;

	if (attempt > 0)
		return random_below(
			sampler->replacements, (uint64_t)m, (uint32_t)slot, (uint32_t)attempt, count);
	passes.key[1] ^= (uint32_t)group; /* each group has its own order */
	return random_permute(passes, draw / count, draw % count, count);
}
