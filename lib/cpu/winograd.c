/*
 * Winograd convolution (winograd.h) in two ways that give the same bits. Many tiles: the weights are transformed once, then
 * each piece takes a block of tiles through input transform, products and output transform, and all of it stays in its cache.
 * Few tiles: the inputs are transformed once, then each piece takes a group of output channels and transforms its own weights.
 *
 * A place is a tile's position in all frames of a sample. Rows of a block lie [frame][place].
 */
#include "cpu/winograd.h"

#include <string.h>

#include "cpu/product.h"

#define POINTS 16
#define PAD 16             /* floats between points, against strides that are powers of two */
#define MANY_ROWS 640      /* of tiles and frames: from here on blocks of tiles */
#define BLOCK_BYTES 786432 /* of transformed inputs in a block, roughly */
#define TURNED_ROWS 16     /* of weights that are turned together */
#define PANEL_GROUP 2

/* Parts of the workspace; some are common, of some each thread has its own. */
enum area { INPUTS, WEIGHTS, PRODUCTS, PATCHES, TURNED, AREAS };

/* How one is dealt out. */
struct winograd_plan {
	int64_t tile_rows, tile_columns, places;
	int64_t first_tap, taps; /* those that some frame sees */
	int64_t cuts;            /* of the channels, each a chain of its own */
	int64_t wide, panels;
	bool many;
	int64_t block;  /* places of a block */
	int64_t groups; /* of panels */
	int64_t floats[AREAS];
};

/* Taps that see a frame from output frame f: [*first, *end). */
static void seen_taps(const struct winograd *w, int64_t f, int64_t *first, int64_t *end)
{
	const int64_t from = f * w->frame_step + w->frame_origin;
	*first = larger(0, -from);
	*end = larger(*first, smaller(w->frame_kernel, w->frames - from));
}

static int64_t cut_channel(const struct winograd *w, const struct winograd_plan *p, int64_t cut)
{
	return w->channels * cut / p->cuts;
}

static int64_t point_inputs(const struct winograd *w, const struct winograd_plan *p)
{
	return p->block * w->frames * winograd_row(w->channels) + PAD;
}

static int64_t point_products(const struct winograd *w, const struct winograd_plan *p)
{
	return p->block * w->out_frames * (p->many ? 1 : PANEL_GROUP) * p->wide + PAD;
}

/* Of one panel: all channels, or those of the longest cut. */
static int64_t point_weights(const struct winograd *w, const struct winograd_plan *p)
{
	return p->taps * (p->many ? w->channels : divide_up(w->channels, p->cuts)) * p->wide + PAD;
}

static int64_t block_places(const struct cpu_device *device, const struct winograd *w, int64_t places)
{
	const int64_t strip = device->kernels->strip_rows;
	const int64_t place = POINTS * w->frames * winograd_row(w->channels) * (int64_t)sizeof(float);
	const int64_t fitting = larger(1, BLOCK_BYTES / place / strip) * strip;
	const int64_t blocks = divide_up(divide_up(places, fitting), device->threads) * device->threads;
	return divide_up(places, blocks);
}

static struct winograd_plan winograd_plan(const struct cpu_device *device, const struct winograd *w)
{
	struct winograd_plan p = {.tile_rows = winograd_tiles(w->out_height),
		.tile_columns = winograd_tiles(w->out_width),
		.first_tap = w->frame_kernel,
		.wide = device->kernels->panel};
	int64_t end_tap = 0;
	for (int64_t f = 0; f < w->out_frames; f++) {
		int64_t first, end;
		seen_taps(w, f, &first, &end);
		if (first < end) {
			p.first_tap = smaller(p.first_tap, first);
			end_tap = larger(end_tap, end);
		}
	}
	p.taps = larger(0, end_tap - p.first_tap);
	p.places = w->samples * p.tile_rows * p.tile_columns;
	p.cuts = p.taps * w->channels <= PRODUCT_CHAIN ? 1 : divide_up(w->channels, PRODUCT_CHAIN);
	p.panels = divide_up(w->columns, p.wide);
	p.many = p.places * w->out_frames >= MANY_ROWS;
	p.block = p.many ? block_places(device, w, p.places) : p.places;
	p.groups = p.many ? p.panels : divide_up(p.panels, PANEL_GROUP);
	p.floats[INPUTS] = POINTS * point_inputs(w, &p);
	p.floats[WEIGHTS] = POINTS * point_weights(w, &p) * (p.many ? p.panels : PANEL_GROUP);
	p.floats[PRODUCTS] = POINTS * point_products(w, &p);
	p.floats[PATCHES] = POINTS * w->channels;
	p.floats[TURNED] = w->turned ? 9 * TURNED_ROWS * p.wide : 0;
	for (int i = 0; i < AREAS; i++)
		p.floats[i] = divide_up(p.floats[i], PAD) * PAD;
	return p;
}

