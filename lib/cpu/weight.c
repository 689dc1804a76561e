/*
 * Weight gradients: for each tap of the kernel dw[tap] = sum over output pixels of x^T dy, where both lie. A linear layer
 * is a convolution with one tap over one line of pixels. Sums are chains of at most PIXELS terms, added in order; where
 * dw is too small to be shared out, the pixels are split as well, by a rule that knows the shape alone.
 */
#include <string.h>

#include "cpu/bf16_convolution.h"
#include "cpu/winograd.h"

#define PIXELS 256
#define CHANNEL_BLOCK 112
#define OUT_PANELS 2
#define ENOUGH_PIECES 8 /* pixels are not split beyond this */
#define SPLIT_PIXELS 512

/* How one weight gradient is dealt out. */
struct weight_plan {
	int64_t wide;          /* columns of a block */
	int64_t rows, columns; /* blocks of channels and of output channels, of one group and tap */
	int64_t taps, splits;
	int64_t count; /* elements of dw */
};

/* Frames of all samples of dy. */
static int64_t output_images(const struct convolution_shape *s)
{
	return s->samples * s->out_frames;
}

static struct weight_plan weight_plan(const struct cpu_device *device, const struct convolution_shape *s)
{
	struct weight_plan p = {.wide = device->kernels->panel * OUT_PANELS,
		.taps = s->frame_kernel * s->kernel[0] * s->kernel[1]};
	p.rows = divide_up(s->group_channels, CHANNEL_BLOCK);
	p.columns = divide_up(s->group_out, p.wide);
	p.count = p.taps * s->group_channels * s->out;
	const int64_t blocks = s->groups * p.taps * p.rows * p.columns;
	const int64_t images = output_images(s), pixels = images * s->out_height * s->out_width;
	/* Images are split; the one line of a linear layer by pixels. */
	const int64_t most = images > 1 ? images : s->out_height == 1 ? s->out_width : 1;
	p.splits = smaller(divide_up(ENOUGH_PIECES, blocks), smaller(most, larger(1, pixels / SPLIT_PIXELS)));
	return p;
}

/* A block of dw: `channels` by `columns`, from the pixels [first_pixel, end_pixel) of each line of the images
 * [first_image, end_image). */
struct weight_block {
	int64_t channels, columns, first_image, end_image, first_pixel, end_pixel;
	const float *x, *dy; /* at the block's first channel */
	float *dw, *packed;
	bool accumulate;
};

/* Outputs [*first, *end) along one axis that read inside the input by this tap. */
static void valid_outputs(
	int64_t tap, int64_t stride, int64_t pad, int64_t size, int64_t outputs, int64_t *first, int64_t *end)
{
	const int64_t shift = pad - tap;
	*first = shift > 0 ? divide_up(shift, stride) : 0;
	*end = size - 1 + shift >= 0 ? smaller(outputs, (size - 1 + shift) / stride + 1) : 0;
	*first = smaller(*first, *end);
}

/* Lines of dy, one panel wide, behind one another. */
static void pack_lines(const struct convolution_shape *s, float *to, const float *dy, int64_t lines,
	int64_t pixels, int64_t columns)
{
	for (int64_t h = 0; h < lines; h++)
		for (int64_t w = 0; w < pixels; w++, to += columns)
			memcpy(to, dy + (h * s->out_width + w) * s->out, (size_t)columns * sizeof *to);
}

/* Adds one chain, `lines` lines of `pixels` pixels from x and dy on, to all of the block. */
static void weight_chain(const struct cpu_device *device, const struct convolution_shape *s,
	const struct weight_block *block, const float *x, const float *dy, int64_t lines, int64_t pixels,
	bool accumulate)
{
	const int64_t wide = device->kernels->panel;
	for (int64_t j = 0; j < block->columns; j += wide) {
		const int64_t columns = smaller(wide, block->columns - j);
		const bool packs = s->out > wide && block->channels > 16;
		const struct strip strip = {
			.a = x,
			.a_row = 1,
			.a_step = s->stride[1] * s->channels,
			.a_segment = s->stride[0] * s->width * s->channels,
			.b = packs ? block->packed : dy + j,
			.b_step = packs ? columns : s->out,
			.b_segment = packs ? pixels * columns : s->out_width * s->out,
			.c = block->dw + j,
			.c_row = s->out,
			.rows = block->channels,
			.segments = lines,
			.length = pixels,
			.columns = (int)columns,
			.accumulate = accumulate,
		};
		if (packs)
			pack_lines(s, block->packed, dy + j, lines, pixels, columns);
		device->kernels->strip(&strip);
	}
}

