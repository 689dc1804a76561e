/* Inside of a set of videos, for its readers. */
#ifndef NIGHTSHIFT_DATA_VIDEO_SET_H
#define NIGHTSHIFT_DATA_VIDEO_SET_H

#include "data/video_annotation.h"
#include "data/video_layout.h"
#include "file/source.h"

struct video_set {
	struct video_options options; /* texts owned by `text` */
	char *text[5];
	const struct video_layout *layout;
	struct video_annotation annotation;
	struct source *source;       /* the root, where samples have names in it */
	struct video_sample *sample; /* owned, their texts too */
	char **name;                 /* of each sample in the source; NULL: only its path is known; owned */
	size_t *entry;               /* of each sample, while it is opened */
	size_t count, capacity, dropped;
};

/* A set of all entries of an annotation (taken over, also on failure), in their order: none is dropped, none looked at. */
int video_set_adopt(const struct video_options *options, struct video_annotation *annotation, struct video_set **set);
/* A sample opened where it lies. *own: the source that was opened for it, to be closed after it, or NULL. */
int video_open_sample(const struct video_set *set, size_t sample, struct video_store **store, struct source **own);

#endif
