/* NumPy .npy: the header by a small grammar (never evaluated), the elements as float32. */
#include "file/npy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/element.h"

#define FILE_LIMIT ((size_t)1 << 38)
enum { HEADER_LIMIT = 10000, DIMS = 8, ALIGNMENT = 64, GROWTH_DIGITS = 21 };

/* What the header says. */
struct header {
	char kind;
	int size;
	bool big_endian;
	bool fortran;
	int dims;
	int64_t dim[DIMS];
	bool has_descr, has_order, has_shape;
};

struct cursor {
	const char *at, *end;
};

void npy_release(struct npy *array)
{
	free(array->data);
	*array = (struct npy){0};
}

static void skip_space(struct cursor *cursor)
{
	while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t'))
		cursor->at++;
}

/* Takes the character if it comes next. */
static bool take(struct cursor *cursor, char character)
{
	skip_space(cursor);
	if (cursor->at == cursor->end || *cursor->at != character)
		return false;
	cursor->at++;
	return true;
}

static bool take_word(struct cursor *cursor, const char *word)
{
	size_t length = strlen(word);
	skip_space(cursor);
	if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length))
		return false;
	cursor->at += length;
	return true;
}

/* A quoted string without escapes. */
static int parse_string(struct cursor *cursor, char *string, size_t room)
{
	skip_space(cursor);
	if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"'))
		return error_set(STATUS_DATA, "npy header: a quoted string is missing");
	char quote = *cursor->at++;
	size_t length = 0;
	while (cursor->at < cursor->end && *cursor->at != quote) {
		if (*cursor->at == '\\' || length + 1 == room)
			return error_set(STATUS_DATA, "npy header: a string that no key or type can be");
		string[length++] = *cursor->at++;
	}
	if (cursor->at == cursor->end)
		return error_set(STATUS_DATA, "npy header: a string without end");
	cursor->at++;
	string[length] = 0;
	return STATUS_OK;
}

static int parse_descr(struct cursor *cursor, struct header *header)
{
	char descr[16];
	skip_space(cursor);
	if (cursor->at < cursor->end && *cursor->at == '[')
		return error_set(STATUS_DATA, "npy file of records; an array of plain numbers is expected");
	if (parse_string(cursor, descr, sizeof descr))
		return error_status();
	const char *rest = descr;
	char order = '=';
	if (*rest && strchr("<>=|", *rest))
		order = *rest++;
	if (*rest == 'O')
		return error_set(STATUS_DATA, "npy file of objects (a pickle), refused");
	header->kind = *rest;
	header->size = *rest && rest[1] >= '1' && rest[1] <= '9' && !rest[2] ? rest[1] - '0' : 0;
	header->big_endian = order == '>';
	if (!element_is_known(header->kind, header->size) || (order == '|' && header->size > 1))
		return error_set(STATUS_DATA, "npy elements of type '%s' are not supported", descr);
	return STATUS_OK;
}

static int parse_order(struct cursor *cursor, struct header *header)
{
	if (take_word(cursor, "True"))
		header->fortran = true;
	else if (!take_word(cursor, "False"))
		return error_set(STATUS_DATA, "npy header: fortran_order is neither True nor False");
	return STATUS_OK;
}

static int parse_dimension(struct cursor *cursor, int64_t *dim)
{
	int digits = 0;
	*dim = 0;
	skip_space(cursor);
	for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++, digits++) {
		int digit = *cursor->at - '0';
		if (*dim > (INT64_MAX - digit) / 10)
			return error_set(STATUS_DATA, "npy header: shape is too large");
		*dim = *dim * 10 + digit;
	}
	if (!digits)
		return error_set(STATUS_DATA, "npy header: shape is not a tuple of sizes");
	if (cursor->at < cursor->end && *cursor->at == 'L') /* Python 2 */
		cursor->at++;
	return STATUS_OK;
}

static int parse_shape(struct cursor *cursor, struct header *header)
{
	bool comma = false;
	if (!take(cursor, '('))
		return error_set(STATUS_DATA, "npy header: shape is not a tuple of sizes");
	while (!take(cursor, ')')) {
		if (header->dims && !comma)
			return error_set(STATUS_DATA, "npy header: shape is not a tuple of sizes");
		if (header->dims == DIMS)
			return error_set(STATUS_DATA, "npy array of more than %d dimensions", DIMS);
		if (parse_dimension(cursor, &header->dim[header->dims++]))
			return error_status();
		comma = take(cursor, ',');
	}
	if (header->dims == 1 && !comma) /* in Python (3) is a number */
		return error_set(STATUS_DATA, "npy header: shape is not a tuple of sizes");
	return STATUS_OK;
}

