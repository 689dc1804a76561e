/*
 * Scaling as Pillow does it: a triangle filter that widens with the reduction, one pass across and one down, weights of 22 bits, the
 * intermediate rounded to bytes. Only what the result needs is computed, so the window of a scaled frame costs its share.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/clip.h"
#include "data/clip_scale.h"

struct clip_scaler {
	struct clip_geometry geometry;
	struct clip_filter across, down; /* first: rows and columns of the frame */
	int top, left, height, width;    /* what is needed of the frame */
	int channels;
	bool down_first;
	uint8_t *between; /* [rows, columns, channels] behind the first pass and slack, owned */
	uint8_t *row;     /* one row of the result and slack, owned */
	clip_across *do_across;
	clip_down *do_down;
};

/* ---- filters ---- */

static void filter_release(struct clip_filter *filter)
{
	free(filter->first);
	free(filter->taps);
	free(filter->weight);
	free(filter->high);
	free(filter->low);
}

static double triangle(double x)
{
	x = fabs(x);
	return x < 1 ? 1 - x : 0;
}

/* Which inputs of `n` make output `o` of `m`. */
static void find_taps(int n, int m, int o, int *first, int *taps)
{
	double ratio = (double)n / m, support = ratio > 1 ? ratio : 1, centre = (o + 0.5) * ratio;
	double low = centre - support + 0.5, high = centre + support + 0.5;

	*first = low > 0 ? (int)low : 0;
	*taps = (high < n ? (int)high : n) - *first;
}

static void fill_weights(struct clip_filter *filter, int n, int m, int o, int index)
{
	double ratio = (double)n / m, inverse = 1 / (ratio > 1 ? ratio : 1), centre = (o + 0.5) * ratio,
	       sum = 0;
	size_t at = (size_t)index * (size_t)filter->groups * CLIP_GROUP;
	int first = filter->first[index];

	for (int t = 0; t < filter->taps[index]; t++)
		sum += triangle((t + first - centre + 0.5) * inverse);
	for (int t = 0; t < filter->taps[index]; t++) {
		double weight = triangle((t + first - centre + 0.5) * inverse) / sum;
		int32_t whole = (int32_t)(0.5 + weight * (1 << CLIP_PRECISION));

		filter->weight[at + (size_t)t] = whole;
		filter->high[at + (size_t)t] = (int16_t)(whole >> CLIP_LOW_BITS);
		filter->low[at + (size_t)t] = (int16_t)(whole & ((1 << CLIP_LOW_BITS) - 1));
	}
	while (filter->taps[index] > 1 && !filter->weight[at + (size_t)filter->taps[index] - 1])
		filter->taps[index]--;
}

/* Outputs from `from` on, of a box of n inputs scaled to m, backwards where mirrored. */
static int filter_init(struct clip_filter *filter, int n, int m, int from, int outputs, bool mirrored)
{
	int most = 0;

	filter->outputs = outputs;
	filter->first = memory_new((size_t)outputs, sizeof *filter->first);
	filter->taps = memory_new((size_t)outputs, sizeof *filter->taps);
	if (!filter->first || !filter->taps)
		return error_status();
	for (int i = 0; i < outputs; i++) {
		find_taps(n, m, mirrored ? from + outputs - 1 - i : from + i, &filter->first[i],
			&filter->taps[i]);
		most = filter->taps[i] > most ? filter->taps[i] : most;
	}
	filter->groups = (most + CLIP_GROUP - 1) / CLIP_GROUP;
	size_t count = (size_t)outputs * (size_t)filter->groups * CLIP_GROUP;

	filter->weight = memory_new(count, sizeof *filter->weight);
	filter->high = memory_new(count, sizeof *filter->high);
	filter->low = memory_new(count, sizeof *filter->low);
	if (!filter->weight || !filter->high || !filter->low)
		return error_status();
	for (int i = 0; i < outputs; i++)
		fill_weights(filter, n, m, mirrored ? from + outputs - 1 - i : from + i, i);
	return STATUS_OK;
}

/* The first input that any output needs becomes number 0. */
static void filter_extent(struct clip_filter *filter, int *first, int *count)
{
	int low = filter->first[0], high = 0;

	for (int i = 0; i < filter->outputs; i++) {
		int end = filter->first[i] + filter->taps[i];

		low = filter->first[i] < low ? filter->first[i] : low;
		high = end > high ? end : high;
	}
	for (int i = 0; i < filter->outputs; i++)
		filter->first[i] -= low;
	*first = low;
	*count = high - low;
}

/* ---- the scaler ---- */

static bool goes_down_first(const struct clip_geometry *g)
{
	return g->passes == CLIP_PASSES_PILLOW_13 && g->scaled_height < g->box_height &&
	       g->box_height - g->scaled_height > 2 * (g->box_width - g->scaled_width);
}

