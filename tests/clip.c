/* Clips: which frames, which part of them, scaling, colour, numbers (golden/clip.py says how its numbers were made). */
#include "data/clip.h"

#include <zlib.h>

#include "base/files.h"
#include "base/text.h"
#include "check.h"
#include "data/clip_scale.h"

enum { FIELDS = 20, FRAMES = 4096 };

static uint32_t checksum(const void *data, size_t bytes)
{
	return (uint32_t)crc32(0, data, (uInt)bytes);
}

static uint8_t picture(int y, int x, int c)
{
	return (uint8_t)(37 * x + 59 * y + 101 * c + x * y % 251 + x * x * c % 13);
}

static uint8_t *draw_picture(int height, int width, int channels)
{
	uint8_t *pixels = calloc(1, (size_t)height * (size_t)width * (size_t)channels + CLIP_SLACK),
		*p = pixels;

	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			for (int c = 0; c < channels; c++)
				*p++ = picture(y, x, c);
	return pixels;
}

/* ---- golden rows ---- */

struct row {
	char *field[FIELDS];
	int count;
};

static int64_t whole(const struct row *row, int i)
{
	int64_t value = 0;

	if (!text_to_int64(row->field[i], &value))
		check_report(false, row->field[0], "%s is no number", row->field[i]);
	return value;
}

static double number(const struct row *row, int i)
{
	double value = 0;

	if (!text_to_double(row->field[i], &value))
		check_report(false, row->field[0], "%s is no number", row->field[i]);
	return value;
}

/* Scaled once from the whole frame, and once from no more than it needs. */
static bool scale_row(const struct row *row)
{
	int v[16], top, left, height, width;
	struct clip_scaler *scaler;
	uint32_t sum;

	for (int i = 0; i < 15; i++)
		v[i] = (int)whole(row, 1 + i);
	struct clip_geometry geometry = {v[0], v[1], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11],
		v[12], v[13], v[14] ? CLIP_PASSES_PILLOW_12 : CLIP_PASSES_PILLOW_13};
	int channels = v[2];
	size_t stride = (size_t)v[1] * (size_t)channels,
	       bytes = (size_t)v[11] * (size_t)v[12] * (size_t)channels;
	uint8_t *frame = draw_picture(v[0], v[1], channels), *out = calloc(1, bytes);
	bool good = !clip_scaler_new(&geometry, channels, &scaler);

	if (!good)
		return false;
	clip_scaler_run(scaler, frame, stride, 0, 0, out);
	sum = checksum(out, bytes);
	good = sum == (uint32_t)whole(row, 16);
	clip_scaler_needs(scaler, &top, &left, &height, &width);
	good &= top >= v[3] && left >= v[4] && top + height <= v[3] + v[5] && left + width <= v[4] + v[6];
	size_t part_stride = (size_t)width * (size_t)channels;
	uint8_t *part = calloc(1, part_stride * (size_t)height + CLIP_SLACK);

	for (int y = 0; y < height; y++)
		memcpy(part + (size_t)y * part_stride,
			frame + (size_t)(top + y) * stride + (size_t)left * (size_t)channels, part_stride);
	clip_scaler_run(scaler, part, part_stride, top, left, out);
	good &= checksum(out, bytes) == sum;
	clip_scaler_free(scaler);
	free(part);
	free(frame);
	free(out);
	return good;
}

static bool colour_matches(const struct clip_colour *colour, uint32_t expected)
{
	uint8_t *pixels = draw_picture(40, 50, 3);
	bool good;

	clip_colour_apply(colour, pixels, 40 * 50);
	good = checksum(pixels, 40 * 50 * 3) == expected;
	free(pixels);
	return good;
}

static bool colour_row(const struct row *row)
{
	int operation = (int)whole(row, 1);
	struct clip_colour colour = {.order = {-1, operation, -1, -1}};

	colour.factor[operation] = number(row, 2);
	return colour_matches(&colour, (uint32_t)whole(row, 3));
}

static bool jitter_row(const struct row *row)
{
	struct clip_colour colour;

	for (int i = 0; i < 4; i++) {
		colour.factor[i] = number(row, 1 + i);
		colour.order[i] = (int)whole(row, 5 + i);
	}
	return colour_matches(&colour, (uint32_t)whole(row, 9));
}

static bool normal_row(const struct row *row)
{
	struct clip_statistics statistics = clip_statistics_of((enum clip_mean)whole(row, 1), whole(row, 2),
		whole(row, 3), (int)whole(row, 4), (int)whole(row, 5), whole(row, 6));
	uint8_t bytes[256 * 3];
	float out[256 * 3];
	int channels = statistics.channels;

	for (int i = 0; i < 256 * channels; i++)
		bytes[i] = (uint8_t)(i / channels);
	clip_normalise(&statistics, bytes, 256, out);
	return checksum(out, (size_t)(256 * channels) * sizeof *out) == (uint32_t)whole(row, 7);
}