static int parse_pair(struct cursor *cursor, struct header *header)
{
	static const struct {
		const char *name;
		int (*parse)(struct cursor *cursor, struct header *header);
		size_t seen;
	} keys[] = {
		{"descr", parse_descr, offsetof(struct header, has_descr)},
		{"fortran_order", parse_order, offsetof(struct header, has_order)},
		{"shape", parse_shape, offsetof(struct header, has_shape)},
	};
	char name[16];
	if (parse_string(cursor, name, sizeof name))
		return error_status();
	if (!take(cursor, ':'))
		return error_set(STATUS_DATA, "npy header: no value for key '%s'", name);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strcmp(keys[i].name, name)) {
			bool *seen = (bool *)((char *)header + keys[i].seen);
			if (*seen)
				return error_set(STATUS_DATA, "npy header: key '%s' twice", name);
			*seen = true;
			return keys[i].parse(cursor, header);
		}
	return error_set(STATUS_DATA, "npy header: unknown key '%s'", name);
}

static int parse_header(struct cursor cursor, struct header *header)
{
	bool comma = true;
	if (!take(&cursor, '{'))
		return error_set(STATUS_DATA, "npy header: not a dictionary");
	while (!take(&cursor, '}')) {
		if (!comma)
			return error_set(STATUS_DATA, "npy header: a comma is missing");
		if (parse_pair(&cursor, header))
			return error_status();
		comma = take(&cursor, ',');
	}
	skip_space(&cursor);
	if (cursor.at != cursor.end)
		return error_set(STATUS_DATA, "npy header: something stands behind the dictionary");
	if (!header->has_descr || !header->has_order || !header->has_shape)
		return error_set(STATUS_DATA, "npy header: descr, fortran_order and shape must all be there");
	return STATUS_OK;
}

/* Finds the header and parses it; *start is where the elements begin. */
static int read_header(const unsigned char *data, size_t bytes, struct header *header, size_t *start)
{
	if (bytes < 10 || memcmp(data, "\x93NUMPY", 6))
		return error_set(STATUS_DATA, "not an npy file");
	if (data[6] < 1 || data[6] > 3 || data[7])
		return error_set(STATUS_DATA, "npy version %d.%d is not supported", data[6], data[7]);
	size_t prefix = data[6] == 1 ? 10 : 12;
	size_t length = data[8] | (size_t)data[9] << 8;
	if (prefix == 12 && bytes >= 12)
		length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
	if (length > HEADER_LIMIT)
		return error_set(
			STATUS_DATA, "npy header of %zu bytes, at most %d are read", length, HEADER_LIMIT);
	if (bytes < prefix || bytes - prefix < length)
		return error_set(STATUS_DATA, "ends within its npy header");
	*start = prefix + length;
	struct cursor cursor = {(const char *)data + prefix, (const char *)data + *start};
	return parse_header(cursor, header);
}

static int count_elements(const struct header *header, size_t bytes, size_t *count)
{
	size_t needed = (size_t)header->size, nonzero = 1;
	*count = 1;
	for (int i = 0; i < header->dims; i++) {
		size_t dim = (size_t)header->dim[i];
		if (size_multiply(nonzero, dim ? dim : 1, &nonzero) || nonzero > (size_t)PTRDIFF_MAX / 8)
			return error_set(STATUS_DATA, "npy header: shape is too large");
		*count *= dim;
	}
	needed *= *count;
	if (bytes < needed)
		return error_set(
			STATUS_DATA, "ends early: %zu bytes of elements, its shape needs %zu", bytes, needed);
	if (bytes > needed)
		return error_set(
			STATUS_DATA, "%zu bytes behind the array its header describes", bytes - needed);
	return STATUS_OK;
}

/* From Fortran order (first index fastest) to C order. */
static void transpose(const float *in, const struct header *header, size_t count, float *out)
{
	int64_t index[DIMS] = {0};
	size_t stride[DIMS], step = 1, place = 0;
	for (int i = 0; i < header->dims; i++) {
		stride[i] = step;
		step *= (size_t)header->dim[i];
	}
	for (size_t i = 0; i < count; i++) {
		out[i] = in[place];
		for (int d = header->dims - 1; d >= 0; d--) {
			place += stride[d];
			if (++index[d] < header->dim[d])
				break;
			place -= stride[d] * (size_t)header->dim[d];
			index[d] = 0;
		}
	}
}

