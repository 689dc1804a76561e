/*
 * Clips as the network of a run sees them: cut, cropped, flipped, scaled, jittered and normalised by the keys clip.*, validate.* and
 * predict.* (spec/resnets3d.md section 5). Training draws are a function of (seed, micro-batch, slot).
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_CLIP_H
#define NIGHTSHIFT_TASK_CLASSIFY_CLIP_H

#include "config/config.h"
#include "task/classify_set.h"

enum classify_crop { CLASSIFY_CROP_RANDOM, CLASSIFY_CROP_CORNER, CLASSIFY_CROP_CENTER };
struct classify_clip {
	int size, channels;
	int64_t duration, stride;
	enum classify_crop crop;
	double min_scale, min_ratio, flip;
	bool time_center, original_start, original_stride, plain_flow;
	struct clip_jitter jitter;
	enum clip_passes passes;
	struct clip_statistics statistics;
	struct clip_random random;
	/* where a video is looked at: */
	int64_t window_stride; /* entries between windows of a whole video */
	bool original_tail, whole_frame;
};
int classify_clip_init(struct classify_clip *clip, const struct config *config);
/* Bytes of one clip of that size before it is normalised; as many floats behind. */
size_t classify_clip_elements(const struct classify_clip *clip, int height, int width);

/* A training clip of the sample: out [duration, size, size, channels]; `pixels` is room for as many bytes. */
int classify_clip_train(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, uint64_t step, uint32_t slot, uint8_t *pixels,
	float *out);

/* What is seen of a sample in validation and prediction. */
struct classify_view {
	struct clip_windows windows;
	struct clip_geometry geometry;
};
/* The windows alone, which nothing needs to be read for. */
struct clip_windows classify_windows(
	const struct classify_clip *clip, const struct classify_set *set, size_t sample, int64_t clips);
/* `clips` 0: all windows of the video; else so many evenly spaced clips at most. */
int classify_view_open(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, int64_t clips, struct classify_view *view);
/* Window i: out [duration, geometry height, geometry width, channels]. */
int classify_view_read(const struct classify_clip *clip, struct video_reader *reader, size_t sample,
	const struct classify_view *view, int64_t i, uint8_t *pixels, float *out);
/* First frame and the one behind the last of window i. */
int classify_windows_segment(const struct clip_windows *windows, int64_t i, int64_t segment[2]);

#endif
