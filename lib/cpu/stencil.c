/*
 * Differences of a signed distance on a stencil (4 corners of a tetrahedron, or both ways along each axis), and the losses of
 * its gradient's length and of the trace of its Hessian (Li et al. 2023).
 */
#include <math.h>

#include "cpu/device.h"

#define POINTS 4096 /* of a piece */

static const float corners[4][3] = {{1, -1, -1}, {-1, -1, 1}, {-1, 1, -1}, {1, 1, 1}};

/* Steps of the taps: corners lie at distance epsilon. */
static double stencil_step(const struct step_scalars *scalars, int64_t taps)
{
	return taps == 4 ? scalars->epsilon / sqrt(3.0) : scalars->epsilon;
}

/* Along `axis` to tap t: taps of 6 come in pairs. */
static float tap_direction(int64_t taps, int64_t t, int axis)
{
	if (taps == 4)
		return corners[t][axis];
	return t / 2 != axis ? 0.0f : t % 2 ? -1.0f : 1.0f;
}

/* ---- points ---- */

static void points_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t taps = call->out[0]->dim[0], all = row_count(call->in[0]);
	const float step = (float)stencil_step(call->scalars, taps), *x = call->in_data[0];
	(void)thread;
	for (int64_t t = 0; t < taps; t++)
		for (int64_t p = i * POINTS; p < smaller((i + 1) * POINTS, all); p++)
			for (int axis = 0; axis < 3; axis++)
				((float *)call->out_data[0])[3 * (t * all + p) + axis] =
					x[3 * p + axis] + step * tap_direction(taps, t, axis);
}

void cpu_stencil_points(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, (double)call->out[0]->elements, divide_up(row_count(call->in[0]), POINTS),
		points_piece, &job);
}

/* ---- gradient and trace ---- */

/* Factors of a tap's value in the gradient and in the trace, and of the middle's in the trace. */
struct factors {
	double gradient, trace, middle;
};

static struct factors stencil_factors(const struct call *call, int64_t taps)
{
	const double step = stencil_step(call->scalars, taps);
	if (taps == 4)
		return (struct factors){1 / (4 * step), 1 / (2 * step * step), -2 / (step * step)};
	return (struct factors){1 / (2 * step), 1 / (step * step), -6 / (step * step)};
}

static void stencil_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t taps = call->in[1]->dim[0], all = (int64_t)call->in[0]->elements;
	const struct factors by = stencil_factors(call, taps);
	const float *f = call->in_data[0], *tap = call->in_data[1];
	(void)thread;
	for (int64_t p = i * POINTS; p < smaller((i + 1) * POINTS, all); p++) {
		double gradient[3] = {0}, sum = 0;
		for (int64_t t = 0; t < taps; t++) {
			const double value = tap[t * all + p];
			for (int axis = 0; axis < 3; axis++)
				gradient[axis] += tap_direction(taps, t, axis) * value;
			sum += value;
		}
		for (int axis = 0; axis < 3; axis++)
			((float *)call->out_data[0])[3 * p + axis] = (float)(by.gradient * gradient[axis]);
		((float *)call->out_data[1])[p] = (float)(by.trace * sum + by.middle * f[p]);
	}
}

void cpu_stencil(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 20.0 * (double)call->in[0]->elements,
		divide_up((int64_t)call->in[0]->elements, POINTS), stencil_piece, &job);
}

static void put(float *to, double value, bool accumulate)
{
	*to = accumulate ? *to + (float)value : (float)value;
}

static void stencil_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t taps = call->node->taps,
		      all = (int64_t)(call->in[0] ? call->in[0]->elements / 3 : call->in[1]->elements);
	const struct factors by = stencil_factors(call, taps);
	const float *dgradient = call->in_data[0], *dtrace = call->in_data[1];
	float *df = call->out_data[0], *dtaps = call->out_data[1];
	(void)thread;
	for (int64_t p = i * POINTS; p < smaller((i + 1) * POINTS, all); p++) {
		const double trace = dtrace ? dtrace[p] : 0;
		if (df)
			put(&df[p], by.middle * trace, accumulates(call, 0));
		for (int64_t t = 0; t < taps && dtaps; t++) {
			double along = 0;
			for (int axis = 0; axis < 3 && dgradient; axis++)
				along += tap_direction(taps, t, axis) * dgradient[3 * p + axis];
			put(&dtaps[t * all + p], by.gradient * along + by.trace * trace,
				accumulates(call, 1));
		}
	}
}

void cpu_stencil_backward(const struct cpu_device *device, const struct call *call)
{
	const int64_t all = (int64_t)(call->in[0] ? call->in[0]->elements / 3 : call->in[1]->elements);
	struct cpu_job job = {device, call};
	cpu_share(device, 20.0 * (double)all, divide_up(all, POINTS), stencil_backward_piece, &job);
}

