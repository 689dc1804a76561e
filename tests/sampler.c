/* The sampler: every sample once a pass, exact shares, nothing but (seed, number, slot) decides. And the loader's order. */
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "base/clock.h"
#include "base/error.h"
#include "data/epochs.h"
#include "data/loader.h"
#include "data/sampler.h"

/* One group of 37 samples, 4 a micro-batch: 37 micro-batches are four passes. */
static void check_passes(void)
{
	struct sampler sampler;
	uint64_t count = 37;
	double weight = 1;
	int seen[37] = {0};
	bool once = true, again = true;

	check_status(sampler_init(&sampler, 7, 1, &count, &weight, 4), 0, "one group");
	for (int64_t m = 0; m < 37; m++)
		for (int64_t slot = 0; slot < 4; slot++) {
			uint64_t index = sampler_index(&sampler, m, slot, 0);

			if (index < 37)
				seen[index]++;
			if (m * 4 + slot == 36)
				for (int i = 0; i < 37; i++)
					once = once && seen[i] == 1;
		}
	for (int i = 0; i < 37; i++)
		again = again && seen[i] == 4;
	check(once, "a pass holds every sample once");
	check(again, "four passes hold every sample four times");
}

static void check_shares(void)
{
	struct sampler sampler;
	uint64_t count[3] = {100, 10, 5000};
	double weight[3] = {0.9, 0.1, 0};
	int64_t drawn[3] = {0};
	int repeats = 0, *seen = calloc(100 * 32, sizeof(int));
	bool inside = true;

	check_status(sampler_init(&sampler, 1, 3, count, weight, 2), 0, "three groups");
	for (int64_t m = 0; m < 2 * SAMPLER_BLOCK; m++) {
		int group = sampler_group(&sampler, m);

		drawn[group]++;
		for (int slot = 0; slot < 2; slot++)
			inside = inside && sampler_index(&sampler, m, slot, 0) < count[group] &&
				 sampler_index(&sampler, m, slot, 3) < count[group];
		if (group == 0)
			seen[sampler_index(&sampler, m, 0, 0)]++;
	}
	for (int i = 0; i < 100; i++)
		repeats = seen[i] > repeats ? seen[i] : repeats;
	check(inside, "indices are inside of their group");
	check(drawn[0] == 2 * 922 && drawn[1] == 2 * 102 && drawn[2] == 0, "shares are exact in each block");
	check(repeats <= 37, "no sample is drawn more often than its passes");
	free(seen);
}

static void check_seeds(void)
{
	struct sampler a, b;
	uint64_t count[2] = {1000, 1000};
	double weight[2] = {1, 1};
	int same = 0, same_groups = 0, replaced = 0;

	check_status(sampler_init(&a, 1, 2, count, weight, 1), 0, "seed 1");
	check_status(sampler_init(&b, 2, 2, count, weight, 1), 0, "seed 2");
	for (int64_t m = 0; m < 1000; m++) {
		same += sampler_index(&a, m, 0, 0) == sampler_index(&b, m, 0, 0);
		same_groups += sampler_group(&a, m) == sampler_group(&b, m);
		replaced += sampler_index(&a, m, 0, 1) == sampler_index(&a, m, 0, 2);
	}
	check(same < 20, "another seed gives another order");
	check(same_groups > 400 && same_groups < 600, "and another order of groups");
	check(replaced < 20, "attempts give different replacements");
	weight[0] = weight[1] = 0;
	check_status(sampler_init(&a, 1, 2, count, weight, 1), STATUS_CONFIG, "no weight at all is refused");
	count[1] = 0;
	weight[0] = 1;
	check_status(sampler_init(&a, 1, 2, count, weight, 1), STATUS_CONFIG, "an empty group is refused");
}

/* ---- loader ---- */

struct made {
	int64_t number[5];
	int64_t fail_at;
};

/* Slow where the number is even, so that threads finish out of order. */
static int make(void *context, int64_t number, int slot)
{
	struct made *made = context;

	clock_sleep(number % 2 ? 0 : 0.002);
	made->number[slot] = number;
	return number == made->fail_at ? error_set(STATUS_DATA, "batch %lld is bad", (long long)number) : 0;
}

