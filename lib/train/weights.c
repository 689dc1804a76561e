#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/weights.h"

static const struct {
	enum store_slot slot;
	const char *suffix;
} moments[] = {{SLOT_MOMENT1, ".exp_avg"}, {SLOT_MOMENT2, ".exp_avg_sq"}, {SLOT_AVERAGE, ".average"}};
#define MOMENTS (sizeof(moments) / sizeof(moments[0]))

static char *joined(const char *name, const char *suffix)
{
	struct text text = {0};

	text_format(&text, "%s%s", name, suffix);
	return text_take(&text);
}

static int describe(struct safetensor *tensor, const struct parameter *parameter, const char *suffix)
{
	memset(tensor, 0, sizeof(*tensor));
	tensor->name = joined(parameter->name, suffix);
	tensor->type = SAFETENSORS_F32;
	tensor->dims = parameter->dims;
	memcpy(tensor->dim, parameter->dim, sizeof(parameter->dim));
	tensor->bytes = parameter->count * sizeof(float);
	return tensor->name ? 0 : STATUS_FAILURE;
}

int weights_init(struct weights *weights, const struct store *store)
{
	size_t count = store_count(store);
	int status = 0;

	memset(weights, 0, sizeof(*weights));
	weights->model = memory_new(count, sizeof(*weights->model));
	weights->optimizer = memory_new(count * MOMENTS, sizeof(*weights->optimizer));
	weights->memory = memory_new(count * (1 + MOMENTS), sizeof(*weights->memory));
	if (!weights->model || !weights->optimizer || !weights->memory)
		return STATUS_FAILURE;
	for (size_t i = 0; i < count && !status; i++)
		status = describe(&weights->model[weights->model_count++], store_parameter(store, i), "");
	for (size_t m = 0; m < MOMENTS; m++)
		for (size_t i = 0; i < count && !status; i++)
			if (store_keeps(store, i, moments[m].slot))
				status = describe(&weights->optimizer[weights->optimizer_count++],
					store_parameter(store, i), moments[m].suffix);
	return status;
}

static int allocate(struct safetensor *tensor, const bool *wanted, size_t count, float **memory)
{
	for (size_t i = 0; i < count; i++) {
		if (!wanted[i])
			continue;
		tensor[i].data = memory[i] = memory_new(tensor[i].bytes, 1);
		if (!memory[i])
			return STATUS_FAILURE;
	}
	return 0;
}

int weights_allocate(struct weights *weights, const bool *model, const bool *optimizer)
{
	int status = allocate(weights->model, model, weights->model_count, weights->memory);

	return status ? status
		      : allocate(weights->optimizer, optimizer, weights->optimizer_count,
				weights->memory + weights->model_count);
}

static int fill(const struct store *store, size_t i, enum store_slot slot, float *memory)
{
	return memory ? store_export(store, i, slot, memory) : 0;
}

int weights_fill(struct weights *weights, const struct store *store)
{
	size_t count = store_count(store), slot = count;
	int status = 0;

	for (size_t i = 0; i < count && !status; i++)
		status = fill(store, i, SLOT_VALUE, weights->memory[i]);
	for (size_t m = 0; m < MOMENTS; m++)
		for (size_t i = 0; i < count && !status; i++)
			if (store_keeps(store, i, moments[m].slot))
				status = fill(store, i, moments[m].slot, weights->memory[slot++]);
	return status;
}

void weights_release(struct weights *weights)
{
	for (size_t i = 0; weights->memory && i < weights->model_count + weights->optimizer_count; i++)
		free(weights->memory[i]);
	for (size_t i = 0; i < weights->model_count; i++)
		free(weights->model[i].name);
	for (size_t i = 0; i < weights->optimizer_count; i++)
		free(weights->optimizer[i].name);
	free(weights->model);
	free(weights->optimizer);
	free(weights->memory);
	memset(weights, 0, sizeof(*weights));
}

static bool same_shape(const struct safetensor *tensor, const struct parameter *parameter)
{
	if (tensor->dims != parameter->dims)
		return false;
	for (int i = 0; i < tensor->dims; i++)
		if (tensor->dim[i] != parameter->dim[i])
			return false;
	return true;
}

static int import(struct store *store, size_t i, enum store_slot slot, const struct safetensor *tensor)
{
	float *values = memory_new(store_parameter(store, i)->count, sizeof(float));
	int status = values ? safetensors_to_float(tensor, values) : STATUS_FAILURE;

	if (!status)
		status = store_import(store, i, slot, values);
	free(values);
	return status;
}

/* Tensors of the file that the network does not have. */
static int left_over(const struct store *store, const struct checkpoint *checkpoint, const char *ignore)
{
	for (int f = 0; f < checkpoint->model_files; f++)
		for (size_t i = 0; i < checkpoint->model[f].count; i++) {
			const char *name = checkpoint->model[f].tensor[i].name;

			if (store_find(store, name) < 0 && !text_match(ignore, name))
				return error_set(STATUS_DATA, "%s: tensor %s is not part of this network",
					checkpoint->path, name);
		}
	return 0;
}

int weights_check(const struct store *store, const struct checkpoint *checkpoint, const char *ignore)
{
	int status = left_over(store, checkpoint, ignore);

	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		const struct safetensor *tensor = checkpoint_model(checkpoint, parameter->name);

		if ((!tensor || !same_shape(tensor, parameter)) && !text_match(ignore, parameter->name))
			status = error_set(STATUS_DATA, "%s: tensor %s %s", checkpoint->path, parameter->name,
				tensor ? "has another shape than in this network" : "is missing");
	}
	return status;
}

int weights_load(struct store *store, const struct checkpoint *checkpoint, const char *ignore)
{
	int status = weights_check(store, checkpoint, ignore);

	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		const struct safetensor *tensor = checkpoint_model(checkpoint, parameter->name);

		if (tensor && same_shape(tensor, parameter))
			status = import(store, i, SLOT_VALUE, tensor);
	}
	return status;
}

static int load_state(struct store *store, size_t i, size_t m, const struct checkpoint *checkpoint)
{
	const struct parameter *parameter = store_parameter(store, i);
	char *name = joined(parameter->name, moments[m].suffix);
	const struct safetensor *tensor = name ? checkpoint_optimizer(checkpoint, name) : NULL;
	int status = STATUS_FAILURE;

	if (name && (!tensor || !same_shape(tensor, parameter)))
		status = error_set(STATUS_DATA, "%s: optimizer state %s is missing or of another shape",
			checkpoint->path, name);
	else if (name)
		status = import(store, i, moments[m].slot, tensor);
	free(name);
	return status;
}

int weights_load_optimizer(struct store *store, const struct checkpoint *checkpoint)
{
	int status = 0;

	for (size_t m = 0; m < MOMENTS; m++)
		for (size_t i = 0; i < store_count(store) && !status; i++)
			if (store_keeps(store, i, moments[m].slot))
				status = load_state(store, i, m, checkpoint);
	return status;
}

int weights_broadcast(struct store *store, struct comm *comm)
{
	int status = 0;

	for (size_t i = 0; i < store_count(store) && !status && comm->size > 1; i++) {
		size_t count = store_parameter(store, i)->count;
		float *values = memory_new(count, sizeof(float));

		status = values ? store_export(store, i, SLOT_VALUE, values) : STATUS_FAILURE;
		status = comm_agree(comm, status, NULL, 0, NULL);
		if (!status)
			status = comm->broadcast(comm, 0, values, count * sizeof(float));
		if (!status)
			status = store_import(store, i, SLOT_VALUE, values);
		free(values);
	}
	return status;
}
