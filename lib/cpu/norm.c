/* Group norm (Wu & He 2018) with SiLU behind it, and layer norm (Ba et al. 2016). Sums in double, biased variance. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

#define TRANSCENDENTAL 8.0 /* cost of one element for cpu_team() */

/* Shape of a group norm and where its sums are kept. Positions are dealt out in blocks. */
struct group_norm {
	int64_t images, positions, channels, groups, block, pieces;
	double *sums;          /* [images, pieces, 2, channels] */
	double *totals;        /* [images, 2, channels], backward only */
	float *scale, *shift;  /* [images, channels] */
	float *slope, *offset; /* the same, backward only */
};

static struct group_norm group_norm_shape(const struct call *call)
{
	const struct tensor *x = call->in[0];
	struct group_norm g = {
		.images = x->dim[0], .channels = last_dim(x), .groups = call->node->norm.groups};
	g.positions = row_count(x) / g.images;
	g.block = cpu_sum_rows(g.channels);
	g.pieces = divide_up(g.positions, g.block);
	return g;
}

static void group_norm_take(struct group_norm *g, void *workspace, bool backward)
{
	const int64_t coefficients = g->images * g->channels;
	g->sums = workspace_take(&workspace, 2 * g->pieces * coefficients, sizeof *g->sums);
	g->scale = workspace_take(&workspace, coefficients, sizeof *g->scale);
	g->shift = workspace_take(&workspace, coefficients, sizeof *g->shift);
	if (!backward)
		return;
	g->totals = workspace_take(&workspace, 2 * coefficients, sizeof *g->totals);
	g->slope = workspace_take(&workspace, coefficients, sizeof *g->slope);
	g->offset = workspace_take(&workspace, coefficients, sizeof *g->offset);
}

size_t cpu_group_norm_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	const struct group_norm g = group_norm_shape(call);
	const int64_t coefficients = g.images * g.channels;
	return aligned_bytes(2 * g.pieces * coefficients, sizeof(double)) +
	       2 * aligned_bytes(coefficients, sizeof(float));
}

size_t cpu_group_norm_backward_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct group_norm g = group_norm_shape(call);
	const int64_t coefficients = g.images * g.channels;
	return cpu_group_norm_workspace(device, call) + aligned_bytes(2 * coefficients, sizeof(double)) +
	       2 * aligned_bytes(coefficients, sizeof(float));
}

/* The rows of piece i of all images' pieces. */
static struct norm_rows group_norm_rows(
	const struct group_norm *g, const struct call *call, const float *dy, int64_t i)
{
	const int64_t image = i / g->pieces, first = i % g->pieces * g->block;
	const int64_t start = (image * g->positions + first) * g->channels;
	return (struct norm_rows){
		.x = (const float *)call->in_data[0] + start,
		.dy = dy ? dy + start : NULL,
		.scale = g->scale + image * g->channels,
		.shift = g->shift + image * g->channels,
		.positions = smaller(g->block, g->positions - first),
		.channels = g->channels,
		.silu = call->node->norm.activation == ACTIVATION_SILU,
		.accumulate = accumulates(call, 0),
	};
}

/* From an image's sums: mean and rstd of its groups. */
static void group_norm_finish(
	const struct group_norm *g, const struct call *call, int64_t image, float *mean, float *rstd)
{
	const int64_t width = g->channels / g->groups;
	const double *sums = g->sums + image * g->pieces * 2 * g->channels;
	const double count = (double)(width * g->positions);
	for (int64_t group = 0; group < g->groups; group++) {
		double sum = 0, square = 0;
		for (int64_t p = 0; p < g->pieces; p++) {
			const double *part = sums + p * 2 * g->channels + group * width;
			for (int64_t c = 0; c < width; c++) {
				sum += part[c];
				square += part[g->channels + c];
			}
		}
		double middle = sum / count, variance = square / count - middle * middle;
		mean[group] = (float)middle;
		rstd[group] = (float)(1.0 / sqrt((variance < 0 ? 0 : variance) + call->node->norm.epsilon));
	}
}

