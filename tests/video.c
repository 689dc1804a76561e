/* Sets of videos: annotations, directories of frames, parts of JPEGs, reading by a geometry. */
#include "data/video.h"

#include <stdio.h>

#include <jpeglib.h>
#include <zlib.h>

#include "base/random.h"
#include "base/text.h"
#include "check.h"
#include "file/image.h"
#include "file/jpeg.h"
#include "file/png.h"
#include "support/files.h"

/* ---- files ---- */

struct kind {
	int channels;     /* 3 or 1 */
	int across, down; /* sampling of the luma */
	bool progressive;
	int restart; /* blocks between restart marks, 0: none */
};

/* Soft shapes and a little noise, so that colours and edges matter; `seed` makes other pictures. */
static uint8_t *draw(int height, int width, int channels, int seed)
{
	uint8_t *pixels = malloc((size_t)height * (size_t)width * (size_t)channels), *p = pixels;

	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			for (int c = 0; c < channels; c++)
				*p++ = (uint8_t)(x * (3 + c) + y * (5 - c) + (x / 7 + y / 5 + seed) % 3 * 60 +
						 (x * y + c * 17 + seed * 29) % 11);
	return pixels;
}

/* Owned by the caller. */
static unsigned char *encode(int height, int width, const struct kind *kind, int seed, unsigned long *bytes)
{
	struct jpeg_compress_struct jpeg;
	struct jpeg_error_mgr errors;
	uint8_t *pixels = draw(height, width, kind->channels, seed);
	unsigned char *data = NULL;

	jpeg.err = jpeg_std_error(&errors);
	jpeg_create_compress(&jpeg);
	*bytes = 0;
	jpeg_mem_dest(&jpeg, &data, bytes);
	jpeg.image_width = (JDIMENSION)width;
	jpeg.image_height = (JDIMENSION)height;
	jpeg.input_components = kind->channels;
	jpeg.in_color_space = kind->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&jpeg);
	jpeg_set_quality(&jpeg, 85, TRUE);
	jpeg.comp_info[0].h_samp_factor = kind->across;
	jpeg.comp_info[0].v_samp_factor = kind->down;
	jpeg.restart_interval = (unsigned)kind->restart;
	if (kind->progressive)
		jpeg_simple_progression(&jpeg);
	jpeg_start_compress(&jpeg, TRUE);
	while (jpeg.next_scanline < jpeg.image_height) {
		JSAMPROW row = pixels + (size_t)jpeg.next_scanline * (size_t)width * (size_t)kind->channels;

		jpeg_write_scanlines(&jpeg, &row, 1);
	}
	jpeg_finish_compress(&jpeg);
	jpeg_destroy_compress(&jpeg);
	free(pixels);
	return data;
}

static const struct kind usual = {3, 2, 2, false, 0};

static void put_frame(const char *directory, int number, int height, int width)
{
	struct text name = {0};
	unsigned long bytes;
	unsigned char *data = encode(height, width, &usual, number, &bytes);

	text_format(&name, "%s/image_%05d.jpg", directory, number);
	put(name.data, data, bytes);
	text_release(&name);
	free(data);
}

static void put_frames(const char *directory, int count, int height, int width)
{
	for (int i = 1; i <= count; i++)
		put_frame(directory, i, height, width);
}

/* ---- parts of JPEGs ---- */

static bool part_is_whole(const unsigned char *data, unsigned long bytes, const struct image *whole,
	struct jpeg_part *part, const int wanted[4])
{
	part->channels = 3;
	part->denominator = 1;
	part->top = wanted[0];
	part->left = wanted[1];
	part->height = wanted[2];
	part->width = wanted[3];
	if (jpeg_decode_part("part", data, bytes, part) || part->top > wanted[0] || part->left > wanted[1] ||
		part->top + part->height < wanted[0] + wanted[2] ||
		part->left + part->width < wanted[1] + wanted[3])
		return false;
	for (int y = 0; y < wanted[2]; y++) {
		const uint8_t *expected =
			(const uint8_t *)whole->data +
			3 * ((size_t)(wanted[0] + y) * (size_t)whole->width + (size_t)wanted[1]);
		const uint8_t *found =
			part->pixels + 3 * ((size_t)(wanted[0] + y - part->top) * (size_t)part->width +
						   (size_t)(wanted[1] - part->left));

		if (memcmp(expected, found, 3 * (size_t)wanted[3]))
			return false;
	}
	return true;
}

