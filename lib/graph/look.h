/*
 * Looking inside a program: a function that runs each operation in the back end's place, what it may measure and check, and
 * the graph as a drawing.
 */
#ifndef NIGHTSHIFT_GRAPH_LOOK_H
#define NIGHTSHIFT_GRAPH_LOOK_H

#include <stdio.h>
#include "base/text.h"
#include "graph/backend.h"

/* Runs the operation (graph_run_call()) and does what it likes around that; its status is the run's. */
typedef int program_watch(void *state, struct graph *graph, const struct call *call);
/* From the next operation on; NULL: none, which costs nothing. */
void program_set_watch(struct program *program, program_watch *watch, void *state);
/* The back end's body for one operation; the message of a failure names graph and node. */
int graph_run_call(struct graph *graph, const struct call *call);

/* A watch without state: after each operation of a training graph, STATUS_FENCED when one of its results is not finite. The
 * message names the result and the operation, or the parameter or input that the operation got so. */
program_watch watch_finite;

/* ---- time by operation ---- */
struct machine { /* what the device reaches, each per second */
	double flops;   /* in a product of large matrices */
	double traffic; /* bytes, in a scaled copy of a large array */
};
/* Takes a fraction of a second and 200 MB. */
int machine_measure(struct device *device, struct machine *machine);

struct profile; /* state of watch_profile */
struct profile *profile_new(void); /* NULL with a message */
void profile_free(struct profile *profile);
program_watch watch_profile;
/* Time outside the operations, as a row of its own. */
int profile_add(struct profile *profile, const char *what, double start, double seconds);
/* Appends "#operation calls seconds share gflops gbytes_s of_product of_copy" and a row for each operation, calls and seconds being
 * those of one of `steps` steps that took `seconds` together, the longest first; then `other`, what no row has, and `step`, all of it.
 * of_product and of_copy: parts of what the machine can do. */
int profile_table(const struct profile *profile, const struct machine *machine, int64_t steps, double seconds,
	struct text *rows);
/* Appends every event as a Chrome trace (JSON, microseconds); `process` tells ranks apart. */
int profile_trace(const struct profile *profile, int process, struct text *json);

/* ---- drawings ---- */
/* All graphs of a program, planned (program_measure()): text as graph_print() has it, each after a line "#graph NAME", or DOT. */
void program_print(const struct program *program, FILE *out);
int program_draw(const struct program *program, FILE *out);

#endif
