/* npy, images and elements: files made by others (tests/golden/files), round trips, cut and bad files. */
#include "check.h"

#include <zlib.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/element.h"
#include "file/image.h"
#include "file/npy.h"
#include "file/png.h"
#include "file/pnm.h"
#include "file/safetensors.h"

#define GOLDEN "tests/golden/files/"

/* What a reader gave, whatever the format. */
struct array {
	float *value;
	size_t count;
	int dims;
	int64_t dim[8];
};

static int from_image(int status, struct image *image, struct array *array)
{
	if (status)
		return status;
	*array = (struct array){.dims = 3, .dim = {image->height, image->width, image->channels}};
	array->count = (size_t)(image->height * image->width * image->channels);
	array->value = memory_new(array->count, sizeof *array->value);
	element_to_float('u', image->bits / 8, false, image->data, array->count, array->value);
	image_release(image);
	return STATUS_OK;
}

static int read_rgb(const char *path, const char *detail, struct array *array)
{
	(void)detail;
	struct image image;
	return from_image(image_read_rgb(path, &image), &image, array);
}

static int read_depth(const char *path, const char *detail, struct array *array)
{
	(void)detail;
	struct image image;
	return from_image(image_read_depth16(path, &image), &image, array);
}

/* The same file from memory gives the same array. */
static void check_decoded(const char *path, const struct npy *read)
{
	char *data = NULL;
	size_t bytes = 0;
	struct npy npy = {0};
	if (check_status(file_read(path, 1 << 20, &data, &bytes), 0, path) &&
		check_status(npy_decode(path, data, bytes, &npy), 0, path))
		check(npy.count == read->count && npy.dims == read->dims && npy.kind == read->kind &&
				npy.size == read->size &&
				!memcmp(npy.data, read->data, npy.count * sizeof(float)),
			path);
	npy_release(&npy);
	free(data);
}

static int read_npy(const char *path, const char *detail, struct array *array)
{
	(void)detail;
	struct npy npy;
	int status = npy_read(path, &npy);
	if (status)
		return status;
	check_decoded(path, &npy);
	*array = (struct array){.value = npy.data, .count = npy.count, .dims = npy.dims};
	memcpy(array->dim, npy.dim, sizeof npy.dim);
	return STATUS_OK;
}

static int read_tensor(const char *path, const char *detail, struct array *array)
{
	struct safetensors file;
	int status = safetensors_read(path, &file);
	if (status)
		return status;
	const struct safetensor *tensor = safetensors_find(&file, detail);
	*array = (struct array){.dims = tensor->dims};
	memcpy(array->dim, tensor->dim, sizeof tensor->dim);
	array->count = tensor->bytes / safetensors_type_size(tensor->type);
	array->value = memory_new(array->count, sizeof *array->value);
	status = safetensors_to_float(tensor, array->value);
	safetensors_release(&file);
	return status;
}

static const struct reader {
	const char *name;
	int (*read)(const char *path, const char *detail, struct array *array);
} readers[] = {{"rgb", read_rgb}, {"depth", read_depth}, {"npy", read_npy}, {"tensor", read_tensor}};

static const struct reader *find_reader(const char *name)
{
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (!strcmp(readers[i].name, name))
			return &readers[i];
	return NULL;
}

static int count_words(const char *words)
{
	int count = *words != 0;
	for (; *words; words++)
		count += *words == ' ';
	return count;
}

/* Equal bits, where any nan is like any other. */
static void check_values(const struct array *array, char *values, const char *name)
{
	size_t wrong = 0;
	if (!check((size_t)count_words(values) == array->count, name))
		return;
	char *rest = values;
	for (size_t i = 0; i < array->count; i++) {
		char *word = strsep(&rest, " ");
		double expected;
		float single = text_to_double(word, &expected) ? (float)expected : 0;
		bool equal = isnan(single) ? isnan(array->value[i])
					   : !memcmp(&single, &array->value[i], sizeof single);
		wrong += !equal;
	}
	check_report(!wrong, name, "%zu of %zu values differ", wrong, array->count);
}

static void check_shape(const struct array *array, const char *shape, const char *name)
{
	struct text found = {0};
	text_add(&found, "");
	for (int i = 0; i < array->dims; i++)
		text_format(&found, "%s%lld", i ? " " : "", (long long)array->dim[i]);
	check_text(found.data, shape, name);
	text_release(&found);
}

