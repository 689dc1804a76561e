/* Videos as directories of numbered frames. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/video_layout.h"
#include "file/image.h"

#define FRAME_LIMIT ((size_t)1 << 28) /* bytes of a frame's file */

static const char *const suffixes[] = {"", NULL};
static const char *const frame_suffixes[] = {".jpg", ".png", ".jpeg"};
enum { FRAME_SUFFIXES = 3 };

struct video_store {
	char *path;
	int suffix;      /* that of the frame read last */
	bool listed;     /* what follows is known */
	int64_t *number; /* of the frames that are there, ascending, owned */
	size_t count, capacity;
};

static int frames_open(const char *path, bool flow, struct video_store **result)
{
	struct video_store *store = memory_new(1, sizeof *store);

	(void)flow;
	*result = store;
	if (!store)
		return error_status();
	store->path = memory_text(path);
	if (store->path)
		return STATUS_OK;
	free(store);
	*result = NULL;
	return error_status();
}

static void frames_close(struct video_store *store)
{
	free(store->path);
	free(store->number);
	free(store);
}

/* ---- which frames there are ---- */

/* "image_00017.jpg" is 17; -1 for other names. */
static int64_t number_of(const char *name)
{
	char digits[20];
	const char *start = name + 6, *end;
	int64_t number;
	bool known = false;

	if (!text_starts(name, "image_"))
		return -1;
	end = start + strspn(start, "0123456789");
	for (int i = 0; i < FRAME_SUFFIXES; i++)
		known |= !strcmp(end, frame_suffixes[i]);
	if (!known || end - start < 5 || (size_t)(end - start) >= sizeof digits)
		return -1;
	memcpy(digits, start, (size_t)(end - start));
	digits[end - start] = 0;
	return text_to_int64(digits, &number) ? number : -1;
}

static int compare_numbers(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

	return first < second ? -1 : first > second;
}

static int list_frames(struct video_store *store)
{
	struct names names = {0};
	int status = store->listed ? STATUS_OK : file_list(store->path, &names);

	if (status || store->listed)
		return status;
	for (size_t i = 0; !status && i < names.count; i++) {
		int64_t number = number_of(names.name[i]);

		if (number < 0)
			continue;
		status = memory_grow(
			&store->number, &store->capacity, store->count + 1, sizeof *store->number);
		if (!status)
			store->number[store->count++] = number;
	}
	names_release(&names);
	if (status)
		return status;
	if (store->count)
		qsort(store->number, store->count, sizeof *store->number, compare_numbers);
	store->listed = true;
	return STATUS_OK;
}

static int frames_count(struct video_store *store, int64_t *end)
{
	int status = list_frames(store);

	if (!status)
		*end = store->count ? store->number[store->count - 1] + 1 : 1;
	return status;
}

static int frames_nearest(struct video_store *store, int64_t number, int64_t *found)
{
	int status = list_frames(store);
	size_t above = 0;

	if (status)
		return status;
	if (!store->count)
		return error_set(STATUS_NO_INPUT, "%s: no frames (image_00001.jpg, ...)", store->path);
	while (above < store->count && store->number[above] < number)
		above++;
	if (above == store->count ||
		(above > 0 && number - store->number[above - 1] <= store->number[above] - number))
		above--;
	*found = store->number[above];
	return STATUS_OK;
}

/* ---- reading ---- */

/* The bytes of a frame; *name is for messages. Both owned by the caller. */
static int read_frame(struct video_store *store, int64_t number, char **name, char **data, size_t *bytes)
{
	int status = STATUS_NO_INPUT;

	*name = NULL;
	for (int i = 0; status == STATUS_NO_INPUT && i < FRAME_SUFFIXES; i++) {
		int suffix = (store->suffix + i) % FRAME_SUFFIXES;
		struct text path = {0};

		free(*name);
		text_format(
			&path, "%s/image_%05lld%s", store->path, (long long)number, frame_suffixes[suffix]);
		*name = text_take(&path);
		status = *name ? file_read_regular(*name, FRAME_LIMIT, data, bytes) : error_status();
		if (!status)
			store->suffix = suffix;
	}
	if (status == STATUS_NO_INPUT)
		error_set(status, "%s: frame %lld is missing (image_%05lld.jpg)", store->path,
			(long long)number, (long long)number);
	if (status) {
		free(*name);
		*name = NULL;
	}
	return status;
}

static int frames_size(struct video_store *store, int64_t number, int *height, int *width)
{
	char *name, *data;
	size_t bytes;
	int status = read_frame(store, number, &name, &data, &bytes);

	if (status)
		return status;
	status = video_decode_size(name, data, bytes, height, width);
	free(name);
	free(data);
	return status;
}

static int frames_read(struct video_store *store, int64_t number, struct jpeg_part *part)
{
	char *name, *data;
	size_t bytes;
	int status = read_frame(store, number, &name, &data, &bytes);

	if (status)
		return status;
	status = video_decode(name, data, bytes, part);
	free(name);
	free(data);
	return status;
}

const struct video_layout video_layout_frames = {
	.name = "frames",
	.first = 1,
	.suffixes = suffixes,
	.directories = true,
	.open = frames_open,
	.close = frames_close,
	.count = frames_count,
	.size = frames_size,
	.read = frames_read,
	.nearest = frames_nearest,
};
