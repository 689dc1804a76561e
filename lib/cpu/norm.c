/* Group norm (Wu & He 2018) with SiLU behind it, and layer norm (Ba et al. 2016). Sums in double, biased variance. */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

#define TRANSCENDENTAL 8.0 /* cost of one element for cpu_team() */

/* Shape of a group norm and where its sums are kept. Positions are dealt out in blocks. */
struct group_norm {
	int64_t images, positions, channels, groups, block, pieces;
	double *sums;                   /* [images, pieces, 2, channels] */
	double *totals;                 /* [images, 2, channels], backward only */
	float *scale, *shift;           /* [images, channels] */
	float *slope, *offset, *middle; /* the same, backward only */
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
	g->middle = workspace_take(&workspace, coefficients, sizeof *g->middle);
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
	       3 * aligned_bytes(coefficients, sizeof(float));
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
		.middle = g->middle ? g->middle + image * g->channels : NULL,
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
		if (g->middle)
			g->middle[image * g->channels + c] = mean[group];
	}
}

struct group_norm_job {
	const struct kernels *kernels;
	const struct call *call;
	const struct group_norm *norm;
};

static void moments_piece(void *context, int64_t i, int thread)
{
	const struct group_norm_job *job = context;
	const int64_t channels = job->norm->channels;
	const struct norm_rows rows = group_norm_rows(job->norm, job->call, NULL, i);
	double *sum = job->norm->sums + i * 2 * channels;
	(void)thread;
	memset(sum, 0, (size_t)(2 * channels) * sizeof *sum);
	job->kernels->column_moments(sum, sum + channels, rows.x, rows.positions, channels);
}

static void apply_piece(void *context, int64_t i, int thread)
{
	const struct group_norm_job *job = context;
	const struct norm_rows rows = group_norm_rows(job->norm, job->call, NULL, i);
	(void)thread;
	job->kernels->norm_apply(
		&rows, (float *)job->call->out_data[0] + (rows.x - (const float *)job->call->in_data[0]));
}

void cpu_group_norm(const struct cpu_device *device, const struct call *call)
{
	struct group_norm g = group_norm_shape(call);
	group_norm_take(&g, call->workspace, false);
	float *mean = call->out_data[1], *rstd = call->out_data[2];
	const double work = (double)call->in[0]->elements;
	struct group_norm_job job = {device->kernels, call, &g};
	cpu_share(device, work, g.images * g.pieces, moments_piece, &job);
	for (int64_t n = 0; n < g.images; n++) {
		group_norm_finish(&g, call, n, mean + n * g.groups, rstd + n * g.groups);
		group_norm_coefficients(
			&g, call->in_data[1], call->in_data[2], n, mean + n * g.groups, rstd + n * g.groups);
	}
	cpu_share(device, TRANSCENDENTAL * work, g.images * g.pieces, apply_piece, &job);
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
			product[c] *= s;
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

/* Where dx need not keep an older value, it holds dy through SiLU between the two passes. */
static float *gradient_keep(const struct call *call, const struct norm_rows *rows)
{
	if (!rows->silu || rows->accumulate)
		return NULL;
	return (float *)call->out_data[0] + (rows->x - (const float *)call->in_data[0]);
}

static void gradient_sums_piece(void *context, int64_t i, int thread)
{
	const struct group_norm_job *job = context;
	const struct norm_rows rows = group_norm_rows(job->norm, job->call, job->call->in_data[5], i);
	double *sum = job->norm->sums + i * 2 * rows.channels;
	(void)thread;
	memset(sum, 0, (size_t)(2 * rows.channels) * sizeof *sum);
	job->kernels->norm_gradient_sums(&rows, gradient_keep(job->call, &rows), sum, sum + rows.channels);
}

static void gradient_piece(void *context, int64_t i, int thread)
{
	const struct group_norm_job *job = context;
	struct norm_rows rows = group_norm_rows(job->norm, job->call, job->call->in_data[5], i);
	const float *kept = gradient_keep(job->call, &rows);
	const int64_t image = i / job->norm->pieces * rows.channels;
	(void)thread;
	if (kept) {
		rows.dy = kept;
		rows.silu = false;
	}
	job->kernels->norm_gradient(&rows, job->norm->slope + image, job->norm->offset + image,
		(float *)job->call->out_data[0] + (rows.x - (const float *)job->call->in_data[0]));
}

void cpu_group_norm_backward(const struct cpu_device *device, const struct call *call)
{
	struct group_norm g = group_norm_shape(call);
	group_norm_take(&g, call->workspace, true);
	const float *gamma = call->in_data[1], *beta = call->in_data[2];
	const float *mean = call->in_data[3], *rstd = call->in_data[4];
	const double work = TRANSCENDENTAL * (double)call->in[0]->elements;
	struct group_norm_job job = {device->kernels, call, &g};
	for (int64_t n = 0; n < g.images; n++)
		group_norm_coefficients(&g, gamma, beta, n, mean + n * g.groups, rstd + n * g.groups);
	cpu_share(device, work, g.images * g.pieces, gradient_sums_piece, &job);
	for (int64_t n = 0; n < g.images; n++)
		group_norm_slopes(&g, gamma, n, mean + n * g.groups, rstd + n * g.groups);
	cpu_share(device, work, g.images * g.pieces, gradient_piece, &job);
	group_norm_parameter(&g, 1, call->out_data[1], accumulates(call, 1));
	group_norm_parameter(&g, 0, call->out_data[2], accumulates(call, 2));
}

static void layer_norm_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rows = row_count(call->in[0]), columns = last_dim(call->in[0]),
		      block = cpu_sum_rows(columns);
	const int64_t r = i * block;
	(void)thread;
	job->device->kernels->layer_norm((float *)call->out_data[0] + r * columns,
		(float *)call->out_data[1] + r, (float *)call->out_data[2] + r,
		(const float *)call->in_data[0] + r * columns, call->in_data[1], call->in_data[2],
		smaller(block, rows - r), columns, call->node->norm.epsilon);
}

void cpu_layer_norm(const struct cpu_device *device, const struct call *call)
{
	const int64_t pieces = divide_up(row_count(call->in[0]), cpu_sum_rows(last_dim(call->in[0])));
	struct cpu_job job = {device, call};
	cpu_share(device, 4.0 * (double)call->in[0]->elements, pieces, layer_norm_piece, &job);
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

static void layer_norm_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rows = row_count(call->in[0]), columns = last_dim(call->in[0]),
		      block = cpu_sum_rows(columns);
	const int64_t r = i * block;
	double *sum = (double *)call->workspace + 2 * i * columns;
	(void)thread;
	memset(sum, 0, (size_t)(2 * columns) * sizeof *sum);
	job->device->kernels->layer_norm_backward((float *)call->out_data[0] + r * columns, sum,
		sum + columns, (const float *)call->in_data[0] + r * columns, call->in_data[1],
		(const float *)call->in_data[2] + r, (const float *)call->in_data[3] + r,
		(const float *)call->in_data[4] + r * columns, smaller(block, rows - r), columns,
		accumulates(call, 0));
}

void cpu_layer_norm_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t columns = last_dim(call->in[0]);
	const int64_t pieces = divide_up(row_count(call->in[0]), cpu_sum_rows(columns));
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->in[0]->elements, pieces, layer_norm_backward_piece, &job);
	layer_norm_parameter(call->out_data[1], call->workspace, pieces, columns, 0, accumulates(call, 1));
	layer_norm_parameter(call->out_data[2], call->workspace, pieces, columns, 1, accumulates(call, 2));
}
