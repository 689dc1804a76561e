#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/weights.h"

#define COUNTED ".running_mean"
#define COUNTER ".num_batches_tracked"

/* State of the optimizer, in the order of its tensors. */
static const struct {
	enum store_slot slot;
	const char *suffix;
} states[] = {{SLOT_MOMENT1, ".exp_avg"}, {SLOT_MOMENT2, ".exp_avg_sq"}, {SLOT_VALUE, ".trained"}};
#define STATES (sizeof(states) / sizeof(states[0]))

/* Where a tensor comes from. */
struct weights_source {
	size_t parameter;
	enum store_slot slot;
	bool updates; /* how many updates the parameter has had, not its values */
	void *memory; /* owned; NULL: another rank writes it */
};

static char *joined(const char *name, const char *suffix)
{
	struct text text = {0};

	text_format(&text, "%s%s", name, suffix);
	return text_take(&text);
}

/* NAME.num_batches_tracked of NAME.running_mean; NULL (no error) for other parameters. */
static char *counter_name(const struct parameter *parameter)
{
	size_t length = strlen(parameter->name);
	struct text text = {0};

	if (!parameter->statistic || !text_ends(parameter->name, COUNTED))
		return NULL;
	text_append(&text, parameter->name, length - strlen(COUNTED));
	text_add(&text, COUNTER);
	return text_take(&text);
}

static bool has_counter(const struct parameter *parameter)
{
	return parameter->statistic && text_ends(parameter->name, COUNTED);
}

/* Whether the optimizer's file has this state of a parameter. */
static bool has_state(const struct store *store, size_t i, size_t state)
{
	enum store_slot slot = states[state].slot;

	return store_keeps(store, i, slot == SLOT_VALUE ? SLOT_AVERAGE : slot);
}

static enum store_slot model_slot(const struct store *store, size_t i)
{
	return store_keeps(store, i, SLOT_AVERAGE) ? SLOT_AVERAGE : SLOT_VALUE;
}

/* ---- describing ---- */

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

static int describe_counter(struct safetensor *tensor, const struct parameter *parameter)
{
	memset(tensor, 0, sizeof(*tensor));
	tensor->name = counter_name(parameter);
	tensor->type = SAFETENSORS_I64;
	tensor->bytes = sizeof(int64_t);
	return tensor->name ? 0 : STATUS_FAILURE;
}

static int describe_model(struct weights *weights, const struct store *store)
{
	int status = 0;

	for (size_t i = 0; i < store_count(store) && !status; i++) {
		weights->source[weights->model_count] =
			(struct weights_source){.parameter = i, .slot = model_slot(store, i)};
		status = describe(&weights->model[weights->model_count++], store_parameter(store, i), "");
	}
	for (size_t i = 0; i < store_count(store) && !status; i++) {
		if (!has_counter(store_parameter(store, i)))
			continue;
		weights->source[weights->model_count] =
			(struct weights_source){.parameter = i, .updates = true};
		status = describe_counter(&weights->model[weights->model_count++], store_parameter(store, i));
	}
	return status;
}

static int describe_optimizer(struct weights *weights, const struct store *store)
{
	int status = 0;

	for (size_t s = 0; s < STATES; s++)
		for (size_t i = 0; i < store_count(store) && !status; i++) {
			if (!has_state(store, i, s))
				continue;
			weights->source[weights->model_count + weights->optimizer_count] =
				(struct weights_source){.parameter = i, .slot = states[s].slot};
			status = describe(&weights->optimizer[weights->optimizer_count++],
				store_parameter(store, i), states[s].suffix);
		}
	return status;
}

int weights_init(struct weights *weights, const struct store *store)
{
	size_t count = store_count(store);
	int status;

	memset(weights, 0, sizeof(*weights));
	weights->model = memory_new(count * 2, sizeof(*weights->model));
	weights->optimizer = memory_new(count * STATES, sizeof(*weights->optimizer));
	weights->source = memory_new(count * (2 + STATES), sizeof(*weights->source));
	if (!weights->model || !weights->optimizer || !weights->source)
		return STATUS_FAILURE;
	status = describe_model(weights, store);
	return status ? status : describe_optimizer(weights, store);
}

static int allocate(
	struct safetensor *tensor, const bool *wanted, size_t count, struct weights_source *source)
{
	for (size_t i = 0; i < count; i++) {
		if (!wanted[i])
			continue;
		tensor[i].data = source[i].memory = memory_new(tensor[i].bytes, 1);
		if (!source[i].memory)
			return STATUS_FAILURE;
	}
	return 0;
}

int weights_allocate(struct weights *weights, const bool *model, const bool *optimizer)
{
	int status = allocate(weights->model, model, weights->model_count, weights->source);

	return status ? status
		      : allocate(weights->optimizer, optimizer, weights->optimizer_count,
				weights->source + weights->model_count);
}

