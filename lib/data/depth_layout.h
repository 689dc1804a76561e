/*
 * Inside of the depth readers: what a layout is. A new family of datasets is one new file with one such row,
 * and its name in the table of depth.c.
 */
#ifndef NIGHTSHIFT_DATA_DEPTH_LAYOUT_H
#define NIGHTSHIFT_DATA_DEPTH_LAYOUT_H

#include "base/files.h"
#include "base/text.h"
#include "data/depth.h"
#include "file/source.h"

struct depth_layout {
	const char *name;
	double scale;            /* metres = stored integer / scale */
	double minimum, maximum; /* valid range in metres, exclusive */
	int columns;             /* a split list must have at least these: rgb, depth, ... */
	int columns_rgb_only;
	bool none_rows;          /* rows whose depth is the word None are dropped and counted */
	bool full_scale_invalid; /* the stored value 65535 means nothing was measured */
	/* Discovery: appends the depth file's path without suffix for the RGB file `rgb` (relative paths);
	 * false when the name does not follow this layout's naming. */
	bool (*pair)(const char *rgb, struct text *depth);
	/* The part of a height x width image that is read; NULL: all of it. STATUS_DATA when the image is too
	 * small. */
	int (*window)(
		const struct depth_options *options, int height, int width, struct depth_window *window);
	/* The evaluation crop on an image of the window's size. STATUS_DATA when it does not fit the size. */
	int (*crop)(enum depth_crop crop, int height, int width, struct depth_window *window);
	/* Appends the original's prediction name for the RGB file's base name, without suffix. */
	void (*prediction)(const char *base, struct text *name);
};

extern const struct depth_layout depth_layout_nyu;
extern const struct depth_layout depth_layout_kitti;
extern const struct depth_layout depth_layout_plain;

/* What a list or a directory gives: relative paths; `depth` is empty text in RGB-only mode. */
struct depth_entry {
	char *rgb, *depth; /* owned */
};
struct depth_entries {
	struct depth_entry *item; /* owned */
	size_t count, capacity;
	size_t dropped; /* None rows */
};
void depth_entries_release(struct depth_entries *entries);
/* Reads options->list. Blank lines, missing columns and paths that leave the root are STATUS_DATA with file
 * and line. */
int depth_entries_read(const struct depth_layout *layout, const struct depth_options *options,
	struct depth_entries *entries);
/* Finds the samples of the source (options->path) by the layout's naming, in byte order of the RGB path. */
int depth_entries_discover(const struct depth_layout *layout, const struct depth_options *options,
	const struct source *source, struct depth_entries *entries);

/* How stored numbers become metres: divided by the scale of their kind. */
struct depth_coding {
	double integer_scale, float_scale;
	bool full_scale_invalid; /* the stored integer 65535 becomes 0 */
};
struct depth_raster {
	int height, width;
	float *value; /* owned; NULL after a failure */
	bool floats;  /* from an npy: may hold values that are not finite */
};
/* A 16-bit PNG or PGM, or a numeric npy of [H,W], [1,H,W] or [H,W,1]; told apart by the first bytes. `path` is for messages. */
int depth_raster_decode(const char *path, const void *data, size_t bytes, const struct depth_coding *coding,
	struct depth_raster *raster);
#define DEPTH_FILE_LIMIT ((size_t)2 << 30) /* bytes of an image or depth file */

/* Naming rules shared by layouts. */
bool depth_pair_siblings(const char *rgb, struct text *depth); /* DIR/rgb_X, DIR/color_X: DIR/depth_X */
void depth_prediction_id(const char *base, struct text *name); /* pred_ + name */
int depth_crop_fractions(
	enum depth_crop crop, int height, int width, struct depth_window *window); /* KITTI's */
/* Length of a path without its suffix (the part behind the last dot of the base name). */
size_t depth_stem_length(const char *path);

#endif
