/*
 * The patch codec: an orthonormal transform of 8x8 patches, of which four coefficients are kept: the mean and
 * the two ramps of luminance (r+g+b)/sqrt(3), and the mean of (r-b)/sqrt(2); each divided by its usual
 * spread. Decoding is the transposed transform, so encode(decode(z)) = z, and decode(encode(x)) is the
 * nearest image of that kind.
 */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "model/latent.h"

#define PATCH 8
#define PATCH_CHANNELS 4

static const double patch_scale[PATCH_CHANNELS] = {7.442, 1.117, 1.092, 2.136};

/* Centred position in a patch over the norm of its ramp. */
static double ramp(int i)
{
	return (i - (PATCH - 1) / 2.0) / sqrt(PATCH * (double)PATCH * (PATCH * PATCH - 1) / 12.0);
}

static int check_size(int height, int width)
{
	if (height <= 0 || width <= 0 || height % PATCH || width % PATCH)
		return error_set(STATUS_DATA,
			"the patch codec takes sides that are multiples of %d, not %dx%d", PATCH, width,
			height);
	return STATUS_OK;
}

static void encode_patch(const float *image, int stride, float *latent)
{
	double sum[PATCH_CHANNELS] = {0};

	for (int y = 0; y < PATCH; y++) {
		for (int x = 0; x < PATCH; x++) {
			const float *pixel = image + (size_t)y * (size_t)stride + 3 * x;
			double luminance =
				((double)pixel[0] + (double)pixel[1] + (double)pixel[2]) / sqrt(3.0);

			sum[0] += luminance / PATCH;
			sum[1] += luminance * ramp(x);
			sum[2] += luminance * ramp(y);
			sum[3] += ((double)pixel[0] - (double)pixel[2]) / sqrt(2.0) / PATCH;
		}
	}
	for (int k = 0; k < PATCH_CHANNELS; k++)
		latent[k] = (float)(sum[k] / patch_scale[k]);
}

static void decode_patch(const float *latent, float *image, int stride)
{
	double value[PATCH_CHANNELS];

	for (int k = 0; k < PATCH_CHANNELS; k++)
		value[k] = (double)latent[k] * patch_scale[k];
	for (int y = 0; y < PATCH; y++) {
		for (int x = 0; x < PATCH; x++) {
			float *pixel = image + (size_t)y * (size_t)stride + 3 * x;
			double grey =
				(value[0] / PATCH + value[1] * ramp(x) + value[2] * ramp(y)) / sqrt(3.0);
			double colour = value[3] / PATCH / sqrt(2.0);

			pixel[0] = (float)(grey + colour);
			pixel[1] = (float)grey;
			pixel[2] = (float)(grey - colour);
		}
	}
}

static int patch_encode(
	const struct latent_codec *codec, const float *image, int height, int width, float *latent)
{
	int columns = width / PATCH, stride = 3 * width;

	(void)codec;
	if (check_size(height, width))
		return error_status();
	for (int y = 0; y < height / PATCH; y++) {
		for (int x = 0; x < columns; x++)
			encode_patch(image + (size_t)y * PATCH * (size_t)stride + (size_t)x * PATCH * 3,
				stride, latent + ((size_t)y * (size_t)columns + (size_t)x) * PATCH_CHANNELS);
	}
	return STATUS_OK;
}

static int patch_decode(
	const struct latent_codec *codec, const float *latent, int height, int width, float *image)
{
	int columns = width / PATCH, stride = 3 * width;

	(void)codec;
	if (check_size(height, width))
		return error_status();
	for (int y = 0; y < height / PATCH; y++) {
		for (int x = 0; x < columns; x++)
			decode_patch(latent + ((size_t)y * (size_t)columns + (size_t)x) * PATCH_CHANNELS,
				image + (size_t)y * PATCH * (size_t)stride + (size_t)x * PATCH * 3, stride);
	}
	return STATUS_OK;
}

static const struct latent_codec codecs[] = {
	{.name = "patch",
		.channels = PATCH_CHANNELS,
		.factor = PATCH,
		.encode = patch_encode,
		.decode = patch_decode},
};

const struct latent_codec *latent_codec_find(const char *name)
{
	for (size_t i = 0; i < sizeof(codecs) / sizeof(*codecs); i++) {
		if (!strcmp(codecs[i].name, name))
			return &codecs[i];
	}
	error_set(STATUS_CONFIG, "model.codec: there is no latent codec %s", name);
	return NULL;
}
