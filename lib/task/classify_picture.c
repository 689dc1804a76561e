#include "task/classify_picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "metric/classify.h"

#define FRAMES 8 /* of a strip, at most */
#define BEST 5
#define LINE 11 /* pixels from one line of text to the next */
#define LETTER_WIDTH 5
#define LETTER_HEIGHT 7
#define BAR 40            /* pixels of a bar of probability 1 */
#define GAP 2             /* between frames */
#define WIDTH_MINIMUM 260 /* of a picture: room for the words */

/* Letters of 5x7 pixels, a byte a row, the left pixel in bit 4. Small letters are drawn as capitals; what is not here as '?'. */
static const struct {
	char letter;
	uint8_t row[LETTER_HEIGHT];
} letters[] = {
	{'A', {0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
	{'B', {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e}},
	{'C', {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e}},
	{'D', {0x1e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1e}},
	{'E', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f}},
	{'F', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10}},
	{'G', {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0e}},
	{'H', {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
	{'I', {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
	{'J', {0x01, 0x01, 0x01, 0x01, 0x11, 0x11, 0x0e}},
	{'K', {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}},
	{'L', {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f}},
	{'M', {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11}},
	{'N', {0x11, 0x19, 0x15, 0x15, 0x13, 0x11, 0x11}},
	{'O', {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
	{'P', {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10}},
	{'Q', {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d}},
	{'R', {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11}},
	{'S', {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e}},
	{'T', {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04}},
	{'U', {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
	{'V', {0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04}},
	{'W', {0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11}},
	{'X', {0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11}},
	{'Y', {0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04}},
	{'Z', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f}},
	{'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}},
	{'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
	{'2', {0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f}},
	{'3', {0x0e, 0x11, 0x01, 0x06, 0x01, 0x11, 0x0e}},
	{'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}},
	{'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
	{'6', {0x0e, 0x10, 0x10, 0x1e, 0x11, 0x11, 0x0e}},
	{'7', {0x1f, 0x01, 0x02, 0x04, 0x04, 0x08, 0x08}},
	{'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}},
	{'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x01, 0x0e}},
	{':', {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00}},
	{'-', {0x00, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x00}},
	{'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
	{'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}},
	{',', {0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}},
	{'(', {0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02}},
	{')', {0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08}},
	{'%', {0x19, 0x19, 0x02, 0x04, 0x08, 0x13, 0x13}},
	{'#', {0x0a, 0x0a, 0x1f, 0x0a, 0x1f, 0x0a, 0x0a}},
	{'/', {0x01, 0x01, 0x02, 0x04, 0x08, 0x10, 0x10}},
	{'\'', {0x04, 0x04, 0x08, 0x00, 0x00, 0x00, 0x00}},
	{'?', {0x0e, 0x11, 0x01, 0x06, 0x04, 0x00, 0x04}},
};

struct colour {
	uint8_t rgb[3];
};
static const struct colour white = {{255, 255, 255}}, grey = {{110, 110, 110}}, green = {{70, 200, 90}};

static void set_pixel(struct image *image, int x, int y, struct colour colour)
{
	if (x < image->width && y < image->height)
		memcpy((uint8_t *)image->data + ((size_t)y * (size_t)image->width + (size_t)x) * 3,
			colour.rgb, 3);
}

static const uint8_t *letter_rows(char letter)
{
	char capital = letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
	size_t count = sizeof letters / sizeof *letters;

	for (size_t i = 0; i < count; i++)
		if (letters[i].letter == capital)
			return letters[i].row;
	return letters[count - 1].row;
}

static void write_text(struct image *image, int x, int y, const char *text, struct colour colour)
{
	for (; *text; text++, x += LETTER_WIDTH + 1) {
		const uint8_t *rows = letter_rows(*text);

		for (int i = 0; *text != ' ' && i < LETTER_HEIGHT * LETTER_WIDTH; i++)
			if (rows[i / LETTER_WIDTH] >> (LETTER_WIDTH - 1 - i % LETTER_WIDTH) & 1)
				set_pixel(image, x + i % LETTER_WIDTH, y + i / LETTER_WIDTH, colour);
	}
}

static void draw_bar(struct image *image, int x, int y, double share, struct colour colour)
{
	for (int i = 0; i < LETTER_HEIGHT * BAR; i++)
		set_pixel(image, x + i % BAR, y + i / BAR,
			i % BAR < share * BAR ? colour : (struct colour){{30, 30, 30}});
}

/* One frame of the window [height,width,channels] at column x; of flow the second channel counts twice. */
static void place_frame(struct image *image, int x, const uint8_t *frame, int height, int width, int channels)
{
	for (int i = 0; i < height * width; i++) {
		const uint8_t *pixel = frame + (size_t)i * (size_t)channels;

		set_pixel(image, x + i % width, i / width,
			(struct colour){{pixel[0], pixel[1], pixel[channels - 1]}});
	}
}

static void write_classes(struct image *image, int y, int64_t truth, const struct classify_labels *labels,
	const float *probability, size_t classes)
{
	size_t count = classes < BEST ? classes : BEST, best[BEST];
	char buffer[32], line[256];

	snprintf(line, sizeof line, "truth: %.200s",
		truth < 0 ? "-" : classify_label(labels, (size_t)truth, buffer));
	write_text(image, GAP, y, line, white);
	classify_best(probability, classes, count, best);
	for (size_t i = 0; i < count; i++) {
		struct colour colour = (int64_t)best[i] == truth ? green : grey;

		y += LINE;
		draw_bar(image, GAP, y, (double)probability[best[i]], colour);
		snprintf(line, sizeof line, "%5.1f%% %.200s", 100 * (double)probability[best[i]],
			classify_label(labels, best[i], buffer));
		write_text(image, GAP + BAR + 4, y, line, colour);
	}
}

int classify_picture(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, const struct classify_view *view,
	const struct classify_labels *labels, const float *probability, size_t classes, struct image *image)
{
	int height = view->geometry.height, width = view->geometry.width;
	int shown = clip->duration < FRAMES ? (int)clip->duration : FRAMES,
	    strip = shown * (width + GAP) - GAP;
	size_t frame_bytes = (size_t)height * (size_t)width * (size_t)clip->channels;
	int64_t *number = memory_new((size_t)clip->duration, sizeof *number);
	uint8_t *pixels = memory_new((size_t)clip->duration, frame_bytes);
	int status = number && pixels ? STATUS_OK : error_status();

	if (!status) {
		clip_window_frames(&view->windows, 0, number);
		status = video_read(reader, sample, number, (size_t)clip->duration, &view->geometry,
			clip->plain_flow, pixels);
	}
	if (!status)
		status = image_allocate(image, strip > WIDTH_MINIMUM ? strip : WIDTH_MINIMUM,
			height + (BEST + 1) * LINE + GAP, 3, 8);
	if (!status) {
		memset(image->data, 0, (size_t)image->width * (size_t)image->height * 3);
		for (int i = 0; i < shown; i++)
			place_frame(image, i * (width + GAP),
				pixels + (size_t)(i * clip->duration / shown) * frame_bytes, height, width,
				clip->channels);
		write_classes(
			image, height + GAP, classify_set_class(set, sample), labels, probability, classes);
	}
	free(number);
	free(pixels);
	return status;
}
