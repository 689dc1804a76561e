/* The store: one block of memory for each slot, parameters at aligned offsets in order of registration. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "graph/hash_grid.h"
#include "graph/internal.h"

size_t align_up(size_t bytes)
{
	return (bytes + GRAPH_ALIGNMENT - 1) / GRAPH_ALIGNMENT * GRAPH_ALIGNMENT;
}

struct store *store_new(struct device *device)
{
	struct store *store = memory_new(1, sizeof(*store));

	if (store)
		store->device = device;
	return store;
}

void store_free(struct store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->count; i++)
		free(store->entries[i].parameter.name);
	for (int slot = 0; slot < STORE_SLOTS; slot++) {
		if (store->block[slot])
			store->device->backend->release(store->device, store->block[slot]);
	}
	for (size_t i = 0; i < store->count; i++) {
		if (store->entries[i].done)
			store->device->backend->release(store->device, store->entries[i].done);
	}
	free(store->entries);
	free(store);
}

/* ---- registration ---- */

size_t store_count(const struct store *store)
{
	return store->count;
}

const struct parameter *store_parameter(const struct store *store, size_t i)
{
	return &store->entries[i].parameter;
}

int store_find(const struct store *store, const char *name)
{
	for (size_t i = 0; i < store->count; i++) {
		if (!strcmp(store->entries[i].parameter.name, name))
			return (int)i;
	}
	return -1;
}

size_t store_freeze(struct store *store, const char *pattern)
{
	size_t frozen = 0;

	for (size_t i = 0; i < store->count; i++) {
		struct parameter *parameter = &store->entries[i].parameter;

		if (text_match(pattern, parameter->name)) {
			parameter->frozen = true;
			frozen++;
		}
	}
	return frozen;
}

void store_set_statistic(struct store *store, int i, double momentum)
{
	store->entries[i].parameter.statistic = true;
	store->entries[i].parameter.momentum = momentum;
}

void store_set_initial(struct store *store, int i, enum store_initial initial, double scale)
{
	store->entries[i].parameter.initial = initial;
	store->entries[i].parameter.scale = scale;
}

void store_set_row(struct store *store, int i, size_t width)
{
	store->entries[i].parameter.row = width;
}

void store_set_updates(struct store *store, size_t i, int64_t updates)
{
	store->entries[i].parameter.updates = updates;
}

static int shape_mismatch(const struct parameter *had, int dims, const int64_t *dim)
{
	struct text text = {0};

	for (int i = 0; i < had->dims; i++)
		text_format(&text, "%s%lld", i ? "x" : "", (long long)had->dim[i]);
	text_add(&text, " and ");
	for (int i = 0; i < dims; i++)
		text_format(&text, "%s%lld", i ? "x" : "", (long long)dim[i]);
	error_set(STATUS_CONFIG, "parameter %s is used with two shapes, %s", had->name,
		text.data ? text.data : "");
	text_release(&text);
	return -1;
}

int store_add(struct store *store, const char *name, int dims, const int64_t *dim, enum store_layout layout,
	enum store_initial initial, double scale)
{
	int found = store_find(store, name);
	struct parameter *parameter;

	if (found >= 0) {
		parameter = &store->entries[found].parameter;
		if (parameter->dims != dims ||
			memcmp(parameter->dim, dim, (size_t)dims * sizeof(*dim)) != 0 ||
			parameter->layout != layout)
			return shape_mismatch(parameter, dims, dim);
		return found;
	}
	if (store->sealed) {
		error_set(STATUS_FAILURE, "parameter %s is new, after memory was allocated", name);
		return -1;
	}
	if (memory_grow(&store->entries, &store->capacity, store->count + 1, sizeof(*store->entries)))
		return -1;
	parameter = &store->entries[store->count].parameter;
	*parameter = (struct parameter){
		.dims = dims, .count = 1, .layout = layout, .initial = initial, .scale = scale};
	for (int i = 0; i < dims; i++) {
		parameter->dim[i] = dim[i];
		if (dim[i] <= 0 || size_multiply(parameter->count, (size_t)dim[i], &parameter->count)) {
			error_set(STATUS_CONFIG, "parameter %s has an impossible size", name);
			return -1;
		}
	}
	parameter->name = memory_text(name);
	if (!parameter->name)
		return -1;
	return (int)store->count++;
}

/* ---- memory ---- */

