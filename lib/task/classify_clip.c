#include "task/classify_clip.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

/* ---- the configuration ---- */

static bool is(const struct config *config, const char *key, const char *value)
{
	return !strcmp(config_text(config, key), value);
}

/* Of clip.statistics, clip.mean, clip.std and clip.value_scale. Mean and deviation are multiplied in double. */
static void read_statistics(struct classify_clip *clip, const struct config *config)
{
	bool automatic = is(config, "clip.statistics", "auto");
	int mean = automatic ? CLIP_MEAN_KINETICS : clip_mean_find(config_text(config, "clip.statistics"));
	int scale = (int)config_integer(config, "clip.value_scale");

	clip->statistics =
		clip_statistics_of((enum clip_mean)mean, true, true, scale, clip->channels, !automatic);
	for (size_t i = 0; i < config_count(config, "clip.mean"); i++)
		clip->statistics.mean[i] = (float)(config_number_at(config, "clip.mean", i) * scale);
	for (size_t i = 0; i < config_count(config, "clip.std"); i++)
		clip->statistics.std[i] = (float)(config_number_at(config, "clip.std", i) * scale);
}

int classify_clip_init(struct classify_clip *clip, const struct config *config)
{
	*clip = (struct classify_clip){
		.size = (int)config_integer(config, "clip.size"),
		.channels = is(config, "model.input", "flow") ? 2 : 3,
		.duration = config_integer(config, "clip.duration"),
		.stride = config_integer(config, "clip.stride"),
		.min_scale = config_number(config, "clip.min_scale"),
		.min_ratio = config_number(config, "clip.min_ratio"),
		.flip = config_number(config, "clip.flip"),
		.time_center = is(config, "clip.time_crop", "center"),
		.original_start = is(config, "clip.last_start", "original"),
		.original_stride = is(config, "clip.stride_when", "original"),
		.plain_flow = is(config, "clip.flow_flip", "original"),
		.jitter = {config_number_at(config, "clip.jitter", 0),
			config_number_at(config, "clip.jitter", 1),
			config_number_at(config, "clip.jitter", 2),
			config_number_at(config, "clip.jitter", 3)},
		.passes = is(config, "clip.resize", "pillow-12") ? CLIP_PASSES_PILLOW_12
								 : CLIP_PASSES_PILLOW_13,
		.window_stride = config_integer(config, "predict.stride"),
		.original_tail = is(config, "predict.last_window", "original"),
		.whole_frame = is(config, "predict.crop", "none"),
	};
	if (is(config, "clip.crop", "corner"))
		clip->crop = CLASSIFY_CROP_CORNER;
	else if (is(config, "clip.crop", "center"))
		clip->crop = CLASSIFY_CROP_CENTER;
	read_statistics(clip, config);
	clip_random_init(&clip->random, (uint64_t)config_integer(config, "seed"));
	return STATUS_OK;
}

size_t classify_clip_elements(const struct classify_clip *clip, int height, int width)
{
	return (size_t)clip->duration * (size_t)height * (size_t)width * (size_t)clip->channels;
}

/* ---- training ---- */

static void crop(const struct classify_clip *clip, int height, int width, uint64_t step, uint32_t slot,
	struct clip_geometry *geometry)
{
	switch (clip->crop) {
	case CLASSIFY_CROP_RANDOM:
		clip_crop_random(geometry, height, width, clip->size, clip->min_scale, clip->min_ratio,
			&clip->random, step, slot);
		break;
	case CLASSIFY_CROP_CORNER:
		clip_crop_corner(geometry, height, width, clip->size, &clip->random, step, slot);
		break;
	case CLASSIFY_CROP_CENTER:
		clip_crop_center(geometry, height, width, clip->size);
		break;
	}
	geometry->passes = clip->passes;
	geometry->flip = clip_flip_drawn(&clip->random, clip->flip, step, slot);
}