static void test_golden_row(char **field)
{
	char path[256], name[256];
	char *detail = strchr(field[1], ':');
	if (detail)
		*detail++ = 0;
	const struct reader *reader = find_reader(field[1]);
	if (!reader)
		return;
	struct array array = {0};
	snprintf(path, sizeof path, GOLDEN "%s", field[0]);
	snprintf(name, sizeof name, "%s read as %s", field[0], field[1]);
	int status = reader->read(path, detail, &array);
	if (strcmp(field[2], "ok")) {
		check_status(status, STATUS_DATA, name);
		bool named = strstr(error_message(), field[0]) || !strcmp(field[1], "tensor");
		check_report(named && strstr(error_message(), field[2]), name, "says '%s'", error_message());
	} else if (check_status(status, STATUS_OK, name)) {
		check_shape(&array, field[3], name);
		check_values(&array, field[4], name);
	}
	free(array.value);
}

static void test_goldens(void)
{
	char *table, *line, *rest;
	size_t bytes;
	if (!check_status(file_read(GOLDEN "files.tsv", 1 << 20, &table, &bytes), 0, "read files.tsv"))
		return;
	rest = table;
	while ((line = strsep(&rest, "\n"))) {
		char *field[5];
		if (*line != '#' && text_split(line, '\t', field, 5) == 5)
			test_golden_row(field);
	}
	free(table);
}

/* Every beginning of a good file must be refused by name. */
static int decode_npy(const char *name, const void *data, size_t bytes)
{
	struct npy npy;
	int status = npy_decode(name, data, bytes, &npy);
	npy_release(&npy);
	return status;
}

static int decode_image(const char *name, const void *data, size_t bytes)
{
	struct image image;
	int status = image_decode_rgb(name, data, bytes, &image);
	image_release(&image);
	return status;
}

static int decode_depth(const char *name, const void *data, size_t bytes)
{
	struct image image;
	int status = image_decode_depth16(name, data, bytes, &image);
	image_release(&image);
	return status;
}

static void test_cut(const char *file, int (*decode)(const char *name, const void *data, size_t bytes))
{
	char path[256], name[256], *data;
	size_t bytes, accepted = 0, unnamed = 0;
	snprintf(path, sizeof path, GOLDEN "%s", file);
	snprintf(name, sizeof name, "%s cut anywhere is refused", file);
	if (!check_status(file_read(path, 1 << 20, &data, &bytes), 0, name))
		return;
	check_status(decode(file, data, bytes), STATUS_OK, name);
	for (size_t length = 0; length < bytes; length++) {
		char *copy =
			memory_copy(data, length); /* of its own, so that a sanitizer sees reads behind it */
		error_clear();
		accepted += decode(file, copy, length) != STATUS_DATA;
		unnamed += !text_starts(error_message(), file);
		free(copy);
	}
	check_report(
		!accepted && !unnamed, name, "%zu accepted, %zu without the file's name", accepted, unnamed);
	free(data);
}

static void test_cuts(void)
{
	static const char *images[] = {"rgb.png", "rgb-adam7.png", "palette.png", "grey-1.png",
		"baseline.jpg", "progressive.jpg", "grey.jpg", "restart.jpg", "rgb.ppm", "grey.pgm"};
	for (size_t i = 0; i < sizeof images / sizeof *images; i++)
		test_cut(images[i], decode_image);
	test_cut("depth.png", decode_depth);
	test_cut("depth.pgm", decode_depth);
	test_cut("f4.npy", decode_npy);
	test_cut("version-2.npy", decode_npy);
}

static void fill_samples(struct image *image, unsigned seed)
{
	size_t bytes = (size_t)image->width * image->height * image->channels * (image->bits / 8);
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1664525 + 1013904223;
		((uint8_t *)image->data)[i] = (uint8_t)(seed >> 24);
	}
}

static bool same_image(const struct image *a, const struct image *b)
{
	size_t bytes = (size_t)a->width * a->height * a->channels * (a->bits / 8);
	return a->width == b->width && a->height == b->height && a->channels == b->channels &&
	       a->bits == b->bits && !memcmp(a->data, b->data, bytes);
}