/* Every sampling, baseline, progressive and with restart marks, at sizes that are no multiple of anything. */
static void test_parts(void)
{
	static const int samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};
	struct random r = random_stream(3, "parts");
	struct jpeg_part part = {0};
	int bad = 0, tried = 0;

	for (int i = 0; i < 90; i++) {
		struct kind kind = {i % 6 == 5 ? 1 : 3, 1, 1, i / 6 % 3 == 1, i / 6 % 3 == 2 ? 3 : 0};
		int height = 1 + (int)random_below(r, 0, (uint32_t)i, 0, 150),
		    width = 1 + (int)random_below(r, 0, (uint32_t)i, 1, 150);
		struct image whole;
		unsigned long bytes;

		if (kind.channels == 3) {
			kind.across = samplings[i % 6][0];
			kind.down = samplings[i % 6][1];
		}
		unsigned char *data = encode(height, width, &kind, i, &bytes);

		if (jpeg_decode("whole", data, bytes, &whole)) {
			check_report(false, "whole JPEG", "%s", error_message());
			return;
		}
		for (uint32_t k = 0; k < 24; k++) {
			int h = 1 + (int)random_below(r, 1 + k, (uint32_t)i, 0, (uint64_t)height);
			int w = 1 + (int)random_below(r, 1 + k, (uint32_t)i, 1, (uint64_t)width);
			int wanted[4] = {
				(int)random_below(r, 1 + k, (uint32_t)i, 2, (uint64_t)(height - h + 1)),
				(int)random_below(r, 1 + k, (uint32_t)i, 3, (uint64_t)(width - w + 1)), h, w};

			bad += !part_is_whole(data, bytes, &whole, &part, wanted);
			tried++;
		}
		image_release(&whole);
		free(data);
	}
	check_report(bad == 0, "a part of a JPEG has the pixels of the whole", "%d of %d parts", bad, tried);
	jpeg_part_release(&part);
}

static void test_part_refusals(void)
{
	unsigned long bytes;
	unsigned char *data = encode(40, 60, &usual, 1, &bytes);
	struct jpeg_part part = {.channels = 3, .denominator = 1, .top = 30, .height = 20, .width = 60};
	int height, width;

	check_status(jpeg_decode_part("a", data, bytes, &part), STATUS_DATA, "a part beyond the image");
	part = (struct jpeg_part){.channels = 1, .denominator = 1, .height = 40, .width = 60};
	check_status(jpeg_decode_part("a", data, bytes, &part), STATUS_DATA, "colour where grey is expected");
	part = (struct jpeg_part){.channels = 3, .denominator = 1, .height = 40, .width = 60};
	check_status(jpeg_decode_part("a", data, bytes / 2, &part), STATUS_DATA, "half a JPEG");
	jpeg_part_release(&part);
	part = (struct jpeg_part){.channels = 3, .denominator = 4, .height = 10, .width = 15};
	check(!jpeg_decode_part("a", data, bytes, &part) && part.height == 10 && part.image_width == 60,
		"a quarter of the size");
	check(!jpeg_size("a", data, bytes, &height, &width) && height == 40 && width == 60, "the size alone");
	jpeg_part_release(&part);
	free(data);
}

/* ---- annotations ---- */

static struct video_options options_of(const char *annotation, const char *subset)
{
	static char *root, *file;

	free(root);
	free(file);
	root = place("set");
	file = annotation ? place(annotation) : NULL;
	return (struct video_options){
		.name = "here", .layout = "frames", .path = root, .annotation = file, .subset = subset};
}

static void make_set(void)
{
	put_text("a.json", "{\"labels\": [\"b cls\", \"a\", \"a\"], \"database\": {"
			   "\"v1\": {\"subset\": \"training\", \"annotations\": {\"label\": \"b cls\", "
			   "\"segment\": [1, 7]}},"
			   "\"v2\": {\"subset\": \"validation\", \"annotations\": {\"label\": \"a\", "
			   "\"segment\": [1, 4]}},"
			   "\"v3\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\"}},"
			   "\"gone\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			   "\"segment\": [1, 9]}},"
			   "\"empty\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			   "\"segment\": [1, 1]}},"
			   "\"nowhere\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\"}},"
			   "\"t1\": {\"subset\": \"testing\", \"annotations\": {\"segment\": [1, 3]}},"
			   "\"v1\": {\"subset\": \"training\", \"annotations\": {\"label\": \"b cls\", "
			   "\"segment\": [2, 6]}}}}");
	put_frames("set/b cls/v1", 6, 24, 32);
	put_frames("set/a/v2", 3, 24, 32);
	put_frames("set/a/v3", 5, 24, 32);
	put_frames("set/test/t1", 2, 24, 32);
}

