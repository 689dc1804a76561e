/*
 * Weight gradients in bfloat16: for each tap dw = x^T dy over output positions, which are the terms of the sums. A chunk of
 * images is rounded and turned for all (x to rows of channels, dy to pairs of positions), then each piece adds a block of
 * channels by output channels of one tap to dw.
 *
 * Flat: with stride 1 a tap's x is the same turned image, some positions further on; lines of dy are as long as those of the
 * padded x, with zeros at their ends. By lines: else a line of x is turned as the taps of a kernel row see it, so that
 * the rows are taps and channels together.
 */
#include <string.h>

#include "cpu/bf16_convolution.h"
#include "cpu/bf16_product.h"

#define CHANNEL_BLOCK 128
#define CHUNK_BYTES 2097152 /* of a chunk, and half as much as dw more */
#define FEW_CHANNELS 16     /* below, taps and channels are rows together */
#define LINE 512            /* pixels of an image that a line without neighbours is cut into */

struct weight_plan {
	struct convolution_shape shape; /* cut into images where it is one line */
	bool flat;
	int64_t rest;                /* pixels of the last image where it is cut; else those of a line */
	int64_t width, lines;        /* of padded x, in positions */
	int64_t steps, segments;     /* of a line of dy; of an image */
	int64_t rows, taps;          /* of x^T, of one tap: taps and channels, or channels */
	int64_t pitch, line, frame;  /* of x^T, in elements: row, line, image */
	int64_t panels, panel_frame; /* of dy, panel_frame: elements of an image in one panel */
	int64_t in_frames, chunk;    /* images of x; images of dy in a chunk */
	int64_t blocks;              /* of rows */
};

/* A product over pixels has no images of its own. */
static struct convolution_shape cut_shape(const struct convolution_shape *s, int64_t *rest)
{
	struct convolution_shape cut = *s;
	*rest = s->out_width;
	if (!convolution_is_pointwise(s))
		return cut;
	const int64_t pixels = s->samples * s->frames * s->height * s->width;
	cut.samples = divide_up(pixels, LINE);
	cut.frames = cut.out_frames = cut.height = cut.out_height = 1;
	cut.width = cut.out_width = smaller(pixels, LINE);
	*rest = pixels - (cut.samples - 1) * cut.width;
	return cut;
}

/* Images of x that the images [first, first + count) of dy see: [*from, *end). */
static void seen_images(
	const struct weight_plan *p, int64_t first, int64_t count, int64_t *from, int64_t *end)
{
	const struct convolution_shape *s = &p->shape;
	const int64_t last = first + count - 1, from_sample = first / s->out_frames,
		      end_sample = last / s->out_frames;
	const int64_t from_frame = first % s->out_frames * s->frame_stride - s->frame_pad,
		      end_frame = last % s->out_frames * s->frame_stride - s->frame_pad + s->frame_kernel;
	*from = from_sample * s->frames + smaller(s->frames, larger(0, from_frame));
	*end = end_sample * s->frames + larger(0, smaller(s->frames, end_frame));
	*end = larger(*from, *end);
}

/* Most images of x that a chunk sees. */
static int64_t most_images(const struct weight_plan *p, int64_t chunk)
{
	const int64_t images = p->shape.samples * p->shape.out_frames, chunks = divide_up(images, chunk);
	int64_t most = 0;
	for (int64_t i = 0; i < chunks; i++) {
		int64_t from, end;
		seen_images(p, i * chunk, smaller(chunk, images - i * chunk), &from, &end);
		most = larger(most, end - from);
	}
	return most;
}

/* Chunks of whole samples, or of equal runs of a sample's frames. */
static void plan_chunk(struct weight_plan *p)
{
	const struct convolution_shape *s = &p->shape;
	const int64_t weights = p->taps * p->rows * s->group_out,
		      image = 2 * (p->frame * s->frames / s->out_frames + p->panels * p->panel_frame);
	const int64_t fitting = larger(1, (CHUNK_BYTES + 2 * weights) / image);
	if (fitting >= s->out_frames)
		p->chunk = smaller(s->samples, fitting / s->out_frames) * s->out_frames;
	else
		p->chunk =
			divide_up(s->out_frames, divide_up(s->out_frames, larger(fitting, s->frame_kernel)));
	p->in_frames = most_images(p, p->chunk);
}

