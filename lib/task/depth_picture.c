#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "data/colour.h"
#include "metric/depth.h"
#include "task/depth_picture.h"

static int new_image(struct image *image, int height, int width, int channels, int bits)
{
	*image = (struct image){.width = width, .height = height, .channels = channels, .bits = bits};
	image->data = memory_new((size_t)height * (size_t)width * (size_t)channels, (size_t)bits / 8);
	return image->data ? 0 : STATUS_FAILURE;
}

/* Copies an RGB panel into column `at` of the picture. */
static void place(const uint8_t *panel, int height, int width, int at, struct image *image)
{
	uint8_t *to = image->data;

	for (int y = 0; y < height; y++)
		memcpy(to + ((size_t)y * (size_t)image->width + (size_t)at) * 3,
			panel + (size_t)y * (size_t)width * 3, (size_t)width * 3);
}

/* Metres to the position in the truth's range; outside of the mask nan (black) for the truth. */
static void to_range(
	const float *metres, const uint8_t *mask, size_t count, float low, float high, float *out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = mask && !mask[i] ? NAN : (metres[i] - low) / fmaxf(high - low, 1e-6F);
}

int depth_picture(const struct depth_sample *sample, const float *depth, struct image *image)
{
	int height = sample->height, width = sample->width;
	size_t count = (size_t)height * (size_t)width;
	float *values = memory_new(count, sizeof(float)), *aligned = memory_new(count, sizeof(float)),
	      low = 0, high = 1;
	uint8_t *panel = memory_new(count, 3);
	int status = values && aligned && panel ? new_image(image, height, 3 * width, 3, 8) : STATUS_FAILURE;

	if (status)
		goto out;
	place(sample->rgb, height, width, 0, image);
	memcpy(aligned, depth, count * sizeof(float));
	if (sample->mask && !depth_quantiles(sample->depth, sample->mask, count, 0.02, &low, &high)) {
		status = depth_align(DEPTH_ALIGN_LEAST_SQUARES, depth, sample->depth, sample->mask, count, 0,
			1e9, aligned);
		to_range(sample->depth, sample->mask, count, low, high, values);
		colour_spectral(values, count, panel);
		place(panel, height, width, 2 * width, image);
	}
	to_range(aligned, NULL, count, low, high, values);
	colour_spectral(values, count, panel);
	place(panel, height, width, width, image);
out:
	free(values);
	free(aligned);
	free(panel);
	return status;
}

int depth_picture_colour(const float *depth, int height, int width, struct image *image)
{
	int status = new_image(image, height, width, 3, 8);

	if (!status)
		colour_spectral(depth, (size_t)height * (size_t)width, image->data);
	return status;
}

int depth_picture_grey16(const float *depth, int height, int width, struct image *image)
{
	int status = new_image(image, height, width, 1, 16);
	uint16_t *to = image->data;

	for (size_t i = 0; i < (size_t)height * (size_t)width && !status; i++)
		to[i] = (uint16_t)(fminf(fmaxf(depth[i], 0), 1) * 65535);
	return status;
}
