/*
 * Claims: the files shifts/1, shifts/2, ... Each is the word of one process that it owned the run from then on; the highest
 * one is the present owner. Made by shift.c alone.
 */
#ifndef NIGHTSHIFT_RUN_CLAIM_H
#define NIGHTSHIFT_RUN_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include "base/text.h"
#include "run/run.h"
#include "run/shift.h"

struct claim {
	struct shift_identity identity;
	int64_t started;    /* of the process, in clock ticks since the boot: a process id can be used again */
	char boot[64];      /* the kernel's id of this boot */
	char namespace[64]; /* of process ids: in another one the same number is another process */
};
/* The claim that the calling process makes. */
void claim_self(const struct shift_identity *identity, struct claim *claim);
/* "job 120_4\nrestart 1\n..." */
void claim_format(const struct claim *claim, struct text *text);
/* Takes over `data` (from malloc, a NUL behind its `bytes` bytes); `path` is for messages. */
int claim_take(const char *path, char *data, size_t bytes, struct claim *claim);
int claim_read(const struct run *run, int64_t number, struct claim *claim);
/* The highest number in shifts/; 0 when there is none. */
int claims_highest(const struct run *run, int64_t *highest);

enum owner { OWNER_GONE, OWNER_RUNS, OWNER_UNKNOWN };
/* Whether the process (its job, under SLURM) behind `claim` still runs. For OWNER_UNKNOWN, `reason` says why it is not known. */
enum owner owner_state(const struct claim *claim, const struct shift_identity *self, struct text *reason);

#endif
