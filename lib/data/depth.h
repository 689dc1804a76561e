/*
 * Depth datasets: samples of an RGB image with metric depth and a validity mask, by layout (spec/marigold.md section 2).
 * One file a family (depth_nyu.c, depth_kitti.c, depth_plain.c), one row each in the table of depth.c.
 */
#ifndef NIGHTSHIFT_DATA_DEPTH_H
#define NIGHTSHIFT_DATA_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct depth_sample {
	int width, height;
	uint8_t *rgb;   /* [height,width,3], owned */
	float *depth;   /* [height,width] metres, 0 where invalid, owned; NULL in RGB-only mode */
	uint8_t *mask;  /* [height,width], 1 valid, owned; NULL in RGB-only mode */
};
void depth_sample_release(struct depth_sample *sample);

enum depth_crop { DEPTH_CROP_NONE, DEPTH_CROP_EIGEN, DEPTH_CROP_GARG };

struct depth_options {
	const char *name;    /* DATASET, for messages */
	const char *layout;  /* "nyu", "kitti", "plain" */
	const char *path;    /* root directory */
	const char *list;    /* split list file, or "" to discover the samples by the layout's own naming, in byte order */
	double scale;        /* plain: metres = value / scale; 0: the layout's own (1000) */
	double minimum, maximum; /* valid range, exclusive; 0, 0: the layout's own */
	enum depth_crop crop;    /* evaluation crop, joined into the mask */
	bool benchmark_crop; /* kitti: 352 x 1216 */
	bool rgb_only;       /* no depth is read (predict) */
};

struct depth_dataset;
int depth_open(const struct depth_options *options, struct depth_dataset **dataset);
void depth_close(struct depth_dataset *dataset);
size_t depth_count(const struct depth_dataset *dataset);
/* The sample's name: path of its RGB file relative to the root, with suffix. Valid while open. */
const char *depth_name(const struct depth_dataset *dataset, size_t i);
/* The valid range in metres (for clipping predictions). */
void depth_range(const struct depth_dataset *dataset, double *minimum, double *maximum);
/* Reads sample i. STATUS_DATA: undecodable, sizes differ, or no valid pixel (names the file): the sample may be skipped. Missing
 * file: STATUS_NO_INPUT; other read errors STATUS_IO. Thread-safe. */
int depth_read(const struct depth_dataset *dataset, size_t i, struct depth_sample *sample);
/* Files that are missing, without decoding anything: counts them and names the first (owned by the caller, or NULL). */
int depth_missing(const struct depth_dataset *dataset, size_t *count, char **first);

/* The normaliser (spec/marigold.md section 4.1): low and high quantiles of valid depth with the original's numerics, then
 * (d - lo) / (hi - lo) * 2 - 1, clamped to [-1,1]; invalid pixels become +1 (far; flaw F14 fixed) unless `original`.
 * STATUS_DATA when nothing is valid or hi == lo. */
int depth_normalise(const float *depth, const uint8_t *mask, size_t count, double quantile, bool original, float *out);

/* Nearest-exact and anti-aliased resizing of rasters (spec/marigold.md 2.6, 7.1.1). */
void resize_nearest_u8(const uint8_t *in, int h, int w, int channels, uint8_t *out, int oh, int ow);
void resize_nearest_f32(const float *in, int h, int w, float *out, int oh, int ow);
enum resize_kind { RESIZE_BILINEAR, RESIZE_BICUBIC, RESIZE_NEAREST };
/* Float rasters [h,w,channels], anti-aliased; STATUS_FAILURE without memory. */
int resize_antialiased(const float *in, int h, int w, int channels, enum resize_kind kind, float *out, int oh, int ow);
/* nearest-exact of the whole sample's depth and mask, `rgb` by area/anti-aliased bilinear (flaw F15 fixed) or nearest (`original`). */
int depth_sample_resize(struct depth_sample *sample, int height, int width, bool original);
void depth_sample_flip(struct depth_sample *sample); /* mirrored in x */

#endif
