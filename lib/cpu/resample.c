/* Nearest upsampling: out[i] = x[floor(i * in / out)] in height and width. */
#include <string.h>

#include "cpu/device.h"

/* Sizes of an upsampling from `small` to `large`, both [N,H,W,C]. */
struct resample {
	int64_t images, height, width, out_height, out_width, channels;
};

static struct resample resample_sizes(const struct tensor *small, const struct tensor *large)
{
	return (struct resample){
		small->dim[0], small->dim[1], small->dim[2], large->dim[1], large->dim[2], small->dim[3]};
}

void cpu_upsample(const struct cpu_device *device, const struct call *call)
{
	const struct resample s = resample_sizes(call->in[0], call->out[0]);
	const float *x = call->in_data[0];
	float *y = call->out_data[0];
	const size_t pixel = (size_t)s.channels * sizeof *y;
#pragma omp parallel for num_threads(cpu_team(device, (double)call->out[0]->elements)) schedule(dynamic)
	for (int64_t row = 0; row < s.images * s.out_height; row++) {
		int64_t image = row / s.out_height, from = row % s.out_height * s.height / s.out_height;
		const float *line = x + (image * s.height + from) * s.width * s.channels;
		float *out = y + row * s.out_width * s.channels;
		for (int64_t w = 0; w < s.out_width; w++)
			memcpy(out + w * s.channels, line + w * s.width / s.out_width * s.channels, pixel);
	}
}

/* First i of the larger side whose source is `from` or more. */
static int64_t first_of(int64_t from, int64_t in, int64_t out)
{
	return divide_up(from * out, in);
}

/* Adds the gradients of the output pixels whose source is (row, w), in order. */
static void gather_pixel(const struct cpu_device *device, const struct resample *s, float *dx,
	const float *dy, int64_t row, int64_t w, bool accumulate)
{
	const int64_t end_row = first_of(row + 1, s->height, s->out_height);
	const int64_t start = first_of(w, s->width, s->out_width),
		      end = first_of(w + 1, s->width, s->out_width);
	if (!accumulate)
		memset(dx, 0, (size_t)s->channels * sizeof *dx);
	for (int64_t h = first_of(row, s->height, s->out_height); h < end_row; h++)
		for (int64_t v = start; v < end; v++)
			device->kernels->add(dx, dx, dy + (h * s->out_width + v) * s->channels, s->channels);
}

void cpu_upsample_backward(const struct cpu_device *device, const struct call *call)
{
	const struct resample s = resample_sizes(call->out[0], call->in[0]);
	const float *dy = call->in_data[0];
	float *dx = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, (double)call->in[0]->elements)) schedule(dynamic)
	for (int64_t row = 0; row < s.images * s.height; row++) {
		const float *from = dy + row / s.height * s.out_height * s.out_width * s.channels;
		float *line = dx + row * s.width * s.channels;
		for (int64_t w = 0; w < s.width; w++)
			gather_pixel(device, &s, line + w * s.channels, from, row % s.height, w,
				accumulates(call, 0));
	}
}
