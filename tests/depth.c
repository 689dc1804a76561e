/* Depth datasets: layouts, lists, discovery, depth files, the normaliser, resizing. */
#include "data/depth.h"

#include "base/digest.h"
#include "base/text.h"
#include "check.h"
#include "data/scenes.h"
#include "file/npy.h"
#include "file/png.h"
#include "support/files.h"

/* ---- files of a small dataset below the scratch directory ---- */

static void put_png(const char *name, int width, int height, int channels, int bits, const void *pixels)
{
	struct image image = {width, height, channels, bits, (void *)(uintptr_t)pixels};
	struct text bytes = {0};

	if (png_encode(&image, &bytes))
		check_report(false, name, "%s", error_message());
	put(name, bytes.data, bytes.length);
	text_release(&bytes);
}

/* An image and a depth file of equal size; stored depth = first + step x index. */
static void put_pair(const char *rgb, const char *depth, int width, int height, int first, int step)
{
	size_t count = (size_t)width * (size_t)height;
	uint8_t *image = malloc(count * 3);
	uint16_t *stored = malloc(count * sizeof *stored);

	for (size_t i = 0; i < count; i++) {
		memset(image + 3 * i, (int)i, 3);
		stored[i] = (uint16_t)(first + step * (int)i);
	}
	put_png(rgb, width, height, 3, 8, image);
	put_png(depth, width, height, 1, 16, stored);
	free(image);
	free(stored);
}

static struct depth_options options_of(const char *layout, const char *directory, const char *list)
{
	static char paths[2][512];
	char *path = place(directory), *file = list ? place(list) : NULL;

	snprintf(paths[0], sizeof paths[0], "%s", path);
	snprintf(paths[1], sizeof paths[1], "%s", file ? file : "");
	free(path);
	free(file);
	return (struct depth_options){.layout = layout, .path = paths[0], .list = paths[1]};
}

/* Opening fails with `status` and a message that holds `words`. */
static void refuses(const struct depth_options *options, int status, const char *words, const char *name)
{
	struct depth_dataset *data;
	int got = depth_open(options, &data);

	check_report(got == status && strstr(error_message(), words), name, "status %d, message '%s'", got,
		error_message());
	if (!got)
		depth_close(data);
}

/* ---- lists ---- */

static void test_lists(void)
{
	struct depth_options options = options_of("plain", "set", "list.txt");
	struct depth_dataset *data;

	put_pair("set/a/1.png", "set/d/1.png", 4, 3, 1000, 1);
	put_text("list.txt", "a/1.png d/1.png\r\n\ta/2.png   d/2.png extra column here\na/3.png d/3.png");
	if (check_status(depth_open(&options, &data), 0, "a list is read")) {
		char *first;
		size_t missing;

		check(depth_count(data) == 3, "with three samples");
		check_text(depth_name(data, 1), "a/2.png", "in its order");
		check_status(depth_missing(data, &missing, &first), 0, "missing files are counted");
		check(missing == 4 && first && strstr(first, "a/2.png"), "and the first one is named");
		free(first);
		depth_close(data);
	}
	put_text("list.txt", "a/1.png d/1.png\n\na/2.png d/2.png\n");
	refuses(&options, STATUS_DATA, "list.txt:2: blank line", "a blank line is refused with its number");
	put_text("list.txt", "a/1.png\n");
	refuses(&options, STATUS_DATA, "list.txt:1: 1 column ", "a missing column is refused");
	put_text("list.txt", "a/1.png d/1.png\na/1.png ../d/1.png\n");
	refuses(&options, STATUS_DATA, "list.txt:2: the path ../d/1.png",
		"a path that leaves the root is refused");
	put_text("list.txt", "/etc/passwd d/1.png\n");
	refuses(&options, STATUS_DATA, "list.txt:1: the path /etc", "an absolute path is refused");
	put_text("list.txt", "");
	refuses(&options, STATUS_DATA, "no samples", "an empty list is refused");
	put("list.txt", "a\0b d\n", 6);
	refuses(&options, STATUS_DATA, "not a text file", "a binary list is refused");
	options.layout = "hypersim";
	refuses(&options, STATUS_CONFIG, "unknown layout hypersim", "an unknown layout is refused");
	options = options_of("plain", "nowhere", NULL);
	refuses(&options, STATUS_NO_INPUT, "nowhere", "a missing root is refused");
	options = options_of("plain", "list.txt", NULL);
	refuses(&options, STATUS_NO_INPUT, "stage-data", "an archive is refused");
	options = options_of("plain", "set", "no-list.txt");
	refuses(&options, STATUS_NO_INPUT, "no-list.txt", "a missing list is refused");
	options = options_of("nyu", "set", "list.txt");
	options.crop = DEPTH_CROP_GARG;
	refuses(&options, STATUS_CONFIG, "garg", "the garg crop is refused for nyu");
}

