/*
 * Weight gradients: for each tap of the kernel dw[tap] = sum over output pixels of x^T dy. A linear layer is a convolution with
 * one tap over one line of pixels. For a chain of at most PIXELS terms the window of x, padded, and dy are copied to where they
 * stay in the cache; chains are added in order. Lines and frames of padding are left out. Where dw is too small to be shared
 * out, images (or the pixels of the one line) are split as well, by a rule that knows the shape alone.
 */
#include <string.h>

#include "cpu/bf16_convolution.h"
#include "cpu/winograd.h"

#define PIXELS 128
#define CHANNEL_BLOCK 512
#define OUT_PANELS 8
#define ENOUGH_PIECES 16 /* images are not split beyond this */
#define SPLIT_PIXELS 512
#define FEW_CHANNELS 16 /* up to here the columns of the kernel lie behind one another in a row of a strip */
#define PAD 16          /* floats between pixels, against strides that are powers of two */

/* How one weight gradient is dealt out. */
struct weight_plan {
	bool merged;           /* a row of a block is a column of the kernel and a channel, else a channel */
	int64_t taps, depth;   /* of a frame of the kernel, and rows of one of them */
	int64_t rows, columns; /* blocks of those rows and of output channels, of one group */
	int64_t wide;          /* columns of a block */
	int64_t splits;
	int64_t count;         /* elements of dw */
	int64_t lines, pixels; /* of a chain */
	int64_t take[2],
		step[2]; /* of height and width: what the window takes of x, and the stride in the window */
	int64_t pixel, line;   /* floats of the window's pixels and lines */
	int64_t window, panel; /* floats of a window, of a panel of dy */
};

/* Frames of all samples of dy. */
static int64_t output_images(const struct convolution_shape *s)
{
	return s->samples * s->out_frames;
}

/* Chains of lines, or of parts of a line; the window that one reads. */
static void plan_chains(
	const struct cpu_device *device, const struct convolution_shape *s, struct weight_plan *p)
{
	const int64_t image = s->out_height * s->out_width;
	p->lines = s->out_width > PIXELS ? 1 : divide_up(s->out_height, divide_up(image, PIXELS));
	p->pixels = smaller(PIXELS, s->out_width);
	for (int i = 0; i < 2; i++) {
		p->take[i] = s->kernel[i] == 1 ? s->stride[i] : 1;
		p->step[i] = s->stride[i] / p->take[i];
	}
	p->pixel = p->merged ? s->group_channels : divide_up(divide_up(p->depth, p->rows), PAD) * PAD + PAD;
	p->line = ((p->pixels - 1) * p->step[1] + s->kernel[1]) * p->pixel;
	p->window = divide_up(((p->lines - 1) * p->step[0] + s->kernel[0]) * p->line, PAD) * PAD;
	p->panel = p->lines * p->pixels * device->kernels->panel;
}

static struct weight_plan weight_plan(const struct cpu_device *device, const struct convolution_shape *s)
{
	struct weight_plan p = {.wide = device->kernels->panel * OUT_PANELS};
	p.merged = s->kernel[1] > 1 && s->group_channels <= FEW_CHANNELS;
	p.taps = s->kernel[0] * (p.merged ? 1 : s->kernel[1]);
	p.depth = s->group_channels * (p.merged ? s->kernel[1] : 1);
	p.rows = p.merged ? 1 : divide_up(p.depth, CHANNEL_BLOCK);
	p.columns = divide_up(s->group_out, p.wide);
	p.count = s->frame_kernel * p.taps * p.depth * s->out;
	plan_chains(device, s, &p);
	const int64_t blocks = s->groups * s->frame_kernel * p.rows * p.columns;
	const int64_t images = output_images(s), pixels = images * s->out_height * s->out_width;
	/* Images are split; the one line of a linear layer by pixels. */
	const int64_t most = images > 1 ? images : s->out_height == 1 ? s->out_width : 1;
	p.splits = smaller(divide_up(ENOUGH_PIECES, blocks), smaller(most, larger(1, pixels / SPLIT_PIXELS)));
	return p;
}

struct weight_job {
	const struct cpu_device *device;
	const struct convolution_shape *shape;
	struct weight_plan plan;
	const float *x, *dy;
	float *dw, *parts,
		*scratch; /* parts: dw of the splits behind the first; scratch: a window and panels a thread */
	bool accumulate;
};

