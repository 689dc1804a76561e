/* Videos as HDF5 files: one image file an element; of optical flow, two grey ones. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/video_layout.h"
#include "file/hdf5.h"

#define FRAME_LIMIT ((size_t)1 << 28) /* bytes of a frame's file */

static const char *const suffixes[] = {".hdf5", ".h5", NULL};

struct video_store {
	const struct source *source;
	char *name, *path; /* in the source, and for messages; owned */
	struct hdf5 *file; /* opened with the first frame; NULL: not yet */
	struct hdf5_strings strings[2];
	int images;               /* of a frame: 1, or 2 for flow */
	struct jpeg_part part[2]; /* of flow */
	int64_t held;             /* the frame whose images are `data`; -1: none */
	char *data[2];            /* owned */
	size_t bytes[2];
};

static void forget(struct video_store *store)
{
	for (int k = 0; k < 2; k++) {
		free(store->data[k]);
		store->data[k] = NULL;
	}
	store->held = -1;
}

static void store_close(struct video_store *store)
{
	forget(store);
	for (int k = 0; k < 2; k++)
		jpeg_part_release(&store->part[k]);
	hdf5_close(store->file);
	free(store->name);
	free(store->path);
	free(store);
}

static int store_open(
	const struct source *source, const char *name, bool flow, int threads, struct video_store **result)
{
	struct video_store *store = memory_new(1, sizeof *store);

	(void)threads;
	*result = NULL;
	if (!store)
		return error_status();
	store->source = source;
	store->images = flow ? 2 : 1;
	store->held = -1;
	store->name = memory_text(name);
	store->path = source_name(source, name);
	if (!store->name || !store->path) {
		store_close(store);
		return error_status();
	}
	*result = store;
	return STATUS_OK;
}

static int find_datasets(struct video_store *store, struct hdf5 *file)
{
	static const char *const rgb[] = {"video"}, *const flow[] = {"video_u", "video_v"};
	int status = STATUS_OK;

	for (int k = 0; !status && k < store->images; k++)
		status = hdf5_find(file, store->images == 2 ? flow[k] : rgb[k], &store->strings[k]);
	if (!status && store->images == 2 && store->strings[0].count != store->strings[1].count)
		status = error_set(STATUS_DATA, "%s: %llu frames of video_u, %llu of video_v", store->path,
			(unsigned long long)store->strings[0].count,
			(unsigned long long)store->strings[1].count);
	return status;
}

static int start(struct video_store *store)
{
	struct source_place place;
	struct hdf5 *file;
	int status;

	if (store->file)
		return STATUS_OK;
	status = source_locate(store->source, store->name, &place);
	if (status)
		return status;
	status = hdf5_open(store->path, &place, &file);
	free(place.path);
	if (status)
		return status;
	status = find_datasets(store, file);
	if (status)
		hdf5_close(file);
	else
		store->file = file;
	return status;
}

static int store_count(struct video_store *store, int64_t *end, int64_t *present)
{
	int status = start(store);

	*end = *present = status ? 0 : (int64_t)store->strings[0].count;
	return status;
}

static int hold(struct video_store *store, int64_t number)
{
	int status = start(store);

	if (status || store->held == number)
		return status;
	if (number < 0 || (uint64_t)number >= store->strings[0].count)
		return error_set(STATUS_NO_INPUT, "%s: has %llu frames, frame %lld is wanted", store->path,
			(unsigned long long)store->strings[0].count, (long long)number);
	forget(store);
	for (int k = 0; !status && k < store->images; k++)
		status = hdf5_read(store->file, &store->strings[k], (uint64_t)number, FRAME_LIMIT,
			&store->data[k], &store->bytes[k]);
	if (status)
		forget(store);
	else
		store->held = number;
	return status;
}

/* What the decoder calls an image. */
static const char *frame_name(int64_t number, char name[32])
{
	snprintf(name, 32, "frame %lld", (long long)number);
	return name;
}

static int store_size(struct video_store *store, int64_t number, int *height, int *width)
{
	char name[32];
	int status = hold(store, number);

	if (!status &&
		video_decode_size(frame_name(number, name), store->data[0], store->bytes[0], height, width))
		status = error_prefix("%s", store->path);
	return status;
}

/* u and v beside each other. Both parts cover what is wanted, and begin and end alike, for they are of one size. */
static int join_flow(struct video_store *store, struct jpeg_part *part)
{
	const struct jpeg_part *u = &store->part[0], *v = &store->part[1];
	size_t count = (size_t)u->height * (size_t)u->width;

	if (u->image_height != v->image_height || u->image_width != v->image_width || u->left != v->left ||
		u->width != v->width || u->top != v->top || u->height != v->height)
		return error_set(
			STATUS_DATA, "%s: images of video_u and video_v differ in size", store->path);
	if (2 * count + JPEG_SLACK > part->capacity) {
		free(part->pixels);
		part->pixels = memory_new(2 * count + JPEG_SLACK, 1);
		part->capacity = part->pixels ? 2 * count + JPEG_SLACK : 0;
		if (!part->pixels)
			return error_status();
	}
	for (size_t i = 0; i < count; i++) {
		part->pixels[2 * i] = u->pixels[i];
		part->pixels[2 * i + 1] = v->pixels[i];
	}
	part->denominator = u->denominator;
	part->top = u->top;
	part->left = u->left;
	part->height = u->height;
	part->width = u->width;
	part->image_height = u->image_height;
	part->image_width = u->image_width;
	return STATUS_OK;
}

static int decode_flow(struct video_store *store, const char *name, struct jpeg_part *part)
{
	int status = STATUS_OK;

	for (int k = 0; !status && k < 2; k++) {
		struct jpeg_part *half = &store->part[k];

		half->channels = 1;
		half->denominator = part->denominator;
		half->top = part->top;
		half->left = part->left;
		half->height = part->height;
		half->width = part->width;
		status = video_decode(name, store->data[k], store->bytes[k], half);
	}
	if (status)
		return error_prefix("%s", store->path);
	return join_flow(store, part);
}

static int store_read(struct video_store *store, int64_t number, struct jpeg_part *part)
{
	char name[32];
	int status = hold(store, number);

	if (status)
		return status;
	frame_name(number, name);
	if (store->images == 2)
		return decode_flow(store, name, part);
	return video_decode(name, store->data[0], store->bytes[0], part) ? error_prefix("%s", store->path)
									 : 0;
}

static int store_nearest(struct video_store *store, int64_t number, int64_t *found)
{
	int64_t end, present;
	int status = store_count(store, &end, &present);

	if (!status && !present)
		return error_set(STATUS_NO_INPUT, "%s: no frames in it", store->path);
	*found = number < 0 ? 0 : number < end ? number : end - 1;
	return status;
}

const struct video_layout video_layout_hdf5 = {
	.name = "hdf5",
	.first = 0,
	.suffixes = suffixes,
	.flow = true,
	.open = store_open,
	.close = store_close,
	.count = store_count,
	.size = store_size,
	.read = store_read,
	.nearest = store_nearest,
};
