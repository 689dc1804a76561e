/* Sizes of a 2D convolution, as its three operations see them. Forward and data gradient are in convolution.c, the
 * weight gradient in weight.c. */
#ifndef NIGHTSHIFT_CPU_CONVOLUTION_H
#define NIGHTSHIFT_CPU_CONVOLUTION_H

#include "cpu/device.h"

struct convolution_shape {
	int64_t images, height, width, channels; /* x */
	int64_t out_height, out_width, out;      /* y */
	int64_t kernel[2], stride[2], pad[2];    /* pad before */
	int64_t groups, group_channels, group_out;
};

/* x [N,H,W,C] and y [N,OH,OW,OUT] of the node's convolution. */
struct convolution_shape convolution_shape(
	const struct convolution *convolution, const struct tensor *x, const struct tensor *y);
/* Each output pixel reads one input pixel, the one at its own place. */
bool convolution_is_pointwise(const struct convolution_shape *shape);

#endif
