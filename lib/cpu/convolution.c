/*
 * Convolution and its data gradient, as products without a patch matrix: in a window of a frame, padded by copying it, the
 * kernel's columns and channels lie behind one another, so a row of outputs is a strip whose segments are the kernel's rows.
 * The frames of a 3D convolution are added tap by tap; those that only see padding are left out. The data gradient is the
 * same over dy, one such product for each residue of the stride.
 */
#include "cpu/convolution.h"

#include <string.h>

#include "cpu/bf16_convolution.h"
#include "cpu/product.h"
#include "cpu/winograd.h"

#define WINDOW_FLOATS 65536 /* of one thread's window, roughly */

struct convolution_shape convolution_shape(
	const struct convolution *convolution, const struct tensor *x, const struct tensor *y)
{
	const int axis = x->dims - 4; /* of the height, among the axes */
	struct convolution_shape s = {
		.samples = x->dim[0],
		.frames = axis ? x->dim[1] : 1,
		.height = x->dim[axis + 1],
		.width = x->dim[axis + 2],
		.channels = last_dim(x),
		.out_frames = axis ? y->dim[1] : 1,
		.out_height = y->dim[axis + 1],
		.out_width = y->dim[axis + 2],
		.out = last_dim(y),
		.frame_kernel = axis ? convolution->kernel[0] : 1,
		.frame_stride = axis && convolution->stride[0] ? convolution->stride[0] : 1,
		.frame_pad = axis ? convolution->pad_before[0] : 0,
		.groups = convolution->groups ? convolution->groups : 1,
	};
	for (int i = 0; i < 2; i++) {
		s.kernel[i] = convolution->kernel[axis + i];
		s.stride[i] = convolution->stride[axis + i] ? convolution->stride[axis + i] : 1;
		s.pad[i] = convolution->pad_before[axis + i];
	}
	s.group_channels = s.channels / s.groups;
	s.group_out = s.out / s.groups;
	return s;
}

bool convolution_is_pointwise(const struct convolution_shape *s)
{
	return s->kernel[0] == 1 && s->kernel[1] == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
	       s->pad[0] == 0 && s->pad[1] == 0 && s->groups == 1 && s->height == s->out_height &&
	       s->width == s->out_width && s->frame_kernel == 1 && s->frame_stride == 1 &&
	       s->frame_pad == 0 && s->frames == s->out_frames;
}

/* Rows of outputs that one window serves. */
static int64_t window_rows(const struct correlation *c)
{
	const int64_t row = ((c->out_width - 1) * c->step[1] + c->kernel[1]) * c->channels * c->step[0];
	const int64_t blocks = divide_up(c->out_height, larger(1, WINDOW_FLOATS / row));
	return divide_up(c->out_height, blocks);
}

static int64_t window_floats(const struct correlation *c)
{
	const int64_t rows = (window_rows(c) - 1) * c->step[0] + c->kernel[0];
	return rows * ((c->out_width - 1) * c->step[1] + c->kernel[1]) * c->channels;
}

/* One row of a window: `width` pixels from column `left` on; row lies inside the source. */
static void window_row(const struct cpu_device *device, const struct correlation *c, float *to,
	const float *line, int64_t left, int64_t width)
{
	const int64_t start = smaller(width, larger(0, -left)),
		      end = larger(start, smaller(width, c->width - left));
	memset(to, 0, (size_t)(start * c->channels) * sizeof *to);
	if (c->pixel == c->channels) {
		memcpy(to + start * c->channels, line + (left + start) * c->pixel,
			(size_t)((end - start) * c->channels) * sizeof *to);
	} else {
		device->kernels->copy_rows(to + start * c->channels, c->channels,
			line + (left + start) * c->pixel, c->pixel, end - start, c->channels);
	}
	memset(to + end * c->channels, 0, (size_t)((width - end) * c->channels) * sizeof *to);
}

/* The window that output rows [first, first + rows) read of a frame of the source. */
static void window_copy(const struct cpu_device *device, const struct correlation *c, float *to,
	int64_t frame, int64_t first, int64_t rows)
{
	const int64_t width = (c->out_width - 1) * c->step[1] + c->kernel[1];
	const int64_t count = (rows - 1) * c->step[0] + c->kernel[0], top = first * c->step[0] + c->origin[0];
	const float *source = c->source + frame * c->height * c->width * c->pixel;
	for (int64_t r = 0; r < count; r++) {
		int64_t h = top + r;
		float *row = to + r * width * c->channels;
		if (h < 0 || h >= c->height)
			memset(row, 0, (size_t)(width * c->channels) * sizeof *row);
		else
			window_row(device, c, row, source + h * c->width * c->pixel, c->origin[1], width);
	}
}

