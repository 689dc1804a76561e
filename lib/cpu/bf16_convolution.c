/*
 * Convolution and its data gradient in bfloat16, as correlations (convolution.h): a piece rounds the window that a block of
 * output rows in a run of frames sees, padding included, and multiplies from there without a patch matrix. With stride 1 all
 * positions of the window are evenly apart, so that a block is one product; what its outputs beyond the line ends are is dropped.
 */
#include "cpu/bf16_convolution.h"

#include <string.h>

#include "cpu/bf16_product.h"

#define POSITIONS 512          /* of a block, roughly */
#define WINDOW_ELEMENTS 400000 /* of a piece's window, roughly */
#define ENOUGH_PIECES 8
#define TAIL BF16_STEP /* zeros behind a frame of a window, for what fills up its last row */

struct correlation_plan {
	bool flat;               /* one product a block, not one a line */
	bool apart;              /* each tap of a line is a segment, not all together */
	int64_t segments, steps; /* of a tap of frames; of a segment */
	int64_t panels, panel;   /* panel: elements of one */
	int64_t rows, blocks;    /* rows of outputs of a block */
	int64_t run, runs;       /* frames of outputs of a piece */
	int64_t groups;          /* of panels */
	int64_t width, frame;    /* of the window: pixels of a line, elements of a frame */
	int64_t window, sums;    /* elements of a thread's window and sums */
};

static int64_t window_lines(const struct correlation *c, int64_t rows)
{
	return (rows - 1) * c->step[0] + c->kernel[0];
}

static int64_t run_frames(const struct correlation *c, int64_t run)
{
	return (run - 1) * c->frame_step + c->frame_kernel;
}

static struct correlation_plan correlation_plan(const struct correlation *c, bool apart)
{
	struct correlation_plan p = {.flat = c->step[0] == 1 && c->step[1] == 1,
		.apart = apart,
		.segments = c->kernel[0] * (apart ? c->kernel[1] : 1),
		.steps = bf16_steps((apart ? 1 : c->kernel[1]) * c->channels),
		.panels = bf16_panels(c->columns),
		.width = (c->out_width - 1) * c->step[1] + c->kernel[1]};
	p.panel = c->frame_kernel * p.segments * p.steps * BF16_STEP_SIZE;
	p.blocks = divide_up(c->out_height, larger(1, POSITIONS / larger(1, p.width)));
	p.rows = divide_up(c->out_height, p.blocks);
	p.frame = window_lines(c, p.rows) * p.width * c->channels + TAIL;
	const int64_t fitting = (WINDOW_ELEMENTS / p.frame - c->frame_kernel) / c->frame_step + 1;
	p.runs = divide_up(c->out_frames, larger(1, fitting));
	p.run = divide_up(c->out_frames, p.runs);
	const int64_t pieces = c->samples * p.blocks * p.runs;
	p.groups = smaller(p.panels, divide_up(ENOUGH_PIECES, pieces));
	p.window = run_frames(c, p.run) * p.frame + BF16_ROWS * c->step[1] * c->channels;
	p.sums = divide_up((p.flat ? (p.rows - 1) * p.width : 0) + c->out_width, BF16_ROWS) * BF16_ROWS *
		 BF16_COLUMNS;
	return p;
}

static size_t thread_bytes(const struct correlation *c, const struct correlation_plan *p)
{
	return aligned_bytes(p->window, sizeof(uint16_t)) + aligned_bytes(p->sums, sizeof(float)) +
	       2 * aligned_bytes(c->frame_kernel * p->segments, sizeof(ptrdiff_t));
}

static size_t correlation_bytes(
	const struct cpu_device *device, const struct correlation *c, const struct correlation_plan *p)
{
	return (size_t)device->threads * thread_bytes(c, p) +
	       aligned_bytes(p->panels * p->panel, sizeof(uint16_t));
}

struct correlation_job {
	const struct cpu_device *device;
	const struct correlation *correlation;
	struct correlation_plan plan;
	uint16_t *packed;
	void *threads; /* a part for each */
};

/* ---- windows ---- */