static void jitter(
	const struct classify_clip *clip, uint64_t step, uint32_t slot, uint8_t *pixels, size_t frame_pixels)
{
	const struct clip_jitter *strength = &clip->jitter;
	struct clip_colour colour;

	if (clip->channels != 3 || (strength->brightness == 0 && strength->contrast == 0 &&
					   strength->saturation == 0 && strength->hue == 0))
		return;
	clip_colour_draw(&colour, strength, &clip->random, step, slot);
	for (int64_t t = 0; t < clip->duration; t++)
		clip_colour_apply(&colour, pixels + (size_t)t * frame_pixels * 3, frame_pixels);
}

int classify_clip_train(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, uint64_t step, uint32_t slot, uint8_t *pixels,
	float *out)
{
	const struct video_sample *video = video_set_sample(set->videos, sample);
	struct clip_range range = clip_range_of(video->first, video->end, clip->stride);
	size_t frame_pixels = (size_t)clip->size * (size_t)clip->size;
	int64_t *frames = memory_new((size_t)clip->duration, sizeof *frames), begin;
	struct clip_geometry geometry = {0};
	int height, width, status = frames ? STATUS_OK : error_status();

	if (status)
		return status;
	begin = clip->time_center ? clip_begin_center(&range, clip->duration)
				  : clip_begin_random(&range, clip->duration, clip->original_start,
					    &clip->random, step, slot);
	clip_slice(&range, begin, clip->duration, frames);
	status = video_size(reader, sample, frames[0], &height, &width);
	if (!status) {
		crop(clip, height, width, step, slot, &geometry);
		status = video_read(
			reader, sample, frames, (size_t)clip->duration, &geometry, clip->plain_flow, pixels);
	}
	if (!status) {
		jitter(clip, step, slot, pixels, frame_pixels);
		clip_normalise(&clip->statistics, pixels, (size_t)clip->duration * frame_pixels, out);
	}
	free(frames);
	return status;
}

/* ---- looking at a whole video ---- */

struct clip_windows classify_windows(
	const struct classify_clip *clip, const struct classify_set *set, size_t sample, int64_t clips)
{
	const struct video_sample *video = video_set_sample(set->videos, sample);
	struct clip_range range = clip_range_of(video->first, video->end, clip->stride);
	struct clip_windows windows;

	if (clips)
		return clip_windows_even(&range, clip->duration, clips, clip->original_stride);
	windows = clip_windows_sliding(&range, clip->duration, clip->window_stride, clip->original_tail);
	windows.consecutive = clip->original_stride && clip->stride > 1;
	return windows;
}

int classify_view_open(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, int64_t clips, struct classify_view *view)
{
	int height, width, status;

	*view = (struct classify_view){.windows = classify_windows(clip, set, sample, clips)};
	status = video_size(reader, sample, view->windows.range.first, &height, &width);
	if (status)
		return status;
	if (!clips && clip->whole_frame)
		clip_crop_none(&view->geometry, height, width, clip->size);
	else
		clip_crop_center(&view->geometry, height, width, clip->size);
	view->geometry.passes = clip->passes;
	return STATUS_OK;
}

int classify_view_read(const struct classify_clip *clip, struct video_reader *reader, size_t sample,
	const struct classify_view *view, int64_t i, uint8_t *pixels, float *out)
{
	size_t frames = (size_t)clip->duration,
	       count = frames * (size_t)view->geometry.height * (size_t)view->geometry.width;
	int64_t *number = memory_new(frames, sizeof *number);
	int status = number ? STATUS_OK : error_status();

	if (!status) {
		clip_window_frames(&view->windows, i, number);
		status =
			video_read(reader, sample, number, frames, &view->geometry, clip->plain_flow, pixels);
	}
	if (!status)
		clip_normalise(&clip->statistics, pixels, count, out);
	free(number);
	return status;
}

int classify_windows_segment(const struct clip_windows *windows, int64_t i, int64_t segment[2])
{
	int64_t *number = memory_new((size_t)windows->length, sizeof *number);

	if (!number)
		return error_status();
	clip_window_frames(windows, i, number);
	segment[0] = number[0];
	segment[1] = number[0] + 1;
	for (int64_t k = 1; k < windows->length; k++) {
		segment[0] = number[k] < segment[0] ? number[k] : segment[0];
		segment[1] = number[k] + 1 > segment[1] ? number[k] + 1 : segment[1];
	}
	free(number);
	return STATUS_OK;
}
