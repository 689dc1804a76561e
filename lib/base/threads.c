/* Threads: numbered jobs on a few threads. */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

int threads_available(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set))
		return 1;
	int count = CPU_COUNT(&set);
	return count > 0 ? count : 1;
}

struct work {
	int (*job)(void *context, size_t index);
	void *context;
	size_t count;
	atomic_size_t next;
	atomic_bool failed;
	pthread_mutex_t lock; /* of what follows: the failure with the lowest index */
	size_t failed_index;
	int status;
	char *message;
};

static void record_failure(struct work *work, size_t index, int status)
{
	pthread_mutex_lock(&work->lock);
	if (!work->status || index < work->failed_index) {
		free(work->message);
		work->message = memory_text(error_message());
		work->failed_index = index;
		work->status = status;
	}
	pthread_mutex_unlock(&work->lock);
	work->failed = true;
}

static void *run_jobs(void *argument)
{
	struct work *work = argument;
	while (!work->failed) {
		size_t index = atomic_fetch_add(&work->next, 1);
		if (index >= work->count)
			break;
		int status = work->job(work->context, index);
		if (status)
			record_failure(work, index, status);
	}
	return NULL;
}

/* A thread with the end-of-shift signals blocked. */
static bool start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
	sigset_t blocked, before;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	bool started = !pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

/* Starts up to `wanted` threads; fewer is slower, not wrong. */
static size_t start_threads(pthread_t *thread, size_t wanted, struct work *work)
{
	size_t started = 0;
	while (started < wanted && start_thread(&thread[started], run_jobs, work))
		started++;
	return started;
}

int threads_run(int threads, size_t count, int (*job)(void *context, size_t index), void *context)
{
	struct work work = {
		.job = job, .context = context, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER};
	size_t wanted = threads > 1 ? (size_t)threads : 1;
	if (wanted > count)
		wanted = count;
	pthread_t *thread = memory_new(wanted, sizeof *thread);
	if (!thread)
		return error_status();
	/* The calling thread is one of them. */
	size_t started = wanted > 1 ? start_threads(thread, wanted - 1, &work) : 0;
	run_jobs(&work);
	for (size_t i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	if (work.status)
		error_set(work.status, "%s", work.message ? work.message : "out of memory");
	free(work.message);
	return work.status;
}

/* ---- one job ---- */

static void *run_job(void *argument)
{
	struct thread_job *job = argument;
	job->status = job->run(job->context);
	if (job->status)
		job->message = memory_text(error_message());
	job->done = true;
	return NULL;
}

void thread_job_start(struct thread_job *job, int (*run)(void *context), void *context)
{
	*job = (struct thread_job){.run = run, .context = context, .running = true};
	job->inline_run = !start_thread(&job->thread, run_job, job);
	if (job->inline_run)
		run_job(job);
}

bool thread_job_running(const struct thread_job *job)
{
	return job->running;
}

bool thread_job_done(const struct thread_job *job)
{
	return !job->running || job->done;
}

int thread_job_wait(struct thread_job *job)
{
	int status;
	if (!job->running)
		return STATUS_OK;
	if (!job->inline_run)
		pthread_join(job->thread, NULL);
	status = job->status;
	if (status)
		error_set(status, "%s", job->message ? job->message : "out of memory");
	free(job->message);
	*job = (struct thread_job){0};
	return status;
}
