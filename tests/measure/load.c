/*
 * Times the loading of clips; not a test.
 *
 *	build/tests/measure/load DIR [THREADS [SECONDS]]
 *
 * DIR/CLASS/VIDEO/image_%05d.jpg; clips of 16 frames at a random place, random crop to 112 x 112, flip, normalised to floats, as
 * training does it. Row: clips a second, processor milliseconds a clip.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/video.h"

enum { LENGTH = 16, SIDE = 112, VALUES = LENGTH * SIDE * SIDE * 3 };

struct work {
	struct video_set *set;
	struct clip_random random;
	struct clip_statistics statistics;
	double end;
	atomic_uint next;
};

static int load_clip(
	struct work *work, struct video_reader *reader, uint32_t number, uint8_t *bytes, float *values)
{
	size_t sample = random_below(work->random.time, 1, number, 0, video_set_count(work->set));
	const struct video_sample *video = video_set_sample(work->set, sample);
	struct clip_range range = clip_range_of(video->first, video->end, 1);
	struct clip_geometry geometry;
	int64_t frames[LENGTH];
	int height, width, status;

	clip_slice(
		&range, clip_begin_random(&range, LENGTH, false, &work->random, 0, number), LENGTH, frames);
	status = video_size(reader, sample, frames[0], &height, &width);
	if (status)
		return status;
	clip_crop_random(&geometry, height, width, SIDE, 0.25, 0.75, &work->random, 0, number);
	geometry.flip = clip_flip_drawn(&work->random, 0.5, 0, number);
	status = video_read(reader, sample, frames, LENGTH, &geometry, false, bytes);
	if (!status)
		clip_normalise(&work->statistics, bytes, VALUES / 3, values);
	return status;
}

static int run(void *context, size_t thread)
{
	struct work *work = context;
	struct video_reader *reader;
	uint8_t *bytes = memory_new(VALUES, 1);
	float *values = memory_new(VALUES, sizeof *values);
	int status = bytes && values ? video_reader_new(work->set, &reader) : error_status();

	(void)thread;
	if (!status) {
		while (!status && clock_seconds() < work->end)
			status = load_clip(work, reader, atomic_fetch_add(&work->next, 1), bytes, values);
		video_reader_free(reader);
	}
	free(bytes);
	free(values);
	return status;
}

int main(int argc, char **argv)
{
	struct video_options options = {.name = "load", .layout = "frames", .path = argc > 1 ? argv[1] : ""};
	struct work work = {0};
	int64_t threads = 2;
	double seconds = 5, start, wall;
	struct timespec used;
	int status;

	error_program(argv[0]);
	if (argc > 2)
		text_to_int64(argv[2], &threads);
	if (argc > 3)
		text_to_double(argv[3], &seconds);
	status = video_set_open(&options, &work.set);
	if (status)
		return error_print(status);
	clip_random_init(&work.random, 1);
	work.statistics = clip_statistics_of(CLIP_MEAN_KINETICS, true, true, 1, 3, false);
	start = clock_seconds();
	work.end = start + seconds;
	status = threads_run((int)threads, (size_t)threads, run, &work);
	wall = clock_seconds() - start;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	if (!status)
		printf("%.2f\t%.3f\n", work.next / wall,
			1e3 * ((double)used.tv_sec + (double)used.tv_nsec * 1e-9) / work.next);
	video_set_close(work.set);
	return status ? error_print(status) : 0;
}
