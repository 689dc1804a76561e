/* ZIP archives of stored members. */
#include "file/zip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"

enum {
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR_BYTES = 20,
	CENTRAL_BYTES = 46,
	LOCAL_BYTES = 30,
	COMMENT_LIMIT = 65535,
	ALIGNMENT = 64,
	EXTRA_64 = 1,
	EXTRA_PADDING = 0x4246,
	ENCRYPTED = 1,
	UTF8_NAMES = 0x800,
	VERSION = 45, /* 4.5: ZIP64 */
};
#define NAME_LIMIT ((size_t)4096)
#define WIDE 0xffffffffu /* the value stands in the ZIP64 field */
static const uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50, locator_mark = 0x07064b50,
		      central_mark = 0x02014b50, local_mark = 0x04034b50;

static uint64_t number(const unsigned char *data, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)data[i] << (8 * i);
	return value;
}

static void put(unsigned char *data, size_t bytes, uint64_t value)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t crc_of(const void *data, size_t bytes)
{
	return (uint32_t)crc32_z(0, data, bytes);
}

/* ---- reading ---- */

struct archive {
	const unsigned char *data;
	size_t bytes;
	uint64_t directory, directory_bytes, count;
	uint64_t taken; /* by the data of members so far */
};

static const unsigned char *find_end(const struct archive *archive)
{
	const unsigned char *data = archive->data;
	for (size_t back = END_BYTES; back <= archive->bytes && back <= END_BYTES + COMMENT_LIMIT; back++) {
		const unsigned char *at = data + archive->bytes - back;
		if (number(at, 4) == end_mark && number(at + 20, 2) == back - END_BYTES)
			return at;
	}
	return NULL;
}

static int read_end64(struct archive *archive, const unsigned char *end)
{
	size_t before = (size_t)(end - archive->data);
	if (before < LOCATOR_BYTES || number(end - LOCATOR_BYTES, 4) != locator_mark)
		return STATUS_OK;
	uint64_t place = number(end - LOCATOR_BYTES + 8, 8);
	if (before < END64_BYTES || place > before - END64_BYTES ||
		number(archive->data + place, 4) != end64_mark)
		return error_set(STATUS_DATA, "its end is damaged");
	archive->count = number(archive->data + place + 32, 8);
	archive->directory_bytes = number(archive->data + place + 40, 8);
	archive->directory = number(archive->data + place + 48, 8);
	return STATUS_OK;
}

static int read_end(struct archive *archive)
{
	const unsigned char *end = find_end(archive);
	if (!end)
		return error_set(STATUS_DATA, "no end of a zip archive; the file is cut");
	if (number(end + 4, 2) != 0 && number(end + 4, 2) != 0xffff)
		return error_set(STATUS_DATA, "one part of a split archive");
	archive->count = number(end + 10, 2);
	archive->directory_bytes = number(end + 12, 4);
	archive->directory = number(end + 16, 4);
	int status = read_end64(archive, end);
	if (!status && (archive->directory > archive->bytes ||
			       archive->directory_bytes > archive->bytes - archive->directory ||
			       archive->count > archive->directory_bytes / CENTRAL_BYTES))
		status = error_set(STATUS_DATA, "its directory does not fit into it");
	return status;
}

/* Values of the ZIP64 field take the place of those that are all ones, in this order. */
static int read_extra64(const unsigned char *extra, size_t length, uint64_t *values[3])
{
	while (length >= 4) {
		size_t id = (size_t)number(extra, 2), bytes = (size_t)number(extra + 2, 2);
		if (bytes > length - 4)
			break;
		for (size_t i = 0, at = 0; id == EXTRA_64 && i < 3; i++) {
			if (*values[i] != WIDE)
				continue;
			if (at + 8 > bytes)
				return error_set(STATUS_DATA, "a damaged entry");
			*values[i] = number(extra + 4 + at, 8);
			at += 8;
		}
		extra += 4 + bytes;
		length -= 4 + bytes;
	}
	return STATUS_OK;
}

/* Where a member's data begin: the local header's own lengths count. */
static int find_data(struct archive *archive, uint64_t local, uint64_t bytes, const unsigned char **data)
{
	if (local > archive->bytes || archive->bytes - local < LOCAL_BYTES ||
		number(archive->data + local, 4) != local_mark)
		return error_set(STATUS_DATA, "its header is not where the directory says");
	uint64_t skip =
		LOCAL_BYTES + number(archive->data + local + 26, 2) + number(archive->data + local + 28, 2);
	if (skip > archive->bytes - local || bytes > archive->bytes - local - skip)
		return error_set(STATUS_DATA, "its data are cut");
	archive->taken += bytes;
	if (archive->taken > archive->bytes) /* to check the same bytes again and again could take for ever */
		return error_set(STATUS_DATA, "its data are those of other members, too");
	*data = archive->data + local + skip;
	return STATUS_OK;
}

