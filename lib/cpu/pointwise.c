/* Element-wise operations, channel broadcasts, concatenation, the timestep embedding. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

#define PIECE 16384 /* elements dealt out at a time */

/* Cost of one element, in simple operations. */
#define TRANSCENDENTAL 8.0

/* ---- activations ---- */

static void activation_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->out[0]->elements - first);
	const float *x = (const float *)call->in_data[0] + first;
	float *y = (float *)call->out_data[0] + first;
	(void)thread;
	if (call->node->activation == ACTIVATION_SOFTPLUS)
		job->device->kernels->softplus(y, x, (float)call->node->beta, some, accumulates(call, 0));
	else
		job->device->kernels->activation(call->node->activation, y, x, some, accumulates(call, 0));
}

void cpu_activation(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	struct cpu_job job = {device, call};
	cpu_share(device, TRANSCENDENTAL * (double)count, divide_up(count, PIECE), activation_piece, &job);
}

static void activation_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->out[0]->elements - first);
	const float *x = (const float *)call->in_data[0] + first,
		    *dy = (const float *)call->in_data[1] + first;
	float *dx = (float *)call->out_data[0] + first;
	(void)thread;
	if (call->node->activation == ACTIVATION_SOFTPLUS)
		job->device->kernels->softplus_backward(
			dx, x, dy, (float)call->node->beta, some, accumulates(call, 0));
	else
		job->device->kernels->activation_backward(
			call->node->activation, dx, x, dy, some, accumulates(call, 0));
}

void cpu_activation_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	struct cpu_job job = {device, call};
	cpu_share(device, TRANSCENDENTAL * (double)count, divide_up(count, PIECE), activation_backward_piece,
		&job);
}

/* Rows in a piece of rows `width` wide. */
static int64_t piece_rows(int64_t width)
{
	return larger(1, PIECE / width);
}

static void geglu_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]), block = piece_rows(width), row = i * block;
	(void)thread;
	job->device->kernels->geglu((float *)call->out_data[0] + row * width,
		(const float *)call->in_data[0] + 2 * row * width,
		smaller(block, row_count(call->out[0]) - row), width, accumulates(call, 0));
}

void cpu_geglu(const struct cpu_device *device, const struct call *call)
{
	const int64_t pieces = divide_up(row_count(call->out[0]), piece_rows(last_dim(call->out[0])));
	struct cpu_job job = {device, call};
	cpu_share(device, TRANSCENDENTAL * (double)call->out[0]->elements, pieces, geglu_piece, &job);
}

static void geglu_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->in[1]), block = piece_rows(width), row = i * block;
	(void)thread;
	job->device->kernels->geglu_backward((float *)call->out_data[0] + 2 * row * width,
		(const float *)call->in_data[0] + 2 * row * width,
		(const float *)call->in_data[1] + row * width, smaller(block, row_count(call->in[1]) - row),
		width, accumulates(call, 0));
}

void cpu_geglu_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t pieces = divide_up(row_count(call->in[1]), piece_rows(last_dim(call->in[1])));
	struct cpu_job job = {device, call};
	cpu_share(
		device, TRANSCENDENTAL * (double)call->out[0]->elements, pieces, geglu_backward_piece, &job);
}

/* ---- factors ---- */

static void scale_by_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->out[0]->elements - first);
	const float *by = call->in_data[1], *x = (const float *)call->in_data[0] + first;
	const float factor = (float)(call->node->factor * (by ? *by : 1.0f));
	float *y = (float *)call->out_data[0] + first;
	(void)thread;
	if (accumulates(call, 0))
		job->device->kernels->add_scaled(y, x, factor, some);
	else
		job->device->kernels->scale(y, x, factor, some);
}

void cpu_scale_by(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	struct cpu_job job = {device, call};
	cpu_share(device, (double)count, divide_up(count, PIECE), scale_by_piece, &job);
}

void cpu_fill(const struct cpu_device *device, const struct call *call)
{
	float *y = call->out_data[0];
	(void)device;
	for (size_t i = 0; i < call->out[0]->elements; i++)
		y[i] = (float)call->node->value;
}

/* ---- sums ---- */

static void add_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)call->out[0]->elements - first);
	const float *a = (const float *)call->in_data[0] + first,
		    *b = (const float *)call->in_data[1] + first;
	float *y = (float *)call->out_data[0] + first;
	(void)thread;
	if (accumulates(call, 0)) {
		job->device->kernels->add(y, y, a, some);
		a = y;
	}
	job->device->kernels->add(y, a, b, some);
}