static bool windows_match(const struct clip_windows *windows, uint32_t expected, int64_t count)
{
	static int64_t frames[FRAMES];

	if (windows->count != count || count * windows->length > FRAMES)
		return false;
	for (int64_t i = 0; i < count; i++)
		clip_window_frames(windows, i, frames + i * windows->length);
	return checksum(frames, (size_t)(count * windows->length) * sizeof *frames) == expected;
}

static bool even_row(const struct row *row)
{
	struct clip_range range = {1, whole(row, 1), whole(row, 2)};
	struct clip_windows windows = clip_windows_even(&range, whole(row, 3), whole(row, 4), whole(row, 5));

	return windows_match(&windows, (uint32_t)whole(row, 6), whole(row, 7));
}

static bool slide_row(const struct row *row)
{
	struct clip_range range = {1, whole(row, 1), whole(row, 2)};
	struct clip_windows windows = clip_windows_sliding(&range, whole(row, 3), whole(row, 4), true);

	return windows_match(&windows, (uint32_t)whole(row, 5), whole(row, 6));
}

static const struct kind {
	const char *name, *what;
	bool (*matches)(const struct row *row);
} kinds[] = {
	{"scale", "scaling has Pillow's bytes, whole or from the part it needs", scale_row},
	{"colour", "brightness, contrast, saturation and hue have torchvision's bytes", colour_row},
	{"jitter", "jitter in any order has torchvision's bytes", jitter_row},
	{"normal", "normalised numbers have torchvision's bits", normal_row},
	{"even", "evenly spread clips", even_row},
	{"slide", "sliding windows of the original", slide_row},
};

static void test_golden(void)
{
	char *data, *line, *next;
	size_t bytes, rows[6] = {0}, bad[6] = {0}, first_bad[6] = {0}, number_of_line = 0;

	if (check_status(file_read("tests/golden/clip.tsv", 1 << 20, &data, &bytes), 0, "golden clips") ==
		false)
		return;
	for (line = data; (next = strchr(line, '\n')); line = next + 1) {
		struct row row;

		*next = 0;
		number_of_line++;
		row.count = text_split(line, '\t', row.field, FIELDS);
		for (int k = 0; k < 6; k++)
			if (!strcmp(row.field[0], kinds[k].name)) {
				rows[k]++;
				if (!kinds[k].matches(&row) && !bad[k]++)
					first_bad[k] = number_of_line;
			}
	}
	for (int k = 0; k < 6; k++)
		check_report(rows[k] && !bad[k], kinds[k].what, "%zu of %zu rows, the first in line %zu",
			bad[k], rows[k], first_bad[k]);
	free(data);
}

/* ---- the sheet's vectors ---- */

/* The grey picture of the sheet, three times, through a geometry; the first channel of the result. */
static void grey(const struct clip_geometry *geometry, uint8_t *out)
{
	int h = geometry->frame_height, w = geometry->frame_width;
	size_t count = (size_t)geometry->height * (size_t)geometry->width;
	uint8_t *frame = calloc(1, (size_t)h * (size_t)w * 3 + CLIP_SLACK), *wide = calloc(count, 3);
	struct clip_scaler *scaler;

	for (int i = 0; i < h * w; i++)
		memset(frame + 3 * i, (37 * (i % w) + 59 * (i / w)) % 256, 3);
	if (check_status(clip_scaler_new(geometry, 3, &scaler), 0, "the sheet's geometry") == false)
		return;
	clip_scaler_run(scaler, frame, (size_t)w * 3, 0, 0, wide);
	for (size_t i = 0; i < count; i++)
		out[i] = wide[3 * i];
	clip_scaler_free(scaler);
	free(frame);
	free(wide);
}

static void check_bytes(
	const struct clip_geometry *geometry, const uint8_t *expected, size_t count, const char *name)
{
	uint8_t out[1024];

	grey(geometry, out);
	check(!memcmp(out, expected, count), name);
}