static struct weight_plan weight_plan(const struct convolution_shape *shape)
{
	struct weight_plan p = {0};
	p.shape = cut_shape(shape, &p.rest);
	const struct convolution_shape *s = &p.shape;
	p.flat = s->stride[0] == 1 && s->stride[1] == 1 &&
		 (s->group_channels >= FEW_CHANNELS || s->kernel[1] == 1);
	p.width = (s->out_width - 1) * s->stride[1] + s->kernel[1];
	p.lines = (s->out_height - 1) * s->stride[0] + s->kernel[0];
	p.panels = bf16_panels(s->group_out);
	if (p.flat) {
		p.steps = bf16_steps((s->out_height - 1) * p.width + s->out_width);
		p.segments = 1;
		p.rows = s->group_channels;
		p.taps = s->frame_kernel * s->kernel[0] * s->kernel[1];
		p.pitch = BF16_STEP *
			  bf16_steps(p.steps * BF16_STEP + (s->kernel[0] - 1) * p.width + s->kernel[1] - 1);
		p.frame = p.pitch * divide_up(p.rows, BF16_ROWS) * BF16_ROWS;
	} else {
		p.steps = bf16_steps(s->out_width);
		p.segments = s->out_height;
		p.rows = s->kernel[1] * s->group_channels;
		p.taps = s->frame_kernel * s->kernel[0];
		p.pitch = p.steps * BF16_STEP;
		p.line = p.pitch * divide_up(p.rows, BF16_ROWS) * BF16_ROWS;
		p.frame = p.line * p.lines;
	}
	p.panel_frame = p.segments * p.steps * BF16_STEP_SIZE;
	p.blocks = divide_up(p.rows, CHANNEL_BLOCK);
	plan_chunk(&p);
	return p;
}

/* Of one thread: sums of a block, segments, and a rounded line of x with zeros behind it, or a step of positions. */
struct weight_scratch {
	float *sums;
	ptrdiff_t *a_segment, *b_segment;
	uint16_t *line;
};

static int64_t line_elements(const struct weight_plan *p)
{
	return (p->flat ? BF16_STEP : p->width) * p->shape.group_channels + larger(p->rows, BF16_STEP);
}

static size_t scratch_bytes(const struct weight_plan *p)
{
	return aligned_bytes(CHANNEL_BLOCK * BF16_COLUMNS, sizeof(float)) +
	       2 * aligned_bytes(p->chunk * p->segments, sizeof(ptrdiff_t)) +
	       aligned_bytes(line_elements(p), sizeof(uint16_t));
}

struct weight_job {
	const struct cpu_device *device;
	struct weight_plan plan;
	const float *x, *dy; /* of the group */
	float *dw;
	uint16_t *turned, *packed; /* [image][...]; [panel][image][...] */
	void *threads;
	int64_t first, count; /* images of dy in the chunk */
	int64_t from, end;    /* images of x */
	bool accumulate;
};

static struct weight_scratch take_scratch(const struct weight_job *job, int thread)
{
	const struct weight_plan *p = &job->plan;
	void *at = (char *)job->threads + (size_t)thread * scratch_bytes(p);
	struct weight_scratch scratch;
	scratch.sums = workspace_take(&at, CHANNEL_BLOCK * BF16_COLUMNS, sizeof(float));
	scratch.a_segment = workspace_take(&at, p->chunk * p->segments, sizeof(ptrdiff_t));
	scratch.b_segment = workspace_take(&at, p->chunk * p->segments, sizeof(ptrdiff_t));
	scratch.line = workspace_take(&at, line_elements(p), sizeof(uint16_t));
	return scratch;
}

/* Pixels of a line of this image. */
static int64_t image_width(const struct weight_plan *p, int64_t image, int64_t width)
{
	const struct convolution_shape *s = &p->shape;
	return image == s->samples * s->frames - 1 && p->rest < s->out_width ? p->rest : width;
}

/* Rounds `count` pixels of line `line` of padded x from pixel `first` on. */
static void round_pixels(
	const struct weight_job *job, uint16_t *to, int64_t image, int64_t line, int64_t first, int64_t count)
{
	const struct convolution_shape *s = &job->plan.shape;
	const int64_t h = line - s->pad[0], c = s->group_channels,
		      width = image_width(&job->plan, image, s->width);
	const float *from = job->x + (image * s->height + h) * s->width * s->channels;
	for (int64_t i = 0; i < count; i++, to += c) {
		const int64_t w = first + i - s->pad[1];
		if (h < 0 || h >= s->height || w < 0 || w >= width)
			memset(to, 0, (size_t)c * sizeof *to);
		else
			job->device->bf16->convert(to, from + w * s->channels, c);
	}
}

/* ---- x, turned ---- */

