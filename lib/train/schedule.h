/* Learning-rate schedules: pure functions of the update number where they can be. */
#ifndef NIGHTSHIFT_TRAIN_SCHEDULE_H
#define NIGHTSHIFT_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum schedule_kind {
	SCHEDULE_CONSTANT, SCHEDULE_EXPONENTIAL, SCHEDULE_COSINE, SCHEDULE_MULTISTEP, SCHEDULE_TWO_STEPS, SCHEDULE_PLATEAU
};
#define SCHEDULE_MILESTONES 32
struct schedule {
	enum schedule_kind kind;
	int64_t warmup; /* steps of linear warm-up from 0 */
	int64_t total;  /* steps at which the final ratio is reached (warm-up included) */
	double final_ratio;
	int64_t milestone[SCHEDULE_MILESTONES]; /* update numbers, rising */
	int milestones;
	double gamma;     /* MULTISTEP and PLATEAU: factor of each cut; TWO_STEPS: what the rate is divided by */
	int64_t patience; /* PLATEAU: epochs without a better loss before a cut */
	double threshold; /* PLATEAU: the part of the best loss by which a better one is below it */
	bool by_epoch;    /* total and milestones are epochs, for schedule_at() */
};
/* Factor on the base rate for update number n = 0, 1, 2, ... (spec/marigold.md 6.5: the k-th update uses factor(k-1), so that
 * with warm-up the first update has rate 0). EXPONENTIAL: exp((n-warmup)/(total-warmup) ln ratio); COSINE: half a cosine
 * from 1 to the ratio. Constant at final_ratio behind `total`. MULTISTEP: gamma for each milestone that n has reached (one that
 * stands there twice counts twice). TWO_STEPS: 1 / gamma behind the first milestone, 1 / gamma^2 behind the second. PLATEAU: 1
 * behind the warm-up; plateau_step() has the rest. */
double schedule_factor(const struct schedule *schedule, int64_t n);
/* The rate itself; of MULTISTEP by the products in the order of PyTorch's scheduler (0.1, 0.010000000000000002, ...). */
double schedule_rate(const struct schedule *schedule, double base, int64_t n);
/* The rate of the update behind `step` others and `epochs` whole epochs: schedule_rate() of the former, or of the latter times the
 * warm-up, which counts steps always. Under PLATEAU `base` is the plateau's. */
double schedule_at(const struct schedule *schedule, double base, int64_t step, int64_t epochs);
/* -1 for an unknown name ("constant", "exponential", "cosine", "multistep", "two-steps", "plateau"). */
int schedule_kind(const char *name);

/* The base rate under SCHEDULE_PLATEAU, as PyTorch's ReduceLROnPlateau in its relative mode has it: state that a checkpoint keeps. */
struct plateau {
	double rate, best; /* best: lowest loss so far */
	int64_t bad;       /* epochs since then */
};
void plateau_init(struct plateau *plateau, double base);
/* After each epoch: its loss (not a number counts as bad). A loss is better when it is below best x (1 - threshold); after more than
 * `patience` bad epochs the rate is cut, unless that changes it by no more than 1e-8. */
void plateau_step(struct plateau *plateau, const struct schedule *schedule, double loss);

#endif
