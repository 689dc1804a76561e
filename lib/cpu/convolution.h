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

/*
 * out[i][f][h][w][:] (+)= sum over p, r, q of source[i][f * step + origin + p][h * step + origin + r][w * step + origin +
 * q][:] b[p][r][q][:][:], 0 outside the source.
 */
struct correlation {
	int64_t samples;
	int64_t frames, frame_kernel, frame_step, frame_origin; /* of the source */
	const float *source;                                    /* first channel of the first pixel */
	int64_t height, width, pixel, channels; /* of the source; floats from pixel to pixel */
	int64_t kernel[2], step[2], origin[2];
	float *out;
	int64_t out_frames, out_height, out_width, columns;
	ptrdiff_t out_sample, out_frame, out_row, out_pixel;
	const float *b, *bias;
	bool packed; /* b is in panels, else it lies [kernel..., channels] with rows b_step apart */
	ptrdiff_t b_step;
	bool accumulate;
};

struct correlation convolution_forward(const struct convolution_shape *shape);

/* Kernel taps along one axis that reach inputs of residue r: the first, how many, and where in dy they start. */
struct residue {
	int64_t first, taps, origin, outputs;
};

/* The data gradient is such a correlation over dy for each residue of the strides: of frames, rows and columns. Its outputs start
 * at float `*start` of dx. */
int64_t convolution_residues(const struct convolution_shape *shape);
struct correlation convolution_data(
	const struct convolution_shape *shape, int64_t residue, struct residue axis[3], int64_t *start);

#endif
