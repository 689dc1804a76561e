/*
 * Results of a set of videos in the original's form (spec/resnets3d.md section 6.2), byte for byte, and as a table:
 *
 *	{"results": {"ID": [{"label": "NAME", "score": 0.93}, ...], ...}}                                 one result a video
 *	{"results": {"ID": [{"segment": [1, 17], "result": [{"label": ..., "score": ...}, ...]}, ...]}}   one a window
 *
 *	#video begin end rank label score      rank from 1; frames begin .. end-1
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_RESULT_H
#define NIGHTSHIFT_TASK_CLASSIFY_RESULT_H

#include "task/classify_set.h"

struct classify_result {
	struct text json, table;
	bool average;
	size_t best; /* classes of each result; of more than there are labels: all */
	bool any;    /* there is a video in it already */
};
void classify_result_begin(struct classify_result *result, bool average, size_t best);
/* A video's windows: probabilities [windows, classes] and their segments. */
int classify_result_add(struct classify_result *result, const char *id, const struct classify_labels *labels,
	const float *probability, size_t windows, size_t classes, const int64_t (*segment)[2]);
/* Ends the JSON. STATUS_FAILURE where memory was short. */
int classify_result_end(struct classify_result *result);
void classify_result_release(struct classify_result *result);

#endif
