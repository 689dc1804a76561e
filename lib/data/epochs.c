#include "data/epochs.h"

#include <inttypes.h>
#include <string.h>
#include "base/error.h"

int epochs_rest(const char *name)
{
	static const char *const names[] = {"carry", "drop", "short"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

int epochs_init(struct epochs *epochs, uint64_t seed, uint64_t count, int64_t batch, enum epochs_rest rest)
{
	if (!count)
		return error_set(STATUS_CONFIG, "data.train has no samples");
	if (rest == EPOCHS_DROP && count < (uint64_t)batch)
		return error_set(STATUS_CONFIG,
			"data.train has %" PRIu64 " samples, fewer than batch.size = %" PRId64
			": nothing is left of an epoch with batch.rest = drop",
			count, batch);
	*epochs = (struct epochs){.order = random_stream(seed, "epochs order"),
		.replacements = random_stream(seed, "epochs replacements"),
		.count = count,
		.batch = batch,
		.rest = rest};
	return STATUS_OK;
}

int64_t epochs_steps(const struct epochs *epochs)
{
	int64_t whole = (int64_t)(epochs->count / (uint64_t)epochs->batch);

	if (epochs->rest == EPOCHS_CARRY)
		return 0;
	return whole + (epochs->rest == EPOCHS_SHORT && epochs->count % (uint64_t)epochs->batch > 0);
}

int64_t epochs_last_batch(const struct epochs *epochs)
{
	int64_t rest = (int64_t)(epochs->count % (uint64_t)epochs->batch);

	return epochs->rest == EPOCHS_SHORT && rest > 0 ? rest : epochs->batch;
}

uint64_t epochs_sample(const struct epochs *epochs, int64_t step, int64_t slot, int attempt)
{
	int64_t steps = epochs_steps(epochs);
	uint64_t epoch, place;

	if (attempt > 0)
		return random_below(epochs->replacements, (uint64_t)step, (uint32_t)slot, (uint32_t)attempt,
			epochs->count);
	if (steps > 0) {
		epoch = (uint64_t)(step / steps);
		place = (uint64_t)(step % steps * epochs->batch + slot);
	} else {
		place = (uint64_t)(step * epochs->batch + slot);
		epoch = place / epochs->count;
		place %= epochs->count;
	}
	return random_permute(epochs->order, epoch, place, epochs->count);
}
