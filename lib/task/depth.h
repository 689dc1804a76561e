/* Monocular depth by latent diffusion (Marigold). */
#ifndef NIGHTSHIFT_TASK_DEPTH_H
#define NIGHTSHIFT_TASK_DEPTH_H

#include "task/task.h"

extern const struct task_kind
	depth_kind; /* task.c's row; its parts are depth_train.c, depth_predict.c, depth_score.c */

int depth_training_open(const struct run *run, struct device *device, const struct comm *comm,
	struct task_training *training);
int depth_training_prepare(struct task_training *training);
int depth_training_start(struct task_training *training, int64_t first);
void depth_training_close(struct task_training *training);

int depth_group_check(const struct run *run, const char *list, size_t group, size_t *missing, char **first);
int depth_predictor_open(const struct run *run, struct device *device, const struct checkpoint *checkpoint,
	const struct task_group *groups, size_t count, struct task_predictor *predictor);
int depth_predictor_prepare(struct task_predictor *predictor);
const char *depth_predictor_set(const struct task_predictor *predictor, size_t set);
int64_t depth_predictor_samples(const struct task_predictor *predictor, size_t set);
char *depth_predictor_settings(const struct run *run, const struct task_group *group);
int depth_predictor_predict(struct task_predictor *predictor, size_t set, int64_t sample,
	const struct predictions_output *output);
void depth_predictor_close(struct task_predictor *predictor);

int depth_group_score(
	const struct run *run, const char *list, size_t group, const char *directory, struct scores *scores);
int depth_group_missing(const struct run *run, const char *list, size_t group, const char *directory,
	size_t *count, char **first);

#endif
