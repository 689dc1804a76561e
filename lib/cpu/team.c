/* Threads that share numbered pieces of work (see team.h). */
#include "cpu/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#define LOOKING 100e-6 /* seconds a helper looks for work before it sleeps */

struct helper {
	struct team *team;
	pthread_t thread;
	int number;
};

/*
 * The ticket holds the round in its upper half and the pieces not yet taken in its lower: taking one is a single
 * exchange that fails when the round is over. Who took a piece may read the job, for the caller waits for that piece.
 */
struct team {
	_Alignas(64) _Atomic uint64_t ticket;
	_Alignas(64) _Atomic int64_t done;
	_Alignas(64) void (*body)(void *context, int64_t i, int thread);
	void *context;
	int64_t count;
	uint32_t round;
	_Alignas(64) _Atomic int sleepers;
	_Atomic bool closing;
	pthread_mutex_t mutex;
	pthread_cond_t work;
	struct helper *helpers;
	int started;
};

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* Takes pieces until there are none; returns whether there was one. */
static bool take_pieces(struct team *team, int number)
{
	bool found = false;
	uint64_t ticket = atomic_load(&team->ticket);
	while ((uint32_t)ticket > 0) {
		if (!atomic_compare_exchange_weak(&team->ticket, &ticket, ticket - 1))
			continue;
		team->body(team->context, team->count - (int64_t)(uint32_t)ticket, number);
		atomic_fetch_add(&team->done, 1);
		found = true;
		ticket = atomic_load(&team->ticket);
	}
	return found;
}

static bool idle(struct team *team)
{
	return (uint32_t)atomic_load(&team->ticket) == 0 && !atomic_load(&team->closing);
}

/* The caller looks at `sleepers` after it has changed the ticket, we at the ticket after `sleepers`: one sees the other. */
static void helper_sleep(struct team *team)
{
	pthread_mutex_lock(&team->mutex);
	atomic_fetch_add(&team->sleepers, 1);
	while (idle(team))
		pthread_cond_wait(&team->work, &team->mutex);
	atomic_fetch_sub(&team->sleepers, 1);
	pthread_mutex_unlock(&team->mutex);
}

static void *helper_main(void *argument)
{
	struct helper *helper = argument;
	struct team *team = helper->team;
	double since = clock_seconds();
	while (!atomic_load(&team->closing)) {
		if (take_pieces(team, helper->number)) {
			since = clock_seconds();
			continue;
		}
		for (int i = 0; i < 100 && idle(team); i++)
			relax();
		if (clock_seconds() - since < LOOKING)
			continue;
		helper_sleep(team);
		since = clock_seconds();
	}
	return NULL;
}

static void wake(struct team *team)
{
	if (atomic_load(&team->sleepers) == 0)
		return;
	pthread_mutex_lock(&team->mutex);
	pthread_cond_broadcast(&team->work);
	pthread_mutex_unlock(&team->mutex);
}

void team_run(
	struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context)
{
	if (count <= 0)
		return;
	team->body = body;
	team->context = context;
	team->count = count;
	atomic_store(&team->done, 0);
	atomic_store(&team->ticket, (uint64_t)++team->round << 32 | (uint64_t)count);
	wake(team);
	take_pieces(team, 0);
	/* What is left is in the hands of helpers; one may have lost its processor to us. */
	for (int64_t spins = 0; atomic_load(&team->done) < count; spins++) {
		relax();
		if (spins > 2000)
			sched_yield();
	}
}

static int start_helpers(struct team *team, int threads)
{
	sigset_t all, before;
	int failed = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (int i = 1; i < threads && !failed; i++) {
		struct helper *helper = &team->helpers[i - 1];
		*helper = (struct helper){.team = team, .number = i};
		failed = pthread_create(&helper->thread, NULL, helper_main, helper);
		team->started += !failed;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? error_set(STATUS_UNAVAILABLE, "cannot start %d threads; lower cpu.threads", threads)
		      : STATUS_OK;
}

struct team *team_new(int threads)
{
	struct team *team = memory_aligned(sizeof *team);
	if (!team)
		return NULL;
	pthread_mutex_init(&team->mutex, NULL);
	pthread_cond_init(&team->work, NULL);
	team->helpers = memory_new((size_t)threads, sizeof *team->helpers);
	if (!team->helpers || start_helpers(team, threads)) {
		team_free(team);
		return NULL;
	}
	return team;
}

void team_free(struct team *team)
{
	if (!team)
		return;
	atomic_store(&team->closing, true);
	wake(team);
	for (int i = 0; i < team->started; i++)
		pthread_join(team->helpers[i].thread, NULL);
	pthread_cond_destroy(&team->work);
	pthread_mutex_destroy(&team->mutex);
	free(team->helpers);
	free(team);
}
