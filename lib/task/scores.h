/*
 * Scores: one row of metrics a sample, in list order, and the tables made of them.
 *
 *	#dataset<TAB>sample<TAB>ERROR<TAB>...     column 3 is an error for every task: larger is worse
 *	# words that say what was scored and how
 *	rooms<TAB>rgb/00400.png<TAB>0.21<TAB>...
 */
#ifndef NIGHTSHIFT_TASK_SCORES_H
#define NIGHTSHIFT_TASK_SCORES_H

#include <stddef.h>

#include "base/text.h"

struct scores {
	const char *const *metric; /* names, static */
	size_t metrics;
	char **sample; /* [count], owned */
	double *value; /* [count, metrics], owned; nan where a sample could not be scored */
	size_t count;
	char *how; /* one line that names range, crop, alignment; owned */
	const char *const *word_name; /* columns of words behind the metrics, static */
	size_t words;
	char **word; /* [count, words], owned */
	const char *const *extra_name; /* what a summary has beside the means, static */
	size_t extras;
	double *extra; /* owned */
};
int scores_init(struct scores *scores, const char *const *metric, size_t metrics, size_t count);
int scores_init_words(struct scores *scores, const char *const *name, size_t words);
int scores_init_extras(struct scores *scores, const char *const *name, size_t extras);
void scores_release(struct scores *scores);

/* "#dataset sample METRIC ..." */
void scores_header(const struct scores *scores, struct text *table);
/* "# DATASET: INFO; HOW"; `info` may be empty. */
void scores_comment(const struct scores *scores, const char *dataset, const char *info, struct text *table);
void scores_rows(const struct scores *scores, const char *dataset, struct text *table);
/* "#dataset n nan METRIC ... EXTRA ...": n rows, `nan` of them hold a nan; means over the others. */
void scores_summary_header(const struct scores *scores, struct text *table);
void scores_summary(const struct scores *scores, const char *dataset, struct text *table);

#endif