/* What x is multiplied by and what is added, for each channel of an image. */
static void group_norm_coefficients(const struct group_norm *g, const float *gamma, const float *beta,
	int64_t image, const float *mean, const float *rstd)
{
	const int64_t width = g->channels / g->groups;
	for (int64_t c = 0; c < g->channels; c++) {
		int64_t group = c / width;
		double scale = (double)gamma[c] * rstd[group];
		g->scale[image * g->channels + c] = (float)scale;
		g->shift[image * g->channels + c] = (float)(beta[c] - mean[group] * scale);
	}
}

void cpu_group_norm(const struct cpu_device *device, const struct call *call)
{
	struct group_norm g = group_norm_shape(call);
	group_norm_take(&g, call->workspace, false);
	const float *gamma = call->in_data[1], *beta = call->in_data[2];
	float *y = call->out_data[0], *mean = call->out_data[1], *rstd = call->out_data[2];
	const double work = TRANSCENDENTAL * (double)call->in[0]->elements;
#pragma omp parallel num_threads(cpu_team(device, work))
	{
#pragma omp for schedule(static)
		for (int64_t i = 0; i < g.images * g.pieces; i++) {
			const struct norm_rows rows = group_norm_rows(&g, call, NULL, i);
			double *sum = g.sums + i * 2 * g.channels;
			memset(sum, 0, (size_t)(2 * g.channels) * sizeof *sum);
			device->kernels->column_moments(
				sum, sum + g.channels, rows.x, rows.positions, rows.channels);
		}
#pragma omp for schedule(static)
		for (int64_t n = 0; n < g.images; n++) {
			group_norm_finish(&g, call, n, mean + n * g.groups, rstd + n * g.groups);
			group_norm_coefficients(&g, gamma, beta, n, mean + n * g.groups, rstd + n * g.groups);
		}
#pragma omp for schedule(static)
		for (int64_t i = 0; i < g.images * g.pieces; i++) {
			const struct norm_rows rows = group_norm_rows(&g, call, NULL, i);
			device->kernels->norm_apply(&rows, y + (rows.x - (const float *)call->in_data[0]));
		}
	}
}

/* Adds an image's pieces; then slope and offset of dx = g * scale + x * slope + offset:
 * with S1 and S2 the group's sums of gamma g and of gamma g times the normalised x, M its elements:
 * dx = rstd (gamma g - S1 / M - (x - mean) rstd S2 / M). */
static void group_norm_slopes(
	const struct group_norm *g, const float *gamma, int64_t image, const float *mean, const float *rstd)
{
	const int64_t channels = g->channels, width = channels / g->groups;
	double *sum = g->totals + image * 2 * channels, *product = sum + channels;
	memset(sum, 0, (size_t)(2 * channels) * sizeof *sum);
	for (int64_t p = 0; p < g->pieces; p++)
		for (int64_t c = 0; c < 2 * channels; c++)
			sum[c] += g->sums[(image * g->pieces + p) * 2 * channels + c];
	for (int64_t group = 0; group < g->groups; group++) {
		const double m = mean[group], s = rstd[group], count = (double)(width * g->positions);
		double first = 0, second = 0;
		for (int64_t c = group * width; c < (group + 1) * width; c++) {
			product[c] = (product[c] - m * sum[c]) * s;
			first += gamma[c] * sum[c];
			second += gamma[c] * product[c];
		}
		double slope = -s * s * second / count;
		for (int64_t c = group * width; c < (group + 1) * width; c++) {
			g->slope[image * channels + c] = (float)slope;
			g->offset[image * channels + c] = (float)(-s * first / count - m * slope);
		}
	}
}

/* out[c] (+)= the sum over images of totals[image][which][c]. */
static void group_norm_parameter(const struct group_norm *g, int which, float *out, bool accumulate)
{
	for (int64_t c = 0; c < g->channels; c++) {
		double sum = 0;
		for (int64_t n = 0; n < g->images; n++)
			sum += g->totals[(2 * n + which) * g->channels + c];
		out[c] = accumulate ? out[c] + (float)sum : (float)sum;
	}
}