/* A step of positions of an image. */
static void turn_positions(
	const struct weight_job *job, const struct weight_scratch *scratch, int64_t image, int64_t step)
{
	const struct weight_plan *p = &job->plan;
	const int64_t c = p->shape.group_channels;
	const uint16_t *row[BF16_STEP];
	for (int64_t i = 0; i < BF16_STEP;) {
		const int64_t position = step * BF16_STEP + i, line = position / p->width,
			      first = position % p->width, count = smaller(BF16_STEP - i, p->width - first);
		round_pixels(job, scratch->line + i * c, image, line, first, count);
		i += count;
	}
	for (int64_t i = 0; i < BF16_STEP; i++)
		row[i] = scratch->line + i * c;
	job->device->bf16->turn(
		job->turned + (image - job->from) * p->frame + step * BF16_STEP, p->pitch, row, p->rows);
}

/* A line of an image, as the taps of a kernel row see it. */
static void turn_line(
	const struct weight_job *job, const struct weight_scratch *scratch, int64_t image, int64_t line)
{
	const struct weight_plan *p = &job->plan;
	const struct convolution_shape *s = &p->shape;
	uint16_t *to = job->turned + (image - job->from) * p->frame + line * p->line,
		 *zeros = scratch->line + p->width * s->group_channels;
	const uint16_t *row[BF16_STEP];
	round_pixels(job, scratch->line, image, line, 0, p->width);
	memset(zeros, 0, (size_t)p->rows * sizeof *zeros);
	for (int64_t step = 0; step < p->steps; step++) {
		for (int64_t i = 0; i < BF16_STEP; i++) {
			const int64_t w = step * BF16_STEP + i;
			row[i] = w < s->out_width ? scratch->line + w * s->stride[1] * s->group_channels
						  : zeros;
		}
		job->device->bf16->turn(to + step * BF16_STEP, p->pitch, row, p->rows);
	}
}

/* Pieces: steps or lines of the images of x. */
static int64_t turn_pieces(const struct weight_plan *p)
{
	return p->flat ? p->pitch / BF16_STEP : p->lines;
}

static void turn_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct weight_scratch scratch = take_scratch(job, thread);
	const int64_t pieces = turn_pieces(&job->plan), image = job->from + i / pieces;
	if (job->plan.flat)
		turn_positions(job, &scratch, image, i % pieces);
	else
		turn_line(job, &scratch, image, i % pieces);
}

/* ---- dy, in pairs ---- */

/* The pixel of dy that is term k of segment `line`; NULL: none. */
static const float *term(const struct weight_job *job, int64_t image, int64_t line, int64_t k)
{
	const struct weight_plan *p = &job->plan;
	const struct convolution_shape *s = &p->shape;
	const int64_t h = p->flat ? k / p->width : line, w = p->flat ? k % p->width : k;
	if (h >= s->out_height || w >= image_width(p, image, s->out_width))
		return NULL;
	return job->dy + ((image * s->out_height + h) * s->out_width + w) * s->out;
}

/* Pieces: steps of all segments of the images of dy. */
static void pairs_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct weight_plan *p = &job->plan;
	const int64_t step = i % p->steps, line = i / p->steps % p->segments,
		      image = i / p->steps / p->segments;
	uint16_t *to = job->packed + image * p->panel_frame + (line * p->steps + step) * BF16_STEP_SIZE;
	const float *row[BF16_STEP], *from[BF16_STEP];
	(void)thread;
	for (int64_t k = 0; k < BF16_STEP; k++)
		row[k] = term(job, job->first + image, line, step * BF16_STEP + k);
	for (int64_t panel = 0; panel < p->panels; panel++, to += p->chunk * p->panel_frame) {
		const int64_t j = panel * BF16_COLUMNS;
		for (int k = 0; k < BF16_STEP; k++)
			from[k] = row[k] ? row[k] + j : NULL;
		job->device->bf16->pairs(to, from, (int)smaller(BF16_COLUMNS, p->shape.group_out - j));
	}
}

/* ---- products ---- */