static void test_annotation(void)
{
	struct video_options options = options_of("a.json", "train");
	struct video_set *set;
	const struct video_sample *sample;
	size_t missing;
	char *first;

	make_set();
	if (!check_status(video_set_open(&options, &set), 0, "an annotation is read"))
		return;
	check(video_set_count(set) == 3 && video_set_dropped(set) == 2,
		"entries without frames are dropped and counted");
	check(video_set_label_count(set) == 3 && !strcmp(video_set_label(set, 0), "b cls"),
		"labels in their order");
	sample = video_set_sample(set, 0);
	check(!strcmp(sample->id, "v1") && sample->label == 0 && sample->first == 2 && sample->end == 6,
		"an id that comes twice keeps its place and takes the last value");
	check(text_ends(sample->path, "set/b cls/v1"), "path by label and id");
	sample = video_set_sample(set, 1);
	check(sample->label == 2 && sample->first == 1 && sample->end == 6,
		"frames are counted where no segment is; of a label that comes twice the last place counts");
	check(!video_set_missing(set, &missing, &first) && missing == 1 && text_ends(first, "set/a/gone"),
		"what is missing is counted");
	free(first);
	video_set_close(set);
	options = options_of("a.json", "testing");
	if (check_status(video_set_open(&options, &set), 0, "entries without label")) {
		sample = video_set_sample(set, 0);
		check(sample->label == -1 && text_ends(sample->path, "set/test/t1"), "lie in test");
	}
	video_set_close(set);
	options = options_of("a.json", NULL);
	if (check_status(video_set_open(&options, &set), 0, "all subsets"))
		check(video_set_count(set) == 5, "are taken together");
	video_set_close(set);
}

static void refuses(const char *text, const char *subset, int status, const char *words, const char *name)
{
	struct video_set *set;

	put_text("bad.json", text);
	struct video_options options = options_of("bad.json", subset);
	int found = video_set_open(&options, &set);

	check_report(found == status && strstr(error_message(), words), name, "status %d: %s", found,
		error_message());
	if (!found)
		video_set_close(set);
}

static void test_refusals(void)
{
	struct video_options options;
	struct video_set *set;

	refuses("{\"labels\": [\"a\"], \"database\": {\"v\": {\"subset\": \"training\", \"annotations\": "
		"{\"label\": \"c\"}}}}",
		"train", STATUS_DATA, "entry \"v\": the label \"c\" is not among",
		"a label that is not in the list");
	refuses("{\"labels\": [\"a\"], \"database\": {}}", "val", STATUS_DATA,
		"no videos with frames in the subset validation", "an empty subset");
	refuses("{\"labels\": [\"a\"], \"database\": {}}", "dev", STATUS_CONFIG, "subset dev",
		"an unknown subset");
	refuses("{\"labels\": [\"a\"]", "train", STATUS_DATA, "no JSON", "half a file");
	refuses("[1]", "train", STATUS_DATA, "no annotation", "another JSON");
	refuses("{\"labels\": [\"a\"], \"database\": {\"v\": {\"subset\": \"training\", \"annotations\": "
		"{\"segment\": [1, \"9\"]}}}}",
		"train", STATUS_DATA, "two whole numbers", "a segment of text");
	refuses("{\"labels\": [\"a\"], \"database\": {\"v\": {\"subset\": \"training\", \"annotations\": "
		"{\"segment\": [9, 1]}}}}",
		"train", STATUS_DATA, "no range of frames", "a segment backwards");
	refuses("{\"labels\": [\"..\"], \"database\": {\"v\": {\"subset\": \"training\", \"annotations\": "
		"{\"label\": \"..\"}}}}",
		"train", STATUS_DATA, "leaves the dataset's directory", "a label that leaves the directory");
	refuses("{\"labels\": [\"a\"], \"database\": {\"v\": {\"annotations\": {}}}}", "train", STATUS_DATA,
		"\"subset\" is missing", "an entry without subset");
	options = options_of("a.json", "train");
	options.layout = "tapes";
	check_status(video_set_open(&options, &set), STATUS_CONFIG, "an unknown layout");
	options.layout = "frames";
	options.flow = true;
	check_status(video_set_open(&options, &set), STATUS_CONFIG, "flow of frames");
	options = options_of("nowhere.json", "train");
	check_status(video_set_open(&options, &set), STATUS_NO_INPUT, "no annotation there");
}