static int64_t scratch_floats(const struct weight_plan *p)
{
	return p->window + p->panel * OUT_PANELS;
}

/* A block of dw in one frame of the kernel, from the pixels [first_pixel, end_pixel) of each line of the images [first_image,
 * end_image). */
struct weight_block {
	const struct weight_job *job;
	int64_t frame, row, rows, columns, first_image, end_image, first_pixel, end_pixel;
	const float *x, *dy; /* at the group's first channel, at the block's first */
	float *dw;           /* of the frame's first tap */
	float *window, *panels;
};

/* A chain: pixels [pixel, pixel + pixels) of the lines [line, line + lines) of an image of dy, which reads the frame `from`. */
struct weight_chain {
	int64_t image, from, line, lines, pixel, pixels;
	const float *next[2]; /* what the next chain will read of x and dy */
	int64_t left[2];
};

/* Outputs [*first, *end) along one axis that read inside the input by this tap. */
static void valid_outputs(
	int64_t tap, int64_t stride, int64_t pad, int64_t size, int64_t outputs, int64_t *first, int64_t *end)
{
	const int64_t shift = pad - tap;
	*first = smaller(outputs, shift > 0 ? divide_up(shift, stride) : 0);
	*end = size - 1 + shift >= 0 ? smaller(outputs, (size - 1 + shift) / stride + 1) : 0;
	*end = larger(*first, *end);
}

/* The chain's part of dy in panels [panel][line][pixel][column]. */
static void pack_gradients(const struct weight_block *block, const struct weight_chain *chain)
{
	const struct convolution_shape *s = block->job->shape;
	const struct kernels *kernels = block->job->device->kernels;
	for (int64_t j = 0; j < block->columns; j += kernels->panel) {
		const int64_t columns = smaller(kernels->panel, block->columns - j);
		float *to = block->panels + j / kernels->panel * block->job->plan.panel;
		for (int64_t h = 0; h < chain->lines; h++) {
			const int64_t line = chain->image * s->out_height + chain->line + h;
			kernels->copy_rows(to + h * chain->pixels * columns, columns,
				block->dy + (line * s->out_width + chain->pixel) * s->out + j, s->out,
				chain->pixels, columns);
		}
	}
}

/* One line of the window: `width` pixels from column `left` of x on. */
static void pack_line(
	const struct weight_block *block, float *to, const float *line, int64_t left, int64_t width)
{
	const struct convolution_shape *s = block->job->shape;
	const struct weight_plan *p = &block->job->plan;
	const int64_t take = p->take[1], channels = p->merged ? s->group_channels : block->rows;
	const int64_t start = smaller(width, left < 0 ? divide_up(-left, take) : 0),
		      inside = left < s->width ? (s->width - 1 - left) / take + 1 : 0,
		      end = larger(start, smaller(width, inside));
	memset(to, 0, (size_t)(start * p->pixel) * sizeof *to);
	memset(to + end * p->pixel, 0, (size_t)((width - end) * p->pixel) * sizeof *to);
	to += start * p->pixel;
	line += (left + start * take) * s->channels + (p->merged ? 0 : block->row);
	if (p->pixel == s->channels && take == 1)
		memcpy(to, line, (size_t)((end - start) * channels) * sizeof *to);
	else
		block->job->device->kernels->copy_rows(
			to, p->pixel, line, take * s->channels, end - start, channels);
}

/* The lines of x that the chain reads; those outside are not read later, whatever they hold. */
static void pack_window(const struct weight_block *block, const struct weight_chain *chain)
{
	const struct convolution_shape *s = block->job->shape;
	const struct weight_plan *p = &block->job->plan;
	const int64_t lines = (chain->lines - 1) * p->step[0] + s->kernel[0],
		      width = (chain->pixels - 1) * p->step[1] + s->kernel[1];
	for (int64_t h = 0; h < lines; h++) {
		const int64_t line = chain->line * s->stride[0] - s->pad[0] + h * p->take[0];
		if (line >= 0 && line < s->height)
			pack_line(block, block->window + h * width * p->pixel,
				block->x + (chain->from * s->height + line) * s->width * s->channels,
				chain->pixel * s->stride[1] - s->pad[1], width);
	}
}

