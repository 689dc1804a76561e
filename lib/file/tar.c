/*
 * tar: the reader, by libarchive.
 *
 * The bytes come through our own callback without seeking: libarchive's file reader seeks over members that are not
 * wanted, and then does not notice that the file ends within one of them.
 */
#include "file/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

enum { BUFFER_BYTES = 256 * 1024 };

struct tar_reader {
	char *path;
	int descriptor;
	int read_errno; /* of a read that failed: not the archive's fault */
	struct archive *archive;
	bool in_member, ended; /* a member's name stands in `name`; the end was reached */
	struct tar_member member;
	struct text name, target;
	const char *block; /* what libarchive gave of the member's data and was not handed on yet */
	size_t block_left;
	uint64_t place; /* in the member: what was given so far */
	char buffer[BUFFER_BYTES];
};

static la_ssize_t on_read(struct archive *archive, void *context, const void **data)
{
	struct tar_reader *reader = context;
	ssize_t got;
	do {
		got = read(reader->descriptor, reader->buffer, sizeof reader->buffer);
	} while (got < 0 && errno == EINTR);
	*data = reader->buffer;
	if (got < 0) {
		reader->read_errno = errno;
		archive_set_error(archive, errno, "read error");
	}
	return got;
}

static int fail(struct tar_reader *reader)
{
	if (reader->read_errno) {
		errno = reader->read_errno;
		return error_errno(0, "%s", reader->path);
	}
	const char *reason = archive_error_string(reader->archive);
	if (!reason)
		reason = "damaged archive";
	if (!archive_file_count(reader->archive) && text_starts(reason, "Unrecognized"))
		reason = "not a tar archive";
	if (reader->in_member && reader->name.length)
		return error_set(STATUS_DATA, "%s: %.300s: %s", reader->path, reader->name.data, reason);
	return error_set(STATUS_DATA, "%s: %s", reader->path, reason);
}

static int open_archive(struct tar_reader *reader)
{
	struct archive *archive = reader->archive = archive_read_new();
	if (!archive)
		return error_set(STATUS_FAILURE, "out of memory");
	archive_read_support_filter_gzip(archive);
	archive_read_support_filter_bzip2(archive);
	archive_read_support_filter_xz(archive);
	archive_read_support_filter_zstd(archive);
	archive_read_support_filter_lz4(archive);
	archive_read_support_format_tar(archive);
	if (archive_read_open(archive, reader, NULL, on_read, NULL) != ARCHIVE_OK)
		return fail(reader);
	return STATUS_OK;
}

int tar_open(const char *path, struct tar_reader **result)
{
	*result = NULL;
	if (file_is_directory(path))
		return error_set(STATUS_NO_INPUT, "%s: is a directory, an archive was expected", path);
	struct tar_reader *reader = memory_new(1, sizeof *reader);
	if (!reader)
		return error_status();
	reader->descriptor = open(path, O_RDONLY | O_CLOEXEC);
	int status = reader->descriptor < 0 ? error_errno(0, "%s", path) : STATUS_OK;
	if (!status) {
		reader->path = memory_text(path);
		status = reader->path ? open_archive(reader) : error_status();
	}
	if (status)
		tar_close(reader);
	else
		*result = reader;
	return status;
}

void tar_close(struct tar_reader *reader)
{
	if (!reader)
		return;
	archive_read_free(reader->archive);
	if (reader->descriptor >= 0)
		close(reader->descriptor);
	text_release(&reader->name);
	text_release(&reader->target);
	free(reader->path);
	free(reader);
}

/* Without leading "./" and trailing slashes. */
static int set_name(struct text *text, const char *name)
{
	while (text_starts(name, "./"))
		for (name += 2; *name == '/';)
			name++;
	size_t length = strlen(name);
	while (length > 1 && name[length - 1] == '/')
		length--;
	text_clear(text);
	text_append(text, name, length);
	text_add(text, "");
	return text_check(text);
}

static char kind_of(struct archive_entry *entry)
{
	if (archive_entry_hardlink(entry))
		return 'h';
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
		return 'f';
	case AE_IFDIR:
		return 'd';
	case AE_IFLNK:
		return 'l';
	default:
		return 0;
	}
}

static int set_kind(struct tar_member *member, struct archive_entry *entry)
{
	member->type = kind_of(entry);
	if (!member->type)
		return error_set(STATUS_DATA, "is a device or pipe, refused");
	if (archive_entry_sparse_count(entry) > 0)
		return error_set(STATUS_DATA, "is a sparse member, refused; pack it without --sparse");
	return STATUS_OK;
}

