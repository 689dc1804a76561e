/* The table of layouts; opening a dataset and reading its samples. */
#include "data/depth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/depth_layout.h"
#include "file/image.h"

static const struct depth_layout *const layouts[] = {
	&depth_layout_plain, &depth_layout_nyu, &depth_layout_kitti};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct depth_dataset {
	struct depth_options options; /* texts owned */
	const struct depth_layout *layout;
	struct source *source;
	struct depth_entries entries;
};

void depth_sample_release(struct depth_sample *sample)
{
	free(sample->rgb);
	free(sample->depth);
	free(sample->mask);
	*sample = (struct depth_sample){0};
}

const char *const depth_crop_names[3] = {"none", "eigen", "garg"};

int depth_crop_find(const char *name)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(name, depth_crop_names[i]) == 0)
			return i;
	return -1;
}

/* ---- opening ---- */

static int find_layout(const char *name, const struct depth_layout **layout)
{
	for (size_t i = 0; i < LAYOUTS; i++)
		if (strcmp(layouts[i]->name, name) == 0) {
			*layout = layouts[i];
			return STATUS_OK;
		}
	return error_set(STATUS_CONFIG, "unknown layout %s (plain, nyu or kitti)", name);
}

static int copy_options(struct depth_options *to, const struct depth_options *from)
{
	*to = *from;
	to->name = memory_text(from->name ? from->name : "");
	to->layout = memory_text(from->layout ? from->layout : "");
	to->path = memory_text(from->path ? from->path : "");
	to->list = memory_text(from->list ? from->list : "");
	return to->name && to->layout && to->path && to->list ? STATUS_OK : error_status();
}

static int check_options(struct depth_dataset *dataset)
{
	struct depth_options *options = &dataset->options;
	struct depth_window window;

	if (options->minimum == 0 && options->maximum == 0) {
		options->minimum = dataset->layout->minimum;
		options->maximum = dataset->layout->maximum;
	}
	if (options->maximum == 0)
		options->maximum = dataset->layout->maximum;
	if (!(options->minimum < options->maximum))
		return error_set(STATUS_CONFIG, "the valid range %g to %g m is empty", options->minimum,
			options->maximum);
	/* A crop of its own size is tested on that size, to learn whether the layout has the crop at all. */
	if (options->crop != DEPTH_CROP_NONE && dataset->layout->crop(options->crop, 480, 640, &window))
		return error_status();
	return STATUS_OK;
}

int depth_open(const struct depth_options *options, struct depth_dataset **dataset)
{
	struct depth_dataset *opened = memory_new(1, sizeof *opened);
	int status;

	*dataset = NULL;
	if (!opened)
		return error_status();
	status = copy_options(&opened->options, options);
	if (!status)
		status = find_layout(opened->options.layout, &opened->layout);
	if (!status)
		status = check_options(opened);
	if (!status)
		status = source_open(opened->options.path, &opened->source);
	if (!status)
		status = *opened->options.list
				 ? depth_entries_read(opened->layout, &opened->options, &opened->entries)
				 : depth_entries_discover(opened->layout, &opened->options, opened->source,
					   &opened->entries);
	if (status) {
		if (*opened->options.name)
			error_prefix("dataset %s", opened->options.name);
		depth_close(opened);
		return status;
	}
	*dataset = opened;
	return STATUS_OK;
}

void depth_close(struct depth_dataset *dataset)
{
	if (!dataset)
		return;
	depth_entries_release(&dataset->entries);
	source_close(dataset->source);
	free((char *)dataset->options.name);
	free((char *)dataset->options.layout);
	free((char *)dataset->options.path);
	free((char *)dataset->options.list);
	free(dataset);
}

size_t depth_count(const struct depth_dataset *dataset)
{
	return dataset->entries.count;
}

size_t depth_dropped(const struct depth_dataset *dataset)
{
	return dataset->entries.dropped;
}

const char *depth_name(const struct depth_dataset *dataset, size_t i)
{
	return dataset->entries.item[i].rgb;
}

char *depth_stem(const struct depth_dataset *dataset, size_t i)
{
	struct text stem = {0};

	text_append(&stem, depth_name(dataset, i), depth_stem_length(depth_name(dataset, i)));
	return text_take(&stem);
}

char *depth_prediction_stem(const struct depth_dataset *dataset, size_t i)
{
	const char *name = depth_name(dataset, i), *base = path_base(name);
	struct text stem = {0};

	text_append(&stem, name, (size_t)(base - name));
	dataset->layout->prediction(base, &stem);
	return text_take(&stem);
}

