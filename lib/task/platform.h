/*
 * The device a run computes on: resolved by its first shift, obeyed by later ones (DESIGN sections 3 and 4).
 */
#ifndef NIGHTSHIFT_TASK_PLATFORM_H
#define NIGHTSHIFT_TASK_PLATFORM_H

#include <stdbool.h>
#include "comm/comm.h"
#include "graph/backend.h"
#include "run/run.h"

struct platform {
	struct device *device;
	struct run_platform now; /* what is in use */
	bool recorded;           /* RUN/platform.cfg was there */
	char differs[256];       /* "" or what could not be obeyed, in a few words */
};

/* Opens the device as platform.cfg says, or, in the first shift, as the configuration says. What cannot be obeyed is one
 * warning and a word in `differs`; with `same_bits` it is STATUS_UNAVAILABLE. Writes nothing. Every rank calls it; all compute with the
 * same instruction set and precision, the lowest of their processors', and the same number of threads: CPUs that ranks have in common are shared
 * among them. */
int platform_open(const struct run *run, bool same_bits, struct comm *comm, struct platform *platform);
/* Writes platform.cfg when there is none yet. For the owner of the run. */
int platform_record(const struct run *run, struct platform *platform);
void platform_close(struct platform *platform);

#endif
