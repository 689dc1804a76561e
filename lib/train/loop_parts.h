/* What the files of the loop share. */
#ifndef NIGHTSHIFT_TRAIN_LOOP_PARTS_H
#define NIGHTSHIFT_TRAIN_LOOP_PARTS_H

#include "base/progress.h"
#include "train/exchange.h"
#include "train/loop.h"
#include "train/save.h"

#define METRICS 64            /* at most, of a sample */
#define SPEED_STEPS 20        /* window of the console's samples per second */

/* What a rank tells the others about signals, wherever they meet. */
struct news {
	int32_t notice; /* enum signals_notice */
	int32_t unused;
	double ago; /* seconds since it came */
};

enum user_stop { USER_NONE, USER_STOPPED /* RUN/stop */, USER_INTERRUPTED };
/* What ranks tell each other between two units; all act on what rank 0 says. */
struct word {
	struct news news;
	int32_t leave, stop, fits; /* rank 0: why to leave, and whether there is time for a save */
	int32_t save_due;          /* rank 0 */
	int32_t written;           /* this rank's part of the save under way */
	int32_t unused;
};

/* What a rank tells about its micro-batches; behind come, of each, the loss and the task's sums. */
struct share {
	struct news news;
	double data_seconds;
	int64_t skipped;
	int32_t not_finite, unused;
	double result[];
};

struct loop {
	const struct run *run;
	const struct shift *shift;
	struct comm *comm;
	const struct loop_task *task;
	const struct loop_plan *plan;
	struct leave *leave;
	struct train_state state;
	struct train_state boundary; /* the state right after the step, while a later phase of it runs */
	struct logs *logs;           /* rank 0 */
	struct saver saver;
	struct exchange exchange;
	struct word *words; /* of all ranks */
	struct share *mine;
	char *shares;       /* of all ranks */
	size_t share_bytes; /* of each */
	char *rounds;       /* of all ranks: samples or pictures of one round */
	bool averaged;      /* the weights have changed places with their running averages */
	int64_t saved_step; /* newest step-S that this shift wrote, writes or started from; -1: none */
	double last_save, last_flush, last_stop_look, step_started, first_started;
	double recent[SPEED_STEPS]; /* seconds of the last steps */
	double recent_data[SPEED_STEPS];
	int64_t steps_here; /* steps this shift has run */
	int64_t units_here; /* units of any kind: steps, validation samples, pictures */
	struct progress progress;
	const char *reason;
};

/*
 * A status may belong to one rank until the next place where ranks meet: the boundary between units, the gather of a step, a round of
 * samples or pictures, a save. Functions marked "together" are called by every rank at the same place and take the status so far, so
 * that a rank which failed does not stay away; they return what all have agreed on.
 */
bool loop_is_first(const struct loop *loop); /* rank 0 */
struct news loop_news(void);
void loop_hear(const struct news *news);
/* A unit (a step, a round of samples or pictures) took this long. */
void loop_end_unit(struct loop *loop, double seconds);
/* Remembers the state at the end of a step, for a save that comes in the middle of a later phase of it. */
int loop_mark_boundary(struct loop *loop);
/* What follows a phase of this step. */
enum train_phase loop_next_phase(const struct loop *loop, enum train_phase after);
/* Says what can be done about a sample that cannot be used; returns `status`. */
int loop_bad_sample(const struct loop *loop, int status);
/* Together: publishes the present weights alone. */
int loop_keep_weights(struct loop *loop, int status);

/* How many numbers a micro-batch has in a share. */
size_t loop_results(const struct loop *loop);
/* Whether the step that the run has just done is a multiple of `steps`, or the end of an epoch that is one of `epochs`. */
bool loop_due(const struct loop *loop, int64_t steps, int64_t epochs);
/* The same of another step. */
bool loop_due_at(const struct loop *loop, int64_t step, int64_t steps, int64_t epochs);

/* Puts the running averages of the weights, where there are any, in their places: for all that looks at what was learned; or back. */
int loop_averages(struct loop *loop, bool wanted);

/* One unit of each phase. */
int loop_step(struct loop *loop);
int loop_validate(struct loop *loop);
int loop_pictures(struct loop *loop);
/* Room that the rounds need, a rank. */
size_t loop_round_bytes(void);

/* loop_epoch.c: epochs and the schedule. */
/* A new run's state of the schedule; STATUS_CONFIG where it follows a metric that the task does not have. */
int loop_start_schedule(struct loop *loop, bool fresh);
/* The learning rate of the next update. */
double loop_rate(const struct loop *loop);
/* A metric of the first validation set is known. */
void loop_follow(struct loop *loop, const char *metric, double value);
/* Adds a step's results to its epoch, of which it writes the row when it is over. */
int loop_count_epoch(struct loop *loop, double loss, const double *sums, int64_t samples, double rate);
int loop_add_fields(struct text *row, const double *values, int count);

#endif
