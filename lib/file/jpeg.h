/* JPEG by libjpeg-turbo (baseline and progressive, grey and YCbCr; accurate integer DCT), to RGB. */
#ifndef NIGHTSHIFT_FILE_JPEG_H
#define NIGHTSHIFT_FILE_JPEG_H

#include "file/image.h"

/* A file that ends before its last marker is STATUS_DATA. */
int jpeg_decode(const char *name, const void *data, size_t bytes, struct image *image);

#endif
