/* Rows of tables by index, one row for many positions, rows over their length. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

#define PIECE 16384 /* elements dealt out at a time */

static int64_t piece_rows(int64_t width)
{
	return larger(1, PIECE / width);
}

/* ---- by index ---- */

void cpu_visit_gather(const struct call *call, cpu_visit_row *visit, void *context)
{
	const int32_t *index = call->in_data[1];
	for (int64_t r = 0; r < row_count(call->out[0]); r++)
		if (index[r] >= 0 && index[r] < call->in[0]->dim[0])
			visit(context, index[r]);
}

static void gather_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]), rows = piece_rows(width);
	const int32_t *index = call->in_data[1];
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->out[0])); r++) {
		float *y = (float *)call->out_data[0] + r * width;
		const bool exists = index[r] >= 0 && index[r] < call->in[0]->dim[0];
		if (exists)
			memcpy(y, (const float *)call->in_data[0] + index[r] * width,
				(size_t)width * sizeof *y);
		for (int64_t c = 0; c < width && !exists; c++)
			y[c] = NAN;
	}
}

void cpu_gather(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), piece_rows(last_dim(call->out[0]))), gather_piece, &job);
}

/* A range of rows of the table: its gradients in the order of the index. */
static void gather_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]), first = i * piece_rows(width),
		      end = smaller(first + piece_rows(width), call->out[0]->dim[0]);
	const int32_t *index = call->in_data[1];
	float *dx = call->out_data[0];
	(void)thread;
	if (!accumulates(call, 0))
		memset(dx + first * width, 0, (size_t)((end - first) * width) * sizeof *dx);
	for (int64_t r = 0; r < row_count(call->in[0]); r++)
		if (index[r] >= first && index[r] < end)
			job->device->kernels->add(dx + index[r] * width, dx + index[r] * width,
				(const float *)call->in_data[0] + r * width, width);
}

void cpu_gather_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)(call->in[0]->elements + call->out[0]->elements),
		divide_up(call->out[0]->dim[0], piece_rows(last_dim(call->out[0]))), gather_backward_piece,
		&job);
}

/* ---- the same for many ---- */

static void repeat_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]), rows = piece_rows(width), count = call->out[0]->dim[1];
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->out[0])); r++)
		memcpy((float *)call->out_data[0] + r * width,
			(const float *)call->in_data[0] + r / count * width, (size_t)width * sizeof(float));
}

void cpu_repeat(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), piece_rows(last_dim(call->out[0]))), repeat_piece, &job);
}

/* ---- over their length ---- */

#define SMALLEST 1e-12f

static float row_length(const float *x, int64_t width)
{
	double square = 0;
	for (int64_t c = 0; c < width; c++)
		square += (double)x[c] * x[c];
	return (float)sqrt(square);
}

static void normalise_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->in[0]), rows = piece_rows(width);
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->in[0])); r++) {
		const float *x = (const float *)call->in_data[0] + r * width;
		const float length = row_length(x, width), by = length < SMALLEST ? SMALLEST : length;
		for (int64_t c = 0; c < width; c++)
			((float *)call->out_data[0])[r * width + c] = x[c] / by;
	}
}

void cpu_normalise(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), piece_rows(last_dim(call->out[0]))), normalise_piece,
		&job);
}

/* dx = (dy - n (n . dy)) / |x|; below the smallest length dy over it. */
static void normalise_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->in[0]), rows = piece_rows(width);
	(void)thread;
	for (int64_t r = i * rows; r < smaller((i + 1) * rows, row_count(call->in[0])); r++) {
		const float *x = (const float *)call->in_data[0] + r * width,
			    *dy = (const float *)call->in_data[1] + r * width;
		float *dx = (float *)call->out_data[0] + r * width;
		const float length = row_length(x, width), by = length < SMALLEST ? SMALLEST : length;
		double along = 0;
		for (int64_t c = 0; c < width && length >= SMALLEST; c++)
			along += (double)x[c] * dy[c];
		along /= (double)by * by;
		for (int64_t c = 0; c < width; c++) {
			const float v = (float)((dy[c] - along * x[c]) / by);
			dx[c] = accumulates(call, 0) ? dx[c] + v : v;
		}
	}
}

void cpu_normalise_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), piece_rows(last_dim(call->out[0]))),
		normalise_backward_piece, &job);
}
