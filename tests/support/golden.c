/* Golden numbers: finding them, and what is kept of a large tensor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "support/golden.h"

const float *golden_find(const struct safetensors *file, const char *run, const char *name, size_t count)
{
	const struct safetensor *tensor;
	char full[256];

	snprintf(full, sizeof(full), "%s.%s", run, name);
	tensor = safetensors_find(file, full);
	if (tensor && tensor->bytes == count * sizeof(float))
		return tensor->data;
	error_set(STATUS_DATA, "the golden file has no tensor %s of %zu elements", full, count);
	return NULL;
}

double golden_error(const float *values, const float *expected, size_t count)
{
	double squares = 0, worst = 0;

	for (size_t j = 0; j < count; j++) {
		double error = fabs((double)values[j] - (double)expected[j]);

		squares += (double)expected[j] * (double)expected[j];
		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst / sqrt(squares / (double)count);
}

void golden_row(const float *values, size_t count, double row[GOLDEN_ROW])
{
	double squares = 0, projection = 0;

	for (size_t j = 0; j < count; j++) {
		squares += (double)values[j] * (double)values[j];
		projection += (double)values[j] * cos(0.7 * (double)j + 0.3);
	}
	row[0] = (double)count;
	row[1] = sqrt(squares / (double)count);
	row[2] = projection / sqrt((double)count);
	for (size_t i = 0; i < 8; i++)
		row[3 + i] = values[i * (count - 1) / 7];
}

double golden_row_error(const float *values, size_t count, const float *expected)
{
	double row[GOLDEN_ROW], worst = 0;

	golden_row(values, count, row);
	if (row[0] != (double)expected[0])
		return INFINITY;
	for (int i = 1; i < GOLDEN_ROW; i++) {
		double error = fabs(row[i] - (double)expected[i]);

		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst / (double)expected[1];
}

static int compare_names(const void *a, const void *b, void *context)
{
	const struct store *store = context;

	return strcmp(store_parameter(store, *(const size_t *)a)->name,
		store_parameter(store, *(const size_t *)b)->name);
}

size_t *golden_order(const struct store *store)
{
	size_t *order = memory_new(store_count(store), sizeof(*order));

	for (size_t i = 0; i < store_count(store); i++)
		order[i] = i;
	qsort_r(order, store_count(store), sizeof(*order), compare_names, (void *)store);
	return order;
}
