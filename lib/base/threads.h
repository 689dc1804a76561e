/*
 * Threads: a pool that runs numbered jobs, for files and decoding (the CPU back end has its own, cpu/team.h).
 * All threads keep USR2 and TERM blocked.
 */
#ifndef NIGHTSHIFT_BASE_THREADS_H
#define NIGHTSHIFT_BASE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* CPUs in the affinity mask of this process. */
int threads_available(void);

/* Runs job(context, i) for i = 0 .. count-1 on up to `threads` threads, started in order of i. The first failure (by
 * index, not by time) is the status returned, with its message; after a failure no new index is started. */
int threads_run(int threads, size_t count, int (*job)(void *context, size_t index), void *context);

/* One job beside the calling thread. All zero: none. */
struct thread_job {
	int (*run)(void *context);
	void *context;
	pthread_t thread;
	bool running, inline_run;
	_Atomic bool done;
	int status;
	char *message; /* of a failure, owned */
};
/* Starts it (where no thread can be had, runs it at once). The one before must have been waited for. */
void thread_job_start(struct thread_job *job, int (*run)(void *context), void *context);
bool thread_job_running(const struct thread_job *job); /* started and not yet waited for */
bool thread_job_done(const struct thread_job *job);    /* waiting would not take long; true without a job */
/* Waits for its end; its status, with its message. STATUS_OK without a job. */
int thread_job_wait(struct thread_job *job);

#endif
