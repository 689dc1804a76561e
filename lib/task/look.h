/* Looking inside a run's training without training: its graphs as a file, and where the time of a step goes. */
#ifndef NIGHTSHIFT_TASK_LOOK_H
#define NIGHTSHIFT_TASK_LOOK_H

#include "base/text.h"
#include "comm/comm.h"
#include "task/task.h"

/* Writes the graphs of an opened training to a file ("-": standard output), in DOT where its name ends in .dot, else as tables. */
int look_dump(const struct task_training *training, const char *path);

struct look_profile {
	int64_t first;     /* 0-based step whose data come first */
	int64_t steps;     /* that are measured, after two others */
	const char *trace; /* a file, or NULL; above rank 0 its name gets ".RANK" */
};
/* Runs steps of a started training on its real data, without updates, and appends the table (graph/look.h) of this rank. */
int look_profile(const struct task_training *training, struct device *device, const struct comm *comm,
	const struct look_profile *profile, struct text *rows);

#endif
