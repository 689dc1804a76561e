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
	int64_t epoch_steps, epoch_samples, epoch_skipped;
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
/* Bytes that checkpoint_save() will write. */
int checkpoint_bytes(const struct checkpoint_content *content, uint64_t *bytes);
/* Replaces step-S.phase. The checkpoint step-S must exist. */
int checkpoint_save_phase(const struct shift *shift, const struct train_state *state);

struct checkpoint {
	int64_t step;
	char path[4096];
	bool weights_only;
	char digest[16];             /* CRC-32C of MANIFEST's model/ lines, 8 hex digits */
	struct train_state state;    /* step-* only; the phase file's position where there is a valid one */
	struct safetensors *model;
	int model_files;
	struct safetensors *optimizer;
	int optimizer_files;
};
void checkpoint_release(struct checkpoint *checkpoint);
/* The newest valid step-* (verified by MANIFEST, logs long enough, config id equal); damaged ones are skipped with a
 * warning each. *found false when there is none. */
int checkpoint_resume(const struct run *run, struct checkpoint *checkpoint, bool *found);
/* For the other programs: the newest valid of step-* and weights-*, or `which`: a step number, or "best". Model tensors only.
 * STATUS_NO_INPUT when there is none. */
int checkpoint_open(const struct run *run, const char *which, struct checkpoint *checkpoint);
/* Any checkpoint or run directory or a directory with model/..., for init.weights. */
int checkpoint_open_path(const char *path, struct checkpoint *checkpoint);
/* Finds a tensor over all files of the model (or optimizer); NULL when there is none. */
const struct safetensor *checkpoint_model(const struct checkpoint *checkpoint, const char *name);
const struct safetensor *checkpoint_optimizer(const struct checkpoint *checkpoint, const char *name);

/* Retention: keeps the `keep` newest step-* (the newest having been read back first), makes weights-S of steps that are multiples
 * of keep_every from step-S by hard work once (checkpoint_save_weights does it at save time), removes older ones (rename to
 * .dead, then unlink) and left-over .partial and .dead of dead shifts. */
int checkpoint_prune(const struct shift *shift, int64_t keep);
/* RUN/checkpoints/best: "step metric value" . */
int checkpoint_best_write(const struct shift *shift, int64_t step, const char *metric, double value);
int checkpoint_best_read(const struct run *run, bool *found, int64_t *step, char metric[64], double *value);
/* Digest of the published step-S (CRC-32C of MANIFEST's model/ lines, 8 hex digits), from MANIFEST alone. */
int checkpoint_digest(const struct run *run, int64_t step, char digest[16]);
/* Step and digest of the one that checkpoint_open() tries first, from MANIFESTs alone (their files are not read). */
int checkpoint_newest(const struct run *run, const char *which, int64_t *step, char digest[16]);
/* Verifies a checkpoint directory against its MANIFEST: STATUS_DATA names the first bad file. */
int checkpoint_verify(const char *directory);

#endif
