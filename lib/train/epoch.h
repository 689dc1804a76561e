/*
 * Epochs as functions of the step. Where a task says how many steps one has, an epoch is so many; else batches go on across its end,
 * and it is over with the step that sees its last sample.
 */
#ifndef NIGHTSHIFT_TRAIN_EPOCH_H
#define NIGHTSHIFT_TRAIN_EPOCH_H

#include <stdint.h>

struct loop_task;

/* Whole epochs that are over after `step` steps. */
int64_t epoch_of(const struct loop_task *task, int64_t step);
/* The first step after which `epochs` epochs are over. */
int64_t epoch_end(const struct loop_task *task, int64_t epochs);
/* Samples of 0-based step `step`. */
int64_t epoch_step_samples(const struct loop_task *task, int64_t step);

#endif
