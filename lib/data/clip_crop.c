/* Which part of a frame is taken. */
#include <math.h>

#include "data/clip.h"

enum { TRIES = 10, CORNER_SCALES = 5, PLACES = 5 };

/* n / 2 rounded half to even, n >= 0. */
static int half_even(int n)
{
	int floor = n / 2;

	return n % 2 && floor % 2 ? floor + 1 : floor;
}

static int clamp(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

/* The box scaled to size x size, all of it kept. */
static void take_box(struct clip_geometry *geometry, int frame_height, int frame_width, int top, int left,
	int height, int width)
{
	*geometry = (struct clip_geometry){
		.frame_height = frame_height,
		.frame_width = frame_width,
		.box_top = top,
		.box_left = left,
		.box_height = height,
		.box_width = width,
	};
}

static void scale_to(struct clip_geometry *geometry, int height, int width)
{
	geometry->scaled_height = geometry->height = height;
	geometry->scaled_width = geometry->width = width;
}

/* No try fitted: the middle, as much of it as the ratio allows. */
static void take_fallback(struct clip_geometry *geometry, int H, int W, double ratio)
{
	double shape = (double)W / H;
	int height = H, width = W;

	if (shape < ratio)
		height = clamp((int)rint(W / ratio), 1, H);
	else if (shape > 1 / ratio)
		width = clamp((int)rint(H / ratio), 1, W);
	take_box(geometry, H, W, (H - height) / 2, (W - width) / 2, height, width);
}

void clip_crop_random(struct clip_geometry *geometry, int H, int W, int size, double minimum_scale,
	double minimum_ratio, const struct clip_random *random, uint64_t step, uint32_t sample)
{
	double low = exact_log(minimum_ratio), high = exact_log(1 / minimum_ratio);
	struct random r = random->crop;

	for (uint32_t k = 0; k < 4 * TRIES; k += 4) {
		double u = random_uniform(r, step, sample, k), v = random_uniform(r, step, sample, k + 1);
		double area = (double)H * W * (minimum_scale + u * (1 - minimum_scale));
		double ratio = exact_exp(low + v * (high - low));
		double width = rint(sqrt(area * ratio)), height = rint(sqrt(area / ratio));

		if (width < 1 || width > W || height < 1 || height > H)
			continue;
		int h = (int)height, w = (int)width;
		int top = (int)random_below(r, step, sample, k + 2, (uint64_t)(H - h + 1));
		int left = (int)random_below(r, step, sample, k + 3, (uint64_t)(W - w + 1));

		take_box(geometry, H, W, top, left, h, w);
		scale_to(geometry, size, size);
		return;
	}
	take_fallback(geometry, H, W, minimum_ratio);
	scale_to(geometry, size, size);
}

void clip_crop_corner_at(struct clip_geometry *geometry, int H, int W, int size, int scale, int place)
{
	double factor = 1;
	int side, bottom, right;

	for (int i = 0; i < scale; i++)
		factor *= 0.8408964152537146; /* 2^(-1/4), multiplied up as the original does */
	side = (int)((H < W ? H : W) * factor);
	side = side < 1 ? 1 : side;
	bottom = H - side;
	right = W - side;
	if (place == 0)
		take_box(geometry, H, W, half_even(bottom), half_even(right), side, side);
	else
		take_box(geometry, H, W, place > 2 ? bottom : 0, place % 2 ? 0 : right, side, side);
	scale_to(geometry, size, size);
}

void clip_crop_corner(struct clip_geometry *geometry, int H, int W, int size,
	const struct clip_random *random, uint64_t step, uint32_t sample)
{
	int scale = (int)random_below(random->crop, step, sample, 0, CORNER_SCALES);
	int place = (int)random_below(random->crop, step, sample, 1, PLACES);

	clip_crop_corner_at(geometry, H, W, size, scale, place);
}

void clip_crop_none(struct clip_geometry *geometry, int H, int W, int size)
{
	take_box(geometry, H, W, 0, 0, H, W);
	if (W < H)
		scale_to(geometry, (int)((int64_t)size * H / W), size);
	else
		scale_to(geometry, size, (int)((int64_t)size * W / H));
}

void clip_crop_center(struct clip_geometry *geometry, int H, int W, int size)
{
	clip_crop_none(geometry, H, W, size);
	geometry->top = half_even(geometry->scaled_height - size);
	geometry->left = half_even(geometry->scaled_width - size);
	geometry->height = geometry->width = size;
}

bool clip_flip_drawn(const struct clip_random *random, double probability, uint64_t step, uint32_t sample)
{
	return random_uniform(random->flip, step, sample, 0) < probability;
}
