/* The bfloat16 bodies of convolution.c and weight.c; a call's tensors are those of the operation. */
#ifndef NIGHTSHIFT_CPU_BF16_CONVOLUTION_H
#define NIGHTSHIFT_CPU_BF16_CONVOLUTION_H

#include "cpu/convolution.h"

size_t bf16_convolution_workspace(const struct cpu_device *device, const struct convolution_shape *shape);
void bf16_convolution(
	const struct cpu_device *device, const struct convolution_shape *shape, const struct call *call);
size_t bf16_convolution_data_workspace(
	const struct cpu_device *device, const struct convolution_shape *shape);
void bf16_convolution_data(
	const struct cpu_device *device, const struct convolution_shape *shape, const struct call *call);

/* bf16_weight.c: the weight gradient alone, of any convolution and of linear layers */
size_t bf16_weight_workspace(const struct cpu_device *device, const struct convolution_shape *shape);
void bf16_weight(
	const struct cpu_device *device, const struct convolution_shape *shape, const struct call *call);

#endif