static void check_loader(int threads)
{
	char name[4][64];
	struct made made = {.fail_at = 60};
	struct loader_source source = {.make = make, .context = &made, .slots = 5};
	struct loader *loader;
	bool in_order = true;
	double waited;
	int slot, status = loader_new(&source, threads, 10, &loader);

	snprintf(name[0], 64, "loader with %d threads", threads);
	snprintf(name[1], 64, "batches come in order with %d threads", threads);
	snprintf(name[2], 64, "a failure reaches the caller, %d threads", threads);
	snprintf(name[3], 64, "with its message, %d threads", threads);
	check_status(status, 0, name[0]);
	for (int64_t number = 10; number < 60 && !status; number++) {
		status = loader_next(loader, number, &slot, &waited);
		in_order = in_order && made.number[slot] == number;
		if (number % 7 == 0) { /* asked for again */
			status = status ? status : loader_next(loader, number, &slot, &waited);
			in_order = in_order && made.number[slot] == number;
		}
	}
	check(in_order && !status, name[1]);
	check_status(loader_next(loader, 60, &slot, &waited), STATUS_DATA, name[2]);
	check(!strcmp(error_message(), "batch 60 is bad"), name[3]);
	loader_free(loader);
}

/* How often each of 10 samples comes in the steps of `epoch`, of 4 samples each. */
static void count_epoch(const struct epochs *epochs, int64_t epoch, int64_t last_batch, int seen[10])
{
	int64_t steps = epochs_steps(epochs);

	memset(seen, 0, 10 * sizeof(*seen));
	for (int64_t i = 0; i < steps; i++)
		for (int64_t slot = 0; slot < (i == steps - 1 ? last_batch : 4); slot++)
			seen[epochs_sample(epochs, epoch * steps + i, slot, 0)]++;
}

static void check_epochs(void)
{
	struct epochs drop, rest, carry;
	bool least = true, once = true, others = false, same = true;
	int seen[10], first[10];

	check_status(epochs_init(&drop, 7, 10, 4, EPOCHS_DROP), 0, "ten samples, four a step");
	check_status(epochs_init(&rest, 7, 10, 4, EPOCHS_SHORT), 0, "and two in the last");
	check_status(epochs_init(&carry, 7, 10, 4, EPOCHS_CARRY), 0, "or four always");
	check(epochs_steps(&drop) == 2 && epochs_steps(&rest) == 3 && epochs_steps(&carry) == 0,
		"steps of an epoch");
	check(epochs_last_batch(&drop) == 4 && epochs_last_batch(&rest) == 2, "samples of its last step");
	for (int64_t epoch = 0; epoch < 50; epoch++) {
		count_epoch(&rest, epoch, 2, seen);
		for (int i = 0; i < 10; i++)
			once = once && seen[i] == 1;
		count_epoch(&drop, epoch, 4, seen);
		for (int i = 0; i < 10; i++)
			least = least && seen[i] <= 1;
		if (epoch == 0)
			memcpy(first, seen, sizeof(first));
		others = others || memcmp(first, seen, sizeof(first)) != 0;
	}
	check(once, "an epoch with a short batch holds every sample once");
	check(least && others, "one that drops the rest holds none twice, and each leaves others out");
	for (int64_t draw = 0; draw < 40; draw++)
		same = same && epochs_sample(&carry, draw / 4, draw % 4, 0) ==
				       epochs_sample(&rest, draw / 10 * 3 + draw % 10 / 4, draw % 10 % 4, 0);
	check(same, "all take the same order of an epoch");
	check_status(epochs_init(&drop, 7, 3, 4, EPOCHS_DROP), STATUS_CONFIG, "less than a batch in all");
	check_status(epochs_init(&drop, 7, 0, 4, EPOCHS_CARRY), STATUS_CONFIG, "no samples");
	check(epochs_rest("carry") == EPOCHS_CARRY && epochs_rest("short") == EPOCHS_SHORT &&
			epochs_rest("long") < 0,
		"their names");
}

int main(void)
{
	check_passes();
	check_epochs();
	check_shares();
	check_seeds();
	check_loader(0);
	check_loader(1);
	check_loader(4);
	return check_summary();
}
