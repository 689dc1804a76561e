/* What predict leaves of a video: predictions/DATASET/STEM.npy, and the labels of its columns. */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_STORED_H
#define NIGHTSHIFT_TASK_CLASSIFY_STORED_H

#include "task/classify_set.h"

#define STORED_LABELS "labels.txt"

struct stored {
	char *path;         /* owned */
	float *probability; /* [windows, classes], owned */
	size_t windows, classes;
};
/* DIRECTORY/STEM.npy; owned by the caller. */
char *stored_path(const char *directory, const struct classify_set *set, size_t sample);
/* stored_release() in every case. Missing: STATUS_NO_INPUT. */
int stored_read(const char *directory, const struct classify_set *set, size_t sample, struct stored *stored);
void stored_release(struct stored *stored);
/* DIRECTORY/labels.txt. */
int stored_labels(const char *directory, struct classify_labels *labels);

#endif
