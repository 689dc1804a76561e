/*
 * Shifts: who may write to a run (DESIGN section 4, Ownership), and shifts.tsv.
 */
#ifndef NIGHTSHIFT_RUN_SHIFT_H
#define NIGHTSHIFT_RUN_SHIFT_H

#include <stdbool.h>
#include <stdint.h>
#include "run/run.h"

/* Who this process is: job ("123", "120_4" for arrays), restart, host, pid. Without SLURM_JOB_ID the script that loops
 * gives job and restart in NIGHTSHIFT_JOB ("bash-HOST-PID": squeue knows no such job) and NIGHTSHIFT_RESTART; else "-", 0. */
struct shift_identity {
	char job[64];
	int64_t restart;
	char host[256];
	int64_t pid;
};
void shift_identity(struct shift_identity *identity); /* from SLURM_* and the system */

struct shift {
	int64_t number; /* 1, 2, ...; 0: none claimed */
	struct shift_identity identity;
	const struct run *run;
};

/* Whether a process of this identity may go on from the highest claim (or there is none): STATUS_OK, or STATUS_UNAVAILABLE
 * naming the owner, or STATUS_FENCED when a later life of the same job owns the run. `take_over` forces it. Claims nothing: for mkconfig, snapshot-code and the trainer's dry run. */
int shift_check(const struct run *run, const struct shift_identity *identity, bool take_over);
/* Checks, then claims the next number; writes the "lost" row for an owner that left no end row, and the "start" row; removes what
 * killed shifts left half-written. `remark` (NULL or "": none) is the start row's reason.
 * STATUS_FENCED when a higher claim appears meanwhile. */
int shift_claim(
	struct shift *shift, const struct run *run, bool take_over, int64_t step, const char *remark);
/* Another process of the shift that one has claimed: `number` and `identity` are those of the claim. */
void shift_join(struct shift *shift, const struct run *run, int64_t number, const struct shift_identity *identity);
/* Reads shifts/current: STATUS_FENCED when a newer shift exists. Called before each publish, prune and log flush. */
int shift_fence(const struct shift *shift);
/* A status that a write to RUN ended with, 0 included: becomes STATUS_FENCED when a newer shift exists, which removes the files that an
 * older one is writing. */
int shift_failed(const struct shift *shift, int status);
/* Removes what killed shifts left in RUN/directory ("" for RUN itself): temporary names (.partial, .dead) that bear the number of
 * this shift or of an earlier one, as far as they can be removed. Not while this process publishes something there. */
int shift_sweep(const struct shift *shift, const char *directory);
/* The "end" row; "-" for a shift that was refused before it had a number (shift->run and identity set). status: the exit status; reason: one word or a few ("done", "notice", "stopped", "not finite", ...). */
int shift_end(const struct shift *shift, int64_t step, int status, const char *reason);

/* One row of shifts.tsv: #shift event time job restart nodes world step status reason. */
struct shift_row {
	int64_t shift;     /* -1 where none was claimed ("-") */
	char event[16];    /* start end lost requeue hold fail */
	char time[32];
	char job[64];
	int64_t restart;
	int64_t nodes, world, step, status; /* -1: "-" */
	char reason[256];
};
int shift_rows(const struct run *run, struct shift_row **rows, size_t *count); /* caller frees; torn last line ignored */
/* The same from a text, which is taken apart in place. */
int shift_rows_parse(char *data, struct shift_row **rows, size_t *count);
int shift_row_add(const struct run *run, const struct shift_row *row);         /* one O_APPEND write */

#endif
