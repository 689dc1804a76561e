/* PNG by libpng: 8-bit RGB and grey, 16-bit grey. The bytes written depend only on the pixels and zlib's version. */
#ifndef NIGHTSHIFT_FILE_PNG_H
#define NIGHTSHIFT_FILE_PNG_H

#include "base/text.h"
#include "file/image.h"

/* Any PNG as it is (1 or 3 channels, 8 or 16 bits; palette expanded; alpha refused). */
int png_decode(const char *name, const void *data, size_t bytes, struct image *image);
/* Appends the encoded image (channels 1 or 3, bits 8 or 16) to `out`. */
int png_encode(const struct image *image, struct text *out);
/* Encodes and publishes. */
int png_publish(const char *path, const struct image *image);

#endif
