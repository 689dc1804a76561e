/*
 * Annotation files (spec/resnets3d.md 4.1, 4.2): JSON read by jansson, at most VIDEO_ANNOTATION_LIMIT bytes. What is wrong is
 * STATUS_DATA with file and entry.
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_ANNOTATION_H
#define NIGHTSHIFT_DATA_VIDEO_ANNOTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"

#define VIDEO_ANNOTATION_LIMIT ((size_t)1 << 30)

struct video_entry {
	char *id, *video; /* owned; `video`: the video's own id where it differs (ActivityNet), or NULL */
	char *path;       /* "video_path", owned, or NULL */
	int64_t label;    /* -1: none */
	int subset;       /* of video_subset_names; -1: another word */
	bool numbered;    /* first and end are there */
	int64_t first, end;
	double from, to, fps; /* ActivityNet: seconds and frames a second; to < 0: the whole video */
};
struct video_annotation {
	struct names labels; /* in the file's order */
	struct video_entry *entry;
	size_t count, capacity;
	bool activitynet;
};
extern const char *const video_subset_names[3]; /* "training", "validation", "testing" */
/* Takes the short words train, val, test too. -1 for others. */
int video_subset_find(const char *word);

int video_annotation_read(const char *path, bool untrimmed, struct video_annotation *annotation);
void video_annotation_release(struct video_annotation *annotation);
/* Adds a zeroed entry called `id`; NULL with a message. */
struct video_entry *video_annotation_add(struct video_annotation *annotation, const char *id);

/* Names to their places, for lists of any length; of a name that comes twice the last place counts. */
struct video_index {
	const char **name; /* borrowed */
	size_t *place, count;
};
int video_index_init(struct video_index *index, size_t count, const char *(*get)(const void *context, size_t i), const void *context);
void video_index_release(struct video_index *index);
int64_t video_index_find(const struct video_index *index, const char *name); /* -1: not there */
const char *video_names_get(const void *names, size_t i);                    /* for struct names */

#endif