static int fill(const struct store *store, const struct weights_source *source)
{
	if (!source->memory)
		return 0;
	if (!source->updates)
		return store_export(store, source->parameter, source->slot, source->memory);
	memcpy(source->memory, &store_parameter(store, source->parameter)->updates, sizeof(int64_t));
	return 0;
}

int weights_fill(struct weights *weights, const struct store *store)
{
	int status = 0;

	for (size_t i = 0; i < weights->model_count + weights->optimizer_count && !status; i++)
		status = fill(store, &weights->source[i]);
	return status;
}

void weights_release(struct weights *weights)
{
	for (size_t i = 0; weights->source && i < weights->model_count + weights->optimizer_count; i++)
		free(weights->source[i].memory);
	for (size_t i = 0; i < weights->model_count; i++)
		free(weights->model[i].name);
	for (size_t i = 0; i < weights->optimizer_count; i++)
		free(weights->optimizer[i].name);
	free(weights->model);
	free(weights->optimizer);
	free(weights->source);
	memset(weights, 0, sizeof(*weights));
}

/* ---- loading ---- */

static int import(struct store *store, size_t i, enum store_slot slot, const struct safetensor *tensor)
{
	float *values = memory_new(store_parameter(store, i)->count, sizeof(float));
	int status = values ? safetensors_to_float(tensor, values) : STATUS_FAILURE;

	if (!status)
		status = store_import(store, i, slot, values);
	free(values);
	return status;
}

/* Files of earlier times do not have them. */
static int load_updates(struct store *store, size_t i, const struct checkpoint *checkpoint)
{
	char *name = counter_name(store_parameter(store, i));
	const struct safetensor *tensor = name ? checkpoint_model(checkpoint, name) : NULL;
	int64_t updates = 0;
	int status = name ? 0 : STATUS_FAILURE;

	if (tensor && (tensor->type != SAFETENSORS_I64 || tensor->bytes != sizeof(updates)))
		status = error_set(STATUS_DATA, "%s: tensor %s is no single int64", checkpoint->path, name);
	else if (tensor)
		memcpy(&updates, tensor->data, sizeof(updates));
	if (!status)
		store_set_updates(store, i, updates);
	free(name);
	return status;
}

int weights_load(struct store *store, const struct checkpoint *checkpoint, const char *ignore)
{
	int status = weights_check(store, checkpoint, ignore);

	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		const struct safetensor *tensor = checkpoint_model(checkpoint, parameter->name);

		if (text_match(ignore, parameter->name))
			continue;
		if (tensor)
			status = import(store, i, SLOT_VALUE, tensor);
		if (!status && has_counter(parameter))
			status = load_updates(store, i, checkpoint);
	}
	return status;
}

static int load_state(struct store *store, size_t i, size_t s, const struct checkpoint *checkpoint)
{
	const struct parameter *parameter = store_parameter(store, i);
	char *name = joined(parameter->name, states[s].suffix);
	const struct safetensor *tensor = name ? checkpoint_optimizer(checkpoint, name) : NULL;
	int status = STATUS_FAILURE;

	if (name && (!tensor || !weights_same_shape(tensor, parameter)))
		status = error_set(STATUS_DATA, "%s: optimizer state %s is missing or of another shape",
			checkpoint->path, name);
	else if (name)
		status = import(store, i, states[s].slot, tensor);
	free(name);
	return status;
}

/* What the model's file holds of a parameter is its average. */
static int take_averages(struct store *store, const struct checkpoint *checkpoint)
{
	int status = 0;

	for (size_t i = 0; i < store_count(store) && !status; i++)
		if (store_keeps(store, i, SLOT_AVERAGE))
			status = import(store, i, SLOT_AVERAGE,
				checkpoint_model(checkpoint, store_parameter(store, i)->name));
	return status;
}

int weights_load_optimizer(struct store *store, const struct checkpoint *checkpoint)
{
	int status = take_averages(store, checkpoint);

	for (size_t s = 0; s < STATES; s++)
		for (size_t i = 0; i < store_count(store) && !status; i++)
			if (has_state(store, i, s))
				status = load_state(store, i, s, checkpoint);
	return status;
}

static int broadcast_updates(struct store *store, size_t i, struct comm *comm)
{
	int64_t updates = store_parameter(store, i)->updates;
	int status = comm->broadcast(comm, 0, &updates, sizeof(updates));

	if (!status)
		store_set_updates(store, i, updates);
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
		if (!status && has_counter(store_parameter(store, i)))
			status = broadcast_updates(store, i, comm);
		free(values);
	}
	return status;
}
