/* Videos as video files. */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/video_layout.h"
#include "file/film.h"
#include "file/image.h"

static const char *const suffixes[] = {".mp4", ".webm", ".avi", ".mkv", ".mov", NULL};

struct video_store {
	const struct source *source;
	char *name, *path; /* in the source, and for messages; owned */
	int threads;
	struct film *film; /* opened with the first frame; NULL: not yet */
	int64_t end;       /* 0: not known yet */
};

static void film_store_close(struct video_store *store)
{
	film_close(store->film);
	free(store->name);
	free(store->path);
	free(store);
}

static int film_store_open(
	const struct source *source, const char *name, bool flow, int threads, struct video_store **result)
{
	struct video_store *store = memory_new(1, sizeof *store);

	(void)flow;
	*result = NULL;
	if (!store)
		return error_status();
	store->source = source;
	store->threads = threads;
	store->name = memory_text(name);
	store->path = source_name(source, name);
	if (!store->name || !store->path) {
		film_store_close(store);
		return error_status();
	}
	*result = store;
	return STATUS_OK;
}

static int start(struct video_store *store)
{
	struct source_place place;
	int status;

	if (store->film)
		return STATUS_OK;
	status = source_locate(store->source, store->name, &place);
	if (status)
		return status;
	status = film_open(store->path, &place, store->threads, &store->film);
	free(place.path);
	return status;
}

static int film_store_count(struct video_store *store, int64_t *end, int64_t *present)
{
	int status = start(store);

	if (!status && !store->end) {
		status = film_count(store->film, present);
		if (!status)
			store->end = *present + 1;
	}
	*end = store->end ? store->end : 1;
	*present = *end - 1;
	return status;
}

static int go(struct video_store *store, int64_t number)
{
	int status = start(store);

	return status ? status : film_go(store->film, number);
}

static int film_store_size(struct video_store *store, int64_t number, int *height, int *width)
{
	int status = go(store, number);

	if (!status)
		film_size(store->film, height, width);
	return status;
}

/* Frames are decoded whole: what a later one needs of an earlier is known to its decoder alone. */
static int film_store_read(struct video_store *store, int64_t number, struct jpeg_part *part)
{
	int height, width, status = film_store_size(store, number, &height, &width);
	size_t bytes;

	if (status)
		return status;
	bytes = (size_t)height * (size_t)width * 3 + JPEG_SLACK;
	if (bytes > part->capacity) {
		free(part->pixels);
		part->pixels = memory_new(bytes, 1);
		part->capacity = part->pixels ? bytes : 0;
		if (!part->pixels)
			return error_status();
	}
	if (part->top > height - part->height || part->left > width - part->width)
		return error_set(STATUS_DATA, "%s: frames of %d x %d pixels, smaller than expected",
			store->path, width, height);
	part->denominator = 1;
	part->top = part->left = 0;
	part->height = part->image_height = height;
	part->width = part->image_width = width;
	return film_pixels(store->film, part->pixels);
}

static int film_store_nearest(struct video_store *store, int64_t number, int64_t *found)
{
	int64_t end, present;
	int status = film_store_count(store, &end, &present);

	if (!status && !present)
		return error_set(STATUS_NO_INPUT, "%s: no frames in it", store->path);
	*found = number < 1 ? 1 : number < end ? number : end - 1;
	return status;
}

const struct video_layout video_layout_film = {
	.name = "video",
	.first = 1,
	.suffixes = suffixes,
	.open = film_store_open,
	.close = film_store_close,
	.count = film_store_count,
	.size = film_store_size,
	.read = film_store_read,
	.nearest = film_store_nearest,
};
