/* JPEG by libjpeg-turbo; like libpng it leaves through longjmp, caught in run_guarded() alone. */
#include "file/jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/error.h"

enum {
	PIXELS_A_BYTE = 512, /* a block of 64 pixels takes at least one bit */
	SCANS_LIMIT =
		500 /* an honest progressive file has about ten; each costs a pass over the whole image */
};

struct jpeg_work {
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf jump;
	char message[JMSG_LENGTH_MAX];
	struct image *image;
	struct jpeg_part *part;
	const unsigned char *data;
	size_t bytes;
};

static void on_error(j_common_ptr common)
{
	struct jpeg_work *work = common->client_data;
	common->err->format_message(common, work->message);
	longjmp(work->jump, 1);
}

/* libjpeg goes on after damage, with grey in place of what is lost. Only oddities that cost no pixel may pass. */
static void on_message(j_common_ptr common, int level)
{
	int code = common->err->msg_code;
	if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR)
		return;
	on_error(common);
}

static void on_output(j_common_ptr common)
{
	(void)common;
}

static void on_progress(j_common_ptr common)
{
	struct jpeg_work *work = common->client_data;
	if (work->jpeg.input_scan_number <= SCANS_LIMIT)
		return;
	snprintf(work->message, sizeof work->message, "more than %d scans", SCANS_LIMIT);
	longjmp(work->jump, 1);
}

static int run_guarded(struct jpeg_work *work, int (*step)(struct jpeg_work *work))
{
	if (setjmp(work->jump))
		return error_set(STATUS_DATA, "damaged JPEG: %s", work->message);
	return step(work);
}

static int read_header(struct jpeg_work *work)
{
	struct jpeg_decompress_struct *jpeg = &work->jpeg;
	jpeg_create_decompress(jpeg);
	jpeg->progress = &work->progress;
	jpeg_mem_src(jpeg, work->data, work->bytes);
	jpeg_read_header(jpeg, TRUE);
	if (jpeg->jpeg_color_space != JCS_GRAYSCALE && jpeg->jpeg_color_space != JCS_YCbCr &&
		jpeg->jpeg_color_space != JCS_RGB)
		return error_set(STATUS_DATA, "JPEG of CMYK or unknown colours; convert it to RGB");
	if (jpeg->arith_code)
		return error_set(STATUS_DATA, "JPEG with arithmetic coding is not supported");
	if ((size_t)jpeg->image_width * jpeg->image_height / PIXELS_A_BYTE > work->bytes)
		return error_set(STATUS_DATA, "damaged JPEG: ends early (%zu bytes for %u x %u pixels)",
			work->bytes, jpeg->image_width, jpeg->image_height);
	jpeg->out_color_space = JCS_RGB;
	jpeg->dct_method = JDCT_ISLOW;
	return STATUS_OK;
}

static int read_pixels(struct jpeg_work *work)
{
	struct jpeg_decompress_struct *jpeg = &work->jpeg;
	jpeg_start_decompress(jpeg);
	size_t stride = (size_t)work->image->width * 3;
	while (jpeg->output_scanline < jpeg->output_height) {
		JSAMPROW row = (JSAMPROW)work->image->data + jpeg->output_scanline * stride;
		jpeg_read_scanlines(jpeg, &row, 1);
	}
	jpeg_finish_decompress(jpeg);
	return STATUS_OK;
}

static int destroy(struct jpeg_work *work)
{
	jpeg_destroy_decompress(&work->jpeg);
	return STATUS_OK;
}

static void prepare(struct jpeg_work *work)
{
	work->jpeg.err = jpeg_std_error(&work->errors);
	work->jpeg.client_data = work;
	work->errors.error_exit = on_error;
	work->errors.emit_message = on_message;
	work->errors.output_message = on_output;
	work->progress.progress_monitor = on_progress;
}

int jpeg_decode(const char *name, const void *data, size_t bytes, struct image *image)
{
	struct jpeg_work work = {.image = image, .data = data, .bytes = bytes};
	*image = (struct image){0};
	prepare(&work);
	int status = run_guarded(&work, read_header);
	if (!status)
		status = image_allocate(image, (int)work.jpeg.image_width, (int)work.jpeg.image_height, 3, 8);
	if (!status)
		status = run_guarded(&work, read_pixels);
	if (status) {
		image_release(image);
		error_prefix("%s", name);
	}
	run_guarded(&work, destroy);
	return status;
}

