/* Inside of clip_scale.c: filters, and the two passes for each instruction set. Both bodies give the same bytes. */
#ifndef NIGHTSHIFT_DATA_CLIP_SCALE_H
#define NIGHTSHIFT_DATA_CLIP_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIP_PRECISION = 22, /* bits of a weight behind the point */
	CLIP_LOW_BITS = 11,  /* a weight is high x 2^11 + low, so that products of 16-bit numbers do */
	CLIP_GROUP = 4       /* taps that the horizontal pass takes together */
};

/* For each of `outputs` numbers the first of the inputs that make it, how many, and their weights. */
struct clip_filter {
	int outputs, groups; /* groups of CLIP_GROUP taps for each output; those behind the last have weight 0 */
	int *first, *taps;   /* owned */
	int32_t *weight;     /* [outputs, groups x CLIP_GROUP], owned */
	int16_t *high, *low; /* the same split, owned */
};

/* One row of `filter->outputs` pixels of `channels` bytes; in: the row's pixels from number 0. `out` is followed by 4 bytes that
 * may be written. */
typedef void clip_across(const struct clip_filter *filter, int channels, const uint8_t *in, uint8_t *out);
/* One row of `bytes` bytes: output number y of the filter; in: row 0. */
typedef void clip_down(const struct clip_filter *filter, int y, const uint8_t *in, size_t stride, size_t bytes, uint8_t *out);

clip_across clip_across_plain, clip_across_avx2;
clip_down clip_down_plain, clip_down_avx2;
bool clip_has_avx2(void);

#endif