static void test_kitti_list(void)
{
	struct depth_options options = options_of("kitti", "set", "kitti.txt");
	struct depth_dataset *data;

	put_text("kitti.txt", "a.png d.png 721.5377\nb.png None 707.0493\nc.png e.png 718.3351\n");
	if (check_status(depth_open(&options, &data), 0, "a KITTI list is read")) {
		check(depth_count(data) == 2 && depth_dropped(data) == 1,
			"rows with None are dropped and counted");
		depth_close(data);
	}
	options.rgb_only = true;
	if (check_status(depth_open(&options, &data), 0, "the same without depth")) {
		check(depth_count(data) == 2, "drops the same rows");
		depth_close(data);
	}
}

/* ---- discovery ---- */

static void check_found(const char *layout, const char *directory, bool rgb_only, const char *const *names,
	size_t count, const char *name)
{
	struct depth_options options = options_of(layout, directory, NULL);
	struct depth_dataset *data;
	bool same;

	options.rgb_only = rgb_only;
	if (!check_status(depth_open(&options, &data), 0, name))
		return;
	same = depth_count(data) == count;
	for (size_t i = 0; same && i < count; i++)
		same = !strcmp(depth_name(data, i), names[i]);
	check(same, name);
	depth_close(data);
}

static void test_discovery(void)
{
	static const char *const plain[] = {"color_1.png", "rgb/x/10.jpg", "rgb/x/9.png"};
	static const char *const nyu[] = {"test/room_0004/rgb_0001.png", "test/room_0004/rgb_0002.png"};
	static const char *const kitti[] = {
		"2011_09_26/2011_09_26_drive_0002_sync/image_02/data/0000000069.png"};
	static const char *const split[] = {"val/2011_09_26/2011_09_26_drive_0002_sync/image_03/data/5.png"};
	static const char *const loose[] = {"deep/b.jpeg", "z.PNG"};
	struct depth_options options;

	put_text("plain/color_1.png", "");
	put_text("plain/depth_1.pgm", "");
	put_text("plain/rgb/x/9.png", "");
	put_text("plain/depth/x/9.npy", "");
	put_text("plain/rgb/x/10.jpg", "");
	put_text("plain/depth/x/10.png", "");
	put_text("plain/.hidden/rgb_1.png", "");
	put_text("plain/other.png", "");
	check_found("plain", "plain", false, plain, 3, "plain naming, in byte order");
	check_found("plain", "plain", true, plain, 3, "the same samples without depth");
	put_text("nyu/test/room_0004/rgb_0002.png", "");
	put_text("nyu/test/room_0004/rgb_0001.png", "");
	put_text("nyu/test/room_0004/depth_0001.png", "");
	put_text("nyu/test/room_0004/depth_0002.png", "");
	put_text("nyu/test/room_0004/filled_0002.png", "");
	check_found("nyu", "nyu", false, nyu, 2, "NYU naming");
	put_text("kitti/2011_09_26/2011_09_26_drive_0002_sync/image_02/data/0000000069.png", "");
	put_text("kitti/2011_09_26_drive_0002_sync/proj_depth/groundtruth/image_02/0000000069.png", "");
	check_found("kitti", "kitti", false, kitti, 1, "KITTI naming");
	put_text("split/val/2011_09_26/2011_09_26_drive_0002_sync/image_03/data/5.png", "");
	put_text("split/val/2011_09_26_drive_0002_sync/proj_depth/groundtruth/image_03/5.png", "");
	check_found("kitti", "split", false, split, 1, "KITTI naming below a split");
	put_text("loose/z.PNG", "");
	put_text("loose/deep/b.jpeg", "");
	check_found("plain", "loose", true, loose, 2, "any images where only images are wanted");
	options = options_of("plain", "loose", NULL);
	refuses(&options, STATUS_DATA, "holds no image", "but no samples with depth");
	put_text("nyu/test/room_0004/rgb_0003.png", "");
	options = options_of("nyu", "nyu", NULL);
	refuses(&options, STATUS_NO_INPUT, "rgb_0003.png has no depth", "an image without depth is named");
	put_text("nyu/test/room_0004/depth_0003.png", "");
	put_text("nyu/test/room_0004/depth_0003.npy", "");
	refuses(&options, STATUS_DATA, "both", "two depth files for an image are refused");
}