struct winograd_job {
	const struct cpu_device *device;
	const struct winograd *winograd;
	struct winograd_plan plan;
	float *area[AREAS]; /* the common one, or the first thread's */
};

static bool is_common(const struct winograd_plan *p, enum area area)
{
	return area == (p->many ? WEIGHTS : INPUTS);
}

/* A thread's part. */
static float *area_of(const struct winograd_job *job, enum area area, int thread)
{
	return job->area[area] + (is_common(&job->plan, area) ? 0 : thread * job->plan.floats[area]);
}

/* ---- transforms ---- */

void winograd_transform(const struct cpu_device *device, const struct winograd_frame *frame, int size,
	int64_t top, int64_t left, float *patch, float *to, ptrdiff_t point)
{
	const int64_t c = frame->channels;
	const float *from = frame->pixels + (top * frame->width + left) * c;
	int64_t line = frame->width * c;
	if (top < 0 || left < 0 || top + size > frame->height || left + size > frame->width) {
		const int64_t start = smaller(size, larger(0, -left)),
			      end = larger(start, smaller(size, frame->width - left));
		memset(patch, 0, (size_t)(size * size * c) * sizeof *patch);
		for (int64_t r = 0; r < size; r++)
			if (top + r >= 0 && top + r < frame->height)
				memcpy(patch + (r * size + start) * c,
					frame->pixels + ((top + r) * frame->width + left + start) * c,
					(size_t)((end - start) * c) * sizeof *patch);
		from = patch;
		line = size * c;
	}
	if (size == 4)
		device->kernels->winograd_input(to, point, from, line, c, c);
	else
		device->kernels->winograd_gradient(to, point, from, line, c, c);
}

/* The places [first, end) in all frames, to rows [frame][place - origin] with `places` places a frame. */
static void transform_inputs(const struct winograd_job *job, float *to, int64_t origin, int64_t places,
	int64_t first, int64_t end, int thread)
{
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t row = winograd_row(w->channels), pixels = w->height * w->width * w->channels;
	struct winograd_frame frame = {NULL, w->height, w->width, w->channels};
	for (int64_t i = first; i < end; i++) {
		const int64_t column = i % p->tile_columns, line = i / p->tile_columns % p->tile_rows,
			      sample = i / p->tile_columns / p->tile_rows;
		for (int64_t f = 0; f < w->frames; f++) {
			frame.pixels = w->source + (sample * w->frames + f) * pixels;
			winograd_transform(job->device, &frame, 4, 2 * line + w->origin[0],
				2 * column + w->origin[1], area_of(job, PATCHES, thread),
				to + (f * places + i - origin) * row, point_inputs(w, p));
		}
	}
}

/* Rows [first, first + rows) of the weights of one panel and tap, turned into the order of a forward pass. */
static const float *turned_taps(const struct winograd_job *job, float *turned, int64_t panel, int64_t tap,
	int64_t first, int64_t rows)
{
	const struct winograd *w = job->winograd;
	const int64_t column = panel * job->plan.wide, columns = smaller(job->plan.wide, w->columns - column);
	for (int64_t i = 0; i < 9; i++) {
		const float *from =
			w->weight +
			(((w->frame_kernel - 1 - tap) * 9 + 8 - i) * w->columns + column) * w->channels +
			first;
		job->device->kernels->turn(
			turned + i * TURNED_ROWS * columns, columns, from, w->channels, columns, rows);
	}
	return turned;
}

/* Channels [first, end) of one panel, to [point][tap][channel][column]; `depth` channels a tap. */
static void transform_weights(const struct winograd_job *job, float *to, int64_t panel, int64_t first,
	int64_t end, int64_t depth, int thread)
{
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t columns = smaller(p->wide, w->columns - panel * p->wide), point = point_weights(w, p);
	float *turned = area_of(job, TURNED, thread);
	for (int64_t t = 0; t < p->taps; t++) {
		const int64_t tap = p->first_tap + t;
		float *out = to + t * depth * columns;
		if (!w->turned) {
			job->device->kernels->winograd_kernel(out, point,
				w->weight + (tap * 9 * w->channels + first) * w->columns + panel * p->wide,
				w->channels * w->columns, w->columns, end - first, columns);
			continue;
		}
		for (int64_t c = first; c < end; c += TURNED_ROWS) {
			const int64_t rows = smaller(TURNED_ROWS, end - c);
			job->device->kernels->winograd_kernel(out + (c - first) * columns, point,
				turned_taps(job, turned, panel, tap, c, rows), TURNED_ROWS * columns, columns,
				rows, columns);
		}
	}
}

