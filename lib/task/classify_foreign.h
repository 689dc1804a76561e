/*
 * Scoring results in the original's form against the original's annotation (spec/resnets3d.md 6.4): one row a video of the subset,
 * in the annotation's order; the mean of top1 is the original's "top-1 accuracy".
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_FOREIGN_H
#define NIGHTSHIFT_TASK_CLASSIFY_FOREIGN_H

#include <stdbool.h>

#include "task/scores.h"

struct classify_foreign {
	const char *truth, *prediction; /* files */
	const char *subset;             /* training, validation, testing, or their short forms */
	bool ignore;                    /* videos without result are left out; else they are misses */
};
/* Fills *scores (scores_release() in every case). A result holds the best classes alone: a truth that is not among them counts as
 * one of probability 0, with an error and a rank of inf. */
int classify_foreign_run(const struct classify_foreign *foreign, struct scores *scores);

#endif
