/*
 * What becomes of a video before the network sees it (spec/resnets3d.md section 5): which frames make a clip, which part of a
 * frame is taken, flipped and scaled, colour jitter, normalisation.
 *
 * Everything random is drawn once a clip, from the counter-based generator at (seed, step, sample); the caller chooses what step
 * and sample count. The draws, one stream each:
 *
 *	clip.time    element 0: start of the clip, an integer below the number of starts
 *	clip.crop    random: try k of 10 uses elements 4k .. 4k+3: uniform for the area, uniform for the logarithm of the ratio,
 *	             integer top, integer left
 *	             corner: element 0: integer below 5, the scale; element 1: integer below 5, the place
 *	clip.flip    element 0: uniform, flipped where it is below 0.5
 *	clip.colour  elements 0-3: uniforms for brightness, contrast, saturation, hue; 4-6: integers below 4, 3, 2, the order
 *
 * Resampling is Pillow's, bit for bit.
 */
#ifndef NIGHTSHIFT_DATA_CLIP_H
#define NIGHTSHIFT_DATA_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

struct clip_random {
	struct random time, crop, flip, colour;
};
void clip_random_init(struct clip_random *random, uint64_t seed);

/* ---- time ---- */

/* The list of frame numbers that clips are cut from: first, first + stride, ... */
struct clip_range {
	int64_t first, stride; /* numbers of frames */
	int64_t count;         /* >= 1 */
};
/* Frames first .. end-1, every stride-th. */
struct clip_range clip_range_of(int64_t first, int64_t end, int64_t stride);

/* `length` entries of the list from `begin` on, as many as there are, repeated in turn until `frames` is full. */
void clip_slice(const struct clip_range *range, int64_t begin, int64_t length, int64_t *frames);
/* Where a clip begins in the list. Random: every start is reached; `original`: never the last. */
int64_t clip_begin_random(const struct clip_range *range, int64_t length, bool original,
	const struct clip_random *random, uint64_t step, uint32_t sample);
int64_t clip_begin_center(const struct clip_range *range, int64_t length);

/* At most `limit` clips, evenly spread (validation). `limit` 1 is the centre clip. `original`: clips are made of consecutive frames
 * whatever the stride. */
struct clip_windows {
	struct clip_range range;
	int64_t length;
	int64_t step;  /* between starts, in entries of the list */
	int64_t count; /* of windows */
	int64_t begin; /* of the first */
	bool consecutive, shift_tail;
};
struct clip_windows clip_windows_even(
	const struct clip_range *range, int64_t length, int64_t limit, bool original);
/* Windows every `step` entries (0: `length`) until the list ends (inference). A last window that has fewer entries than `length`
 * is moved back so that it ends with the list; a list shorter than `length` is repeated. `original`: a short window is repeated
 * and ends the row; with a stride windows are made of consecutive frames. */
struct clip_windows clip_windows_sliding(
	const struct clip_range *range, int64_t length, int64_t step, bool original);
/* Window i: `length` frame numbers. */
void clip_window_frames(const struct clip_windows *windows, int64_t i, int64_t *frames);

/* ---- space ---- */

/* Which passes of the resampling filter come first where both are needed: Pillow's rule since 13.0, or always horizontal (up to
 * 12.3). They differ by 1 in some pixels of tall crops. */
enum clip_passes { CLIP_PASSES_PILLOW_13, CLIP_PASSES_PILLOW_12 };

/* The way of a stored frame: box of it, scaled to scaled_height x scaled_width, of which a window is kept, mirrored or not. The
 * filter never sees a pixel outside the box. */
struct clip_geometry {
	int frame_height, frame_width;               /* of the stored frame */
	int box_top, box_left, box_height, box_width; /* inside the frame */
	int scaled_height, scaled_width;
	int top, left, height, width; /* of the scaled box: the result */
	bool flip;
	enum clip_passes passes;
};
/* Area fraction in [minimum scale, 1], aspect ratio in [minimum ratio, 1 / minimum ratio], scaled to size x size. */
void clip_crop_random(struct clip_geometry *geometry, int frame_height, int frame_width, int size,
	double minimum_scale, double minimum_ratio, const struct clip_random *random, uint64_t step, uint32_t sample);
