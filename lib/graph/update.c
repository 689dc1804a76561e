/* From the gradients of micro-batches to new parameters. */
#include <math.h>
#include "base/error.h"
#include "graph/internal.h"

static int add_level(struct program *program, int depth, size_t first, size_t count)
{
	float *gradient = (float *)program->store->block[SLOT_GRADIENT];
	const float *partial = (const float *)program->accumulator[depth];

	return program->device->backend->add(program->device, gradient + first, partial + first, count);
}

int program_add_waiting(struct program *program, size_t first, size_t count)
{
	int status = STATUS_OK;

	for (int depth = program->accumulator_depth; depth-- > 0 && !status;)
		status = add_level(program, depth, first, count);
	return status;
}

/* Where rank 0's statistics stand for all ranks', they are no sum. */
static int scale_gradients(struct program *program, double factor)
{
	struct store *store = program->store;
	const struct backend *backend = program->device->backend;
	int status = STATUS_OK;

	if (program->norm_extent != NORM_RANK)
		return backend->scale(program->device, (float *)store->block[SLOT_GRADIENT], factor,
			store->trained_bytes / sizeof(float));
	for (size_t i = 0; i < store->count && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);

		if (!parameter->statistic && !parameter->frozen)
			status = backend->scale(program->device, store_data(store, i, SLOT_GRADIENT), factor,
				parameter->count);
	}
	return status;
}

/* The last micro-batch's gradients join what waits, from the smallest to the largest; then the other ranks'. */
static int finish_mean(struct program *program, int64_t micros)
{
	struct store *store = program->store;
	size_t count = store->trained_bytes / sizeof(float);
	int64_t parts = micros;
	int status;

	if (program->exchange.finish) {
		parts *= program->exchange.ranks;
		status = program_finish_exchange(program);
	} else {
		status = program_add_waiting(program, 0, count);
	}
	program->accumulator_depth = 0;
	if (status || parts == 1)
		return status;
	return scale_gradients(program, 1.0 / (double)parts);
}

/*
 * A binary counter: the partial sum of 2^level micro-batches waits until its right neighbour is complete;
 * what waits at the end is added from the smallest to the largest, which is the tree that pairs consecutive
 * ones from the left.
 */
int program_collect(struct program *program, int64_t micro, int64_t micros)
{
	struct store *store = program->store;
	size_t count = store->trained_bytes / sizeof(float);
	int level = 0, depth;

	if (program->early && micros == 1)
		return STATUS_OK;
	if (!store->block[SLOT_GRADIENT] || micro < 0 || micro >= micros || micros > program->micros)
		return error_set(STATUS_FAILURE, "micro-batch %lld of %lld was not planned", (long long)micro,
			(long long)micros);
	program->norm_known = false;
	if (micro == 0)
		program->accumulator_depth = 0;
	if (micro == micros - 1)
		return finish_mean(program, micros);
	while ((depth = program->accumulator_depth) > 0 && program->accumulator_level[depth - 1] == level) {
		if (add_level(program, depth - 1, 0, count))
			return error_status();
		program->accumulator_depth--;
		level++;
	}
	program->accumulator_level[depth] = level;
	program->accumulator_depth++;
	return program->device->backend->copy(program->device, program->accumulator[depth],
		store->block[SLOT_GRADIENT], store->trained_bytes);
}

/* A statistic's is no gradient. */
static int parameter_squares(struct program *program, size_t i, double *sum)
{
	const float *gradient = store_data(program->store, i, SLOT_GRADIENT);

	*sum = program->early ? program->squares[i] : 0;
	if (!gradient || program->store->entries[i].parameter.statistic)
		return STATUS_OK;
	return program->device->backend->sum_squares(
		program->device, gradient, program->store->entries[i].parameter.count, sum);
}

int program_gradient_norm(struct program *program, double *norm)
{
	double sum = 0, one;

	for (size_t i = 0; i < program->store->count && !program->norm_known; i++) {
		if (parameter_squares(program, i, &one))
			return error_status();
		sum += one;
	}
	if (!program->norm_known)
		program->norm = sqrt(sum);
	program->norm_known = true;
	*norm = program->norm;
	return STATUS_OK;
}

const char *program_not_finite(struct program *program)
{
	double sum;

	if (program->norm_known && isfinite(program->norm))
		return NULL;
	for (size_t i = 0; i < program->store->count; i++) {
		if (parameter_squares(program, i, &sum) || !isfinite(sum))
			return program->store->entries[i].parameter.name;
	}
	return NULL;
}

struct update_call program_update_call(const struct program *program, size_t i, struct optimizer_rule *rule)
{
	const struct store *store = program->store;
	const struct parameter *parameter = store_parameter(store, i);

	*rule = program->rule;
	if (parameter->statistic)
		*rule = (struct optimizer_rule){.kind = OPTIMIZER_STATISTIC, .momentum = parameter->momentum};
	else if (rule->spare_vectors && parameter->dims < 2 && !parameter->row)
		rule->decay = 0;
	return (struct update_call){.value = store_data(store, i, SLOT_VALUE),
		.moment1 = store_data(store, i, SLOT_MOMENT1),
		.moment2 = store_data(store, i, SLOT_MOMENT2),
		.average = store_data(store, i, SLOT_AVERAGE),
		.count = parameter->count,
		.rule = rule,
		.scalars = &program->scalars,
		.scale = 1};
}

static int update_parameter(struct program *program, size_t i, float *gradient, double scale)
{
	const struct parameter *parameter = store_parameter(program->store, i);
	struct optimizer_rule rule;
	struct update_call call = program_update_call(program, i, &rule);

	if (!gradient)
		return STATUS_OK;
	call.gradient = gradient;
	call.scale = parameter->statistic ? 1 : scale;
	if (program->store->entries[i].done ? sparse_update(program, i, &call)
					    : program->device->backend->update(program->device, &call))
		return error_prefix("parameter %s", parameter->name);
	if (parameter->statistic)
		store_set_updates(program->store, i, parameter->updates + 1);
	return STATUS_OK;
}

int program_update_early(struct program *program, size_t i, float *gradient)
{
	const struct parameter *parameter = store_parameter(program->store, i);

	if (!parameter->statistic && program->device->backend->sum_squares(program->device, gradient,
					     parameter->count, &program->squares[i]))
		return error_status();
	return update_parameter(program, i, gradient, 1);
}

/* What the run has done already. */
static int finish_early(struct program *program)
{
	bool updated = program->updated;

	program->updated = false;
	return updated ? STATUS_OK
		       : error_set(STATUS_FAILURE, "nothing to update: no run since the last update");
}

int program_update(struct program *program, const struct step_scalars *scalars)
{
	struct store *store = program->store;
	double norm, scale = 1;
	int status = STATUS_OK;

	program_set_scalars(program, scalars);
	if (program->early)
		return finish_early(program);
	if (!program->has_rule || !store->block[SLOT_GRADIENT])
		return error_set(STATUS_FAILURE, "nothing to update: no update rule or no gradients");
	if (program->rule.clip > 0) {
		if (program_gradient_norm(program, &norm))
			return error_status();
		scale = norm > program->rule.clip ? program->rule.clip / (norm + 1e-6) : 1;
	}
	for (size_t i = 0; i < store->count && !status; i++) {
		if (store->entries[i].reached)
			status = update_parameter(program, i, store_data(store, i, SLOT_GRADIENT), scale);
	}
	return status;
}
