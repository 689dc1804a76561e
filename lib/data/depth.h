/*
 * Depth datasets: samples of an RGB image with metric depth and a validity mask, by layout (spec/marigold.md
 * section 2). One file a family (depth_nyu.c, depth_kitti.c, depth_plain.c), one row each in the table of depth.c.
 *
 * Samples come from a split list (one a line, columns separated by blanks, paths relative to the root; at least
 * the columns named here) or, without one, from the files below the root whose names follow the layout's naming,
 * in byte order of the RGB path:
 *
 *	nyu     list: rgb depth [filled]
 *	        files: [DIR/]rgb_X.IMAGE or color_X.IMAGE with depth_X.DEPTH beside it
 *	kitti   list: rgb depth|None [focal length]; rows with None are dropped and counted
 *	        files: [SPLIT/]DATE/DRIVE/image_0C/data/N.IMAGE with [SPLIT/]DRIVE/proj_depth/groundtruth/image_0C/N.DEPTH,
 *	        or as nyu
 *	plain   list: rgb depth
 *	        files: [DIR/]rgb/[DIR/]X.IMAGE with [DIR/]depth/[DIR/]X.DEPTH, or as nyu
 *
 * IMAGE is png, jpg or jpeg, DEPTH is png, pgm or npy. Names that start with a dot are passed over. An RGB file
 * with no depth file, or with several of different suffixes, is an error. In RGB-only mode depth files are not
 * looked for, and where no name below the root follows the naming all its images are taken.
 *
 * Stored depth is a 16-bit PNG or PGM (metres = value / scale) or a numeric npy [H,W], [1,H,W] or [H,W,1] (metres,
 * divided by `scale` only where one is given). Valid is minimum < depth < maximum, strictly and in float32 as the
 * original, inside the evaluation crop. NaN in an npy is refused, infinity is invalid; in the plain layout so is
 * the stored integer 65535. The eigen crop of nyu is rows 45-470 and columns 41-600 of 640x480 pixels; elsewhere
 * eigen and garg are the fractions used for KITTI.
 */
#ifndef NIGHTSHIFT_DATA_DEPTH_H
#define NIGHTSHIFT_DATA_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct depth_sample {
	int width, height;
	uint8_t *rgb;  /* [height,width,3], owned; NULL in depth-only mode */
	float *depth;  /* [height,width] metres, 0 where nothing was measured, owned; NULL in RGB-only mode */
	uint8_t *mask; /* [height,width], 1 valid, owned; NULL in RGB-only mode */
};
void depth_sample_release(struct depth_sample *sample);

enum depth_crop { DEPTH_CROP_NONE, DEPTH_CROP_EIGEN, DEPTH_CROP_GARG };
extern const char *const depth_crop_names[3]; /* "none", "eigen", "garg" */
/* -1 for another word. */
int depth_crop_find(const char *name);

struct depth_window {
	int top, bottom, left, right; /* half-open */
};

struct depth_options {
	const char *name;        /* DATASET, for messages */
	const char *layout;      /* "nyu", "kitti", "plain" */
	const char *path;        /* root directory */
	const char *list;        /* split list file; "" or NULL: the samples are looked for below the root */
	double scale;            /* stored integer over metres; 0: the layout's own (plain: 1000) */
	double minimum, maximum; /* valid range, exclusive; 0, 0: the layout's own */
	enum depth_crop crop;    /* evaluation crop, joined into the mask */
	bool benchmark_crop;     /* kitti: 352 x 1216 */
	bool rgb_only;           /* no depth is read (predict) */
	bool depth_only;         /* no image is read (eval of predictions) */
};

struct depth_dataset;
/* Unknown layout, or a crop the layout has not: STATUS_CONFIG. Missing root or list: STATUS_NO_INPUT. Bad
 * list, no samples: STATUS_DATA. No sample file is opened. */