void store_arrange(struct store *store)
{
	store->bytes = 0;
	store->trained_bytes = 0;
	for (size_t i = 0; i < store->count; i++) {
		struct entry *entry = &store->entries[i];
		size_t bytes = align_up(entry->parameter.count * sizeof(float));

		entry->offset = store->bytes;
		store->bytes += bytes;
		entry->trained_offset = store->trained_bytes;
		if (!entry->parameter.frozen)
			store->trained_bytes += bytes;
	}
}

static int block_allocate(struct store *store, enum store_slot slot, size_t bytes)
{
	if (store->block[slot] || bytes == 0)
		return STATUS_OK;
	store->block[slot] = store->device->backend->allocate(store->device, bytes);
	return store->block[slot] ? STATUS_OK : error_status();
}

int store_allocate(struct store *store, bool gradients, int moments, bool average)
{
	int status = block_allocate(store, SLOT_VALUE, store->bytes);

	if (!status && gradients)
		status = block_allocate(store, SLOT_GRADIENT, store->trained_bytes);
	if (!status && moments > 0)
		status = block_allocate(store, SLOT_MOMENT1, store->trained_bytes);
	if (!status && moments > 1)
		status = block_allocate(store, SLOT_MOMENT2, store->trained_bytes);
	if (!status && average)
		status = block_allocate(store, SLOT_AVERAGE, store->trained_bytes);
	if (!status)
		store->sealed = true;
	return status;
}

bool store_has(const struct store *store, enum store_slot slot)
{
	return store->block[slot] != NULL;
}

bool store_keeps(const struct store *store, size_t i, enum store_slot slot)
{
	const struct parameter *parameter = &store->entries[i].parameter;

	if (!store_has(store, slot))
		return false;
	return slot == SLOT_VALUE || (!parameter->frozen && (slot == SLOT_GRADIENT || !parameter->statistic));
}

float *store_data(const struct store *store, size_t i, enum store_slot slot)
{
	const struct entry *entry = &store->entries[i];

	if (!store_keeps(store, i, slot))
		return NULL;
	return (float *)(store->block[slot] + (slot == SLOT_VALUE ? entry->offset : entry->trained_offset));
}

#define SWAP_FLOATS 1024

static int swap(struct device *device, float *a, float *b, size_t count)
{
	float from_a[SWAP_FLOATS], from_b[SWAP_FLOATS];
	int status = STATUS_OK;

	for (size_t at = 0; at < count && !status; at += SWAP_FLOATS) {
		size_t bytes = (count - at < SWAP_FLOATS ? count - at : SWAP_FLOATS) * sizeof(float);

		status = device->backend->read(device, from_a, a + at, bytes);
		if (!status)
			status = device->backend->read(device, from_b, b + at, bytes);
		if (!status)
			status = device->backend->write(device, a + at, from_b, bytes);
		if (!status)
			status = device->backend->write(device, b + at, from_a, bytes);
	}
	return status;
}

int store_swap_averages(struct store *store)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < store->count && !status; i++) {
		if (store->entries[i].done)
			status = sparse_settle(store->program, i);
		if (!status && store_keeps(store, i, SLOT_AVERAGE))
			status = swap(store->device, store_data(store, i, SLOT_VALUE),
				store_data(store, i, SLOT_AVERAGE), store->entries[i].parameter.count);
	}
	return status;
}

/* ---- layouts ---- */

/* The file's [out][in][taps] seen as three sizes; false when memory has the file's order. */
static bool three_sizes(const struct parameter *parameter, size_t *out, size_t *in, size_t *taps)
{
	if (parameter->layout == LAYOUT_PLAIN)
		return false;
	*out = (size_t)parameter->dim[0];
	*in = (size_t)parameter->dim[1];
	*taps = parameter->count / (*out * *in);
	return true;
}

static void file_to_memory(const struct parameter *parameter, const float *file, float *memory)
{
	size_t out, in, taps;

	if (!three_sizes(parameter, &out, &in, &taps)) {
		memcpy(memory, file, parameter->count * sizeof(float));
		return;
	}
	for (size_t o = 0; o < out; o++) {
		for (size_t i = 0; i < in; i++) {
			for (size_t t = 0; t < taps; t++)
				memory[(t * in + i) * out + o] = file[(o * in + i) * taps + t];
		}
	}
}

static void memory_to_file(const struct parameter *parameter, const float *memory, float *file)
{
	size_t out, in, taps;

	if (!three_sizes(parameter, &out, &in, &taps)) {
		memcpy(file, memory, parameter->count * sizeof(float));
		return;
	}
	for (size_t o = 0; o < out; o++) {
		for (size_t i = 0; i < in; i++) {
			for (size_t t = 0; t < taps; t++)
				file[(o * in + i) * taps + t] = memory[(t * in + i) * out + o];
		}
	}
}

