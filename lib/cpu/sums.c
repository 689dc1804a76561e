/* Sums over rows: pieces of fixed size in double, added in order. */
#include <string.h>

#include "cpu/device.h"

int64_t cpu_sum_rows(int64_t columns)
{
	return larger(16, 16384 / columns);
}

size_t cpu_column_sums_bytes(int64_t batch, int64_t rows, int64_t columns)
{
	return aligned_bytes(batch * divide_up(rows, cpu_sum_rows(columns)) * columns, sizeof(double));
}

/* out[c] (+)= the sum over pieces of part[piece][c]. */
static void add_pieces(float *out, const double *part, int64_t pieces, int64_t columns, bool accumulate)
{
	for (int64_t c = 0; c < columns; c++) {
		double sum = 0;
		for (int64_t p = 0; p < pieces; p++)
			sum += part[p * columns + c];
		out[c] = accumulate ? out[c] + (float)sum : (float)sum;
	}
}

struct column_job {
	const struct kernels *kernels;
	const float *x;
	double *part;
	int64_t rows, columns;
};

static void column_piece(void *context, int64_t i, int thread)
{
	const struct column_job *job = context;
	const int64_t block = cpu_sum_rows(job->columns), pieces = divide_up(job->rows, block);
	const int64_t first = i % pieces * block;
	double *part = job->part + i * job->columns;
	(void)thread;
	memset(part, 0, (size_t)job->columns * sizeof *part);
	job->kernels->column_sums(part, job->x + (i / pieces * job->rows + first) * job->columns,
		smaller(block, job->rows - first), job->columns);
}

void cpu_column_sums(const struct cpu_device *device, float *out, const float *x, int64_t batch, int64_t rows,
	int64_t columns, bool accumulate, void *workspace)
{
	const int64_t pieces = divide_up(rows, cpu_sum_rows(columns));
	struct column_job job = {device->kernels, x, workspace, rows, columns};
	cpu_share(device, (double)batch * (double)(rows * columns), batch * pieces, column_piece, &job);
	for (int64_t b = 0; b < batch; b++)
		add_pieces(out + b * columns, job.part + b * pieces * columns, pieces, columns, accumulate);
}
