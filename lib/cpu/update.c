/* Optimizer steps (Kingma & Ba 2015; momentum as PyTorch writes it) and the squares of the gradient norm. */
#include <math.h>

#include "base/error.h"
#include "cpu/device.h"

#define PIECE 32768

int cpu_sum_squares(struct device *device, const float *data, size_t count, double *sum)
{
	const struct kernels *kernels = cpu_device(device)->kernels;
	const int64_t elements = (int64_t)count;
	/* Pieces are added in order, a row of them at a time, so that nothing need be allocated. */
	double total = 0, part[64];
	for (int64_t row = 0; row < elements; row += 64 * PIECE) {
		int64_t pieces = smaller(64, divide_up(elements - row, PIECE));
#pragma omp parallel for num_threads(cpu_team(cpu_device(device), (double)pieces *PIECE)) schedule(dynamic)
		for (int64_t p = 0; p < pieces; p++) {
			int64_t first = row + p * PIECE;
			part[p] = kernels->sum_squares(data + first, smaller(PIECE, elements - first));
		}
		for (int64_t p = 0; p < pieces; p++)
			total += part[p];
	}
	*sum = total;
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

int cpu_update(struct device *device, const struct update_call *call)
{
	const struct kernels *kernels = cpu_device(device)->kernels;
	const bool adam = call->rule->kind == OPTIMIZER_ADAM;
	const struct adam_step step = adam ? adam_prepare(call) : (struct adam_step){0};
	const float rate = (float)call->scalars->learning_rate, momentum = (float)call->rule->momentum;
	const int64_t count = (int64_t)call->count;
#pragma omp parallel for num_threads(cpu_team(cpu_device(device), 4.0 * (double)count)) schedule(dynamic)
	for (int64_t first = 0; first < count; first += PIECE) {
		int64_t some = smaller(PIECE, count - first);
		float *value = call->value + first, *gradient = call->gradient + first;
		float *moment1 = call->moment1 ? call->moment1 + first : NULL;
		if (adam)
			kernels->adam(&step, value, gradient, moment1, call->moment2 + first, some);
		else
			kernels->sgd(rate, momentum, (float)call->scale, value, gradient, moment1, some);
	}
	return STATUS_OK;
}
