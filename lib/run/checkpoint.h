/*
 * Checkpoints: complete or invisible (DESIGN section 3).
 *
 *	checkpoints/step-00012000/{MANIFEST, model/..., optimizer/..., train.cfg}
 *	checkpoints/step-00012000.phase     weights-00008000/{MANIFEST, model/...}     best
 */
#ifndef NIGHTSHIFT_RUN_CHECKPOINT_H
#define NIGHTSHIFT_RUN_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"
#include "file/safetensors.h"
#include "run/log.h"

enum train_phase { PHASE_STEP, PHASE_VALIDATE, PHASE_PICTURES, PHASE_DONE }; /* what comes next */

/* Where a run stands: train.cfg, and (phase, set, sample, sums, logs alone) step-S.phase. Doubles keep all 17 digits. */
struct train_state {
	int64_t step;            /* updates done */
	int64_t epoch, samples;  /* samples seen in all */
	enum train_phase phase;
	int64_t set, sample;     /* validation set and next sample in it; picture group and next picture */
	double *sums;            /* sums and counts of the present validation set, owned */
	size_t sums_count;
	double epoch_loss;       /* sums of the unfinished epoch */
	double epoch_sums[8];    /* what the task counts beside the loss */
	int64_t epoch_steps, epoch_samples, epoch_skipped;
	int64_t data_samples;    /* of the training data, and the sum of their names: a run goes on with what it began with */
	uint32_t data_sum;
	char init[1024];          /* digest and path of the weights that the run started from; "" where it started from random ones */
	double schedule[8];      /* state of the schedule, where it has any */
	char best_metric[64];    /* "" until there is one */
	double best_value;
	int64_t best_step;
	struct log_lengths logs;
	int64_t shift;
	char config_id[65];
};
void train_state_release(struct train_state *state);
int train_state_copy(struct train_state *to, const struct train_state *from); /* deep */

struct checkpoint_text { /* a small file beside the weights: "model/unet/config.json" */
	const char *path;
	const char *data;
	size_t bytes;
};
struct checkpoint_content {
	const char *model_stem;     /* "unet/diffusion_pytorch_model": shards go to model/STEM... */
	const struct safetensor *model;
	size_t model_count;
	const char *optimizer_stem; /* "optimizer" */
	const struct safetensor *optimizer; /* NULL in weights-only saves */
	size_t optimizer_count;
	const struct checkpoint_text *texts;
	size_t text_count;
	uint64_t shard_bytes;       /* of tensors in one file; 0: 1 GB */
};

/* Publishes step-S (state->step; state->logs must be those of logs_sync() just now): fence, write under .partial name, MANIFEST,
 * fsync, rename. A valid one already there stays (only the phase file is left alone); a damaged one becomes .dead first.
 * *seconds and *bytes (may be NULL) for the save estimate. */
int checkpoint_save(const struct shift *shift, const struct train_state *state, const struct checkpoint_content *content,
	double *seconds, uint64_t *bytes);
/* Publishes weights-S. */
int checkpoint_save_weights(const struct shift *shift, int64_t step, const struct checkpoint_content *content);
/*
 * A save shared by ranks, in three steps; checkpoint_save() is these in one process. Rank 0 begins, every rank writes its shards
 * (shard k, those of the model first, is rank k modulo `ranks`'s), rank 0 commits with what all of them have written.
 */
struct checkpoint_shard { /* one file, once it is written */
	uint64_t bytes;
	uint32_t crc, unused;
};
int checkpoint_shards(const struct checkpoint_content *content, int *count); /* the tensors' data is not looked at */
/* Which tensors a rank will write: one flag each. Those of others need no data. */
int checkpoint_share(const struct checkpoint_content *content, int rank, int ranks, bool *model, bool *optimizer);
/* *directory (owned): where the files go; NULL when there is a valid one of this step already. `weights`: weights-S. */
int checkpoint_begin(const struct shift *shift, int64_t step, bool weights, char **directory);
/* Fills the entries of `shards` (as many as checkpoint_shards() says) that are this rank's. May run in any thread. */
int checkpoint_write(const char *directory, const struct checkpoint_content *content, int rank, int ranks,
	struct checkpoint_shard *shards);
/* Publishes step-S with its state, or weights-S (state NULL); on failure removes the directory. */
int checkpoint_commit(const struct shift *shift, int64_t step, const struct train_state *state,
	const struct checkpoint_content *content, const char *directory, const struct checkpoint_shard *shards);