/* ---- samples ---- */

/* Reads sample 0 of a one-line list. */
static int read_one(struct depth_options options, struct depth_sample *sample)
{
	struct depth_dataset *data;
	int status = depth_open(&options, &data);

	if (!status) {
		status = depth_read(data, 0, sample);
		depth_close(data);
	}
	return status;
}

static size_t valid_pixels(const struct depth_sample *sample)
{
	size_t count = 0;

	for (size_t i = 0; i < (size_t)sample->width * (size_t)sample->height; i++)
		count += sample->mask[i];
	return count;
}

static void bad_sample(const char *layout, int status, const char *words, const char *name)
{
	struct depth_sample sample;
	int got = read_one(options_of(layout, "set", "one.txt"), &sample);

	check_report(got == status && strstr(error_message(), words), name, "status %d, message '%s'", got,
		error_message());
	if (!got)
		depth_sample_release(&sample);
}

static void test_integers(void)
{
	static const uint16_t stored[] = {0, 1, 2, 9999, 10000, 65535};
	static const uint8_t grey[18];
	struct depth_sample sample;

	put_png("set/1.png", 3, 2, 3, 8, grey);
	put_png("set/d.png", 3, 2, 1, 16, stored);
	put_text("one.txt", "1.png d.png\n");
	if (check_status(read_one(options_of("nyu", "set", "one.txt"), &sample), 0, "16-bit PNG depth")) {
		check(sample.width == 3 && sample.height == 2 && sample.depth[3] == 9.999f &&
				sample.depth[5] == 65.535f,
			"in millimetres");
		check(!memcmp(sample.mask, "\0\0\1\1\0\0", 6),
			"is valid between 1 mm and 10 m, both exclusive in float32");
		depth_sample_release(&sample);
	}
	if (check_status(read_one(options_of("plain", "set", "one.txt"), &sample), 0,
		    "the same in the plain layout")) {
		check(!memcmp(sample.mask, "\0\0\1\1\1\0", 6) && sample.depth[5] == 0, "has no value 65535");
		depth_sample_release(&sample);
	}
	struct depth_options options = options_of("kitti", "set", "one.txt");
	if (check_status(read_one(options, &sample), 0, "the same in the kitti layout")) {
		check(sample.depth[3] == 9999 / 256.0f && sample.mask[1] == 1, "is in 1/256 m");
		depth_sample_release(&sample);
	}
	options.benchmark_crop = true;
	check_status(read_one(options, &sample), STATUS_DATA,
		"an image below the benchmark crop's size is refused");
	options = options_of("nyu", "set", "one.txt");
	options.scale = 100, options.minimum = 0.5, options.maximum = 1e6;
	if (check_status(read_one(options, &sample), 0, "a scale and a range of one's own")) {
		check(sample.depth[3] == 99.99f && !memcmp(sample.mask, "\0\0\0\1\1\1", 6), "are obeyed");
		depth_sample_release(&sample);
	}
	options.crop = DEPTH_CROP_EIGEN;
	check_status(read_one(options, &sample), STATUS_DATA, "the NYU crop is refused for other sizes");
}