/* One line of a window from a line of the source. */
static void round_line(const struct bf16 *unit, const struct correlation *c, uint16_t *to, const float *line,
	int64_t left, int64_t width)
{
	const int64_t start = smaller(width, larger(0, -left)),
		      end = larger(start, smaller(width, c->width - left));
	memset(to, 0, (size_t)(start * c->channels) * sizeof *to);
	if (c->pixel == c->channels) {
		unit->convert(to + start * c->channels, line + (left + start) * c->pixel,
			(end - start) * c->channels);
	} else {
		for (int64_t w = start; w < end; w++)
			unit->convert(to + w * c->channels, line + (left + w) * c->pixel, c->channels);
	}
	memset(to + end * c->channels, 0, (size_t)((width - end) * c->channels) * sizeof *to);
}

/* The lines of one frame of the source that output rows [row, row + rows) read. */
static void round_frame(const struct bf16 *unit, const struct correlation *c,
	const struct correlation_plan *p, uint16_t *to, int64_t image, int64_t row, int64_t rows)
{
	const float *source = c->source + image * c->height * c->width * c->pixel;
	const int64_t lines = window_lines(c, rows), top = row * c->step[0] + c->origin[0];
	for (int64_t r = 0; r < lines; r++, to += p->width * c->channels) {
		if (top + r < 0 || top + r >= c->height)
			memset(to, 0, (size_t)(p->width * c->channels) * sizeof *to);
		else
			round_line(unit, c, to, source + (top + r) * c->width * c->pixel, c->origin[1],
				p->width);
	}
	memset(to, 0, TAIL * sizeof *to);
}

/* ---- products ---- */

/* A block of output rows in a run of frames. */
struct block {
	int64_t sample, frame, frames, row, rows;
	uint16_t *window;
	float *sums;
	ptrdiff_t *a_segment, *b_segment;
};

/* Segments of an output frame: those of the taps that see a frame. */
static int64_t list_segments(const struct correlation *c, const struct correlation_plan *p,
	const struct block *block, int64_t frame)
{
	int64_t count = 0;
	for (int64_t tap = 0; tap < c->frame_kernel; tap++) {
		const int64_t from = (block->frame + frame) * c->frame_step + c->frame_origin + tap;
		for (int64_t i = 0; i < p->segments && from >= 0 && from < c->frames; i++) {
			const int64_t line = p->apart ? i / c->kernel[1] : i,
				      pixel = p->apart ? i % c->kernel[1] : 0;
			block->a_segment[count] = (frame * c->frame_step + tap) * p->frame +
						  (line * p->width + pixel) * c->channels;
			block->b_segment[count++] = (tap * p->segments + i) * p->steps * BF16_STEP_SIZE;
		}
	}
	return count;
}

/* One panel of one output frame, rows [row, row + rows) of the block. */
static void multiply_lines(const struct correlation_job *job, const struct block *block,
	struct bf16_product *m, float *out, int64_t row, int64_t rows, const float *bias)
{
	const struct correlation *c = job->correlation;
	const struct correlation_plan *p = &job->plan;
	m->a = block->window + row * c->step[0] * p->width * c->channels;
	m->rows = (rows - 1) * p->width + c->out_width;
	if (m->segments > 0)
		job->device->bf16->multiply(m);
	else
		memset(m->c, 0, (size_t)(m->rows * BF16_COLUMNS) * sizeof *m->c);
	for (int64_t h = 0; h < rows; h++)
		job->device->bf16->store(out + (row + h) * c->out_row, c->out_pixel,
			m->c + h * p->width * BF16_COLUMNS, c->out_width, m->columns, bias, c->accumulate);
}

static void multiply_frame(
	const struct correlation_job *job, const struct block *block, int64_t frame, int64_t panel)
{
	const struct correlation *c = job->correlation;
	const struct correlation_plan *p = &job->plan;
	const int64_t j = panel * BF16_COLUMNS;
	struct bf16_product m = {.b = job->packed + panel * p->panel,
		.a_segment = block->a_segment,
		.b_segment = block->b_segment,
		.a_row = c->step[1] * c->channels,
		.segments = list_segments(c, p, block, frame),
		.steps = p->steps,
		.columns = (int)smaller(BF16_COLUMNS, c->columns - j),
		.c = block->sums};
	float *out = c->out + block->sample * c->out_sample + (block->frame + frame) * c->out_frame +
		     block->row * c->out_row + j;
	const float *bias = c->bias ? c->bias + j : NULL;
	const int64_t rows = p->flat ? block->rows : 1;
	for (int64_t row = 0; row < block->rows; row += rows)
		multiply_lines(job, block, &m, out, row, rows, bias);
}

