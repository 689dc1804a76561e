/* Optimizer steps (Kingma & Ba 2015; Loshchilov & Hutter 2019; momentum as PyTorch writes it), running statistics and
 * averages, and the squares of the gradient norm. */
#include <math.h>
#include <string.h>

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
	const bool decoupled = rule->kind == OPTIMIZER_ADAMW;
	double step = (double)call->scalars->step, rate = call->scalars->learning_rate;
	double correction1 = 1 - pow(rule->beta1, step), correction2 = 1 - pow(rule->beta2, step);
	return (struct adam_step){
		.beta1_rest = (float)(1 - rule->beta1),
		.beta2 = (float)rule->beta2,
		.beta2_rest = (float)(1 - rule->beta2),
		.correction2 = (float)sqrt(correction2),
		.epsilon = (float)rule->epsilon,
		.step_size = (float)(rate / correction1),
		.scale = (float)call->scale,
		.decay = decoupled ? 0 : (float)rule->decay,
		.keep = decoupled ? (float)(1 - rate * rule->decay) : 1,
	};
}

static struct sgd_step sgd_prepare(const struct update_call *call)
{
	const struct optimizer_rule *rule = call->rule;
	return (struct sgd_step){
		.rate = (float)call->scalars->learning_rate,
		.momentum = (float)rule->momentum,
		.fresh = call->scalars->step == 1 ? 1 : (float)(1 - rule->dampening),
		.decay = (float)rule->decay,
		.scale = (float)call->scale,
		.nesterov = rule->nesterov,
	};
}

struct update_job {
	const struct kernels *kernels;
	const struct update_call *call;
	struct adam_step adam;
	struct sgd_step sgd;
};

static void update_piece(void *context, int64_t i, int thread)
{
	const struct update_job *job = context;
	const struct update_call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->count - first);
	float *value = call->value + first, *moment1 = call->moment1 ? call->moment1 + first : NULL;
	float *average = call->average ? call->average + first : NULL;
	const float *gradient = call->gradient + first;
	(void)thread;
	if (average && call->scalars->step == 1)
		memcpy(average, value, (size_t)some * sizeof *average);
	switch (call->rule->kind) {
	case OPTIMIZER_SGD:
		job->kernels->sgd(&job->sgd, value, gradient, moment1, some);
		break;
	case OPTIMIZER_ADAM:
	case OPTIMIZER_ADAMW:
		job->kernels->adam(&job->adam, value, gradient, moment1, call->moment2 + first, some);
		break;
	case OPTIMIZER_STATISTIC:
		job->kernels->blend(value, gradient, (float)(1 - call->rule->momentum),
			(float)call->rule->momentum, some);
		break;
	}
	if (average)
		job->kernels->blend(
			average, value, (float)call->rule->average, (float)(1 - call->rule->average), some);
}

int cpu_update(struct device *device, const struct update_call *call)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct update_job job = {.kernels = cpu->kernels, .call = call};
	if (call->rule->kind == OPTIMIZER_SGD)
		job.sgd = sgd_prepare(call);
	else if (call->rule->kind != OPTIMIZER_STATISTIC)
		job.adam = adam_prepare(call);
	cpu_share(cpu, 4.0 * (double)call->count, divide_up((int64_t)call->count, PIECE), update_piece, &job);
	return STATUS_OK;
}