void cpu_add(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements;
	struct cpu_job job = {device, call};
	cpu_share(device, (double)count, divide_up(count, PIECE), add_piece, &job);
}

static void add_channels_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t channels = last_dim(call->in[0]), rows = row_count(call->in[0]);
	const int64_t inner = rows / call->in[0]->dim[0], block = piece_rows(channels);
	(void)thread;
	for (int64_t r = i * block; r < smaller(rows, (i + 1) * block); r++) {
		const float *x = (const float *)call->in_data[0] + r * channels;
		const float *v = (const float *)call->in_data[1] + r / inner * channels;
		float *y = (float *)call->out_data[0] + r * channels;
		if (accumulates(call, 0)) {
			job->device->kernels->add(y, y, x, channels);
			x = y;
		}
		job->device->kernels->add(y, x, v, channels);
	}
}

void cpu_add_channels(const struct cpu_device *device, const struct call *call)
{
	const int64_t pieces = divide_up(row_count(call->in[0]), piece_rows(last_dim(call->in[0])));
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, pieces, add_channels_piece, &job);
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

/* ---- copies ---- */

/* Rows of `width` elements between two strides: to (+)= from. */
struct copy_job {
	const struct kernels *kernels;
	float *to;
	const float *from;
	int64_t to_stride, from_stride, rows, width;
	bool accumulate;
};

static void copy_piece(void *context, int64_t i, int thread)
{
	const struct copy_job *job = context;
	const int64_t block = piece_rows(job->width);
	(void)thread;
	for (int64_t r = i * block; r < smaller(job->rows, (i + 1) * block); r++) {
		float *to = job->to + r * job->to_stride;
		const float *from = job->from + r * job->from_stride;
		if (job->accumulate)
			job->kernels->add(to, to, from, job->width);
		else
			memcpy(to, from, (size_t)job->width * sizeof *to);
	}
}

static void copy_rows(const struct cpu_device *device, struct copy_job job)
{
	job.kernels = device->kernels;
	cpu_share(device, (double)(job.rows * job.width), divide_up(job.rows, piece_rows(job.width)),
		copy_piece, &job);
}

void cpu_copy(const struct cpu_device *device, const struct call *call)
{
	const int64_t count = (int64_t)call->out[0]->elements, whole = count / PIECE;
	const bool accumulate = accumulates(call, 0);
	const float *from = call->in_data[0];
	float *to = call->out_data[0];
	copy_rows(device, (struct copy_job){.to = to,
				  .from = from,
				  .to_stride = PIECE,
				  .from_stride = PIECE,
				  .rows = whole,
				  .width = PIECE,
				  .accumulate = accumulate});
	copy_rows(device, (struct copy_job){.to = to + whole * PIECE,
				  .from = from + whole * PIECE,
				  .rows = count % PIECE > 0,
				  .width = larger(1, count % PIECE),
				  .accumulate = accumulate});
}

void cpu_concat(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->out[0]), a = last_dim(call->in[0]), b = last_dim(call->in[1]);
	const bool accumulate = accumulates(call, 0);
	float *y = call->out_data[0];
	copy_rows(device, (struct copy_job){.to = y,
				  .to_stride = a + b,
				  .from = call->in_data[0],
				  .from_stride = a,
				  .rows = rows,
				  .width = a,
				  .accumulate = accumulate});
	copy_rows(device, (struct copy_job){.to = y + a,
				  .to_stride = a + b,
				  .from = call->in_data[1],
				  .from_stride = b,
				  .rows = rows,
				  .width = b,
				  .accumulate = accumulate});
}

void cpu_concat_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), both = last_dim(call->in[0]);
	const int64_t a = call->out[0] ? last_dim(call->out[0]) : both - last_dim(call->out[1]), b = both - a;
	const float *dy = call->in_data[0];
	if (call->out[0])
		copy_rows(device, (struct copy_job){.to = call->out_data[0],
					  .to_stride = a,
					  .from = dy,
					  .from_stride = both,
					  .rows = rows,
					  .width = a,
					  .accumulate = accumulates(call, 0)});
	if (call->out[1])
		copy_rows(device, (struct copy_job){.to = call->out_data[1],
					  .to_stride = b,
					  .from = dy + a,
					  .from_stride = both,
					  .rows = rows,
					  .width = b,
					  .accumulate = accumulates(call, 1)});
}

/* ---- timesteps ---- */

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
