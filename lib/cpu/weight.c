/*
 * Weight gradients: for each tap of the kernel dw[tap] = sum over output pixels of x^T dy, where both lie. A linear layer
 * is a convolution with one tap over one line of pixels. Sums are chains of at most PIXELS terms, added in order.
 */
#include "cpu/convolution.h"

#define PIXELS 384
#define CHANNEL_BLOCK 56
#define OUT_PANELS 2

/* A block of dw that is dealt out: channels [channel, channel + channels) by columns [column, column + columns). */
struct weight_block {
	int64_t channel, channels, column, columns;
	const float *x, *dy;
	float *dw;
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

/* Adds one chain, `segments` lines of `length` pixels, to all of the block. */
static void weight_chain(const struct cpu_device *device, const struct convolution_shape *s,
	const struct weight_block *block, struct strip strip)
{
	const int64_t wide = device->kernels->panel;
	const float *dy = strip.b;
	for (int64_t j = 0; j < block->columns; j += wide) {
		strip.b = dy + j;
		strip.c = block->dw + j;
		strip.columns = (int)smaller(wide, block->columns - j);
		strip.rows = block->channels;
		strip.a_row = 1;
		strip.a_step = s->stride[1] * s->channels;
		strip.a_segment = s->stride[0] * s->width * s->channels;
		strip.b_step = s->out;
		strip.b_segment = s->out_width * s->out;
		strip.c_row = s->out;
		device->kernels->strip(&strip);
	}
}

/* One block of one tap. */
static void weight_tap(const struct cpu_device *device, const struct convolution_shape *s, int64_t row,
	int64_t column, const struct weight_block *block)
{
	int64_t top, bottom, left, right;
	valid_outputs(row, s->stride[0], s->pad[0], s->height, s->out_height, &top, &bottom);
	valid_outputs(column, s->stride[1], s->pad[1], s->width, s->out_width, &left, &right);
	const int64_t width = right - left, lines = larger(1, PIXELS / larger(1, width));
	const int64_t cuts = larger(1, divide_up(width, PIXELS));
	bool accumulate = block->accumulate;
	for (int64_t i = 0; i < s->images && width > 0; i++) {
		for (int64_t h = top; h < bottom; h += lines) {
			for (int64_t cut = 0; cut < cuts; cut++) {
				const int64_t w = left + width * cut / cuts,
					      end = left + width * (cut + 1) / cuts;
				const int64_t from =
					(i * s->height + h * s->stride[0] + row - s->pad[0]) * s->width +
					w * s->stride[1] + column - s->pad[1];
				weight_chain(device, s, block,
					(struct strip){.a = block->x + from * s->channels,
						.b = block->dy +
						     ((i * s->out_height + h) * s->out_width + w) * s->out,
						.segments = smaller(lines, bottom - h),
						.length = end - w,
						.accumulate = accumulate});
				accumulate = true;
			}
		}
	}
	if (!accumulate)
		for (int64_t c = 0; c < block->channels; c++)
			for (int64_t j = 0; j < block->columns; j++)
				block->dw[c * s->out + j] = 0;
}

struct weight_job {
	const struct cpu_device *device;
	const struct convolution_shape *shape;
	const float *x, *dy;
	float *dw;
	bool accumulate;
};

/* Pieces: groups, taps, blocks of channels, blocks of output channels. */
static void weight_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct convolution_shape *s = job->shape;
	const int64_t wide = job->device->kernels->panel * OUT_PANELS, taps = s->kernel[0] * s->kernel[1];
	const int64_t rows = divide_up(s->group_channels, CHANNEL_BLOCK),
		      columns = divide_up(s->group_out, wide);
	const int64_t tap = i / (rows * columns) % taps, group = i / (rows * columns * taps);
	const int64_t r = i / columns % rows, j = i % columns * wide;
	struct weight_block block = {.channel = s->group_channels * r / rows,
		.column = group * s->group_out + j,
		.columns = smaller(wide, s->group_out - j),
		.accumulate = job->accumulate};
	(void)thread;
	block.channels = s->group_channels * (r + 1) / rows - block.channel;
	block.x = job->x + group * s->group_channels + block.channel;
	block.dy = job->dy + block.column;
	block.dw = job->dw + (tap * s->group_channels + block.channel) * s->out + block.column;
	weight_tap(job->device, s, tap / s->kernel[1], tap % s->kernel[1], &block);
}

static void weight_gradient(const struct cpu_device *device, const struct convolution_shape *s,
	const float *x, const float *dy, float *dw, bool accumulate)
{
	const int64_t wide = device->kernels->panel * OUT_PANELS, taps = s->kernel[0] * s->kernel[1];
	const int64_t blocks = divide_up(s->group_channels, CHANNEL_BLOCK) * divide_up(s->group_out, wide);
	const double work = (double)(s->images * s->out_height * s->out_width) *
			    (double)(s->group_channels * s->out) * (double)taps / 8;
	struct weight_job job = {device, s, x, dy, dw, accumulate};
	cpu_share(device, work, s->groups * taps * blocks, weight_piece, &job);
}

size_t cpu_convolution_weight_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	const struct tensor *dy = call->in[1];
	return call->out[1] ? cpu_column_sums_bytes(1, row_count(dy), last_dim(dy)) : 0;
}

void cpu_convolution_weight(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *dy = call->in[1];
	const struct convolution_shape s = convolution_shape(&call->node->convolution, call->in[0], dy);
	weight_gradient(
		device, &s, call->in_data[0], call->in_data[1], call->out_data[0], accumulates(call, 0));
	if (call->out[1])
		cpu_column_sums(device, call->out_data[1], call->in_data[1], 1, row_count(dy), last_dim(dy),
			accumulates(call, 1), call->workspace);
}

size_t cpu_linear_weight_workspace(const struct cpu_device *device, const struct call *call)
{
	return cpu_convolution_weight_workspace(device, call);
}

void cpu_linear_weight(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), in = last_dim(call->in[0]), out = last_dim(call->in[1]);
	const struct convolution_shape s = {
		.images = 1,
		.height = 1,
		.width = rows,
		.channels = in,
		.out_height = 1,
		.out_width = rows,
		.out = out,
		.kernel = {1, 1},
		.stride = {1, 1},
		.groups = 1,
		.group_channels = in,
		.group_out = out,
	};
	weight_gradient(
		device, &s, call->in_data[0], call->in_data[1], call->out_data[0], accumulates(call, 0));
	if (call->out[1])
		cpu_column_sums(device, call->out_data[1], call->in_data[1], 1, rows, out,
			accumulates(call, 1), call->workspace);
}