static void test_pgm_and_npy(void)
{
	static const char pgm[] = "P5\n3 2\n65535\n\0\0\0\1\0\2\x27\x0f\x27\x10\xff\xff";
	float metres[] = {0, 0.5f, INFINITY, -1, 2, 81};
	struct depth_sample sample;
	char *path = place("set/d.npy");

	put("set/d.pgm", pgm, sizeof pgm - 1);
	put_text("one.txt", "1.png d.pgm\n");
	if (check_status(read_one(options_of("nyu", "set", "one.txt"), &sample), 0, "16-bit PGM depth")) {
		check(sample.depth[3] == 9.999f && sample.depth[4] == 10, "is big-endian millimetres");
		depth_sample_release(&sample);
	}
	put_text("one.txt", "1.png d.npy\n");
	npy_publish(path, metres, 2, (int64_t[]){2, 3});
	if (check_status(read_one(options_of("plain", "set", "one.txt"), &sample), 0, "npy depth")) {
		check(sample.depth[1] == 0.5f && sample.depth[2] == 0, "is in metres, infinity becomes 0");
		check(!memcmp(sample.mask, "\0\1\0\0\1\0", 6), "and the range is the layout's");
		depth_sample_release(&sample);
	}
	npy_publish(path, metres, 3, (int64_t[]){2, 3, 1});
	if (check_status(read_one(options_of("plain", "set", "one.txt"), &sample), 0, "npy depth [H,W,1]"))
		depth_sample_release(&sample);
	npy_publish(path, metres, 1, (int64_t[]){6});
	bad_sample("plain", STATUS_DATA, "not [height,width]", "an npy of one dimension is refused");
	npy_publish(path, metres, 2, (int64_t[]){3, 2});
	bad_sample("plain", STATUS_DATA, "2x3 pixels, but", "depth of another size is refused");
	metres[4] = NAN;
	npy_publish(path, metres, 2, (int64_t[]){2, 3});
	bad_sample("plain", STATUS_DATA, "d.npy: NaN at row 1, column 1",
		"NaN in depth is refused with its place");
	memset(metres, 0, sizeof metres);
	npy_publish(path, metres, 2, (int64_t[]){2, 3});
	bad_sample("plain", STATUS_DATA, "no valid depth", "depth without a valid pixel is refused");
	struct depth_options options = options_of("plain", "set", "one.txt");
	struct depth_dataset *data;
	if (!depth_open(&options, &data)) {
		check_status(depth_read_any(data, 0, &sample), 0, "unless it may be");
		check(valid_pixels(&sample) == 0, "and then its mask is empty");
		depth_sample_release(&sample);
		depth_close(data);
	}
	free(path);
	put_text("one.txt", "1.png 1.png\n");
	bad_sample("plain", STATUS_DATA, "1.png", "an 8-bit colour image as depth is refused");
	put_text("one.txt", "1.png none.png\n");
	bad_sample("plain", STATUS_NO_INPUT, "none.png", "a missing depth file is named");
	put_text("set/cut.png", "\x89PNG\r\n\x1a\n");
	put_text("one.txt", "cut.png d.png\n");
	bad_sample("plain", STATUS_DATA, "cut.png", "a truncated PNG is named");
}

