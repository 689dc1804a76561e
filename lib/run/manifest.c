/* MANIFEST: writing, reading, and checking files against it. */
#include "run/manifest.h"

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
#include "base/text.h"

enum { MANIFEST_LIMIT = 64 << 20, PIECE = 4 << 20, CRC_DIGITS = 8 };

void manifest_release(struct manifest *manifest)
{
	for (size_t i = 0; i < manifest->count; i++)
		free(manifest->file[i].path);
	free(manifest->file);
	*manifest = (struct manifest){0};
}

int manifest_add(struct manifest *manifest, const char *path, uint64_t bytes, uint32_t crc)
{
	if (memory_grow(&manifest->file, &manifest->capacity, manifest->count + 1, sizeof *manifest->file))
		return error_status();
	char *copy = memory_text(path);
	if (!copy)
		return error_status();
	manifest->file[manifest->count++] = (struct manifest_file){copy, bytes, crc};
	return STATUS_OK;
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(((const struct manifest_file *)a)->path, ((const struct manifest_file *)b)->path);
}

/* Adds a line of that CRC and length to the sums. */
static void sum_line(struct manifest *manifest, const char *path, uint32_t crc, size_t length)
{
	manifest->crc = crc32c_combine(manifest->crc, crc, length);
	if (text_starts(path, "model/"))
		manifest->crc_model = crc32c_combine(manifest->crc_model, crc, length);
}

int manifest_publish(struct manifest *manifest, const char *directory, uint64_t *bytes)
{
	struct text text = {0};
	char *path = path_join(directory, "MANIFEST");
	manifest->crc = manifest->crc_model = 0;
	if (manifest->count)
		qsort(manifest->file, manifest->count, sizeof *manifest->file, compare_files);
	for (size_t i = 0; i < manifest->count && !text.failed; i++) {
		const struct manifest_file *file = &manifest->file[i];
		size_t start = text.length;
		text_format(
			&text, "%08x\t%llu\t%s\n", file->crc, (unsigned long long)file->bytes, file->path);
		if (!text.failed)
			sum_line(manifest, file->path, crc32c(0, text.data + start, text.length - start),
				text.length - start);
	}
	text_format(&text, "%08x\n", manifest->crc);
	int status = path ? text_check(&text) : error_status();
	if (!status)
		status = file_publish(path, text.data, text.length);
	*bytes = text.length;
	text_release(&text);
	free(path);
	return status;
}

/* Eight lower-case hex digits. */
static bool parse_crc(const char *field, uint32_t *crc)
{
	*crc = 0;
	for (int i = 0; i < CRC_DIGITS; i++) {
		const char *digits = "0123456789abcdef", *digit = field[i] ? strchr(digits, field[i]) : NULL;
		if (!digit)
			return false;
		*crc = *crc << 4 | (uint32_t)(digit - digits);
	}
	return !field[CRC_DIGITS];
}

/* One line without its newline, taken apart in place. */
static int parse_line(const char *name, int number, char *line, struct manifest *manifest)
{
	char *field[3];
	uint64_t bytes;
	uint32_t crc;
	if (text_split(line, '\t', field, 3) != 3 || !parse_crc(field[0], &crc) ||
		!text_to_uint64(field[1], &bytes))
		return error_set(STATUS_DATA, "%s:%d: is no line of a manifest", name, number);
	if (!path_is_inside(field[2]) || strchr(field[2], '\t'))
		return error_set(STATUS_DATA, "%s:%d: names a file outside", name, number);
	if (manifest->count && strcmp(manifest->file[manifest->count - 1].path, field[2]) >= 0)
		return error_set(STATUS_DATA, "%s:%d: is not in order", name, number);
	return manifest_add(manifest, field[2], bytes, crc);
}

static int parse_lines(const char *name, char *data, size_t bytes, struct manifest *manifest)
{
	int status = STATUS_OK, number = 0;
	uint32_t last;
	if (memchr(data, 0, bytes) || !bytes || data[bytes - 1] != '\n')
		return error_set(STATUS_DATA, "%s: is cut or damaged", name);
	char *line = data, *end = strchr(line, '\n');
	for (; end[1] && !status; line = end + 1, end = strchr(line, '\n')) {
		size_t length = (size_t)(end - line) + 1;
		uint32_t crc = crc32c(0, line, length);
		*end = 0;
		status = parse_line(name, ++number, line, manifest);
		if (!status)
			sum_line(manifest, manifest->file[manifest->count - 1].path, crc, length);
	}
	if (status)
		return status;
	*end = 0;
	if (!parse_crc(line, &last) || last != manifest->crc)
		return error_set(
			STATUS_DATA, "%s: does not have the sum of its last line; it is damaged", name);
	return STATUS_OK;
}