/* Rows of outputs at `out` from their window by one tap of frames, the first or a later one: chains of whole or cut kernel
 * rows. */
static void correlate_window(const struct cpu_device *device, const struct correlation *c,
	const float *window, float *out, int64_t rows, int64_t tap, bool first)
{
	const int64_t width = (c->out_width - 1) * c->step[1] + c->kernel[1], wide = device->kernels->panel;
	const int64_t depth = c->kernel[1] * c->channels, total = c->kernel[0] * depth;
	const bool whole = total <= PRODUCT_CHAIN;
	const int64_t cuts = whole ? 1 : divide_up(depth, PRODUCT_CHAIN),
		      chains = whole ? 1 : c->kernel[0] * cuts;
	for (int64_t chain = 0; chain < chains; chain++) {
		const int64_t row = chain / cuts, k = depth * (chain % cuts) / cuts;
		const int64_t length = depth * (chain % cuts + 1) / cuts - k, start = row * depth + k;
		for (int64_t j = 0; j < c->columns; j += wide) {
			const int64_t columns = smaller(wide, c->columns - j),
				      b_step = c->packed ? columns : c->b_step;
			struct strip strip = {
				.a_row = c->step[1] * c->channels,
				.a_step = 1,
				.a_segment = width * c->channels,
				.b = (c->packed ? c->b + j * total * c->frame_kernel : c->b + j) +
				     (tap * total + start) * b_step,
				.b_step = b_step,
				.b_segment = depth * b_step,
				.c_row = c->out_pixel,
				.bias = c->bias && first && chain == 0 ? c->bias + j : NULL,
				.rows = c->out_width,
				.segments = whole ? c->kernel[0] : 1,
				.length = length,
				.columns = (int)columns,
				.accumulate = c->accumulate || !first || chain > 0,
			};
			for (int64_t h = 0; h < rows; h++) {
				strip.a = window + (h * c->step[0] + row) * width * c->channels + k;
				strip.c = out + h * c->out_row + j;
				device->kernels->strip(&strip);
			}
		}
	}
}

static double correlation_work(const struct correlation *c)
{
	return (double)(c->samples * c->out_frames * c->out_height * c->out_width) *
	       (double)(c->frame_kernel * c->kernel[0] * c->kernel[1]) * (double)(c->channels * c->columns) /
	       8;
}

struct correlation_job {
	const struct cpu_device *device;
	const struct correlation *correlation;
	float *windows; /* one of window_floats() for each thread, `stride` floats apart */
	int64_t stride;
};

/* Rows of outputs that no tap reaches. */
static void clear_rows(const struct correlation *c, float *out, int64_t rows)
{
	for (int64_t h = 0; h < rows && !c->accumulate; h++)
		for (int64_t w = 0; w < c->out_width; w++) {
			float *pixel = out + h * c->out_row + w * c->out_pixel;
			if (c->bias)
				memcpy(pixel, c->bias, (size_t)c->columns * sizeof *pixel);
			else
				memset(pixel, 0, (size_t)c->columns * sizeof *pixel);
		}
}

/* A block of rows of one frame of outputs. */
static void correlation_piece(void *context, int64_t i, int thread)
{
	const struct correlation_job *job = context;
	const struct correlation *c = job->correlation;
	const int64_t block = window_rows(c), blocks = divide_up(c->out_height, block);
	const int64_t row = i % blocks * block, rows = smaller(block, c->out_height - row);
	const int64_t sample = i / blocks / c->out_frames, frame = i / blocks % c->out_frames;
	float *window = job->windows + thread * job->stride,
	      *out = c->out + sample * c->out_sample + frame * c->out_frame + row * c->out_row;
	bool first = true;
	for (int64_t tap = 0; tap < c->frame_kernel; tap++) {
		const int64_t from = frame * c->frame_step + c->frame_origin + tap;
		if (from < 0 || from >= c->frames)
			continue;
		window_copy(job->device, c, window, sample * c->frames + from, row, rows);
		correlate_window(job->device, c, window, out, rows, tap, first);
		first = false;
	}
	if (first)
		clear_rows(c, out, rows);
}

