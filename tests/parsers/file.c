/* Images, arrays, archives, event files. Formats with checksums are tried a second time with these put right, so that
 * mutations reach what lies behind them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/film.h"
#include "file/hdf5.h"
#include "file/image.h"
#include "file/jpeg.h"
#include "file/npy.h"
#include "file/pack.h"
#include "file/pickle.h"
#include "file/png.h"
#include "file/pnm.h"
#include "file/safetensors.h"
#include "file/source.h"
#include "file/tar.h"
#include "file/tfevents.h"
#include "file/torch.h"
#include "file/tsv.h"
#include "fuzz.h"

/* The pixels must be there, all of them: the copy reads each. */
static int finish_image(int status, struct image *image)
{
	if (status)
		return status;
	size_t bytes = (size_t)image->width * (size_t)image->height * (size_t)image->channels *
		       (size_t)image->bits / 8;
	free(memory_copy(image->data, bytes));
	image_release(image);
	return STATUS_OK;
}

/* The parser on the bytes as they are, then on a copy that `repair` went over. */
static int try_both(const void *data, size_t bytes, int (*parse)(const void *data, size_t bytes),
	void (*repair)(unsigned char *data, size_t bytes))
{
	int status = parse(data, bytes);
	unsigned char *copy = memory_copy(data, bytes);
	if (!copy)
		return error_status();
	repair(copy, bytes);
	int repaired = parse(copy, bytes);
	free(copy);
	return status ? repaired : status;
}