int depth_open(const struct depth_options *options, struct depth_dataset **dataset);
void depth_close(struct depth_dataset *dataset);
size_t depth_count(const struct depth_dataset *dataset);
/* Rows of the list that were dropped (kitti: depth `None`). */
size_t depth_dropped(const struct depth_dataset *dataset);
/* The sample's name: path of its RGB file relative to the root, with suffix. Valid while open. */
const char *depth_name(const struct depth_dataset *dataset, size_t i);
/* The same without suffix, and the path that the original gives its prediction, without suffix
 * (spec/marigold.md 2.9); owned by the caller, NULL with a message. */
char *depth_stem(const struct depth_dataset *dataset, size_t i);
char *depth_prediction_stem(const struct depth_dataset *dataset, size_t i);
/* STATUS_DATA where two samples differ in nothing but the suffix (a.png, a.jpg): they would share one prediction. */
int depth_check_stems(const struct depth_dataset *dataset);
/* The valid range in metres (for clipping predictions). */
void depth_range(const struct depth_dataset *dataset, double *minimum, double *maximum);
/* Reads sample i. STATUS_DATA: undecodable, sizes differ, or no valid pixel (names the file): the sample may
 * be skipped. Missing file: STATUS_NO_INPUT; other read errors STATUS_IO. Thread-safe. */
int depth_read(const struct depth_dataset *dataset, size_t i, struct depth_sample *sample);
/* The same, but a sample without a valid pixel is no error: its mask is all 0. */
int depth_read_any(const struct depth_dataset *dataset, size_t i, struct depth_sample *sample);
/* Puts the path of the sample's depth file in front of the present error; returns its status. */
int depth_error_prefix(const struct depth_dataset *dataset, size_t i);
/* Files that are missing, without decoding anything: counts them and names the first (owned by the caller, or
 * NULL). */
int depth_missing(const struct depth_dataset *dataset, size_t *count, char **first);

/* A prediction: an npy as it is, or a 16-bit PNG as value / 65535. *value (owned by the caller) is [height,width]; it may hold
 * values that are not finite. */
int depth_prediction_read(const char *path, int *height, int *width, float **value);

/* The normaliser (spec/marigold.md section 4.1): low and high quantiles of valid depth with the original's
 * numerics, then (d - lo) / (hi - lo) * 2 - 1, clamped to [-1,1]; invalid pixels become +1 (far; flaw F14
 * fixed) unless `original`. `mask` may be NULL (all valid). `out` may be `depth`. STATUS_DATA when nothing is
 * valid or hi == lo. */
int depth_normalise(
	const float *depth, const uint8_t *mask, size_t count, double quantile, bool original, float *out);
/* Its two quantiles alone; `quantile` and 1 - `quantile`. */
int depth_quantiles(
	const float *depth, const uint8_t *mask, size_t count, double quantile, float *low, float *high);

/* Nearest-exact and anti-aliased resizing of rasters (spec/marigold.md 2.6, 7.1.1). in and out must not
 * overlap. */
void resize_nearest_u8(const uint8_t *in, int h, int w, int channels, uint8_t *out, int oh, int ow);
void resize_nearest_f32(const float *in, int h, int w, float *out, int oh, int ow);
enum resize_kind { RESIZE_BILINEAR, RESIZE_BICUBIC, RESIZE_NEAREST };
/* Float rasters [h,w,channels], anti-aliased; STATUS_FAILURE without memory. */
int resize_antialiased(
	const float *in, int h, int w, int channels, enum resize_kind kind, float *out, int oh, int ow);
/* The same for 8-bit rasters: clamped to 0..255 and rounded half to even. */
int resize_antialiased_u8(
	const uint8_t *in, int h, int w, int channels, enum resize_kind kind, uint8_t *out, int oh, int ow);
/* nearest-exact of the whole sample's depth and mask, `rgb` by area/anti-aliased bilinear (flaw F15 fixed) or
 * nearest (`original`). */
int depth_sample_resize(struct depth_sample *sample, int height, int width, bool original);
void depth_sample_flip(struct depth_sample *sample); /* mirrored in x */

#endif
