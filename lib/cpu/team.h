/*
 * The threads of a device: one caller and helpers that take numbered pieces of work from it.
 *
 * The caller never waits for a helper that has not taken a piece, so a helper without a processor (a shared node, a
 * test machine) costs nothing; OpenMP's barriers, which wait for every thread, made a step four times slower there.
 * Helpers look for work for a short while and then sleep. They are born with all signals blocked.
 */
#ifndef NIGHTSHIFT_CPU_TEAM_H
#define NIGHTSHIFT_CPU_TEAM_H

#include <stdint.h>

struct team;

/* `threads` counts the caller; NULL with a message. */
struct team *team_new(int threads);
void team_free(struct team *team); /* NULL is fine */

/* Calls body(context, i, thread) once for each i in 0 .. count-1 (count below 2^31), thread in 0 .. threads-1; returns when
 * all are done. Not to be called from a body. */
void team_run(
	struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context);

#endif
