/* The rows of a copy's journal and manifest. */
#include "run/stage_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/threads.h"

enum { ROWS_AT_ONCE = 128, READ_BYTES = 128 << 10 };
static const size_t longest = (size_t)4 << 30; /* of a manifest or journal */

void stage_rows_release(struct stage_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->row[i].path);
	free(rows->row);
	*rows = (struct stage_rows){0};
}

int stage_rows_add(struct stage_rows *rows, const char *path, uint64_t offset, uint64_t bytes, uint32_t crc)
{
	if (memory_grow(&rows->row, &rows->capacity, rows->count + 1, sizeof *rows->row))
		return error_status();
	char *copy = memory_text(path);
	if (!copy)
		return error_status();
	rows->row[rows->count] = (struct stage_row){
		.path = copy, .offset = offset, .bytes = bytes, .crc = crc, .order = rows->count};
	rows->count++;
	return STATUS_OK;
}

static int compare_piece(const struct stage_row *a, const char *path, uint64_t offset)
{
	int order = strcmp(a->path, path);
	return order ? order : (a->offset > offset) - (a->offset < offset);
}

static int compare_rows(const void *a, const void *b)
{
	const struct stage_row *left = a, *right = b;
	int order = compare_piece(left, right->path, right->offset);
	return order ? order : (left->order > right->order) - (left->order < right->order);
}

void stage_rows_sort(struct stage_rows *rows)
{
	size_t kept = 0;
	if (rows->count)
		qsort(rows->row, rows->count, sizeof *rows->row, compare_rows);
	for (size_t i = 0; i < rows->count; i++) {
		if (i + 1 < rows->count &&
			!compare_piece(&rows->row[i], rows->row[i + 1].path, rows->row[i + 1].offset))
			free(rows->row[i].path);
		else
			rows->row[kept++] = rows->row[i];
	}
	rows->count = kept;
}

