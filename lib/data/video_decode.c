/* Frames that are image files: of a JPEG only the part that is wanted is decoded, other images whole. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/video_layout.h"
#include "file/image.h"

static bool is_jpeg(const void *data, size_t bytes)
{
	return bytes >= 3 && !memcmp(data, "\xff\xd8\xff", 3);
}

/* The whole image takes the place of the part, with the bytes that may be read behind it. */
static int take_image(const char *name, struct image *image, struct jpeg_part *part)
{
	size_t bytes = (size_t)image->width * (size_t)image->height * 3;
	uint8_t *pixels;

	if (part->top > image->height - part->height || part->left > image->width - part->width)
		return error_set(STATUS_DATA, "%s: image of %d x %d pixels, smaller than expected", name,
			image->width, image->height);
	pixels = realloc(image->data, bytes + JPEG_SLACK);
	if (!pixels)
		return error_set(STATUS_FAILURE, "out of memory (%zu bytes for an image)", bytes);
	memset(pixels + bytes, 0, JPEG_SLACK);
	free(part->pixels);
	*part = (struct jpeg_part){
		.channels = 3,
		.denominator = 1,
		.height = image->height,
		.width = image->width,
		.image_height = image->height,
		.image_width = image->width,
		.pixels = pixels,
		.capacity = bytes + JPEG_SLACK,
	};
	image->data = NULL;
	return STATUS_OK;
}

int video_decode(const char *name, const void *data, size_t bytes, struct jpeg_part *part)
{
	struct image image = {0};
	int status;

	if (is_jpeg(data, bytes))
		return jpeg_decode_part(name, data, bytes, part);
	if (part->channels != 3)
		return error_set(STATUS_DATA, "%s: a grey JPEG is expected", name);
	status = image_decode_rgb(name, data, bytes, &image);
	if (!status)
		status = take_image(name, &image, part);
	image_release(&image);
	return status;
}

int video_decode_size(const char *name, const void *data, size_t bytes, int *height, int *width)
{
	struct image image = {0};
	int status;

	if (is_jpeg(data, bytes))
		return jpeg_size(name, data, bytes, height, width);
	status = image_decode_rgb(name, data, bytes, &image);
	*height = image.height;
	*width = image.width;
	image_release(&image);
	return status;
}
