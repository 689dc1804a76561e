/*
 * Evaluating a run: which data groups, whether their predictions are those of the weights asked for, and RUN/eval/DATASET.tsv.
 *
 *	evaluation_open()              groups and the checkpoint that predictions should be of
 *	evaluation_check()             finds the groups whose predictions must be made (anew)
 *	... predict RUN GROUP ... ...
 *	evaluation_score()             each group: scores, and the published table
 */
#ifndef NIGHTSHIFT_TASK_EVALUATE_H
#define NIGHTSHIFT_TASK_EVALUATE_H

#include "task/groups.h"
#include "task/predictions.h"
#include "task/task.h"

struct evaluation_set {
	struct task_group group; /* its name is DATASET */
	char *directory;         /* RUN/predictions/DATASET, owned */
	struct predictions_info wanted;
	char *stale;             /* why its predictions cannot be used, owned; NULL: they can */
};
struct evaluation {
	const struct run *run;
	const struct task_kind *kind;
	struct evaluation_set *set;
	size_t sets;
};

/* `names` as for task_groups(). `step`: NULL or "" (the newest checkpoint), a number, or "best". evaluation_close() in every
 * case. */
int evaluation_open(struct evaluation *evaluation, const struct run *run, const char *step,
	const char *const *names, int count);
void evaluation_close(struct evaluation *evaluation);
/* Fills `stale` of each set; *stale counts. */
int evaluation_check(struct evaluation *evaluation, size_t *stale);
/* Scores set i by what is in its directory now and publishes RUN/eval/DATASET.tsv: header, comment (with INFO), rows. No permission to: a warning.
 * *comment (owned by the caller) is the comment line. scores_release() in every case. */
int evaluation_score(const struct evaluation *evaluation, size_t i, struct scores *scores, char **comment);

#endif
