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

static void upsample_row(void *context, int64_t row, int thread)
{
	const struct cpu_job *job = context;
	const struct resample s = resample_sizes(job->call->in[0], job->call->out[0]);
	const int64_t image = row / s.out_height, from = row % s.out_height * s.height / s.out_height;
	const float *line =
		(const float *)job->call->in_data[0] + (image * s.height + from) * s.width * s.channels;
	float *out = (float *)job->call->out_data[0] + row * s.out_width * s.channels;
	(void)thread;
	for (int64_t w = 0; w < s.out_width; w++)
		memcpy(out + w * s.channels, line + w * s.width / s.out_width * s.channels,
			(size_t)s.channels * sizeof *out);
}

void cpu_upsample(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements, call->out[0]->dim[0] * call->out[0]->dim[1],
		upsample_row, &job);
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

static void gather_row(void *context, int64_t row, int thread)
{
	const struct cpu_job *job = context;
	const struct resample s = resample_sizes(job->call->out[0], job->call->in[0]);
	const float *dy = (const float *)job->call->in_data[0] +
			  row / s.height * s.out_height * s.out_width * s.channels;
	float *dx = (float *)job->call->out_data[0] + row * s.width * s.channels;
	(void)thread;
	for (int64_t w = 0; w < s.width; w++)
		gather_pixel(job->device, &s, dx + w * s.channels, dy, row % s.height, w,
			accumulates(job->call, 0));
}

void cpu_upsample_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, call->out[0]->dim[0] * call->out[0]->dim[1],
		gather_row, &job);
}
