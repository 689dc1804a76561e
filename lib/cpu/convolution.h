/* Sizes of a convolution, as its three operations see them: images [N,H,W,C] in 2D, frames [N,D,H,W,C] in 3D. Forward and
 * data gradient are in convolution.c, the weight gradient in weight.c. */
#ifndef NIGHTSHIFT_CPU_CONVOLUTION_H
#define NIGHTSHIFT_CPU_CONVOLUTION_H

#include "cpu/device.h"

struct convolution_shape {
	int64_t samples, frames, height, width, channels; /* x; one frame a sample in 2D */
	int64_t out_frames, out_height, out_width, out;   /* y */
	int64_t frame_kernel, frame_stride, frame_pad;    /* pad before */
	int64_t kernel[2], stride[2], pad[2];             /* of height and width */
	int64_t groups, group_channels, group_out;
};

/* x [N,H,W,C] and y [N,OH,OW,OUT] of the node's convolution. */
struct convolution_shape convolution_shape(
	const struct convolution *convolution, const struct tensor *x, const struct tensor *y);
/* Each output pixel reads one input pixel, the one at its own place. */
bool convolution_is_pointwise(const struct convolution_shape *shape);

#endif
