/* Binary PGM (P5, 8 or 16 bit big-endian) and PPM (P6, 8 bit). */
#ifndef NIGHTSHIFT_FILE_PNM_H
#define NIGHTSHIFT_FILE_PNM_H

#include "file/image.h"

int pnm_decode(const char *name, const void *data, size_t bytes, struct image *image);

#endif
