/*
 * The columns of a classification's scores:
 *
 *	error       -log of the true class's probability
 *	top1 top5   1 where it is the first, among the first five
 *	clip_top1   the share of windows (clips) where it is the first
 *	rank        how many classes come before it
 *	label       the truth; predicted: the class taken for it
 *
 * and, of a whole set, mean_class_top1: the mean over classes of the mean of top1 over a class's videos.
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_SCORES_H
#define NIGHTSHIFT_TASK_CLASSIFY_SCORES_H

#include "task/scores.h"

/* All values nan. */
int classify_scores_init(struct scores *scores, size_t count);
void classify_scores_set(struct scores *scores, size_t i, double rank, double probability, double clip_top1);
int classify_scores_name(struct scores *scores, size_t i, const char *label, const char *predicted);
/* When all rows stand. */
int classify_scores_finish(struct scores *scores);
/* "#dataset label predicted n": how often each label was taken for each, in order of labels' first rows. */
int classify_scores_confusion(const struct scores *scores, const char *dataset, struct text *table);

#endif
