/*
 * Weight gradients in the domain of Winograd's F(2x2,3x3): at each of the 16 points sums over tiles of transformed inputs times
 * transformed gradients, then back to 3x3 taps. In two ways, chosen by the number of weights. Few: the tiles are split, and
 * each split goes through its blocks of tiles with sums of its own in the cache; the splits are added in order. Many: a chunk of
 * tiles is transformed for all, then each piece makes a block of channels by output channels.
 */
#include <string.h>

#include "cpu/winograd.h"

#define POINTS 16
#define PAD 16
#define SPLITS 8
#define FEW_BYTES 1310720  /* of sums: up to here the tiles are split */
#define BLOCK_BYTES 786432 /* of a split's transformed inputs and gradients, roughly */
#define CHUNK_BYTES 8388608
#define SUM_BYTES 1048576 /* of a block of channels by output channels */
#define CHAIN 128         /* tiles of one chain of a sum */

enum area { INPUTS, GRADIENTS, SUMS, PARTS, PATCHES, AREAS };

struct weight_plan {
	int64_t tile_rows, tile_columns, places;
	int64_t first_tap, taps; /* those that some frame sees */
	bool few;                /* weights */
	int64_t chunk, chunks;   /* places that are transformed at once; in all, or in the longest split */
	int64_t splits;
	int64_t rows, columns; /* blocks of channels and of output channels */
	int64_t floats[AREAS];
};

/* Output frames that see a frame by this tap: [*first, *end). */
static void seeing_frames(const struct winograd *w, int64_t tap, int64_t *first, int64_t *end)
{
	const int64_t from = w->frame_origin + tap;
	*first = smaller(w->out_frames, from < 0 ? divide_up(-from, w->frame_step) : 0);
	*end = from < w->frames ? smaller(w->out_frames, (w->frames - 1 - from) / w->frame_step + 1) : 0;
	*end = larger(*first, *end);
}

static int64_t input_point(const struct winograd *w, const struct weight_plan *p)
{
	return p->chunk * w->frames * winograd_row(w->channels) + PAD;
}

static int64_t gradient_point(const struct winograd *w, const struct weight_plan *p)
{
	return p->chunk * w->out_frames * winograd_row(w->columns) + PAD;
}

static int64_t block_channels(const struct winograd *w, const struct weight_plan *p)
{
	return divide_up(w->channels, p->rows);
}

static int64_t block_columns(
	const struct cpu_device *device, const struct winograd *w, const struct weight_plan *p)
{
	const int64_t wide = device->kernels->panel;
	return divide_up(divide_up(w->columns, wide), p->columns) * wide;
}

/* Floats of one tap's sums at one point. */
static int64_t sum_block(
	const struct cpu_device *device, const struct winograd *w, const struct weight_plan *p)
{
	return block_channels(w, p) * block_columns(device, w, p) + PAD;
}

static bool is_common(const struct weight_plan *p, enum area area)
{
	return area == PARTS || (!p->few && (area == INPUTS || area == GRADIENTS));
}

static void plan_taps(const struct winograd *w, struct weight_plan *p)
{
	int64_t end_tap = 0;
	p->first_tap = w->frame_kernel;
	for (int64_t tap = 0; tap < w->frame_kernel; tap++) {
		int64_t first, end;
		seeing_frames(w, tap, &first, &end);
		if (first < end) {
			p->first_tap = smaller(p->first_tap, tap);
			end_tap = tap + 1;
		}
	}
	p->taps = larger(0, end_tap - p->first_tap);
}

/* Blocks whose sums fit, as square as they go. */
static void plan_blocks(const struct cpu_device *device, const struct winograd *w, struct weight_plan *p)
{
	const int64_t sums = SUM_BYTES / (int64_t)sizeof(float) / POINTS / larger(1, p->taps);
	int64_t side = device->kernels->panel;
	while (4 * side * side <= sums)
		side *= 2;
	p->rows = divide_up(w->channels, side);
	p->columns = divide_up(w->columns, side);
}

static struct weight_plan weight_plan(const struct cpu_device *device, const struct winograd *w)
{
	struct weight_plan p = {.tile_rows = winograd_tiles(w->out_height),
		.tile_columns = winograd_tiles(w->out_width),
		.rows = 1,
		.columns = 1,
		.splits = 1};
	const int64_t point = (int64_t)sizeof(float) * POINTS;
	p.places = w->samples * p.tile_rows * p.tile_columns;
	plan_taps(w, &p);
	p.few = point * p.taps * w->channels * w->columns <= FEW_BYTES;
	const int64_t place =
		point * (w->frames * winograd_row(w->channels) + w->out_frames * winograd_row(w->columns));
	p.chunk = smaller(p.places, larger(1, (p.few ? BLOCK_BYTES : CHUNK_BYTES) / place));
	if (p.few)
		p.splits = smaller(SPLITS, divide_up(p.places, p.chunk));
	else
		plan_blocks(device, w, &p);
	p.chunks = divide_up(divide_up(p.places, p.splits), p.chunk);
	p.floats[INPUTS] = POINTS * input_point(w, &p);
	p.floats[GRADIENTS] = POINTS * gradient_point(w, &p);
	p.floats[SUMS] = POINTS * p.taps * sum_block(device, w, &p);
	p.floats[PARTS] = (p.splits - 1) * w->frame_kernel * 9 * w->channels * w->columns;
	p.floats[PATCHES] = POINTS * larger(w->channels, w->columns);
	for (int i = 0; i < AREAS; i++)
		p.floats[i] = divide_up(p.floats[i], PAD) * PAD;
	return p;
}

