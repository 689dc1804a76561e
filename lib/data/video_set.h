/* Inside of a set of videos, for its readers. */
#ifndef NIGHTSHIFT_DATA_VIDEO_SET_H
#define NIGHTSHIFT_DATA_VIDEO_SET_H

#include "data/video_annotation.h"
#include "data/video_layout.h"

struct video_set {
	struct video_options options; /* texts owned by `text` */
	char *text[5];
	const struct video_layout *layout;
	struct video_annotation annotation;
	struct video_sample *sample; /* owned, their texts too */
	size_t *entry;               /* of each sample, while it is opened */
	size_t count, capacity, dropped;
};

#endif
