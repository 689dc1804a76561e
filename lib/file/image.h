/*
 * Images in memory, and the readers chosen by the file's first bytes (never by its name): PNG, JPEG, binary PGM/PPM.
 *
 * Pixels are interleaved rows from the top without padding; 16-bit samples are in host order. Readers are bounded
 * (IMAGE_LIMIT pixels, sizes checked before allocation) and report a file that ends early as STATUS_DATA; nothing is
 * padded or widened silently. EXIF orientation is not applied.
 */
#ifndef NIGHTSHIFT_FILE_IMAGE_H
#define NIGHTSHIFT_FILE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_LIMIT ((size_t)1 << 28) /* pixels */

struct image {
	int width, height;
	int channels; /* 1 or 3 (alpha is refused for RGB input, see image_read) */
	int bits;     /* 8 or 16 */
	void *data;   /* owned; uint8_t or uint16_t, height x width x channels */
};
void image_release(struct image *image);
/* Memory for an image of that size (not zeroed); STATUS_DATA beyond IMAGE_LIMIT. For the readers. */
int image_allocate(struct image *image, int width, int height, int channels, int bits);

/* A file of 8-bit RGB (grey and palette are expanded to RGB, alpha is refused; CMYK JPEG refused): channels 3, bits 8. */
int image_read_rgb(const char *path, struct image *image);
/* A file of 16-bit grey (PNG or PGM with maxval > 255): channels 1, bits 16. 8-bit or colour files are STATUS_DATA. */
int image_read_depth16(const char *path, struct image *image);
/* The same from memory; `name` is for messages. */
int image_decode_rgb(const char *name, const void *data, size_t bytes, struct image *image);
int image_decode_depth16(const char *name, const void *data, size_t bytes, struct image *image);

#endif
