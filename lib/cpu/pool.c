/* Max, average and global pooling over [N,H,W,C] and [N,D,H,W,C]; an image is a sample of one frame. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

struct pool_shape {
	int64_t samples, size[3], out[3], channels; /* of frames, rows and columns */
	int64_t kernel[3], stride[3], pad[3];
};

static struct pool_shape pool_shape(const struct pool *pool, const struct tensor *x, const struct tensor *y)
{
	const int first = 5 - x->dims; /* 2D has no frames */
	struct pool_shape s = {.samples = x->dim[0],
		.size = {1, 1, 1},
		.out = {1, 1, 1},
		.channels = last_dim(x),
		.kernel = {1, 1, 1},
		.stride = {1, 1, 1}};
	for (int axis = first; axis < 3; axis++) {
		s.size[axis] = x->dim[axis - first + 1];
		s.out[axis] = y->dim[axis - first + 1];
		s.kernel[axis] = pool->kernel[axis - first];
		s.stride[axis] = pool->stride[axis - first];
		s.pad[axis] = pool->pad_before[axis - first];
	}
	return s;
}

static int64_t places(const struct pool_shape *s)
{
	return s->kernel[0] * s->kernel[1] * s->kernel[2];
}

/* A range of indices along one axis. */
struct range {
	int64_t first, end;
};

/* Places of a window at output o that lie inside the input. */
static struct range inside(const struct pool_shape *s, int axis, int64_t o)
{
	const int64_t start = o * s->stride[axis] - s->pad[axis];
	return (struct range){larger(0, -start), smaller(s->kernel[axis], s->size[axis] - start)};
}

/* Outputs whose windows hold input i. */
static struct range windows(const struct pool_shape *s, int axis, int64_t i)
{
	const int64_t last = (i + s->pad[axis]) / s->stride[axis],
		      before = i + s->pad[axis] - s->kernel[axis] + 1;
	return (struct range){
		before > 0 ? divide_up(before, s->stride[axis]) : 0, smaller(s->out[axis], last + 1)};
}

/* Position of a line (sample, frame, row) of a grid of these sizes. */
static int64_t line_of(const int64_t size[3], int64_t sample, int64_t frame, int64_t row)
{
	return (sample * size[0] + frame) * size[1] + row;
}

struct pool_job {
	const struct cpu_device *device;
	const struct call *call;
	struct pool_shape shape;
};

/* ---- forward: one line of outputs ---- */

/* Calls `each` for the places inside of every window of an output line, in their order. */
typedef void window_visit(const struct pool_job *job, int64_t out_pixel, int64_t pixel, int64_t place);

static void visit_windows(const struct pool_job *job, int64_t line, window_visit *each)
{
	const struct pool_shape *s = &job->shape;
	const int64_t row = line % s->out[1], frame = line / s->out[1] % s->out[0],
		      sample = line / s->out[1] / s->out[0];
	const struct range frames = inside(s, 0, frame), rows = inside(s, 1, row);
	for (int64_t f = frames.first; f < frames.end; f++)
		for (int64_t r = rows.first; r < rows.end; r++) {
			const int64_t from = line_of(s->size, sample, frame * s->stride[0] - s->pad[0] + f,
						     row * s->stride[1] - s->pad[1] + r) *
					     s->size[2];
			for (int64_t w = 0; w < s->out[2]; w++) {
				const struct range columns = inside(s, 2, w);
				for (int64_t c = columns.first; c < columns.end; c++)
					each(job, line * s->out[2] + w,
						from + w * s->stride[2] - s->pad[2] + c,
						(f * s->kernel[1] + r) * s->kernel[2] + c);
			}
		}
}

static void take_largest(const struct pool_job *job, int64_t out_pixel, int64_t pixel, int64_t place)
{
	const int64_t channels = job->shape.channels;
	job->device->kernels->pool_largest((float *)job->call->out_data[0] + out_pixel * channels,
		(int32_t *)job->call->out_data[1] + out_pixel * channels,
		(const float *)job->call->in_data[0] + pixel * channels, (int32_t)place, channels);
}

static void max_pool_line(void *context, int64_t line, int thread)
{
	const struct pool_job *job = context;
	const int64_t width = job->shape.out[2] * job->shape.channels;
	float *y = (float *)job->call->out_data[0] + line * width;
	(void)thread;
	for (int64_t i = 0; i < width; i++)
		y[i] = -INFINITY;
	memset((int32_t *)job->call->out_data[1] + line * width, 0, (size_t)width * sizeof(int32_t));
	visit_windows(job, line, take_largest);
}

static double pool_work(const struct pool_shape *s)
{
	return (double)(s->samples * s->out[0] * s->out[1] * s->out[2]) * (double)(s->channels * places(s));
}

void cpu_max_pool(const struct cpu_device *device, const struct call *call)
{
	struct pool_job job = {device, call, pool_shape(&call->node->pool, call->in[0], call->out[0])};
	const struct pool_shape *s = &job.shape;
	cpu_share(device, pool_work(s), s->samples * s->out[0] * s->out[1], max_pool_line, &job);
}

static void add_place(const struct pool_job *job, int64_t out_pixel, int64_t pixel, int64_t place)
{
	const int64_t channels = job->shape.channels;
	(void)place;
	job->device->kernels->add_scaled((float *)job->call->out_data[0] + out_pixel * channels,
		(const float *)job->call->in_data[0] + pixel * channels,
		(float)(1.0 / (double)places(&job->shape)), channels);
}