static int convert(const struct header *header, const unsigned char *data, size_t count, float **out)
{
	*out = memory_new(count, sizeof **out);
	if (!*out)
		return error_status();
	element_to_float(header->kind, header->size, header->big_endian, data, count, *out);
	if (!header->fortran || header->dims < 2)
		return STATUS_OK;
	float *ordered = memory_new(count, sizeof *ordered);
	if (ordered)
		transpose(*out, header, count, ordered);
	free(*out);
	*out = ordered;
	return ordered ? STATUS_OK : error_status();
}

/* Checks everything and fills the array but for its data; *elements is where those lie. */
static int parse(const unsigned char *data, size_t bytes, struct header *header,
	const unsigned char **elements, struct npy *array)
{
	size_t start = 0;
	if (read_header(data, bytes, header, &start) || count_elements(header, bytes - start, &array->count))
		return error_status();
	*elements = data + start;
	array->kind = header->kind;
	array->size = header->size;
	array->dims = header->dims;
	memcpy(array->dim, header->dim, sizeof header->dim);
	return STATUS_OK;
}

static int fail(const char *name, struct npy *array)
{
	npy_release(array);
	return error_prefix("%s", name);
}

int npy_decode(const char *name, const void *data, size_t bytes, struct npy *array)
{
	struct header header = {0};
	const unsigned char *elements;
	*array = (struct npy){0};
	if (parse(data, bytes, &header, &elements, array) ||
		convert(&header, elements, array->count, &array->data))
		return fail(name, array);
	return STATUS_OK;
}

/* Whether the elements are what npy_read() gives out, so that they can stay in the memory they were read into. */
static bool is_plain(const struct header *header)
{
	return header->kind == 'f' && header->size == sizeof(float) && !header->big_endian &&
	       (!header->fortran || header->dims < 2);
}

int npy_read(const char *path, struct npy *array)
{
	char *data;
	size_t bytes;
	struct header header = {0};
	const unsigned char *elements;
	*array = (struct npy){0};
	if (file_read_regular(path, FILE_LIMIT, &data, &bytes))
		return error_status();
	int status = parse((unsigned char *)data, bytes, &header, &elements, array);
	if (!status && is_plain(&header)) {
		memmove(data, elements, array->count * sizeof(float));
		array->data = (float *)(void *)data;
		return STATUS_OK;
	}
	if (!status)
		status = convert(&header, elements, array->count, &array->data);
	free(data);
	return status ? fail(path, array) : STATUS_OK;
}

/* numpy.save()'s header: spaces so that the first dimension may grow, then up to the alignment. */
static void make_header(struct text *out, int dims, const int64_t *dim)
{
	struct text dictionary = {0}, first = {0};
	text_add(&dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
	for (int i = 0; i < dims; i++)
		text_format(&dictionary, "%s%lld", i ? ", " : "", (long long)dim[i]);
	text_add(&dictionary, dims == 1 ? ",), }" : "), }");
	if (dims) {
		text_format(&first, "%lld", (long long)dim[0]);
		text_format(&dictionary, "%*s", (int)(GROWTH_DIGITS - first.length), "");
	}
	size_t length = dictionary.length + 1;
	length += ALIGNMENT - (10 + length) % ALIGNMENT;
	const char prefix[10] = {
		'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(length & 255), (char)(length >> 8)};
	text_append(out, prefix, sizeof prefix);
	text_format(out, "%-*s\n", (int)length - 1, dictionary.data ? dictionary.data : "");
	out->failed |= dictionary.failed | first.failed;
	text_release(&dictionary);
	text_release(&first);
}

int npy_publish(const char *path, const float *data, int dims, const int64_t *dim)
{
	struct text header = {0};
	struct publish publish = {0};
	size_t bytes = sizeof *data;
	for (int i = 0; i < dims; i++)
		if (dims > DIMS || dim[i] < 0 || size_multiply(bytes, (size_t)dim[i], &bytes))
			return error_set(
				STATUS_FAILURE, "%s: an array of such a shape cannot be written", path);
	make_header(&header, dims, dim);
	int status = text_check(&header);
	if (!status)
		status = publish_open(&publish, path);
	if (!status)
		status = publish_write(&publish, header.data, header.length);
	if (!status && bytes)
		status = publish_write(&publish, data, bytes);
	if (!status)
		status = publish_commit(&publish);
	publish_abandon(&publish);
	text_release(&header);
	return status;
}
