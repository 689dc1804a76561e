/* The plain layout: pairs of an image and a depth file, in lists or found by their names (data/depth.h). */
#include <string.h>

#include "data/depth_layout.h"

/* The first directory `rgb` of the path becomes `depth`. */
static bool pair_directories(const char *rgb, struct text *depth)
{
	for (const char *part = rgb; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, "rgb/", 4) != 0)
			continue;
		text_append(depth, rgb, (size_t)(part - rgb));
		text_add(depth, "depth");
		text_append(depth, part + 3, depth_stem_length(rgb) - (size_t)(part + 3 - rgb));
		return true;
	}
	return false;
}

static bool plain_pair(const char *rgb, struct text *depth)
{
	return pair_directories(rgb, depth) || depth_pair_siblings(rgb, depth);
}

const struct depth_layout depth_layout_plain = {
	.name = "plain",
	.scale = 1000,
	.minimum = 1e-3,
	.maximum = 80,
	.columns = 2,
	.columns_rgb_only = 1,
	.full_scale_invalid = true,
	.pair = plain_pair,
	.crop = depth_crop_fractions,
	.prediction = depth_prediction_id,
};
