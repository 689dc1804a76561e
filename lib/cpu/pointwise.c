/* Element-wise operations, channel broadcasts, concatenation, the timestep embedding. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

#define PIECE 16384 /* elements dealt out at a time */

/* Cost of one element, in simple operations, for cpu_team(). */
#define TRANSCENDENTAL 8.0

void cpu_activation(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	const float *x = call->in_data[0];
	float *y = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, TRANSCENDENTAL *(double)count)) schedule(dynamic)
	for (int64_t i = 0; i < count; i += PIECE)
		device->kernels->activation(call->node->activation, y + i, x + i, smaller(PIECE, count - i),
			accumulates(call, 0));
}

void cpu_activation_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	const float *x = call->in_data[0], *dy = call->in_data[1];
	float *dx = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, TRANSCENDENTAL *(double)count)) schedule(dynamic)
	for (int64_t i = 0; i < count; i += PIECE)
		device->kernels->activation_backward(call->node->activation, dx + i, x + i, dy + i,
			smaller(PIECE, count - i), accumulates(call, 0));
}

void cpu_geglu(const struct cpu_device *device, const struct call *call)
{
	const int64_t width = last_dim(call->out[0]), rows = row_count(call->out[0]);
	const int64_t block = larger(1, PIECE / width);
	const float *x = call->in_data[0];
	float *y = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, TRANSCENDENTAL *(double)(rows * width)))               \
	schedule(dynamic)
	for (int64_t r = 0; r < rows; r += block)
		device->kernels->geglu(y + r * width, x + 2 * r * width, smaller(block, rows - r), width,
			accumulates(call, 0));
}

void cpu_geglu_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t width = last_dim(call->in[1]), rows = row_count(call->in[1]);
	const int64_t block = larger(1, PIECE / width);
	const float *x = call->in_data[0], *dy = call->in_data[1];
	float *dx = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, TRANSCENDENTAL *(double)(rows * width)))               \
	schedule(dynamic)
	for (int64_t r = 0; r < rows; r += block)
		device->kernels->geglu_backward(dx + 2 * r * width, x + 2 * r * width, dy + r * width,
			smaller(block, rows - r), width, accumulates(call, 0));
}

void cpu_add(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	const float *a = call->in_data[0], *b = call->in_data[1];
	float *y = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, (double)count)) schedule(dynamic)
	for (int64_t i = 0; i < count; i += PIECE) {
		int64_t some = smaller(PIECE, count - i);
		if (accumulates(call, 0)) {
			device->kernels->add(y + i, y + i, a + i, some);
			device->kernels->add(y + i, y + i, b + i, some);
		} else {
			device->kernels->add(y + i, a + i, b + i, some);
		}
	}
}

/* Rows of `width` elements between two strides: to (+)= from. */
static void copy_rows(const struct cpu_device *device, float *to, int64_t to_stride, const float *from,
	int64_t from_stride, int64_t rows, int64_t width, bool accumulate)
{
	const int64_t block = larger(1, PIECE / width);
#pragma omp parallel for num_threads(cpu_team(device, (double)(rows * width))) schedule(dynamic)
	for (int64_t first = 0; first < rows; first += block) {
		for (int64_t r = first; r < smaller(rows, first + block); r++) {
			float *out = to + r * to_stride;
			if (accumulate)
				device->kernels->add(out, out, from + r * from_stride, width);
			else
				memcpy(out, from + r * from_stride, (size_t)width * sizeof *out);
		}
	}
}

void cpu_copy(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements, rows = divide_up(count, PIECE),
		      whole = count / PIECE;
	const float *from = call->in_data[0];
	float *to = call->out_data[0];
	copy_rows(device, to, PIECE, from, PIECE, whole, PIECE, accumulates(call, 0));
	if (rows > whole)
		copy_rows(device, to + whole * PIECE, 0, from + whole * PIECE, 0, 1, count - whole * PIECE,
			accumulates(call, 0));
}

void cpu_add_channels(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *tensor = call->in[0];
	const int64_t channels = last_dim(tensor), rows = row_count(tensor), inner = rows / tensor->dim[0];
	const int64_t block = larger(1, PIECE / channels);
	const float *x = call->in_data[0], *v = call->in_data[1];
	float *y = call->out_data[0];
#pragma omp parallel for num_threads(cpu_team(device, (double)(rows * channels))) schedule(dynamic)
	for (int64_t first = 0; first < rows; first += block) {
		for (int64_t r = first; r < smaller(rows, first + block); r++) {
			float *out = y + r * channels;
			const float *from = x + r * channels;
			if (accumulates(call, 0)) {
				device->kernels->add(out, out, from, channels);
				from = out;
			}
			device->kernels->add(out, from, v + r / inner * channels, channels);
		}
	}
}

size_t cpu_channel_sum_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	const struct tensor *tensor = call->in[0];
	return cpu_column_sums_bytes(tensor->dim[0], row_count(tensor) / tensor->dim[0], last_dim(tensor));
}

void cpu_channel_sum(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *tensor = call->in[0];
	cpu_column_sums(device, call->out_data[0], call->in_data[0], tensor->dim[0],
		row_count(tensor) / tensor->dim[0], last_dim(tensor), accumulates(call, 0), call->workspace);
}

void cpu_concat(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->out[0]), a = last_dim(call->in[0]), b = last_dim(call->in[1]);
	float *y = call->out_data[0];
	copy_rows(device, y, a + b, call->in_data[0], a, rows, a, accumulates(call, 0));
	copy_rows(device, y + a, a + b, call->in_data[1], b, rows, b, accumulates(call, 0));
}

void cpu_concat_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), both = last_dim(call->in[0]);
	const int64_t a = call->out[0] ? last_dim(call->out[0]) : both - last_dim(call->out[1]);
	const float *dy = call->in_data[0];
	if (call->out[0])
		copy_rows(device, call->out_data[0], a, dy, both, rows, a, accumulates(call, 0));
	if (call->out[1])
		copy_rows(device, call->out_data[1], both - a, dy + a, both, rows, both - a,
			accumulates(call, 1));
}

void cpu_timestep_embedding(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	const int64_t count = (int64_t)call->in[0]->elements, width = last_dim(call->out[0]),
		      pairs = width / 2;
	const float *t = call->in_data[0];
	float *y = call->out_data[0];
	for (int64_t n = 0; n < count; n++) {
		for (int64_t i = 0; i < pairs; i++) {
			double angle = t[n] * exp(-log(10000.0) * (double)i / (double)pairs);
			y[n * width + i] = (float)cos(angle);
			y[n * width + pairs + i] = (float)sin(angle);
		}
		if (width % 2)
			y[(n + 1) * width - 1] = 0.0f;
	}
}