/* A square at the centre or in a corner whose side is the frame's short one times 2^(-i/4), i = 0 .. 4, scaled to size x size. */
void clip_crop_corner(struct clip_geometry *geometry, int frame_height, int frame_width, int size,
	const struct clip_random *random, uint64_t step, uint32_t sample);
/* The same from drawn numbers: scale 0-4; place 0 centre, 1 top left, 2 top right, 3 bottom left, 4 bottom right. */
void clip_crop_corner_at(struct clip_geometry *geometry, int frame_height, int frame_width, int size, int scale, int place);
/* The short side scaled to `size`, the middle size x size kept. */
void clip_crop_center(struct clip_geometry *geometry, int frame_height, int frame_width, int size);
/* The short side scaled to `size`, all of it kept. */
void clip_crop_none(struct clip_geometry *geometry, int frame_height, int frame_width, int size);
bool clip_flip_drawn(const struct clip_random *random, double probability, uint64_t step, uint32_t sample);

/* Scaling one frame after another by one geometry. */
struct clip_scaler;
int clip_scaler_new(const struct clip_geometry *geometry, int channels, struct clip_scaler **scaler);
void clip_scaler_free(struct clip_scaler *scaler);
/* The rows and columns of the frame that are looked at. */
void clip_scaler_needs(const struct clip_scaler *scaler, int *top, int *left, int *height, int *width);
#define CLIP_SLACK 16
/* `pixels` holds rows and columns of the frame from (top, left) on, at least those needed, `stride` bytes from row to row, and
 * CLIP_SLACK bytes behind them that may be read. out: [height,width,channels]. One thread at a time. */
void clip_scaler_run(struct clip_scaler *scaler, const uint8_t *pixels, size_t stride, int top, int left, uint8_t *out);

/* Optical flow seen in a mirror points the other way: u becomes 255 - u. pixels: [count, 2], u first. */
void clip_flow_mirror(uint8_t *pixels, size_t count);

/* ---- colour ---- */

/* Strengths as torchvision's ColorJitter: brightness, contrast and saturation are factors from [max(0, 1 - s), 1 + s], hue is a
 * shift from [-hue, hue] of a turn, hue at most 0.5. One draw a clip. */
struct clip_jitter {
	double brightness, contrast, saturation, hue; /* strengths; all 0: nothing is done */
};
struct clip_colour {
	double factor[4]; /* brightness, contrast, saturation; shift of hue */
	int order[4];     /* which comes first, second, ...; -1: not at all */
};
void clip_colour_draw(struct clip_colour *colour, const struct clip_jitter *jitter,
	const struct clip_random *random, uint64_t step, uint32_t sample);
/* One frame [count,3] in place, with the bytes of torchvision's on Pillow images. */
void clip_colour_apply(const struct clip_colour *colour, uint8_t *pixels, size_t count);

/* ---- numbers ---- */

struct clip_statistics {
	int channels;
	float scale, mean[3], std[3]; /* value = (byte / 255 x scale - mean) / std, each operation rounded to float32 */
};
enum clip_mean { CLIP_MEAN_KINETICS, CLIP_MEAN_ACTIVITYNET, CLIP_MEAN_HALF };
extern const char *const clip_mean_names[3]; /* "kinetics", "activitynet", "0.5" */
int clip_mean_find(const char *name);        /* -1 for another word */
/* value_scale is 1 or 255 in the original; without mean it is 0, without std 1. channels 2 (flow): 0.5 whatever the name, or, `original`, the first two
 * of the name. */
struct clip_statistics clip_statistics_of(
	enum clip_mean mean, bool use_mean, bool use_std, double value_scale, int channels, bool original);
/* in: [count, channels] bytes; out: as many floats. */
void clip_normalise(const struct clip_statistics *statistics, const uint8_t *in, size_t count, float *out);

#endif
