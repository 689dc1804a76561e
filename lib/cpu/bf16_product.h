/*
 * What the bfloat16 bodies share: b in panels, and the matrix products made of them.
 */
#ifndef NIGHTSHIFT_CPU_BF16_PRODUCT_H
#define NIGHTSHIFT_CPU_BF16_PRODUCT_H

#include "cpu/bf16.h"
#include "cpu/product.h"

/*
 * Rounds b [depth, columns] into panels: `to` + panel * `panel` elements is where the panel's steps of these rows start. One of
 * b_step and b_column is 1.
 */
struct bf16_panels {
	uint16_t *to;
	int64_t panel;
	const float *b;
	ptrdiff_t b_step, b_column; /* b[k * b_step + j * b_column] */
	int64_t depth, columns;
};
/* Step `step` of panel `panel`. */
void bf16_pack_step(const struct bf16 *unit, const struct bf16_panels *panels, int64_t panel, int64_t step);

/* struct product in bfloat16; a_row, b and c as there. */
size_t bf16_product_workspace(const struct cpu_device *device, const struct product *product);
void bf16_product_run(const struct cpu_device *device, const struct product *product, void *workspace);

#endif