/* The frame of x that output image i reads by this tap; -1: padding. */
static int64_t input_image(const struct convolution_shape *s, int64_t i, int64_t tap)
{
	const int64_t frame = i % s->out_frames * s->frame_stride + tap - s->frame_pad;
	return frame < 0 || frame >= s->frames ? -1 : i / s->out_frames * s->frames + frame;
}

/* One block of one tap: of frames, rows and columns. */
static void weight_tap(const struct cpu_device *device, const struct convolution_shape *s, int64_t tap,
	const struct weight_block *block)
{
	const int64_t column = tap % s->kernel[1], row = tap / s->kernel[1] % s->kernel[0];
	int64_t top, bottom, left, right;
	valid_outputs(row, s->stride[0], s->pad[0], s->height, s->out_height, &top, &bottom);
	valid_outputs(column, s->stride[1], s->pad[1], s->width, s->out_width, &left, &right);
	left = larger(left, block->first_pixel);
	right = larger(left, smaller(right, block->end_pixel));
	const int64_t width = right - left, lines = larger(1, PIXELS / larger(1, width)),
		      cuts = divide_up(width, PIXELS);
	bool accumulate = block->accumulate;
	for (int64_t i = block->first_image; i < block->end_image && width > 0; i++) {
		const int64_t image = input_image(s, i, tap / s->kernel[1] / s->kernel[0]);
		for (int64_t h = top; h < bottom && image >= 0; h += lines) {
			const int64_t from =
				(image * s->height + h * s->stride[0] + row - s->pad[0]) * s->width;
			for (int64_t cut = 0; cut < cuts; cut++) {
				const int64_t w = left + width * cut / cuts,
					      end = left + width * (cut + 1) / cuts;
				const float *x = block->x +
						 (from + w * s->stride[1] + column - s->pad[1]) * s->channels;
				const float *dy =
					block->dy + ((i * s->out_height + h) * s->out_width + w) * s->out;
				weight_chain(device, s, block, x, dy, smaller(lines, bottom - h), end - w,
					accumulate);
				accumulate = true;
			}
		}
	}
	for (int64_t c = 0; c < block->channels && !accumulate; c++)
		memset(block->dw + c * s->out, 0, (size_t)block->columns * sizeof *block->dw);
}

struct weight_job {
	const struct cpu_device *device;
	const struct convolution_shape *shape;
	struct weight_plan plan;
	const float *x, *dy;
	float *dw, *parts, *packed; /* parts: dw of the splits behind the first */
	bool accumulate;
};

/* Pieces: splits, groups, taps, blocks of channels, blocks of output channels. */
static void weight_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct convolution_shape *s = job->shape;
	const struct weight_plan *p = &job->plan;
	const int64_t column = i % p->columns, row = i / p->columns % p->rows,
		      rest = i / p->columns / p->rows;
	const int64_t tap = rest % p->taps, group = rest / p->taps % s->groups,
		      split = rest / p->taps / s->groups;
	const int64_t channel = s->group_channels * row / p->rows,
		      j = group * s->group_out + column * p->wide;
	const int64_t all = output_images(s);
	const bool images = all > 1;
	float *dw = split ? job->parts + (split - 1) * p->count : job->dw;
	const struct weight_block block = {
		.channels = s->group_channels * (row + 1) / p->rows - channel,
		.columns = smaller(p->wide, s->group_out - column * p->wide),
		.first_image = images ? all * split / p->splits : 0,
		.end_image = images ? all * (split + 1) / p->splits : 1,
		.first_pixel = images ? 0 : s->out_width * split / p->splits,
		.end_pixel = images ? s->out_width : s->out_width * (split + 1) / p->splits,
		.x = job->x + group * s->group_channels + channel,
		.dy = job->dy + j,
		.dw = dw + (tap * s->group_channels + channel) * s->out + j,
		.packed = job->packed + thread * PIXELS * job->device->kernels->panel,
		.accumulate = job->accumulate && split == 0,
	};
	weight_tap(job->device, s, tap, &block);
}

