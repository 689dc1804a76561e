/* Bilinear and bicubic resizing, half-pixel centres, as PyTorch's interpolate() has them. */
#include <math.h>

#include "cpu/device.h"

#define TAPS 4

/* Neighbours of an output along one axis and their weights; bilinear uses two. */
struct taps {
	int64_t at[TAPS];
	float weight[TAPS];
	int count;
};

/* Cubic convolution with a = -0.75 (Keys 1981): near and far neighbours at distance x. */
static double near_weight(double x)
{
	const double a = -0.75;
	return ((a + 2) * x - (a + 3)) * x * x + 1;
}

static double far_weight(double x)
{
	const double a = -0.75;
	return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static struct taps taps_of(enum resize kind, int64_t out, int64_t size, int64_t out_size)
{
	double centre = ((double)out + 0.5) * (double)size / (double)out_size - 0.5;
	if (kind == RESIZE_BILINEAR && centre < 0)
		centre = 0;
	const int64_t first = (int64_t)floor(centre);
	const double part = centre - (double)first;
	struct taps taps = {.count = kind == RESIZE_BILINEAR ? 2 : 4};
	const double cubic[TAPS] = {
		far_weight(part + 1), near_weight(part), near_weight(1 - part), far_weight(2 - part)};
	for (int k = 0; k < taps.count; k++) {
		const int64_t at = kind == RESIZE_BILINEAR ? first + k : first + k - 1;
		taps.at[k] = larger(0, smaller(size - 1, at));
		taps.weight[k] = (float)(kind == RESIZE_BILINEAR ? k ? part : 1 - part : cubic[k]);
	}
	return taps;
}

static void resize_row(void *context, int64_t row, int thread)
{
	const struct cpu_job *job = context;
	const struct tensor *x = job->call->in[0], *y = job->call->out[0];
	const int64_t channels = x->dim[3];
	const struct taps rows = taps_of(job->call->node->resize, row % y->dim[1], x->dim[1], y->dim[1]);
	const float *image =
		(const float *)job->call->in_data[0] + row / y->dim[1] * x->dim[1] * x->dim[2] * channels;
	(void)thread;
	for (int64_t w = 0; w < y->dim[2]; w++) {
		const struct taps columns = taps_of(job->call->node->resize, w, x->dim[2], y->dim[2]);
		float *out = (float *)job->call->out_data[0] + (row * y->dim[2] + w) * channels;
		for (int64_t c = 0; c < channels; c++) {
			double sum = 0;
			for (int r = 0; r < rows.count; r++) {
				const float *line = image + rows.at[r] * x->dim[2] * channels + c;
				double part = 0;
				for (int k = 0; k < columns.count; k++)
					part += (double)columns.weight[k] * line[columns.at[k] * channels];
				sum += rows.weight[r] * part;
			}
			out[c] = (float)sum;
		}
	}
}

void cpu_resize(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 16.0 * (double)call->out[0]->elements, call->out[0]->dim[0] * call->out[0]->dim[1],
		resize_row, &job);
}