static void average_pool_line(void *context, int64_t line, int thread)
{
	const struct pool_job *job = context;
	const int64_t width = job->shape.out[2] * job->shape.channels;
	(void)thread;
	if (!accumulates(job->call, 0))
		memset((float *)job->call->out_data[0] + line * width, 0, (size_t)width * sizeof(float));
	visit_windows(job, line, add_place);
}

void cpu_average_pool(const struct cpu_device *device, const struct call *call)
{
	struct pool_job job = {device, call, pool_shape(&call->node->pool, call->in[0], call->out[0])};
	const struct pool_shape *s = &job.shape;
	cpu_share(device, pool_work(s), s->samples * s->out[0] * s->out[1], average_pool_line, &job);
}

/* ---- backward: one line of inputs collects from the windows that hold it, in their order ---- */

static void spread_select(const struct pool_job *job, int64_t pixel, int64_t out_pixel, int64_t place)
{
	const int64_t channels = job->shape.channels;
	job->device->kernels->pool_select((float *)job->call->out_data[0] + pixel * channels,
		(const float *)job->call->in_data[0] + out_pixel * channels,
		(const int32_t *)job->call->in_data[1] + out_pixel * channels, (int32_t)place, channels);
}

static void spread_average(const struct pool_job *job, int64_t pixel, int64_t out_pixel, int64_t place)
{
	const int64_t channels = job->shape.channels;
	(void)place;
	job->device->kernels->add_scaled((float *)job->call->out_data[0] + pixel * channels,
		(const float *)job->call->in_data[0] + out_pixel * channels,
		(float)(1.0 / (double)places(&job->shape)), channels);
}

static void collect_line(const struct pool_job *job, int64_t line, window_visit *each)
{
	const struct pool_shape *s = &job->shape;
	const int64_t row = line % s->size[1], frame = line / s->size[1] % s->size[0],
		      sample = line / s->size[1] / s->size[0], width = s->size[2] * s->channels;
	const struct range frames = windows(s, 0, frame), rows = windows(s, 1, row);
	if (!accumulates(job->call, 0))
		memset((float *)job->call->out_data[0] + line * width, 0, (size_t)width * sizeof(float));
	for (int64_t f = frames.first; f < frames.end; f++)
		for (int64_t r = rows.first; r < rows.end; r++)
			for (int64_t i = 0; i < s->size[2]; i++) {
				const struct range columns = windows(s, 2, i);
				for (int64_t w = columns.first; w < columns.end; w++) {
					const int64_t place[3] = {frame + s->pad[0] - f * s->stride[0],
						row + s->pad[1] - r * s->stride[1],
						i + s->pad[2] - w * s->stride[2]};
					each(job, line * s->size[2] + i,
						line_of(s->out, sample, f, r) * s->out[2] + w,
						(place[0] * s->kernel[1] + place[1]) * s->kernel[2] +
							place[2]);
				}
			}
}

static void max_pool_backward_line(void *context, int64_t line, int thread)
{
	(void)thread;
	collect_line(context, line, spread_select);
}

static void average_pool_backward_line(void *context, int64_t line, int thread)
{
	(void)thread;
	collect_line(context, line, spread_average);
}

static void collect(const struct cpu_device *device, const struct call *call, cpu_piece *line)
{
	struct pool_job job = {device, call, pool_shape(&call->node->pool, call->out[0], call->in[0])};
	const struct pool_shape *s = &job.shape;
	cpu_share(device, pool_work(s), s->samples * s->size[0] * s->size[1], line, &job);
}

void cpu_max_pool_backward(const struct cpu_device *device, const struct call *call)
{
	collect(device, call, max_pool_backward_line);
}

void cpu_average_pool_backward(const struct cpu_device *device, const struct call *call)
{
	collect(device, call, average_pool_backward_line);
}

/* ---- global ---- */

static int64_t positions(const struct tensor *x)
{
	return row_count(x) / x->dim[0];
}

size_t cpu_global_pool_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *x = call->in[0];
	(void)device;
	return aligned_bytes((int64_t)call->out[0]->elements, sizeof(float)) +
	       cpu_column_sums_bytes(x->dim[0], positions(x), last_dim(x));
}

void cpu_global_pool(const struct cpu_device *device, const struct call *call)
{
	const struct tensor *x = call->in[0];
	const int64_t count = (int64_t)call->out[0]->elements;
	const float factor = (float)(1.0 / (double)positions(x));
	void *workspace = call->workspace;
	float *sums = workspace_take(&workspace, count, sizeof *sums);
	cpu_column_sums(
		device, sums, call->in_data[0], x->dim[0], positions(x), last_dim(x), false, workspace);
	if (accumulates(call, 0))
		device->kernels->add_scaled(call->out_data[0], sums, factor, count);
	else
		device->kernels->scale(call->out_data[0], sums, factor, count);
}

/* Rows in a piece. */
static int64_t spread_rows(const struct tensor *x)
{
	return larger(1, 16384 / last_dim(x));
}

static void global_pool_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct tensor *x = job->call->out[0];
	const int64_t channels = last_dim(x), rows = spread_rows(x);
	const float factor = (float)(1.0 / (double)positions(x));
	(void)thread;
	for (int64_t row = i * rows; row < smaller((i + 1) * rows, row_count(x)); row++) {
		const float *dy = (const float *)job->call->in_data[0] + row / positions(x) * channels;
		float *dx = (float *)job->call->out_data[0] + row * channels;
		if (accumulates(job->call, 0))
			job->device->kernels->add_scaled(dx, dy, factor, channels);
		else
			job->device->kernels->scale(dx, dy, factor, channels);
	}
}

void cpu_global_pool_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements,
		divide_up(row_count(call->out[0]), spread_rows(call->out[0])), global_pool_backward_piece,
		&job);
}