static void correlate(
	const struct cpu_device *device, const struct correlation *c, float *windows, int64_t stride)
{
	struct correlation_job job = {device, c, windows, stride};
	cpu_share(device, correlation_work(c),
		c->samples * c->out_frames * divide_up(c->out_height, window_rows(c)), correlation_piece,
		&job);
}

/* ---- forward ---- */

struct correlation convolution_forward(const struct convolution_shape *s)
{
	return (struct correlation){
		.samples = s->samples,
		.frames = s->frames,
		.height = s->height,
		.width = s->width,
		.pixel = s->channels,
		.channels = s->group_channels,
		.frame_kernel = s->frame_kernel,
		.frame_step = s->frame_stride,
		.frame_origin = -s->frame_pad,
		.kernel = {s->kernel[0], s->kernel[1]},
		.step = {s->stride[0], s->stride[1]},
		.origin = {-s->pad[0], -s->pad[1]},
		.out_frames = s->out_frames,
		.out_height = s->out_height,
		.out_width = s->out_width,
		.columns = s->group_out,
		.out_sample = s->out_frames * s->out_height * s->out_width * s->out,
		.out_frame = s->out_height * s->out_width * s->out,
		.out_row = s->out_width * s->out,
		.out_pixel = s->out,
		.b_step = s->out,
	};
}

static struct product pointwise_product(const struct convolution_shape *s, const struct call *call)
{
	return (struct product){
		.rows = s->samples * s->frames * s->height * s->width,
		.columns = s->out,
		.depth = s->channels,
		.a = call->in_data[0],
		.a_row = s->channels,
		.b = call->in_data[1],
		.b_step = s->out,
		.b_column = 1,
		.bias = call->in_data[2],
		.c = call->out_data[0],
		.c_row = s->out,
		.accumulate = accumulates(call, 0),
	};
}

static bool forward_packs(const struct cpu_device *device, const struct convolution_shape *s)
{
	return s->out > device->kernels->panel;
}

size_t cpu_convolution_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->in[0], call->out[0]);
	struct winograd winograd;
	if (device->bf16 && !convolution_is_pointwise(&s))
		return bf16_convolution_workspace(device, &s);
	if (winograd_forward(&s, &winograd))
		return winograd_workspace(device, &winograd);
	if (convolution_is_pointwise(&s)) {
		const struct product product = pointwise_product(&s, call);
		return product_workspace(device, &product);
	}
	const struct correlation c = convolution_forward(&s);
	const int64_t weights = s.frame_kernel * s.kernel[0] * s.kernel[1] * s.group_channels * s.group_out;
	return (size_t)device->threads * aligned_bytes(window_floats(&c), sizeof(float)) +
	       (forward_packs(device, &s) ? aligned_bytes(weights, sizeof(float)) : 0);
}

/* The weights of one group in panels; frames of the kernel that see padding alone stay out. */
static void pack_weights(const struct cpu_device *device, const struct convolution_shape *s,
	const struct correlation *c, const float *weight, float *to)
{
	const int64_t tap = s->kernel[0] * s->kernel[1] * s->group_channels;
	const int64_t last = (c->out_frames - 1) * c->frame_step + c->frame_origin;
	const int64_t first = larger(0, -last), end = smaller(c->frame_kernel, c->frames - c->frame_origin);
	if (first >= end)
		return;
	panels_pack(device, &(struct panels){.to = to,
				    .total = tap * c->frame_kernel,
				    .first = tap * first,
				    .b = weight + first * tap * s->out,
				    .b_step = s->out,
				    .b_column = 1,
				    .depth = tap * (end - first),
				    .columns = s->group_out});
}

