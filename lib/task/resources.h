/* What a run will need, told before it is queued: the trainer's dry run. */
#ifndef NIGHTSHIFT_TASK_RESOURCES_H
#define NIGHTSHIFT_TASK_RESOURCES_H

#include "base/text.h"
#include "run/run.h"
#include "task/platform.h"
#include "task/task.h"

/* Appends "#item<TAB>value<TAB>unit" rows: parameters, FLOPs and bytes moved per step, bytes on the device by kind, bytes of a checkpoint and of the
 * run directory, missing files, the notice needed, memory here and whether it fits, the largest tensors. Nothing large is allocated; a small probe
 * file is written to RUN and removed. *status_of_run: 0, STATUS_NO_INPUT when files are missing (the message names the first),
 * STATUS_UNAVAILABLE when the memory does not suffice. */
int resources_describe(const struct run *run, const struct platform *platform,
	const struct task_training *training, struct text *rows, int *status_of_run);

/* STATUS_NO_INPUT, naming the first and what to do, when data files are missing. */
int resources_missing(const struct task_training *training);

/* Before anything is allocated: STATUS_UNAVAILABLE when the run needs more than this machine (or its budget) has at all, a warning
 * when it needs more than is free now, which may change. */
int resources_check(const struct run *run, const struct task_training *training);

#endif