static void test_activitynet(void)
{
	struct video_options options;
	struct video_set *set;
	const struct video_sample *sample;

	put_text("n.json",
		"{\"version\": \"1.3\", \"taxonomy\": [{\"nodeId\": 0, \"nodeName\": \"Root\", \"parentId\": "
		"null, \"parentName\": null},"
		"{\"nodeId\": 1, \"nodeName\": \"Sports\", \"parentId\": 0, \"parentName\": \"Root\"},"
		"{\"nodeId\": 2, \"nodeName\": \"Polo\", \"parentId\": 1, \"parentName\": \"Sports\"},"
		"{\"nodeId\": 3, \"nodeName\": \"Judo\", \"parentId\": 1, \"parentName\": \"Sports\"}], "
		"\"database\": {"
		"\"x\": {\"subset\": \"training\", \"fps\": 10.0, \"annotations\": [{\"label\": \"Judo\", "
		"\"segment\": [0.25, 1.58]},"
		"{\"label\": \"Polo\", \"segment\": [1.0, 100]}, {\"label\": \"Polo\", \"segment\": [0.1, "
		"0.5]}]},"
		"\"y\": {\"subset\": \"testing\", \"annotations\": []}}}");
	put_frames("set/v_x", 20, 16, 16);
	put_frames("set/v_y", 4, 16, 16);
	options = options_of("n.json", "train");
	if (!check_status(video_set_open(&options, &set), 0, "ActivityNet's annotation"))
		return;
	check(video_set_label_count(set) == 2 && !strcmp(video_set_label(set, 0), "Polo"),
		"classes are the leaves");
	check(video_set_count(set) == 2 && video_set_dropped(set) == 1,
		"one sample an annotation of 8 frames or more");
	sample = video_set_sample(set, 0);
	check(!strcmp(sample->id, "x_0") && sample->label == 1 && sample->first == 3 && sample->end == 16,
		"seconds to frames");
	sample = video_set_sample(set, 1);
	check(sample->first == 11 && sample->end == 20, "an annotation that goes on after the video");
	video_set_close(set);
	options.subset = "test";
	options.untrimmed = true;
	if (check_status(video_set_open(&options, &set), 0, "untrimmed"))
		check(video_set_count(set) == 1 && video_set_sample(set, 0)->end == 5 &&
				video_set_sample(set, 0)->label == -1,
			"one sample a video, without label");
	video_set_close(set);
}

static void test_found(void)
{
	struct video_options options = options_of(NULL, NULL);
	struct video_set *set;
	char *one = place("set/a/v3");

	if (check_status(video_set_open(&options, &set), 0, "classes are directories"))
		check(video_set_count(set) == 4 && video_set_label_count(set) == 5 &&
				!strcmp(video_set_label(set, 0), "a") &&
				!strcmp(video_set_sample(set, 0)->id, "v2"),
			"labels and videos in byte order");
	video_set_close(set);
	options.path = one;
	if (check_status(video_set_open(&options, &set), 0, "one video"))
		check(video_set_count(set) == 1 && video_set_sample(set, 0)->label == -1 &&
				video_set_sample(set, 0)->end == 6,
			"has its frames and no label");
	video_set_close(set);
	free(one);
}

/* ---- reading ---- */

/* The frame through the geometry, from the whole decoded image. */
static void expect(const char *file, const struct clip_geometry *geometry, uint8_t *out)
{
	char *path = place(file);
	struct image image;
	struct clip_scaler *scaler;

	if (image_read_rgb(path, &image) || clip_scaler_new(geometry, 3, &scaler)) {
		check_report(false, file, "%s", error_message());
		exit(1);
	}
	image.data = realloc(image.data, (size_t)image.width * (size_t)image.height * 3 + CLIP_SLACK);
	clip_scaler_run(scaler, image.data, (size_t)image.width * 3, 0, 0, out);
	clip_scaler_free(scaler);
	image_release(&image);
	free(path);
}

