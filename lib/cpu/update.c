/* Optimizer steps (Kingma & Ba 2015; momentum as PyTorch writes it) and the squares of the gradient norm. */
#include <math.h>

#include "base/error.h"
#include "cpu/device.h"

#define PIECE 32768

struct squares_job {
	const struct kernels *kernels;
	const float *data;
	int64_t count;
	double part[64];
};

static void squares_piece(void *context, int64_t i, int thread)
{
	struct squares_job *job = context;
	(void)thread;
	job->part[i] =
		job->kernels->sum_squares(job->data + i * PIECE, smaller(PIECE, job->count - i * PIECE));
}

int cpu_sum_squares(struct device *device, const float *data, size_t count, double *sum)
{
	const struct cpu_device *cpu = cpu_device(device);
	/* Pieces are added in order, a row of them at a time, so that nothing need be allocated. */
	const int64_t row = 64 * PIECE;
	*sum = 0;
	for (int64_t first = 0; first < (int64_t)count; first += row) {
		struct squares_job job = {
			cpu->kernels, data + first, smaller(row, (int64_t)count - first), {0}};
		const int64_t pieces = divide_up(job.count, PIECE);
		cpu_share(cpu, (double)job.count, pieces, squares_piece, &job);
		for (int64_t p = 0; p < pieces; p++)
			*sum += job.part[p];
	}
	return STATUS_OK;
}

/* The gradient's factor, bias corrections and step size, computed in double as PyTorch does. */
static struct adam_step adam_prepare(const struct update_call *call)
{
	const struct optimizer_rule *rule = call->rule;
	double step = (double)call->scalars->step;
	double correction1 = 1 - pow(rule->beta1, step), correction2 = 1 - pow(rule->beta2, step);
	return (struct adam_step){
		.beta1_rest = (float)(1 - rule->beta1),
		.beta2 = (float)rule->beta2,
		.beta2_rest = (float)(1 - rule->beta2),
		.correction2 = (float)sqrt(correction2),
		.epsilon = (float)rule->epsilon,
		.step_size = (float)(call->scalars->learning_rate / correction1),
		.scale = (float)call->scale,
	};
}

struct update_job {
	const struct kernels *kernels;
	const struct update_call *call;
	struct adam_step adam;
};

static void update_piece(void *context, int64_t i, int thread)
{
	const struct update_job *job = context;
	const struct update_call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->count - first);
	float *value = call->value + first, *moment1 = call->moment1 ? call->moment1 + first : NULL;
	const float *gradient = call->gradient + first;
	(void)thread;
	if (call->rule->kind == OPTIMIZER_ADAM)
		job->kernels->adam(&job->adam, value, gradient, moment1, call->moment2 + first, some);
	else
		job->kernels->sgd((float)call->scalars->learning_rate, (float)call->rule->momentum,
			(float)call->scale, value, gradient, moment1, some);
}

int cpu_update(struct device *device, const struct update_call *call)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct update_job job = {.kernels = cpu->kernels, .call = call};
	if (call->rule->kind == OPTIMIZER_ADAM)
		job.adam = adam_prepare(call);
	cpu_share(cpu, 4.0 * (double)call->count, divide_up((int64_t)call->count, PIECE), update_piece, &job);
	return STATUS_OK;
}
