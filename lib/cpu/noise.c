/* Random numbers by counters: an element depends on seed, name, step, micro-batch and its place alone. */
#include "base/random.h"
#include "cpu/device.h"

#define PIECE 4096 /* elements, a multiple of a Philox block */

struct noise_job {
	const struct call *call;
	struct random random;
};

static void noise_piece(void *context, int64_t i, int thread)
{
	const struct noise_job *job = context;
	const struct step_scalars *scalars = job->call->scalars;
	const int64_t first = i * PIECE, end = smaller(first + PIECE, (int64_t)job->call->out[0]->elements);
	float *y = job->call->out_data[0];
	(void)thread;
	if (job->call->node->normal) {
		random_normal(job->random, (uint64_t)scalars->step, (uint32_t)scalars->micro, (uint32_t)first,
			y + first, (size_t)(end - first));
		return;
	}
	for (int64_t e = first; e < end; e += 4) {
		const uint32_t counter[4] = {(uint32_t)(e / 4), (uint32_t)scalars->micro,
			(uint32_t)scalars->step, (uint32_t)((uint64_t)scalars->step >> 32)};
		uint32_t word[4];
		random_philox(job->random.key, counter, word);
		for (int64_t k = e; k < smaller(e + 4, end); k++)
			y[k] = (float)(word[k - e] >> 8) * 0x1p-24f;
	}
}

void cpu_noise(const struct cpu_device *device, const struct call *call)
{
	struct noise_job job = {call, random_stream(call->scalars->seed, call->node->name)};
	cpu_share(device, 16.0 * (double)call->out[0]->elements,
		divide_up((int64_t)call->out[0]->elements, PIECE), noise_piece, &job);
}