enum { SIDE = 12, FRAME = SIDE * SIDE * 3 };

static struct video_reader *reader_of(struct video_options *options, struct video_set **set)
{
	struct video_reader *reader;

	if (video_set_open(options, set) || video_reader_new(*set, &reader)) {
		check_report(false, "set to read from", "%s", error_message());
		exit(1);
	}
	return reader;
}

static void test_reading(void)
{
	static const int64_t numbers[] = {5, 2, 3, 5, 2, 4};
	static uint8_t out[6 * FRAME], expected[FRAME];
	struct video_options options = options_of("a.json", "train");
	struct video_set *set;
	struct video_reader *reader = reader_of(&options, &set);
	struct clip_geometry geometry;
	int height, width;
	bool good = true;

	check(!video_size(reader, 0, 2, &height, &width) && height == 24 && width == 32, "size of a frame");
	for (int flip = 0; flip < 2; flip++)
		for (int scale = 0; scale < 5; scale++) {
			clip_crop_corner_at(&geometry, 24, 32, SIDE, scale, (scale + 1) % 5);
			geometry.flip = flip;
			good &= !video_read(reader, 0, numbers, 6, &geometry, false, out);
			for (int i = 0; i < 6; i++) {
				char name[64];

				snprintf(name, sizeof name, "set/b cls/v1/image_%05d.jpg", (int)numbers[i]);
				expect(name, &geometry, expected);
				good &= !memcmp(expected, out + i * FRAME, FRAME);
			}
		}
	check_report(good, "frames are those of whole images", "%s", error_message());
	good = !video_read(reader, 1, numbers, 6, &geometry, false, out);
	expect("set/a/v3/image_00005.jpg", &geometry, expected);
	check(good && !memcmp(expected, out, FRAME), "another video is another");
	video_reader_free(reader);
	video_set_close(set);
}

static void test_missing_frames(void)
{
	static const int64_t numbers[] = {1, 2, 3, 4, 5, 6};
	static uint8_t out[6 * FRAME], expected[FRAME];
	struct video_options options;
	struct video_set *set;
	struct video_reader *reader;
	struct clip_geometry geometry;
	char *hole = place("set/a/holes/image_00002.jpg"), *other = place("set/a/holes/image_00003.jpg");

	put_text("holes.json", "{\"labels\": [\"a\"], \"database\": {"
			       "\"holes\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			       "\"segment\": [1, 7]}},"
			       "\"none\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			       "\"segment\": [1, 7]}}}}");
	put_frames("set/a/holes", 5, 24, 32);
	file_remove(hole);
	file_remove(other);
	clip_crop_center(&geometry, 24, 32, SIDE);
	options = options_of("holes.json", "train");
	reader = reader_of(&options, &set);
	check(video_read(reader, 0, numbers, 6, &geometry, false, out) == STATUS_DATA &&
			strstr(error_message(), "set/a/holes: frame 2 is missing"),
		"a missing frame is said");
	check_status(video_read(reader, 1, numbers, 6, &geometry, false, out), STATUS_NO_INPUT,
		"a missing directory");
	video_reader_free(reader);
	video_set_close(set);
	options.repeat_missing = true;
	reader = reader_of(&options, &set);
	if (check_status(video_read(reader, 0, numbers, 6, &geometry, false, out), 0,
		    "missing frames by choice")) {
		static const int nearest[] = {1, 1, 4, 4, 5, 5};
		bool good = true;

		for (int i = 0; i < 6; i++) {
			char name[64];

			snprintf(name, sizeof name, "set/a/holes/image_%05d.jpg", nearest[i]);
			expect(name, &geometry, expected);
			good &= !memcmp(expected, out + i * FRAME, FRAME);
		}
		check(good && video_reader_repeated(reader) == 3, "are their nearest, and counted");
	}
	check_status(video_read(reader, 1, numbers, 6, &geometry, false, out), STATUS_NO_INPUT,
		"no frame to repeat");
	video_reader_free(reader);
	video_set_close(set);
	free(hole);
	free(other);
}

