/* Files that hold one float a pixel: depth in 16-bit integers or numpy arrays, and predictions in both. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/depth_layout.h"
#include "file/image.h"
#include "file/npy.h"

/* Height and width of [H,W], [1,H,W] or [H,W,1]. */
static int npy_size(const char *path, const struct npy *array, struct depth_raster *raster)
{
	const int64_t *dim = array->dim;

	if (array->dims == 3 && dim[0] == 1)
		dim++;
	else if (array->dims != 2 && !(array->dims == 3 && dim[2] == 1))
		return error_set(STATUS_DATA, "%s: the array is not [height,width]", path);
	if (dim[0] < 1 || dim[1] < 1 || array->count > IMAGE_LIMIT)
		return error_set(
			STATUS_DATA, "%s: bad size %lldx%lld", path, (long long)dim[1], (long long)dim[0]);
	raster->height = (int)dim[0];
	raster->width = (int)dim[1];
	return STATUS_OK;
}

/* Takes the array's memory over. */
static int decode_npy(const char *path, const char *data, size_t bytes, const struct depth_coding *coding,
	struct depth_raster *raster)
{
	struct npy array = {0};
	int status = npy_decode(path, data, bytes, &array);

	if (!status)
		status = npy_size(path, &array, raster);
	if (!status) {
		raster->value = array.data;
		raster->floats = true;
		array.data = NULL;
		if (coding->float_scale != 1)
			for (size_t i = 0; i < array.count; i++)
				raster->value[i] = (float)(raster->value[i] / coding->float_scale);
	}
	npy_release(&array);
	return status;
}

/* The division is in double, then rounded, as the original does it. */
static int decode_integers(const char *path, const char *data, size_t bytes,
	const struct depth_coding *coding, struct depth_raster *raster)
{
	struct image image = {0};
	int status = image_decode_depth16(path, data, bytes, &image);
	size_t count = (size_t)image.height * (size_t)image.width;
	const uint16_t *stored = image.data;
	double scale = coding->integer_scale;

	if (!status) {
		raster->value = memory_new(count, sizeof *raster->value);
		status = raster->value ? STATUS_OK : error_status();
	}
	if (!status) {
		raster->height = image.height;
		raster->width = image.width;
#pragma omp simd
		for (size_t i = 0; i < count; i++)
			raster->value[i] = (float)(stored[i] / scale);
		if (coding->full_scale_invalid)
			for (size_t i = 0; i < count; i++)
				raster->value[i] = stored[i] == 65535 ? 0 : raster->value[i];
	}
	image_release(&image);
	return status;
}

int depth_raster_decode(const char *path, const void *data, size_t bytes, const struct depth_coding *coding,
	struct depth_raster *raster)
{
	*raster = (struct depth_raster){0};
	return (text_ends(path, ".npy") || (bytes > 6 && memcmp(data, "\x93NUMPY", 6) == 0)
			? decode_npy
			: decode_integers)(path, data, bytes, coding, raster);
}

int depth_prediction_read(const char *path, int *height, int *width, float **value)
{
	static const struct depth_coding coding = {.integer_scale = 65535, .float_scale = 1};
	struct depth_raster raster = {0};
	char *data = NULL;
	size_t bytes = 0;
	int status = file_read_regular(path, DEPTH_FILE_LIMIT, &data, &bytes);

	if (!status)
		status = depth_raster_decode(path, data, bytes, &coding, &raster);
	free(data);
	*height = raster.height;
	*width = raster.width;
	*value = raster.value;
	return status;
}
