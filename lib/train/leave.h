/*
 * When to leave: the clock, the notice and what a save would take (DESIGN section 4, Notice and Saving in time).
 *
 * A shift leaves at a unit boundary (a step, a validation sample, a picture) when a signal has come, when the user asked, or
 * when less remains than 2 x (slowest recent unit + save estimate) + 10 s.
 */
#ifndef NIGHTSHIFT_TRAIN_LEAVE_H
#define NIGHTSHIFT_TRAIN_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

#define LEAVE_RECENT 16 /* units remembered */
#define LEAVE_RATES 3   /* saves remembered */

struct leave_options {
	double exit_after; /* seconds from program start; negative: none */
	double until;      /* wall time; 0: none */
	double notice;     /* seconds left after USR2 when the end time is unknown */
	const char *job;   /* SLURM job (or array element) to ask for; "-" or NULL: none */
};

struct leave {
	struct leave_options options;
	double end;       /* clock_seconds() at which the allocation ends; infinity when unknown */
	double slurm_end; /* SLURM's part of it, infinity when unknown; as first told */
	double asked;     /* when SLURM was last asked */
	bool warned;
	double kill_wait; /* seconds between TERM and KILL, less 5 */
	double unit[LEAVE_RECENT];
	int units;
	double rate[LEAVE_RATES]; /* bytes a second */
	int rates;
	double probe; /* the rate before the first save; 0: not measured */
};

/* Asks SLURM for the end time and KillWait; a failure is one warning. */
void leave_init(struct leave *leave, const struct leave_options *options);
/* Measures a first write rate with a small fsynced probe file in `directory`. */
int leave_probe(struct leave *leave, const char *directory);
void leave_unit(struct leave *leave, double seconds);                  /* a unit took this long */
void leave_saved(struct leave *leave, uint64_t bytes, double seconds); /* a save went this fast */
double leave_save_estimate(const struct leave *leave, uint64_t bytes); /* seconds */

enum leave_reason { LEAVE_STAY, LEAVE_NOTICE, LEAVE_CLOCK };
/* Called at each boundary; asks SLURM again every 10 minutes. */
enum leave_reason leave_now(struct leave *leave, uint64_t save_bytes);
/* After a reason to leave: whether a save of that size still fits (1.5 times the estimate). */
bool leave_can_save(const struct leave *leave, uint64_t save_bytes);
/* Seconds until the known end; infinity when unknown. */
double leave_left(const struct leave *leave);
/* The notice (seconds before the end) that a model needs, for the dry run: 2 x (unit + save) + 10. */
double leave_notice_needed(double unit_seconds, double save_seconds);

#endif