static size_t weight_workspace(const struct cpu_device *device, const struct convolution_shape *s)
{
	if (device->bf16)
		return bf16_weight_workspace(device, s);
	const struct weight_plan plan = weight_plan(device, s);
	return aligned_bytes(device->threads * PIXELS * device->kernels->panel, sizeof(float)) +
	       aligned_bytes((plan.splits - 1) * plan.count, sizeof(float));
}

static void weight_gradient(
	const struct cpu_device *device, const struct convolution_shape *s, const struct call *call)
{
	if (device->bf16) {
		bf16_weight(device, s, call);
		return;
	}
	const struct weight_plan plan = weight_plan(device, s);
	const double work =
		(double)(output_images(s) * s->out_height * s->out_width) * (double)plan.count / 8;
	struct weight_job job = {device, s, plan, call->in_data[0], call->in_data[1], call->out_data[0], NULL,
		NULL, accumulates(call, 0)};
	void *workspace = call->workspace;
	job.packed =
		workspace_take(&workspace, device->threads * PIXELS * device->kernels->panel, sizeof(float));
	job.parts = workspace;
	const struct weight_plan *p = &job.plan;
	cpu_share(device, work, p->splits * s->groups * p->taps * p->rows * p->columns, weight_piece, &job);
	for (int64_t split = 1; split < p->splits; split++)
		device->kernels->add(job.dw, job.dw, job.parts + (split - 1) * p->count, p->count);
}

/* The bias gradient, from the same workspace when the weights are done. */
static size_t bias_workspace(const struct call *call)
{
	const struct tensor *dy = call->in[1];
	return call->out[1] ? cpu_column_sums_bytes(1, row_count(dy), last_dim(dy)) : 0;
}

static void bias_gradient(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *dy = call->in[1];
	if (call->out[1])
		cpu_column_sums(device, call->out_data[1], call->in_data[1], 1, row_count(dy), last_dim(dy),
			accumulates(call, 1), call->workspace);
}

static size_t larger_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t cpu_convolution_weight_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->in[0], call->in[1]);
	struct winograd winograd;
	const size_t bytes = !device->bf16 && winograd_forward(&s, &winograd)
				     ? winograd_weight_workspace(device, &winograd)
				     : weight_workspace(device, &s);
	return larger_of(bytes, bias_workspace(call));
}

void cpu_convolution_weight(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s =
		convolution_shape(&call->node->convolution, call->in[0], call->in[1]);
	struct winograd winograd;
	if (!device->bf16 && winograd_forward(&s, &winograd)) {
		winograd.source = call->in_data[0];
		winograd_weight_run(device, &winograd, call->in_data[1], call->out_data[0],
			accumulates(call, 0), call->workspace);
	} else {
		weight_gradient(device, &s, call);
	}
	bias_gradient(device, call);
}

static struct convolution_shape linear_shape(const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), in = last_dim(call->in[0]), out = last_dim(call->in[1]);
	return (struct convolution_shape){
		.samples = 1,
		.frames = 1,
		.height = 1,
		.width = rows,
		.channels = in,
		.out_frames = 1,
		.out_height = 1,
		.out_width = rows,
		.out = out,
		.frame_kernel = 1,
		.frame_stride = 1,
		.kernel = {1, 1},
		.stride = {1, 1},
		.groups = 1,
		.group_channels = in,
		.group_out = out,
	};
}

size_t cpu_linear_weight_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s = linear_shape(call);
	return larger_of(weight_workspace(device, &s), bias_workspace(call));
}

void cpu_linear_weight(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s = linear_shape(call);
	weight_gradient(device, &s, call);
	bias_gradient(device, call);
}
