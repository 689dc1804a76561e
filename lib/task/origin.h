/* Which weights predictions are made by: those of a run's checkpoints, or, where it has none, those it would start from. */
#ifndef NIGHTSHIFT_TASK_ORIGIN_H
#define NIGHTSHIFT_TASK_ORIGIN_H

#include "run/checkpoint.h"

/* `which` as for checkpoint_open(). Of a run without checkpoints "" means init.weights, as step 0, where it names some and all of
 * them are taken (init.ignore empty). */
int origin_open(const struct run *run, const char *which, struct checkpoint *checkpoint);
/* Step and digest alone. */
int origin_find(const struct run *run, const char *which, int64_t *step, char digest[16]);

#endif