/* Segments of the images that see a frame by this tap. */
static int64_t list_segments(const struct weight_job *job, const struct weight_scratch *scratch, int64_t tap)
{
	const struct weight_plan *p = &job->plan;
	const struct convolution_shape *s = &p->shape;
	const int64_t column = p->flat ? tap % s->kernel[1] : 0, rest = p->flat ? tap / s->kernel[1] : tap,
		      row = rest % s->kernel[0], frame_tap = rest / s->kernel[0];
	int64_t count = 0;
	for (int64_t i = 0; i < job->count; i++) {
		const int64_t image = job->first + i,
			      frame = image % s->out_frames * s->frame_stride + frame_tap - s->frame_pad;
		const int64_t x = (image / s->out_frames * s->frames + frame - job->from) * p->frame;
		for (int64_t line = 0; line < p->segments && frame >= 0 && frame < s->frames; line++) {
			scratch->a_segment[count] = x + (p->flat ? row * p->width + column
								 : (line * s->stride[0] + row) * p->line);
			scratch->b_segment[count++] = i * p->panel_frame + line * p->steps * BF16_STEP_SIZE;
		}
	}
	return count;
}

/* Pieces: blocks of rows, taps, panels. */
static void multiply_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct weight_plan *p = &job->plan;
	const struct weight_scratch scratch = take_scratch(job, thread);
	const int64_t panel = i % p->panels, tap = i / p->panels % p->taps, block = i / p->panels / p->taps;
	const int64_t row = block * CHANNEL_BLOCK, j = panel * BF16_COLUMNS;
	struct bf16_product m = {.a = job->turned + row * p->pitch,
		.b = job->packed + panel * p->chunk * p->panel_frame,
		.a_segment = scratch.a_segment,
		.b_segment = scratch.b_segment,
		.a_row = p->pitch,
		.segments = list_segments(job, &scratch, tap),
		.steps = p->steps,
		.rows = smaller(CHANNEL_BLOCK, p->rows - row),
		.columns = (int)smaller(BF16_COLUMNS, p->shape.group_out - j),
		.c = scratch.sums};
	const bool accumulate = job->accumulate || job->first > 0;
	if (m.segments == 0 && accumulate)
		return;
	if (m.segments == 0) {
		memset(m.c, 0, (size_t)(m.rows * BF16_COLUMNS) * sizeof *m.c);
	} else {
		job->device->bf16->begin();
		job->device->bf16->multiply(&m);
		job->device->bf16->end();
	}
	job->device->bf16->store(job->dw + (tap * p->rows + row) * p->shape.out + j, p->shape.out, m.c,
		m.rows, m.columns, NULL, accumulate);
}

/* ---- the whole ---- */

static int64_t turned_elements(const struct weight_plan *p)
{
	return p->in_frames * p->frame;
}

static int64_t packed_elements(const struct weight_plan *p)
{
	return p->panels * p->chunk * p->panel_frame;
}

size_t bf16_weight_workspace(const struct cpu_device *device, const struct convolution_shape *s)
{
	const struct weight_plan p = weight_plan(s);
	return aligned_bytes(turned_elements(&p), sizeof(uint16_t)) +
	       aligned_bytes(packed_elements(&p), sizeof(uint16_t)) +
	       (size_t)device->threads * scratch_bytes(&p);
}

static void run_chunk(struct weight_job *job)
{
	const struct weight_plan *p = &job->plan;
	const double terms = (double)(job->count * p->segments * p->steps * BF16_STEP);
	seen_images(p, job->first, job->count, &job->from, &job->end);
	cpu_share(job->device, (double)((job->end - job->from) * p->frame) / 4,
		(job->end - job->from) * turn_pieces(p), turn_piece, job);
	cpu_share(job->device, terms * (double)p->shape.group_out / 4, job->count * p->segments * p->steps,
		pairs_piece, job);
	cpu_share(job->device, terms * (double)(p->taps * p->rows * p->shape.group_out) / 64,
		p->blocks * p->taps * p->panels, multiply_piece, job);
}

void bf16_weight(const struct cpu_device *device, const struct convolution_shape *s, const struct call *call)
{
	struct weight_job job = {
		.device = device, .plan = weight_plan(s), .accumulate = accumulates(call, 0)};
	const struct weight_plan *p = &job.plan;
	const int64_t images = p->shape.samples * p->shape.out_frames;
	void *workspace = call->workspace;
	job.turned = workspace_take(&workspace, turned_elements(p), sizeof(uint16_t));
	job.packed = workspace_take(&workspace, packed_elements(p), sizeof(uint16_t));
	job.threads = workspace;
	for (int64_t g = 0; g < s->groups; g++) {
		job.x = (const float *)call->in_data[0] + g * s->group_channels;
		job.dy = (const float *)call->in_data[1] + g * s->group_out;
		job.dw = (float *)call->out_data[0] + g * s->group_out;
		for (job.first = 0; job.first < images; job.first += p->chunk) {
			job.count = smaller(p->chunk, images - job.first);
			run_chunk(&job);
		}
	}
}
