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

void cpu_column_sums(const struct cpu_device *device, float *out, const float *x, int64_t batch, int64_t rows,
	int64_t columns, bool accumulate, void *workspace)
{
	const int64_t block = cpu_sum_rows(columns), pieces = divide_up(rows, block);
	double *part = workspace;
#pragma omp parallel for num_threads(cpu_team(device, (double)batch *rows *columns)) schedule(dynamic)
	for (int64_t i = 0; i < batch * pieces; i++) {
		int64_t first = i % pieces * block, count = smaller(block, rows - first);
		memset(part + i * columns, 0, (size_t)columns * sizeof *part);
		device->kernels->column_sums(
			part + i * columns, x + (i / pieces * rows + first) * columns, count, columns);
	}
	for (int64_t b = 0; b < batch; b++)
		add_pieces(out + b * columns, part + b * pieces * columns, pieces, columns, accumulate);
}
