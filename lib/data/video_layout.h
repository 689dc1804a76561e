/*
 * Inside of the video readers: what a layout is. A new way of keeping frames is one new file with one such row, and its name in the
 * table of video_set.c.
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_LAYOUT_H
#define NIGHTSHIFT_DATA_VIDEO_LAYOUT_H

#include "data/video.h"
#include "file/jpeg.h"
#include "file/source.h"

struct video_store; /* an open directory or file; what it is only its layout knows */

struct video_layout {
	const char *name;
	int64_t first;               /* number of the first frame */
	const char *const *suffixes; /* of a video's name, the usual one first; then NULL */
	bool directories;            /* a video is a directory */
	bool flow;                   /* may hold flow */
	/* Does not look whether it is there. `source` must stay open. `threads`: that decoding may take. */
	int (*open)(const struct source *source, const char *name, bool flow, int threads, struct video_store **store);
	void (*close)(struct video_store *store);
	/* Number of the last frame + 1, and how many there are (fewer where some are missing between). */
	int (*count)(struct video_store *store, int64_t *end, int64_t *present);
	int (*size)(struct video_store *store, int64_t number, int *height, int *width);
	/* Decodes (a part of) a frame; channels of `part` are 3, or 2 for flow. STATUS_NO_INPUT: there is no such frame. */
	int (*read)(struct video_store *store, int64_t number, struct jpeg_part *part);
	/* The frame nearest to `number` that is there; the earlier of two. STATUS_NO_INPUT: there is none. */
	int (*nearest)(struct video_store *store, int64_t number, int64_t *found);
};

extern const struct video_layout video_layout_frames, video_layout_hdf5, video_layout_film;
/* NULL with a message. */
const struct video_layout *video_layout_find(const char *name);

/* Decodes a JPEG or PNG as read() does; a grey image where channels is 1. */
int video_decode(const char *name, const void *data, size_t bytes, struct jpeg_part *part);
int video_decode_size(const char *name, const void *data, size_t bytes, int *height, int *width);

#endif