static void test_png_round_trip(int width, int height, int channels, int bits)
{
	struct image image = {0}, again = {0};
	struct text out = {0}, second = {0};
	char name[64];
	snprintf(name, sizeof name, "PNG %d x %d x %d of %d bits", width, height, channels, bits);
	if (!check_status(image_allocate(&image, width, height, channels, bits), 0, name))
		return;
	fill_samples(&image, (unsigned)(width * 31 + height));
	check_status(png_encode(&image, &out), STATUS_OK, name);
	check_status(png_encode(&image, &second), STATUS_OK, name);
	check(out.length == second.length && !memcmp(out.data, second.data, out.length), name);
	if (check_status(png_decode(name, out.data, out.length, &again), STATUS_OK, name))
		check(same_image(&image, &again), name);
	text_release(&out);
	text_release(&second);
	image_release(&image);
	image_release(&again);
}

static void test_png(void)
{
	static const int sizes[][2] = {{1, 1}, {1, 7}, {7, 1}, {3, 2}, {17, 13}, {257, 129}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int channels = 1; channels <= 3; channels += 2)
			for (int bits = 8; bits <= 16; bits += 8)
				test_png_round_trip(sizes[i][0], sizes[i][1], channels, bits);
	struct image four = {2, 2, 4, 8, "0123456789abcdef"};
	struct text out = {0};
	check_status(png_encode(&four, &out), STATUS_FAILURE, "PNG of four channels is not written");
	text_release(&out);
}

/* The bytes of a file published once are on record: a change of libpng's defaults must not change them. */
static void test_png_bytes(void)
{
	struct image image = {0}, again = {0};
	char path[512], *data;
	size_t bytes;
	snprintf(path, sizeof path, "%s/picture.png", check_scratch());
	image_allocate(&image, 4, 3, 1, 16);
	for (int i = 0; i < 12; i++)
		((uint16_t *)image.data)[i] = (uint16_t)(i * 1000);
	check_status(png_publish(path, &image), STATUS_OK, "publish a PNG");
	check_status(file_read(path, 4096, &data, &bytes), 0, "read it back");
	check(bytes > 41 && !memcmp(data + 12, "IHDR\0\0\0\4\0\0\0\3\x10\0\0\0\0", 17),
		"16-bit grey, no interlace");
	check(!memcmp(data + 37, "IDAT", 4), "nothing but IHDR, IDAT, IEND");
	check_status(image_read_depth16(path, &again), STATUS_OK, "read as depth");
	check(same_image(&image, &again), "depth in host order comes back");
	free(data);
	image_release(&image);
	image_release(&again);
}

/* A header of 16384 x 16384 pixels in a file of a hundred bytes must be refused before memory is taken. */
static void test_png_promise(void)
{
	char *data;
	size_t bytes;
	struct image image;
	if (!check_status(file_read(GOLDEN "depth.png", 4096, &data, &bytes), 0, "read depth.png"))
		return;
	static const unsigned char header[] = {
		0, 0, 0x40, 0, 0, 0, 0x40, 0, 16, 0, 0, 0, 0, 0xdc, 0x33, 0x93, 0x1b};
	memcpy(data + 16, header, sizeof header);
	check_status(png_decode("huge.png", data, bytes, &image), STATUS_DATA, "PNG that promises too much");
	check(strstr(error_message(), "huge.png: damaged PNG: ends early") != NULL,
		"says that it ends early");
	free(data);
}

/* rgb.png with one more chunk of two bytes behind its header. */
static int decode_with_chunk(const char *type, bool good_crc)
{
	enum { HEADER_END = 33 };
	char *data;
	size_t bytes;
	struct image image = {0};
	struct text file = {0};
	unsigned char chunk[14] = {0, 0, 0, 2, (unsigned char)type[0], (unsigned char)type[1],
		(unsigned char)type[2], (unsigned char)type[3], 'x', 'y'};
	uint32_t crc = (uint32_t)crc32(0, chunk + 4, 6) ^ !good_crc;
	for (int i = 0; i < 4; i++)
		chunk[10 + i] = (unsigned char)(crc >> (24 - 8 * i));
	if (file_read(GOLDEN "rgb.png", 4096, &data, &bytes))
		return error_status();
	text_append(&file, data, HEADER_END);
	text_append(&file, (char *)chunk, sizeof chunk);
	text_append(&file, data + HEADER_END, bytes - HEADER_END);
	int status = png_decode("x.png", file.data, file.length, &image);
	image_release(&image);
	text_release(&file);
	free(data);
	return status;
}

