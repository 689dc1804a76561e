/*
 * The training loop: phases, logs, checkpoints, leaving in time (DESIGN section 4). It knows no task: a task is a table of
 * functions over a prepared program.
 *
 * Phases of a step S: update > save > validate(set, sample) > pictures(index) > next step. A run can be left and resumed at
 * each boundary with equal results; where it stands is in train.cfg and step-S.phase. A schedule that follows the validation
 * loss takes its step when the first set of the last step of an epoch is through.
 */
#ifndef NIGHTSHIFT_TRAIN_LOOP_H
#define NIGHTSHIFT_TRAIN_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "comm/comm.h"
#include "file/image.h"
#include "graph/graph.h"
#include "run/checkpoint.h"
#include "train/leave.h"
#include "train/schedule.h"

#define LOOP_SUMS 8 /* at most, beside the loss */

struct loop_micro { /* one micro-batch's result */
	double loss;           /* mean over its samples */
	double sum[LOOP_SUMS]; /* what the task counts beside it, added up over its samples (such as how many are right) */
	double data_seconds; /* waiting for data */
	int64_t skipped;     /* bad samples replaced */
};

struct loop_task {
	void *state;
	struct program *program; /* prepared, borrowed */
	int64_t batch, micros;   /* samples a step, micro-batches a step */
	int64_t epoch_samples;   /* of the training data */
	int64_t epoch_steps;     /* steps of an epoch; 0: batches go on across its end */
	int64_t last_batch;      /* samples of its last step, where they are not `batch`; else 0 */
	uint32_t data_sum;       /* CRC-32C of the names of all training samples, in their order */
	struct schedule schedule;
	double learning_rate;
	uint64_t seed; /* of the operations that draw random numbers */
	/* Means over samples that stand in step.tsv and epoch.tsv behind the learning rate: of loop_micro.sum. */
	int sums;
	const char *const *sum_names;
	/* Loads micro-batch `micro` of step `step` (0-based; of all ranks) and runs forward and backward. */
	int (*micro)(void *state, int64_t step, int64_t micro, struct loop_micro *result);
	/* Names of the samples of that micro-batch, for messages; owned by the caller, NULL on failure. */
	char *(*samples)(void *state, int64_t step, int64_t micro);

	size_t sets; /* validation sets */
	const char *(*set_name)(void *state, size_t set);
	int64_t (*set_samples)(void *state, size_t set);
	int metrics;
	const char *const *metric_names;
	/* Metrics of one sample; nan where undefined. STATUS_DATA: a bad sample (skipped where the configuration says so). */
	int (*validate)(void *state, size_t set, int64_t sample, double *metrics);

	int64_t pictures;
	/* Picture `index`: 8-bit RGB (owned by the caller) and a file name without directory and suffix (at most 127 bytes). */
	int (*picture)(void *state, int64_t index, struct image *image, char name[128]);

	const char *model_stem;
	const struct checkpoint_text *texts; /* beside the weights */
	size_t text_count;
};

/* The learning rate of the update behind `state`, of which `epochs` epochs are over; reads the task's schedule and rate alone. */
double loop_rate_after(const struct loop_task *task, const struct train_state *state, int64_t epochs);

struct loop_options {
	struct leave_options leave;
	bool take_over, same_bits;
};

/* Cadences, as configured: at steps, and at ends of epochs, that are multiples (0: none). */
struct loop_plan {
	int64_t steps;
	const char *init; /* digest and path of the weights that a new run starts from; "" for random ones */
	int64_t validate_every, picture_every;
	int64_t save_every;
	double save_minutes;
	int64_t keep, keep_every;
	bool best;
	const char *best_metric;
	bool best_is_smaller;
	bool skip_bad;
	int64_t validate_epochs, picture_epochs, save_epochs, keep_epochs;
	/* Metric of the first validation set that a plateau schedule follows, at each end of an epoch. */
	const char *plateau_metric;
};

/*
 * Runs the shift that `shift` claimed, from the checkpoint `resumed` (NULL: from the present weights at step 0) to the end of
 * training, a reason to leave, or an error. Writes logs, checkpoints, pictures, `done` and nothing else; the caller writes the
 * end row with *reason (a static string) and *step. Returns 0 (done), STATUS_AGAIN (left in time), or an error's status.
 *
 * Every rank calls it. Rank r of N runs the r-th N-th of a step's micro-batches and every N-th sample and picture; rank 0 writes and
 * decides; all leave together with one status. After comm->lost the caller must not wait for anybody.
 */
int loop_run(const struct run *run, const struct shift *shift, struct comm *comm, const struct loop_task *task,
	const struct loop_plan *plan, struct leave *leave, const struct checkpoint *resumed, int64_t *step,
	const char **reason);

#endif
