/* safetensors: the reader. */
#include "file/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/element.h"

#define FILE_LIMIT ((size_t)1 << 40)
enum { HEADER_LIMIT = 100000000, DIMS = 8 };

static const struct type_row {
	const char *name;
	int size;
	char kind; /* of element_to_float(); 0: not read as floats */
} types[] = {
	[SAFETENSORS_U64] = {"U64", 8, 0},
	[SAFETENSORS_I64] = {"I64", 8, 0},
	[SAFETENSORS_F64] = {"F64", 8, 'f'},
	[SAFETENSORS_F32] = {"F32", 4, 'f'},
	[SAFETENSORS_U32] = {"U32", 4, 0},
	[SAFETENSORS_I32] = {"I32", 4, 0},
	[SAFETENSORS_BF16] = {"BF16", 2, 'B'},
	[SAFETENSORS_F16] = {"F16", 2, 'f'},
	[SAFETENSORS_U16] = {"U16", 2, 0},
	[SAFETENSORS_I16] = {"I16", 2, 0},
	[SAFETENSORS_I8] = {"I8", 1, 0},
	[SAFETENSORS_U8] = {"U8", 1, 0},
	[SAFETENSORS_BOOL] = {"BOOL", 1, 0},
};

size_t safetensors_type_size(enum safetensors_type type)
{
	return (size_t)types[type].size;
}

const char *safetensors_type_name(enum safetensors_type type)
{
	return types[type].name;
}

void safetensors_release(struct safetensors *file)
{
	for (size_t i = 0; i < file->count; i++)
		free(file->tensor[i].name);
	free(file->tensor);
	free(file->buffer);
	*file = (struct safetensors){0};
}

/* What one entry of the header says, checked by itself. `begin` and `end` count from the start of the data. */
struct entry {
	struct safetensor tensor;
	size_t begin, end;
};

static int parse_type(const json_t *value, enum safetensors_type *type)
{
	const char *name = json_string_value(value);
	if (!name)
		return error_set(STATUS_DATA, "dtype is not a string");
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, name)) {
			*type = (enum safetensors_type)i;
			return STATUS_OK;
		}
	return error_set(STATUS_DATA, "elements of type %.32s are not supported", name);
}

static int parse_shape(const json_t *value, struct safetensor *tensor)
{
	if (!json_is_array(value))
		return error_set(STATUS_DATA, "shape is not an array");
	if (json_array_size(value) > DIMS)
		return error_set(STATUS_DATA, "%zu dimensions, at most %d are supported",
			json_array_size(value), DIMS);
	tensor->dims = (int)json_array_size(value);
	size_t count = 1;
	for (int i = 0; i < tensor->dims; i++) {
		const json_t *dim = json_array_get(value, (size_t)i);
		if (!json_is_integer(dim) || json_integer_value(dim) < 0)
			return error_set(STATUS_DATA, "shape holds something that is not a size");
		tensor->dim[i] = json_integer_value(dim);
		if (size_multiply(count, (size_t)tensor->dim[i], &count))
			return error_set(STATUS_DATA, "shape is too large");
	}
	if (size_multiply(count, safetensors_type_size(tensor->type), &tensor->bytes))
		return error_set(STATUS_DATA, "shape is too large");
	return STATUS_OK;
}

static int parse_offsets(const json_t *value, size_t data_bytes, struct entry *entry)
{
	const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
	if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
		json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
		return error_set(STATUS_DATA, "data_offsets are not two rising positions");
	entry->begin = (size_t)json_integer_value(begin);
	entry->end = (size_t)json_integer_value(end);
	if (entry->end > data_bytes)
		return error_set(STATUS_DATA, "its data end at byte %zu of %zu; the file is cut", entry->end,
			data_bytes);
	if (entry->end - entry->begin != entry->tensor.bytes)
		return error_set(STATUS_DATA, "has %zu bytes where its shape needs %zu",
			entry->end - entry->begin, entry->tensor.bytes);
	return STATUS_OK;
}

static int parse_entry(const char *name, const json_t *value, size_t data_bytes, struct entry *entry)
{
	const json_t *type = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape");
	const json_t *offsets = json_object_get(value, "data_offsets");
	int status = STATUS_OK;
	if (!type || !shape || !offsets || json_object_size(value) != 3)
		status = error_set(STATUS_DATA, "its entry is not {dtype, shape, data_offsets}");
	if (!status)
		status = parse_type(type, &entry->tensor.type);
	if (!status)
		status = parse_shape(shape, &entry->tensor);
	if (!status)
		status = parse_offsets(offsets, data_bytes, entry);
	return status ? error_prefix("tensor %.200s", name) : STATUS_OK;
}

static int check_metadata(const json_t *metadata)
{
	const char *key;
	json_t *value;
	if (!json_is_object(metadata))
		return error_set(STATUS_DATA, "__metadata__ is not an object");
	json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return error_set(
		STATUS_DATA, "__metadata__ holds something that is not a string");
	return STATUS_OK;
}

