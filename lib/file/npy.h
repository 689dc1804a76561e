/*
 * NumPy .npy (spec/formats.md section 6): reads numeric and bool kinds of both byte orders, versions 1 to 3; writes 1.0.
 *
 * Complex numbers, long doubles, dates, strings, records and above all objects (pickles) are refused, as are headers
 * over 10,000 bytes, more than 8 dimensions, and files that are longer or shorter than their shape says: STATUS_DATA.
 */
#ifndef NIGHTSHIFT_FILE_NPY_H
#define NIGHTSHIFT_FILE_NPY_H

#include <stddef.h>
#include <stdint.h>

struct npy {
	int dims;
	int64_t dim[8];
	size_t count; /* product of dim */
	char kind;    /* of the file: 'b' 'u' 'i' 'f' */
	int size;     /* of the file: bytes an element */
	float *data;  /* owned, C order, converted to float32 (Fortran order is transposed) */
};
void npy_release(struct npy *array);
/* On failure *array is empty. */
int npy_read(const char *path, struct npy *array);
int npy_decode(const char *name, const void *data, size_t bytes, struct npy *array);
/* Publishes float32 data; the bytes are those of numpy.save(). */
int npy_publish(const char *path, const float *data, int dims, const int64_t *dim);

#endif
