/*
 * Sets of labelled videos (spec/resnets3d.md section 4): which there are, and the reading of numbered frames of one.
 *
 * Layouts, where LABEL is the class name and `test` for samples without one:
 *
 *	frames   PATH/LABEL/ID/image_00001.jpg, ... (or .png); frames are numbered from 1
 *	hdf5     PATH/LABEL/ID.hdf5 with the dataset "video" (flow: "video_u" and "video_v"), each element one JPEG; from 0
 *	video    PATH/LABEL/ID.mp4 (or webm, avi, mkv, mov); from 1, each frame as `ffmpeg -i FILE image_%05d.png` writes it
 *
 * Samples come from an annotation:
 *
 *	{"labels": [...], "database": {ID: {"subset": ..., "annotations": {"label": ..., "segment": [first, end]}, "video_path": ...}}}
 *	    A segment is half-open; where there is none the frames are counted. video_path replaces the computed path.
 *	{"taxonomy": [...], "database": {ID: {"subset": ..., "annotations": [{"label": ..., "segment": [s, s]}, ...], "fps": ...}}}
 *	    ActivityNet's. Classes are the leaves in file order, videos lie at PATH/v_ID. One sample an annotation (called ID_K from
 *	    0 on; fewer than 8 frames: dropped and counted), or, `untrimmed`, one a video.
 *
 * Without an annotation PATH is a directory of class directories (labels in byte order of their names, all videos of all of
 * them), or one video: a file, or a directory with frames, without label.
 *
 * Samples keep the order of the annotation. What is wrong with an annotation is one line that names file and entry.
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_H
#define NIGHTSHIFT_DATA_VIDEO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/clip.h"

struct video_options {
	const char *name;       /* DATASET, for messages */
	const char *layout;     /* "frames", "hdf5", "video" */
	const char *path;       /* root directory; without annotation also one video */
	const char *annotation; /* file; "" or NULL: none */
	const char *subset;     /* training, validation, testing (or train, val, test); "" or NULL: all */
	bool flow;              /* two channels, u and v (hdf5 only) */
	bool untrimmed;         /* ActivityNet: whole videos without label */
	bool repeat_missing; /* a frame that is missing is replaced by the nearest that is there; else it is an error */
	bool scaled; /* JPEG frames are decoded at 1/2, 1/4 or 1/8 where that is enough: faster, other pixels */
};

struct video_sample {
	const char *id;     /* unique within the set where the annotation's are */
	const char *path;   /* of the directory or file */
	int64_t label;      /* -1: none */
	int64_t first, end; /* frame numbers, half-open; not empty */
};

struct video_set;
/* Unknown layout or subset, flow where there is none: STATUS_CONFIG. Missing root or annotation: STATUS_NO_INPUT. A bad annotation,
 * a label that is not in its list, no samples in the subset: STATUS_DATA. No sample is opened but those whose frames the annotation
 * does not number. */
int video_set_open(const struct video_options *options, struct video_set **set);
void video_set_close(struct video_set *set);
size_t video_set_count(const struct video_set *set);
const struct video_sample *video_set_sample(const struct video_set *set, size_t i);
/* Entries of the subset that were dropped: without frames, ActivityNet's short ones. */
size_t video_set_dropped(const struct video_set *set);
size_t video_set_label_count(const struct video_set *set);
const char *video_set_label(const struct video_set *set, size_t i);
int video_set_channels(const struct video_set *set); /* 3, or 2 for flow */
/* Directories and files of samples that are not there, without opening any: counts them and names the first (owned by the caller,
 * or NULL). */
int video_set_missing(const struct video_set *set, size_t *count, char **first);

/*
 * Reading. A reader keeps open what it last read and frames it last scaled, so that windows that overlap cost each frame once; one
 * for each thread.
 */
struct video_reader;
int video_reader_new(const struct video_set *set, struct video_reader **reader);
void video_reader_free(struct video_reader *reader);
/* Size of the sample's frame `number`. Statuses as video_read(). */
int video_size(struct video_reader *reader, size_t sample, int64_t number, int *height, int *width);
/* Frames `numbers` (any order, repeated ones are read once) by `geometry` into out [count, geometry height, geometry width,
 * channels]; a mirrored flow is negated in u unless `plain_flow`. STATUS_DATA: undecodable, of another size than the
 * geometry's, or missing among others (unless repeat_missing): the sample may be skipped. All missing: STATUS_NO_INPUT; other read
 * errors STATUS_IO. */
int video_read(struct video_reader *reader, size_t sample, const int64_t *numbers, size_t count,
	const struct clip_geometry *geometry, bool plain_flow, uint8_t *out);
/* Frames that were replaced by their nearest so far. */
uint64_t video_reader_repeated(const struct video_reader *reader);

#endif