static void test_bad_frames(void)
{
	static const int64_t numbers[] = {1, 2, 3};
	static uint8_t out[3 * FRAME], expected[FRAME];
	struct video_options options;
	struct video_set *set;
	struct video_reader *reader;
	struct clip_geometry geometry;
	uint8_t *pixels = draw(24, 32, 3, 9);
	struct image image = {32, 24, 3, 8, pixels};
	struct text png = {0};

	put_text("mixed.json", "{\"labels\": [\"a\"], \"database\": {"
			       "\"sizes\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			       "\"segment\": [1, 4]}},"
			       "\"torn\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			       "\"segment\": [1, 4]}},"
			       "\"png\": {\"subset\": \"training\", \"annotations\": {\"label\": \"a\", "
			       "\"segment\": [1, 4]}}}}");
	put_frames("set/a/sizes", 2, 24, 32);
	put_frame("set/a/sizes", 3, 48, 64);
	put_frames("set/a/torn", 2, 24, 32);
	put_text("set/a/torn/image_00003.jpg", "\xff\xd8\xff\xe0 no more");
	put_frame("set/a/png", 1, 24, 32);
	if (png_encode(&image, &png))
		check_report(false, "PNG", "%s", error_message());
	put("set/a/png/image_00002.png", png.data, png.length);
	put("set/a/png/image_00003.png", png.data, png.length);
	clip_crop_center(&geometry, 24, 32, SIDE);
	options = options_of("mixed.json", "train");
	reader = reader_of(&options, &set);
	check(video_read(reader, 0, numbers, 3, &geometry, false, out) == STATUS_DATA &&
			strstr(error_message(),
				"frame 3 has 64 x 48 pixels where the clip's first has 32 x 24"),
		"a frame of another size");
	check(video_read(reader, 1, numbers, 3, &geometry, false, out) == STATUS_DATA &&
			strstr(error_message(), "image_00003.jpg: damaged JPEG"),
		"a damaged frame");
	if (check_status(video_read(reader, 2, numbers, 3, &geometry, false, out), 0,
		    "JPEG and PNG frames together")) {
		expect("set/a/png/image_00003.png", &geometry, expected);
		check(!memcmp(out + 2 * FRAME, expected, FRAME), "a PNG frame");
	}
	video_reader_free(reader);
	video_set_close(set);
	text_release(&png);
	free(pixels);
}

/* Half the size is enough here: the pixels differ from the exact ones, but not by much. */
static void test_scaled(void)
{
	static const int64_t numbers[] = {1};
	static uint8_t out[FRAME], exact[FRAME];
	struct video_options options = options_of(NULL, NULL);
	struct video_set *set;
	struct clip_geometry geometry;
	char *path = place("large");
	double distance = 0;

	put_frames("large", 1, 60, 80);
	options.path = path;
	options.scaled = true;
	struct video_reader *reader = reader_of(&options, &set);

	clip_crop_center(&geometry, 60, 80, SIDE);
	check_status(video_read(reader, 0, numbers, 1, &geometry, false, out), 0, "scaled decoding");
	expect("large/image_00001.jpg", &geometry, exact);
	for (int i = 0; i < FRAME; i++)
		distance += abs(out[i] - exact[i]) / (double)FRAME;
	check_report(distance > 0 && distance < 12, "is near the exact one", "mean distance %g", distance);
	video_reader_free(reader);
	video_set_close(set);
	free(path);
}

/* ---- HDF5 ---- */

/* CRC-32 of frame i by the golden table; 0: not there. */
static uint32_t golden_sum(const char *kind, int i)
{
	char *data, *at, key[32], digits[16];
	size_t bytes;
	int64_t sum = 0;

	if (file_read("tests/golden/video.tsv", 1 << 16, &data, &bytes))
		return 0;
	snprintf(key, sizeof key, "%s\t%d\t", kind, i);
	at = strstr(data, key);
	if (at) {
		snprintf(digits, sizeof digits, "%.*s", (int)strcspn(at + strlen(key), "\n"),
			at + strlen(key));
		text_to_int64(digits, &sum);
	}
	free(data);
	return (uint32_t)sum;
}

