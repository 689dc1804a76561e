/*
 * Scoring a directory of depth predictions against a dataset (spec/marigold.md section 8): alignment of each prediction to
 * its truth, clipping to the dataset's range, ten metrics. Samples are read by several threads.
 */
#ifndef NIGHTSHIFT_TASK_DEPTH_SCORE_H
#define NIGHTSHIFT_TASK_DEPTH_SCORE_H

#include <stdbool.h>

#include "data/depth.h"
#include "metric/depth.h"
#include "task/scores.h"

struct depth_score {
	struct depth_options truth;
	const char *
		predictions; /* directory, or one file (npy or 16-bit PNG) that is the prediction of every sample */
	bool constant; /* no predictions: the baseline of a constant map, which alignment makes the best of its kind */
	/* Predictions of others: for DIR/rgb_0001.png not DIR/rgb_0001.npy alone but, in this order, that, the original's name
	 * (DIR/pred_0001.npy for nyu), and both with .png, 16 bits. */
	bool foreign;
	bool skip; /* a missing prediction and a truth that cannot be decoded are rows of nan and warnings, too */
	enum depth_align align;
};

/* Fills *scores (scores_release() in every case). A sample without valid truth is a row of nan and a warning. A missing
 * prediction: STATUS_NO_INPUT; of other size than its truth, undecodable or not finite where the truth is valid: STATUS_DATA.
 * Each names the file. A notice (base/signals.h): STATUS_AGAIN. */
int depth_score_run(const struct depth_score *score, struct scores *scores);
/* How many predictions are missing, and the first one's name (owned by the caller, or NULL). */
int depth_score_missing(const struct depth_score *score, size_t *count, char **first);

#endif