static int compare_stems(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	size_t length_x = depth_stem_length(x), length_y = depth_stem_length(y);
	int order = memcmp(x, y, length_x < length_y ? length_x : length_y);

	return order ? order : (length_x > length_y) - (length_x < length_y);
}

int depth_check_stems(const struct depth_dataset *dataset)
{
	size_t count = depth_count(dataset);
	const char **names = memory_new(count, sizeof *names);
	int status = names ? STATUS_OK : error_status();

	for (size_t i = 0; i < count && !status; i++)
		names[i] = depth_name(dataset, i);
	if (!status)
		qsort(names, count, sizeof *names, compare_stems);
	for (size_t i = 1; i < count && !status; i++)
		if (!compare_stems(&names[i - 1], &names[i]) && strcmp(names[i - 1], names[i]))
			status = error_set(STATUS_DATA,
				"%s: %s and %s would have one prediction; rename one, or list one of them",
				dataset->options.path, names[i - 1], names[i]);
	free(names);
	return status;
}

void depth_range(const struct depth_dataset *dataset, double *minimum, double *maximum)
{
	*minimum = dataset->options.minimum;
	*maximum = dataset->options.maximum;
}

/* Infinity is "nothing measured" in some datasets; NaN comes from broken conversions as often as from holes. */
static int check_floats(const char *path, struct depth_raster *raster)
{
	size_t width = (size_t)raster->width, count = (size_t)raster->height * width;

	for (size_t i = 0; i < count; i++) {
		if (isnan(raster->value[i]))
			return error_set(STATUS_DATA,
				"%s: NaN at row %zu, column %zu (write 0 where nothing was measured)", path,
				i / width, i % width);
		if (isinf(raster->value[i]))
			raster->value[i] = 0;
	}
	return STATUS_OK;
}

static int read_depth(
	const struct depth_dataset *dataset, const char *name, const char *path, struct depth_raster *raster)
{
	double given = dataset->options.scale;
	struct depth_coding coding = {
		.integer_scale = given > 0 ? given : dataset->layout->scale,
		.float_scale = given > 0 ? given : 1,
		.full_scale_invalid = dataset->layout->full_scale_invalid,
	};
	char *data = NULL;
	size_t bytes = 0;
	int status = source_read(dataset->source, name, DEPTH_FILE_LIMIT, &data, &bytes);

	if (!status)
		status = depth_raster_decode(path, data, bytes, &coding, raster);
	free(data);
	return status || !raster->floats ? status : check_floats(path, raster);
}

/* ---- samples ---- */

/* Moves the window to the front of the raster; `size` is bytes a pixel. */
static void crop_rows(void *raster, int width, size_t size, const struct depth_window *window)
{
	size_t row = (size_t)(window->right - window->left) * size;
	char *to = raster;

	for (int y = window->top; y < window->bottom; y++, to += row)
		memmove(to, (char *)raster + ((size_t)y * (size_t)width + (size_t)window->left) * size, row);
}

static int apply_window(const struct depth_dataset *dataset, const char *path, struct depth_sample *sample)
{
	struct depth_window window;
	int width = sample->width;

	if (!dataset->layout->window)
		return STATUS_OK;
	if (dataset->layout->window(&dataset->options, sample->height, width, &window))
		return error_prefix("%s", path);
	if (sample->rgb)
		crop_rows(sample->rgb, width, 3, &window);
	if (sample->depth)
		crop_rows(sample->depth, width, sizeof *sample->depth, &window);
	sample->height = window.bottom - window.top;
	sample->width = window.right - window.left;
	return STATUS_OK;
}

/* The valid range is compared in float32 as the original does (1 mm is not above 1e-3 m). *valid counts. */
static int make_mask(
	const struct depth_dataset *dataset, const char *path, struct depth_sample *sample, size_t *valid)
{
	float minimum = (float)dataset->options.minimum, maximum = (float)dataset->options.maximum;
	struct depth_window window = {0, sample->height, 0, sample->width};
	size_t width = (size_t)sample->width, count = 0;

	sample->mask = memory_new((size_t)sample->height * width, 1);
	if (!sample->mask)
		return error_status();
	if (dataset->options.crop != DEPTH_CROP_NONE &&
		dataset->layout->crop(dataset->options.crop, sample->height, sample->width, &window))
		return error_prefix("%s", path);
	for (int y = window.top; y < window.bottom; y++) {
		const float *depth = sample->depth + (size_t)y * width;
		uint8_t *mask = sample->mask + (size_t)y * width;
		unsigned row = 0;

#pragma omp simd reduction(+ : row)
		for (int x = window.left; x < window.right; x++) {
			mask[x] = (depth[x] > minimum) & (depth[x] < maximum);
			row += mask[x];
		}
		count += row;
	}
	*valid = count;
	return STATUS_OK;
}