/* Rows that wait for updates get them. */
static int settle(const struct store *store, size_t i)
{
	return store->entries[i].done ? sparse_settle(store->program, i) : STATUS_OK;
}

static int slot_missing(const struct store *store, size_t i, enum store_slot slot)
{
	static const char *const names[] = {"value", "gradient", "first moment", "second moment", "average"};

	return error_set(
		STATUS_FAILURE, "parameter %s has no %s", store->entries[i].parameter.name, names[slot]);
}

int store_export(const struct store *store, size_t i, enum store_slot slot, float *out)
{
	const struct parameter *parameter = store_parameter(store, i);
	const float *data = store_data(store, i, slot);
	size_t bytes = parameter->count * sizeof(float);
	float *memory;
	int status;

	if (!data)
		return slot_missing(store, i, slot);
	if (settle(store, i))
		return error_status();
	if (parameter->layout == LAYOUT_PLAIN)
		return store->device->backend->read(store->device, out, data, bytes);
	memory = memory_new(parameter->count, sizeof(float));
	if (!memory)
		return error_status();
	status = store->device->backend->read(store->device, memory, data, bytes);
	if (!status)
		memory_to_file(parameter, memory, out);
	free(memory);
	return status;
}

/* `memory`: room for the parameter. */
static int import_by(struct store *store, size_t i, enum store_slot slot, const float *in, float *memory)
{
	const struct parameter *parameter = store_parameter(store, i);
	float *data = store_data(store, i, slot);

	if (!data)
		return slot_missing(store, i, slot);
	if (settle(store, i))
		return error_status();
	file_to_memory(parameter, in, memory);
	return store->device->backend->write(store->device, data, memory, parameter->count * sizeof(float));
}

int store_import(struct store *store, size_t i, enum store_slot slot, const float *in)
{
	float *memory = memory_new(store_parameter(store, i)->count, sizeof(float));
	int status = memory ? import_by(store, i, slot, in, memory) : error_status();

	free(memory);
	return status;
}

/* ---- initial values ---- */

#define NORMALS 65536 /* of one piece of work */

struct normals {
	struct random random;
	float *file;
	size_t count;
};

static int fill_normals(void *context, size_t piece)
{
	const struct normals *normals = context;
	size_t first = piece * NORMALS, left = normals->count - first;

	random_normal(normals->random, 0, 0, (uint32_t)first, normals->file + first,
		left < NORMALS ? left : NORMALS);
	return STATUS_OK;
}

/* An element does not depend on where the others are made. */
static int fill_normal(struct random random, float *file, size_t count)
{
	struct normals normals = {.random = random, .file = file, .count = count};
	size_t pieces = (count + NORMALS - 1) / NORMALS;

	return threads_run(pieces > 1 ? threads_available() : 1, pieces, fill_normals, &normals);
}

static int fill_initial(const struct parameter *parameter, uint64_t seed, float *file)
{
	struct random random = random_stream(seed, parameter->name);

	switch (parameter->initial) {
	case INITIAL_NORMAL:
		if (fill_normal(random, file, parameter->count))
			return error_status();
		break;
	case INITIAL_UNIFORM:
		for (size_t i = 0; i < parameter->count; i++)
			file[i] = (float)(2 * random_uniform(random, 0, 0, (uint32_t)i) - 1);
		break;
	case INITIAL_HASH_GRID:
		hash_grid_initialise(1337 + seed, file, parameter->count);
		return STATUS_OK;
	case INITIAL_ONE:
	case INITIAL_ZERO:
		for (size_t i = 0; i < parameter->count; i++)
			file[i] = parameter->initial == INITIAL_ONE;
		return STATUS_OK;
	}
	for (size_t i = 0; i < parameter->count; i++)
		file[i] = (float)(parameter->scale * (double)file[i]);
	return STATUS_OK;
}

int store_initialise(struct store *store, uint64_t seed)
{
	size_t largest = 0;
	float *file, *memory;
	int status;

	for (size_t i = 0; i < store->count; i++)
		if (store_parameter(store, i)->count > largest)
			largest = store_parameter(store, i)->count;
	file = memory_new(largest, sizeof(float));
	memory = memory_new(largest, sizeof(float));
	status = file && memory ? STATUS_OK : error_status();
	for (size_t i = 0; i < store->count && !status; i++) {
		status = fill_initial(store_parameter(store, i), seed, file);
		if (!status)
			status = import_by(store, i, SLOT_VALUE, file, memory);
	}
	free(file);
	free(memory);
	return status;
}