static int compare_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_name(const void *a, const void *b)
{
	return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

/* The ranges must tile the data exactly: no hole, no overlap, nothing behind. */
static int check_tiling(struct entry *entries, size_t count, size_t data_bytes)
{
	size_t place = 0;
	if (count)
		qsort(entries, count, sizeof *entries, compare_place);
	for (size_t i = 0; i < count; i++) {
		if (entries[i].begin != place)
			return error_set(STATUS_DATA, "tensor %.200s: data begin at byte %zu, expected %zu",
				entries[i].tensor.name, entries[i].begin, place);
		place = entries[i].end;
	}
	if (place != data_bytes)
		return error_set(
			STATUS_DATA, "%zu bytes of data, the header describes %zu", data_bytes, place);
	return STATUS_OK;
}

/* Fills `entries` (room for all keys of the header) and *count. */
static int parse_entries(const json_t *root, size_t data_bytes, struct entry *entries, size_t *count)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)root, name, value)
	{
		if (!strcmp(name, "__metadata__")) {
			if (check_metadata(value))
				return error_status();
			continue;
		}
		struct entry *entry = &entries[*count];
		if (parse_entry(name, value, data_bytes, entry))
			return error_status();
		entry->tensor.name = memory_text(name);
		if (!entry->tensor.name)
			return error_status();
		++*count;
	}
	return check_tiling(entries, *count, data_bytes);
}

/* The header's object; nothing but spaces may follow it. */
static int parse_header(const char *header, size_t bytes, json_t **root)
{
	json_error_t error;
	if (!bytes || header[0] != '{')
		return error_set(STATUS_DATA, "header does not begin with {");
	*root = json_loadb(header, bytes, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
	if (!*root)
		return error_set(STATUS_DATA, "header: %s (at byte %d)", error.text, error.position);
	for (size_t i = (size_t)error.position; i < bytes; i++)
		if (header[i] != ' ')
			return error_set(
				STATUS_DATA, "header: something stands behind its end (at byte %zu)", i);
	return STATUS_OK;
}

static int find_header(const unsigned char *data, size_t bytes, size_t *header_bytes)
{
	if (bytes < 8)
		return error_set(STATUS_DATA, "%zu bytes are too short for a safetensors file", bytes);
	uint64_t length;
	memcpy(&length, data, sizeof length);
	if (length > HEADER_LIMIT)
		return error_set(STATUS_DATA, "header of %llu bytes; not a safetensors file, or damaged",
			(unsigned long long)length);
	if (length > bytes - 8)
		return error_set(STATUS_DATA, "ends within its header (%zu bytes, header of %llu)", bytes,
			(unsigned long long)length);
	*header_bytes = (size_t)length;
	return STATUS_OK;
}

/* Moves the parsed entries into the file; the data go to the front of the buffer when they are not aligned there. */
static int adopt_entries(struct safetensors *file, struct entry *entries, size_t count, size_t start)
{
	unsigned char *data = (unsigned char *)file->buffer + start;
	file->tensor = memory_new(count, sizeof *file->tensor);
	if (!file->tensor)
		return error_status();
	if (start % 8) {
		memmove(file->buffer, data, file->buffer_bytes - start);
		data = file->buffer;
	}
	for (size_t i = 0; i < count; i++) {
		file->tensor[i] = entries[i].tensor;
		file->tensor[i].data = data + entries[i].begin;
		entries[i].tensor.name = NULL;
	}
	file->count = count;
	if (count)
		qsort(file->tensor, count, sizeof *file->tensor, compare_name);
	return STATUS_OK;
}

int safetensors_take(const char *name, void *buffer, size_t bytes, struct safetensors *file)
{
	json_t *root = NULL;
	struct entry *entries = NULL;
	size_t header_bytes = 0, count = 0;
	*file = (struct safetensors){.buffer = buffer, .buffer_bytes = bytes};
	int status = find_header(buffer, bytes, &header_bytes);
	if (!status)
		status = parse_header((const char *)buffer + 8, header_bytes, &root);
	if (!status) {
		entries = memory_new(json_object_size(root), sizeof *entries);
		status = entries ? parse_entries(root, bytes - 8 - header_bytes, entries, &count)
				 : error_status();
	}
	if (!status)
		status = adopt_entries(file, entries, count, 8 + header_bytes);
	for (size_t i = 0; entries && i < count; i++)
		free(entries[i].tensor.name);
	free(entries);
	json_decref(root);
	if (status) {
		safetensors_release(file);
		return error_prefix("%s", name);
	}
	return STATUS_OK;
}

int safetensors_read(const char *path, struct safetensors *file)
{
	char *data;
	size_t bytes;
	*file = (struct safetensors){0};
	if (file_read_regular(path, FILE_LIMIT, &data, &bytes))
		return error_status();
	return safetensors_take(path, data, bytes, file);
}

int safetensors_decode(const char *name, const void *data, size_t bytes, struct safetensors *file)
{
	*file = (struct safetensors){0};
	void *copy = memory_copy(data, bytes);
	return copy ? safetensors_take(name, copy, bytes, file) : error_prefix("%s", name);
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
	struct safetensor key = {.name = (char *)name};
	if (!file->count)
		return NULL;
	return bsearch(&key, file->tensor, file->count, sizeof key, compare_name);
}

bool safetensors_strip(struct safetensors *file, const char *prefix)
{
	size_t length = strlen(prefix);
	bool all = file->count > 0;
	for (size_t i = 0; i < file->count && all; i++)
		all = !strncmp(file->tensor[i].name, prefix, length) && file->tensor[i].name[length];
	for (size_t i = 0; i < file->count && all; i++) /* the order stays */
		memmove(file->tensor[i].name, file->tensor[i].name + length,
			strlen(file->tensor[i].name + length) + 1);
	return all;
}

int safetensors_to_float(const struct safetensor *tensor, float *out)
{
	const struct type_row *row = &types[tensor->type];
	if (!row->kind)
		return error_set(STATUS_DATA, "tensor %s: elements of type %s, floats expected", tensor->name,
			row->name);
	element_to_float(row->kind, row->size, false, tensor->data, tensor->bytes / (size_t)row->size, out);
	return STATUS_OK;
}
