/*
 * Saves of a running training. The weights are copied at a step boundary; threads of all ranks then write their shards while
 * training goes on, and a later boundary publishes what they have written (DESIGN section 7).
 *
 * Functions marked "together" are called by every rank at the same place, with the status that this rank has reached; they agree on
 * it first, so that a rank which failed alone takes the others along.
 */
#ifndef NIGHTSHIFT_TRAIN_SAVE_H
#define NIGHTSHIFT_TRAIN_SAVE_H

#include "base/threads.h"
#include "comm/comm.h"
#include "run/checkpoint.h"
#include "train/weights.h"

struct saver {
	struct comm *comm;
	const struct shift *shift;
	const struct store *store;
	int64_t keep;                  /* newest checkpoints that stay */
	struct weights weights;        /* the copy that is written */
	struct checkpoint_content content;
	uint64_t bytes;                /* of one checkpoint */
	struct checkpoint_shard *shard; /* of this rank's writing, then of all */
	struct checkpoint_shard *all;
	float *scratch;                /* one parameter, and of all ranks: */
	uint32_t *sums;                /* CRC-32C of the weights */
	int shards;
	/* the save under way */
	bool running;
	struct train_state state;
	char directory[4096];          /* "" where a valid one was there already */
	struct thread_job writing;
	double started, written;       /* clock_seconds() */
	double seconds;                /* that the last save took, without waiting for a boundary */
	struct thread_job pruning;     /* rank 0: reads the newest back and removes old ones */
};

/* `content` describes texts and stems; its tensors are filled in. Borrows all. */
int saver_init(struct saver *saver, struct comm *comm, const struct shift *shift, const struct store *store,
	const struct checkpoint_content *content, int64_t keep);
/* Waits for threads; a save that was not finished is abandoned. */
void saver_release(struct saver *saver);

/* Together: begins the save of step-S that `state` describes. One under way is finished first. STATUS_FAILURE when the ranks do not have
 * the same weights any more. */
int saver_start(struct saver *saver, int status, const struct train_state *state);
/* Whether this rank's part of the save under way is written. */
bool saver_written(const struct saver *saver);
/* Together: waits for all ranks' parts and publishes. Without a save under way: the status as it is. */
int saver_finish(struct saver *saver, int status);
/* Together: publishes weights-S. One under way is finished first. */
int saver_keep_weights(struct saver *saver, int status, int64_t step);
/* Rank 0 alone: waits until old checkpoints are removed; before it puts anything else into RUN/checkpoints. */
int saver_settle(struct saver *saver);

#endif
