/* Weight norm (Salimans & Kingma 2016): columns of v [in,out] over their length, times g. Sums in double. */
#include <math.h>

#include "cpu/device.h"

#define COLUMNS 16 /* of a piece: a cache line of every row */

struct weight_norm {
	const struct call *call;
	int64_t rows, columns;
};

static struct weight_norm weight_norm_of(const struct call *call)
{
	return (struct weight_norm){call, call->in[0]->dim[0], call->in[0]->dim[1]};
}

static void weight_norm_piece(void *context, int64_t i, int thread)
{
	const struct weight_norm *job = context;
	const int64_t first = i * COLUMNS, columns = smaller(COLUMNS, job->columns - first);
	const float *v = (const float *)job->call->in_data[0] + first,
		    *g = (const float *)job->call->in_data[1] + first;
	float *w = (float *)job->call->out_data[0] + first, *length = (float *)job->call->out_data[1] + first;
	double square[COLUMNS] = {0};
	float factor[COLUMNS];
	(void)thread;
	for (int64_t r = 0; r < job->rows; r++)
		for (int64_t c = 0; c < columns; c++)
			square[c] += (double)v[r * job->columns + c] * v[r * job->columns + c];
	for (int64_t c = 0; c < columns; c++) {
		length[c] = (float)sqrt(square[c]);
		factor[c] = (float)(g[c] / sqrt(square[c]));
	}
	for (int64_t r = 0; r < job->rows; r++)
		for (int64_t c = 0; c < columns; c++)
			w[r * job->columns + c] = factor[c] * v[r * job->columns + c];
}

void cpu_weight_norm(const struct cpu_device *device, const struct call *call)
{
	struct weight_norm job = weight_norm_of(call);
	cpu_share(device, 4.0 * (double)call->in[0]->elements, divide_up(job.columns, COLUMNS),
		weight_norm_piece, &job);
}

/* With s the sum of dw v over a column: dg = s / |v|, dv = g / |v| (dw - v s / |v|^2). */
static void weight_norm_backward_piece(void *context, int64_t i, int thread)
{
	const struct weight_norm *job = context;
	const struct call *call = job->call;
	const int64_t first = i * COLUMNS, columns = smaller(COLUMNS, job->columns - first);
	const float *v = (const float *)call->in_data[0] + first,
		    *g = (const float *)call->in_data[1] + first;
	const float *length = (const float *)call->in_data[2] + first,
		    *dw = (const float *)call->in_data[3] + first;
	float *dv = call->out_data[0] ? (float *)call->out_data[0] + first : NULL;
	float *dg = call->out_data[1] ? (float *)call->out_data[1] + first : NULL;
	double sum[COLUMNS] = {0};
	float factor[COLUMNS], back[COLUMNS];
	(void)thread;
	for (int64_t r = 0; r < job->rows; r++)
		for (int64_t c = 0; c < columns; c++)
			sum[c] += (double)dw[r * job->columns + c] * v[r * job->columns + c];
	for (int64_t c = 0; c < columns; c++) {
		factor[c] = g[c] / length[c];
		back[c] = (float)(sum[c] / ((double)length[c] * length[c]));
		if (dg)
			dg[c] = (float)(sum[c] / length[c]) + (accumulates(call, 1) ? dg[c] : 0);
	}
	for (int64_t r = 0; r < job->rows && dv; r++)
		for (int64_t c = 0; c < columns; c++) {
			const int64_t at = r * job->columns + c;
			const float d = factor[c] * (dw[at] - back[c] * v[at]);
			dv[at] = accumulates(call, 0) ? dv[at] + d : d;
		}
}

void cpu_weight_norm_backward(const struct cpu_device *device, const struct call *call)
{
	struct weight_norm job = weight_norm_of(call);
	cpu_share(device, 8.0 * (double)call->in[0]->elements, divide_up(job.columns, COLUMNS),
		weight_norm_backward_piece, &job);
}
