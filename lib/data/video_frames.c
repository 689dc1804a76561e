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
	const struct source *source;
	char *directory, *path; /* in the source, and for messages; owned */
	int suffix;             /* that of the frame read last */
	int64_t held;           /* the frame whose file is `data`; -1: none */
	char *name, *data;      /* of its file, owned */
	size_t bytes;
	bool listed;     /* what follows is known */
	int64_t *number; /* of the frames that are there, ascending, owned */
	size_t count, capacity;
};

static void frames_close(struct video_store *store)
{
	free(store->directory);
	free(store->path);
	free(store->name);
	free(store->data);
	free(store->number);
	free(store);
}

static int frames_open(
	const struct source *source, const char *name, bool flow, int threads, struct video_store **result)
{
	struct video_store *store = memory_new(1, sizeof *store);

	(void)flow, (void)threads;
	*result = NULL;
	if (!store)
		return error_status();
	store->source = source;
	store->held = -1;
	store->directory = memory_text(name);
	store->path = source_name(source, name);
	if (!store->directory || !store->path) {
		frames_close(store);
		return error_status();
	}
	*result = store;
	return STATUS_OK;
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
	int status = store->listed ? STATUS_OK : source_list(store->source, store->directory, &names);

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

static int frames_count(struct video_store *store, int64_t *end, int64_t *present)
{
	int status = list_frames(store);

	if (status)
		return status;
	*end = store->count ? store->number[store->count - 1] + 1 : 1;
	*present = 0;
	for (size_t i = 0; i < store->count; i++) /* a frame may be there as .jpg and .png */
		*present += store->number[i] > 0 && (!i || store->number[i] != store->number[i - 1]);
	return STATUS_OK;
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

static char *frame_name(const struct video_store *store, int64_t number, int suffix)
{
	struct text name = {0};

	text_format(&name, "%s%simage_%05lld%s", store->directory, *store->directory ? "/" : "",
		(long long)number, frame_suffixes[suffix]);
	return text_take(&name);
}

static int read_file(struct video_store *store, int64_t number)
{
	int status = STATUS_NO_INPUT;

	for (int i = 0; status == STATUS_NO_INPUT && i < FRAME_SUFFIXES; i++) {
		int suffix = (store->suffix + i) % FRAME_SUFFIXES;

		free(store->name);
		store->name = frame_name(store, number, suffix);
		status = store->name ? source_read(store->source, store->name, FRAME_LIMIT, &store->data,
					       &store->bytes)
				     : error_status();
		if (!status)
			store->suffix = suffix;
	}
	if (status == STATUS_NO_INPUT)
		error_set(status, "%s: frame %lld is missing (image_%05lld.jpg)", store->path,
			(long long)number, (long long)number);
	return status;
}

/* The size of a frame is often asked for right before its pixels, so its file is held. */
static int hold_frame(struct video_store *store, int64_t number)
{
	int status;

	if (store->held == number)
		return STATUS_OK;
	free(store->data);
	store->data = NULL;
	store->held = -1;
	status = read_file(store, number);
	if (!status)
		store->held = number;
	return status;
}

static int frames_size(struct video_store *store, int64_t number, int *height, int *width)
{
	int status = hold_frame(store, number);

	if (!status && video_decode_size(path_base(store->name), store->data, store->bytes, height, width))
		status = error_prefix("%s", store->path);
	return status;
}

static int frames_read(struct video_store *store, int64_t number, struct jpeg_part *part)
{
	int status = hold_frame(store, number);

	if (!status && video_decode(path_base(store->name), store->data, store->bytes, part))
		status = error_prefix("%s", store->path);
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
