/*
 * Protocol buffers on the wire (spec/formats.md section 0.1): appending fields, and walking over those of a message.
 * Scalars that are zero and empty strings are left out, as proto3 does.
 */
#ifndef NIGHTSHIFT_FILE_PROTOBUF_H
#define NIGHTSHIFT_FILE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

void protobuf_integer(struct text *out, int field, int64_t value);
void protobuf_double(struct text *out, int field, double value);
void protobuf_float(struct text *out, int field, float value); /* always written */
void protobuf_bytes(struct text *out, int field, const void *data, size_t bytes);
void protobuf_string(struct text *out, int field, const char *string);
/* Appends `message` as a field (even when empty) and releases it. */
void protobuf_message(struct text *out, int field, struct text *message);

enum protobuf_type { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_reader {
	const unsigned char *at, *end;
};
struct protobuf_field {
	uint64_t number;
	enum protobuf_type type;
	uint64_t value;            /* varint and fixed: the bits */
	struct protobuf_reader in; /* bytes */
};
/* The next field; false at the end of the message. A message that is not well-formed is STATUS_DATA (without a place). */
int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field, bool *found);

#endif
