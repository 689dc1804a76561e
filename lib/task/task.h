/*
 * A task is what a training system is: model, loss, data, metrics, pictures, prediction. One row in the table of task.c each.
 */
#ifndef NIGHTSHIFT_TASK_TASK_H
#define NIGHTSHIFT_TASK_TASK_H

#include <stdint.h>
#include "base/text.h"
#include "run/checkpoint.h"
#include "run/run.h"
#include "task/groups.h"
#include "task/predictions.h"
#include "task/scores.h"
#include "train/loop.h"

/* ---- training ---- */
struct task_training {
	struct loop_task loop; /* what the loop needs; loop.program is built, not yet prepared */
	double flops, traffic; /* of one step */
	size_t missing;        /* data files that are not there */
	char *first_missing;   /* owned, or NULL */
	const char *missing_hint; /* what to do about them, behind the message; NULL: nothing to say */
	void *state;
};

/* ---- prediction ---- */
struct task_predictor {
	struct program *program; /* built, not yet prepared */
	size_t sets;             /* data groups asked for */
	void *state;
};

struct task_kind {
	const char *name;
	/* Opens data and builds graphs on `device`, for this rank's part of each step; nothing large is allocated. Missing files are
	 * counted by rank 0. */
	int (*training_open)(const struct run *run, struct device *device, const struct comm *comm,
		struct task_training *training);
	/* Allocates; afterwards weights may be initialised or loaded. */
	int (*training_prepare)(struct task_training *training);
	/* Starts loading for step `first` (0-based). */
	int (*training_start)(struct task_training *training, int64_t first);
	void (*training_close)(struct task_training *training);

	/* Whether group `group` of `list` can be predicted and scored, as far as names tell: how many of its files are missing, and the
	 * first one's name (owned by the caller, or NULL). */
	int (*group_check)(
		const struct run *run, const char *list, size_t group, size_t *missing, char **first);

	/* One set for each of the groups (task_groups()). `checkpoint`: whose weights will be loaded. */
	int (*predictor_open)(const struct run *run, struct device *device, const struct checkpoint *checkpoint,
		const struct task_group *groups, size_t count, struct task_predictor *predictor);
	int (*predictor_prepare)(struct task_predictor *predictor);
	const char *(*predictor_set)(const struct task_predictor *predictor, size_t set);
	int64_t (*predictor_samples)(const struct task_predictor *predictor, size_t set);
	/* One line that names all that changes the predictions of a group beside the weights ("steps 4 seed 2024 ..."): what of it
	 * the config id does not cover, too. Owned by the caller. */
	char *(*predictor_settings)(const struct run *run, const struct task_group *group);
	/* Predicts one sample and publishes its files. Whole files that are there already are left alone, unless output->fresh. */
	int (*predict)(struct task_predictor *predictor, size_t set, int64_t sample,
		const struct predictions_output *output);
	/* After all samples of a set: what is made of them together. NULL: nothing. */
	int (*predictor_finish)(
		struct task_predictor *predictor, size_t set, const struct predictions_output *output);
	/* Predicts a file or directory that no configuration names and appends rows, the header where `rows` is empty: the `best` best
	 * answers (-1: as configured). NULL: the task cannot. */
	int (*predictor_path)(
		struct task_predictor *predictor, const char *path, int64_t best, struct text *rows);
	void (*predictor_close)(struct task_predictor *predictor);

	/* Scores what predict() wrote to `directory` for data group `group` of `list`; scores_release() in every case. */
	int (*score)(const struct run *run, const char *list, size_t group, const char *directory,
		struct scores *scores);
	/* How many predictions are missing there, and the first one's name (owned by the caller, or NULL). */
	int (*score_missing)(const struct run *run, const char *list, size_t group, const char *directory,
		size_t *count, char **first);
};

/* By name; NULL with a message (STATUS_CONFIG). */
const struct task_kind *task_find(const char *name);

#endif
