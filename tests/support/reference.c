/* The reference back end: memory and dispatch; the bodies are in reference_bodies.c. */
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include "base/error.h"
#include "base/memory.h"
#include "reference.h"
#include "reference_bodies.h"

#define BLOCKS 256

struct block {
	char *base;
	size_t bytes;
	double *values;
};

struct reference {
	struct device device;
	struct block blocks[BLOCKS];
};

static bool ran[OP_COUNT];

bool reference_ran(enum operation operation)
{
	return ran[operation];
}

static int reference_open(const struct device_settings *settings, struct device **device)
{
	struct reference *reference = memory_new(1, sizeof(*reference));

	(void)settings;
	if (!reference)
		return error_status();
	reference->device.backend = &reference_backend;
	*device = &reference->device;
	return STATUS_OK;
}

static void reference_close(struct device *device)
{
	free(device);
}

static const char *reference_name(const struct device *device)
{
	(void)device;
	return "double";
}

static struct block *find(const struct device *device, const void *address)
{
	struct reference *reference = (struct reference *)device;
	const char *at = address;

	for (int i = 0; i < BLOCKS; i++) {
		struct block *block = &reference->blocks[i];

		if (block->base && at >= block->base && at < block->base + block->bytes)
			return block;
	}
	return NULL;
}

double *reference_at(const struct device *device, const void *address)
{
	const struct block *block = find(device, address);

	return block ? block->values + (size_t)((const char *)address - block->base) / sizeof(float) : NULL;
}

static void *reference_allocate(struct device *device, size_t bytes)
{
	struct reference *reference = (struct reference *)device;

	for (int i = 0; i < BLOCKS; i++) {
		struct block *block = &reference->blocks[i];

		if (block->base)
			continue;
		block->base = memory_aligned(bytes);
		block->values = memory_new(bytes / sizeof(float) + 1, sizeof(double));
		block->bytes = bytes;
		return block->values ? block->base : NULL;
	}
	error_set(STATUS_FAILURE, "reference: too many blocks");
	return NULL;
}

static void reference_release(struct device *device, void *memory)
{
	struct block *block = find(device, memory);

	free(block->values);
	free(block->base);
	*block = (struct block){0};
}

static int reference_write(struct device *device, void *to, const void *from, size_t bytes)
{
	double *values = reference_at(device, to);

	for (size_t i = 0; i < bytes / sizeof(float); i++)
		values[i] = (double)((const float *)from)[i];
	return STATUS_OK;
}

static int reference_read(struct device *device, void *to, const void *from, size_t bytes)
{
	const double *values = reference_at(device, from);

	for (size_t i = 0; i < bytes / sizeof(float); i++)
		((float *)to)[i] = (float)values[i];
	return STATUS_OK;
}

static int reference_copy(struct device *device, void *to, const void *from, size_t bytes)
{
	memmove(reference_at(device, to), reference_at(device, from), bytes / sizeof(float) * sizeof(double));
	return STATUS_OK;
}

static bool reference_supports(const struct device *device, const struct call *call)
{
	(void)device;
	return reference_bodies[call->node->operation] != NULL;
}

static size_t reference_workspace(const struct device *device, const struct call *call)
{
	(void)device;
	(void)call;
	return 0;
}

/* Bodies write to memory of their own, so that they need not know of accumulation and work in place. */
static int reference_run(struct device *device, const struct call *call)
{
	double *in[NODE_INPUTS] = {0}, *out[NODE_OUTPUTS] = {0};

	ran[call->node->operation] = true;
	for (int k = 0; k < NODE_INPUTS; k++) {
		if (call->in[k])
			in[k] = reference_at(device, call->in_data[k]);
	}
	for (int k = 0; k < NODE_OUTPUTS; k++) {
		if (call->out[k] && !(out[k] = memory_new(call->out[k]->elements, sizeof(double))))
			return error_status();
	}
	reference_bodies[call->node->operation](call, in, out);
	for (int k = 0; k < NODE_OUTPUTS; k++) {
		double *to = call->out[k] ? reference_at(device, call->out_data[k]) : NULL;

		for (size_t i = 0; to && i < call->out[k]->elements; i++)
			to[i] = (call->node->accumulate >> k & 1 ? to[i] : 0) + out[k][i];
		free(out[k]);
	}
	return STATUS_OK;
}