static int read_image(
	const struct depth_dataset *dataset, const char *name, const char *path, struct depth_sample *sample)
{
	struct image image = {0};
	char *data = NULL;
	size_t bytes = 0;
	int status = source_read(dataset->source, name, DEPTH_FILE_LIMIT, &data, &bytes);

	if (!status)
		status = image_decode_rgb(path, data, bytes, &image);
	free(data);

	if (status)
		return status;
	sample->width = image.width;
	sample->height = image.height;
	sample->rgb = image.data;
	return STATUS_OK;
}

static int join_depth(const struct depth_dataset *dataset, const char *rgb, const char *name,
	const char *path, struct depth_sample *sample)
{
	struct depth_raster raster = {0};
	int status = read_depth(dataset, name, path, &raster);

	if (!status && sample->rgb && (raster.width != sample->width || raster.height != sample->height))
		status = error_set(STATUS_DATA, "%s: %dx%d pixels, but %s has %dx%d", path, raster.width,
			raster.height, rgb, sample->width, sample->height);
	if (status) {
		free(raster.value);
		return status;
	}
	sample->width = raster.width;
	sample->height = raster.height;
	sample->depth = raster.value;
	return STATUS_OK;
}

static int read_sample(
	const struct depth_dataset *dataset, size_t i, struct depth_sample *sample, size_t *valid)
{
	const struct depth_options *options = &dataset->options;
	char *rgb = path_join(options->path, dataset->entries.item[i].rgb);
	char *depth = path_join(options->path, dataset->entries.item[i].depth);
	int status = rgb && depth ? STATUS_OK : error_status();

	if (!status && !options->depth_only)
		status = read_image(dataset, dataset->entries.item[i].rgb, rgb, sample);
	if (!status && !options->rgb_only)
		status = join_depth(dataset, rgb, dataset->entries.item[i].depth, depth, sample);
	if (!status)
		status = apply_window(dataset, options->rgb_only ? rgb : depth, sample);
	if (!status && !options->rgb_only)
		status = make_mask(dataset, depth, sample, valid);
	free(rgb);
	free(depth);
	return status;
}

static int nothing_valid(const struct depth_dataset *dataset, size_t i)
{
	const struct depth_options *options = &dataset->options;

	return error_set(STATUS_DATA, "%s/%s: no valid depth (between %g and %g m%s)", options->path,
		dataset->entries.item[i].depth, options->minimum, options->maximum,
		options->crop == DEPTH_CROP_NONE ? "" : ", inside the crop");
}

int depth_read_any(const struct depth_dataset *dataset, size_t i, struct depth_sample *sample)
{
	size_t valid = 0;
	int status;

	*sample = (struct depth_sample){0};
	status = read_sample(dataset, i, sample, &valid);
	if (status)
		depth_sample_release(sample);
	return status;
}

int depth_read(const struct depth_dataset *dataset, size_t i, struct depth_sample *sample)
{
	size_t valid = 0;
	int status;

	*sample = (struct depth_sample){0};
	status = read_sample(dataset, i, sample, &valid);
	if (!status && !dataset->options.rgb_only && !valid)
		status = nothing_valid(dataset, i);
	if (status)
		depth_sample_release(sample);
	return status;
}

int depth_error_prefix(const struct depth_dataset *dataset, size_t i)
{
	const char *root = dataset->options.path;

	return error_prefix("%s%s%s", root, text_ends(root, "/") ? "" : "/", dataset->entries.item[i].depth);
}

/* ---- missing files ---- */

static int count_missing(const struct source *source, const char *name, size_t *count, char **first)
{
	enum source_kind kind;
	int status = source_look(source, name, &kind);

	if (status || kind != SOURCE_NOTHING)
		return status;
	if ((*count)++ == 0)
		*first = source_name(source, name);
	return *first ? STATUS_OK : error_status();
}

int depth_missing(const struct depth_dataset *dataset, size_t *count, char **first)
{
	const struct depth_options *options = &dataset->options;
	int status = STATUS_OK;

	*count = 0;
	*first = NULL;
	for (size_t i = 0; !status && i < dataset->entries.count; i++) {
		if (!options->depth_only)
			status = count_missing(dataset->source, dataset->entries.item[i].rgb, count, first);
		if (!status && !options->rgb_only)
			status = count_missing(dataset->source, dataset->entries.item[i].depth, count, first);
	}
	if (status) {
		free(*first);
		*first = NULL;
	}
	return status;
}