static int add_member(struct archive *archive, const unsigned char *entry, struct zip *zip)
{
	size_t length = (size_t)number(entry + 28, 2), extra = (size_t)number(entry + 30, 2);
	uint64_t packed = number(entry + 20, 4), bytes = number(entry + 24, 4), local = number(entry + 42, 4);
	uint64_t crc = number(entry + 16, 4);
	const unsigned char *name = entry + CENTRAL_BYTES, *data = NULL;
	if (!length || length > NAME_LIMIT || memchr(name, 0, length))
		return error_set(STATUS_DATA, "a member without a proper name");
	if (name[length - 1] == '/')
		return STATUS_OK;
	if (memory_grow(&zip->member, &zip->capacity, zip->count + 1, sizeof *zip->member))
		return error_status();
	struct zip_member *member = &zip->member[zip->count];
	*member = (struct zip_member){.name = memory_new(length + 1, 1)};
	if (!member->name)
		return error_status();
	memcpy(member->name, name, length);
	zip->count++;
	int status = read_extra64(name + length, extra, (uint64_t *[]){&bytes, &packed, &local});
	bool stored = !(number(entry + 8, 2) & ENCRYPTED) && !number(entry + 10, 2);
	if (!status && stored && packed != bytes)
		status = error_set(STATUS_DATA, "its sizes differ");
	if (!status)
		status = find_data(archive, local, packed, &data);
	if (!status && stored && crc && crc_of(data, (size_t)bytes) != crc)
		status = error_set(STATUS_DATA, "is damaged (CRC-32)");
	member->data = stored ? data : NULL;
	member->bytes = (size_t)bytes;
	return status ? error_prefix("member %.200s", member->name) : STATUS_OK;
}

static int compare_members(const void *a, const void *b)
{
	return strcmp(((const struct zip_member *)a)->name, ((const struct zip_member *)b)->name);
}

static int read_directory(struct archive *archive, struct zip *zip)
{
	const unsigned char *at = archive->data + archive->directory;
	uint64_t left = archive->directory_bytes;
	for (uint64_t i = 0; i < archive->count; i++) {
		if (left < CENTRAL_BYTES || number(at, 4) != central_mark)
			return error_set(STATUS_DATA, "its directory is damaged");
		uint64_t bytes = CENTRAL_BYTES + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
		if (bytes > left)
			return error_set(STATUS_DATA, "its directory is damaged");
		if (add_member(archive, at, zip))
			return error_status();
		at += bytes;
		left -= bytes;
	}
	if (zip->count)
		qsort(zip->member, zip->count, sizeof *zip->member, compare_members);
	for (size_t i = 1; i < zip->count; i++)
		if (!strcmp(zip->member[i - 1].name, zip->member[i].name))
			return error_set(STATUS_DATA, "member %.200s is there twice", zip->member[i].name);
	return STATUS_OK;
}

int zip_decode(const char *name, const void *data, size_t bytes, struct zip *zip)
{
	struct archive archive = {.data = data, .bytes = bytes};
	*zip = (struct zip){0};
	int status = read_end(&archive);
	if (!status)
		status = read_directory(&archive, zip);
	if (!status)
		return STATUS_OK;
	zip_release(zip);
	return error_prefix("%s", name);
}

void zip_release(struct zip *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		free(zip->member[i].name);
	free(zip->member);
	*zip = (struct zip){0};
}

const struct zip_member *zip_find(const struct zip *zip, const char *name)
{
	struct zip_member key = {.name = (char *)name};
	return zip->count ? bsearch(&key, zip->member, zip->count, sizeof key, compare_members) : NULL;
}

/* ---- writing ---- */

/* The fields that a local header and an entry of the directory share, from the version on. */
static void put_common(unsigned char *field, const struct zip_entry *entry, bool wide)
{
	put(field, 2, VERSION);
	put(field + 2, 2, UTF8_NAMES);
	put(field + 8, 2, 0x21); /* 1980-01-01: equal tensors give equal files */
	put(field + 10, 4, entry->crc);
	put(field + 14, 4, wide ? WIDE : entry->bytes);
	put(field + 18, 4, wide ? WIDE : entry->bytes);
	put(field + 22, 2, strlen(entry->name));
}

