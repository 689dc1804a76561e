/* Which frames make a clip. */
#include "data/clip.h"

void clip_random_init(struct clip_random *random, uint64_t seed)
{
	random->time = random_stream(seed, "clip.time");
	random->crop = random_stream(seed, "clip.crop");
	random->flip = random_stream(seed, "clip.flip");
	random->colour = random_stream(seed, "clip.colour");
}

struct clip_range clip_range_of(int64_t first, int64_t end, int64_t stride)
{
	return (struct clip_range){first, stride, (end - first + stride - 1) / stride};
}

void clip_slice(const struct clip_range *range, int64_t begin, int64_t length, int64_t *frames)
{
	int64_t rest = range->count - begin, count = rest < length ? rest : length;

	for (int64_t i = 0; i < length; i++)
		frames[i] = range->first + (begin + i % count) * range->stride;
}

int64_t clip_begin_random(const struct clip_range *range, int64_t length, bool original,
	const struct clip_random *random, uint64_t step, uint32_t sample)
{
	int64_t starts = range->count - length + (original ? 0 : 1);

	return starts < 2 ? 0 : (int64_t)random_below(random->time, step, sample, 0, (uint64_t)starts);
}

int64_t clip_begin_center(const struct clip_range *range, int64_t length)
{
	int64_t begin = range->count / 2 - length / 2;

	return begin > 0 ? begin : 0;
}

/* Starts 0, step, 2 step, ... below the end of the list; the first window that has fewer than `length` entries is the last. The
 * original takes consecutive frames up to the list's last one, so that with a stride fewer windows are short. */
static void count_windows(struct clip_windows *windows, int64_t limit)
{
	const struct clip_range *range = &windows->range;
	int64_t span = windows->consecutive ? range->stride : 1;
	int64_t reach = (windows->length - 1 + span - 1) / span;
	int64_t whole = range->count > reach ? (range->count - 1 - reach) / windows->step + 1 : 0;
	int64_t starts = (range->count - 1) / windows->step + 1;

	windows->count = whole < starts ? whole + 1 : whole;
	if (windows->count > limit)
		windows->count = limit;
}

struct clip_windows clip_windows_even(
	const struct clip_range *range, int64_t length, int64_t limit, bool original)
{
	struct clip_windows windows = {.range = *range, .length = length, .step = 1, .count = 1};
	int64_t spread = range->count - 1 - length;

	windows.consecutive = original && range->stride > 1;
	if (limit < 2) {
		windows.begin = clip_begin_center(range, length);
		return windows;
	}
	if (spread > limit - 1)
		windows.step = (spread + limit - 2) / (limit - 1);
	count_windows(&windows, limit);
	return windows;
}

struct clip_windows clip_windows_sliding(
	const struct clip_range *range, int64_t length, int64_t step, bool original)
{
	struct clip_windows windows = {.range = *range, .length = length, .step = step > 0 ? step : length};

	windows.consecutive = original && range->stride > 1;
	if (original) {
		count_windows(&windows, INT64_MAX);
		return windows;
	}
	windows.shift_tail = true;
	windows.count = 1;
	if (range->count > length)
		windows.count = (range->count - length + windows.step - 1) / windows.step + 1;
	return windows;
}

void clip_window_frames(const struct clip_windows *windows, int64_t i, int64_t *frames)
{
	const struct clip_range *range = &windows->range;
	int64_t begin = windows->begin + i * windows->step, last = range->count - windows->length;

	if (windows->consecutive) {
		struct clip_range whole = {range->first, 1, (range->count - 1) * range->stride + 1};

		clip_slice(&whole, begin * range->stride, windows->length, frames);
		return;
	}
	if (windows->shift_tail && begin > last)
		begin = last > 0 ? last : 0;
	clip_slice(range, begin, windows->length, frames);
}