void cpu_group_norm_backward(const struct cpu_device *device, const struct call *call)
{
	struct group_norm g = group_norm_shape(call);
	group_norm_take(&g, call->workspace, true);
	const float *gamma = call->in_data[1], *beta = call->in_data[2], *mean = call->in_data[3],
		    *rstd = call->in_data[4];
	const float *dy = call->in_data[5];
	float *dx = call->out_data[0];
	const double work = 2 * TRANSCENDENTAL * (double)call->in[0]->elements;
	for (int64_t n = 0; n < g.images; n++)
		group_norm_coefficients(&g, gamma, beta, n, mean + n * g.groups, rstd + n * g.groups);
#pragma omp parallel num_threads(cpu_team(device, work))
	{
#pragma omp for schedule(static)
		for (int64_t i = 0; i < g.images * g.pieces; i++) {
			const struct norm_rows rows = group_norm_rows(&g, call, dy, i);
			double *sum = g.sums + i * 2 * g.channels;
			memset(sum, 0, (size_t)(2 * g.channels) * sizeof *sum);
			device->kernels->norm_gradient_sums(&rows, sum, sum + g.channels);
		}
#pragma omp for schedule(static)
		for (int64_t n = 0; n < g.images; n++)
			group_norm_slopes(&g, gamma, n, mean + n * g.groups, rstd + n * g.groups);
#pragma omp for schedule(static)
		for (int64_t i = 0; i < g.images * g.pieces; i++) {
			const struct norm_rows rows = group_norm_rows(&g, call, dy, i);
			const int64_t image = i / g.pieces;
			device->kernels->norm_gradient(&rows, g.slope + image * g.channels,
				g.offset + image * g.channels,
				dx + (rows.x - (const float *)call->in_data[0]));
		}
	}
	group_norm_parameter(&g, 1, call->out_data[1], accumulates(call, 1));
	group_norm_parameter(&g, 0, call->out_data[2], accumulates(call, 2));
}

void cpu_layer_norm(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), columns = last_dim(call->in[0]),
		      block = cpu_sum_rows(columns);
	const float *x = call->in_data[0], *gamma = call->in_data[1], *beta = call->in_data[2];
	float *y = call->out_data[0], *mean = call->out_data[1], *rstd = call->out_data[2];
#pragma omp parallel for num_threads(cpu_team(device, 4.0 * (double)(rows * columns))) schedule(dynamic)
	for (int64_t r = 0; r < rows; r += block)
		device->kernels->layer_norm(y + r * columns, mean + r, rstd + r, x + r * columns, gamma, beta,
			smaller(block, rows - r), columns, call->node->norm.epsilon);
}

size_t cpu_layer_norm_backward_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	const int64_t rows = row_count(call->in[0]), columns = last_dim(call->in[0]);
	return aligned_bytes(2 * divide_up(rows, cpu_sum_rows(columns)) * columns, sizeof(double));
}

/* out[c] (+)= the sum over pieces of part[piece][which][c]. */
static void layer_norm_parameter(
	float *out, const double *part, int64_t pieces, int64_t columns, int which, bool accumulate)
{
	for (int64_t c = 0; c < columns; c++) {
		double sum = 0;
		for (int64_t p = 0; p < pieces; p++)
			sum += part[(2 * p + which) * columns + c];
		out[c] = accumulate ? out[c] + (float)sum : (float)sum;
	}
}

void cpu_layer_norm_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t rows = row_count(call->in[0]), columns = last_dim(call->in[0]),
		      block = cpu_sum_rows(columns);
	const int64_t pieces = divide_up(rows, block);
	const float *x = call->in_data[0], *gamma = call->in_data[1], *mean = call->in_data[2],
		    *rstd = call->in_data[3];
	const float *dy = call->in_data[4];
	float *dx = call->out_data[0];
	double *part = call->workspace;
#pragma omp parallel for num_threads(cpu_team(device, 8.0 * (double)(rows * columns))) schedule(dynamic)
	for (int64_t p = 0; p < pieces; p++) {
		double *sum = part + 2 * p * columns;
		int64_t r = p * block;
		memset(sum, 0, (size_t)(2 * columns) * sizeof *sum);
		device->kernels->layer_norm_backward(dx + r * columns, sum, sum + columns, x + r * columns,
			gamma, mean + r, rstd + r, dy + r * columns, smaller(block, rows - r), columns,
			accumulates(call, 0));
	}
	layer_norm_parameter(call->out_data[1], part, pieces, columns, 0, accumulates(call, 1));
	layer_norm_parameter(call->out_data[2], part, pieces, columns, 1, accumulates(call, 2));
}