static uint32_t load_big(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void repair_png(unsigned char *data, size_t bytes)
{
	for (size_t at = 8; at + 12 <= bytes;) {
		uint32_t length = load_big(data + at);
		if (length > bytes - at - 12)
			return;
		uint32_t crc = (uint32_t)crc32(0, data + at + 4, length + 4);
		for (int i = 0; i < 4; i++)
			data[at + 8 + length + (size_t)i] = (unsigned char)(crc >> (24 - 8 * i));
		at += 12 + (size_t)length;
	}
}

static int parse_png_once(const void *data, size_t bytes)
{
	struct image image;
	return finish_image(png_decode("x", data, bytes, &image), &image);
}

static int parse_png(const void *data, size_t bytes)
{
	return try_both(data, bytes, parse_png_once, repair_png);
}

static int parse_jpeg(const void *data, size_t bytes)
{
	struct image image;
	return finish_image(jpeg_decode("x", data, bytes, &image), &image);
}

static int parse_pnm(const void *data, size_t bytes)
{
	struct image image;
	return finish_image(pnm_decode("x", data, bytes, &image), &image);
}

/* By the first bytes, for both uses. */
static int parse_image(const void *data, size_t bytes)
{
	struct image image;
	int status = finish_image(image_decode_rgb("x", data, bytes, &image), &image);
	int depth_status = finish_image(image_decode_depth16("x", data, bytes, &image), &image);
	return status ? depth_status : status;
}

static int parse_npy(const void *data, size_t bytes)
{
	struct npy npy;
	int status = npy_decode("x", data, bytes, &npy);
	npy_release(&npy);
	const char *path = fuzz_path(data, bytes);
	if (!path || npy_read(path, &npy) != status)
		abort(); /* from memory or from a file must be the same */
	npy_release(&npy);
	return status;
}

static int use_tensors(const struct safetensors *file)
{
	for (size_t i = 0; i < file->count; i++) {
		const struct safetensor *tensor = &file->tensor[i];
		if (safetensors_find(file, tensor->name) != tensor)
			abort(); /* two of one name, or not sorted */
		float *value = memory_new(tensor->bytes, sizeof *value);
		if (!value)
			return error_status();
		safetensors_to_float(tensor, value);
		free(value);
	}
	return STATUS_OK;
}

static int parse_safetensors(const void *data, size_t bytes)
{
	struct safetensors file;
	int status = safetensors_decode("x", data, bytes, &file);
	if (!status)
		status = use_tensors(&file);
	safetensors_release(&file);
	return status;
}

/* The index of shards; one of the shards that it may name is there. The index is a link to the bytes in memory. */
static int place_index(const void *data, size_t bytes)
{
	static const char name[] = "build/fuzz-index/m.safetensors.index.json";
	static char linked[64];
	const char *path = fuzz_path(data, bytes);
	if (!path)
		return STATUS_FAILURE;
	if (!strcmp(linked, path))
		return STATUS_OK;
	snprintf(linked, sizeof linked, "%s", path);
	float value = 0;
	struct safetensor tensor = {.name = "a", .type = SAFETENSORS_F32, .bytes = 4, .data = &value};
	int status = file_make_directories("build/fuzz-index");
	if (!status)
		status = file_remove(name);
	if (!status && symlink(path, name))
		status = STATUS_FAILURE;
	return status ? status
		      : safetensors_publish("build/fuzz-index/a.safetensors", &tensor, 1, NULL, NULL);
}

static int parse_index(const void *data, size_t bytes)
{
	struct safetensors *files;
	int count;
	if (place_index(data, bytes))
		abort(); /* not the parser's fault, but nothing would be tested */
	int status = safetensors_read_directory("build/fuzz-index", "m", &files, &count);
	for (int i = 0; i < count; i++)
		safetensors_release(&files[i]);
	free(files);
	return status;
}

/* Each block that could be a header gets the checksum it should have. */
static void repair_tar(unsigned char *data, size_t bytes)
{
	for (size_t at = 0; at + 512 <= bytes; at += 512) {
		unsigned char *header = data + at;
		unsigned sum = 0;
		char field[12];
		if (memcmp(header + 257, "ustar", 5))
			continue;
		memset(header + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += header[i];
		snprintf(field, sizeof field, "%06o", sum);
		memcpy(header + 148, field, 7);
	}
}

static int parse_tar_once(const void *data, size_t bytes)
{
	struct tar_reader *reader;
	const struct tar_member *member;
	static char buffer[4096];
	size_t got, members = 0;
	int status = tar_open(fuzz_path(data, bytes), &reader);
	if (status)
		return status;
	while (!(status = tar_next(reader, &member)) && member && ++members < 1000) {
		if (!path_is_inside(member->name) || !strchr("fdlh", member->type))
			abort();
		do {
			status = tar_read(reader, buffer, sizeof buffer, &got);
		} while (!status && got);
		if (status)
			break;
	}
	tar_close(reader);
	return status;
}

static int parse_tar(const void *data, size_t bytes)
{
	return try_both(data, bytes, parse_tar_once, repair_tar);
}

static void repair_tfevents(unsigned char *data, size_t bytes)
{
	for (size_t at = 0; at + 16 <= bytes;) {
		uint64_t length;
		uint32_t sum = tfevents_checksum(data + at, 8);
		memcpy(&length, data + at, 8);
		memcpy(data + at + 8, &sum, 4);
		if (length > bytes - at - 16)
			return;
		sum = tfevents_checksum(data + at + 12, (size_t)length);
		memcpy(data + at + 12 + length, &sum, 4);
		at += 16 + (size_t)length;
	}
}

static int use_event(void *context, int64_t step, const char *tag, double value)
{
	(void)step, (void)value;
	*(size_t *)context += strlen(tag);
	return STATUS_OK;
}

static int parse_tfevents_once(const void *data, size_t bytes)
{
	size_t letters = 0;
	int torn;
	return tfevents_scan_bytes("x", data, bytes, use_event, &letters, &torn);
}

static int parse_tfevents(const void *data, size_t bytes)
{
	return try_both(data, bytes, parse_tfevents_once, repair_tfevents);
}

/* Checksums in the directory of a zip archive become 0, which means that there are none. */
static void repair_zip(unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i + 46 <= bytes; i++)
		if (!memcmp(data + i, "PK\1\2", 4))
			memset(data + i + 16, 0, 4);
}

static int parse_torch_once(const void *data, size_t bytes)
{
	struct torch_file file;
	void *copy = memory_copy(data, bytes);
	int status = copy ? torch_take("x", copy, bytes, &file) : error_status();
	if (status)
		return status;
	status = use_tensors(&file.weights);
	torch_release(&file);
	return status;
}

static int parse_torch(const void *data, size_t bytes)
{
	return try_both(data, bytes, parse_torch_once, repair_zip);
}

static int parse_pickle(const void *data, size_t bytes)
{
	struct pickle pickle;
	int status = pickle_read("x", data, bytes, NULL, &pickle);
	if (status)
		return status;
	pickle_get(pickle.value, "state_dict");
	pickle_release(&pickle);
	return STATUS_OK;
}

static void store_little(unsigned char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

/* The file's length and both checksums at the end of a pack. */
static void repair_pack(unsigned char *data, size_t bytes)
{
	uint64_t begin = 0, count = 0, names = 0;
	if (bytes < 1024 + 64)
		return;
	unsigned char *trailer = data + bytes - 1024 - 64;
	memset(trailer + 32, 0, 8);
	store_little(trailer + 32, (uint32_t)bytes);
	memcpy(&begin, trailer + 8, 8);
	memcpy(&count, trailer + 16, 8);
	memcpy(&names, trailer + 24, 8);
	if (begin <= bytes && count <= bytes && names <= bytes && begin + 32 * count + names <= bytes)
		store_little(trailer + 40, crc32c(0, data + begin, 32 * count + names));
	store_little(trailer + 60, crc32c(0, trailer, 60));
}

static int parse_pack_once(const void *data, size_t bytes)
{
	bool found;
	int status = pack_check("x", data, bytes, bytes, &found);
	return status || found ? status : error_set(STATUS_DATA, "no pack");
}

static int parse_pack(const void *data, size_t bytes)
{
	return try_both(data, bytes, parse_pack_once, repair_pack);
}

/* Every row given lies within its line: reading each field to its end touches all of it. */
static int parse_tsv(const void *data, size_t bytes)
{
	const char *path = fuzz_path(data, bytes);
	struct tsv table = {0};
	int status = path ? tsv_open(path, &table) : error_status();
	double value, sum = 0;

	while (!status && tsv_next(&table)) {
		for (int i = 0; i < table.fields; i++)
			sum += (double)strlen(table.field[i]);
		if (tsv_number(&table, tsv_column(&table, "loss"), &value))
			sum += value;
	}
	if (!status && (table.damaged || sum < 0))
		status = error_set(STATUS_DATA, "%s: damaged", path);
	tsv_close(&table);
	return status;
}

/* The middle of the image, at full size and at a quarter. */
static int parse_jpeg_part(const void *data, size_t bytes)
{
	struct jpeg_part part = {0};
	int height, width, status = jpeg_size("x", data, bytes, &height, &width);

	for (int denominator = 1; !status && denominator <= 4; denominator *= 4) {
		part.channels = 3;
		part.denominator = denominator;
		part.top = height / 3 / denominator;
		part.left = width / 3 / denominator;
		part.height = (height / 3 + denominator) / denominator;
		part.width = (width / 3 + denominator) / denominator;
		status = jpeg_decode_part("x", data, bytes, &part);
		if (!status)
			free(memory_copy(
				part.pixels, (size_t)part.height * (size_t)part.width * 3 + JPEG_SLACK));
	}
	jpeg_part_release(&part);
	return status;
}

static struct source_place place_of(const void *data, size_t bytes)
{
	return (struct source_place){.path = (char *)(uintptr_t)fuzz_path(data, bytes), .bytes = bytes};
}

static int parse_hdf5(const void *data, size_t bytes)
{
	struct source_place place = place_of(data, bytes);
	struct hdf5_strings strings;
	struct hdf5 *file;
	int status = place.path ? hdf5_open("x", &place, &file) : STATUS_FAILURE;

	if (status)
		return status;
	status = hdf5_find(file, "video", &strings);
	for (uint64_t i = 0; !status && i < strings.count && i < 8; i++) {
		char *element;
		size_t length;

		status = hdf5_read(file, &strings, i, 1 << 24, &element, &length);
		if (!status)
			free(element);
	}
	hdf5_close(file);
	return status;
}

/* Forward over the first frames, back, and their pixels. Without the plugin there is nothing to try. */
static int parse_film(const void *data, size_t bytes)
{
	static const int64_t numbers[] = {1, 2, 4, 3};
	struct source_place place = place_of(data, bytes);
	struct film *film;
	int status = place.path ? film_open("x", &place, 1, &film) : STATUS_FAILURE;

	if (status)
		return status == STATUS_UNAVAILABLE ? STATUS_OK : status;
	for (int i = 0; !status && i < 4; i++) {
		int height = 0, width = 0;
		uint8_t *pixels;

		status = film_go(film, numbers[i]);
		if (status)
			break;
		film_size(film, &height, &width);
		pixels = memory_new((size_t)height * (size_t)width, 3);
		if (pixels)
			status = film_pixels(film, pixels);
		free(pixels);
	}
	film_close(film);
	return status;
}

const struct fuzz_parser fuzz_file[] = {{"film", parse_film}, {"jpeg-part", parse_jpeg_part},
	{"hdf5", parse_hdf5}, {"png", parse_png}, {"jpeg", parse_jpeg}, {"pnm", parse_pnm},
	{"torch", parse_torch}, {"pickle", parse_pickle}, {"pack", parse_pack}, {"image", parse_image},
	{"npy", parse_npy}, {"safetensors", parse_safetensors}, {"index", parse_index}, {"tar", parse_tar},
	{"tfevents", parse_tfevents}, {"tsv", parse_tsv}, {0}};
