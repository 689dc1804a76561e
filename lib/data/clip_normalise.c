/* Bytes to the numbers that the network sees. A byte has 256 values, so each is computed once, as exactly as one likes. */
#include "data/clip.h"

#include <string.h>

const char *const clip_mean_names[3] = {"kinetics", "activitynet", "0.5"};

static const struct {
	double mean[3], std[3];
} statistics_table[3] = {
	{{0.4345, 0.4051, 0.3775}, {0.2768, 0.2713, 0.2737}},
	{{0.4477, 0.4209, 0.3906}, {0.2767, 0.2695, 0.2714}},
	{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
};

int clip_mean_find(const char *name)
{
	for (int i = 0; i < 3; i++)
		if (!strcmp(name, clip_mean_names[i]))
			return i;
	return -1;
}

struct clip_statistics clip_statistics_of(
	enum clip_mean mean, bool use_mean, bool use_std, double value_scale, int channels, bool original)
{
	struct clip_statistics statistics = {.channels = channels, .scale = (float)value_scale};
	int row = channels == 2 && !original ? CLIP_MEAN_HALF : (int)mean;

	for (int c = 0; c < channels; c++) {
		statistics.mean[c] = use_mean ? (float)(statistics_table[row].mean[c] * value_scale) : 0;
		statistics.std[c] = use_std ? (float)(statistics_table[row].std[c] * value_scale) : 1;
	}
	return statistics;
}

void clip_normalise(const struct clip_statistics *statistics, const uint8_t *in, size_t count, float *out)
{
	float table[3][256];
	int channels = statistics->channels;

	for (int c = 0; c < channels; c++)
		for (int byte = 0; byte < 256; byte++) {
			float value = (float)byte / 255.0f * statistics->scale;

			table[c][byte] = (value - statistics->mean[c]) / statistics->std[c];
		}
	if (channels == 3)
		for (size_t i = 0; i < count; i++, in += 3, out += 3) {
			out[0] = table[0][in[0]];
			out[1] = table[1][in[1]];
			out[2] = table[2][in[2]];
		}
	else
		for (size_t i = 0; i < count; i++)
			for (int c = 0; c < channels; c++)
				*out++ = table[c][*in++];
}
