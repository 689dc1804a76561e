/* Learning-rate schedules: pure functions of the update number where they can be. */
#ifndef NIGHTSHIFT_TRAIN_SCHEDULE_H
#define NIGHTSHIFT_TRAIN_SCHEDULE_H

#include <stdint.h>

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_EXPONENTIAL, SCHEDULE_COSINE };
struct schedule {
	enum schedule_kind kind;
	int64_t warmup; /* steps of linear warm-up from 0 */
	int64_t total;  /* steps at which the final ratio is reached (warm-up included) */
	double final_ratio;
};
/* Factor on the base rate for update number n = 0, 1, 2, ... (spec/marigold.md 6.5: the k-th update uses factor(k-1), so that
 * with warm-up the first update has rate 0). EXPONENTIAL: exp((n-warmup)/(total-warmup) ln ratio); COSINE: half a cosine
 * from 1 to the ratio. Constant at final_ratio behind `total`. */
double schedule_factor(const struct schedule *schedule, int64_t n);
/* -1 for an unknown name ("constant", "exponential", "cosine"). */
int schedule_kind(const char *name);

#endif
