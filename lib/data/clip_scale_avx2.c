/*
 * The two passes for processors with AVX2: products of 16-bit numbers, two taps an instruction. A weight of 22 bits is two parts of
 * 11; the sums of both are exact in 32 bits, so the bytes are those of the plain body.
 */
#include "data/clip_scale.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) AVX2

bool clip_has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

INLINE __m256i load_weights(const int16_t *weight)
{
	long long four;

	memcpy(&four, weight, sizeof four);
	/* taps 0 and 1 for each channel in the lower half, 2 and 3 in the upper */
	return _mm256_permutevar8x32_epi32(
		_mm256_set1_epi64x(four), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

/* Pixels 0 and 1, channel by channel, as 16-bit pairs in the lower half, 2 and 3 in the upper. */
INLINE __m256i pair_mask(int channels)
{
	uint8_t mask[32];

	memset(mask, 0x80, sizeof mask);
	for (int c = 0; c < channels; c++)
		for (int t = 0; t < 4; t++)
			mask[t / 2 * 16 + c * 4 + t % 2 * 2] = (uint8_t)(t * channels + c);
	return _mm256_loadu_si256((const __m256i *)mask);
}

INLINE __m128i finish(__m128i high, __m128i low)
{
	__m128i sum = _mm_add_epi32(_mm_slli_epi32(high, CLIP_LOW_BITS), low);

	return _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << (CLIP_PRECISION - 1))), CLIP_PRECISION);
}

INLINE __m128i fold(__m256i sum)
{
	return _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

AVX2 void clip_across_avx2(const struct clip_filter *filter, int channels, const uint8_t *in, uint8_t *out)
{
	const int16_t *high = filter->high, *low = filter->low;
	__m256i mask = pair_mask(channels);

	for (int x = 0; x < filter->outputs; x++, out += channels) {
		const uint8_t *from = in + (size_t)filter->first[x] * (size_t)channels;
		__m256i sum_high = _mm256_setzero_si256(), sum_low = sum_high;
		int used = (filter->taps[x] + CLIP_GROUP - 1) / CLIP_GROUP;

		for (int g = 0; g < filter->groups; g++, high += CLIP_GROUP, low += CLIP_GROUP) {
			if (g >= used)
				continue;
			__m128i bytes = _mm_loadu_si128(
				(const __m128i *)(from + (size_t)g * CLIP_GROUP * (size_t)channels));
			__m256i pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), mask);

			sum_high = _mm256_add_epi32(sum_high, _mm256_madd_epi16(pairs, load_weights(high)));
			sum_low = _mm256_add_epi32(sum_low, _mm256_madd_epi16(pairs, load_weights(low)));
		}
		__m128i words = _mm_packs_epi32(finish(fold(sum_high), fold(sum_low)), _mm_setzero_si128());
		int packed = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));

		memcpy(out, &packed, sizeof packed);
	}
}

INLINE int pair_of(const int16_t *weight)
{
	int pair;

	memcpy(&pair, weight, sizeof pair);
	return pair;
}

/* Sixteen columns: the first eight in sum[0] and sum[2], the others in sum[1] and sum[3]; high parts first. */
INLINE void add_rows(__m256i *sum, const uint8_t *a, const uint8_t *b, int high, int low)
{
	__m128i upper = _mm_loadu_si128((const __m128i *)a), lower = _mm_loadu_si128((const __m128i *)b);
	__m256i left = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(upper, lower));
	__m256i right = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(upper, lower));
	__m256i h = _mm256_set1_epi32(high), l = _mm256_set1_epi32(low);

	sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(left, h));
	sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(right, h));
	sum[2] = _mm256_add_epi32(sum[2], _mm256_madd_epi16(left, l));
	sum[3] = _mm256_add_epi32(sum[3], _mm256_madd_epi16(right, l));
}

INLINE __m128i eight_words(__m256i high, __m256i low)
{
	return _mm_packs_epi32(finish(_mm256_castsi256_si128(high), _mm256_castsi256_si128(low)),
		finish(_mm256_extracti128_si256(high, 1), _mm256_extracti128_si256(low, 1)));
}

AVX2 void clip_down_avx2(
	const struct clip_filter *filter, int y, const uint8_t *in, size_t stride, size_t bytes, uint8_t *out)
{
	size_t row = (size_t)y * (size_t)filter->groups * CLIP_GROUP, x = 0;
	const int16_t *high = filter->high + row, *low = filter->low + row;
	const uint8_t *from = in + (size_t)filter->first[y] * stride;
	int taps = filter->taps[y];

	if (bytes < 16) {
		clip_down_plain(filter, y, in, stride, bytes, out);
		return;
	}
	while (x < bytes) {
		__m256i sum[4] = {0};

		x = x + 16 > bytes ? bytes - 16 : x; /* the last columns twice where they are no sixteen */
		for (int t = 0; t < taps; t += 2) {
			const uint8_t *a = from + (size_t)t * stride + x;

			add_rows(sum, a, t + 1 < taps ? a + stride : a, pair_of(high + t), pair_of(low + t));
		}
		_mm_storeu_si128((__m128i *)(out + x),
			_mm_packus_epi16(eight_words(sum[0], sum[2]), eight_words(sum[1], sum[3])));
		x += 16;
	}
}

#else

bool clip_has_avx2(void)
{
	return false;
}

void clip_across_avx2(const struct clip_filter *filter, int channels, const uint8_t *in, uint8_t *out)
{
	clip_across_plain(filter, channels, in, out);
}

void clip_down_avx2(
	const struct clip_filter *filter, int y, const uint8_t *in, size_t stride, size_t bytes, uint8_t *out)
{
	clip_down_plain(filter, y, in, stride, bytes, out);
}

#endif
