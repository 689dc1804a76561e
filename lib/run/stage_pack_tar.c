/* A tar archive, compressed or not, as one pack. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "file/tar.h"
#include "run/stage_pack.h"
#include "run/stage_tar.h"

enum { BLOCK = 512, BUFFER_BYTES = 4 << 20, READ_BYTES = 256 << 10 };

struct link {
	char *path, *goal; /* below the root */
	bool hard, made;
};

/* A pack being written from front to back. */
struct stream {
	struct tar_reader *reader;
	const char *archive;
	const struct stage_target *target;
	struct stage_count *count;
	int descriptor;
	char *buffer, *part; /* what is not written yet, and what was read last */
	size_t filled;
	uint64_t written;
	uint32_t crc;               /* of what is written */
	struct pack_entry *entries; /* names owned; in the order of the archive, then by name */
	size_t entry_count, entry_capacity,
		sorted; /* the first `sorted` are in order and have names of their own */
	struct link *links;
	size_t link_count, link_capacity;
};

/* ---- bytes ---- */

static int flush(struct stream *stream)
{
	int status = stage_write_at(stream->target, STAGE_PACK, stream->descriptor, stream->buffer,
		stream->filled, stream->written);
	stream->crc = crc32c(stream->crc, stream->buffer, stream->filled);
	stream->written += stream->filled;
	stream->filled = 0;
	return status;
}

static int emit(void *context, const void *data, size_t bytes)
{
	struct stream *stream = context;
	const char *rest = data;
	int status = STATUS_OK;
	while (bytes && !status) {
		size_t some = BUFFER_BYTES - stream->filled < bytes ? BUFFER_BYTES - stream->filled : bytes;
		memcpy(stream->buffer + stream->filled, rest, some);
		stream->filled += some;
		rest += some;
		bytes -= some;
		if (stream->filled == BUFFER_BYTES)
			status = flush(stream);
	}
	return status;
}

static uint64_t place(const struct stream *stream)
{
	return stream->written + stream->filled;
}

/* ---- members ---- */

static int add_entry(struct stream *stream, const char *name, const char *end, const struct pack_entry *data)
{
	struct text whole = {0};
	if (memory_grow(&stream->entries, &stream->entry_capacity, stream->entry_count + 1,
		    sizeof *stream->entries))
		return error_status();
	text_format(&whole, "%s%s", name, end);
	struct pack_entry *entry = &stream->entries[stream->entry_count];
	*entry = *data;
	entry->name = text_take(&whole);
	stream->entry_count += entry->name != NULL;
	return entry->name ? STATUS_OK : error_status();
}

static int copy_data(struct stream *stream, const struct tar_member *member, struct pack_entry *entry)
{
	static const char zero[BLOCK];
	size_t got = 1;
	uint64_t bytes = 0;
	int status = STATUS_OK;
	while (got && !status) {
		status = tar_read(stream->reader, stream->part, READ_BYTES, &got);
		if (status || !got)
			break;
		entry->crc = crc32c(entry->crc, stream->part, got);
		bytes += got;
		status = emit(stream, stream->part, got);
	}
	if (!status && bytes != member->bytes)
		status = error_set(STATUS_DATA, "%s: a member is cut short", stream->archive);
	if (!status && bytes % BLOCK)
		status = emit(stream, zero, BLOCK - bytes % BLOCK);
	return status;
}

static int add_file(struct stream *stream, const struct tar_member *member)
{
	struct tar_writer writer = {.sink = emit, .context = stream, .modified = member->modified};
	struct pack_entry entry = {.bytes = member->bytes};
	if (!strcmp(member->name, PACK_INDEX))
		return error_set(STATUS_DATA, "%s: %s: this name is the index's in a pack", stream->archive,
			member->name);
	int status = tar_begin_file(&writer, member->name, false, member->bytes);
	entry.offset = place(stream);
	if (!status)
		status = copy_data(stream, member, &entry);
	if (!status)
		status = add_entry(stream, member->name, "", &entry);
	stage_count_add(stream->count, 1, member->bytes);
	return status;
}

static int add_directory(struct stream *stream, const struct tar_member *member)
{
	struct tar_writer writer = {.sink = emit, .context = stream};
	char *name = memory_text(member->name);
	size_t length = name ? strlen(name) : 0;
	while (length && name[length - 1] == '/')
		name[--length] = 0;
	int status = name ? STATUS_OK : error_status();
	if (!status && length && strcmp(name, ".") != 0) {
		status = tar_write_directory(&writer, name);
		if (!status)
			status = add_entry(stream, name, "/", &(struct pack_entry){0});
	}
	free(name);
	return status;
}

static int add_link(struct stream *stream, const struct tar_member *member)
{
	char *goal;
	int status = stage_tar_goal(stream->archive, member, &goal);
	if (status)
		return status;
	if (memory_grow(
		    &stream->links, &stream->link_capacity, stream->link_count + 1, sizeof *stream->links)) {
		free(goal);
		return error_status();
	}
	struct link *link = &stream->links[stream->link_count++];
	*link = (struct link){.path = memory_text(member->name), .goal = goal, .hard = member->type == 'h'};
	return link->path ? STATUS_OK : error_status();
}

static int copy_members(struct stream *stream)
{
	const struct tar_member *member;
	int status = tar_next(stream->reader, &member);
	while (!status && member) {
		if (signals_notice())
			status = error_set(STATUS_AGAIN, "stopped in time while packing %s", stream->archive);
		else if (member->type == 'd')
			status = add_directory(stream, member);
		else
			status = member->type == 'f' ? add_file(stream, member) : add_link(stream, member);
		if (!status)
			status = tar_next(stream->reader, &member);
	}
	return status ? status : flush(stream);
}

