/*
 * Elements of files as float32: the numeric kinds of npy and safetensors, from either byte order and any alignment.
 */
#ifndef NIGHTSHIFT_FILE_ELEMENT_H
#define NIGHTSHIFT_FILE_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* 'b' bool (any byte but 0 is 1), 'u' 'i' integers of 1, 2, 4, 8 bytes, 'f' IEEE floats of 2, 4, 8, 'B' bfloat16. */
bool element_is_known(char kind, int size);
/* Converts `count` elements (rounding to nearest even where float32 cannot hold a value). The kind must be known. */
void element_to_float(char kind, int size, bool big_endian, const void *in, size_t count, float *out);

#endif
