/* Sums over all elements, times a factor: pieces in double, added in order. */
#include "cpu/device.h"

#define PIECE 4096

size_t cpu_reduce_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	return aligned_bytes(divide_up((int64_t)call->in[0]->elements, PIECE), sizeof(double));
}

static void reduce_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const float *x = job->call->in_data[0];
	const int64_t end = smaller((i + 1) * PIECE, (int64_t)job->call->in[0]->elements);
	double sum = 0;
	(void)thread;
	for (int64_t k = i * PIECE; k < end; k++)
		sum += x[k];
	((double *)job->call->workspace)[i] = sum;
}

void cpu_reduce(const struct cpu_device *device, const struct call *call)
{
	const int64_t pieces = divide_up((int64_t)call->in[0]->elements, PIECE);
	const double *part = call->workspace;
	struct cpu_job job = {device, call};
	double sum = 0;
	cpu_share(device, (double)call->in[0]->elements, pieces, reduce_piece, &job);
	for (int64_t p = 0; p < pieces; p++)
		sum += part[p];
	*(float *)call->out_data[0] = (float)(call->node->factor * sum);
}

static void reduce_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const double dy = call->in_data[0] ? *(const float *)call->in_data[0] : 1;
	const float v = (float)(call->node->factor * dy);
	float *dx = call->out_data[0];
	const int64_t end = smaller((i + 1) * PIECE, (int64_t)call->out[0]->elements);
	(void)thread;
	for (int64_t k = i * PIECE; k < end; k++)
		dx[k] = accumulates(call, 0) ? dx[k] + v : v;
}

void cpu_reduce_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements, divide_up((int64_t)call->out[0]->elements, PIECE),
		reduce_backward_piece, &job);
}
