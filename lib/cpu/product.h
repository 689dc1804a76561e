/*
 * Matrix products c [rows, columns] (+)= a [rows, depth] b [depth, columns] (+ bias), from strips (kernels.h).
 *
 * a is read where it lies. b is read where it lies or copied into panels first: [panel][depth][width], each panel as wide
 * as a strip, the last one as wide as what is left. Long sums are cut into chains of at most PRODUCT_CHAIN terms.
 */
#ifndef NIGHTSHIFT_CPU_PRODUCT_H
#define NIGHTSHIFT_CPU_PRODUCT_H

#include "cpu/device.h"

#define PRODUCT_CHAIN 384

struct product {
	int64_t rows, columns, depth;
	const float *a, *b, *bias; /* bias [columns] or NULL */
	float *c;
	ptrdiff_t a_row, b_step, b_column, c_row; /* b[k * b_step + j * b_column] */
	bool accumulate;
};

size_t product_workspace(const struct cpu_device *device, const struct product *product);
void product_run(const struct cpu_device *device, const struct product *product, void *workspace);

/* Copies `depth` rows of b into panels of a matrix `total` rows deep, from its row `first` on. */
struct panels {
	float *to;
	int64_t total, first;
	const float *b;
	ptrdiff_t b_step, b_column;
	int64_t depth, columns;
};
void panels_pack(const struct cpu_device *device, const struct panels *panels);

#endif
