/* Protocol buffers on the wire. */
#include "file/protobuf.h"

#include <string.h>

#include "base/error.h"

static void add_varint(struct text *out, uint64_t value)
{
	char bytes[10];
	size_t count = 0;
	do {
		bytes[count++] = (char)((value & 127) | (value > 127 ? 128 : 0));
		value >>= 7;
	} while (value);
	text_append(out, bytes, count);
}

static void add_key(struct text *out, int field, enum protobuf_type type)
{
	add_varint(out, (uint64_t)field << 3 | type);
}

void protobuf_integer(struct text *out, int field, int64_t value)
{
	if (!value)
		return;
	add_key(out, field, PROTOBUF_VARINT);
	add_varint(out, (uint64_t)value);
}

void protobuf_double(struct text *out, int field, double value)
{
	if (value == 0)
		return;
	add_key(out, field, PROTOBUF_FIXED64);
	text_append(out, (const char *)&value, sizeof value);
}

void protobuf_float(struct text *out, int field, float value)
{
	add_key(out, field, PROTOBUF_FIXED32);
	text_append(out, (const char *)&value, sizeof value);
}

static void add_bytes(struct text *out, int field, const void *data, size_t bytes)
{
	add_key(out, field, PROTOBUF_BYTES);
	add_varint(out, bytes);
	if (bytes)
		text_append(out, data, bytes);
}

void protobuf_bytes(struct text *out, int field, const void *data, size_t bytes)
{
	if (bytes)
		add_bytes(out, field, data, bytes);
}

void protobuf_string(struct text *out, int field, const char *string)
{
	protobuf_bytes(out, field, string, strlen(string));
}

void protobuf_message(struct text *out, int field, struct text *message)
{
	add_bytes(out, field, message->data, message->length);
	out->failed |= message->failed;
	text_release(message);
}

static int take_varint(struct protobuf_reader *reader, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		if (reader->at == reader->end)
			return error_set(STATUS_DATA, "message ends within a number");
		unsigned char byte = *reader->at++;
		*value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return STATUS_OK;
	}
	return error_set(STATUS_DATA, "number of more than ten bytes in a message");
}

static int take_fixed(struct protobuf_reader *reader, size_t bytes, uint64_t *value)
{
	if ((size_t)(reader->end - reader->at) < bytes)
		return error_set(STATUS_DATA, "message ends within a number");
	*value = 0;
	memcpy(value, reader->at, bytes); /* little-endian, as the host is */
	reader->at += bytes;
	return STATUS_OK;
}

static int take_bytes(struct protobuf_reader *reader, struct protobuf_reader *in)
{
	uint64_t length;
	if (take_varint(reader, &length))
		return error_status();
	if (length > (uint64_t)(reader->end - reader->at))
		return error_set(STATUS_DATA, "field runs past the end of its message");
	*in = (struct protobuf_reader){reader->at, reader->at + length};
	reader->at += length;
	return STATUS_OK;
}

int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field, bool *found)
{
	uint64_t key;
	*field = (struct protobuf_field){0};
	*found = reader->at < reader->end;
	if (!*found)
		return STATUS_OK;
	if (take_varint(reader, &key))
		return error_status();
	field->number = key >> 3;
	switch (key & 7) {
	case PROTOBUF_VARINT:
		field->type = PROTOBUF_VARINT;
		return take_varint(reader, &field->value);
	case PROTOBUF_FIXED64:
		field->type = PROTOBUF_FIXED64;
		return take_fixed(reader, 8, &field->value);
	case PROTOBUF_BYTES:
		field->type = PROTOBUF_BYTES;
		return take_bytes(reader, &field->in);
	case PROTOBUF_FIXED32:
		field->type = PROTOBUF_FIXED32;
		return take_fixed(reader, 4, &field->value);
	default:
		return error_set(STATUS_DATA, "field of unknown wire type %d", (int)(key & 7));
	}
}
