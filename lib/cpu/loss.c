/* Mean squared and absolute differences, over all elements or those of selected rows. */
#include "cpu/device.h"

#define ROWS 1024     /* of a piece of the sum, where there is a mask */
#define ELEMENTS 4096 /* of a piece where there is none */

/* Rows of one mask value each; without a mask, rows of one element. */
struct difference {
	int64_t rows, columns, block;
};

static struct difference difference_of(const struct call *call)
{
	const int64_t elements = (int64_t)call->in[0]->elements;
	const int64_t rows = call->in[2] ? (int64_t)call->in[2]->elements : elements;
	return (struct difference){rows, elements / rows, call->in[2] ? ROWS : ELEMENTS};
}

size_t cpu_masked_mse_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct difference d = difference_of(call);
	(void)device;
	return aligned_bytes(divide_up(d.rows, d.block), sizeof(double));
}

size_t cpu_l1_workspace(const struct cpu_device *device, const struct call *call)
{
	return cpu_masked_mse_workspace(device, call);
}

static void squares_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct difference d = difference_of(call);
	const int64_t first = i * d.block;
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	double *part = call->workspace;
	(void)thread;
	part[i] = job->device->kernels->masked_squares(prediction + first * d.columns,
		target + first * d.columns, mask ? mask + first : NULL, smaller(d.block, d.rows - first),
		d.columns);
}

static void absolutes_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct difference d = difference_of(call);
	const int64_t first = i * d.block;
	double *part = call->workspace;
	(void)thread;
	part[i] = job->device->kernels->absolutes((const float *)call->in_data[0] + first,
		(const float *)call->in_data[1] + first, smaller(d.block, d.rows - first));
}

/* Elements of the rows that are selected. */
static double selected_elements(const struct call *call, const struct difference *d)
{
	const float *mask = call->in_data[2];
	double selected = 0;
	if (!mask)
		return (double)(d->rows * d->columns);
	for (int64_t r = 0; r < d->rows; r++)
		selected += mask[r] != 0.0f;
	return selected * (double)d->columns;
}

static void mean_difference(const struct cpu_device *device, const struct call *call, cpu_piece *piece)
{
	const struct difference d = difference_of(call);
	const int64_t pieces = divide_up(d.rows, d.block);
	const double *part = call->workspace;
	const double selected = selected_elements(call, &d);
	double total = 0;
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, pieces, piece, &job);
	for (int64_t p = 0; p < pieces; p++)
		total += part[p];
	*(float *)call->out_data[0] = selected > 0 ? (float)(total / selected) : 0.0f;
	*(float *)call->out_data[1] = (float)selected;
}

void cpu_masked_mse(const struct cpu_device *device, const struct call *call)
{
	mean_difference(device, call, squares_piece);
}

void cpu_l1(const struct cpu_device *device, const struct call *call)
{
	mean_difference(device, call, absolutes_piece);
}

/* ---- backward: inputs prediction, target, mask?, count, dloss? ---- */

static float gradient_factor(const struct call *call, double factor)
{
	const float count = *(const float *)call->in_data[3];
	const double dloss = call->in_data[4] ? *(const float *)call->in_data[4] : 1;
	return count > 0 ? (float)(factor * dloss / count) : 0.0f;
}

static void difference_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct difference d = difference_of(call);
	const int64_t first = i * d.block;
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	(void)thread;
	job->device->kernels->masked_difference((float *)call->out_data[0] + first * d.columns,
		prediction + first * d.columns, target + first * d.columns, mask ? mask + first : NULL,
		smaller(d.block, d.rows - first), d.columns, gradient_factor(call, 2), accumulates(call, 0));
}

void cpu_masked_mse_backward(const struct cpu_device *device, const struct call *call)
{
	const struct difference d = difference_of(call);
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, divide_up(d.rows, d.block), difference_piece, &job);
}

static void sign_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const struct difference d = difference_of(call);
	const int64_t first = i * d.block;
	(void)thread;
	job->device->kernels->signs((float *)call->out_data[0] + first,
		(const float *)call->in_data[0] + first, (const float *)call->in_data[1] + first,
		smaller(d.block, d.rows - first), gradient_factor(call, 1), accumulates(call, 0));
}

void cpu_l1_backward(const struct cpu_device *device, const struct call *call)
{
	const struct difference d = difference_of(call);
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, divide_up(d.rows, d.block), sign_piece, &job);
}
