/*
 * Batch norm (Ioffe & Szegedy 2015), a residual and ReLU behind it in the same pass. Sums in double by blocks of rows,
 * biased variance; what running statistics get is unbiased. Ranks that share their statistics add up these sums in their order.
 */
#include <math.h>
#include <string.h>

#include "cpu/device.h"

/* Sizes, and where sums and coefficients are kept. Rows (all but the last dimension) are dealt out in blocks. */
struct batch_norm_plan {
	int64_t rows, channels, block, pieces;
	int64_t ranks;        /* that share the sums, of as many rows each */
	double *sums;         /* [pieces, 2, channels] */
	double *own, *total;  /* [2, channels]: of all pieces; of all ranks */
	double *gathered;     /* [ranks, 2, channels] */
	float *scale, *shift; /* [channels] */
	float *slope, *offset;
};

static struct batch_norm_plan batch_norm_plan(const struct call *call)
{
	const struct tensor *x = call->in[0];
	struct batch_norm_plan p = {.rows = row_count(x), .channels = last_dim(x), .ranks = 1};
	if (!call->node->norm.frozen && call->ranks > 1)
		p.ranks = call->ranks;
	p.block = cpu_sum_rows(p.channels);
	p.pieces = divide_up(p.rows, p.block);
	return p;
}

static size_t plan_bytes(const struct batch_norm_plan *p)
{
	return aligned_bytes(2 * p->pieces * p->channels, sizeof(double)) +
	       2 * aligned_bytes(2 * p->channels, sizeof(double)) +
	       aligned_bytes(2 * p->ranks * p->channels, sizeof(double)) +
	       4 * aligned_bytes(p->channels, sizeof(float));
}

static void plan_take(struct batch_norm_plan *p, void *workspace)
{
	p->sums = workspace_take(&workspace, 2 * p->pieces * p->channels, sizeof *p->sums);
	p->own = workspace_take(&workspace, 2 * p->channels, sizeof *p->own);
	p->total = workspace_take(&workspace, 2 * p->channels, sizeof *p->total);
	p->gathered = workspace_take(&workspace, 2 * p->ranks * p->channels, sizeof *p->gathered);
	p->scale = workspace_take(&workspace, p->channels, sizeof *p->scale);
	p->shift = workspace_take(&workspace, p->channels, sizeof *p->shift);
	p->slope = workspace_take(&workspace, p->channels, sizeof *p->slope);
	p->offset = workspace_take(&workspace, p->channels, sizeof *p->offset);
}

size_t cpu_batch_norm_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct batch_norm_plan p = batch_norm_plan(call);
	(void)device;
	return plan_bytes(&p);
}

size_t cpu_batch_norm_backward_workspace(const struct cpu_device *device, const struct call *call)
{
	return cpu_batch_norm_workspace(device, call);
}

struct batch_norm_job {
	const struct cpu_device *device;
	const struct call *call;
	const struct batch_norm_plan *plan;
};

/* The sums of all pieces, then of all ranks; how many rows those are. */
static double add_sums(const struct batch_norm_plan *p, const struct call *call)
{
	const int64_t numbers = 2 * p->channels;
	struct program_exchange *exchange = call->exchange;
	memset(p->own, 0, (size_t)numbers * sizeof *p->own);
	for (int64_t i = 0; i < p->pieces; i++)
		for (int64_t c = 0; c < numbers; c++)
			p->own[c] += p->sums[i * numbers + c];
	memcpy(p->total, p->own, (size_t)numbers * sizeof *p->total);
	if (p->ranks == 1 || !exchange || !exchange->gather)
		return (double)p->rows;
	exchange->failed = exchange->gather(exchange->state, p->own, (size_t)numbers, p->gathered);
	if (exchange->failed)
		return (double)p->rows;
	memset(p->total, 0, (size_t)numbers * sizeof *p->total);
	for (int64_t r = 0; r < p->ranks; r++)
		for (int64_t c = 0; c < numbers; c++)
			p->total[c] += p->gathered[r * numbers + c];
	return (double)(p->rows * p->ranks);
}

