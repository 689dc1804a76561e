/* TensorBoard event files: the writer. */
#include "file/tfevents.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/protobuf.h"

enum { FLUSH_BYTES = 256 * 1024, NAME_TRIES = 1000 };
#define SECONDS_LIMIT 9999999999ll /* ten digits: names must sort as the numbers do */

/* Field numbers of the messages. */
enum {
	EVENT_WALL_TIME = 1,
	EVENT_STEP = 2,
	EVENT_FILE_VERSION = 3,
	EVENT_SUMMARY = 5,
	EVENT_SESSION_LOG = 7
};
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum {
	SUMMARY_VALUE = 1,
	VALUE_TAG = 1,
	VALUE_SIMPLE = 2,
	VALUE_IMAGE = 4,
	VALUE_TENSOR = 8,
	VALUE_METADATA = 9
};
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLOURS = 3, IMAGE_ENCODED = 4 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, TYPE_STRING = 7 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };

struct tfevents {
	char *path;
	int descriptor;
	uint64_t written;
	struct text pending; /* whole records that are not in the file yet */
};

uint32_t tfevents_checksum(const void *data, size_t bytes)
{
	uint32_t crc = crc32c(0, data, bytes);
	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

int tfevents_flush(struct tfevents *events)
{
	if (file_write_all(events->descriptor, events->pending.data, events->pending.length, events->path))
		return error_status();
	events->written += events->pending.length;
	text_clear(&events->pending);
	return STATUS_OK;
}

/* Adds one record; the payload is released. */
static int add_record(struct tfevents *events, struct text *payload)
{
	uint64_t length = payload->length;
	if (text_check(payload)) {
		text_release(payload);
		return error_prefix("%s", events->path);
	}
	uint32_t length_sum = tfevents_checksum(&length, sizeof length);
	uint32_t payload_sum = tfevents_checksum(payload->data, payload->length);
	text_append(&events->pending, (const char *)&length, sizeof length);
	text_append(&events->pending, (const char *)&length_sum, sizeof length_sum);
	text_append(&events->pending, payload->data, payload->length);
	text_append(&events->pending, (const char *)&payload_sum, sizeof payload_sum);
	text_release(payload);
	if (text_check(&events->pending))
		return error_prefix("%s", events->path);
	return events->pending.length >= FLUSH_BYTES ? tfevents_flush(events) : STATUS_OK;
}

static int add_version(struct tfevents *events)
{
	struct text event = {0};
	protobuf_double(&event, EVENT_WALL_TIME, clock_wall());
	protobuf_string(&event, EVENT_FILE_VERSION, "brain.Event:2");
	return add_record(events, &event);
}

static int add_start(struct tfevents *events, int64_t step)
{
	struct text event = {0}, session = {0};
	protobuf_double(&event, EVENT_WALL_TIME, clock_wall());
	protobuf_integer(&event, EVENT_STEP, step);
	protobuf_integer(&session, SESSION_STATUS, SESSION_START);
	protobuf_message(&event, EVENT_SESSION_LOG, &session);
	return add_record(events, &event);
}

/* An event with a summary of one value, which is released. */
static int add_value(struct tfevents *events, int64_t step, struct text *value)
{
	struct text event = {0}, summary = {0};
	protobuf_double(&event, EVENT_WALL_TIME, clock_wall());
	protobuf_integer(&event, EVENT_STEP, step);
	protobuf_message(&summary, SUMMARY_VALUE, value);
	protobuf_message(&event, EVENT_SUMMARY, &summary);
	return add_record(events, &event);
}

int tfevents_scalar(struct tfevents *events, int64_t step, const char *tag, double value)
{
	struct text message = {0};
	protobuf_string(&message, VALUE_TAG, tag);
	protobuf_float(&message, VALUE_SIMPLE, (float)value);
	return add_value(events, step, &message);
}

int tfevents_image(struct tfevents *events, int64_t step, const char *tag, int width, int height,
	const void *png, size_t bytes)
{
	enum { COLOUR_TYPE_AT = 25, COLOUR_TYPE_GREY = 0, GREY = 1, RGB = 3 };
	struct text message = {0}, image = {0};
	bool grey =
		bytes > COLOUR_TYPE_AT && ((const unsigned char *)png)[COLOUR_TYPE_AT] == COLOUR_TYPE_GREY;
	protobuf_integer(&image, IMAGE_HEIGHT, height);
	protobuf_integer(&image, IMAGE_WIDTH, width);
	protobuf_integer(&image, IMAGE_COLOURS, grey ? GREY : RGB);
	protobuf_bytes(&image, IMAGE_ENCODED, png, bytes);
	protobuf_string(&message, VALUE_TAG, tag);
	protobuf_message(&message, VALUE_IMAGE, &image);
	return add_value(events, step, &message);
}

int tfevents_text(struct tfevents *events, int64_t step, const char *tag, const char *markdown)
{
	struct text message = {0}, tensor = {0}, scalar_shape = {0}, plugin = {0}, metadata = {0};
	protobuf_integer(&tensor, TENSOR_TYPE, TYPE_STRING);
	protobuf_message(&tensor, TENSOR_SHAPE, &scalar_shape);
	protobuf_string(&tensor, TENSOR_STRING, markdown);
	protobuf_string(&plugin, PLUGIN_NAME, "text");
	protobuf_message(&metadata, METADATA_PLUGIN, &plugin);
	protobuf_string(&message, VALUE_TAG, tag);
	protobuf_message(&message, VALUE_TENSOR, &tensor);
	protobuf_message(&message, VALUE_METADATA, &metadata);
	return add_value(events, step, &message);
}

/* The seconds in the name of an event file; -1 when the name is not such a one. */
static int64_t seconds_of_name(const char *name)
{
	char digits[16] = "";
	int64_t seconds;
	const char *field = strstr(name, "tfevents.");
	if (!field)
		return -1;
	field += strlen("tfevents.");
	size_t length = strspn(field, "0123456789");
	if (!length || length >= sizeof digits)
		return -1;
	memcpy(digits, field, length);
	return text_to_int64(digits, &seconds) ? seconds : -1;
}

/* Now, or one more than the latest event file in the directory says: clocks of nodes differ. */
static int choose_seconds(const char *directory, int64_t *seconds)
{
	struct names names = {0};
	if (file_list(directory, &names))
		return error_status();
	int status = STATUS_OK;
	*seconds = (int64_t)clock_wall();
	for (size_t i = 0; i < names.count && !status; i++) {
		int64_t taken = seconds_of_name(names.name[i]);
		if (taken >= SECONDS_LIMIT)
			status = error_set(STATUS_DATA,
				"%s/%s: no event file can be named behind it; remove it", directory,
				names.name[i]);
		else if (taken >= *seconds)
			*seconds = taken + 1;
	}
	names_release(&names);
	return status;
}

static int create_file(struct tfevents *events, const char *directory)
{
	char host[256] = "localhost";
	int64_t seconds = 0;
	if (choose_seconds(directory, &seconds))
		return error_status();
	gethostname(host, sizeof host - 1);
	for (int counter = 0; counter < NAME_TRIES; counter++) {
		struct text path = {0};
		text_format(&path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", directory, (long long)seconds,
			host, (long)getpid(), counter);
		free(events->path);
		events->path = text_take(&path);
		if (!events->path)
			return error_status();
		events->descriptor =
			open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
		if (events->descriptor >= 0)
			return STATUS_OK;
		if (errno != EEXIST)
			return error_errno(0, "%s", events->path);
	}
	return error_set(STATUS_CANNOT_CREATE, "%s: no free name for an event file", directory);
}

int tfevents_open(const char *directory, int64_t first_step, struct tfevents **result)
{
	uint64_t bytes;
	*result = NULL;
	struct tfevents *events = memory_new(1, sizeof *events);
	if (!events)
		return error_status();
	events->descriptor = -1;
	int status = create_file(events, directory);
	if (!status)
		status = add_version(events);
	if (!status)
		status = add_start(events, first_step);
	if (!status)
		status = tfevents_sync(events, &bytes);
	if (!status)
		status = file_sync_directory(directory);
	if (!status) {
		*result = events;
		return STATUS_OK;
	}
	if (events->descriptor >= 0) {
		close(events->descriptor);
		unlink(events->path);
	}
	text_release(&events->pending);
	free(events->path);
	free(events);
	return status;
}

const char *tfevents_name(const struct tfevents *events)
{
	return path_base(events->path);
}

int tfevents_sync(struct tfevents *events, uint64_t *bytes)
{
	if (tfevents_flush(events))
		return error_status();
	if (fsync(events->descriptor))
		return error_errno(0, "%s", events->path);
	*bytes = events->written;
	return STATUS_OK;
}

int tfevents_close(struct tfevents *events)
{
	uint64_t bytes;
	if (!events)
		return STATUS_OK;
	int status = tfevents_sync(events, &bytes);
	if (close(events->descriptor) && !status)
		status = error_errno(0, "%s", events->path);
	text_release(&events->pending);
	free(events->path);
	free(events);
	return status;
}
