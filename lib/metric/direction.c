#include "metric/direction.h"

#include <stddef.h>

#include "base/text.h"

bool metric_larger_is_better(const char *name)
{
	static const char *const patterns[] = {"delta*", "*acc*", "*top*", "*psnr*", "*ssim*", "*precision*",
		"*recall*", "*map", "*iou*", "*f1*"};

	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (text_match(patterns[i], name))
			return true;
	return false;
}