const struct stage_row *stage_rows_find(const struct stage_rows *rows, const char *path, uint64_t offset)
{
	size_t low = 0, high = rows->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_piece(&rows->row[middle], path, offset);
		if (!order)
			return &rows->row[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void stage_rows_format(struct text *text, const char *path, uint64_t offset, uint64_t bytes, uint32_t crc)
{
	text_format(text, "%08x\t%llu\t%llu\t", crc, (unsigned long long)bytes, (unsigned long long)offset);
	text_field(text, path);
	text_add(text, "\n");
}

static bool hex_to_crc(const char *text, uint32_t *crc)
{
	uint32_t value = 0;
	if (strlen(text) != 8)
		return false;
	for (; *text; text++) {
		const char *digits = "0123456789abcdef", *digit = strchr(digits, *text);
		if (!digit)
			return false;
		value = value << 4 | (uint32_t)(digit - digits);
	}
	*crc = value;
	return true;
}

/* One row of `columns` columns (4: journal, 3: manifest); false when it is none. Changes the line. */
static bool parse_row(char *line, int columns, struct stage_row *row)
{
	char *field[4];
	if (text_split(line, '\t', field, columns) != columns)
		return false;
	row->path = field[columns - 1];
	text_unescape(row->path);
	row->offset = 0;
	return hex_to_crc(field[0], &row->crc) && text_to_uint64(field[1], &row->bytes) &&
	       (columns == 3 || text_to_uint64(field[2], &row->offset)) && path_is_inside(row->path);
}

int stage_rows_read_journal(struct stage_rows *rows, const char *path)
{
	char *data, *next;
	size_t bytes;
	if (!file_exists(path))
		return STATUS_OK;
	int status = file_read(path, longest, &data, &bytes);
	if (status)
		return status;
	for (char *line = data; !status && (next = strchr(line, '\n')); line = next + 1) {
		struct stage_row row;
		*next = 0;
		if (parse_row(line, 4, &row)) /* a torn row that others were written behind is no row */
			status = stage_rows_add(rows, row.path, row.offset, row.bytes, row.crc);
	}
	free(data);
	stage_rows_sort(rows);
	return status;
}

static bool parse_manifest(struct stage_rows *rows, char *data, size_t bytes)
{
	uint32_t crc;
	if (strlen(data) != bytes || bytes < 9 || data[bytes - 1] != '\n')
		return false;
	data[bytes - 1] = 0;
	char *last = data + bytes - 9;
	if ((last > data && last[-1] != '\n') || !hex_to_crc(last, &crc) ||
		crc != crc32c(0, data, (size_t)(last - data)))
		return false;
	for (char *line = data, *next; line < last; line = next + 1) {
		struct stage_row row;
		next = strchr(line, '\n');
		*next = 0;
		if (!parse_row(line, 3, &row) || stage_rows_add(rows, row.path, 0, row.bytes, row.crc))
			return false;
	}
	return true;
}

int stage_rows_read_manifest(struct stage_rows *rows, const char *path, bool *whole)
{
	char *data;
	size_t bytes;
	*whole = false;
	if (!file_exists(path))
		return STATUS_OK;
	int status = file_read(path, longest, &data, &bytes);
	if (status)
		return status;
	*whole = rows->files = parse_manifest(rows, data, bytes);
	free(data);
	if (!*whole)
		stage_rows_release(rows);
	stage_rows_sort(rows);
	return STATUS_OK;
}

void stage_rows_manifest(const struct stage_rows *rows, struct text *text)
{
	for (size_t i = 0; i < rows->count; i++) {
		text_format(text, "%08x\t%llu\t", rows->row[i].crc, (unsigned long long)rows->row[i].bytes);
		text_field(text, rows->row[i].path);
		text_add(text, "\n");
	}
	text_format(text, "%08x\n", crc32c(0, text->data ? text->data : "", text->length));
}

struct check {
	struct stage_rows *rows;
	int descriptor;
	bool read;
	atomic_size_t bad;
};

/* Whether the digest of the piece is the row's. The page cache is asked to forget it first: it is the disk
 * that counts. */
static bool digest_equal(int file, const struct stage_row *row, char *buffer)
{
	uint32_t crc = 0;
	uint64_t at = row->offset, end = row->offset + row->bytes;
	posix_fadvise(file, (off_t)at, (off_t)row->bytes, POSIX_FADV_DONTNEED);
	while (at < end) {
		ssize_t got = pread(file, buffer, end - at < READ_BYTES ? end - at : READ_BYTES, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		crc = crc32c(crc, buffer, (size_t)got);
		at += (uint64_t)got;
	}
	return crc == row->crc;
}

static bool size_is_good(
	const struct check *check, const struct stage_row *row, const struct stat *information)
{
	uint64_t size = (uint64_t)information->st_size;
	return S_ISREG(information->st_mode) &&
	       (check->rows->files ? size == row->bytes
				   : size >= row->offset && size - row->offset >= row->bytes);
}

static bool row_is_good(const struct check *check, const struct stage_row *row, char *buffer)
{
	struct stat information;
	if (!check->read)
		return !fstatat(check->descriptor, row->path, &information, AT_SYMLINK_NOFOLLOW) &&
		       size_is_good(check, row, &information);
	int file = openat(check->descriptor, row->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return false;
	bool good = !fstat(file, &information) && size_is_good(check, row, &information) &&
		    digest_equal(file, row, buffer);
	close(file);
	return good;
}

static int check_some(void *context, size_t index)
{
	struct check *check = context;
	size_t first = index * ROWS_AT_ONCE;
	char *buffer = memory_new(READ_BYTES, 1);
	if (!buffer)
		return error_status();
	if (signals_notice()) {
		free(buffer);
		return error_set(STATUS_AGAIN, "stopped in time while checking the copy");
	}
	for (size_t i = first; i < first + ROWS_AT_ONCE && i < check->rows->count; i++) {
		struct stage_row *row = &check->rows->row[i];
		row->good = row_is_good(check, row, buffer);
		check->bad += !row->good;
	}
	free(buffer);
	return STATUS_OK;
}

int stage_rows_check(struct stage_rows *rows, int descriptor, bool read, int jobs, size_t *bad)
{
	struct check check = {.rows = rows, .descriptor = descriptor, .read = read};
	if (read)
		syncfs(descriptor); /* only clean pages can be forgotten */
	int status = threads_run(jobs, (rows->count + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, check_some, &check);
	if (bad)
		*bad = check.bad;
	return status;
}
