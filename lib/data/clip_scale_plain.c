/* The two passes of the resampling filter, for any processor. */
#include "data/clip_scale.h"

static uint8_t byte_of(int32_t sum)
{
	sum = (sum + (1 << (CLIP_PRECISION - 1))) >> CLIP_PRECISION;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void clip_across_plain(const struct clip_filter *filter, int channels, const uint8_t *in, uint8_t *out)
{
	const int32_t *weight = filter->weight;

	for (int x = 0; x < filter->outputs; x++, weight += filter->groups * CLIP_GROUP) {
		const uint8_t *from = in + (size_t)filter->first[x] * (size_t)channels;

		for (int c = 0; c < channels; c++) {
			int32_t sum = 0;

			for (int t = 0; t < filter->taps[x]; t++)
				sum += weight[t] * from[t * channels + c];
			*out++ = byte_of(sum);
		}
	}
}

void clip_down_plain(
	const struct clip_filter *filter, int y, const uint8_t *in, size_t stride, size_t bytes, uint8_t *out)
{
	const int32_t *weight = filter->weight + (size_t)y * (size_t)filter->groups * CLIP_GROUP;
	const uint8_t *from = in + (size_t)filter->first[y] * stride;

	for (size_t x = 0; x < bytes; x++) {
		int32_t sum = 0;

		for (int t = 0; t < filter->taps[y]; t++)
			sum += weight[t] * from[(size_t)t * stride + x];
		out[x] = byte_of(sum);
	}
}
