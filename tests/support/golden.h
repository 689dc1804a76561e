/*
 * Numbers that other software made, in a safetensors file: for each NAME, in double precision, and NAME.rounding, what that
 * software's single precision differs from it. Rows about a tensor hold GOLDEN_ROW numbers: elements, root mean square, sum of
 * g_j cos(0.7 j + 0.3) over the root of the number of elements, and 8 evenly spaced elements.
 */
#ifndef NIGHTSHIFT_TESTS_GOLDEN_H
#define NIGHTSHIFT_TESTS_GOLDEN_H

#include <stddef.h>
#include "file/safetensors.h"
#include "graph/graph.h"

#define GOLDEN_ROW 11

/* The tensor RUN.NAME of `count` floats; NULL with a message when it is not there. */
const float *golden_find(const struct safetensors *file, const char *run, const char *name, size_t count);
/* Largest error over the root mean square of the expected values. */
double golden_error(const float *values, const float *expected, size_t count);
void golden_row(const float *values, size_t count, double row[GOLDEN_ROW]);
/* Error of a tensor's row in root mean squares of the expected tensor; infinite when it has another size. */
double golden_row_error(const float *values, size_t count, const float *expected);
/* Parameters of the store in byte order of their names; the caller frees it. */
size_t *golden_order(const struct store *store);

#endif
