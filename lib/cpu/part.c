/* Parts of tensors: every s-th position with zero channels behind (the parameter-free shortcut of He et al. 2016), and a
 * range of channels. */
#include <string.h>

#include "cpu/device.h"

/* ---- positions ---- */

/* Sizes by axis, an image being one frame; `small` takes positions of `large`. */
struct subsample {
	int64_t samples, small[3], large[3], stride[3], small_channels, large_channels;
};

static struct subsample subsample_sizes(
	const struct node *node, const struct tensor *small, const struct tensor *large)
{
	const int first = 5 - large->dims;
	struct subsample s = {.samples = large->dim[0],
		.small = {1, 1, 1},
		.large = {1, 1, 1},
		.stride = {1, 1, 1},
		.small_channels = last_dim(small),
		.large_channels = last_dim(large)};
	for (int axis = first; axis < 3; axis++) {
		s.small[axis] = small->dim[axis - first + 1];
		s.large[axis] = large->dim[axis - first + 1];
		s.stride[axis] = node->pool.stride[axis - first];
	}
	return s;
}

static void take_line(void *context, int64_t line, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct subsample s = subsample_sizes(call->node, call->out[0], call->in[0]);
	const int64_t row = line % s.small[1], frame = line / s.small[1] % s.small[0],
		      sample = line / s.small[1] / s.small[0];
	const int64_t from = (sample * s.large[0] + frame * s.stride[0]) * s.large[1] + row * s.stride[1];
	const size_t taken = (size_t)s.large_channels * sizeof(float);
	(void)thread;
	for (int64_t w = 0; w < s.small[2]; w++) {
		float *y = (float *)call->out_data[0] + (line * s.small[2] + w) * s.small_channels;
		memcpy(y,
			(const float *)call->in_data[0] +
				(from * s.large[2] + w * s.stride[2]) * s.large_channels,
			taken);
		memset(y + s.large_channels, 0, (size_t)s.small_channels * sizeof(float) - taken);
	}
}

void cpu_subsample(const struct cpu_device *device, const struct call *call)
{
	const struct subsample s = subsample_sizes(call->node, call->out[0], call->in[0]);
	struct cpu_job job = {device, call};
	cpu_share(
		device, (double)call->out[0]->elements, s.samples * s.small[0] * s.small[1], take_line, &job);
}

/* One line of dx: what was taken from it, 0 elsewhere. */
static void give_line(void *context, int64_t line, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct subsample s = subsample_sizes(call->node, call->in[0], call->out[0]);
	const int64_t row = line % s.large[1], frame = line / s.large[1] % s.large[0],
		      sample = line / s.large[1] / s.large[0], width = s.large[2] * s.large_channels;
	float *dx = (float *)call->out_data[0] + line * width;
	(void)thread;
	if (!accumulates(call, 0))
		memset(dx, 0, (size_t)width * sizeof *dx);
	if (row % s.stride[1] || frame % s.stride[0])
		return;
	const int64_t from = (sample * s.small[0] + frame / s.stride[0]) * s.small[1] + row / s.stride[1];
	for (int64_t w = 0; w < s.small[2]; w++) {
		float *to = dx + w * s.stride[2] * s.large_channels;
		job->device->kernels->add(to, to,
			(const float *)call->in_data[0] + (from * s.small[2] + w) * s.small_channels,
			s.large_channels);
	}
}

void cpu_subsample_backward(const struct cpu_device *device, const struct call *call)
{
	const struct subsample s = subsample_sizes(call->node, call->in[0], call->out[0]);
	struct cpu_job job = {device, call};
	cpu_share(
		device, (double)call->out[0]->elements, s.samples * s.large[0] * s.large[1], give_line, &job);
}

/* ---- channels ---- */

#define PIECE 16384 /* elements dealt out at a time */

static int64_t piece_rows(const struct tensor *tensor)
{
	return larger(1, PIECE / last_dim(tensor));
}

static void slice_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]), all = last_dim(call->in[0]),
		      rows = piece_rows(call->in[0]);
	const float *x = (const float *)call->in_data[0] + call->node->first;
	float *y = call->out_data[0];
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->in[0])); r++) {
		if (accumulates(call, 0))
			job->device->kernels->add(y + r * width, y + r * width, x + r * all, width);
		else
			memcpy(y + r * width, x + r * all, (size_t)width * sizeof *y);
	}
}

void cpu_slice(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements,
		divide_up(row_count(call->in[0]), piece_rows(call->in[0])), slice_piece, &job);
}

static void slice_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->in[0]), all = last_dim(call->out[0]),
		      rows = piece_rows(call->out[0]);
	const float *dy = call->in_data[0];
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->out[0])); r++) {
		float *dx = (float *)call->out_data[0] + r * all;
		if (!accumulates(call, 0))
			memset(dx, 0, (size_t)all * sizeof *dx);
		dx += call->node->first;
		job->device->kernels->add(dx, dx, dy + r * width, width);
	}
}

void cpu_slice_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), piece_rows(call->out[0])), slice_backward_piece, &job);
}
