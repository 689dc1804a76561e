/* NYU depth v2, as the original project packs it: SPLIT/ROOM_NNNN/{rgb,depth,filled}_NNNN.png, millimetres.
 */
#include <string.h>

#include "base/error.h"
#include "data/depth_layout.h"

static int nyu_crop(enum depth_crop crop, int height, int width, struct depth_window *window)
{
	if (crop != DEPTH_CROP_EIGEN)
		return error_set(STATUS_CONFIG, "layout nyu has no crop garg (use eigen or none)");
	if (height != 480 || width != 640)
		return error_set(STATUS_DATA, "the eigen crop of layout nyu is for 640x480 pixels, not %dx%d",
			width, height);
	*window = (struct depth_window){45, 471, 41, 601};
	return STATUS_OK;
}

/* pred_ + the second field between underscores. */
static void nyu_prediction(const char *base, struct text *name)
{
	const char *field = strchr(base, '_');
	size_t length = 0;

	if (field) {
		field++;
		length = strcspn(field, "_.");
	}
	text_add(name, "pred_");
	text_append(name, field ? field : base, field ? length : depth_stem_length(base));
}

const struct depth_layout depth_layout_nyu = {
	.name = "nyu",
	.scale = 1000,
	.minimum = 1e-3,
	.maximum = 10,
	.columns = 2,
	.columns_rgb_only = 1,
	.pair = depth_pair_siblings,
	.crop = nyu_crop,
	.prediction = nyu_prediction,
};