static void test_modes_and_crops(void)
{
	struct depth_options options = options_of("kitti", "set", "big.txt");
	struct depth_sample sample;

	put_pair("set/big.png", "set/bigd.png", 1242, 375, 1, 1);
	put_text("big.txt", "big.png bigd.png\n");
	options.benchmark_crop = true;
	options.crop = DEPTH_CROP_GARG;
	if (check_status(read_one(options, &sample), 0, "KITTI with both crops")) {
		/* Pixel (0,0) is (23,13) of the file. */
		check(sample.height == 352 && sample.width == 1216, "has the benchmark's size");
		check(sample.depth[0] == (1 + 23 * 1242 + 13) / 256.0f, "from the bottom and the middle");
		check(sample.rgb[0] == (uint8_t)(23 * 1242 + 13), "in the image too");
		check(!sample.mask[142 * 1216 + 600] && sample.mask[143 * 1216 + 43] &&
				!sample.mask[143 * 1216 + 42] && !sample.mask[349 * 1216 + 600],
			"and Garg's window");
		depth_sample_release(&sample);
	}
	options.crop = DEPTH_CROP_EIGEN;
	options.depth_only = true;
	if (check_status(read_one(options, &sample), 0, "depth alone")) {
		check(!sample.rgb && sample.depth && valid_pixels(&sample) > 0, "has no image");
		check(!sample.mask[116 * 1216 + 600], "and Eigen's window");
		depth_sample_release(&sample);
	}
	options.depth_only = false, options.rgb_only = true;
	if (check_status(read_one(options, &sample), 0, "the image alone")) {
		check(sample.rgb && !sample.depth && !sample.mask && sample.height == 352,
			"has no depth, but the crop");
		depth_sample_release(&sample);
	}
	put_pair("set/vga.png", "set/vgad.png", 640, 480, 2000, 0);
	put_text("vga.txt", "vga.png vgad.png\n");
	options = options_of("nyu", "set", "vga.txt");
	options.maximum = 100, options.crop = DEPTH_CROP_EIGEN;
	if (check_status(read_one(options, &sample), 0, "NYU with its crop")) {
		check(valid_pixels(&sample) == 426 * 560 && sample.mask[45 * 640 + 41] &&
				!sample.mask[471 * 640 + 41],
			"is valid in rows 45 to 470, columns 41 to 600");
		depth_sample_release(&sample);
	}
}

static void test_names(void)
{
	static const char *const expected[][2] = {{"nyu", "test/k/pred_0001"},
		{"kitti", "test/k/pred_rgb_0001"}, {"plain", "test/k/pred_rgb_0001"}};

	put_text("names.txt", "test/k/rgb_0001.x.png d\n");
	for (int i = 0; i < 3; i++) {
		struct depth_options options = options_of(expected[i][0], "set", "names.txt");
		struct depth_dataset *data;
		char *stem, *prediction;

		if (!check_status(depth_open(&options, &data), 0, expected[i][0]))
			continue;
		stem = depth_stem(data, 0);
		prediction = depth_prediction_stem(data, 0);
		check_text(stem, "test/k/rgb_0001.x", "the stem has no suffix");
		check_report(text_starts(prediction, expected[i][1]), "the original's prediction name", "%s",
			prediction);
		free(stem);
		free(prediction);
		depth_close(data);
	}
}

/* ---- normaliser ---- */