int manifest_parse(const char *name, char *data, size_t bytes, struct manifest *manifest)
{
	*manifest = (struct manifest){0};
	int status = parse_lines(name, data, bytes, manifest);
	if (status)
		manifest_release(manifest);
	return status;
}

int manifest_read(const char *directory, struct manifest *manifest)
{
	char *data = NULL, *path = path_join(directory, "MANIFEST");
	size_t bytes;
	*manifest = (struct manifest){0};
	int status = path ? file_read(path, MANIFEST_LIMIT, &data, &bytes) : error_status();
	if (status == STATUS_NO_INPUT)
		status = error_set(STATUS_DATA, "%s: is missing", path);
	if (!status)
		status = manifest_parse(path, data, bytes, manifest);
	free(data);
	free(path);
	return status;
}

int manifest_find(const struct manifest *manifest, const char *path)
{
	for (size_t i = 0; i < manifest->count; i++)
		if (!strcmp(manifest->file[i].path, path))
			return (int)i;
	return -1;
}

/* One read, EINTR retried. */
static ssize_t read_piece(int descriptor, void *data, size_t bytes)
{
	ssize_t got;
	do {
		got = read(descriptor, data, bytes);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* Reads exactly the recorded bytes; into `kept` when that is not NULL, else piece by piece. */
static int read_checked(
	int descriptor, const char *path, const struct manifest_file *file, char *kept, char *piece)
{
	uint32_t crc = 0;
	uint64_t done = 0;
	while (done < file->bytes) {
		uint64_t wanted = file->bytes - done;
		char *into = kept ? kept + done : piece;
		ssize_t got = read_piece(descriptor, into, wanted < PIECE ? (size_t)wanted : PIECE);
		if (got < 0)
			return error_errno(0, "%s", path);
		if (!got)
			return error_set(STATUS_DATA, "%s: became shorter while it was read", path);
		crc = crc32c(crc, into, (size_t)got);
		done += (uint64_t)got;
	}
	if (crc != file->crc)
		return error_set(STATUS_DATA,
			"%s: its content has CRC %08x where %08x was written; it is damaged", path, crc,
			file->crc);
	return STATUS_OK;
}

static int open_checked(const char *path, const struct manifest_file *file, int *descriptor)
{
	struct stat information;
	*descriptor =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
	if (*descriptor < 0)
		return error_errno(0, "%s", path);
	if (fstat(*descriptor, &information))
		return error_errno(0, "%s", path);
	if (!S_ISREG(information.st_mode) || (uint64_t)information.st_size != file->bytes)
		return error_set(STATUS_DATA, "%s: has %lld bytes where %llu were written", path,
			(long long)information.st_size, (unsigned long long)file->bytes);
	return STATUS_OK;
}

int manifest_load(const char *directory, const struct manifest_file *file, char **data)
{
	int descriptor = -1;
	char *path = path_join(directory, file->path);
	*data = NULL;
	int status = path ? open_checked(path, file, &descriptor) : error_status();
	/* Its length is the file's own by now, so a hostile MANIFEST cannot ask for more memory than there is on disk. */
	if (!status && !(*data = malloc((size_t)file->bytes + 1)))
		status = error_set(STATUS_FAILURE, "%s: no memory for %llu bytes", path,
			(unsigned long long)file->bytes);
	if (!status)
		status = read_checked(descriptor, path, file, *data, NULL);
	if (!status)
		(*data)[file->bytes] = 0;
	if (descriptor >= 0)
		close(descriptor);
	if (status) {
		free(*data);
		*data = NULL;
	}
	free(path);
	return status;
}

int manifest_check(const char *directory, const struct manifest_file *file, bool cold)
{
	int descriptor = -1;
	char *path = path_join(directory, file->path), *piece = malloc(PIECE);
	int status = path ? STATUS_OK : error_status();
	if (!status && !piece)
		status = error_set(STATUS_FAILURE, "out of memory");
	if (!status)
		status = open_checked(path, file, &descriptor);
	if (!status && cold)
		posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
	if (!status)
		status = read_checked(descriptor, path, file, NULL, piece);
	if (descriptor >= 0)
		close(descriptor);
	free(piece);
	free(path);
	return status;
}
