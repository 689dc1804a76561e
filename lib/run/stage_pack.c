/* Copying a tree of files as one pack. */
#include "run/stage_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"
#include "file/pack.h"
#include "file/tar.h"

enum { BLOCK = 512, PIECE_BYTES = 1 << 20, PART_BYTES = 16 << 20 };

/* Consecutive bytes of the pack: the headers of directories, some whole files, or a part of a large file. */
struct piece {
	size_t first, count;  /* files; 0: the directories */
	uint64_t begin, end;  /* in the pack */
	uint64_t from, bytes; /* of a large file: what is taken of it */
	bool part;
	uint32_t crc, part_crc; /* of the piece, and of the file's bytes in it */
};

struct packing {
	struct stage_tree *tree;
	const struct stage_rows *have;
	const struct stage_target *target;
	struct stage_count *count;
	int descriptor;
	uint64_t *place; /* of each file's data */
	struct piece *pieces;
	size_t piece_count, piece_capacity;
	uint64_t end; /* of the members */
};

static int append(void *context, const void *data, size_t bytes)
{
	text_append(context, data, bytes);
	return text_check(context);
}

static uint64_t padded(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- the plan ---- */

static int file_header(const struct stage_file *file, struct text *out)
{
	struct tar_writer writer = {.sink = append, .context = out, .modified = file->modified / 1000000000};
	text_clear(out);
	return tar_begin_file(&writer, file->path, false, file->bytes);
}

static int directory_headers(const struct stage_tree *tree, struct text *out)
{
	struct tar_writer writer = {.sink = append, .context = out};
	int status = STATUS_OK;
	for (size_t i = 0; i < tree->directory_count && !status; i++)
		if (*tree->directories[i].path)
			status = tar_write_directory(&writer, tree->directories[i].path);
	return status;
}

static int add_piece(struct packing *packing, struct piece piece)
{
	if (memory_grow(&packing->pieces, &packing->piece_capacity, packing->piece_count + 1,
		    sizeof *packing->pieces))
		return error_status();
	packing->pieces[packing->piece_count++] = piece;
	return STATUS_OK;
}

/* A large file in parts: the first has its header, the last what fills its block. */
static int plan_parts(struct packing *packing, size_t index, uint64_t begin)
{
	const struct stage_file *file = &packing->tree->files[index];
	int status = STATUS_OK;
	for (uint64_t from = 0; from < file->bytes && !status; from += PART_BYTES) {
		uint64_t bytes = file->bytes - from < PART_BYTES ? file->bytes - from : PART_BYTES;
		struct piece piece = {.first = index,
			.count = 1,
			.part = true,
			.from = from,
			.bytes = bytes,
			.begin = from ? packing->place[index] + from : begin,
			.end = packing->place[index] + from + bytes};
		if (from + bytes == file->bytes)
			piece.end = packing->place[index] + padded(file->bytes);
		status = add_piece(packing, piece);
	}
	return status;
}

/* Puts one file behind what there is: into the last piece while that is small. */
static int plan_file(struct packing *packing, size_t index, struct text *header)
{
	const struct stage_file *file = &packing->tree->files[index];
	uint64_t begin = packing->end;
	int status = file_header(file, header);
	if (status)
		return status;
	if (!strcmp(file->path, PACK_INDEX))
		return error_set(STATUS_DATA, "%s/%s: this name is the index's in a pack",
			packing->tree->root, file->path);
	packing->place[index] = begin + header->length;
	packing->end = packing->place[index] + padded(file->bytes);
	if (file->bytes > PART_BYTES)
		return plan_parts(packing, index, begin);
	struct piece *last = packing->piece_count ? &packing->pieces[packing->piece_count - 1] : NULL;
	if (last && last->count && !last->part && last->end - last->begin < PIECE_BYTES) {
		last->count++;
		last->end = packing->end;
		return STATUS_OK;
	}
	return add_piece(
		packing, (struct piece){.first = index, .count = 1, .begin = begin, .end = packing->end});
}

static int plan(struct packing *packing)
{
	struct text header = {0};
	int status = directory_headers(packing->tree, &header);
	packing->place = memory_new(packing->tree->file_count, sizeof *packing->place);
	if (!packing->place)
		status = error_status();
	packing->end = header.length;
	if (!status && packing->end)
		status = add_piece(packing, (struct piece){.end = packing->end});
	for (size_t i = 0; i < packing->tree->file_count && !status; i++)
		status = plan_file(packing, i, &header);
	text_release(&header);
	return status;
}

/* ---- pieces ---- */

static void take_digests(struct packing *packing, struct piece *piece, const char *data)
{
	piece->crc = crc32c(0, data, (size_t)(piece->end - piece->begin));
	if (piece->part) {
		uint64_t at = packing->place[piece->first] + piece->from - piece->begin;
		piece->part_crc = crc32c(0, data + at, (size_t)piece->bytes);
	}
	for (size_t i = piece->first; !piece->part && i < piece->first + piece->count; i++) {
		struct stage_file *file = &packing->tree->files[i];
		file->crc = crc32c(0, data + (packing->place[i] - piece->begin), (size_t)file->bytes);
	}
}

/* One file, or a part of it, and its header into the piece. */
static int read_file(
	const struct packing *packing, const struct piece *piece, size_t index, int directory, char *data)
{
	const struct stage_tree *tree = packing->tree;
	const struct stage_file *file = &tree->files[index];
	uint64_t at = packing->place[index] + piece->from - piece->begin;
	uint64_t bytes = piece->part ? piece->bytes : file->bytes;
	struct text header = {0};
	int source = openat(directory, file->name, O_RDONLY | O_CLOEXEC | (file->link ? 0 : O_NOFOLLOW));
	if (source < 0)
		return error_errno(0, "%s/%s", tree->root, file->path);
	int status = stage_read_at(tree, file, source, data + at, (size_t)bytes, piece->from);
	if (!status)
		status = stage_check_source(tree, file, source);
	if (piece->part) /* the source is read once: its pages would only push out those of the copy */
		posix_fadvise(source, (off_t)piece->from, (off_t)bytes, POSIX_FADV_DONTNEED);
	close(source);
	if (!status && !piece->from)
		status = file_header(file, &header);
	if (!status && !piece->from)
		memcpy(data + at - header.length, header.data, header.length);
	text_release(&header);
	return status;
}

static int open_directory(const struct stage_tree *tree, size_t index)
{
	const char *path = tree->directories[index].path;
	int directory = openat(tree->descriptor, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		error_errno(0, "%s/%s", tree->root, path);
	return directory;
}

static int read_files(const struct packing *packing, const struct piece *piece, char *data)
{
	const struct stage_file *files = packing->tree->files;
	int directory = -1, status = STATUS_OK;
	for (size_t i = piece->first; i < piece->first + piece->count && !status; i++) {
		if (directory < 0 || files[i].directory != files[i - 1].directory) {
			if (directory >= 0)
				close(directory);
			directory = open_directory(packing->tree, files[i].directory);
		}
		status = directory < 0 ? error_status() : read_file(packing, piece, i, directory, data);
	}
	if (directory >= 0)
		close(directory);
	return status;
}

static int read_directories(const struct packing *packing, char *data)
{
	struct text headers = {0};
	int status = directory_headers(packing->tree, &headers);
	if (!status && headers.length)
		memcpy(data, headers.data, headers.length);
	text_release(&headers);
	return status;
}

/* Whether the piece is there already: its bytes have the digest of the journal. */
static bool is_there(struct packing *packing, struct piece *piece, char *data)
{
	size_t bytes = (size_t)(piece->end - piece->begin), got = 0;
	const struct stage_row *row = stage_rows_find(packing->have, STAGE_PACK, piece->begin);
	if (!row || !row->good || row->bytes != bytes)
		return false;
	while (got < bytes) {
		ssize_t some =
			pread(packing->descriptor, data + got, bytes - got, (off_t)(piece->begin + got));
		if (some <= 0 && !(some < 0 && errno == EINTR))
			return false;
		got += some > 0 ? (size_t)some : 0;
	}
	take_digests(packing, piece, data);
	return piece->crc == row->crc;
}

static int journal(const struct packing *packing, const struct piece *piece)
{
	struct text row = {0};
	stage_rows_format(&row, STAGE_PACK, piece->begin, piece->end - piece->begin, piece->crc);
	int status = text_check(&row);
	if (!status)
		status =
			file_write_all(packing->target->journal, row.data, row.length, "journal of the copy");
	text_release(&row);
	return status;
}

static int copy_new(struct packing *packing, struct piece *piece, char *data)
{
	size_t bytes = (size_t)(piece->end - piece->begin);
	memset(data, 0, bytes);
	int status = piece->count ? read_files(packing, piece, data) : read_directories(packing, data);
	if (status)
		return status;
	take_digests(packing, piece, data);
	status = stage_write_at(packing->target, STAGE_PACK, packing->descriptor, data, bytes, piece->begin);
	if (!status)
		status = journal(packing, piece);
	if (!status)
		stage_count_add(packing->count, piece->part ? !piece->from : piece->count,
			piece->part ? piece->bytes : bytes);
	return status;
}

static int copy_piece(void *context, size_t index)
{
	struct packing *packing = context;
	struct piece *piece = &packing->pieces[index];
	if (signals_notice())
		return error_set(STATUS_AGAIN, "stopped in time while copying %s", packing->tree->root);
	char *data = memory_new((size_t)(piece->end - piece->begin), 1);
	if (!data)
		return error_status();
	int status = is_there(packing, piece, data) ? STATUS_OK : copy_new(packing, piece, data);
	free(data);
	return status;
}

/* ---- the whole ---- */

/* The digests of the large files, from those of their parts. */
static void join_parts(struct packing *packing)
{
	for (size_t i = 0; i < packing->piece_count; i++) {
		const struct piece *piece = &packing->pieces[i];
		if (!piece->part)
			continue;
		struct stage_file *file = &packing->tree->files[piece->first];
		file->crc = piece->from ? crc32c_combine(file->crc, piece->part_crc, piece->bytes)
					: piece->part_crc;
	}
}

static int list_entries(
	const struct packing *packing, struct pack_entry *entries, size_t *count, struct names *names)
{
	const struct stage_tree *tree = packing->tree;
	struct text name = {0};
	int status = STATUS_OK;
	for (size_t i = 0; i < tree->directory_count && !status; i++) {
		text_clear(&name);
		text_format(&name, "%s/", tree->directories[i].path);
		if (*tree->directories[i].path)
			status = text_check(&name) ? error_status() : names_add(names, name.data);
	}
	text_release(&name);
	for (size_t i = 0; i < names->count && !status; i++)
		entries[(*count)++] = (struct pack_entry){.name = names->name[i]};
	for (size_t i = 0; i < tree->file_count && !status; i++)
		entries[(*count)++] = (struct pack_entry){.name = tree->files[i].path,
			.offset = packing->place[i],
			.bytes = tree->files[i].bytes,
			.crc = tree->files[i].crc};
	return status;
}

int stage_pack_close(const struct stage_target *target, int descriptor, struct pack_entry *entries,
	size_t count, uint64_t end, uint32_t crc, struct stage_rows *rows)
{
	size_t bytes = 0;
	char *tail = NULL;
	int status = pack_tail(entries, count, end, &tail, &bytes);
	if (!status)
		status = stage_write_at(target, STAGE_PACK, descriptor, tail, bytes, end);
	if (!status && ftruncate(descriptor, (off_t)(end + bytes)))
		status = error_errno(0, "%s/%s", target->path, STAGE_PACK);
	if (!status)
		status = stage_rows_add(
			rows, STAGE_PACK, 0, end + bytes, crc32c_combine(crc, crc32c(0, tail, bytes), bytes));
	free(tail);
	return status;
}

static int close_pack(struct packing *packing, struct stage_rows *rows)
{
	const struct stage_tree *tree = packing->tree;
	struct pack_entry *entries = memory_new(tree->directory_count + tree->file_count, sizeof *entries);
	struct names names = {0};
	size_t count = 0;
	uint32_t crc = 0;
	join_parts(packing);
	for (size_t i = 0; i < packing->piece_count; i++)
		crc = crc32c_combine(
			crc, packing->pieces[i].crc, packing->pieces[i].end - packing->pieces[i].begin);
	int status = entries ? list_entries(packing, entries, &count, &names) : error_status();
	if (!status)
		status = stage_pack_close(
			packing->target, packing->descriptor, entries, count, packing->end, crc, rows);
	names_release(&names);
	free(entries);
	return status;
}

int stage_pack_open(const struct stage_target *target, uint64_t bytes, int *descriptor)
{
	struct stat there;
	*descriptor = openat(target->descriptor, STAGE_PACK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*descriptor < 0 || fstat(*descriptor, &there))
		return error_errno(0, "cannot create %s/%s", target->path, STAGE_PACK);
	uint64_t taken = (uint64_t)there.st_blocks * 512;
	return stage_space_check(target, bytes > taken ? bytes - taken : 0, 2);
}

/* With room for all of it where the file system can promise that. */
static int open_pack(struct packing *packing)
{
	/* The index: names, 32 bytes an entry, and what fills its block. */
	uint64_t whole = packing->end + packing->tree->file_count * 128 + (64 << 10);
	int status = stage_pack_open(packing->target, whole, &packing->descriptor);
	if (!status && packing->end &&
		fallocate(packing->descriptor, FALLOC_FL_KEEP_SIZE, 0, (off_t)packing->end) &&
		errno == ENOSPC)
		status = error_errno(0, "%s/%s", packing->target->path, STAGE_PACK);
	return status;
}

int stage_pack_copy(struct stage_tree *tree, const struct stage_rows *have, const struct stage_target *target,
	int jobs, const char *what, struct stage_rows *rows, struct stage_count *count)
{
	struct packing packing = {
		.tree = tree, .have = have, .target = target, .count = count, .descriptor = -1};
	int status = plan(&packing);
	stage_count_start(count, what, tree->file_count, packing.end);
	if (!status)
		status = open_pack(&packing);
	if (!status)
		status = threads_run(jobs, packing.piece_count, copy_piece, &packing);
	if (!status)
		status = close_pack(&packing, rows);
	stage_count_end(count);
	if (packing.descriptor >= 0 && close(packing.descriptor) && !status)
		status = error_errno(0, "%s/%s", target->path, STAGE_PACK);
	free(packing.place);
	free(packing.pieces);
	return status;
}