/* ---- parts ---- */

void jpeg_part_release(struct jpeg_part *part)
{
	free(part->pixels);
	*part = (struct jpeg_part){0};
}

static int part_allocate(struct jpeg_part *part)
{
	size_t bytes = (size_t)part->width * (size_t)part->height * (size_t)part->channels + JPEG_SLACK;
	if (bytes <= part->capacity)
		return STATUS_OK;
	free(part->pixels);
	part->capacity = 0;
	part->pixels = malloc(bytes);
	if (!part->pixels)
		return error_set(STATUS_FAILURE, "out of memory (%zu bytes for an image)", bytes);
	part->capacity = bytes;
	return STATUS_OK;
}

/* Colours at half the width are interpolated from neighbours: a column at the edge of what is decoded is right only at the edge of
 * the image. The library begins at a multiple of its blocks. */
enum { MARGIN = 2 };

static void crop_columns(struct jpeg_work *work)
{
	struct jpeg_part *part = work->part;
	int left = part->left > MARGIN ? part->left - MARGIN : 0, right = part->left + part->width + MARGIN;
	int limit = (int)work->jpeg.output_width;
	right = right < limit ? right : limit;
	part->left = left;
	part->width = right - left;
	if (part->width == limit)
		return;
	JDIMENSION first = (JDIMENSION)left, width = (JDIMENSION)part->width;
	jpeg_crop_scanline(&work->jpeg, &first, &width);
	part->left = (int)first;
	part->width = (int)width;
}

static int start_part(struct jpeg_work *work)
{
	struct jpeg_decompress_struct *jpeg = &work->jpeg;
	struct jpeg_part *part = work->part;
	if (part->channels == 1 && jpeg->jpeg_color_space != JCS_GRAYSCALE)
		return error_set(STATUS_DATA, "a JPEG in colour where a grey one is expected");
	jpeg->out_color_space = part->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	part->image_height = (int)jpeg->image_height;
	part->image_width = (int)jpeg->image_width;
	jpeg->scale_num = 1;
	jpeg->scale_denom = (unsigned)part->denominator;
	jpeg_start_decompress(jpeg);
	int height = (int)jpeg->output_height, width = (int)jpeg->output_width;
	if (part->top < 0 || part->left < 0 || part->height < 1 || part->width < 1 ||
		part->top > height - part->height || part->left > width - part->width)
		return error_set(
			STATUS_DATA, "image of %d x %d pixels, smaller than expected", width, height);
	crop_columns(work);
	return part_allocate(part);
}

static int read_part(struct jpeg_work *work)
{
	struct jpeg_decompress_struct *jpeg = &work->jpeg;
	struct jpeg_part *part = work->part;
	size_t stride = (size_t)part->width * (size_t)part->channels;
	if (part->top > 0)
		jpeg_skip_scanlines(jpeg, (JDIMENSION)part->top);
	for (int y = 0; y < part->height;) {
		JSAMPROW row = (JSAMPROW)part->pixels + (size_t)y * stride;
		y += (int)jpeg_read_scanlines(jpeg, &row, 1);
	}
	return STATUS_OK;
}

int jpeg_decode_part(const char *name, const void *data, size_t bytes, struct jpeg_part *part)
{
	struct jpeg_work work = {.part = part, .data = data, .bytes = bytes};
	prepare(&work);
	int status = run_guarded(&work, read_header);
	if (!status && (size_t)work.jpeg.image_width * work.jpeg.image_height > IMAGE_LIMIT)
		status = error_set(STATUS_DATA, "image of %u x %u pixels; at most %zu pixels are read",
			work.jpeg.image_width, work.jpeg.image_height, IMAGE_LIMIT);
	if (!status)
		status = run_guarded(&work, start_part);
	if (!status)
		status = run_guarded(&work, read_part);
	if (status)
		error_prefix("%s", name);
	run_guarded(&work, destroy);
	return status;
}

int jpeg_size(const char *name, const void *data, size_t bytes, int *height, int *width)
{
	struct jpeg_work work = {.data = data, .bytes = bytes};
	prepare(&work);
	int status = run_guarded(&work, read_header);
	if (status)
		error_prefix("%s", name);
	*height = (int)work.jpeg.image_height;
	*width = (int)work.jpeg.image_width;
	run_guarded(&work, destroy);
	return status;
}