struct weight_job {
	const struct cpu_device *device;
	const struct winograd *winograd; /* source: x */
	const float *gradient;
	float *weight;
	bool accumulate;
	struct weight_plan plan;
	int64_t first, places; /* of the chunk that is at work where it is common */
	float *area[AREAS];
};

static float *area_of(const struct weight_job *job, enum area area, int thread)
{
	return job->area[area] + (is_common(&job->plan, area) ? 0 : thread * job->plan.floats[area]);
}

/* Place `place` in all frames, to rows [frame][at] with `places` places a frame. */
static void transform_place(
	const struct weight_job *job, int64_t place, int64_t at, int64_t places, int thread)
{
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	const int64_t x = 2 * (place % p->tile_columns), y = 2 * (place / p->tile_columns % p->tile_rows),
		      sample = place / p->tile_columns / p->tile_rows;
	float *patch = area_of(job, PATCHES, thread), *to = area_of(job, INPUTS, thread);
	struct winograd_frame frame = {NULL, w->height, w->width, w->channels};
	for (int64_t f = 0; f < w->frames; f++) {
		frame.pixels = w->source + (sample * w->frames + f) * w->height * w->width * w->channels;
		winograd_transform(job->device, &frame, 4, y + w->origin[0], x + w->origin[1], patch,
			to + (f * places + at) * winograd_row(w->channels), input_point(w, p));
	}
	to = area_of(job, GRADIENTS, thread);
	frame = (struct winograd_frame){NULL, w->out_height, w->out_width, w->columns};
	for (int64_t f = 0; f < w->out_frames; f++) {
		frame.pixels = job->gradient +
			       (sample * w->out_frames + f) * w->out_height * w->out_width * w->columns;
		winograd_transform(job->device, &frame, 2, y, x, patch,
			to + (f * places + at) * winograd_row(w->columns), gradient_point(w, p));
	}
}

/* A block of channels by output channels; sums [point][tap][channel][column]. */
struct weight_block {
	int64_t channel, channels, column, columns;
	const float *inputs, *gradients;
	float *sums;
	ptrdiff_t row; /* of the sums */
	int64_t point; /* floats of a tap's sums at one point */
};

/* Adds `count` tiles to the sums of one tap and point. */
static void add_tiles(const struct weight_job *job, const struct weight_block *block, const float *inputs,
	const float *gradients, int64_t count, float *sums, bool accumulate)
{
	const int64_t wide = job->device->kernels->panel, chains = divide_up(count, CHAIN);
	const int64_t a_step = winograd_row(job->winograd->channels),
		      b_step = winograd_row(job->winograd->columns);
	for (int64_t chain = 0; chain < chains; chain++) {
		const int64_t first = count * chain / chains, end = count * (chain + 1) / chains;
		for (int64_t j = 0; j < block->columns; j += wide) {
			const struct strip strip = {
				.a = inputs + first * a_step,
				.a_row = 1,
				.a_step = a_step,
				.b = gradients + first * b_step + j,
				.b_step = b_step,
				.c = sums + j,
				.c_row = block->row,
				.rows = block->channels,
				.segments = 1,
				.length = end - first,
				.columns = (int)smaller(wide, block->columns - j),
				.accumulate = accumulate || chain > 0,
			};
			job->device->kernels->strip(&strip);
		}
	}
}

/* Adds a chunk of `places` places at one point. */
static void add_point(const struct weight_job *job, const struct weight_block *block, int64_t point,
	int64_t places, bool accumulate)
{
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	const float *inputs = block->inputs + point * input_point(w, p) + block->channel,
		    *gradients = block->gradients + point * gradient_point(w, p) + block->column;
	for (int64_t t = 0; t < p->taps; t++) {
		const int64_t tap = p->first_tap + t;
		float *sums = block->sums + (point * p->taps + t) * block->point;
		int64_t first, end;
		seeing_frames(w, tap, &first, &end);
		/* Frames that follow each other on both sides are one run of tiles. */
		const int64_t run = w->frame_step == 1 ? end - first : 1;
		for (int64_t f = first; f < end; f += run)
			add_tiles(job, block,
				inputs + (f * w->frame_step + w->frame_origin + tap) * places *
						 winograd_row(w->channels),
				gradients + f * places * winograd_row(w->columns), run * places, sums,
				accumulate || f > first);
	}
}