static void test_pictures(void)
{
	struct clip_geometry g = {12, 16, 2, 3, 7, 9, 4, 4, 0, 0, 4, 4, false, CLIP_PASSES_PILLOW_13};
	static const uint8_t crop[] = {
		85, 110, 177, 120, 127, 151, 110, 115, 157, 88, 135, 172, 81, 143, 121, 84};
	static const uint8_t mirrored[] = {120, 177, 110, 85};
	static const uint8_t corner[] = {
		88, 151, 142, 102, 148, 133, 107, 131, 83, 123, 157, 107, 161, 159, 92, 117};
	static const uint8_t middle[] = {
		151, 166, 96, 110, 111, 110, 148, 132, 145, 152, 125, 94, 132, 109, 128, 162};
	static const uint8_t down_first[] = {
		60, 101, 140, 151, 164, 127, 65, 156, 143, 146, 98, 111, 126, 158};
	static const uint8_t across_first[] = {
		60, 101, 140, 151, 164, 127, 66, 156, 143, 146, 98, 111, 127, 158};

	check_bytes(&g, crop, 16, "a crop is scaled without a look outside");
	g.flip = true;
	check_bytes(&g, mirrored, 4, "a mirrored crop");
	clip_crop_corner_at(&g, 12, 16, 4, 2, 4);
	check(g.box_top == 4 && g.box_left == 8 && g.box_height == 8, "the corner crop's place");
	check_bytes(&g, corner, 16, "a corner crop");
	clip_crop_center(&g, 12, 7, 4);
	check(g.scaled_height == 6 && g.scaled_width == 4 && g.top == 1, "the centre crop's place");
	check_bytes(&g, middle, 16, "a centre crop");
	g = (struct clip_geometry){12, 8, 0, 0, 12, 8, 5, 7, 0, 0, 5, 7, false, CLIP_PASSES_PILLOW_13};
	check_bytes(&g, down_first, 14, "a tall picture is scaled down first");
	g.passes = CLIP_PASSES_PILLOW_12;
	check_bytes(&g, across_first, 14, "or across first, as before");
}

static bool sides_are(int h, int w, const int *expected)
{
	struct clip_geometry g;
	bool good = true;

	for (int i = 0; i < 5; i++) {
		clip_crop_corner_at(&g, h, w, 112, i, 0);
		good &= g.box_height == expected[i] && g.box_width == expected[i];
	}
	return good;
}

static bool corner_is(int scale, int place, int top, int left)
{
	struct clip_geometry g;

	clip_crop_corner_at(&g, 240, 320, 112, scale, place);
	return g.box_top == top && g.box_left == left;
}

static void test_crops(void)
{
	static const int sizes[][6] = {/* width, height, size; scaled width and height, left */
		{320, 240, 112, 149, 112, 18}, {427, 240, 112, 199, 112, 44}, {426, 240, 112, 198, 112, 43},
		{341, 256, 112, 149, 112, 18}, {112, 112, 112, 112, 112, 0}, {240, 320, 112, 112, 149, 0}};
	struct clip_geometry g;
	bool good = true;

	for (int i = 0; i < 6; i++) {
		clip_crop_center(&g, sizes[i][1], sizes[i][0], sizes[i][2]);
		good &= g.scaled_width == sizes[i][3] && g.scaled_height == sizes[i][4] &&
			g.left == sizes[i][5];
	}
	check(good, "scaled sizes and centres, half to even");
	check(sides_are(240, 320, (const int[]){240, 201, 169, 142, 120}), "sides of corner crops of 240");
	check(sides_are(112, 200, (const int[]){112, 94, 79, 66, 56}), "sides of corner crops of 112");
	check(sides_are(300, 256, (const int[]){256, 215, 181, 152, 128}), "sides of corner crops of 256");
	check(corner_is(2, 0, 36, 76) && corner_is(2, 1, 0, 0) && corner_is(2, 2, 0, 151) &&
			corner_is(2, 3, 71, 0) && corner_is(2, 4, 71, 151) && corner_is(1, 0, 20, 60) &&
			corner_is(3, 0, 49, 89),
		"places of corner crops");
	clip_crop_none(&g, 240, 320, 112);
	check(g.width == 149 && g.height == 112 && g.box_width == 320,
		"no crop keeps the whole scaled frame");
}

/* ---- what is drawn ---- */

static bool inside(const struct clip_geometry *g)
{
	return g->box_top >= 0 && g->box_left >= 0 && g->box_height > 0 && g->box_width > 0 &&
	       g->box_top + g->box_height <= g->frame_height && g->box_left + g->box_width <= g->frame_width;
}