/* The products of a block of places for one panel, to the outputs. */
static void transform_outputs(const struct winograd_job *job, const float *products, int64_t row,
	int64_t first, int64_t places, int64_t panel)
{
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t column = panel * p->wide;
	struct winograd_output output = {
		.bias = w->bias ? w->bias + column : NULL,
		.point = point_products(w, p),
		.line = w->out_width * w->columns,
		.step = w->columns,
		.channels = smaller(p->wide, w->columns - column),
		.accumulate = w->accumulate,
	};
	for (int64_t i = 0; i < places; i++) {
		const int64_t place = first + i, x = 2 * (place % p->tile_columns),
			      y = 2 * (place / p->tile_columns % p->tile_rows),
			      sample = place / p->tile_columns / p->tile_rows;
		output.height = (int)smaller(2, w->out_height - y);
		output.width = (int)smaller(2, w->out_width - x);
		for (int64_t f = 0; f < w->out_frames; f++) {
			const int64_t line =
				((sample * w->out_frames + f) * w->out_height + y) * w->out_width + x;
			output.from = products + (f * places + i) * row;
			output.to = w->out + line * w->columns + column;
			job->device->kernels->winograd_output(&output);
		}
	}
}

/* ---- products ---- */

/* What the products of one cut of the channels, of one panel read and write. */
struct winograd_products {
	const float *inputs, *weights; /* at the cut's first channel */
	float *products;
	int64_t places, depth, length; /* depth: channels of a tap of the weights, length: of the cut */
	int64_t row;                   /* floats from row to row of the products */
	int columns;
	bool first;
};

/* One output frame at one point. */
static void multiply_frame(
	const struct winograd_job *job, const struct winograd_products *m, int64_t point, int64_t f)
{
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t row = winograd_row(w->channels);
	int64_t first, end;
	seen_taps(w, f, &first, &end);
	float *out = m->products + point * point_products(w, p) + f * m->places * m->row;
	for (int64_t i = 0; i < m->places && first >= end && m->first; i++)
		memset(out + i * m->row, 0, (size_t)m->columns * sizeof *out);
	const bool whole = (end - first) * m->length <= PRODUCT_CHAIN;
	for (int64_t tap = first; tap < end; tap += whole ? end - first : 1) {
		const struct strip strip = {
			.a = m->inputs + point * point_inputs(w, p) +
			     (f * w->frame_step + w->frame_origin + tap) * m->places * row,
			.a_row = row,
			.a_step = 1,
			.a_segment = m->places * row,
			.b = m->weights + point * point_weights(w, p) +
			     (tap - p->first_tap) * m->depth * m->columns,
			.b_step = m->columns,
			.b_segment = m->depth * m->columns,
			.c = out,
			.c_row = m->row,
			.rows = m->places,
			.segments = whole ? end - first : 1,
			.length = m->length,
			.columns = m->columns,
			.accumulate = !m->first || tap > first,
		};
		job->device->kernels->strip(&strip);
	}
}

static void multiply(const struct winograd_job *job, const struct winograd_products *m)
{
	for (int64_t point = 0; point < POINTS; point++)
		for (int64_t f = 0; f < job->winograd->out_frames; f++)
			multiply_frame(job, m, point, f);
}

/* ---- many tiles ---- */

static void weights_piece(void *context, int64_t i, int thread)
{
	const struct winograd_job *job = context;
	const int64_t channels = job->winograd->channels;
	transform_weights(job, job->area[WEIGHTS] + i * POINTS * point_weights(job->winograd, &job->plan), i,
		0, channels, channels, thread);
}

static void block_piece(void *context, int64_t i, int thread)
{
	const struct winograd_job *job = context;
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t first = i * p->block, places = smaller(p->block, p->places - first);
	float *inputs = area_of(job, INPUTS, thread);
	struct winograd_products m = {.products = area_of(job, PRODUCTS, thread),
		.places = places,
		.depth = w->channels,
		.row = p->wide};
	transform_inputs(job, inputs, first, places, first, first + places, thread);
	for (int64_t panel = 0; panel < p->panels; panel++) {
		m.columns = (int)smaller(p->wide, w->columns - panel * p->wide);
		for (int64_t cut = 0; cut < p->cuts; cut++) {
			const int64_t channel = cut_channel(w, p, cut);
			m.inputs = inputs + channel;
			m.weights = job->area[WEIGHTS] + panel * POINTS * point_weights(w, p) +
				    channel * m.columns;
			m.length = cut_channel(w, p, cut + 1) - channel;
			m.first = cut == 0;
			multiply(job, &m);
		}
		transform_outputs(job, m.products, m.row, first, places, panel);
	}
}

/* ---- few tiles ---- */

static void inputs_piece(void *context, int64_t i, int thread)
{
	const struct winograd_job *job = context;
	transform_inputs(job, job->area[INPUTS], 0, job->plan.places, i, i + 1, thread);
}

