/*
 * PNG by libpng. libpng leaves through longjmp: run_guarded() is the one place that catches it. Between it and libpng's
 * callbacks only step functions stand, and they keep everything they allocate in the structure, so nothing is lost on
 * the way.
 */
#include "file/png.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

/* Deflate makes at most about 1,030 bytes of one: less data than that cannot hold the image. */
enum { INFLATE_LIMIT = 1100, COMPRESSION_LEVEL = 1 };

struct png_work {
	png_structp png;
	png_infop info;
	jmp_buf jump;
	char message[256];
	png_bytepp rows;
	struct image *image;       /* to fill, when reading */
	const unsigned char *data; /* what is left to read */
	size_t left, bytes;
	struct text *out; /* when writing */
};

static void on_error(png_structp png, png_const_charp message)
{
	struct png_work *work = png_get_error_ptr(png);
	snprintf(work->message, sizeof work->message, "%s", message);
	longjmp(work->jump, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

static void on_read(png_structp png, png_bytep out, size_t bytes)
{
	struct png_work *work = png_get_io_ptr(png);
	if (bytes > work->left)
		png_error(png, "ends early");
	memcpy(out, work->data, bytes);
	work->data += bytes;
	work->left -= bytes;
}

static void on_write(png_structp png, png_bytep data, size_t bytes)
{
	struct png_work *work = png_get_io_ptr(png);
	text_append(work->out, (const char *)data, bytes);
}

static void on_flush(png_structp png)
{
	(void)png;
}

/* Runs one step; STATUS_DATA with libpng's message where libpng gave up. */
static int run_guarded(struct png_work *work, int (*step)(struct png_work *work))
{
	if (setjmp(work->jump))
		return error_set(STATUS_DATA, "damaged PNG: %s", work->message);
	return step(work);
}

static int allocate_rows(struct png_work *work)
{
	const struct image *image = work->image;
	size_t stride = (size_t)image->width * (size_t)image->channels * (size_t)(image->bits / 8);
	work->rows = memory_new((size_t)image->height, sizeof *work->rows);
	if (!work->rows)
		return error_status();
	for (int y = 0; y < image->height; y++)
		work->rows[y] = (png_bytep)image->data + (size_t)y * stride;
	return STATUS_OK;
}

/* Colour tables, gamma and text say nothing about samples that are numbers: they are skipped unread. */
static void skip_ancillary(png_structp png)
{
	png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

static int check_size(struct png_work *work)
{
	png_uint_32 width = png_get_image_width(work->png, work->info),
		    height = png_get_image_height(work->png, work->info);
	if (width > IMAGE_LIMIT || height > IMAGE_LIMIT / width)
		return error_set(STATUS_DATA, "image of %u x %u pixels; at most %zu pixels are read", width,
			height, IMAGE_LIMIT);
	if (height * (png_get_rowbytes(work->png, work->info) + 1) / INFLATE_LIMIT > work->bytes)
		return error_set(STATUS_DATA, "damaged PNG: ends early (%zu bytes for %u x %u pixels)",
			work->bytes, width, height);
	return STATUS_OK;
}

static int read_header(struct png_work *work)
{
	png_structp png = work->png;
	png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
	png_set_read_fn(png, work, on_read);
	skip_ancillary(png);
	png_read_info(png, work->info);
	if (check_size(work))
		return error_status();
	int colour = png_get_color_type(png, work->info);
	bool transparent = colour != PNG_COLOR_TYPE_GRAY && png_get_valid(png, work->info, PNG_INFO_tRNS);
	if (colour & PNG_COLOR_MASK_ALPHA || transparent)
		return error_set(STATUS_DATA, "PNG with transparency; remove the alpha channel");
	if (colour == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(png);
	else if (png_get_bit_depth(png, work->info) < 8)
		png_set_expand_gray_1_2_4_to_8(png);
	if (png_get_bit_depth(png, work->info) == 16)
		png_set_swap(png);
	png_set_interlace_handling(png);
	png_read_update_info(png, work->info);
	return STATUS_OK;
}

static int read_pixels(struct png_work *work)
{
	png_read_image(work->png, work->rows);
	png_read_end(work->png, NULL);
	return STATUS_OK;
}

static int read_image(struct png_work *work)
{
	if (run_guarded(work, read_header))
		return error_status();
	if (image_allocate(work->image, (int)png_get_image_width(work->png, work->info),
		    (int)png_get_image_height(work->png, work->info), png_get_channels(work->png, work->info),
		    png_get_bit_depth(work->png, work->info)))
		return error_status();
	return allocate_rows(work) ? error_status() : run_guarded(work, read_pixels);
}

int png_decode(const char *name, const void *data, size_t bytes, struct image *image)
{
	struct png_work work = {.image = image, .data = data, .left = bytes, .bytes = bytes};
	*image = (struct image){0};
	int status = STATUS_OK;
	if (bytes < 8 || png_sig_cmp(data, 0, 8))
		status = error_set(STATUS_DATA, "not a PNG image");
	if (!status)
		work.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &work, on_error, on_warning);
	if (work.png)
		work.info = png_create_info_struct(work.png);
	if (!status)
		status = work.info ? read_image(&work) : error_set(STATUS_FAILURE, "out of memory");
	png_destroy_read_struct(&work.png, &work.info, NULL);
	free(work.rows);
	if (status) {
		image_release(image);
		return error_prefix("%s", name);
	}
	return STATUS_OK;
}

/* Every choice is fixed: left to itself libpng chooses filters by version and content. */
static int write_image(struct png_work *work)
{
	const struct image *image = work->image;
	png_structp png = work->png;
	png_set_write_fn(png, work, on_write, on_flush);
	png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
	png_set_compression_level(png, COMPRESSION_LEVEL);
	png_set_compression_mem_level(png, 8);
	png_set_compression_strategy(png, Z_RLE);
	png_set_compression_window_bits(png, 15);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
	png_set_IHDR(png, work->info, (png_uint_32)image->width, (png_uint_32)image->height, image->bits,
		image->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
		PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, work->info);
	if (image->bits == 16)
		png_set_swap(png);
	png_write_image(png, work->rows);
	png_write_end(png, NULL);
	return STATUS_OK;
}

int png_encode(const struct image *image, struct text *out)
{
	if ((image->channels != 1 && image->channels != 3) || (image->bits != 8 && image->bits != 16))
		return error_set(STATUS_FAILURE, "PNG of %d channels of %d bits cannot be written",
			image->channels, image->bits);
	struct png_work work = {.image = (struct image *)image, .out = out};
	int status = allocate_rows(&work);
	if (!status)
		work.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &work, on_error, on_warning);
	if (work.png)
		work.info = png_create_info_struct(work.png);
	if (!status)
		status = work.info ? run_guarded(&work, write_image)
				   : error_set(STATUS_FAILURE, "out of memory");
	png_destroy_write_struct(&work.png, &work.info);
	free(work.rows);
	return status ? status : text_check(out);
}

int png_publish(const char *path, const struct image *image)
{
	struct text out = {0};
	int status = png_encode(image, &out);
	if (status)
		error_prefix("%s", path);
	else
		status = file_publish(path, out.data, out.length);
	text_release(&out);
	return status;
}