static void test_normaliser(void)
{
	static const float four[] = {10, 1, 3, 2};
	static const float sky[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 655.35f};
	static const uint8_t mask[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
	static const float expected[] = {-1, -1, -0.8101852f, -0.5787037f, -0.3472222f, -0.1157407f,
		0.1157407f, 0.3472222f, 0.5787037f, 0.8101852f, 1, 1};
	static const float flat[] = {2, 2, 2};
	static const uint8_t none[3];
	float low, high, out[12];

	check_status(depth_quantiles(four, NULL, 4, 0.02, &low, &high), 0, "quantiles of four numbers");
	check_close(low, 1.06, 1e-6, "the low one");
	check_close(high, 9.58, 1e-6, "the high one");
	check_status(depth_normalise(sky, mask, 12, 0.02, true, out), 0, "depth with holes and sky");
	check_array(out, expected, 12, 2.4e-7, "is normalised as the original does");
	check_status(depth_normalise(sky, mask, 12, 0.02, false, out), 0, "with holes filled");
	check(out[0] == 1 && out[11] == 1 && out[1] == -1, "they are far");
	check_status(
		depth_normalise(flat, NULL, 3, 0.02, false, out), STATUS_DATA, "constant depth is refused");
	check_status(
		depth_normalise(flat, none, 3, 0.02, false, out), STATUS_DATA, "nothing valid is refused");
}

static void test_normaliser_golden(void)
{
	struct npy cases = {0};

	if (!check_status(npy_read("tests/golden/normalise.npy", &cases), 0, "read normalise.npy"))
		return;
	size_t size = (size_t)(cases.dim[2] * cases.dim[3]);
	uint8_t *mask = malloc(size);
	float *out = malloc(size * sizeof *out);
	for (int64_t k = 0; k < cases.dim[0]; k++) {
		const float *depth = cases.data + (size_t)k * 3 * size;

		for (size_t i = 0; i < size; i++)
			mask[i] = depth[size + i] != 0;
		check_status(
			depth_normalise(depth, mask, size, 0.02, true, out), 0, "a random map is normalised");
		check_array(out, depth + 2 * size, size, 2.4e-7, "as PyTorch's quantile does it");
	}
	free(mask);
	free(out);
	npy_release(&cases);
}

/* ---- resizing ---- */

static void test_resize_by_hand(void)
{
	static const float eight[] = {0, 10, 20, 30, 40, 50, 60, 70}, four[] = {0, 10, 40, 90};
	static const float small[][3] = {
		{11.05263f, 35, 58.94737f}, {8.964649f, 35, 61.03534f}, {10, 40, 60}};
	static const float large[][6] = {
		{0, 5, 15, 35, 65, 90}, {-0.657893f, 2.941177f, 13.61111f, 33.61111f, 68.23530f, 93.28948f}};
	static const uint8_t bytes[] = {0, 255, 0, 255, 255, 0, 1, 2};
	uint8_t out8[5];
	float out[6];

	for (int kind = 0; kind < 3; kind++) {
		resize_antialiased(eight, 1, 8, 1, (enum resize_kind)kind, out, 1, 3);
		check_array(out, small[kind], 3, 1e-6, "a row made smaller");
		resize_antialiased(eight, 8, 1, 1, (enum resize_kind)kind, out, 3, 1);
		check_array(out, small[kind], 3, 1e-6, "a column made smaller");
		if (kind < 2) {
			resize_antialiased(four, 1, 4, 1, (enum resize_kind)kind, out, 1, 6);
			check_array(out, large[kind], 6, 1e-6, "a row made larger");
		}
	}
	resize_antialiased_u8(bytes, 1, 8, 1, RESIZE_BILINEAR, out8, 1, 3);
	check(!memcmp(out8, (uint8_t[]){121, 164, 21}, 3), "bytes, bilinear");
	resize_antialiased_u8(bytes, 1, 8, 1, RESIZE_BICUBIC, out8, 1, 5);
	check(!memcmp(out8, (uint8_t[]){104, 110, 251, 36, 0}, 5), "bytes, bicubic, clamped");
}

static void test_resize_golden(void)
{
	static const int sizes[][2] = {{7, 11}, {19, 12}, {38, 62}, {5, 80}, {1, 1}};
	struct npy in = {0}, expected = {0};
	float out[38 * 62 * 3];
	size_t at = 0;

	if (check_status(npy_read("tests/golden/resize_in.npy", &in), 0, "read resize_in.npy") &&
		check_status(npy_read("tests/golden/resize_out.npy", &expected), 0, "read resize_out.npy"))
		for (int s = 0; s < 5; s++)
			for (int kind = 0; kind < 3; kind++) {
				int h = sizes[s][0], w = sizes[s][1];
				size_t size = (size_t)(h * w * 3);

				resize_antialiased(in.data, 19, 31, 3, (enum resize_kind)kind, out, h, w);
				check_array(out, expected.data + at, size, kind == 2 ? 0 : 2e-6,
					"as PyTorch resizes");
				at += size;
			}
	check(at == expected.count, "all rasters were compared");
	npy_release(&in);
	npy_release(&expected);
}

static void test_nearest_golden(void)
{
	static const int pairs[][2] = {{768, 480}, {1024, 640}, {480, 96}, {1242, 1216}, {7, 3}, {14, 3},
		{3, 14}, {375, 352}, {1000, 999}};
	struct npy expected = {0};
	float in[1242], out[1242];
	size_t at = 0;

	if (!check_status(npy_read("tests/golden/nearest.npy", &expected), 0, "read nearest.npy"))
		return;
	for (int i = 0; i < 1242; i++)
		in[i] = (float)i;
	for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
		resize_nearest_f32(in, 1, pairs[p][0], out, 1, pairs[p][1]);
		check_array(out, expected.data + at, (size_t)pairs[p][1], 0, "nearest-exact sources");
		at += (size_t)pairs[p][1];
	}
	check(at == expected.count, "all pairs were compared");
	npy_release(&expected);
}