static void group_piece(void *context, int64_t i, int thread)
{
	const struct winograd_job *job = context;
	const struct winograd *w = job->winograd;
	const struct winograd_plan *p = &job->plan;
	const int64_t panel = i * PANEL_GROUP, panels = smaller(PANEL_GROUP, p->panels - panel);
	float *weights = area_of(job, WEIGHTS, thread), *products = area_of(job, PRODUCTS, thread);
	struct winograd_products m = {.places = p->places, .row = PANEL_GROUP * p->wide};
	for (int64_t cut = 0; cut < p->cuts; cut++) {
		const int64_t channel = cut_channel(w, p, cut), end = cut_channel(w, p, cut + 1);
		m.inputs = job->area[INPUTS] + channel;
		m.length = m.depth = end - channel;
		m.first = cut == 0;
		for (int64_t k = 0; k < panels; k++) {
			m.columns = (int)smaller(p->wide, w->columns - (panel + k) * p->wide);
			m.weights = weights + k * POINTS * point_weights(w, p);
			m.products = products + k * p->wide;
			transform_weights(job, weights + k * POINTS * point_weights(w, p), panel + k, channel,
				end, m.depth, thread);
			multiply(job, &m);
		}
	}
	for (int64_t k = 0; k < panels; k++)
		transform_outputs(job, products + k * p->wide, m.row, 0, p->places, panel + k);
}

/* ---- the whole ---- */

/* Rules of shape: 3x3 taps, stride 1, channels enough for the transforms to pay, and no image so thin that most of a tile is
 * padding: there the transforms would cancel what direct sums never add. */
static bool winograd_fits(const struct convolution_shape *s)
{
	const bool taps = s->kernel[0] == 3 && s->kernel[1] == 3 && s->stride[0] == 1 && s->stride[1] == 1;
	return taps && s->groups == 1 && s->channels >= 16 && s->out >= 16 &&
	       smaller(s->height, s->width) >= 2 && smaller(s->out_height, s->out_width) >= 2;
}

bool winograd_forward(const struct convolution_shape *s, struct winograd *winograd)
{
	*winograd = (struct winograd){
		.samples = s->samples,
		.frames = s->frames,
		.height = s->height,
		.width = s->width,
		.channels = s->channels,
		.out_frames = s->out_frames,
		.out_height = s->out_height,
		.out_width = s->out_width,
		.columns = s->out,
		.frame_kernel = s->frame_kernel,
		.frame_step = s->frame_stride,
		.frame_origin = -s->frame_pad,
		.origin = {-s->pad[0], -s->pad[1]},
	};
	return winograd_fits(s);
}

bool winograd_data(const struct convolution_shape *s, struct winograd *winograd)
{
	*winograd = (struct winograd){
		.samples = s->samples,
		.frames = s->out_frames,
		.height = s->out_height,
		.width = s->out_width,
		.channels = s->out,
		.out_frames = s->frames,
		.out_height = s->height,
		.out_width = s->width,
		.columns = s->channels,
		.frame_kernel = s->frame_kernel,
		.frame_step = 1,
		.frame_origin = s->frame_pad - s->frame_kernel + 1,
		.origin = {s->pad[0] - 2, s->pad[1] - 2},
		.turned = true,
	};
	return winograd_fits(s) && s->frame_stride == 1;
}

size_t winograd_workspace(const struct cpu_device *device, const struct winograd *winograd)
{
	const struct winograd_plan p = winograd_plan(device, winograd);
	int64_t floats = 0;
	for (int i = 0; i < AREAS; i++)
		floats += p.floats[i] * (is_common(&p, (enum area)i) ? 1 : device->threads);
	return (size_t)floats * sizeof(float);
}

void winograd_run(const struct cpu_device *device, const struct winograd *w, void *workspace)
{
	struct winograd_job job = {.device = device, .winograd = w, .plan = winograd_plan(device, w)};
	const struct winograd_plan *p = &job.plan;
	const double weights = (double)(p->taps * 9 * w->channels * w->columns),
		     rows = (double)(p->places * w->frames);
	float *at = workspace;
	for (int i = 0; i < AREAS; i++) {
		job.area[i] = at;
		at += p->floats[i] * (is_common(p, (enum area)i) ? 1 : device->threads);
	}
	if (p->many) {
		cpu_share(device, weights, p->panels, weights_piece, &job);
		cpu_share(device, rows * weights / 8, divide_up(p->places, p->block), block_piece, &job);
	} else {
		cpu_share(device, rows * (double)w->channels * 16, p->places, inputs_piece, &job);
		cpu_share(device, rows * weights / 8, p->groups, group_piece, &job);
	}
}