/* A part of what the next chain will read, `lines` cache lines of it; NULL when all is on its way. */
static const float *fetch_next(struct weight_chain *chain, int64_t lines)
{
	for (int i = 0; i < 2; i++) {
		if (chain->left[i] <= 0)
			continue;
		const float *next = chain->next[i];
		chain->next[i] += 16 * lines;
		chain->left[i] -= 16 * lines;
		return next;
	}
	return NULL;
}

/* Adds a chain to one tap of the block. */
static void add_chain(const struct weight_block *block, struct weight_chain *chain, int64_t tap)
{
	const struct convolution_shape *s = block->job->shape;
	const struct weight_plan *p = &block->job->plan;
	const struct kernels *kernels = block->job->device->kernels;
	const int64_t row = p->merged ? tap : tap / s->kernel[1], column = p->merged ? 0 : tap % s->kernel[1];
	const int64_t line = ((chain->pixels - 1) * p->step[1] + s->kernel[1]) * p->pixel;
	const int64_t tiles = divide_up(block->rows, kernels->strip_rows);
	int64_t top, bottom;
	valid_outputs(row, s->stride[0], s->pad[0], s->height, s->out_height, &top, &bottom);
	top = larger(0, top - chain->line);
	bottom = smaller(chain->lines, bottom - chain->line);
	for (int64_t j = 0; j < block->columns && top < bottom; j += kernels->panel) {
		const int64_t columns = smaller(kernels->panel, block->columns - j);
		for (int64_t t = 0; t < tiles; t++) {
			const int64_t first = block->rows * t / tiles;
			const struct strip strip = {
				.a = block->window + (top * p->step[0] + row) * line + column * p->pixel +
				     first,
				.a_row = 1,
				.a_step = p->step[1] * p->pixel,
				.a_segment = p->step[0] * line,
				.b = block->panels + j / kernels->panel * p->panel +
				     top * chain->pixels * columns,
				.b_step = columns,
				.b_segment = chain->pixels * columns,
				.next = fetch_next(chain, (bottom - top) * chain->pixels),
				.c = block->dw + (tap * p->depth + first) * s->out + j,
				.c_row = s->out,
				.rows = block->rows * (t + 1) / tiles - first,
				.segments = bottom - top,
				.length = chain->pixels,
				.columns = (int)columns,
				.accumulate = true,
			};
			kernels->strip(&strip);
		}
	}
}

/* What follows the chain in memory will be read next, where blocks are whole rows. */
static void expect_next(const struct weight_block *block, struct weight_chain *chain)
{
	const struct convolution_shape *s = block->job->shape;
	const int64_t pixels = chain->lines * chain->pixels;
	const int64_t line = chain->image * s->out_height + chain->line,
		      from = chain->from * s->height + chain->line * s->stride[0];
	chain->next[0] = block->x + (from * s->width + chain->pixel * s->stride[1]) * s->channels;
	chain->next[0] += pixels * s->stride[0] * s->stride[1] * s->channels;
	chain->next[1] = block->dy + (line * s->out_width + chain->pixel + pixels) * s->out;
	chain->left[0] = block->rows < s->channels && !block->job->plan.merged
				 ? 0
				 : pixels * s->stride[0] * s->stride[1] * s->channels;
	chain->left[1] = block->columns < s->out ? 0 : pixels * s->out;
}

static void add_image(const struct weight_block *block, struct weight_chain *chain)
{
	const struct convolution_shape *s = block->job->shape;
	const struct weight_plan *p = &block->job->plan;
	const int64_t width = block->end_pixel - block->first_pixel, cuts = divide_up(width, p->pixels);
	for (chain->line = 0; chain->line < s->out_height; chain->line += p->lines) {
		chain->lines = smaller(p->lines, s->out_height - chain->line);
		for (int64_t cut = 0; cut < cuts; cut++) {
			chain->pixel = block->first_pixel + width * cut / cuts;
			chain->pixels = block->first_pixel + width * (cut + 1) / cuts - chain->pixel;
			pack_window(block, chain);
			pack_gradients(block, chain);
			expect_next(block, chain);
			for (int64_t tap = 0; tap < p->taps; tap++)
				add_chain(block, chain, tap);
		}
	}
}

