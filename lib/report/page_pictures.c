/* The newest pictures, inside the page. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/png.h"
#include "report/html.h"
#include "report/page_parts.h"

enum {
	PICTURES_SHOWN = 24,
	FILE_LIMIT = 1 << 28,
	PICTURES_BYTES = 12 << 20,
	WIDTH_SHOWN = 1200,
	BYTES_SHOWN = 1 << 20
};

/* The mean of each factor x factor pixels, to 8 bits. */
static int shrink(const struct image *large, int factor, struct image *small)
{
	int channels = large->channels, shift = large->bits == 16 ? 8 : 0;
	int status = image_allocate(small, large->width / factor, large->height / factor, channels, 8);
	uint8_t *out = small->data;

	for (int y = 0; !status && y < small->height; y++)
		for (int x = 0; x < small->width * channels; x++) {
			uint64_t sum = 0;

			for (int k = 0; k < factor * factor; k++) {
				size_t row = (size_t)(y * factor + k / factor);
				size_t column = (size_t)(x / channels * factor + k % factor);
				size_t at = (row * (size_t)large->width + column) * (size_t)channels +
					    (size_t)(x % channels);

				sum += shift ? ((const uint16_t *)large->data)[at]
					     : ((const uint8_t *)large->data)[at];
			}
			*out++ = (uint8_t)((sum / (uint64_t)(factor * factor)) >> shift);
		}
	return status;
}

/* What is embedded: the file as it is, or a smaller copy of a large one. */
static int encode(const struct image *image, const char *data, size_t bytes, struct text *png)
{
	struct image small = {0};
	int factor = (image->width + WIDTH_SHOWN - 1) / WIDTH_SHOWN, status;

	if (factor > image->height)
		factor = image->height;
	if (factor <= 1 && bytes <= BYTES_SHOWN) {
		text_append(png, data, bytes);
		return text_check(png);
	}
	status = shrink(image, factor, &small);
	if (!status)
		status = png_encode(&small, png);
	image_release(&small);
	return status;
}

static void add_picture(const char *path, const char *name, struct text *page)
{
	struct image image = {0};
	struct text png = {0};
	char *data = NULL;
	size_t bytes;
	int status = file_read_regular(path, FILE_LIMIT, &data, &bytes);

	if (!status)
		status = png_decode(name, data, bytes, &image);
	if (!status)
		status = encode(&image, data, bytes, &png);
	text_add(page, "<figure>");
	if (status) {
		html_tag(page, "p", "bad-text", error_message());
		error_clear();
	} else {
		text_format(page, "<img width=\"%d\" height=\"%d\" alt=\"", image.width, image.height);
		html_text(page, name);
		text_add(page, "\" src=\"data:image/png;base64,");
		html_base64(page, png.data, png.length);
		text_add(page, "\"/>");
	}
	text_add(page, "<figcaption>");
	html_text(page, name);
	text_add(page, "</figcaption></figure>\n");
	text_release(&png);
	image_release(&image);
	free(data);
}

/* The number in "step-00012000"; -1 for other names. */
static int64_t step_of(const char *name)
{
	int64_t step;

	return text_starts(name, "step-") && text_to_int64(name + strlen("step-"), &step) && step >= 0 ? step
												       : -1;
}

/* The name of the newest step's directory; "" where there is none. */
static const char *newest_step(const struct names *names)
{
	const char *newest = "";

	for (size_t i = 0; i < names->count; i++)
		if (step_of(names->name[i]) > step_of(newest))
			newest = names->name[i];
	return newest;
}

static void add_pictures(
	const char *directory, const char *step, const struct names *pictures, struct text *page)
{
	size_t shown = 0, left_out = 0, before = page->length;

	page_section(page, "pictures", "Pictures");
	text_format(page, "<p class=\"soft\">After step %" PRId64 ".</p>\n<div class=\"pictures\">\n",
		step_of(step));
	for (size_t i = 0; i < pictures->count; i++) {
		char *path;

		if (pictures->name[i][0] == '.' || !text_ends(pictures->name[i], ".png"))
			continue;
		if (shown == PICTURES_SHOWN || page->length - before > PICTURES_BYTES) {
			left_out++;
			continue;
		}
		path = path_join(directory, pictures->name[i]);
		if (path)
			add_picture(path, pictures->name[i], page);
		free(path);
		shown++;
	}
	text_add(page, "</div>\n");
	if (left_out) {
		text_format(page, "<p class=\"soft\">%zu more in <span class=\"path\">pictures/", left_out);
		html_text(page, step);
		text_add(page, "</span>.</p>\n");
	}
}

void page_pictures(const struct record *record, struct text *page)
{
	struct names steps = {0}, pictures = {0};
	char *top = run_path(&record->run, "pictures"), *directory = NULL;
	const char *step = "";

	if (top && file_is_directory(top) && !file_list(top, &steps))
		step = newest_step(&steps);
	if (*step)
		directory = path_join(top, step);
	if (directory && !file_list(directory, &pictures) && pictures.count)
		add_pictures(directory, step, &pictures, page);
	error_clear();
	names_release(&steps);
	names_release(&pictures);
	free(directory);
	free(top);
}