/* ---- losses: means over all samples; rays that miss and what is not finite count as 0 ---- */

struct sample_loss {
	const struct call *call;
	int64_t samples;                  /* of all rays */
	double (*value)(const float *at); /* of a sample */
	void (*slope)(const float *at, double factor, double *d);
	int channels;
	double factor; /* backward */
};

static double eikonal_value(const float *g)
{
	const double length = sqrt((double)g[0] * g[0] + (double)g[1] * g[1] + (double)g[2] * g[2]);
	return (length - 1) * (length - 1);
}

static void eikonal_slope(const float *g, double factor, double *d)
{
	const double length = sqrt((double)g[0] * g[0] + (double)g[1] * g[1] + (double)g[2] * g[2]);
	for (int axis = 0; axis < 3; axis++)
		d[axis] = length > 0 ? factor * 2 * (length - 1) / length * g[axis] : 0;
}

static double curvature_value(const float *trace)
{
	return fabs(*trace);
}

static void curvature_slope(const float *trace, double factor, double *d)
{
	*d = *trace > 0 ? factor : *trace < 0 ? -factor : 0;
}

/* Whether sample p counts. */
static bool counts(const struct sample_loss *loss, int64_t p)
{
	const int64_t of_ray = loss->samples / loss->call->in[1]->dim[0];
	const float *ray = (const float *)loss->call->in_data[1] + p / of_ray * RAY_NUMBERS;
	const float *at = (const float *)loss->call->in_data[0] + p * loss->channels;
	return ray[RAY_NUMBERS - 1] != 0 && isfinite(loss->value(at));
}

static void loss_piece(void *context, int64_t i, int thread)
{
	const struct sample_loss *loss = context;
	const float *x = loss->call->in_data[0];
	double sum = 0;
	(void)thread;
	for (int64_t p = i * POINTS; p < smaller((i + 1) * POINTS, loss->samples); p++)
		if (counts(loss, p))
			sum += loss->value(x + p * loss->channels);
	((double *)loss->call->workspace)[i] = sum;
}

static void run_loss(const struct cpu_device *device, struct sample_loss *loss)
{
	const int64_t pieces = divide_up(loss->samples, POINTS);
	const double *part = loss->call->workspace;
	double sum = 0;
	cpu_share(device, 16.0 * (double)loss->samples, pieces, loss_piece, loss);
	for (int64_t p = 0; p < pieces; p++)
		sum += part[p];
	*(float *)loss->call->out_data[0] = (float)(sum / (double)loss->samples);
}

static void loss_backward_piece(void *context, int64_t i, int thread)
{
	const struct sample_loss *loss = context;
	const float *x = loss->call->in_data[0];
	float *dx = loss->call->out_data[0];
	(void)thread;
	for (int64_t p = i * POINTS; p < smaller((i + 1) * POINTS, loss->samples); p++) {
		double d[3] = {0};
		if (counts(loss, p))
			loss->slope(x + p * loss->channels, loss->factor, d);
		for (int c = 0; c < loss->channels; c++)
			put(&dx[p * loss->channels + c], d[c], accumulates(loss->call, 0));
	}
}

static void run_loss_backward(const struct cpu_device *device, struct sample_loss *loss)
{
	const float *dloss = loss->call->in_data[2];
	loss->factor = (dloss ? *dloss : 1) / (double)loss->samples;
	cpu_share(device, 16.0 * (double)loss->samples, divide_up(loss->samples, POINTS), loss_backward_piece,
		loss);
}

static struct sample_loss eikonal_loss(const struct call *call)
{
	return (struct sample_loss){
		call, (int64_t)call->in[0]->elements / 3, eikonal_value, eikonal_slope, 3, 0};
}

static struct sample_loss curvature_loss(const struct call *call)
{
	return (struct sample_loss){
		call, (int64_t)call->in[0]->elements, curvature_value, curvature_slope, 1, 0};
}

size_t cpu_sample_loss_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	return aligned_bytes(divide_up((int64_t)call->in[0]->elements, POINTS), sizeof(double));
}

void cpu_eikonal(const struct cpu_device *device, const struct call *call)
{
	struct sample_loss loss = eikonal_loss(call);
	run_loss(device, &loss);
}

void cpu_eikonal_backward(const struct cpu_device *device, const struct call *call)
{
	struct sample_loss loss = eikonal_loss(call);
	run_loss_backward(device, &loss);
}

void cpu_curvature(const struct cpu_device *device, const struct call *call)
{
	struct sample_loss loss = curvature_loss(call);
	run_loss(device, &loss);
}

void cpu_curvature_backward(const struct cpu_device *device, const struct call *call)
{
	struct sample_loss loss = curvature_loss(call);
	run_loss_backward(device, &loss);
}