void cpu_convolution(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->in[0], call->out[0]);
	struct winograd winograd;
	if (device->bf16 && !convolution_is_pointwise(&s)) {
		bf16_convolution(device, &s, call);
		return;
	}
	if (winograd_forward(&s, &winograd)) {
		winograd.source = call->in_data[0];
		winograd.weight = call->in_data[1];
		winograd.bias = call->in_data[2];
		winograd.out = call->out_data[0];
		winograd.accumulate = accumulates(call, 0);
		winograd_run(device, &winograd, call->workspace);
		return;
	}
	if (convolution_is_pointwise(&s)) {
		const struct product product = pointwise_product(&s, call);
		product_run(device, &product, call->workspace);
		return;
	}
	const float *x = call->in_data[0], *weight = call->in_data[1], *bias = call->in_data[2];
	struct correlation c = convolution_forward(&s);
	const int64_t stride = (int64_t)(aligned_bytes(window_floats(&c), sizeof(float)) / sizeof(float));
	float *windows = call->workspace, *packed = windows + device->threads * stride;
	c.accumulate = accumulates(call, 0);
	c.packed = forward_packs(device, &s);
	for (int64_t g = 0; g < s.groups; g++) {
		if (c.packed)
			pack_weights(device, &s, &c, weight + g * s.group_out, packed);
		c.source = x + g * s.group_channels;
		c.b = c.packed ? packed : weight + g * s.group_out;
		c.bias = bias ? bias + g * s.group_out : NULL;
		c.out = (float *)call->out_data[0] + g * s.group_out;
		correlate(device, &c, windows, stride);
	}
}

/* ---- gradient of the input ---- */

static struct residue residue_of(int64_t r, int64_t kernel, int64_t stride, int64_t pad, int64_t size)
{
	/* input i = r + stride * q takes part in output o by tap k where o * stride + k - pad = i */
	const int64_t first = (r + pad) % stride,
		      taps = first < kernel ? (kernel - first - 1) / stride + 1 : 0;
	return (struct residue){
		.first = first,
		.taps = taps,
		.origin = (r + pad - first) / stride - (taps - 1),
		.outputs = r < size ? (size - r - 1) / stride + 1 : 0,
	};
}

int64_t convolution_residues(const struct convolution_shape *s)
{
	return s->frame_stride * s->stride[0] * s->stride[1];
}

struct correlation convolution_data(
	const struct convolution_shape *s, int64_t residue, struct residue axis[3], int64_t *start)
{
	const int64_t frame = residue / s->stride[1] / s->stride[0],
		      row = residue / s->stride[1] % s->stride[0], column = residue % s->stride[1];
	axis[0] = residue_of(frame, s->frame_kernel, s->frame_stride, s->frame_pad, s->frames);
	axis[1] = residue_of(row, s->kernel[0], s->stride[0], s->pad[0], s->height);
	axis[2] = residue_of(column, s->kernel[1], s->stride[1], s->pad[1], s->width);
	*start = ((frame * s->height + row) * s->width + column) * s->channels;
	return (struct correlation){
		.samples = s->samples,
		.frames = s->out_frames,
		.height = s->out_height,
		.width = s->out_width,
		.pixel = s->out,
		.channels = s->group_out,
		.frame_kernel = axis[0].taps,
		.frame_step = 1,
		.frame_origin = axis[0].origin,
		.kernel = {axis[1].taps, axis[2].taps},
		.step = {1, 1},
		.origin = {axis[1].origin, axis[2].origin},
		.out_frames = axis[0].outputs,
		.out_height = axis[1].outputs,
		.out_width = axis[2].outputs,
		.columns = s->group_channels,
		.out_sample = s->frames * s->height * s->width * s->channels,
		.out_frame = s->frame_stride * s->height * s->width * s->channels,
		.out_row = s->stride[0] * s->width * s->channels,
		.out_pixel = s->stride[1] * s->channels,
		.packed = true,
	};
}

static struct product pointwise_data_product(const struct convolution_shape *s, const struct call *call)
{
	return (struct product){
		.rows = s->samples * s->frames * s->height * s->width,
		.columns = s->channels,
		.depth = s->out,
		.a = call->in_data[0],
		.a_row = s->out,
		.b = call->in_data[1],
		.b_step = 1,
		.b_column = s->out,
		.c = call->out_data[0],
		.c_row = s->channels,
		.accumulate = accumulates(call, 0),
	};
}

/* Largest window and weights over the residues. */
static void data_sizes(const struct convolution_shape *s, int64_t *window, int64_t *weights)
{
	*window = *weights = 1;
	for (int64_t r = 0; r < convolution_residues(s); r++) {
		struct residue axis[3];
		int64_t start;
		const struct correlation c = convolution_data(s, r, axis, &start);
		const int64_t depth = c.frame_kernel * c.kernel[0] * c.kernel[1] * c.channels;
		if (depth == 0 || c.out_frames == 0 || c.out_height == 0 || c.out_width == 0)
			continue;
		*window = larger(*window, window_floats(&c));
		*weights = larger(*weights, depth * c.columns);
	}
}

