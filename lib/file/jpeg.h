/* JPEG by libjpeg-turbo (baseline and progressive, grey and YCbCr; accurate integer DCT), to RGB. */
#ifndef NIGHTSHIFT_FILE_JPEG_H
#define NIGHTSHIFT_FILE_JPEG_H

#include "file/image.h"

/* A file that ends before its last marker is STATUS_DATA. */
int jpeg_decode(const char *name, const void *data, size_t bytes, struct image *image);

/* A part of an image, for readers that need no more. Zero it before its first use; the memory is used again by the next one. */
struct jpeg_part {
	int channels;                 /* 3: RGB; 1: a grey image, others are STATUS_DATA */
	int denominator;              /* 1, or 2, 4, 8: the image is decoded at that fraction of its size, rounded up */
	int top, left, height, width; /* what is wanted of the (smaller) image; afterwards what there is: at least that */
	int image_height, image_width; /* of the whole image at its full size; set by the reader */
	uint8_t *pixels;              /* owned; rows of width x channels bytes, and JPEG_SLACK readable bytes behind the last */
	size_t capacity;
};
#define JPEG_SLACK 16
void jpeg_part_release(struct jpeg_part *part);
/* The pixels are those of the whole image, decoded. Damage behind the rows that are wanted may stay unseen. STATUS_DATA where the part
 * reaches beyond the image. */
int jpeg_decode_part(const char *name, const void *data, size_t bytes, struct jpeg_part *part);
int jpeg_size(const char *name, const void *data, size_t bytes, int *height, int *width);

#endif
