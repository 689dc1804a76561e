/*
 * Result files of video classification as the original writes them (spec/resnets3d.md 6.2): JSON of at most VIDEO_RESULT_LIMIT
 * bytes. What is wrong is STATUS_DATA with file and video.
 *
 *	{"results": {ID: [{"label": ..., "score": ...}, ...]}}                                    one list a video
 *	{"results": {ID: [{"segment": [first, end], "result": [{"label": ..., "score": ...}, ...]}, ...]}}     one a window
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_RESULT_H
#define NIGHTSHIFT_DATA_VIDEO_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "data/video_annotation.h"

#define VIDEO_RESULT_LIMIT ((size_t)1 << 30)

struct video_score {
	int64_t label; /* of the labels given */
	double score;
};
struct video_scores { /* one list, as it stands in the file; not empty */
	struct video_score *item;
	size_t count;
};
struct video_result {
	char *id;
	struct video_scores *window; /* one where the file has one list a video */
	size_t windows;
};
struct video_results {
	struct video_result *video;
	size_t count;
};
/* `labels` are those of the annotation: a label that is not among them is STATUS_DATA. */
int video_results_read(const char *path, const struct names *labels, struct video_results *results);
/* The same from memory; `name` is for messages. */
int video_results_parse(const char *name, const char *data, size_t bytes, const struct names *labels,
	struct video_results *results);
void video_results_release(struct video_results *results);

#endif