static void test_random_crops(void)
{
	struct clip_random random;
	struct clip_geometry g, again;
	bool good = true, fits = true;
	double area = 0, ratio = 0;
	int n = 20000;

	clip_random_init(&random, 7);
	for (int i = 0; i < n; i++) {
		clip_crop_random(&g, 240, 320, 112, 0.25, 0.75, &random, 3, (uint32_t)i);
		good &= inside(&g) && g.width == 112 && g.height == 112;
		double share = (double)g.box_height * g.box_width / (240 * 320),
		       r = (double)g.box_width / g.box_height;
		fits &= share > 0.245 && share <= 1 && r > 0.745 && r < 1.345;
		area += share / n;
		ratio += log(r) / n;
	}
	check(good, "random crops lie inside the frame");
	check(fits, "random crops have the area and shape asked for");
	/* By torchvision's RandomResizedCrop.get_params, 200,000 draws: means 0.52282, 0.04070, deviations 0.173, 0.162.
	 */
	check_close(area, 0.5228, 0.006, "mean area of random crops");
	check_close(ratio, 0.0407, 0.006, "mean shape of random crops");
	clip_crop_random(&g, 240, 320, 112, 0.25, 0.75, &random, 3, 5);
	clip_crop_random(&again, 240, 320, 112, 0.25, 0.75, &random, 3, 5);
	check(!memcmp(&g, &again, sizeof g), "a draw is a function of seed, step and sample");
	clip_crop_random(&again, 240, 320, 112, 0.25, 0.75, &random, 4, 5);
	check(memcmp(&g, &again, sizeof g) != 0, "another step draws another crop");
}

static void test_fallback(void)
{
	struct clip_random random;
	struct clip_geometry g;

	clip_random_init(&random, 1);
	clip_crop_random(&g, 10, 1000, 112, 0.25, 0.75, &random, 0, 0);
	check(g.box_top == 0 && g.box_left == 493 && g.box_height == 10 && g.box_width == 13,
		"a very wide frame");
	clip_crop_random(&g, 1000, 10, 112, 0.25, 0.75, &random, 0, 0);
	check(g.box_top == 493 && g.box_left == 0 && g.box_height == 13 && g.box_width == 10,
		"a very tall frame");
}

static void test_draws(void)
{
	struct clip_random random;
	struct clip_range range = {1, 1, 17};
	int starts[3] = {0}, original = 0, flips = 0, places[25] = {0}, orders[4] = {0};
	bool bounded = true, spread = true;

	clip_random_init(&random, 2);
	for (uint32_t i = 0; i < 4000; i++) {
		struct clip_jitter jitter = {0.4, 0.3, 0, 0.1};
		struct clip_colour colour;
		int64_t begin = clip_begin_random(&range, 16, false, &random, 9, i);

		bounded &= begin == 0 || begin == 1;
		starts[begin & 1]++;
		original += (int)clip_begin_random(&range, 16, true, &random, 9, i);
		flips += clip_flip_drawn(&random, 0.5, 9, i);
		struct clip_geometry g;

		clip_crop_corner(&g, 240, 320, 112, &random, 9, i);
		for (int k = 0; k < 25; k++) {
			struct clip_geometry at;

			clip_crop_corner_at(&at, 240, 320, 112, k / 5, k % 5);
			places[k] += at.box_top == g.box_top && at.box_left == g.box_left &&
				     at.box_height == g.box_height;
		}
		clip_colour_draw(&colour, &jitter, &random, 9, i);
		bounded &= colour.factor[0] >= 0.6 && colour.factor[0] < 1.4 && colour.factor[1] >= 0.7 &&
			   colour.factor[1] < 1.3 && fabs(colour.factor[3]) <= 0.1;
		for (int k = 0; k < 4; k++)
			orders[k] += colour.order[k] == 0;
		int skipped = 0, seen = 0;
		for (int k = 0; k < 4; k++) {
			skipped += colour.order[k] == -1;
			seen |= colour.order[k] >= 0 ? 1 << colour.order[k] : 0;
		}
		bounded &= skipped == 1 && seen == (1 << 0 | 1 << 1 | 1 << 3);
	}
	check(bounded && abs(starts[0] - 2000) < 200, "clips start everywhere they can");
	check(original == 0, "the original never starts at the last place");
	check(abs(flips - 2000) < 200, "half of the clips are mirrored");
	for (int k = 1; k < 25; k++) /* at scale 1 the corners of a 240 x 240 crop come in pairs */
		spread &= k < 5 ? places[k] > 200 : places[k] > 90 && places[k] < 240;
	check(spread, "scales and places of corner crops are drawn alike");
	for (int k = 0; k < 4; k++)
		bounded &= orders[k] > 850 && orders[k] < 1150;
	check(bounded, "brightness comes first, second, third and last alike; a strength of 0 is left out");
}

/* ---- time ---- */

static bool frames_are(const int64_t *frames, const int *expected, int count)
{
	for (int i = 0; i < count; i++)
		if (frames[i] != expected[i])
			return false;
	return true;
}

