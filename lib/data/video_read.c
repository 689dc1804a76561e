/*
 * Reading frames: each is decoded once, no more of it than the clip needs, scaled, and kept until another takes its place, since
 * windows overlap and short videos are repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/video_set.h"

enum {
	KEPT_LIMIT = 256,      /* frames */
	KEPT_BYTES = 32 << 20, /* unless fewer fill this */
	KEPT_LEAST = 16,
	SMALLEST_SCALE = 8 /* JPEGs are decoded at 1/8 or more */
};

/* What a frame is scaled by: the geometry itself, or the same on a frame that was decoded smaller. */
struct way {
	int denominator;
	struct clip_scaler *scaler; /* owned; NULL: not made yet */
};

struct video_reader {
	const struct video_set *set;
	struct video_store *store; /* of `sample`; NULL: none */
	struct source *source;     /* opened for it alone, or NULL */
	size_t sample;
	struct clip_geometry geometry;
	bool plain_flow;
	struct way whole, small;
	struct jpeg_part part;
	int64_t kept_number[KEPT_LIMIT]; /* -1: none; frame n lies at n modulo `kept` */
	uint8_t *kept_frame[KEPT_LIMIT]; /* owned */
	int kept;
	size_t frame_bytes;
	uint64_t repeated;
};

int video_reader_new(const struct video_set *set, struct video_reader **result)
{
	struct video_reader *reader = memory_new(1, sizeof *reader);

	*result = reader;
	if (!reader)
		return error_status();
	reader->set = set;
	return STATUS_OK;
}

static void forget_frames(struct video_reader *reader)
{
	for (int i = 0; i < KEPT_LIMIT; i++)
		reader->kept_number[i] = -1;
}

static void release_ways(struct video_reader *reader)
{
	clip_scaler_free(reader->whole.scaler);
	clip_scaler_free(reader->small.scaler);
	reader->whole = reader->small = (struct way){0};
}

static void release_frames(struct video_reader *reader)
{
	for (int i = 0; i < KEPT_LIMIT; i++) {
		free(reader->kept_frame[i]);
		reader->kept_frame[i] = NULL;
	}
}

static void close_sample(struct video_reader *reader)
{
	if (reader->store)
		reader->set->layout->close(reader->store);
	source_close(reader->source);
	reader->store = NULL;
	reader->source = NULL;
}

void video_reader_free(struct video_reader *reader)
{
	if (!reader)
		return;
	close_sample(reader);
	release_ways(reader);
	release_frames(reader);
	jpeg_part_release(&reader->part);
	free(reader);
}

uint64_t video_reader_repeated(const struct video_reader *reader)
{
	return reader->repeated;
}

static int open_sample(struct video_reader *reader, size_t sample)
{
	if (reader->store && reader->sample == sample)
		return STATUS_OK;
	close_sample(reader);
	reader->sample = sample;
	forget_frames(reader);
	return video_open_sample(reader->set, sample, &reader->store, &reader->source);
}

/* A frame is missing: that is the present error. The nearest, or what is wrong. */
static int replace_missing(struct video_reader *reader, int64_t number, int64_t *found)
{
	int64_t nearest;

	if (reader->set->layout->nearest(reader->store, number, &nearest))
		return error_status();
	if (!reader->set->options.repeat_missing)
		return error_set(STATUS_DATA, "%s: frame %lld is missing",
			reader->set->sample[reader->sample].path, (long long)number);
	error_clear();
	reader->repeated++;
	*found = nearest;
	return STATUS_OK;
}

int video_size(struct video_reader *reader, size_t sample, int64_t number, int *height, int *width)
{
	int status = open_sample(reader, sample);

	if (status)
		return status;
	status = reader->set->layout->size(reader->store, number, height, width);
	if (status == STATUS_NO_INPUT)
		status = replace_missing(reader, number, &number)
				 ? error_status()
				 : reader->set->layout->size(reader->store, number, height, width);
	return status;
}

/* ---- scaling ---- */

static bool same_geometry(const struct clip_geometry *a, const struct clip_geometry *b)
{
	return a->frame_height == b->frame_height && a->frame_width == b->frame_width &&
	       a->box_top == b->box_top && a->box_left == b->box_left && a->box_height == b->box_height &&
	       a->box_width == b->box_width && a->scaled_height == b->scaled_height &&
	       a->scaled_width == b->scaled_width && a->top == b->top && a->left == b->left &&
	       a->height == b->height && a->width == b->width && a->flip == b->flip && a->passes == b->passes;
}

/* The largest denominator that leaves the box no smaller than what it is scaled to. */
static int denominator_of(const struct clip_geometry *g)
{
	int denominator = 1;

	while (denominator < SMALLEST_SCALE && g->box_height / (2 * denominator) >= g->scaled_height &&
		g->box_width / (2 * denominator) >= g->scaled_width)
		denominator *= 2;
	return denominator;
}

static struct clip_geometry shrunk(const struct clip_geometry *g, int d)
{
	struct clip_geometry small = *g;

