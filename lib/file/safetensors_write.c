/* safetensors: the writer. Its bytes are those of the reference library for the same tensors and metadata. */
#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

/* The writer's order: by type as the enumeration stands, then by the bytes of the name. */
static int compare_written(const void *a, const void *b)
{
	const struct safetensor *x = *(const struct safetensor *const *)a,
				*y = *(const struct safetensor *const *)b;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_named(const void *a, const void *b)
{
	return strcmp(
		(*(const struct safetensor *const *)a)->name, (*(const struct safetensor *const *)b)->name);
}

/* Pointers to the tensors, sorted; owned by the caller. */
static const struct safetensor **sort_tensors(
	const struct safetensor *tensor, size_t count, int (*compare)(const void *, const void *))
{
	const struct safetensor **sorted = memory_new(count, sizeof *sorted);
	if (!sorted)
		return NULL;
	for (size_t i = 0; i < count; i++)
		sorted[i] = &tensor[i];
	if (count)
		qsort(sorted, count, sizeof *sorted, compare);
	return sorted;
}

static int check_tensor(const struct safetensor *tensor)
{
	size_t bytes = safetensors_type_size(tensor->type);
	bool bad = tensor->dims < 0 || tensor->dims > 8;
	for (int i = 0; i < tensor->dims && !bad; i++)
		bad = tensor->dim[i] < 0 || size_multiply(bytes, (size_t)tensor->dim[i], &bytes);
	if (bad || bytes != tensor->bytes)
		return error_set(STATUS_FAILURE, "tensor %s: %zu bytes do not fit its shape", tensor->name,
			tensor->bytes);
	return STATUS_OK;
}

static int check_names(const struct safetensor *tensor, size_t count)
{
	const struct safetensor **sorted = sort_tensors(tensor, count, compare_named);
	if (!sorted)
		return error_status();
	int status = STATUS_OK;
	for (size_t i = 0; i < count && !status; i++) {
		if (i && !strcmp(sorted[i - 1]->name, sorted[i]->name))
			status = error_set(STATUS_FAILURE, "tensor %s: twice in one file", sorted[i]->name);
		else if (!strcmp(sorted[i]->name, "__metadata__"))
			status = error_set(STATUS_FAILURE, "__metadata__ is not a name for a tensor");
	}
	free(sorted);
	return status;
}

/* A JSON string with the escapes that the reference's serializer chooses. */
static void add_string(struct text *out, const char *string)
{
	static const char plain[] = "btn\vfr"; /* control characters 8 to 13; 11 has no short form */
	text_add(out, "\"");
	for (const char *c = string; *c; c++) {
		if (*c == '"' || *c == '\\')
			text_format(out, "\\%c", *c);
		else if (*c >= 8 && *c <= 13 && *c != 11)
			text_format(out, "\\%c", plain[*c - 8]);
		else if ((unsigned char)*c < 32)
			text_format(out, "\\u%04x", *c);
		else
			text_append(out, c, 1);
	}
	text_add(out, "\"");
}

static void add_entry(struct text *out, const struct safetensor *tensor, uint64_t begin)
{
	text_add(out, ",");
	add_string(out, tensor->name);
	text_format(out, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_type_name(tensor->type));
	for (int i = 0; i < tensor->dims; i++)
		text_format(out, "%s%lld", i ? "," : "", (long long)tensor->dim[i]);
	text_format(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
		(unsigned long long)(begin + tensor->bytes));
}

static int make_header(const struct safetensor **sorted, size_t count, char **header, size_t *bytes)
{
	static const char zero[8];
	struct text out = {0};
	uint64_t place = 0;
	text_append(&out, zero, sizeof zero);
	text_add(&out, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (size_t i = 0; i < count; i++) {
		add_entry(&out, sorted[i], place);
		place += sorted[i]->bytes;
	}
	text_add(&out, "}");
	while (!out.failed && out.length % 8)
		text_add(&out, " ");
	if (text_check(&out)) {
		text_release(&out);
		return error_status();
	}
	uint64_t length = out.length - sizeof length;
	memcpy(out.data, &length, sizeof length);
	*bytes = out.length;
	*header = text_take(&out);
	return *header ? STATUS_OK : error_status();
}

/* Checks and sorts the tensors (array owned by the caller) and makes the header. */
static int prepare(const struct safetensor *tensor, size_t count, const struct safetensor ***sorted,
	char **header, size_t *bytes)
{
	int status = check_names(tensor, count);
	for (size_t i = 0; i < count && !status; i++)
		status = check_tensor(&tensor[i]);
	if (status)
		return status;
	*sorted = sort_tensors(tensor, count, compare_written);
	return *sorted ? make_header(*sorted, count, header, bytes) : error_status();
}

int safetensors_header(const struct safetensor *tensor, size_t count, char **header, size_t *bytes)
{
	const struct safetensor **sorted = NULL;
	int status = prepare(tensor, count, &sorted, header, bytes);
	free(sorted);
	return status;
}

static int write_file(struct publish *publish, const char *path, const struct safetensor **sorted,
	size_t count, const char *header, size_t header_bytes)
{
	int status = publish_open(publish, path);
	if (!status)
		status = publish_write(publish, header, header_bytes);
	for (size_t i = 0; i < count && !status; i++)
		if (sorted[i]->bytes)
			status = publish_write(publish, sorted[i]->data, sorted[i]->bytes);
	return status ? status : publish_commit(publish);
}

int safetensors_publish(
	const char *path, const struct safetensor *tensor, size_t count, uint32_t *crc, uint64_t *bytes)
{
	const struct safetensor **sorted = NULL;
	struct publish publish = {0};
	char *header = NULL;
	size_t header_bytes = 0;
	int status = prepare(tensor, count, &sorted, &header, &header_bytes);
	if (status)
		error_prefix("%s", path);
	else
		status = write_file(&publish, path, sorted, count, header, header_bytes);
	if (!status && crc)
		*crc = publish.crc;
	if (!status && bytes)
		*bytes = publish.bytes;
	publish_abandon(&publish);
	free(header);
	free(sorted);
	return status;
}