static void test_hdf5_file(const char *name, bool flow)
{
	char path[64];
	struct video_options options = {.name = "h", .layout = "hdf5", .path = path, .flow = flow};
	struct clip_geometry geometry;
	uint8_t out[4 * 18 * 26 * 3];
	struct video_set *set;
	static const int64_t numbers[] = {3, 0, 1, 2};
	bool good = true;

	snprintf(path, sizeof path, "tests/golden/video/%s.hdf5", name);
	struct video_reader *reader = reader_of(&options, &set);
	const struct video_sample *sample = video_set_sample(set, 0);
	size_t bytes = (size_t)(18 * 26 * video_set_channels(set));

	clip_crop_none(&geometry, 18, 26, 18);
	good &= sample->first == 0 && sample->end == 4 && !strcmp(sample->id, name);
	good &= !video_read(reader, 0, numbers, 4, &geometry, false, out);
	for (int i = 0; good && i < 4; i++)
		good &= crc32(0, out + (size_t)i * bytes, (uInt)bytes) ==
			golden_sum(flow ? "flow" : "rgb", (int)numbers[i]);
	check_report(good, name, "%s", error_message());
	video_reader_free(reader);
	video_set_close(set);
}

/* A crop that is mirrored: u is negated, v is not. */
static void test_flow(void)
{
	struct video_options options = {
		.name = "h", .layout = "hdf5", .path = "tests/golden/video/flow.hdf5", .flow = true};
	struct video_set *set;
	struct video_reader *reader = reader_of(&options, &set);
	struct clip_geometry geometry;
	uint8_t plain[SIDE * SIDE * 2], mirrored[SIDE * SIDE * 2], original[SIDE * SIDE * 2];
	static const int64_t number = 2;
	bool good = true;

	clip_crop_corner_at(&geometry, 18, 26, SIDE, 1, 4);
	check_status(video_read(reader, 0, &number, 1, &geometry, false, plain), 0, "a crop of flow");
	geometry.flip = true;
	check_status(video_read(reader, 0, &number, 1, &geometry, false, mirrored), 0, "mirrored");
	check_status(video_read(reader, 0, &number, 1, &geometry, true, original), 0, "as the original");
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			const uint8_t *p = plain + 2 * (y * SIDE + x);
			int at = 2 * (y * SIDE + SIDE - 1 - x);

			good &= mirrored[at] == 255 - p[0] && mirrored[at + 1] == p[1] &&
				original[at] == p[0] && original[at + 1] == p[1];
		}
	check(good, "horizontal flow turns around in a mirror");
	video_reader_free(reader);
	video_set_close(set);
}

static void refuses_hdf5(const char *path, bool flow, int status, const char *words, const char *name)
{
	struct video_options options = {.name = "h", .layout = "hdf5", .path = path, .flow = flow};
	struct video_set *set;
	int found = video_set_open(&options, &set);

	check_report(found == status && strstr(error_message(), words), name, "status %d: %s", found,
		error_message());
	if (!found)
		video_set_close(set);
}

static void test_hdf5(void)
{
	char *half = place("half.hdf5"), *text = place("text.hdf5"), *data;
	size_t bytes;

	test_hdf5_file("plain", false);
	test_hdf5_file("latest", false);
	test_hdf5_file("chunked", false);
	test_hdf5_file("flow", true);
	test_flow();
	refuses_hdf5("tests/golden/video/compressed.hdf5", false, STATUS_DATA, "write it without options",
		"a compressed dataset");
	refuses_hdf5("tests/golden/video/wrong.hdf5", false, STATUS_DATA, "is not a list of images",
		"a dataset of numbers");
	refuses_hdf5("tests/golden/video/flow.hdf5", false, STATUS_DATA, "no dataset \"video\"",
		"no such dataset");
	refuses_hdf5("tests/golden/video/plain.hdf5", true, STATUS_DATA, "no dataset \"video_u\"",
		"no flow in it");
	if (!file_read("tests/golden/video/plain.hdf5", 1 << 20, &data, &bytes)) {
		put("half.hdf5", data, bytes / 40);
		free(data);
	}
	put_text("text.hdf5", "this is no such file at all, but long enough to hold a superblock");
	refuses_hdf5(half, false, STATUS_DATA, "damaged HDF5 file", "the beginning of a file");
	refuses_hdf5(text, false, STATUS_DATA, "no HDF5 file", "another file");
	free(half);
	free(text);
}

int main(void)
{
	test_parts();
	test_part_refusals();
	test_annotation();
	test_refusals();
	test_activitynet();
	test_found();
	test_reading();
	test_missing_frames();
	test_bad_frames();
	test_scaled();
	test_hdf5();
	return check_summary();
}