static void test_png_chunks(void)
{
	check_status(decode_with_chunk("abCD", true), STATUS_OK, "unknown chunk that may be skipped");
	check_status(decode_with_chunk("abCD", false), STATUS_OK, "the same, damaged");
	check_status(decode_with_chunk("gAMA", true), STATUS_OK, "gamma of a wrong size is not looked at");
	check_status(decode_with_chunk("iCCP", true), STATUS_OK, "nor a colour profile");
	check_status(decode_with_chunk("ABCD", true), STATUS_DATA, "unknown chunk that must be understood");
	check_status(decode_with_chunk("IDAT", true), STATUS_DATA, "pixels that are no pixels");
	check_status(decode_with_chunk("IDAT", false), STATUS_DATA, "pixels with a wrong checksum");
}

static void check_pnm(const char *content, size_t bytes, int status, const char *message)
{
	struct image image = {0};
	char name[64];
	snprintf(name, sizeof name, "PNM %.*s, %zu bytes", (int)strcspn(content, "\n"), content, bytes);
	check_status(pnm_decode("x.pgm", content, bytes, &image), status, name);
	if (status)
		check_report(strstr(error_message(), message) != NULL, name, "says '%s'", error_message());
	image_release(&image);
}
#define PNM(content, status, message) check_pnm(content, sizeof content - 1, status, message)

static void test_pnm(void)
{
	struct image image;
	static const char commented[] = "P5 # made\n# twice\n2\t1 #x\n65535\n\x01\x02\xff\xfe";
	check_status(
		pnm_decode("c", commented, sizeof commented - 1, &image), STATUS_OK, "PGM with comments");
	check(image.width == 2 && image.height == 1 && ((uint16_t *)image.data)[0] == 0x102 &&
			((uint16_t *)image.data)[1] == 0xfffe,
		"PGM samples are big-endian");
	image_release(&image);
	PNM("P5 1 1 255\nx", STATUS_OK, "");
	PNM("P5 1 1 255\nx trailing", STATUS_OK, "");
	PNM("P5 1 1 255", STATUS_DATA, "x.pgm: damaged or cut");
	PNM("P5 0 1 255\nx", STATUS_DATA, "damaged");
	PNM("P5 -1 1 255\nx", STATUS_DATA, "damaged");
	PNM("P5 1 1 0\nx", STATUS_DATA, "maximum value 0");
	PNM("P5 1 1 100\nx", STATUS_DATA, "maximum value 100");
	PNM("P5 1 1 65536\nxx", STATUS_DATA, "maximum value 65536");
	PNM("P5 1 1 300\n\x01\x2c", STATUS_OK, "");
	PNM("P5 1 1 300\n\x01\x2d", STATUS_DATA, "sample 301");
	PNM("P6 1 1 65535\n123456", STATUS_DATA, "16 bits");
	PNM("P5 99999999 99999999 255\nx", STATUS_DATA, "ends early");
	PNM("P5 999999999999 1 255\nx", STATUS_DATA, "damaged");
	PNM("P4 1 1 255\nx", STATUS_DATA, "not a binary");
}

/* A version 1 file with this header text and `bytes` zero bytes of elements. */
static void check_npy(const char *header, size_t bytes, int status, const char *message)
{
	struct npy npy = {0};
	struct text file = {0};
	size_t length = strlen(header);
	text_append(&file, "\x93NUMPY\1\0", 8);
	text_append(&file, (char[]){(char)(length & 255), (char)(length >> 8)}, 2);
	text_add(&file, header);
	for (size_t i = 0; i < bytes; i++)
		text_append(&file, "", 1);
	check_status(npy_decode("x.npy", file.data, file.length, &npy), status, header);
	if (status)
		check_report(strstr(error_message(), message) && text_starts(error_message(), "x.npy: "),
			header, "says '%s'", error_message());
	npy_release(&npy);
	text_release(&file);
}

