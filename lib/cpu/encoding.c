/* Encodings of coordinates: sines and cosines (Mildenhall et al. 2020), real spherical harmonics. */
#include <math.h>

#include "cpu/device.h"

#define ROWS 256 /* of a piece */

/* ---- sines and cosines ---- */

/* Sine and cosine of 2^level pi x: whole turns are taken off exactly. */
static void turn(float x, int level, float *sine, float *cosine)
{
	const double half_turns = ldexp((double)x, level);
	const float angle = (float)(3.14159265358979323846 * (half_turns - 2 * rint(half_turns / 2)));
	*sine = sinf(angle);
	*cosine = cosf(angle);
}

static void fourier_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int levels = call->node->levels;
	const int64_t inputs = (int64_t)call->in[0]->elements;
	(void)thread;
	for (int64_t p = i * ROWS; p < smaller((i + 1) * ROWS, inputs); p++) {
		float *y = (float *)call->out_data[0] + p * 2 * levels;
		for (int k = 0; k < levels; k++)
			turn(((const float *)call->in_data[0])[p], k, &y[k], &y[levels + k]);
	}
}

void cpu_fourier(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 16.0 * (double)call->out[0]->elements,
		divide_up((int64_t)call->in[0]->elements, ROWS), fourier_piece, &job);
}

static void fourier_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int levels = call->node->levels;
	const int64_t inputs = (int64_t)call->in[0]->elements;
	float *dx = call->out_data[0];
	(void)thread;
	for (int64_t p = i * ROWS; p < smaller((i + 1) * ROWS, inputs); p++) {
		const float *dy = (const float *)call->in_data[1] + p * 2 * levels;
		double sum = 0;
		for (int k = 0; k < levels; k++) {
			float sine, cosine;
			turn(((const float *)call->in_data[0])[p], k, &sine, &cosine);
			sum += ldexp(3.14159265358979323846, k) *
			       ((double)cosine * dy[k] - (double)sine * dy[levels + k]);
		}
		dx[p] = accumulates(call, 0) ? dx[p] + (float)sum : (float)sum;
	}
}

void cpu_fourier_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 16.0 * (double)call->in[1]->elements,
		divide_up((int64_t)call->in[0]->elements, ROWS), fourier_backward_piece, &job);
}

/* ---- spherical harmonics ---- */

/* Factors of the polynomials, in their order. */
static const double harmonic[16] = {0.28209479177387814, -0.4886025119029199, 0.4886025119029199,
	-0.4886025119029199, 1.0925484305920792, -1.0925484305920792, 0.31539156525252005,
	-1.0925484305920792, 0.5462742152960396, -0.5900435899266435, 2.890611442640554, -0.4570457994644658,
	0.3731763325901154, -0.4570457994644658, 1.445305721320277, -0.5900435899266435};

/* The polynomials without their factors. */
static void harmonics(double x, double y, double z, double value[16])
{
	const double all[16] = {1, y, z, x, x * y, y * z, 2 * z * z - x * x - y * y, x * z, x * x - y * y,
		y * (3 * x * x - y * y), x * y * z, y * (4 * z * z - x * x - y * y),
		z * (2 * z * z - 3 * x * x - 3 * y * y), x * (4 * z * z - x * x - y * y), z * (x * x - y * y),
		x * (x * x - 3 * y * y)};
	for (int i = 0; i < 16; i++)
		value[i] = harmonic[i] * all[i];
}

/* Their derivatives by x, y and z. */
static void harmonic_slopes(double x, double y, double z, double slope[16][3])
{
	const double all[16][3] = {{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 0, 0}, {y, x, 0}, {0, z, y},
		{-2 * x, -2 * y, 4 * z}, {z, 0, x}, {2 * x, -2 * y, 0}, {6 * x * y, 3 * x * x - 3 * y * y, 0},
		{y * z, x * z, x * y}, {-2 * x * y, 4 * z * z - x * x - 3 * y * y, 8 * y * z},
		{-6 * x * z, -6 * y * z, 6 * z * z - 3 * x * x - 3 * y * y},
		{4 * z * z - 3 * x * x - y * y, -2 * x * y, 8 * x * z},
		{2 * x * z, -2 * y * z, x * x - y * y}, {3 * x * x - 3 * y * y, -6 * x * y, 0}};
	for (int i = 0; i < 16; i++)
		for (int axis = 0; axis < 3; axis++)
			slope[i][axis] = harmonic[i] * all[i][axis];
}

static void harmonics_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->out[0]);
	(void)thread;
	for (int64_t r = i * ROWS; r < smaller((i + 1) * ROWS, row_count(call->in[0])); r++) {
		const float *x = (const float *)call->in_data[0] + 3 * r;
		double value[16];
		harmonics(x[0], x[1], x[2], value);
		for (int64_t k = 0; k < width; k++)
			((float *)call->out_data[0])[r * width + k] = (float)value[k];
	}
}

void cpu_spherical_harmonics(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 4.0 * (double)call->out[0]->elements, divide_up(row_count(call->in[0]), ROWS),
		harmonics_piece, &job);
}

static void harmonics_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t width = last_dim(call->in[1]);
	(void)thread;
	for (int64_t r = i * ROWS; r < smaller((i + 1) * ROWS, row_count(call->in[0])); r++) {
		const float *x = (const float *)call->in_data[0] + 3 * r,
			    *dy = (const float *)call->in_data[1] + r * width;
		float *dx = (float *)call->out_data[0] + 3 * r;
		double slope[16][3];
		harmonic_slopes(x[0], x[1], x[2], slope);
		for (int axis = 0; axis < 3; axis++) {
			double sum = 0;
			for (int64_t k = 0; k < width; k++)
				sum += slope[k][axis] * dy[k];
			dx[axis] = accumulates(call, 0) ? dx[axis] + (float)sum : (float)sum;
		}
	}
}

void cpu_spherical_harmonics_backward(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->in[1]->elements, divide_up(row_count(call->in[0]), ROWS),
		harmonics_backward_piece, &job);
}
