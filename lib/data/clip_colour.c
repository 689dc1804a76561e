/*
 * Colour jitter on bytes, each step as Pillow's image operations and torchvision's use of them: blends in float32 that are cut off,
 * not rounded; luma in 16-bit fixed point; hue by way of HSV bytes.
 */
#include <math.h>

#include "data/clip.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, STEPS };

static double draw_between(double low, double high, const struct clip_random *random, uint64_t step,
	uint32_t sample, int element)
{
	return low + random_uniform(random->colour, step, sample, (uint32_t)element) * (high - low);
}

void clip_colour_draw(struct clip_colour *colour, const struct clip_jitter *jitter,
	const struct clip_random *random, uint64_t step, uint32_t sample)
{
	const double strength[STEPS] = {
		jitter->brightness, jitter->contrast, jitter->saturation, jitter->hue};
	int left[STEPS] = {BRIGHTNESS, CONTRAST, SATURATION, HUE};

	for (int i = 0; i < HUE; i++)
		colour->factor[i] =
			draw_between(fmax(0, 1 - strength[i]), 1 + strength[i], random, step, sample, i);
	colour->factor[HUE] = draw_between(-strength[HUE], strength[HUE], random, step, sample, HUE);
	for (int i = 0; i < STEPS; i++) {
		int count = STEPS - i;
		int place = count > 1 ? (int)random_below(random->colour, step, sample, (uint32_t)(STEPS + i),
						(uint64_t)count)
				      : 0;

		colour->order[i] = strength[left[place]] > 0 ? left[place] : -1;
		left[place] = left[count - 1];
	}
}

static uint8_t luma(const uint8_t *p)
{
	return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
}

/* From `base` (factor 0) through `value` (factor 1) and beyond. */
static uint8_t blend(int base, int value, float factor)
{
	float mixed = (float)base + factor * (float)(value - base);

	return (uint8_t)(mixed <= 0 ? 0 : mixed >= 255 ? 255 : mixed);
}

static void blend_constant(uint8_t *pixels, size_t count, int base, float factor)
{
	uint8_t table[256];

	for (int i = 0; i < 256; i++)
		table[i] = blend(base, i, factor);
	for (size_t i = 0; i < 3 * count; i++)
		pixels[i] = table[pixels[i]];
}

static int mean_luma(const uint8_t *pixels, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += luma(pixels + 3 * i);
	return (int)((double)sum / (double)count + 0.5);
}

static void saturate(uint8_t *pixels, size_t count, float factor)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *p = pixels + 3 * i;
		int grey = luma(p);

		for (int c = 0; c < 3; c++)
			p[c] = blend(grey, p[c], factor);
	}
}

static uint8_t cut(double value)
{
	return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void to_hsv(const uint8_t *rgb, uint8_t *hsv)
{
	int r = rgb[0], g = rgb[1], b = rgb[2];
	int high = r > g ? r : g, low = r < g ? r : g;
	float range, red, green, blue, hue;

	high = b > high ? b : high;
	low = b < low ? b : low;
	hsv[0] = hsv[1] = 0;
	hsv[2] = (uint8_t)high;
	if (high == low)
		return;
	range = (float)(high - low);
	red = (float)(high - r) / range;
	green = (float)(high - g) / range;
	blue = (float)(high - b) / range;
	if (r == high)
		hue = blue - green;
	else if (g == high)
		hue = (float)(2.0 + red - blue);
	else
		hue = (float)(4.0 + green - red);
	hue = (float)fmod(hue / 6.0 + 1.0, 1.0);
	hsv[0] = cut(hue * 255.0);
	hsv[1] = cut(range / (float)high * 255.0);
}

static void to_rgb(const uint8_t *hsv, uint8_t *rgb)
{
	double sixth = hsv[0] * 6.0 / 255.0, value = hsv[2];
	float saturation = (float)(hsv[1] / 255.0), rest;
	int sector = (int)floor(sixth);
	uint8_t v = hsv[2], p, q, t;

	rest = (float)(sixth - sector);
	p = cut(round(value * (1.0 - saturation)));
	q = cut(round(value * (1.0 - saturation * rest)));
	t = cut(round(value * (1.0 - saturation * (1.0 - rest))));
	const uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};

	for (int c = 0; c < 3; c++)
		rgb[c] = hsv[1] ? sectors[sector % 6][c] : v;
}

static void turn_hue(uint8_t *pixels, size_t count, double shift)
{
	uint8_t turn = (uint8_t)(int)(shift * 255), hsv[3];

	for (size_t i = 0; i < count; i++) {
		to_hsv(pixels + 3 * i, hsv);
		hsv[0] = (uint8_t)(hsv[0] + turn);
		to_rgb(hsv, pixels + 3 * i);
	}
}

void clip_colour_apply(const struct clip_colour *colour, uint8_t *pixels, size_t count)
{
	for (int i = 0; i < STEPS; i++) {
		float factor = colour->order[i] < 0 ? 0 : (float)colour->factor[colour->order[i]];

		if (colour->order[i] == BRIGHTNESS)
			blend_constant(pixels, count, 0, factor);
		else if (colour->order[i] == CONTRAST)
			blend_constant(pixels, count, mean_luma(pixels, count), factor);
		else if (colour->order[i] == SATURATION)
			saturate(pixels, count, factor);
		else if (colour->order[i] == HUE)
			turn_hue(pixels, count, colour->factor[HUE]);
	}
}
