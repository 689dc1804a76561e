/* tar: the deterministic writer. */
#include "file/tar.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

enum { BLOCK = 512, NAME = 100, PREFIX = 155 };
#define OCTAL_LIMIT 077777777777ull /* of the fields of 12 bytes */

struct ustar {
	char name[NAME], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[NAME],
		magic[6], version[2];
	char user[32], group[32], major[8], minor[8], prefix[PREFIX], rest[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a header is one block");

/* What one header is made of. */
struct header {
	const char *name, *target;
	char type;
	unsigned mode;
	uint64_t bytes;
	int64_t modified;
};

/* Copies what fits; a full field has no NUL. */
static void fill(char *field, size_t room, const char *value, size_t length)
{
	memcpy(field, value, length < room ? length : room);
}

static void fill_octal(char *field, size_t room, uint64_t value)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%0*llo", (int)room - 1, (unsigned long long)value);
	memcpy(field, digits, room);
}

/* Where the name can be cut at a slash into prefix and name; 0 when it fits without, -1 when there is no such place. */
static long split_name(const char *name)
{
	size_t length = strlen(name);
	if (length <= NAME)
		return 0;
	for (size_t i = length - NAME - 1; i <= PREFIX && i + 1 < length; i++)
		if (i && name[i] == '/')
			return (long)i;
	return -1;
}

static int write_header_block(struct tar_writer *writer, const struct header *header)
{
	struct ustar block = {.type = header->type, .magic = "ustar", .version = {'0', '0'}};
	long split = split_name(header->name);
	if (split > 0)
		fill(block.prefix, sizeof block.prefix, header->name, (size_t)split);
	const char *name = split > 0 ? header->name + split + 1 : header->name;
	fill(block.name, sizeof block.name, name, strlen(name));
	if (header->target)
		fill(block.link, sizeof block.link, header->target, strlen(header->target));
	fill_octal(block.mode, sizeof block.mode, header->mode);
	fill_octal(block.uid, sizeof block.uid, 0);
	fill_octal(block.gid, sizeof block.gid, 0);
	fill_octal(block.size, sizeof block.size, header->bytes <= OCTAL_LIMIT ? header->bytes : 0);
	bool timed = header->modified >= 0 && (uint64_t)header->modified <= OCTAL_LIMIT;
	fill_octal(block.mtime, sizeof block.mtime, timed ? (uint64_t)header->modified : 0);
	fill_octal(block.major, sizeof block.major, 0);
	fill_octal(block.minor, sizeof block.minor, 0);
	memset(block.checksum, ' ', sizeof block.checksum);
	unsigned char bytes[BLOCK];
	memcpy(bytes, &block, sizeof bytes);
	unsigned sum = 0;
	for (size_t i = 0; i < BLOCK; i++)
		sum += bytes[i];
	fill_octal(block.checksum, 7, sum); /* six digits, NUL, and the space that stands there */
	return writer->sink(writer->context, &block, sizeof block);
}

static int write_padded(struct tar_writer *writer, const void *data, size_t bytes)
{
	static const char zero[BLOCK];
	int status = bytes ? writer->sink(writer->context, data, bytes) : STATUS_OK;
	if (!status && bytes % BLOCK)
		status = writer->sink(writer->context, zero, BLOCK - bytes % BLOCK);
	return status;
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void add_record(struct text *out, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
	char digits[24];
	while (rest + (size_t)snprintf(digits, sizeof digits, "%zu", length) != length)
		length = rest + strlen(digits);
	text_format(out, "%zu %s=%s\n", length, key, value);
}

static void add_number(struct text *out, const char *key, long long value)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%lld", value);
	add_record(out, key, digits);
}

/* The extended header, where the plain one cannot say everything. */
static int write_extended(struct tar_writer *writer, const struct header *header)
{
	struct text records = {0}, name = {0};
	if (split_name(header->name) < 0)
		add_record(&records, "path", header->name);
	if (header->target && strlen(header->target) > NAME)
		add_record(&records, "linkpath", header->target);
	if (header->bytes > OCTAL_LIMIT)
		add_number(&records, "size", (long long)header->bytes);
	if (header->modified < 0 || (uint64_t)header->modified > OCTAL_LIMIT)
		add_number(&records, "mtime", header->modified);
	text_format(&name, "PaxHeaders/%.80s", path_base(header->name));
	int status = text_check(&records);
	if (!status)
		status = text_check(&name);
	if (!status && records.length) {
		struct header extended = {
			.name = name.data, .type = 'x', .mode = 0644, .bytes = records.length};
		status = write_header_block(writer, &extended);
		if (!status)
			status = write_padded(writer, records.data, records.length);
	}
	text_release(&records);
	text_release(&name);
	return status;
}

static int write_header(struct tar_writer *writer, struct header header)
{
	header.modified = writer->modified;
	if (!path_is_inside(header.name))
		return error_set(STATUS_FAILURE, "%s: not a name for a member of an archive", header.name);
	int status = write_extended(writer, &header);
	return status ? status : write_header_block(writer, &header);
}

int tar_begin_file(struct tar_writer *writer, const char *name, bool executable, uint64_t bytes)
{
	return write_header(writer,
		(struct header){.name = name, .type = '0', .mode = executable ? 0755 : 0644, .bytes = bytes});
}

int tar_write_file(
	struct tar_writer *writer, const char *name, bool executable, const void *data, size_t bytes)
{
	int status = tar_begin_file(writer, name, executable, bytes);
	return status ? status : write_padded(writer, data, bytes);
}

int tar_write_link(struct tar_writer *writer, const char *name, const char *target)
{
	return write_header(
		writer, (struct header){.name = name, .target = target, .type = '2', .mode = 0777});
}

int tar_write_directory(struct tar_writer *writer, const char *name)
{
	struct text slashed = {0};
	text_format(&slashed, "%s/", name);
	int status = text_check(&slashed);
	if (!status)
		status = write_header(
			writer, (struct header){.name = slashed.data, .type = '5', .mode = 0755});
	text_release(&slashed);
	return status;
}

int tar_finish(struct tar_writer *writer)
{
	static const char zero[2 * BLOCK];
	return writer->sink(writer->context, zero, sizeof zero);
}