/* ---- the index ---- */

/* Of equal names the later one comes later: its data do, or it is a link. */
static int compare_entries(const void *a, const void *b)
{
	const struct pack_entry *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts, and keeps the last of equal names. */
static void sort_entries(struct stream *stream)
{
	struct pack_entry *entries = stream->entries;
	size_t kept = 0;
	if (stream->entry_count)
		qsort(entries, stream->entry_count, sizeof *entries, compare_entries);
	for (size_t i = 0; i < stream->entry_count; i++) {
		if (i + 1 < stream->entry_count && !strcmp(entries[i].name, entries[i + 1].name))
			free((char *)entries[i].name);
		else
			entries[kept++] = entries[i];
	}
	stream->entry_count = stream->sorted = kept;
}

static const struct pack_entry *find_entry(const struct stream *stream, const char *name)
{
	size_t low = 0, high = stream->sorted;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(stream->entries[middle].name, name);
		if (!order)
			return &stream->entries[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* A file of a link's path; *made false while its goal is not there yet. */
static int make_link(struct stream *stream, struct link *link)
{
	const struct pack_entry *goal = find_entry(stream, link->goal);
	struct text directory = {0};
	if (link->hard && goal && !strcmp(link->path, link->goal)) {
		link->made = true; /* a file that tar was given twice is a file and then a link to itself */
		return STATUS_OK;
	}
	text_format(&directory, "%s/", link->goal);
	int status = text_check(&directory);
	if (!status && (!*link->goal || find_entry(stream, directory.data)))
		status = error_set(STATUS_DATA,
			"%s: %s: is a link to a directory, which a pack cannot hold; unpack the archive "
			"(without "
			"--pack)",
			stream->archive, link->path);
	text_release(&directory);
	if (status || !goal)
		return status;
	struct pack_entry data = *goal;
	link->made = true;
	return add_entry(stream, link->path, "", &data);
}

static int make_links(struct stream *stream)
{
	int status = STATUS_OK;
	for (size_t made = 1; made && !status;) {
		made = 0;
		for (size_t i = 0; i < stream->link_count && !status; i++) {
			if (stream->links[i].made)
				continue;
			status = make_link(stream, &stream->links[i]);
			made += stream->links[i].made;
		}
		sort_entries(stream); /* what this round has added is found in the next */
	}
	for (size_t i = 0; i < stream->link_count && !status; i++)
		if (!stream->links[i].made)
			status = error_set(STATUS_DATA, "%s: %s: is a link to %s, which is not there",
				stream->archive, stream->links[i].path, stream->links[i].goal);
	return status;
}

/* Directories that the archive does not name by themselves: those of an entry that the entry before it does not lie in. */
static int add_parents(struct stream *stream)
{
	struct text parent = {0};
	int status = STATUS_OK;
	sort_entries(stream);
	for (size_t i = 0, count = stream->sorted; i < count && !status; i++) {
		const char *name = stream->entries[i].name, *before = i ? stream->entries[i - 1].name : "";
		for (const char *slash = strchr(name, '/'); slash && !status;
			slash = strchr(slash + 1, '/')) {
			size_t length = (size_t)(slash - name);
			if (!strncmp(before, name, length + 1))
				continue;
			text_clear(&parent);
			text_append(&parent, name, length);
			status = text_check(&parent);
			if (!status && find_entry(stream, parent.data))
				status = error_set(STATUS_DATA, "%s: %s: is a file and a directory",
					stream->archive, parent.data);
			if (!status)
				status = add_entry(stream, parent.data, "/", &(struct pack_entry){0});
		}
	}
	text_release(&parent);
	sort_entries(stream);
	return status;
}

/* ---- the whole ---- */

static int open_stream(struct stream *stream)
{
	uint64_t bytes = 0;
	int status = file_size(stream->archive, &bytes);
	stream->buffer = memory_new(BUFFER_BYTES, 1);
	stream->part = memory_new(READ_BYTES, 1);
	if (!stream->buffer || !stream->part)
		status = error_status();
	if (!status)
		status = stage_pack_open(stream->target, bytes, &stream->descriptor);
	return status ? status : tar_open(stream->archive, &stream->reader);
}

static void release(struct stream *stream)
{
	for (size_t i = 0; i < stream->entry_count; i++)
		free((char *)stream->entries[i].name);
	for (size_t i = 0; i < stream->link_count; i++) {
		free(stream->links[i].path);
		free(stream->links[i].goal);
	}
	free(stream->entries);
	free(stream->links);
	free(stream->buffer);
	free(stream->part);
	if (stream->reader)
		tar_close(stream->reader);
}

int stage_pack_archive(const char *archive, const struct stage_target *target, struct stage_rows *rows,
	struct stage_count *count)
{
	struct stream stream = {.archive = archive, .target = target, .count = count, .descriptor = -1};
	stage_count_start(count, archive, 0, 0);
	int status = open_stream(&stream);
	if (!status)
		status = copy_members(&stream);
	if (!status)
		status = add_parents(&stream);
	if (!status)
		status = make_links(&stream);
	if (!status)
		status = stage_pack_close(target, stream.descriptor, stream.entries, stream.entry_count,
			stream.written, stream.crc, rows);
	stage_count_end(count);
	if (stream.descriptor >= 0 && close(stream.descriptor) && !status)
		status = error_errno(0, "%s/%s", target->path, STAGE_PACK);
	release(&stream);
	return status;
}