/* ---- forward ---- */

static void moments_piece(void *context, int64_t i, int thread)
{
	const struct batch_norm_job *job = context;
	const struct batch_norm_plan *p = job->plan;
	double *sum = p->sums + 2 * i * p->channels;
	(void)thread;
	memset(sum, 0, (size_t)(2 * p->channels) * sizeof *sum);
	job->device->kernels->column_moments(sum, sum + p->channels,
		(const float *)job->call->in_data[0] + i * p->block * p->channels,
		smaller(p->block, p->rows - i * p->block), p->channels);
}

/* Mean, rstd and what the running statistics get, from the sums of the pieces. */
static void finish_moments(const struct batch_norm_plan *p, const struct call *call)
{
	float *mean = call->out_data[1], *rstd = call->out_data[2], *batch_mean = call->out_data[3],
	      *batch_variance = call->out_data[4];
	const double count = add_sums(p, call);
	for (int64_t c = 0; c < p->channels; c++) {
		const double sum = p->total[c], square = p->total[p->channels + c];
		const double middle = sum / count, spread = square / count - middle * middle;
		const double variance = spread < 0 ? 0 : spread;
		mean[c] = (float)middle;
		rstd[c] = (float)(1.0 / sqrt(variance + call->node->norm.epsilon));
		if (batch_mean)
			batch_mean[c] = (float)middle;
		if (batch_variance)
			batch_variance[c] = (float)(variance * count / (count - 1));
	}
}

static void take_running(const struct batch_norm_plan *p, const struct call *call)
{
	const float *running_mean = call->in_data[4], *running_variance = call->in_data[5];
	float *mean = call->out_data[1], *rstd = call->out_data[2];
	for (int64_t c = 0; c < p->channels; c++) {
		mean[c] = running_mean[c];
		rstd[c] = (float)(1.0 / sqrt(running_variance[c] + call->node->norm.epsilon));
	}
}

static void find_coefficients(
	const struct batch_norm_plan *p, const struct call *call, const float *mean, const float *rstd)
{
	const float *gamma = call->in_data[1], *beta = call->in_data[2];
	for (int64_t c = 0; c < p->channels; c++) {
		const double scale = (double)gamma[c] * rstd[c];
		p->scale[c] = (float)scale;
		p->shift[c] = (float)(beta[c] - mean[c] * scale);
	}
}

static struct batch_rows piece_rows(const struct batch_norm_job *job, int64_t i)
{
	const struct batch_norm_plan *p = job->plan;
	return (struct batch_rows){
		.x = (const float *)job->call->in_data[0] + i * p->block * p->channels,
		.scale = p->scale,
		.shift = p->shift,
		.rows = smaller(p->block, p->rows - i * p->block),
		.channels = p->channels,
		.relu = job->call->node->norm.activation == ACTIVATION_RELU,
	};
}

static void apply_piece(void *context, int64_t i, int thread)
{
	const struct batch_norm_job *job = context;
	const struct call *call = job->call;
	const int64_t start = i * job->plan->block * job->plan->channels;
	struct batch_rows rows = piece_rows(job, i);
	(void)thread;
	rows.residual = call->in_data[3] ? (const float *)call->in_data[3] + start : NULL;
	job->device->kernels->batch_norm(&rows, (float *)call->out_data[0] + start);
}

void cpu_batch_norm(const struct cpu_device *device, const struct call *call)
{
	struct batch_norm_plan p = batch_norm_plan(call);
	struct batch_norm_job job = {device, call, &p};
	const double work = (double)call->in[0]->elements;
	plan_take(&p, call->workspace);
	if (call->node->norm.frozen) {
		take_running(&p, call);
	} else {
		cpu_share(device, work, p.pieces, moments_piece, &job);
		finish_moments(&p, call);
	}
	find_coefficients(&p, call, call->out_data[1], call->out_data[2]);
	cpu_share(device, work, p.pieces, apply_piece, &job);
}

