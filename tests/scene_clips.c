/* Synthetic clips: the same pixels everywhere, classes that time alone tells apart, and labels that say what is seen. */
#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "check.h"
#include "data/scene_clips.h"

enum { SIDE = 40, FRAMES = 31, BYTES = SIDE * SIDE * 3, CLIPS = 30 };

/* The pixels of four frames, by digests taken once: another machine or compiler must give the same bytes. */
static void test_pixels(void)
{
	static const struct {
		uint64_t seed;
		uint32_t index;
		int class, frame, frames, height, width;
		uint32_t crc;
	} expected[] = {{1, 0, 0, 0, 20, 64, 64, 0x2e10e1fd}, {1, 7, 7, 19, 20, 64, 64, 0xd27797ae},
		{99, 123456, 4, 3, 7, 31, 57, 0x15b0e530}, {5, 3, 9, 0, 1, 40, 20, 0xec5ea329}};
	static uint8_t rgb[64 * 64 * 3];

	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		clip_render(expected[i].seed, expected[i].index, expected[i].class, expected[i].frame,
			expected[i].frames, expected[i].height, expected[i].width, rgb);
		uint32_t crc = crc32c(0, rgb, (size_t)(expected[i].height * expected[i].width * 3));
		check_report(crc == expected[i].crc, "a clip has the same pixels everywhere", "0x%08x", crc);
	}
}

static void test_backwards(void)
{
	static uint8_t forth[BYTES], back[BYTES];
	int differ = 0, still = 0;

	for (int class = 0; class < CLIP_CLASSES; class += 2)
		for (int frame = 0; frame < FRAMES; frame += 5) {
			clip_render(3, 11, class, frame, FRAMES, SIDE, SIDE, forth);
			clip_render(3, 11, class + 1, FRAMES - 1 - frame, FRAMES, SIDE, SIDE, back);
			differ += memcmp(forth, back, BYTES) != 0;
			clip_render(3, 11, class + 1, frame, FRAMES, SIDE, SIDE, back);
			still += frame != FRAMES / 2 && memcmp(forth, back, BYTES) == 0;
		}
	check_report(!differ && !still, "a class is its opposite played backwards",
		"%d frames differ, %d are alike that should not be", differ, still);
}

static void test_middle(void)
{
	static uint8_t first[BYTES], other[BYTES];
	int differ = 0, alike = 0;

	for (uint32_t index = 0; index < 5; index++) {
		clip_render(3, index, 0, FRAMES / 2, FRAMES, SIDE, SIDE, first);
		for (int class = 1; class < CLIP_CLASSES; class ++) {
			clip_render(3, index, class, FRAMES / 2, FRAMES, SIDE, SIDE, other);
			differ += memcmp(first, other, BYTES) != 0;
		}
		clip_render(3, index + 100, 0, FRAMES / 2, FRAMES, SIDE, SIDE, other);
		alike += memcmp(first, other, BYTES) == 0;
	}
	check_report(!differ && !alike, "the middle frame is the same whatever the class",
		"%d differ, %d other clips are alike", differ, alike);
}

/* ---- what is seen ---- */

static double grey(const uint8_t *rgb, int x, int y)
{
	const uint8_t *p = rgb + 3 * (y * SIDE + x);

	return p[0] + p[1] + p[2];
}

/* Adds one pixel's equation to the normal equations [4][5] of: across, down, clockwise, outwards. */
static void add_equation(const uint8_t *before, const uint8_t *after, int x, int y, double normal[4][5])
{
	double gx = (grey(before, x + 1, y) - grey(before, x - 1, y) + grey(after, x + 1, y) -
			    grey(after, x - 1, y)) /
		    4;
	double gy = (grey(before, x, y + 1) - grey(before, x, y - 1) + grey(after, x, y + 1) -
			    grey(after, x, y - 1)) /
		    4;
	double right = x - 0.5 * SIDE, down = y - 0.5 * SIDE;
	double row[5] = {gx, gy, gy * right - gx * down, gx * right + gy * down,
		grey(before, x, y) - grey(after, x, y)};

	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 5; k++)
			normal[i][k] += row[i] * row[k];
}

/* Gauss-Jordan; normal equations are positive definite. */
static void solve(double normal[4][5], double answer[4])
{
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++) {
			double factor = normal[k][i] / normal[i][i];

			for (int j = 0; k != i && j < 5; j++)
				normal[k][j] -= factor * normal[i][j];
		}
	for (int i = 0; i < 4; i++)
		answer[i] = normal[i][4] / normal[i][i];
}

/*
 * Motion by least squares on grey values (Lucas and Kanade 1981, similarity model), summed over the clip's middle: pixels to
 * the right and down, radians clockwise, logarithm of the scale. `contrast`: by how much the squared gradients grow.
 */
static void measure(uint32_t index, int class, double motion[4], double *contrast)
{
	static uint8_t frames[2][BYTES];
	double energy[FRAMES] = {0};

	memset(motion, 0, 4 * sizeof *motion);
	for (int frame = 0; frame < FRAMES; frame++) {
		uint8_t *now = frames[frame & 1], *before = frames[!(frame & 1)];
		double normal[4][5] = {{0}}, step[4];

		clip_render(17, index, class, frame, FRAMES, SIDE, SIDE, now);
		for (int y = 1; y < SIDE - 1; y++)
			for (int x = 1; x < SIDE - 1; x++) {
				energy[frame] += pow(grey(now, x + 1, y) - grey(now, x - 1, y), 2) +
						 pow(grey(now, x, y + 1) - grey(now, x, y - 1), 2);
				if (frame)
					add_equation(before, now, x, y, normal);
			}
		if (!frame)
			continue;
		solve(normal, step);
		for (int i = 0; i < 4; i++)
			motion[i] += step[i];
	}
	*contrast = log(energy[FRAMES - 1] / energy[0]);
}

/* Of each pair one class: the other is the same backwards. */
static void test_labels(void)
{
	for (int pair = 0; pair < CLIP_CLASSES / 2; pair++) {
		int right = 0;

		for (uint32_t index = 0; index < CLIPS; index++) {
			double motion[4], contrast;

			measure(index, 2 * pair, motion, &contrast);
			right += pair < 4 ? motion[pair] > 0 : contrast > 0;
		}
		check_report(
			right >= CLIPS * 3 / 4, clip_class_name(2 * pair), "%d of %d clips", right, CLIPS);
	}
}

int main(void)
{
	test_pixels();
	test_backwards();
	test_middle();
	test_labels();
	return check_summary();
}