static int check_geometry(const struct clip_geometry *g)
{
	bool inside = g->box_top >= 0 && g->box_left >= 0 && g->box_height > 0 && g->box_width > 0 &&
		      g->box_top <= g->frame_height - g->box_height &&
		      g->box_left <= g->frame_width - g->box_width;
	bool window = g->top >= 0 && g->left >= 0 && g->height > 0 && g->width > 0 &&
		      g->top <= g->scaled_height - g->height && g->left <= g->scaled_width - g->width;

	if (inside && window)
		return STATUS_OK;
	return error_set(STATUS_CONFIG, "a clip of %dx%d pixels cannot be cut from frames of %dx%d",
		g->height, g->width, g->frame_height, g->frame_width);
}

static int scaler_init(struct clip_scaler *scaler)
{
	const struct clip_geometry *g = &scaler->geometry;
	int status = check_geometry(g);
	size_t rows, columns;

	if (!status)
		status = filter_init(
			&scaler->across, g->box_width, g->scaled_width, g->left, g->width, g->flip);
	if (!status)
		status =
			filter_init(&scaler->down, g->box_height, g->scaled_height, g->top, g->height, false);
	if (status)
		return status;
	filter_extent(&scaler->across, &scaler->left, &scaler->width);
	filter_extent(&scaler->down, &scaler->top, &scaler->height);
	scaler->left += g->box_left;
	scaler->top += g->box_top;
	scaler->down_first = goes_down_first(g);
	rows = (size_t)(scaler->down_first ? g->height : scaler->height);
	columns = (size_t)(scaler->down_first ? scaler->width : g->width);
	scaler->between = memory_new(rows * columns * (size_t)scaler->channels + CLIP_SLACK, 1);
	scaler->row = memory_new((size_t)g->width * (size_t)scaler->channels + CLIP_SLACK, 1);
	return scaler->between && scaler->row ? STATUS_OK : error_status();
}

int clip_scaler_new(const struct clip_geometry *geometry, int channels, struct clip_scaler **result)
{
	struct clip_scaler *scaler = memory_new(1, sizeof *scaler);
	int status;

	*result = NULL;
	if (!scaler)
		return error_status();
	scaler->geometry = *geometry;
	scaler->channels = channels;
	scaler->do_across = clip_has_avx2() ? clip_across_avx2 : clip_across_plain;
	scaler->do_down = clip_has_avx2() ? clip_down_avx2 : clip_down_plain;
	status = scaler_init(scaler);
	if (status) {
		clip_scaler_free(scaler);
		return status;
	}
	*result = scaler;
	return STATUS_OK;
}

void clip_scaler_free(struct clip_scaler *scaler)
{
	if (!scaler)
		return;
	filter_release(&scaler->across);
	filter_release(&scaler->down);
	free(scaler->between);
	free(scaler->row);
	free(scaler);
}

void clip_scaler_needs(const struct clip_scaler *scaler, int *top, int *left, int *height, int *width)
{
	*top = scaler->top;
	*left = scaler->left;
	*height = scaler->height;
	*width = scaler->width;
}

static void run_across_first(struct clip_scaler *scaler, const uint8_t *in, size_t stride, uint8_t *out)
{
	size_t row = (size_t)scaler->geometry.width * (size_t)scaler->channels;

	for (int y = 0; y < scaler->height; y++)
		scaler->do_across(&scaler->across, scaler->channels, in + (size_t)y * stride,
			scaler->between + (size_t)y * row);
	for (int y = 0; y < scaler->geometry.height; y++)
		scaler->do_down(&scaler->down, y, scaler->between, row, row, out + (size_t)y * row);
}

static void run_down_first(struct clip_scaler *scaler, const uint8_t *in, size_t stride, uint8_t *out)
{
	size_t row = (size_t)scaler->geometry.width * (size_t)scaler->channels;
	size_t wide = (size_t)scaler->width * (size_t)scaler->channels;

	for (int y = 0; y < scaler->geometry.height; y++)
		scaler->do_down(&scaler->down, y, in, stride, wide, scaler->between + (size_t)y * wide);
	for (int y = 0; y < scaler->geometry.height; y++) {
		scaler->do_across(
			&scaler->across, scaler->channels, scaler->between + (size_t)y * wide, scaler->row);
		memcpy(out + (size_t)y * row, scaler->row, row);
	}
}

void clip_scaler_run(
	struct clip_scaler *scaler, const uint8_t *pixels, size_t stride, int top, int left, uint8_t *out)
{
	const uint8_t *in = pixels + (size_t)(scaler->top - top) * stride +
			    (size_t)(scaler->left - left) * (size_t)scaler->channels;

	if (scaler->down_first)
		run_down_first(scaler, in, stride, out);
	else
		run_across_first(scaler, in, stride, out);
}

void clip_flow_mirror(uint8_t *pixels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		pixels[2 * i] = (uint8_t)(255 - pixels[2 * i]);
}