static int set_target(struct tar_reader *reader, struct archive_entry *entry)
{
	struct tar_member *member = &reader->member;
	const char *target = NULL;
	if (member->type == 'l')
		target = archive_entry_symlink(entry);
	else if (member->type == 'h')
		target = archive_entry_hardlink(entry);
	if (!target)
		return member->type == 'l' ? error_set(STATUS_DATA, "is a link to nothing") : STATUS_OK;
	text_clear(&reader->target);
	text_add(&reader->target, target);
	int status = member->type == 'h' ? set_name(&reader->target, target) : text_check(&reader->target);
	member->target = reader->target.data;
	if (!status && member->type == 'h' && !path_is_inside(member->target))
		status = error_set(STATUS_DATA, "is a hard link to a place outside, refused");
	return status;
}

/* Fills reader->member; its name is "." for the archive's root. */
static int set_member(struct tar_reader *reader, struct archive_entry *entry)
{
	struct tar_member *member = &reader->member;
	const char *name = archive_entry_pathname(entry);
	if (!name || !*name)
		return error_set(STATUS_DATA, "%s: a member without name", reader->path);
	if (set_name(&reader->name, name))
		return error_prefix("%s", reader->path);
	*member = (struct tar_member){.name = *reader->name.data ? reader->name.data : "."};
	member->mode = archive_entry_perm(entry) & 0777;
	member->modified = archive_entry_mtime(entry);
	int status = set_kind(member, entry);
	if (!status && !path_is_inside(member->name))
		status = error_set(STATUS_DATA, "its name points outside, refused");
	if (!status)
		status = set_target(reader, entry);
	if (!status && member->type == 'f' && archive_entry_size(entry) > 0)
		member->bytes = (uint64_t)archive_entry_size(entry);
	return status ? error_prefix("%s: %.300s", reader->path, name) : STATUS_OK;
}

/* The next header; reader->ended without one. The rest of the present member is skipped beforehand and not by the call
 * for the header, so that an end mark can be told from an end without one. */
static int next_header(struct tar_reader *reader, struct archive_entry **entry)
{
	int code = reader->in_member ? archive_read_data_skip(reader->archive) : ARCHIVE_OK;
	if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
		return fail(reader);
	reader->in_member = false;
	reader->block_left = reader->place = 0;
	text_clear(&reader->name);
	int64_t before = archive_filter_bytes(reader->archive, 0);
	code = archive_read_next_header(reader->archive, entry);
	if (code == ARCHIVE_EOF) {
		reader->ended = true;
		if (archive_filter_bytes(reader->archive, 0) == before)
			warn("%s: has no end mark; it may have been cut", reader->path);
	} else if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
		return fail(reader);
	} else {
		reader->in_member = true;
	}
	return STATUS_OK;
}

int tar_next(struct tar_reader *reader, const struct tar_member **member)
{
	struct archive_entry *entry;
	*member = NULL;
	while (!reader->ended) {
		if (next_header(reader, &entry))
			return error_status();
		if (reader->ended)
			break;
		if (set_member(reader, entry))
			return error_status();
		if (strcmp(reader->member.name, ".")) {
			*member = &reader->member;
			break;
		}
	}
	return STATUS_OK;
}

/* The next block of data, none at the member's end. Blocks must follow each other and make up the whole member: holes are
 * what headers of sparse members ask for, and a few bytes of header can ask for any size. */
static int next_block(struct tar_reader *reader)
{
	const void *block = NULL;
	size_t bytes = 0;
	int64_t offset = 0;
	int code;
	do {
		code = archive_read_data_block(reader->archive, &block, &bytes, &offset);
	} while (code == ARCHIVE_OK && !bytes);
	if (code == ARCHIVE_EOF) {
		if (reader->member.type == 'f' && reader->place != reader->member.bytes)
			return error_set(STATUS_DATA, "%s: %.300s: holds %llu bytes, its header says %llu",
				reader->path, reader->name.data, (unsigned long long)reader->place,
				(unsigned long long)reader->member.bytes);
		return STATUS_OK;
	}
	if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
		return fail(reader);
	if (offset < 0 || (uint64_t)offset != reader->place)
		return error_set(STATUS_DATA, "%s: %.300s: is a sparse member, refused", reader->path,
			reader->name.data);
	reader->block = block;
	reader->block_left = bytes;
	reader->place += bytes;
	return STATUS_OK;
}

int tar_read(struct tar_reader *reader, void *data, size_t bytes, size_t *got)
{
	char *out = data;
	*got = 0;
	while (*got < bytes) {
		if (!reader->block_left && next_block(reader))
			return error_status();
		if (!reader->block_left)
			break;
		size_t part = bytes - *got < reader->block_left ? bytes - *got : reader->block_left;
		memcpy(out + *got, reader->block, part);
		reader->block += part;
		reader->block_left -= part;
		*got += part;
	}
	return STATUS_OK;
}
