/* Binary PGM and PPM. */
#include "file/pnm.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

enum { NUMBER_LIMIT = 100000000 };

struct cursor {
	const unsigned char *at, *end;
};

static bool is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space and comments, then a decimal number; -1 where there is none. */
static int take_number(struct cursor *cursor)
{
	while (cursor->at < cursor->end && (is_space(*cursor->at) || *cursor->at == '#'))
		if (*cursor->at++ == '#')
			while (cursor->at < cursor->end && *cursor->at != '\n' && *cursor->at != '\r')
				cursor->at++;
	if (cursor->at == cursor->end || *cursor->at < '0' || *cursor->at > '9')
		return -1;
	int number = 0;
	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
		number = number * 10 + (*cursor->at++ - '0');
		if (number > NUMBER_LIMIT)
			return -1;
	}
	return number;
}

static int check_maximum(int maximum, int channels)
{
	if (maximum < 1 || maximum > 65535)
		return error_set(STATUS_DATA, "PNM maximum value %d, 1 to 65535 is legal", maximum);
	if (maximum < 255)
		return error_set(
			STATUS_DATA, "PNM maximum value %d; 8-bit samples are read with 255 only", maximum);
	if (maximum > 255 && channels == 3)
		return error_set(STATUS_DATA, "PPM of 16 bits; 8-bit RGB is expected");
	return STATUS_OK;
}

/* Big-endian samples of at most `maximum`. */
static int copy_wide(const unsigned char *raster, size_t count, int maximum, uint16_t *out)
{
	unsigned highest = 0;
	for (size_t i = 0; i < count; i++) {
		out[i] = (uint16_t)(raster[2 * i] << 8 | raster[2 * i + 1]);
		highest = out[i] > highest ? out[i] : highest;
	}
	if (highest > (unsigned)maximum)
		return error_set(
			STATUS_DATA, "PGM sample %u is above the file's maximum value %d", highest, maximum);
	return STATUS_OK;
}

static int decode(struct cursor cursor, int channels, struct image *image)
{
	int width = take_number(&cursor), height = take_number(&cursor), maximum = take_number(&cursor);
	if (width < 1 || height < 1 || maximum < 0 || cursor.at == cursor.end || !is_space(*cursor.at))
		return error_set(STATUS_DATA, "damaged or cut PNM header");
	cursor.at++;
	if (check_maximum(maximum, channels))
		return error_status();
	int bits = maximum > 255 ? 16 : 8;
	size_t here = (size_t)(cursor.end - cursor.at);
	size_t count = (size_t)width * (size_t)height * (size_t)channels;
	if (here / (size_t)(bits / 8) < count)
		return error_set(STATUS_DATA, "ends early: %zu bytes of pixels, %d x %d needs %zu", here,
			width, height, count * (size_t)(bits / 8));
	if (image_allocate(image, width, height, channels, bits))
		return error_status();
	if (bits == 16)
		return copy_wide(cursor.at, count, maximum, image->data);
	memcpy(image->data, cursor.at, count);
	return STATUS_OK;
}

int pnm_decode(const char *name, const void *data, size_t bytes, struct image *image)
{
	const unsigned char *start = data;
	*image = (struct image){0};
	int status;
	if (bytes < 3 || start[0] != 'P' || (start[1] != '5' && start[1] != '6'))
		status = error_set(STATUS_DATA, "not a binary PGM or PPM image");
	else
		status = decode((struct cursor){start + 2, start + bytes}, start[1] == '6' ? 3 : 1, image);
	if (status) {
		image_release(image);
		return error_prefix("%s", name);
	}
	return STATUS_OK;
}
