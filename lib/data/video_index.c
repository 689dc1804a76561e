/* Names to their places: an open table of hashes. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/video_annotation.h"

static size_t hash_of(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = (hash ^ *c) * 0x100000001b3;
	return (size_t)(hash ^ hash >> 29);
}

/* The slot that holds the name, or the empty one where it belongs. `count` is a power of two above the number of names. */
static size_t slot_of(const struct video_index *index, const char *name)
{
	size_t slot = hash_of(name) & (index->count - 1);

	while (index->name[slot] && strcmp(index->name[slot], name) != 0)
		slot = (slot + 1) & (index->count - 1);
	return slot;
}

int video_index_init(struct video_index *index, size_t count,
	const char *(*get)(const void *context, size_t i), const void *context)
{
	*index = (struct video_index){.count = 4};
	while (index->count / 2 < count)
		index->count *= 2;
	index->name = memory_new(index->count, sizeof *index->name);
	index->place = memory_new(index->count, sizeof *index->place);
	if (!index->name || !index->place) {
		video_index_release(index);
		return error_status();
	}
	for (size_t i = 0; i < count; i++) {
		size_t slot = slot_of(index, get(context, i));

		index->name[slot] = get(context, i);
		index->place[slot] = i;
	}
	return STATUS_OK;
}

void video_index_release(struct video_index *index)
{
	free(index->name);
	free(index->place);
	*index = (struct video_index){0};
}

int64_t video_index_find(const struct video_index *index, const char *name)
{
	size_t slot = slot_of(index, name);

	return index->name[slot] ? (int64_t)index->place[slot] : -1;
}

const char *video_names_get(const void *names, size_t i)
{
	return ((const struct names *)names)->name[i];
}