static int write_local(struct zip_writer *writer, const struct zip_entry *entry)
{
	unsigned char head[LOCAL_BYTES] = {0}, extra[20 + 4 + ALIGNMENT] = {0};
	bool wide = entry->bytes >= WIDE;
	size_t length = strlen(entry->name), used = wide ? 20 : 0;
	size_t padding = (size_t)(entry->offset + LOCAL_BYTES + length + used + 4) % ALIGNMENT;
	padding = padding ? ALIGNMENT - padding : 0;
	if (wide) {
		put(extra, 2, EXTRA_64);
		put(extra + 2, 2, 16);
		put(extra + 4, 8, entry->bytes);
		put(extra + 12, 8, entry->bytes);
	}
	put(extra + used, 2, EXTRA_PADDING);
	put(extra + used + 2, 2, padding);
	used += 4 + padding;
	put(head, 4, local_mark);
	put_common(head + 4, entry, wide);
	put(head + 28, 2, used);
	int status = publish_write(writer->publish, head, sizeof head);
	if (!status)
		status = publish_write(writer->publish, entry->name, length);
	return status ? status : publish_write(writer->publish, extra, used);
}

int zip_add(struct zip_writer *writer, const char *name, const void *data, size_t bytes)
{
	if (memory_grow(&writer->entry, &writer->capacity, writer->count + 1, sizeof *writer->entry))
		return error_status();
	struct zip_entry *entry = &writer->entry[writer->count];
	*entry = (struct zip_entry){.name = memory_text(name),
		.offset = writer->publish->bytes,
		.bytes = bytes,
		.crc = crc_of(data, bytes)};
	if (!entry->name)
		return error_status();
	writer->count++;
	int status = write_local(writer, entry);
	return status || !bytes ? status : publish_write(writer->publish, data, bytes);
}

static int write_entry(struct zip_writer *writer, const struct zip_entry *entry)
{
	unsigned char data[CENTRAL_BYTES + 28] = {0};
	bool wide = entry->bytes >= WIDE || entry->offset >= WIDE;
	size_t length = strlen(entry->name), used = wide ? 28 : 0;
	put(data, 4, central_mark);
	put(data + 4, 2, VERSION);
	put_common(data + 6, entry, wide);
	put(data + 30, 2, used);
	put(data + 42, 4, wide ? WIDE : entry->offset);
	unsigned char *extra = data + CENTRAL_BYTES;
	put(extra, 2, EXTRA_64);
	put(extra + 2, 2, 24);
	put(extra + 4, 8, entry->bytes);
	put(extra + 12, 8, entry->bytes);
	put(extra + 20, 8, entry->offset);
	int status = publish_write(writer->publish, data, CENTRAL_BYTES);
	if (!status)
		status = publish_write(writer->publish, entry->name, length);
	return status || !used ? status : publish_write(writer->publish, extra, used);
}

/* The ZIP64 record always: a few bytes, and one form to test. */
static int write_end(struct zip_writer *writer, uint64_t directory, uint64_t bytes)
{
	unsigned char data[END64_BYTES + LOCATOR_BYTES + END_BYTES] = {0};
	unsigned char *locator = data + END64_BYTES, *end = locator + LOCATOR_BYTES;
	put(data, 4, end64_mark);
	put(data + 4, 8, END64_BYTES - 12);
	put(data + 12, 2, VERSION);
	put(data + 14, 2, VERSION);
	put(data + 24, 8, writer->count);
	put(data + 32, 8, writer->count);
	put(data + 40, 8, bytes);
	put(data + 48, 8, directory);
	put(locator, 4, locator_mark);
	put(locator + 8, 8, directory + bytes);
	put(locator + 16, 4, 1);
	put(end, 4, end_mark);
	put(end + 8, 2, writer->count < 0xffff ? writer->count : 0xffff);
	put(end + 10, 2, writer->count < 0xffff ? writer->count : 0xffff);
	put(end + 12, 4, bytes < WIDE ? bytes : WIDE);
	put(end + 16, 4, directory < WIDE ? directory : WIDE);
	return publish_write(writer->publish, data, sizeof data);
}

int zip_finish(struct zip_writer *writer)
{
	uint64_t directory = writer->publish->bytes;
	int status = STATUS_OK;
	for (size_t i = 0; i < writer->count && !status; i++)
		status = write_entry(writer, &writer->entry[i]);
	return status ? status : write_end(writer, directory, writer->publish->bytes - directory);
}

void zip_writer_release(struct zip_writer *writer)
{
	for (size_t i = 0; i < writer->count; i++)
		free(writer->entry[i].name);
	free(writer->entry);
	*writer = (struct zip_writer){0};
}
