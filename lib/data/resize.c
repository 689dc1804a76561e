/*
 * Resizing rasters: nearest-exact, and separable anti-aliased resampling (horizontal first, then vertical, in
 * float32, as the library of the original does it).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/depth.h"

/* floor((i + 0.5) n / m), in float32 so that it agrees with the original for every pair of sizes. */
static int nearest_source(int i, int n, int m)
{
	float scale = (float)n / (float)m;
	int source = (int)floorf(((float)i + 0.5f) * scale);

	return source < n - 1 ? source : n - 1;
}

void resize_nearest_u8(const uint8_t *in, int h, int w, int channels, uint8_t *out, int oh, int ow)
{
	size_t pixel = (size_t)channels, row = (size_t)w * pixel;

	for (int y = 0; y < oh; y++) {
		const uint8_t *from = in + (size_t)nearest_source(y, h, oh) * row;

		for (int x = 0; x < ow; x++, out += pixel)
			for (size_t c = 0; c < pixel; c++)
				out[c] = from[(size_t)nearest_source(x, w, ow) * pixel + c];
	}
}

void resize_nearest_f32(const float *in, int h, int w, float *out, int oh, int ow)
{
	for (int y = 0; y < oh; y++) {
		const float *from = in + (size_t)nearest_source(y, h, oh) * (size_t)w;

		for (int x = 0; x < ow; x++)
			*out++ = from[nearest_source(x, w, ow)];
	}
}

/* ---- anti-aliased ---- */

/* For each output index the first tap and the weights of `taps` consecutive ones (0 behind the last real
 * one). */
struct filter {
	int taps;
	int *first;    /* owned */
	float *weight; /* [outputs, taps], owned */
};

static void filter_release(struct filter *filter)
{
	free(filter->first);
	free(filter->weight);
}

