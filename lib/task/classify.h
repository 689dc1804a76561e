/* Classification of videos (3D-ResNets). */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_H
#define NIGHTSHIFT_TASK_CLASSIFY_H

#include "task/task.h"

extern const struct task_kind
	classify_kind; /* task.c's row; its parts are classify_train.c, classify_predict.c, classify_score.c */

int classify_training_open(const struct run *run, struct device *device, const struct comm *comm,
	struct task_training *training);
int classify_training_prepare(struct task_training *training);
int classify_training_start(struct task_training *training, int64_t first);
void classify_training_close(struct task_training *training);

int classify_group_check(
	const struct run *run, const char *list, size_t group, size_t *missing, char **first);
int classify_predictor_open(const struct run *run, struct device *device, const struct checkpoint *checkpoint,
	const struct task_group *groups, size_t count, struct task_predictor *predictor);
int classify_predictor_prepare(struct task_predictor *predictor);
const char *classify_predictor_set(const struct task_predictor *predictor, size_t set);
int64_t classify_predictor_samples(const struct task_predictor *predictor, size_t set);
char *classify_predictor_settings(const struct run *run, const struct task_group *group);
int classify_predictor_predict(struct task_predictor *predictor, size_t set, int64_t sample,
	const struct predictions_output *output);
int classify_predictor_finish(
	struct task_predictor *predictor, size_t set, const struct predictions_output *output);
int classify_predictor_path(
	struct task_predictor *predictor, const char *path, int64_t best, struct text *rows);
void classify_predictor_close(struct task_predictor *predictor);

int classify_group_score(
	const struct run *run, const char *list, size_t group, const char *directory, struct scores *scores);
int classify_group_missing(const struct run *run, const char *list, size_t group, const char *directory,
	size_t *count, char **first);

#endif