static void test_sample_changes(void)
{
	uint8_t *rgb = calloc(6, 3), *mask = calloc(6, 1);
	float *depth = calloc(6, sizeof *depth);
	struct depth_sample sample = {3, 2, rgb, depth, mask};

	for (int i = 0; i < 6; i++)
		rgb[3 * i] = (uint8_t)i, depth[i] = (float)i, mask[i] = i % 2 == 0;
	depth_sample_flip(&sample);
	check(rgb[0] == 2 && rgb[3] == 1 && rgb[6] == 0 && depth[3] == 5 && mask[0] == 1 && mask[3] == 0,
		"a sample is mirrored");
	check_status(depth_sample_resize(&sample, 4, 6, true), 0, "and resized");
	check(sample.width == 6 && sample.height == 4 && sample.depth[0] == 2 && sample.depth[7] == 2 &&
			sample.depth[2] == 1,
		"depth by the nearest pixel");
	depth_sample_release(&sample);
}

/* ---- scenes ---- */

/* The pixels of three scenes, by digests taken once: another machine or compiler must give the same bytes. */
static void test_scenes(void)
{
	static const struct {
		uint64_t seed;
		uint32_t index;
		int height, width;
		uint32_t rgb, depth;
	} expected[] = {{1, 0, 96, 128, 0x04107fad, 0x2c8f42f0}, {1, 439, 96, 128, 0x82bb41a4, 0x7448c112},
		{77, 12345, 61, 83, 0x10fcfa94, 0xc8fbc6dc}};
	static uint8_t rgb[96 * 128 * 3];
	static float depth[96 * 128];

	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		size_t pixels = (size_t)(expected[i].height * expected[i].width);

		scene_render(expected[i].seed, expected[i].index, expected[i].height, expected[i].width, rgb,
			depth);
		uint32_t a = crc32c(0, rgb, pixels * 3), b = crc32c(0, depth, pixels * sizeof *depth);
		check_report(a == expected[i].rgb && b == expected[i].depth,
			"a scene has the same pixels everywhere", "0x%08x, 0x%08x", a, b);
	}
}

/* On a plane 1/z is affine in the image, for z-depth alone (not for the length of the ray). Most of a room is planes. */
static void test_scene_depth(void)
{
	static uint8_t rgb[96 * 128 * 3];
	static float depth[96 * 128];
	size_t flat = 0, all = 0;

	for (uint32_t index = 0; index < 8; index++) {
		scene_render(1, index, 96, 128, rgb, depth);
		for (int y = 0; y < 96; y++)
			for (int x = 1; x < 127; x++, all++) {
				const float *z = depth + y * 128 + x;

				flat += fabs(1.0 / z[-1] - 2.0 / z[0] + 1.0 / z[1]) < 1e-6;
			}
	}
	check_report(
		flat > all * 8 / 10, "scene depth is z-depth", "%zu of %zu pixels lie on planes", flat, all);
}

int main(void)
{
	error_program("depth");
	test_lists();
	test_kitti_list();
	test_discovery();
	test_integers();
	test_pgm_and_npy();
	test_modes_and_crops();
	test_names();
	test_normaliser();
	test_normaliser_golden();
	test_resize_by_hand();
	test_resize_golden();
	test_nearest_golden();
	test_sample_changes();
	test_scenes();
	test_scene_depth();
	return check_summary();
}