/* Pieces: samples, runs of frames, blocks of rows, groups of panels. */
static void correlation_piece(void *context, int64_t i, int thread)
{
	const struct correlation_job *job = context;
	const struct correlation *c = job->correlation;
	const struct correlation_plan *p = &job->plan;
	const int64_t group = i % p->groups, part = i / p->groups % p->blocks,
		      run = i / p->groups / p->blocks % p->runs;
	void *at = (char *)job->threads + (size_t)thread * thread_bytes(c, p);
	struct block block = {
		.sample = i / p->groups / p->blocks / p->runs, .frame = run * p->run, .row = part * p->rows};
	block.frames = smaller(p->run, c->out_frames - block.frame);
	block.rows = smaller(p->rows, c->out_height - block.row);
	if (block.frames <= 0 || block.rows <= 0)
		return;
	block.window = workspace_take(&at, p->window, sizeof(uint16_t));
	block.sums = workspace_take(&at, p->sums, sizeof(float));
	block.a_segment = workspace_take(&at, c->frame_kernel * p->segments, sizeof(ptrdiff_t));
	block.b_segment = at;
	for (int64_t f = 0; f < run_frames(c, block.frames); f++) {
		const int64_t from = block.frame * c->frame_step + c->frame_origin + f;
		if (from >= 0 && from < c->frames)
			round_frame(job->device->bf16, c, p, block.window + f * p->frame,
				block.sample * c->frames + from, block.row, block.rows);
	}
	job->device->bf16->begin();
	for (int64_t panel = p->panels * group / p->groups; panel < p->panels * (group + 1) / p->groups;
		panel++)
		for (int64_t f = 0; f < block.frames; f++)
			multiply_frame(job, &block, f, panel);
	job->device->bf16->end();
}

static double correlation_work(const struct correlation *c)
{
	return (double)(c->samples * c->out_frames * c->out_height * c->out_width) *
	       (double)(c->frame_kernel * c->kernel[0] * c->kernel[1]) * (double)(c->channels * c->columns) /
	       64;
}

static void correlate(const struct correlation_job *job)
{
	const struct correlation_plan *p = &job->plan;
	cpu_share(job->device, correlation_work(job->correlation),
		job->correlation->samples * p->runs * p->blocks * p->groups, correlation_piece, (void *)job);
}

/* ---- forward ---- */

size_t bf16_convolution_workspace(const struct cpu_device *device, const struct convolution_shape *s)
{
	const struct correlation c = convolution_forward(s);
	const struct correlation_plan p = correlation_plan(&c, false);
	return correlation_bytes(device, &c, &p);
}

struct pack_job {
	const struct bf16 *unit;
	const struct correlation *correlation;
	const struct correlation_plan *plan;
	const struct convolution_shape *shape;
	const struct residue *axis; /* of a data gradient */
	const float *weight;        /* of a group */
	uint16_t *to;
};

/* Pieces: panels, taps of frames, lines of taps. */
static void pack_forward(void *context, int64_t i, int thread)
{
	const struct pack_job *job = context;
	const struct correlation *c = job->correlation;
	const struct correlation_plan *p = job->plan;
	const int64_t lines = c->frame_kernel * p->segments, line = i % lines,
		      depth = c->kernel[1] * c->channels;
	const struct bf16_panels panels = {.to = job->to + line * p->steps * BF16_STEP_SIZE,
		.panel = p->panel,
		.b = job->weight + line * depth * c->b_step,
		.b_step = c->b_step,
		.b_column = 1,
		.depth = depth,
		.columns = c->columns};
	(void)thread;
	for (int64_t step = 0; step < p->steps; step++)
		bf16_pack_step(job->unit, &panels, i / lines, step);
}