	small.frame_height = (g->frame_height + d - 1) / d;
	small.frame_width = (g->frame_width + d - 1) / d;
	small.box_top /= d;
	small.box_left /= d;
	small.box_height /= d;
	small.box_width /= d;
	return small;
}

static int set_geometry(struct video_reader *reader, const struct clip_geometry *geometry, bool plain_flow)
{
	size_t bytes =
		(size_t)geometry->height * (size_t)geometry->width * (size_t)video_set_channels(reader->set);

	if (reader->whole.denominator && same_geometry(geometry, &reader->geometry) &&
		plain_flow == reader->plain_flow)
		return STATUS_OK;
	release_ways(reader);
	forget_frames(reader);
	if (bytes != reader->frame_bytes)
		release_frames(reader);
	reader->frame_bytes = bytes;
	reader->kept = bytes ? (int)(KEPT_BYTES / bytes) : KEPT_LIMIT;
	reader->kept = reader->kept < KEPT_LEAST   ? KEPT_LEAST
		       : reader->kept > KEPT_LIMIT ? KEPT_LIMIT
						   : reader->kept;
	reader->geometry = *geometry;
	reader->plain_flow = plain_flow;
	reader->whole.denominator = 1;
	reader->small.denominator = reader->set->options.scaled ? denominator_of(geometry) : 1;
	return STATUS_OK;
}

static int prepare_way(struct video_reader *reader, struct way *way)
{
	struct clip_geometry geometry = shrunk(&reader->geometry, way->denominator);

	return way->scaler ? STATUS_OK
			   : clip_scaler_new(&geometry, video_set_channels(reader->set), &way->scaler);
}

static int decode_frame(struct video_reader *reader, int64_t number)
{
	struct way *way = reader->small.denominator > 1 ? &reader->small : &reader->whole;
	int status = prepare_way(reader, way);

	if (status)
		return status;
	reader->part.channels = video_set_channels(reader->set);
	reader->part.denominator = way->denominator;
	clip_scaler_needs(way->scaler, &reader->part.top, &reader->part.left, &reader->part.height,
		&reader->part.width);
	return reader->set->layout->read(reader->store, number, &reader->part);
}

static int make_frame(struct video_reader *reader, int64_t number, uint8_t *out)
{
	const struct clip_geometry *g = &reader->geometry;
	int channels = video_set_channels(reader->set), status = decode_frame(reader, number);
	struct way *way;

	if (status)
		return status;
	if (reader->part.image_height != g->frame_height || reader->part.image_width != g->frame_width)
		return error_set(STATUS_DATA,
			"%s: frame %lld has %d x %d pixels where the clip's first has %d x %d",
			reader->set->sample[reader->sample].path, (long long)number, reader->part.image_width,
			reader->part.image_height, g->frame_width, g->frame_height);
	way = reader->part.denominator > 1 ? &reader->small : &reader->whole;
	status = prepare_way(reader, way);
	if (status)
		return status;
	clip_scaler_run(way->scaler, reader->part.pixels, (size_t)reader->part.width * (size_t)channels,
		reader->part.top, reader->part.left, out);
	if (channels == 2 && g->flip && !reader->plain_flow)
		clip_flow_mirror(out, (size_t)g->height * (size_t)g->width);
	return STATUS_OK;
}

/* ---- clips ---- */

/* Reads frame `number` into its place among the kept ones. */
static int keep_frame(struct video_reader *reader, int64_t number)
{
	int place = (int)(number % reader->kept), status;
	int64_t found = number;

	if (!reader->kept_frame[place] && !(reader->kept_frame[place] = memory_new(reader->frame_bytes, 1)))
		return error_status();
	reader->kept_number[place] = -1;
	status = make_frame(reader, number, reader->kept_frame[place]);
	if (status == STATUS_NO_INPUT)
		status = replace_missing(reader, number, &found)
				 ? error_status()
				 : make_frame(reader, found, reader->kept_frame[place]);
	if (!status)
		reader->kept_number[place] = number;
	return status;
}

/* The smallest number above `last` among those wanted; INT64_MAX: none. */
static int64_t next_number(const int64_t *numbers, size_t count, int64_t last)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < count; i++)
		if (numbers[i] > last && numbers[i] < next)
			next = numbers[i];
	return next;
}

int video_read(struct video_reader *reader, size_t sample, const int64_t *numbers, size_t count,
	const struct clip_geometry *geometry, bool plain_flow, uint8_t *out)
{
	int status = open_sample(reader, sample);

	if (!status)
		status = set_geometry(reader, geometry, plain_flow);
	/* In ascending order, whatever the order of the clip: files of video are read forwards. */
	for (int64_t n = next_number(numbers, count, -1); !status && n != INT64_MAX;
		n = next_number(numbers, count, n)) {
		int place = (int)(n % reader->kept);

		if (reader->kept_number[place] != n)
			status = keep_frame(reader, n);
		for (size_t i = 0; !status && i < count; i++)
			if (numbers[i] == n)
				memcpy(out + i * reader->frame_bytes, reader->kept_frame[place],
					reader->frame_bytes);
	}
	return status;
}