static void test_npy_headers(void)
{
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,)}", 8, STATUS_OK, "");
	check_npy("{\"shape\": (2L, 1L), \"descr\": \"|u1\", \"fortran_order\": True,}\n", 2, STATUS_OK, "");
	check_npy("{'descr':'=f4','fortran_order':False,'shape':()} \n", 4, STATUS_OK, "");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,)}", 7, STATUS_DATA, "ends early");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,)}", 9, STATUS_DATA, "1 bytes behind");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2)}", 8, STATUS_DATA, "tuple");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2 1)}", 8, STATUS_DATA, "tuple");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(-2,)}", 8, STATUS_DATA, "tuple");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':2}", 8, STATUS_DATA, "tuple");
	check_npy("{'descr':'<f4','fortran_order':0,'shape':(2,)}", 8, STATUS_DATA, "True nor False");
	check_npy("{'descr':'<f4','fortran_order':False}", 8, STATUS_DATA, "must all be there");
	check_npy(
		"{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "twice");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,),'x':1}", 8, STATUS_DATA,
		"unknown key 'x'");
	check_npy("{'descr':'<f4' 'fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "comma");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,)} x", 8, STATUS_DATA, "behind");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(2,)", 8, STATUS_DATA, "comma");
	check_npy("{'descr':'<f4", 8, STATUS_DATA, "without end");
	check_npy("{'descr':'|f4','fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "not supported");
	check_npy("{'descr':'f4x','fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "not supported");
	check_npy("{'descr':'','fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "not supported");
	check_npy("{'descr':'|O','fortran_order':False,'shape':(2,)}", 8, STATUS_DATA, "pickle");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(4611686018427387904,4)}", 8, STATUS_DATA,
		"too large");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}", 8, STATUS_DATA,
		"too large");
	check_npy("{'descr':'<f4','fortran_order':False,'shape':(0,4611686018427387904,4)}", 0, STATUS_DATA,
		"too large");
	check_npy("__import__('os').system('true')", 8, STATUS_DATA, "not a dictionary");
}

/* Our files are those of numpy.save(). */
static void test_npy_bytes(const char *golden, int dims, const int64_t *dim)
{
	char path[512], name[64], *ours, *theirs;
	size_t our_bytes, their_bytes;
	struct npy npy;
	snprintf(path, sizeof path, GOLDEN "%s", golden);
	snprintf(name, sizeof name, "%s written as numpy writes it", golden);
	if (!check_status(file_read(path, 1 << 20, &theirs, &their_bytes), 0, name) ||
		!check_status(npy_decode(path, theirs, their_bytes, &npy), 0, name))
		return;
	snprintf(path, sizeof path, "%s/%s", check_scratch(), golden);
	check_status(npy_publish(path, npy.data, dims, dim), STATUS_OK, name);
	check_status(file_read(path, 1 << 20, &ours, &our_bytes), 0, name);
	check(our_bytes == their_bytes && !memcmp(ours, theirs, our_bytes), name);
	npy_release(&npy);
	free(ours);
	free(theirs);
}

static void test_npy_writer(void)
{
	float value = 1;
	int64_t negative = -1;
	char path[512];
	snprintf(path, sizeof path, "%s/refused.npy", check_scratch());
	test_npy_bytes("f4.npy", 2, (int64_t[]){2, 5});
	test_npy_bytes("empty.npy", 2, (int64_t[]){0, 3});
	test_npy_bytes("written-scalar.npy", 0, NULL);
	test_npy_bytes("written-line.npy", 1, (int64_t[]){3});
	test_npy_bytes("written-8d.npy", 8, (int64_t[]){1, 2, 1, 1, 1, 1, 1, 3});
	check_status(npy_publish(path, &value, 1, &negative), STATUS_FAILURE, "npy of negative size");
	check(!file_exists(path), "nothing is left of it");
	snprintf(path, sizeof path, "%s/nowhere/x.npy", check_scratch());
	check_status(
		npy_publish(path, &value, 0, NULL), STATUS_CANNOT_CREATE, "npy into a missing directory");
}

static void test_missing(void)
{
	struct image image;
	struct npy npy;
	check_status(image_read_rgb("nowhere.png", &image), STATUS_NO_INPUT, "missing image");
	check(strstr(error_message(), "nowhere.png") != NULL, "missing image is named");
	check_status(npy_read("nowhere.npy", &npy), STATUS_NO_INPUT, "missing npy");
	check_status(image_read_rgb("tests", &image), STATUS_NO_INPUT, "directory as image");
	check_status(image_decode_rgb("void.png", "", 0, &image), STATUS_DATA, "empty file");
	check(strstr(error_message(), "void.png: empty file") != NULL, "empty file is called so");
}

int main(void)
{
	test_goldens();
	test_cuts();
	test_png();
	test_png_bytes();
	test_png_promise();
	test_png_chunks();
	test_pnm();
	test_npy_headers();
	test_npy_writer();
	test_missing();
	return check_summary();
}
