/* Masked mean squared error. */
#include <string.h>

#include "cpu/device.h"

#define ROWS 1024 /* of a piece of the sum */

size_t cpu_masked_mse_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	return aligned_bytes(divide_up((int64_t)call->in[2]->elements, ROWS), sizeof(double));
}

void cpu_masked_mse(const struct cpu_device *device, const struct call *call)
{
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	float *loss = call->out_data[0], *count = call->out_data[1];
	const int64_t rows = (int64_t)call->in[2]->elements, columns = (int64_t)call->in[0]->elements / rows;
	const int64_t pieces = divide_up(rows, ROWS);
	double *part = call->workspace, total = 0;
#pragma omp parallel for num_threads(cpu_team(device, (double)rows *columns)) schedule(dynamic)
	for (int64_t p = 0; p < pieces; p++) {
		int64_t first = p * ROWS;
		part[p] = device->kernels->masked_squares(prediction + first * columns,
			target + first * columns, mask + first, smaller(ROWS, rows - first), columns);
	}
	for (int64_t p = 0; p < pieces; p++)
		total += part[p];
	int64_t selected = 0;
	for (int64_t r = 0; r < rows; r++)
		selected += mask[r] != 0.0f;
	*count = (float)(selected * columns);
	*loss = selected ? (float)(total / (double)(selected * columns)) : 0.0f;
}

void cpu_masked_mse_backward(const struct cpu_device *device, const struct call *call)
{
	const float *prediction = call->in_data[0], *target = call->in_data[1], *mask = call->in_data[2];
	const float count = *(const float *)call->in_data[3],
		    factor = count > 0 ? (float)(2.0 / count) : 0.0f;
	float *gradient = call->out_data[0];
	const int64_t rows = (int64_t)call->in[2]->elements, columns = (int64_t)call->in[0]->elements / rows;
#pragma omp parallel for num_threads(cpu_team(device, (double)rows *columns)) schedule(dynamic)
	for (int64_t first = 0; first < rows; first += ROWS)
		device->kernels->masked_difference(gradient + first * columns, prediction + first * columns,
			target + first * columns, mask + first, smaller(ROWS, rows - first), columns, factor,
			accumulates(call, 0));
}
