/* Dropout (Srivastava et al. 2014) by counters: forward and backward pass draw the same numbers. */
#include "base/random.h"
#include "cpu/device.h"

#define PIECE 4096 /* elements, a multiple of a Philox block */

struct dropout_job {
	const struct call *call;
	struct random random;
	uint32_t limit; /* words below it drop */
	float factor;
};

/* Element i has word i % 4 of block i / 4. */
static void dropout_piece(void *context, int64_t i, int thread)
{
	const struct dropout_job *job = context;
	const struct step_scalars *scalars = job->call->scalars;
	const int64_t end = smaller((i + 1) * PIECE, (int64_t)job->call->out[0]->elements);
	const float *x = job->call->in_data[0];
	float *y = job->call->out_data[0];
	(void)thread;
	for (int64_t e = i * PIECE; e < end; e += 4) {
		const uint32_t counter[4] = {(uint32_t)(e / 4), (uint32_t)scalars->micro,
			(uint32_t)scalars->step, (uint32_t)((uint64_t)scalars->step >> 32)};
		uint32_t word[4];
		random_philox(job->random.key, counter, word);
		for (int64_t k = e; k < smaller(e + 4, end); k++) {
			const float v = word[k - e] < job->limit ? 0.0f : job->factor * x[k];
			y[k] = accumulates(job->call, 0) ? y[k] + v : v;
		}
	}
}

void cpu_dropout(const struct cpu_device *device, const struct call *call)
{
	const double probability = call->node->probability, words = 4294967296.0;
	struct dropout_job job = {.call = call,
		.random = random_stream(call->scalars->seed, call->node->name),
		.limit = (uint32_t)(probability * words),
		.factor = (float)(1 / (1 - probability))};
	cpu_share(device, 8.0 * (double)call->out[0]->elements,
		divide_up((int64_t)call->out[0]->elements, PIECE), dropout_piece, &job);
}
