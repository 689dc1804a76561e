/* The sampler: every sample once a pass, exact shares, nothing but (seed, number, slot) decides. And the loader's order. */
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "base/clock.h"
#include "base/error.h"
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

int main(void)
{
	check_passes();
	check_shares();
	check_seeds();
	check_loader(0);
	check_loader(1);
	check_loader(4);
	return check_summary();
}