size_t cpu_convolution_data_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->out[0], call->in[0]);
	int64_t window, weights;
	struct winograd winograd;
	if (device->bf16 && !convolution_is_pointwise(&s))
		return bf16_convolution_data_workspace(device, &s);
	if (winograd_data(&s, &winograd))
		return winograd_workspace(device, &winograd);
	if (convolution_is_pointwise(&s)) {
		const struct product product = pointwise_data_product(&s, call);
		return product_workspace(device, &product);
	}
	data_sizes(&s, &window, &weights);
	return (size_t)device->threads * aligned_bytes(window, sizeof(float)) +
	       aligned_bytes(weights, sizeof(float));
}

/* Turned taps: [frame][row][column][out of the group] x [channels of the group] in panels. */
static void pack_taps(const struct cpu_device *device, const struct convolution_shape *s, const float *weight,
	int64_t group, const struct residue axis[3], float *to)
{
	const int64_t stride[3] = {s->frame_stride, s->stride[0], s->stride[1]};
	const int64_t taps = axis[0].taps * axis[1].taps * axis[2].taps;
	for (int64_t t = 0; t < taps; t++) {
		const int64_t turned[3] = {axis[0].taps - 1 - t / axis[2].taps / axis[1].taps,
			axis[1].taps - 1 - t / axis[2].taps % axis[1].taps,
			axis[2].taps - 1 - t % axis[2].taps};
		int64_t at[3];
		for (int i = 0; i < 3; i++)
			at[i] = axis[i].first + stride[i] * turned[i];
		const float *tap = weight + ((at[0] * s->kernel[0] + at[1]) * s->kernel[1] + at[2]) *
						    s->group_channels * s->out;
		panels_pack(device, &(struct panels){.to = to,
					    .total = taps * s->group_out,
					    .first = t * s->group_out,
					    .b = tap + group * s->group_out,
					    .b_step = 1,
					    .b_column = s->out,
					    .depth = s->group_out,
					    .columns = s->group_channels});
	}
}

/* Inputs that no tap reaches. */
static void clear_frames(const struct correlation *c)
{
	for (int64_t i = 0; i < c->samples * c->out_frames; i++)
		clear_rows(c, c->out + i / c->out_frames * c->out_sample + i % c->out_frames * c->out_frame,
			c->out_height);
}

void cpu_convolution_data(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->out[0], call->in[0]);
	struct winograd winograd;
	if (device->bf16 && !convolution_is_pointwise(&s)) {
		bf16_convolution_data(device, &s, call);
		return;
	}
	if (winograd_data(&s, &winograd)) {
		winograd.source = call->in_data[0];
		winograd.weight = call->in_data[1];
		winograd.out = call->out_data[0];
		winograd.accumulate = accumulates(call, 0);
		winograd_run(device, &winograd, call->workspace);
		return;
	}
	if (convolution_is_pointwise(&s)) {
		const struct product product = pointwise_data_product(&s, call);
		product_run(device, &product, call->workspace);
		return;
	}
	const float *dy = call->in_data[0], *weight = call->in_data[1];
	int64_t window, weights;
	data_sizes(&s, &window, &weights);
	const int64_t stride = (int64_t)(aligned_bytes(window, sizeof(float)) / sizeof(float));
	float *windows = call->workspace, *packed = windows + device->threads * stride;
	for (int64_t i = 0; i < convolution_residues(&s) * s.groups; i++) {
		const int64_t group = i % s.groups;
		struct residue axis[3];
		int64_t start;
		struct correlation c = convolution_data(&s, i / s.groups, axis, &start);
		c.source = dy + group * s.group_out;
		c.b = packed;
		c.out = (float *)call->out_data[0] + start + group * s.group_channels;
		c.accumulate = accumulates(call, 0);
		if (c.out_frames == 0 || c.out_height == 0 || c.out_width == 0)
			continue;
		if (axis[0].taps == 0 || axis[1].taps == 0 || axis[2].taps == 0) {
			clear_frames(&c);
			continue;
		}
		pack_taps(device, &s, weight, group, axis, packed);
		correlate(device, &c, windows, stride);
	}
}
