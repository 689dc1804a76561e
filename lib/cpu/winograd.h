/*
 * Convolutions with 3x3 taps and stride 1 by Winograd's F(2x2,3x3), over height and width: 2x2 outputs cost 16 products a
 * channel instead of 36. Frames of a 3D convolution are added in the transformed domain; those that only see padding are left
 * out. The transforms add and halve only, so errors are those of summing the products.
 *
 * Which shapes are done this way is a rule over their sizes. The order of every sum depends on channels and frames alone.
 */
#ifndef NIGHTSHIFT_CPU_WINOGRAD_H
#define NIGHTSHIFT_CPU_WINOGRAD_H

#include "cpu/convolution.h"

/* out[i][f][h][w][:] (+)= bias + sum over p, r, q, c of source[i][f * frame_step + frame_origin + p][h + origin + r][w + origin +
 * q][c] weight[p][r][q][c][:], 0 outside the source. */
struct winograd {
	int64_t samples, frames, height, width, channels; /* of the source */
	int64_t out_frames, out_height, out_width, columns;
	int64_t frame_kernel, frame_step, frame_origin, origin[2];
	const float *source, *weight, *bias; /* bias NULL: none */
	float *out;
	bool turned; /* the weights' taps are turned by half a turn, and lie [taps][columns][channels] */
	bool accumulate;
};

/* False where the shape is better done otherwise; else everything but the pointers and `accumulate`. */
bool winograd_forward(const struct convolution_shape *shape, struct winograd *winograd);
bool winograd_data(const struct convolution_shape *shape, struct winograd *winograd);
size_t winograd_workspace(const struct cpu_device *device, const struct winograd *winograd);
void winograd_run(const struct cpu_device *device, const struct winograd *winograd, void *workspace);

/* winograd_weight.c: weight [taps][channels][columns] (+)= the gradient, of a winograd_forward() with its source and the gradient
 * of its outputs. */
size_t winograd_weight_workspace(const struct cpu_device *device, const struct winograd *winograd);
void winograd_weight_run(const struct cpu_device *device, const struct winograd *winograd,
	const float *gradient, float *weight, bool accumulate, void *workspace);

/* Tiles along a line of outputs. */
static inline int64_t winograd_tiles(int64_t outputs)
{
	return divide_up(outputs, 2);
}

/* Floats of a row of transformed channels: whole cache lines, and one more against strides that are powers of two. */
static inline int64_t winograd_row(int64_t channels)
{
	return divide_up(channels, 16) * 16 + 16;
}

/*
 * Transforms one tile of `size` by `size` pixels (4: inputs, 2: gradients of outputs) of a frame, where its first pixel is at
 * [top][left]; what lies outside the frame is 0. `patch`: size * size * channels floats.
 */
struct winograd_frame {
	const float *pixels;
	int64_t height, width, channels;
};
void winograd_transform(const struct cpu_device *device, const struct winograd_frame *frame, int size,
	int64_t top, int64_t left, float *patch, float *to, ptrdiff_t point);

#endif