/* The images of a block whose frame of x is not padding. */
static void add_images(const struct weight_block *block)
{
	const struct convolution_shape *s = block->job->shape;
	for (int64_t image = block->first_image; image < block->end_image; image++) {
		const int64_t frame = image % s->out_frames * s->frame_stride + block->frame - s->frame_pad;
		struct weight_chain chain = {
			.image = image, .from = image / s->out_frames * s->frames + frame};
		if (frame >= 0 && frame < s->frames)
			add_image(block, &chain);
	}
}

/* Pieces: splits, groups, frames of the kernel, blocks of rows, blocks of output channels. */
static void weight_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct convolution_shape *s = job->shape;
	const struct weight_plan *p = &job->plan;
	const int64_t column = i % p->columns, row = i / p->columns % p->rows,
		      rest = i / p->columns / p->rows;
	const int64_t frame = rest % s->frame_kernel, group = rest / s->frame_kernel % s->groups,
		      split = rest / s->frame_kernel / s->groups;
	const int64_t first = p->depth * row / p->rows, j = group * s->group_out + column * p->wide;
	const int64_t all = output_images(s);
	float *dw = split ? job->parts + (split - 1) * p->count : job->dw,
	      *window = job->scratch + thread * scratch_floats(p);
	const struct weight_block block = {
		.job = job,
		.frame = frame,
		.row = first,
		.rows = p->depth * (row + 1) / p->rows - first,
		.columns = smaller(p->wide, s->group_out - column * p->wide),
		.first_image = all > 1 ? all * split / p->splits : 0,
		.end_image = all > 1 ? all * (split + 1) / p->splits : 1,
		.first_pixel = all > 1 ? 0 : s->out_width * split / p->splits,
		.end_pixel = all > 1 ? s->out_width : s->out_width * (split + 1) / p->splits,
		.x = job->x + group * s->group_channels,
		.dy = job->dy + j,
		.dw = dw + (frame * p->taps * p->depth + first) * s->out + j,
		.window = window,
		.panels = window + p->window,
	};
	for (int64_t k = 0; k < p->taps * block.rows && !(job->accumulate && split == 0); k++)
		memset(block.dw + (k / block.rows * p->depth + k % block.rows) * s->out, 0,
			(size_t)block.columns * sizeof *dw);
	add_images(&block);
}

static size_t weight_workspace(const struct cpu_device *device, const struct convolution_shape *s)
{
	if (device->bf16)
		return bf16_weight_workspace(device, s);
	const struct weight_plan p = weight_plan(device, s);
	return aligned_bytes(device->threads * scratch_floats(&p), sizeof(float)) +
	       aligned_bytes((p.splits - 1) * p.count, sizeof(float));
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
	job.scratch = workspace_take(&workspace, device->threads * scratch_floats(&plan), sizeof(float));
	job.parts = workspace;
	cpu_share(device, work, plan.splits * s->groups * s->frame_kernel * plan.rows * plan.columns,
		weight_piece, &job);
	for (int64_t split = 1; split < plan.splits; split++)
		device->kernels->add(job.dw, job.dw, job.parts + (split - 1) * plan.count, plan.count);
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

/* A linear layer, or the same as a convolution: one line of all pixels. */
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

static struct convolution_shape weight_shape(const struct call *call)
{
	struct convolution_shape s = convolution_shape(&call->node->convolution, call->in[0], call->in[1]);
	if (convolution_is_pointwise(&s))
		return linear_shape(call);
	if (s.kernel[0] == 1 && s.kernel[1] == 1 && s.stride[0] == 1 && s.stride[1] == 1 && s.pad[0] == 0 &&
		s.pad[1] == 0 && s.height == s.out_height && s.width == s.out_width) {
		s.width = s.out_width = s.height * s.width;
		s.height = s.out_height = 1;
	}
	return s;
}

size_t cpu_convolution_weight_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s = weight_shape(call);
	struct winograd winograd;
	const size_t bytes = !device->bf16 && winograd_forward(&s, &winograd)
				     ? winograd_weight_workspace(device, &winograd)
				     : weight_workspace(device, &s);
	return larger_of(bytes, bias_workspace(call));
}

void cpu_convolution_weight(const struct cpu_device *device, const struct call *call)
{
	const struct convolution_shape s = weight_shape(call);
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