static void test_time(void)
{
	static const int looped[16] = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1};
	struct clip_range five = {1, 1, 5}, range = clip_range_of(1, 34, 1), third = clip_range_of(1, 101, 3);
	struct clip_windows windows;
	int64_t frames[16];

	clip_slice(&five, 0, 16, frames);
	check(frames_are(frames, looped, 16), "a short list is repeated");
	check(clip_begin_center(&range, 16) == 8, "centre of 33 frames");
	range.count = 20;
	check(clip_begin_center(&range, 16) == 2 && clip_begin_center(&five, 16) == 0,
		"centre of 20 and of 5 frames");
	check(third.count == 34, "every third of 100 frames");
	windows = clip_windows_even(&third, 16, 1, false);
	clip_window_frames(&windows, 0, frames);
	check(windows.count == 1 && frames[0] == 1 + 3 * 9 && frames[15] == 1 + 3 * 24,
		"one clip is the centre");
	range = clip_range_of(1, 34, 1);
	windows = clip_windows_sliding(&range, 16, 16, false);
	clip_window_frames(&windows, 2, frames);
	check(windows.count == 3 && frames[0] == 18 && frames[15] == 33,
		"the last window ends with the video");
	range = clip_range_of(1, 21, 1);
	windows = clip_windows_sliding(&range, 16, 4, false);
	clip_window_frames(&windows, 1, frames);
	check(windows.count == 2 && frames[0] == 5 && frames[15] == 20, "no window comes twice");
	range = clip_range_of(0, 10, 1);
	windows = clip_windows_sliding(&range, 16, 16, false);
	clip_window_frames(&windows, 0, frames);
	check(windows.count == 1 && frames[9] == 9 && frames[10] == 0, "a video shorter than a window");
}

/* ---- the bodies ---- */

static void test_bodies(void)
{
	enum { TAPS = 8, COUNT = 37 };
	static int first[COUNT], taps[COUNT];
	static int32_t weight[COUNT * TAPS];
	static int16_t high[COUNT * TAPS], low[COUNT * TAPS];
	struct clip_filter filter = {COUNT, 2, first, taps, weight, high, low};
	static uint8_t in[COUNT * 60 * 3 + CLIP_SLACK], a[COUNT * 3 + 16], b[COUNT * 3 + 16];
	bool good = true;

	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (uint8_t)(i * i * 31 % 257 > 128 ? 255 : i * 7);
	for (int i = 0; i < COUNT; i++) {
		first[i] = i * 13 % 29;
		taps[i] = 1 + i % TAPS;
		for (int t = 0; t < taps[i]; t++) {
			int32_t w = taps[i] == 1 ? 1 << CLIP_PRECISION
						 : (1 << CLIP_PRECISION) / taps[i] - t * 97 + 3;

			weight[i * TAPS + t] = w;
			high[i * TAPS + t] = (int16_t)(w >> CLIP_LOW_BITS);
			low[i * TAPS + t] = (int16_t)(w & ((1 << CLIP_LOW_BITS) - 1));
		}
	}
	for (int channels = 2; channels <= 3; channels++) {
		clip_across_plain(&filter, channels, in, a);
		clip_across_avx2(&filter, channels, in, b);
		good &= !memcmp(a, b, (size_t)(COUNT * channels));
	}
	for (int y = 0; y < COUNT; y++)
		for (size_t bytes = 3; bytes < 60; bytes += 19) {
			clip_down_plain(&filter, y, in, 60 * 3, bytes, a);
			clip_down_avx2(&filter, y, in, 60 * 3, bytes, b);
			good &= !memcmp(a, b, bytes);
		}
	if (clip_has_avx2())
		check(good, "both bodies have the same bytes");
	else
		check_skip("both bodies have the same bytes", "this processor has no AVX2");
}

static void test_flow(void)
{
	uint8_t pixels[4] = {0, 7, 200, 8};
	struct clip_statistics half = clip_statistics_of(CLIP_MEAN_KINETICS, true, true, 1, 2, false);
	float before[4], after[4];

	clip_normalise(&half, pixels, 2, before);
	clip_flow_mirror(pixels, 2);
	clip_normalise(&half, pixels, 2, after);
	check(pixels[0] == 255 && pixels[1] == 7 && pixels[2] == 55, "mirrored flow");
	check_close(after[2], -before[2], 1e-6, "a mirrored u is its negative");
}

int main(void)
{
	test_golden();
	test_pictures();
	test_crops();
	test_random_crops();
	test_fallback();
	test_draws();
	test_time();
	test_bodies();
	test_flow();
	return check_summary();
}
