/* Images: the reader is chosen by the first bytes. */
#include "file/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "file/jpeg.h"
#include "file/png.h"
#include "file/pnm.h"

#define FILE_LIMIT ((size_t)1 << 31)

static const struct format {
	const char *name, *magic;
	size_t magic_bytes;
	int (*decode)(const char *name, const void *data, size_t bytes, struct image *image);
} formats[] = {
	{"PNG", "\x89PNG\r\n\x1a\n", 8, png_decode},
	{"JPEG", "\xff\xd8\xff", 3, jpeg_decode},
	{"PGM", "P5", 2, pnm_decode},
	{"PPM", "P6", 2, pnm_decode},
};

void image_release(struct image *image)
{
	free(image->data);
	*image = (struct image){0};
}

int image_allocate(struct image *image, int width, int height, int channels, int bits)
{
	if (width < 1 || height < 1 || (size_t)width > IMAGE_LIMIT / (size_t)height)
		return error_set(STATUS_DATA, "image of %d x %d pixels; at most %zu pixels are read", width,
			height, IMAGE_LIMIT);
	size_t bytes = (size_t)width * (size_t)height * (size_t)channels * (size_t)(bits / 8);
	*image = (struct image){.width = width, .height = height, .channels = channels, .bits = bits};
	image->data = malloc(bytes);
	if (!image->data)
		return error_set(STATUS_FAILURE, "out of memory (%zu bytes for an image)", bytes);
	return STATUS_OK;
}

static int decode(const char *name, const void *data, size_t bytes, struct image *image)
{
	*image = (struct image){0};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (bytes >= formats[i].magic_bytes &&
			!memcmp(data, formats[i].magic, formats[i].magic_bytes))
			return formats[i].decode(name, data, bytes, image);
	return error_set(STATUS_DATA, "%s: %s, not a PNG, JPEG, PGM or PPM image", name,
		bytes ? "unknown format" : "empty file");
}

/* Grey to RGB, 8 bits. */
static int expand_grey(struct image *image)
{
	struct image rgb = {0};
	if (image_allocate(&rgb, image->width, image->height, 3, 8))
		return error_status();
	const uint8_t *grey = image->data;
	uint8_t *out = rgb.data;
	size_t count = (size_t)image->width * (size_t)image->height;
	for (size_t i = 0; i < count; i++)
		out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = grey[i];
	image_release(image);
	*image = rgb;
	return STATUS_OK;
}

int image_decode_rgb(const char *name, const void *data, size_t bytes, struct image *image)
{
	int status = decode(name, data, bytes, image);
	if (status)
		return status;
	if (image->bits != 8)
		status = error_set(STATUS_DATA,
			"%s: an image of %d bits a sample where 8-bit RGB is expected", name, image->bits);
	else if (image->channels == 1 && expand_grey(image))
		status = error_prefix("%s", name);
	if (status)
		image_release(image);
	return status;
}

int image_decode_depth16(const char *name, const void *data, size_t bytes, struct image *image)
{
	int status = decode(name, data, bytes, image);
	if (!status && (image->bits != 16 || image->channels != 1)) {
		status = error_set(STATUS_DATA,
			"%s: an image of %d x %d bits a pixel where 16-bit grey depth is expected", name,
			image->channels, image->bits);
		image_release(image);
	}
	return status;
}

static int read_image(const char *path, struct image *image,
	int (*decoder)(const char *name, const void *data, size_t bytes, struct image *image))
{
	char *data;
	size_t bytes;
	*image = (struct image){0};
	if (file_read_regular(path, FILE_LIMIT, &data, &bytes))
		return error_status();
	int status = decoder(path, data, bytes, image);
	free(data);
	return status;
}

int image_read_rgb(const char *path, struct image *image)
{
	return read_image(path, image, image_decode_rgb);
}

int image_read_depth16(const char *path, struct image *image)
{
	return read_image(path, image, image_decode_depth16);
}
