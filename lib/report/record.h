/*
 * What a run directory says, read as it stands: also while the run is being trained, before its first step, after its last, where
 * files are missing or damaged, and where nothing may be written. What cannot be read becomes a line of `trouble`; the rest is
 * there all the same.
 */
#ifndef NIGHTSHIFT_REPORT_RECORD_H
#define NIGHTSHIFT_REPORT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"
#include "report/series.h"
#include "run/run.h"
#include "run/shift.h"

enum record_log { RECORD_STEP, RECORD_EPOCH, RECORD_TIME, RECORD_LOGS };

/* A column of a log over steps. */
struct record_curve {
	enum record_log log;
	char *name;             /* "loss" */
	struct series *series;
};

/* ---- validation ---- */
enum { RECORD_METRICS = 32 };
struct record_metric {
	char *name;
	bool larger_is_better;
	struct series *series;
	int64_t best_step;      /* -1: no value yet */
	double best;
	int64_t n, n_nan;       /* of the newest value */
};
struct record_looks { /* one step's values of a dataset, nan where there is none */
	int64_t step;
	double value[RECORD_METRICS];
};
struct record_set {
	char *dataset;
	struct record_metric metric[RECORD_METRICS];
	int metrics;
	struct record_looks *look; /* by step; of a long history the newer ones and the best */
	size_t looks, capacity;
};

/* ---- evaluation ---- */
enum { RECORD_COLUMNS = 32, RECORD_WORST = 10 };
struct record_column {
	char *name;
	int64_t count; /* finite numbers */
	int64_t other; /* nan, inf, words */
	double sum, low, high;
};
struct record_sample {
	char *name;
	double error;
	char *field[RECORD_COLUMNS]; /* as in the file; NULL behind its end */
};
struct record_scores { /* of RUN/eval/DATASET.tsv */
	char *dataset;
	struct names remarks;
	struct record_column column[RECORD_COLUMNS]; /* those behind dataset and sample; the first is the error */
	int columns;
	int64_t samples;
	struct record_sample worst[RECORD_WORST]; /* the largest errors, largest first */
	int worsts;
};

/* ---- checkpoints ---- */
struct record_checkpoint {
	char *name;   /* "step-00012000" */
	bool weights; /* without the state that a resume needs */
	int64_t step;
	uint64_t bytes;
	char digest[16];
	bool valid, sampled; /* sampled: by names and lengths alone */
	char *wrong;         /* why it is not valid; owned */
};

struct record {
	struct run run; /* config is NULL where config.cfg cannot be used */
	char *name;     /* the directory's own name */
	struct names trouble;

	struct shift_row *shift;
	size_t shifts;
	struct record_curve *curve;
	size_t curves, curve_capacity;
	struct record_set *set;
	size_t sets, set_capacity;
	struct record_scores *scores;
	size_t scored, scores_capacity;
	struct record_checkpoint *checkpoint; /* newest first */
	size_t checkpoints;
	bool has_best;
	int64_t best_step;
	char best_metric[64];
	double best_value;
	bool has_platform;
	struct run_platform platform;
	bool has_done;
	struct run_done done;

	/* ---- how it stands ---- */
	char state[16];     /* new running waiting stopped held failed lost done unknown damaged */
	int64_t step;       /* the newest in the log */
	int64_t steps;      /* -1: not known */
	double epoch;       /* -1: not known */
	double loss;        /* nan: none yet */
	double last_write;  /* wall seconds; 0: never */
	int64_t last_shift; /* 0: none */
	double seconds_step; /* of the newest steps, with what lies between them; nan */
	double samples_s;    /* of the newest steps; nan */
	double trained_s;    /* in all shifts together */
	double left_s;       /* nan: not known */
};

/* How much is looked at. `brief`: what a line of text needs. `verify`: every byte of every checkpoint; else large ones are judged
 * by their MANIFEST and lengths. */
struct record_options {
	bool brief, verify;
};
/* STATUS_NO_INPUT: no run. record_release() in every case. */
int record_read(const char *path, const struct record_options *options, struct record *record);
void record_release(struct record *record);

/* NULL where there is none (or it is empty). */
const struct series *record_find(const struct record *record, enum record_log log, const char *name);
/* The newest valid checkpoint that a resume can use, else the newest valid weights; NULL where there is none. */
const struct record_checkpoint *record_newest(const struct record *record);

#endif
