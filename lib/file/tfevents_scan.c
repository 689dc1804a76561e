/* TensorBoard event files: the raw scan. */
#include "file/tfevents.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "file/protobuf.h"

#define FILE_LIMIT ((size_t)1 << 36)
enum { HEADER_BYTES = 12, TRAILER_BYTES = 4 };

struct scan {
	int (*event)(void *context, int64_t step, const char *tag, double value);
	void *context;
	struct text tag;
};

static bool sum_matches(const unsigned char *data, size_t bytes)
{
	uint32_t stored;
	memcpy(&stored, data + bytes, sizeof stored);
	return stored == tfevents_checksum(data, bytes);
}

static int scan_value(struct scan *scan, int64_t step, struct protobuf_reader message)
{
	double value = NAN;
	bool found = true;
	struct protobuf_field field;
	text_clear(&scan->tag);
	text_add(&scan->tag, "");
	while (!protobuf_next(&message, &field, &found) && found) {
		if (field.number == 1 && field.type == PROTOBUF_BYTES) {
			text_clear(&scan->tag);
			text_append(
				&scan->tag, (const char *)field.in.at, (size_t)(field.in.end - field.in.at));
		} else if (field.number == 2 && field.type == PROTOBUF_FIXED32) {
			float simple;
			uint32_t bits = (uint32_t)field.value;
			memcpy(&simple, &bits, sizeof simple);
			value = simple;
		}
	}
	if (found)
		return error_status();
	if (text_check(&scan->tag))
		return error_status();
	return scan->event(scan->context, step, scan->tag.data, value);
}

static int scan_summary(struct scan *scan, int64_t step, struct protobuf_reader message)
{
	bool found = true;
	struct protobuf_field field;
	int status = STATUS_OK;
	while (!status && !(status = protobuf_next(&message, &field, &found)) && found)
		if (field.number == 1 && field.type == PROTOBUF_BYTES)
			status = scan_value(scan, step, field.in);
	return status;
}

/* The step may stand behind the summary: it is looked for first. */
static int scan_event(struct scan *scan, struct protobuf_reader message)
{
	struct protobuf_reader again = message;
	struct protobuf_field field;
	int64_t step = 0;
	bool found = true;
	int status = STATUS_OK;
	while (!(status = protobuf_next(&message, &field, &found)) && found)
		if (field.number == 2 && field.type == PROTOBUF_VARINT)
			step = (int64_t)field.value;
	while (!status && !(status = protobuf_next(&again, &field, &found)) && found)
		if (field.number == 5 && field.type == PROTOBUF_BYTES)
			status = scan_summary(scan, step, field.in);
	return status;
}

static int scan_records(struct scan *scan, const unsigned char *data, size_t bytes, size_t *place, int *torn)
{
	while (*place < bytes) {
		const unsigned char *record = data + *place;
		size_t left = bytes - *place;
		uint64_t length;
		*torn = 1;
		if (left < HEADER_BYTES)
			return STATUS_OK;
		memcpy(&length, record, sizeof length);
		if (!sum_matches(record, sizeof length))
			return error_set(STATUS_DATA, "wrong checksum of a record's length");
		if (left - HEADER_BYTES < TRAILER_BYTES || left - HEADER_BYTES - TRAILER_BYTES < length)
			return STATUS_OK;
		*torn = 0;
		const unsigned char *payload = record + HEADER_BYTES;
		if (!sum_matches(payload, (size_t)length))
			return error_set(STATUS_DATA, "wrong checksum of a record");
		int status = scan_event(scan, (struct protobuf_reader){payload, payload + length});
		if (status)
			return status;
		*place += HEADER_BYTES + (size_t)length + TRAILER_BYTES;
	}
	return STATUS_OK;
}

int tfevents_scan_bytes(const char *name, const void *data, size_t bytes,
	int (*event)(void *context, int64_t step, const char *tag, double value), void *context, int *torn)
{
	struct scan scan = {.event = event, .context = context};
	size_t place = 0;
	*torn = 0;
	int status = scan_records(&scan, data, bytes, &place, torn);
	text_release(&scan.tag);
	return status ? error_prefix("%s: record at byte %zu", name, place) : STATUS_OK;
}

int tfevents_scan(const char *path, int (*event)(void *context, int64_t step, const char *tag, double value),
	void *context, int *torn)
{
	char *data;
	size_t bytes;
	*torn = 0;
	if (file_read_regular(path, FILE_LIMIT, &data, &bytes))
		return error_status();
	int status = tfevents_scan_bytes(path, data, bytes, event, context, torn);
	free(data);
	return status;
}