/* ---- backward: inputs x, gamma, beta, mean, rstd, dy, y? ---- */

static struct batch_rows gradient_rows(const struct batch_norm_job *job, int64_t i)
{
	const struct call *call = job->call;
	const int64_t start = i * job->plan->block * job->plan->channels;
	struct batch_rows rows = piece_rows(job, i);
	rows.dy = (const float *)call->in_data[5] + start;
	rows.y = call->in_data[6] ? (const float *)call->in_data[6] + start : NULL;
	rows.middle = call->in_data[3];
	rows.add_x = accumulates(call, 0);
	rows.add_residual = accumulates(call, 3);
	return rows;
}

static void sums_piece(void *context, int64_t i, int thread)
{
	const struct batch_norm_job *job = context;
	const struct batch_rows rows = gradient_rows(job, i);
	double *sum = job->plan->sums + 2 * i * rows.channels;
	(void)thread;
	memset(sum, 0, (size_t)(2 * rows.channels) * sizeof *sum);
	job->device->kernels->batch_norm_sums(&rows, sum, sum + rows.channels);
}

/* Parameter gradients of this rank's part of the loss, and slope and offset of dx = g scale + x slope + offset: with S1 the sum of g and S2 that of g
 * times the normalised x, dx = gamma rstd (g - S1 / M - (x - mean) rstd S2 / M); by running statistics gamma rstd g. */
static void finish_sums(const struct batch_norm_plan *p, const struct call *call)
{
	const float *gamma = call->in_data[1], *mean = call->in_data[3], *rstd = call->in_data[4];
	float *dgamma = call->out_data[1], *dbeta = call->out_data[2];
	const bool frozen = call->node->norm.frozen;
	const double count = add_sums(p, call);
	for (int64_t c = 0; c < p->channels; c++) {
		const double sum = p->total[c], product = p->total[p->channels + c] * rstd[c];
		if (dgamma)
			dgamma[c] = (float)(p->own[p->channels + c] * rstd[c]) +
				    (accumulates(call, 1) ? dgamma[c] : 0);
		if (dbeta)
			dbeta[c] = (float)p->own[c] + (accumulates(call, 2) ? dbeta[c] : 0);
		const double scale = (double)gamma[c] * rstd[c];
		const double slope = frozen ? 0 : -scale * rstd[c] * product / count;
		p->slope[c] = (float)slope;
		p->offset[c] = frozen ? 0 : (float)(-scale * sum / count - mean[c] * slope);
	}
}

static void gradient_piece(void *context, int64_t i, int thread)
{
	const struct batch_norm_job *job = context;
	const struct call *call = job->call;
	const struct batch_rows rows = gradient_rows(job, i);
	const int64_t start = i * job->plan->block * job->plan->channels;
	float *dx = call->out_data[0], *dresidual = call->out_data[3];
	(void)thread;
	job->device->kernels->batch_norm_gradient(&rows, job->plan->slope, job->plan->offset,
		dx ? dx + start : NULL, dresidual ? dresidual + start : NULL);
}

void cpu_batch_norm_backward(const struct cpu_device *device, const struct call *call)
{
	struct batch_norm_plan p = batch_norm_plan(call);
	struct batch_norm_job job = {device, call, &p};
	const double work = 2.0 * (double)call->in[0]->elements;
	plan_take(&p, call->workspace);
	find_coefficients(&p, call, call->in_data[3], call->in_data[4]);
	cpu_share(device, work, p.pieces, sums_piece, &job);
	finish_sums(&p, call);
	if (call->out_data[0] || call->out_data[3])
		cpu_share(device, work, p.pieces, gradient_piece, &job);
}