void checkpoint_abandon(const char *directory); /* instead of a commit; keeps the present message */
/* Bytes that checkpoint_save() will write. */
int checkpoint_bytes(const struct checkpoint_content *content, uint64_t *bytes);
/* Replaces step-S.phase. The checkpoint step-S must exist. */
int checkpoint_save_phase(const struct shift *shift, const struct train_state *state);

struct checkpoint {
	int64_t step;
	char path[4096];
	bool weights_only;
	char digest[16];             /* CRC-32C of MANIFEST's model/ lines (without one: of all tensors' bytes), 8 hex digits */
	char arch[64];               /* what a file of PyTorch says its network is ("resnet-18"), "" where it does not */
	struct text plain;           /* the values beside the weights of a file of PyTorch (file/torch.h) */
	struct train_state state;    /* step-* only; the phase file's position where there is a valid one */
	struct safetensors *model;
	int model_files;
	struct safetensors *optimizer;
	int optimizer_files;
};
void checkpoint_release(struct checkpoint *checkpoint);
/* The tensors alone: whoever has taken them over goes on without a second copy of the weights in memory. */
void checkpoint_release_tensors(struct checkpoint *checkpoint);
/* The newest valid step-* (verified by MANIFEST, logs long enough, config id equal); damaged ones are skipped with a
 * warning each. *found false when there is none. */
int checkpoint_resume(const struct run *run, struct checkpoint *checkpoint, bool *found);
/* The same by several ranks: each file is read by one of them (shard k by rank k modulo size, all at the same time) and broadcast, so
 * that the file system is read once. Every rank calls it and gets the same. */
struct checkpoint_ranks {
	void *state;
	int rank, size;
	int (*broadcast)(void *state, int root, void *data, size_t bytes);
	int (*agree)(void *state, int status); /* 0 only where all gave 0; the message of one that failed */
};
int checkpoint_resume_ranks(const struct run *run, const struct checkpoint_ranks *ranks, struct checkpoint *checkpoint, bool *found);
/* For the other programs: the newest valid of step-* and weights-*, or `which`: a step number, or "best". Model tensors only.
 * STATUS_NO_INPUT when there is none. */
int checkpoint_open(const struct run *run, const char *which, struct checkpoint *checkpoint);
/* Weights from anywhere, for init.weights: a run, a checkpoint, a directory that diffusers wrote, a file of safetensors or of PyTorch
 * (told apart by its first bytes; nothing in it is executed). */
int checkpoint_open_path(const char *path, struct checkpoint *checkpoint);
/* A directory with its MANIFEST, whole: with optimizer and state where it is a step-*. */
int checkpoint_open_all(const char *directory, struct checkpoint *checkpoint);
/* Finds a tensor over all files of the model (or optimizer); NULL when there is none. */
const struct safetensor *checkpoint_model(const struct checkpoint *checkpoint, const char *name);
const struct safetensor *checkpoint_optimizer(const struct checkpoint *checkpoint, const char *name);

/* Retention: keeps the `keep` newest step-* (the newest having been read back first), makes weights-S of steps that are multiples
 * of keep_every from step-S by hard work once (checkpoint_save_weights does it at save time), removes older ones (rename to
 * .dead, then unlink) and left-over .partial and .dead of dead shifts. */
int checkpoint_prune(const struct shift *shift, int64_t keep);
/* RUN/checkpoints/best: "step metric value" . The weights of the best before go, unless `keeps` says that those of that step stay for
 * another reason. */
typedef bool checkpoint_keeps(const void *context, int64_t step);
int checkpoint_best_write(const struct shift *shift, int64_t step, const char *metric, double value, checkpoint_keeps *keeps,
	const void *context);
int checkpoint_best_read(const struct run *run, bool *found, int64_t *step, char metric[64], double *value);
/* Digest of the published step-S (CRC-32C of MANIFEST's model/ lines, 8 hex digits), from MANIFEST alone. */
int checkpoint_digest(const struct run *run, int64_t step, char digest[16]);
/* Step and digest of the one that checkpoint_open() tries first, from MANIFESTs alone (their files are not read). */
int checkpoint_newest(const struct run *run, const char *which, int64_t *step, char digest[16]);
/* Verifies a checkpoint directory against its MANIFEST: STATUS_DATA names the first bad file. */
int checkpoint_verify(const char *directory);

#endif
