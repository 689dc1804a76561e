/* Masked mean squared error. */
#include "cpu/device.h"

#define ROWS 1024 /* of a piece of the sum */

static int64_t mask_rows(const struct call *call)
{
	return (int64_t)call->in[2]->elements;
}

size_t cpu_masked_mse_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	return aligned_bytes(divide_up(mask_rows(call), ROWS), sizeof(double));
}

static void squares_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rows = mask_rows(call), columns = (int64_t)call->in[0]->elements / rows,
		      first = i * ROWS;
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	double *part = call->workspace;
	(void)thread;
	part[i] = job->device->kernels->masked_squares(prediction + first * columns, target + first * columns,
		mask + first, smaller(ROWS, rows - first), columns);
}

void cpu_masked_mse(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = mask_rows(call), pieces = divide_up(rows, ROWS);
	const float *mask = call->in_data[2];
	const double *part = call->workspace;
	double total = 0, selected = 0;
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, pieces, squares_piece, &job);
	for (int64_t p = 0; p < pieces; p++)
		total += part[p];
	for (int64_t r = 0; r < rows; r++)
		selected += mask[r] != 0.0f;
	selected *= (double)((int64_t)call->in[0]->elements / rows);
	*(float *)call->out_data[0] = selected > 0 ? (float)(total / selected) : 0.0f;
	*(float *)call->out_data[1] = (float)selected;
}

static void difference_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rows = mask_rows(call), columns = (int64_t)call->in[0]->elements / rows,
		      first = i * ROWS;
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	const float count = *(const float *)call->in_data[3],
		    factor = count > 0 ? (float)(2.0 / count) : 0.0f;
	(void)thread;
	job->device->kernels->masked_difference((float *)call->out_data[0] + first * columns,
		prediction + first * columns, target + first * columns, mask + first,
		smaller(ROWS, rows - first), columns, factor, accumulates(call, 0));
}

void cpu_masked_mse_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->in[0]->elements, divide_up(mask_rows(call), ROWS), difference_piece,
		&job);
}
