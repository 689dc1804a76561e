/*
 * A data group of a classification run: its videos where they lie on this host, and their classes in the run's own list of labels.
 * The run's labels are those of its first training group; other groups may have theirs in another order.
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_SET_H
#define NIGHTSHIFT_TASK_CLASSIFY_SET_H

#include "base/text.h"
#include "data/video.h"
#include "run/checkpoint.h"
#include "run/run.h"

struct classify_labels {
	char **name; /* owned */
	size_t count;
};
void classify_labels_release(struct classify_labels *labels);
int classify_labels_of(const struct video_set *videos, struct classify_labels *labels);
/* The file beside the weights: one label a line, written as a field of a table. */
#define CLASSIFY_LABELS_FILE "model/labels.txt"
void classify_labels_write(const struct classify_labels *labels, struct text *text);
int classify_labels_load(const char *path, struct classify_labels *labels);
/* Those beside the weights of a checkpoint; without such a file there are none: STATUS_OK, count 0. */
int classify_labels_read(const struct checkpoint *checkpoint, struct classify_labels *labels);
/* The name of a class; "#7" (in `buffer`) beyond the list. */
const char *classify_label(const struct classify_labels *labels, size_t class, char buffer[32]);
/* -1 for an unknown name. */
int64_t classify_label_find(const struct classify_labels *labels, const char *name);

struct classify_set {
	const char *name; /* DATASET, borrowed from the configuration */
	struct video_set *videos;
	int64_t *class; /* of the set's labels, owned; -1: the run does not have it */
	bool by_label;  /* samples are named LABEL/ID: no annotation makes IDs unique */
	double weight;
};
/* Opens group `i` of `list`: the staged copy where there is one, else the path itself. `labels` may be empty: then the set's own are
 * used as they are. A sample whose label the run does not have: STATUS_DATA. */
int classify_set_open(struct classify_set *set, const struct run *run, const char *list, size_t i,
	const struct classify_labels *labels);
/* The same for videos that no configuration names: a file, or a directory of frames or of class directories. */
int classify_set_open_path(struct classify_set *set, const struct run *run, const char *path);
void classify_set_close(struct classify_set *set);
/* Warns of entries that the set does without, since they have no frames. One rank says it. */
void classify_set_warn(const struct classify_set *set);
/* Frees a reader of the set (NULL: none was needed) and adds the frames that it has replaced by their nearest. */
void classify_reader_free(struct video_reader *reader, uint64_t *replaced);
/* Warns of so many frames, where there are any. */
void classify_warn_replaced(uint64_t replaced);
size_t classify_set_count(const struct classify_set *set);
/* Its class in the run's labels; -1 without label. */
int64_t classify_set_class(const struct classify_set *set, size_t sample);
/* ID or LABEL/ID, appended. */
void classify_set_sample_name(const struct classify_set *set, size_t sample, struct text *name);
/* The name as one component of a path: letters, digits, dot, dash and underscore stay, others are %XX. Owned by the caller. */
char *classify_set_stem(const struct classify_set *set, size_t sample);
/* What changes the set's samples, for predictions/DATASET/INFO. */
void classify_set_describe(const struct run *run, const char *list, size_t i, struct text *text);

#endif
