/*
 * KITTI depth: raw drives beside the depth benchmark's ground truth, metres x 256, sparse. The benchmark crop
 * keeps 352 rows from the bottom and 1216 columns from the middle; the evaluation crops are fractions of what
 * is left (Garg, Eigen).
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/depth_layout.h"

enum { KITTI_HEIGHT = 352, KITTI_WIDTH = 1216 };

/* [SPLIT/]DATE/DRIVE/image_0C/data/N -> [SPLIT/]DRIVE/proj_depth/groundtruth/image_0C/N */
static bool pair_drives(const char *rgb, struct text *depth)
{
	const char *drive = strstr(rgb, "_drive_");
	const char *data = strstr(rgb, "/data/");
	const char *camera, *date;

	if (!drive || !data || drive > data)
		return false;
	while (drive > rgb && drive[-1] != '/')
		drive--;
	for (camera = data; camera > drive && camera[-1] != '/';)
		camera--;
	if (drive == rgb || camera == drive || strncmp(camera, "image_0", 7) != 0)
		return false;
	for (date = drive - 1; date > rgb && date[-1] != '/';)
		date--;
	text_append(depth, rgb, (size_t)(date - rgb));
	text_append(depth, drive, (size_t)(camera - drive));
	text_add(depth, "proj_depth/groundtruth/");
	text_append(depth, camera, (size_t)(data - camera));
	text_append(depth, data + 5, depth_stem_length(rgb) - (size_t)(data + 5 - rgb));
	return true;
}

static bool kitti_pair(const char *rgb, struct text *depth)
{
	return pair_drives(rgb, depth) || depth_pair_siblings(rgb, depth);
}

static int kitti_window(
	const struct depth_options *options, int height, int width, struct depth_window *window)
{
	*window = (struct depth_window){0, height, 0, width};
	if (!options->benchmark_crop)
		return STATUS_OK;
	if (height < KITTI_HEIGHT || width < KITTI_WIDTH)
		return error_set(STATUS_DATA, "%dx%d pixels are too few for the benchmark crop of %dx%d",
			width, height, KITTI_WIDTH, KITTI_HEIGHT);
	window->top = height - KITTI_HEIGHT;
	window->left = (width - KITTI_WIDTH) / 2;
	window->right = window->left + KITTI_WIDTH;
	return STATUS_OK;
}

int depth_crop_fractions(enum depth_crop crop, int height, int width, struct depth_window *window)
{
	if (crop == DEPTH_CROP_GARG)
		*window = (struct depth_window){(int)(0.40810811 * height), (int)(0.99189189 * height),
			(int)(0.03594771 * width), (int)(0.96405229 * width)};
	else
		*window = (struct depth_window){(int)(0.3324324 * height), (int)(0.91351351 * height),
			(int)(0.0359477 * width), (int)(0.96405229 * width)};
	return STATUS_OK;
}

const struct depth_layout depth_layout_kitti = {
	.name = "kitti",
	.scale = 256,
	.minimum = 1e-5,
	.maximum = 80,
	.columns = 2,
	.columns_rgb_only = 2,
	.none_rows = true,
	.pair = kitti_pair,
	.window = kitti_window,
	.crop = depth_crop_fractions,
	.prediction = depth_prediction_id,
};
