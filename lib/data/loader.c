#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/loader.h"

struct slot {
	int64_t number; /* batch it holds or is being made for; -1: free */
	bool ready;
	int status;
	char *message; /* of a failure, owned */
};

struct loader {
	struct loader_source source;
	struct slot *slot;
	pthread_t *thread;
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t next;    /* the next number to start on */
	int64_t current; /* the number the caller holds; -1: none */
	bool stop;
};

/* Makes one batch and records how it went. Called without the lock. */
static void make(struct loader *loader, int64_t number, int place, struct slot *result)
{
	result->status = loader->source.make(loader->source.context, number, place);
	if (result->status)
		result->message = memory_text(error_message());
}

static void *work(void *argument)
{
	struct loader *loader = argument;

	pthread_mutex_lock(&loader->lock);
	while (!loader->stop) {
		int place = (int)(loader->next % loader->source.slots);
		struct slot *slot = &loader->slot[place], made = {0};

		if (slot->number >= 0) {
			pthread_cond_wait(&loader->changed, &loader->lock);
			continue;
		}
		made.number = slot->number = loader->next++;
		pthread_mutex_unlock(&loader->lock);
		make(loader, made.number, place, &made);
		pthread_mutex_lock(&loader->lock);
		made.ready = true;
		*slot = made;
		pthread_cond_broadcast(&loader->changed);
	}
	pthread_mutex_unlock(&loader->lock);
	return NULL;
}

/* Threads keep every signal blocked: the main thread alone takes the notice. */
static int start(struct loader *loader, int threads)
{
	sigset_t all, before;
	int status = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (; loader->threads < threads && !status; loader->threads++)
		if (pthread_create(&loader->thread[loader->threads], NULL, work, loader)) {
			status = error_set(STATUS_FAILURE, "cannot start a loader thread");
			break;
		}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

int loader_new(const struct loader_source *source, int threads, int64_t first, struct loader **result)
{
	struct loader *loader = memory_new(1, sizeof(*loader));
	int status;

	*result = loader;
	if (!loader)
		return STATUS_FAILURE;
	loader->source = *source;
	loader->slot = memory_new((size_t)source->slots, sizeof(*loader->slot));
	loader->thread = memory_new((size_t)threads, sizeof(*loader->thread));
	pthread_mutex_init(&loader->lock, NULL);
	pthread_cond_init(&loader->changed, NULL);
	loader->next = first;
	loader->current = -1;
	for (int i = 0; loader->slot && i < source->slots; i++)
		loader->slot[i].number = -1;
	status = loader->slot && loader->thread ? start(loader, threads) : STATUS_FAILURE;
	if (status) {
		loader_free(loader);
		*result = NULL;
	}
	return status;
}

/* Gives the slot of the batch before `number` back to the threads. */
static void release_before(struct loader *loader, int64_t number)
{
	if (loader->current >= 0 && loader->current != number) {
		struct slot *slot = &loader->slot[loader->current % loader->source.slots];

		free(slot->message);
		*slot = (struct slot){.number = -1};
		pthread_cond_broadcast(&loader->changed);
	}
	loader->current = number;
}

int loader_next(struct loader *loader, int64_t number, int *place, double *waited)
{
	double begin = clock_seconds();
	struct slot *slot = &loader->slot[number % loader->source.slots];
	int status;

	*place = (int)(number % loader->source.slots);
	pthread_mutex_lock(&loader->lock);
	release_before(loader, number);
	if (loader->threads == 0 && slot->number != number) {
		slot->number = number;
		make(loader, number, *place, slot);
		slot->ready = true;
	}
	while (slot->number != number || !slot->ready)
		pthread_cond_wait(&loader->changed, &loader->lock);
	status = slot->status ? error_set(slot->status, "%s", slot->message ? slot->message : "out of memory")
			      : 0;
	pthread_mutex_unlock(&loader->lock);
	*waited = clock_seconds() - begin;
	return status;
}

void loader_free(struct loader *loader)
{
	if (!loader)
		return;
	pthread_mutex_lock(&loader->lock);
	loader->stop = true;
	pthread_cond_broadcast(&loader->changed);
	pthread_mutex_unlock(&loader->lock);
	for (int i = 0; i < loader->threads; i++)
		pthread_join(loader->thread[i], NULL);
	for (int i = 0; loader->slot && i < loader->source.slots; i++)
		free(loader->slot[i].message);
	pthread_mutex_destroy(&loader->lock);
	pthread_cond_destroy(&loader->changed);
	free(loader->slot);
	free(loader->thread);
	free(loader);
}