static int reference_sum(struct device *device, float *to, const float *from, size_t count)
{
	double *a = reference_at(device, to), *b = reference_at(device, from);

	for (size_t i = 0; i < count; i++)
		a[i] += b[i];
	return STATUS_OK;
}

static int reference_multiply(struct device *device, float *data, double factor, size_t count)
{
	double *a = reference_at(device, data);

	for (size_t i = 0; i < count; i++)
		a[i] *= factor;
	return STATUS_OK;
}

static int reference_sum_squares(struct device *device, const float *data, size_t count, double *sum)
{
	double *a = reference_at(device, data);

	*sum = 0;
	for (size_t i = 0; i < count; i++)
		*sum += a[i] * a[i];
	return STATUS_OK;
}

/* Kingma & Ba 2015, Loshchilov & Hutter 2019. */
static double adam_step(const struct update_call *call, double value, double g, double *m, double *v)
{
	const struct optimizer_rule *rule = call->rule;
	double rate = call->scalars->learning_rate, step = (double)call->scalars->step;

	*m = rule->beta1 * *m + (1 - rule->beta1) * g;
	*v = rule->beta2 * *v + (1 - rule->beta2) * g * g;
	if (rule->kind == OPTIMIZER_ADAMW)
		value -= rate * rule->decay * value;
	return value - rate * (*m / (1 - pow(rule->beta1, step))) /
			       (sqrt(*v / (1 - pow(rule->beta2, step))) + rule->epsilon);
}

/* As PyTorch has it. */
static double sgd_step(const struct update_call *call, double value, double g, double *buffer)
{
	const struct optimizer_rule *rule = call->rule;

	if (buffer) {
		*buffer = rule->momentum * *buffer + (call->scalars->step == 1 ? 1 : 1 - rule->dampening) * g;
		g = rule->nesterov ? g + rule->momentum * *buffer : *buffer;
	}
	return value - call->scalars->learning_rate * g;
}

static int reference_update(struct device *device, const struct update_call *call)
{
	const struct optimizer_rule *rule = call->rule;
	double *value = reference_at(device, call->value), *gradient = reference_at(device, call->gradient);
	double *m = call->moment1 ? reference_at(device, call->moment1) : NULL;
	double *v = call->moment2 ? reference_at(device, call->moment2) : NULL;
	double *average = call->average ? reference_at(device, call->average) : NULL;

	for (size_t i = 0; i < call->count; i++) {
		double g = gradient[i] * call->scale, before = value[i];

		if (rule->kind != OPTIMIZER_ADAMW)
			g += rule->decay * value[i];
		if (rule->kind == OPTIMIZER_SGD)
			value[i] = sgd_step(call, value[i], g, m ? &m[i] : NULL);
		else if (rule->kind == OPTIMIZER_STATISTIC)
			value[i] += rule->momentum * (gradient[i] - value[i]);
		else
			value[i] = adam_step(call, value[i], g, &m[i], &v[i]);
		if (average)
			average[i] = rule->average * (call->scalars->step == 1 ? before : average[i]) +
				     (1 - rule->average) * value[i];
	}
	return STATUS_OK;
}

const struct backend reference_backend = {
	.name = "reference",
	.open = reference_open,
	.close = reference_close,
	.isa = reference_name,
	.model = reference_name,
	.allocate = reference_allocate,
	.release = reference_release,
	.write = reference_write,
	.read = reference_read,
	.copy = reference_copy,
	.supports = reference_supports,
	.workspace = reference_workspace,
	.run = reference_run,
	.add = reference_sum,
	.scale = reference_multiply,
	.sum_squares = reference_sum_squares,
	.update = reference_update,
};