/* The block's taps, from its sums. */
static void finish_block(
	const struct weight_job *job, const struct weight_block *block, float *to, bool accumulate)
{
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	const int64_t tap_weights = w->channels * w->columns;
	for (int64_t tap = 0; tap < w->frame_kernel; tap++) {
		const int64_t t = tap - p->first_tap;
		int64_t first, end;
		seeing_frames(w, tap, &first, &end);
		for (int64_t c = 0; c < block->channels; c++) {
			float *row = to + tap * 9 * tap_weights + (block->channel + c) * w->columns +
				     block->column;
			if (first < end)
				job->device->kernels->winograd_weight(row, tap_weights,
					block->sums + t * block->point + c * block->row,
					p->taps * block->point, block->columns, accumulate);
			for (int i = 0; i < 9 && first >= end && !accumulate; i++)
				memset(row + i * tap_weights, 0, (size_t)block->columns * sizeof *row);
		}
	}
}

/* ---- few weights ---- */

static void split_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	const int64_t start = p->places * i / p->splits, count = p->places * (i + 1) / p->splits - start;
	const int64_t chunks = divide_up(count, p->chunk),
		      all = w->frame_kernel * 9 * w->channels * w->columns;
	const struct weight_block block = {
		.channels = w->channels,
		.columns = w->columns,
		.inputs = area_of(job, INPUTS, thread),
		.gradients = area_of(job, GRADIENTS, thread),
		.sums = area_of(job, SUMS, thread),
		.row = block_columns(job->device, w, p),
		.point = sum_block(job->device, w, p),
	};
	for (int64_t chunk = 0; chunk < chunks; chunk++) {
		const int64_t first = start + count * chunk / chunks,
			      places = start + count * (chunk + 1) / chunks - first;
		for (int64_t at = 0; at < places; at++)
			transform_place(job, first + at, at, places, thread);
		for (int64_t point = 0; point < POINTS; point++)
			add_point(job, &block, point, places, chunk > 0);
	}
	finish_block(
		job, &block, i ? job->area[PARTS] + (i - 1) * all : job->weight, job->accumulate && i == 0);
}

static void run_splits(struct weight_job *job)
{
	const struct winograd *w = job->winograd;
	const int64_t all = w->frame_kernel * 9 * w->channels * w->columns;
	cpu_share(job->device, (double)(job->plan.places * w->frames) * (double)all / 8, job->plan.splits,
		split_piece, job);
	for (int64_t split = 1; split < job->plan.splits; split++)
		job->device->kernels->add(
			job->weight, job->weight, job->area[PARTS] + (split - 1) * all, all);
}

/* ---- many weights ---- */

static void place_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	transform_place(job, job->first + i, i, job->places, thread);
}

static void block_piece(void *context, int64_t i, int thread)
{
	const struct weight_job *job = context;
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	const int64_t channels = block_channels(w, p), columns = block_columns(job->device, w, p);
	struct weight_block block = {
		.channel = i / p->columns * channels,
		.column = i % p->columns * columns,
		.inputs = area_of(job, INPUTS, thread),
		.gradients = area_of(job, GRADIENTS, thread),
		.sums = area_of(job, SUMS, thread),
		.row = columns,
		.point = sum_block(job->device, w, p),
	};
	block.channels = smaller(channels, w->channels - block.channel);
	block.columns = smaller(columns, w->columns - block.column);
	if (block.channels <= 0 || block.columns <= 0)
		return;
	for (int64_t point = 0; point < POINTS; point++)
		add_point(job, &block, point, job->places, false);
	finish_block(job, &block, job->weight, job->accumulate || job->first > 0);
}

static void run_chunks(struct weight_job *job)
{
	const struct winograd *w = job->winograd;
	const struct weight_plan *p = &job->plan;
	for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
		job->first = p->places * chunk / p->chunks;
		job->places = p->places * (chunk + 1) / p->chunks - job->first;
		const double rows = (double)(job->places * w->frames);
		cpu_share(job->device, rows * (double)(w->channels + w->columns) * 16, job->places,
			place_piece, job);
		cpu_share(job->device, rows * (double)(p->taps * w->channels * w->columns),
			p->rows * p->columns, block_piece, job);
	}
}

/* ---- the whole ---- */

size_t winograd_weight_workspace(const struct cpu_device *device, const struct winograd *winograd)
{
	const struct weight_plan p = weight_plan(device, winograd);
	int64_t floats = 0;
	for (int i = 0; i < AREAS; i++)
		floats += p.floats[i] * (is_common(&p, (enum area)i) ? 1 : device->threads);
	return (size_t)floats * sizeof(float);
}

void winograd_weight_run(const struct cpu_device *device, const struct winograd *winograd,
	const float *gradient, float *weight, bool accumulate, void *workspace)
{
	struct weight_job job = {.device = device,
		.winograd = winograd,
		.gradient = gradient,
		.weight = weight,
		.accumulate = accumulate,
		.plan = weight_plan(device, winograd)};
	float *at = workspace;
	for (int i = 0; i < AREAS; i++) {
		job.area[i] = at;
		at += job.plan.floats[i] * (is_common(&job.plan, (enum area)i) ? 1 : device->threads);
	}
	if (job.plan.few)
		run_splits(&job);
	else
		run_chunks(&job);
}