void bf16_convolution(
	const struct cpu_device *device, const struct convolution_shape *s, const struct call *call)
{
	const float *x = call->in_data[0], *weight = call->in_data[1], *bias = call->in_data[2];
	struct correlation c = convolution_forward(s);
	struct correlation_job job = {
		.device = device, .correlation = &c, .plan = correlation_plan(&c, false)};
	const struct correlation_plan *p = &job.plan;
	void *workspace = call->workspace;
	job.packed = workspace_take(&workspace, p->panels * p->panel, sizeof(uint16_t));
	job.threads = workspace;
	c.accumulate = accumulates(call, 0);
	for (int64_t g = 0; g < s->groups; g++) {
		struct pack_job pack = {.unit = device->bf16,
			.correlation = &c,
			.plan = p,
			.weight = weight + g * s->group_out,
			.to = job.packed};
		cpu_share(device, (double)(p->panels * p->panel) / 4,
			p->panels * c.frame_kernel * p->segments, pack_forward, &pack);
		c.source = x + g * s->group_channels;
		c.bias = bias ? bias + g * s->group_out : NULL;
		c.out = (float *)call->out_data[0] + g * s->group_out;
		correlate(&job);
	}
}

/* ---- gradient of the input ---- */

static bool is_empty(const struct correlation *c)
{
	return c->out_frames == 0 || c->out_height == 0 || c->out_width == 0;
}

size_t bf16_convolution_data_workspace(const struct cpu_device *device, const struct convolution_shape *s)
{
	size_t most = 0;
	for (int64_t r = 0; r < convolution_residues(s); r++) {
		struct residue axis[3];
		int64_t start;
		const struct correlation c = convolution_data(s, r, axis, &start);
		if (is_empty(&c))
			continue;
		const struct correlation_plan p = correlation_plan(&c, true);
		const size_t bytes = correlation_bytes(device, &c, &p);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Pieces: panels, taps in turned order. */
static void pack_turned(void *context, int64_t i, int thread)
{
	const struct pack_job *job = context;
	const struct correlation *c = job->correlation;
	const struct correlation_plan *p = job->plan;
	const struct convolution_shape *s = job->shape;
	const struct residue *axis = job->axis;
	const int64_t taps = c->frame_kernel * p->segments, t = i % taps;
	const int64_t frame = axis[0].first +
			      s->frame_stride * (axis[0].taps - 1 - t / axis[2].taps / axis[1].taps),
		      row = axis[1].first +
			    s->stride[0] * (axis[1].taps - 1 - t / axis[2].taps % axis[1].taps),
		      column = axis[2].first + s->stride[1] * (axis[2].taps - 1 - t % axis[2].taps);
	const struct bf16_panels panels = {.to = job->to + t * p->steps * BF16_STEP_SIZE,
		.panel = p->panel,
		.b = job->weight +
		     ((frame * s->kernel[0] + row) * s->kernel[1] + column) * s->group_channels * s->out,
		.b_step = 1,
		.b_column = s->out,
		.depth = s->group_out,
		.columns = s->group_channels};
	(void)thread;
	for (int64_t step = 0; step < p->steps; step++)
		bf16_pack_step(job->unit, &panels, i / taps, step);
}

void bf16_convolution_data(
	const struct cpu_device *device, const struct convolution_shape *s, const struct call *call)
{
	const float *dy = call->in_data[0], *weight = call->in_data[1];
	for (int64_t i = 0; i < convolution_residues(s) * s->groups; i++) {
		const int64_t group = i % s->groups;
		struct residue axis[3];
		int64_t start;
		struct correlation c = convolution_data(s, i / s->groups, axis, &start);
		if (is_empty(&c))
			continue;
		struct correlation_job job = {
			.device = device, .correlation = &c, .plan = correlation_plan(&c, true)};
		const struct correlation_plan *p = &job.plan;
		void *workspace = call->workspace;
		job.packed = workspace_take(&workspace, p->panels * p->panel, sizeof(uint16_t));
		job.threads = workspace;
		struct pack_job pack = {.unit = device->bf16,
			.correlation = &c,
			.plan = p,
			.shape = s,
			.axis = axis,
			.weight = weight + group * s->group_out,
			.to = job.packed};
		c.source = dy + group * s->group_out;
		c.out = (float *)call->out_data[0] + start + group * s->group_channels;
		c.accumulate = accumulates(call, 0);
		cpu_share(device, (double)(p->panels * p->panel) / 4,
			p->panels * c.frame_kernel * p->segments, pack_turned, &pack);
		correlate(&job);
	}
}