static double kernel(enum resize_kind kind, double x)
{
	x = fabs(x);
	if (kind == RESIZE_BILINEAR)
		return x < 1 ? 1 - x : 0;
	if (x < 1)
		return (1.5 * x - 2.5) * x * x + 1;
	return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static int clamp_index(double x, int limit)
{
	return x < 0 ? 0 : x > limit ? limit : (int)x;
}

/* Taps outside the raster are dropped, and what is left is divided by its sum. */
static void fill_filter(struct filter *filter, enum resize_kind kind, int n, int m)
{
	double scale = (double)n / m, stretch = scale > 1 ? scale : 1;
	double radius = (kind == RESIZE_BICUBIC ? 2 : 1) * stretch;

	for (int i = 0; i < m; i++) {
		double centre = scale * (i + 0.5), sum = 0;
		int first = clamp_index(centre - radius + 0.5, n),
		    last = clamp_index(centre + radius + 0.5, n);
		float *weight = filter->weight + (size_t)i * (size_t)filter->taps;

		for (int j = first; j < last; j++)
			sum += kernel(kind, (j + 0.5 - centre) / stretch);
		for (int j = first; j < last; j++)
			weight[j - first] = (float)(kernel(kind, (j + 0.5 - centre) / stretch) / sum);
		filter->first[i] = first;
	}
}

static void fill_nearest(struct filter *filter, int n, int m)
{
	for (int i = 0; i < m; i++) {
		filter->first[i] = nearest_source(i, n, m);
		filter->weight[i] = 1;
	}
}

static int filter_init(struct filter *filter, enum resize_kind kind, int n, int m)
{
	double stretch = n > m ? (double)n / m : 1;

	*filter = (struct filter){.taps = 1};
	if (kind != RESIZE_NEAREST)
		filter->taps = 2 * (int)ceil((kind == RESIZE_BICUBIC ? 2 : 1) * stretch) + 1;
	if (filter->taps > n)
		filter->taps = n;
	filter->first = memory_new((size_t)m, sizeof *filter->first);
	filter->weight = memory_new((size_t)m * (size_t)filter->taps, sizeof *filter->weight);
	if (!filter->first || !filter->weight) {
		filter_release(filter);
		return error_status();
	}
	if (kind == RESIZE_NEAREST)
		fill_nearest(filter, n, m);
	else
		fill_filter(filter, kind, n, m);
	for (int i = 0; i < m; i++) { /* the taps behind the last one have weight 0, but must lie inside */
		int over = filter->first[i] + filter->taps - n;
		float *weight = filter->weight + (size_t)i * (size_t)filter->taps;

		if (over <= 0)
			continue;
		memmove(weight + over, weight, (size_t)(filter->taps - over) * sizeof *weight);
		memset(weight, 0, (size_t)over * sizeof *weight);
		filter->first[i] -= over;
	}
	return STATUS_OK;
}

static void filter_row(const struct filter *filter, const float *in, int channels, float *out, int ow)
{
	const float *weight = filter->weight;

	for (int x = 0; x < ow; x++, weight += filter->taps, out += channels) {
		const float *from = in + (size_t)filter->first[x] * (size_t)channels;

		for (int c = 0; c < channels; c++) {
			float sum = 0;

			for (int t = 0; t < filter->taps; t++)
				sum += weight[t] * from[t * channels + c];
			out[c] = sum;
		}
	}
}

static void filter_column(const struct filter *filter, int y, const float *rows, size_t row, float *out)
{
	const float *weight = filter->weight + (size_t)y * (size_t)filter->taps;
	const float *from = rows + (size_t)filter->first[y] * row;

	memset(out, 0, row * sizeof *out);
	for (int t = 0; t < filter->taps; t++, from += row) {
		float w = weight[t];

		if (w == 0)
			continue;
#pragma omp simd
		for (size_t i = 0; i < row; i++)
			out[i] += w * from[i];
	}
}

int resize_antialiased(
	const float *in, int h, int w, int channels, enum resize_kind kind, float *out, int oh, int ow)
{
	struct filter across = {0}, down = {0};
	size_t row = (size_t)ow * (size_t)channels;
	float *rows = memory_new((size_t)h * row, sizeof *rows);
	int status = rows ? filter_init(&across, kind, w, ow) : error_status();

	if (!status)
		status = filter_init(&down, kind, h, oh);
	if (status)
		goto out;
	for (int y = 0; y < h; y++)
		filter_row(&across, in + (size_t)y * (size_t)w * (size_t)channels, channels,
			rows + (size_t)y * row, ow);
	for (int y = 0; y < oh; y++)
		filter_column(&down, y, rows, row, out + (size_t)y * row);
out:
	filter_release(&across);
	filter_release(&down);
	free(rows);
	return status;
}

static uint8_t byte_of(float value)
{
	float rounded = value <= 0 ? 0 : value >= 255 ? 255 : nearbyintf(value);

	return (uint8_t)rounded;
}

int resize_antialiased_u8(
	const uint8_t *in, int h, int w, int channels, enum resize_kind kind, uint8_t *out, int oh, int ow)
{
	size_t from = (size_t)h * (size_t)w * (size_t)channels,
	       to = (size_t)oh * (size_t)ow * (size_t)channels;
	float *wide = memory_new(from, sizeof *wide), *small = memory_new(to, sizeof *small);
	int status = wide && small ? STATUS_OK : error_status();

	if (!status) {
		for (size_t i = 0; i < from; i++)
			wide[i] = in[i];
		status = resize_antialiased(wide, h, w, channels, kind, small, oh, ow);
	}
	for (size_t i = 0; !status && i < to; i++)
		out[i] = byte_of(small[i]);
	free(wide);
	free(small);
	return status;
}

/* ---- samples ---- */

int depth_sample_resize(struct depth_sample *sample, int height, int width, bool original)
{
	size_t pixels = (size_t)height * (size_t)width;
	struct depth_sample to = {.height = height, .width = width};
	int status = STATUS_OK, h = sample->height, w = sample->width;

	if (h == height && w == width)
		return STATUS_OK;
	if ((sample->rgb && !(to.rgb = memory_new(pixels, 3))) ||
		(sample->depth && !(to.depth = memory_new(pixels, sizeof *to.depth))) ||
		(sample->mask && !(to.mask = memory_new(pixels, 1))))
		status = error_status();
	if (!status && to.rgb && original)
		resize_nearest_u8(sample->rgb, h, w, 3, to.rgb, height, width);
	else if (!status && to.rgb)
		status = resize_antialiased_u8(sample->rgb, h, w, 3, RESIZE_BILINEAR, to.rgb, height, width);
	if (status) {
		depth_sample_release(&to);
		return status;
	}
	if (to.depth)
		resize_nearest_f32(sample->depth, h, w, to.depth, height, width);
	if (to.mask)
		resize_nearest_u8(sample->mask, h, w, 1, to.mask, height, width);
	depth_sample_release(sample);
	*sample = to;
	return STATUS_OK;
}

void depth_sample_flip(struct depth_sample *sample)
{
	size_t width = (size_t)sample->width;

	for (size_t y = 0; y < (size_t)sample->height; y++)
		for (size_t x = 0, z = width - 1; x < width / 2; x++, z--) {
			size_t a = y * width + x, b = y * width + z;
			uint8_t pixel[3], mask;
			float depth;

			if (sample->rgb) {
				memcpy(pixel, sample->rgb + 3 * a, 3);
				memcpy(sample->rgb + 3 * a, sample->rgb + 3 * b, 3);
				memcpy(sample->rgb + 3 * b, pixel, 3);
			}
			if (sample->depth) {
				depth = sample->depth[a];
				sample->depth[a] = sample->depth[b];
				sample->depth[b] = depth;
			}
			if (sample->mask) {
				mask = sample->mask[a];
				sample->mask[a] = sample->mask[b];
				sample->mask[b] = mask;
			}
		}
}
