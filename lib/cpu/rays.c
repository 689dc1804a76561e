/* Samples along rays, where they are and where more of them are worth it; no gradients. All float32, as rounding decides. */
#include <math.h>

#include "cpu/device.h"

enum { ORIGIN = 0, DIRECTION = 3, NEAR = 6, FAR = 7 }; /* numbers of a ray */
#define RAYS_OF_PIECE 16

static void share_rays(const struct cpu_device *device, const struct call *call, cpu_piece *piece)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->out[0]->elements,
		divide_up(call->out[0]->dim[0], RAYS_OF_PIECE), piece, &job);
}

/* ---- places ---- */

static void samples_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rays = call->out[0]->dim[0], count = call->out[0]->dim[1];
	(void)thread;
	for (int64_t at = i * RAYS_OF_PIECE * count; at < smaller((i + 1) * RAYS_OF_PIECE, rays) * count;
		at++) {
		const float *ray = (const float *)call->in_data[0] + at / count * RAY_NUMBERS;
		const float within = call->in_data[1] ? ((const float *)call->in_data[1])[at] : 0.5f;
		const float part = ((float)(at % count) + within) / (float)count;
		((float *)call->out_data[0])[at] = call->node->background
							   ? ray[FAR] / (1.0f - part + 1e-5f)
							   : ray[NEAR] + (ray[FAR] - ray[NEAR]) * part;
	}
}

void cpu_ray_samples(const struct cpu_device *device, const struct call *call)
{
	share_rays(device, call, samples_piece);
}

static void points_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	const int64_t rays = call->out[0]->dim[0], count = call->out[0]->dim[1];
	(void)thread;
	for (int64_t at = i * RAYS_OF_PIECE * count; at < smaller((i + 1) * RAYS_OF_PIECE, rays) * count;
		at++) {
		const float *ray = (const float *)call->in_data[0] + at / count * RAY_NUMBERS;
		const float t = ((const float *)call->in_data[1])[at];
		for (int axis = 0; axis < 3; axis++)
			((float *)call->out_data[0])[3 * at + axis] =
				ray[ORIGIN + axis] + ray[DIRECTION + axis] * t;
	}
}

void cpu_ray_points(const struct cpu_device *device, const struct call *call)
{
	share_rays(device, call, points_piece);
}

#define POINTS 4096 /* of a piece */

static void inverse_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct call *call = job->call;
	(void)thread;
	for (int64_t r = i * POINTS; r < smaller((i + 1) * POINTS, row_count(call->in[0])); r++) {
		const float *p = (const float *)call->in_data[0] + 3 * r;
		float *q = (float *)call->out_data[0] + 4 * r;
		const double length = sqrt((double)p[0] * p[0] + (double)p[1] * p[1] + (double)p[2] * p[2]);
		for (int axis = 0; axis < 3; axis++)
			q[axis] = (float)(p[axis] / length);
		q[3] = (float)(1 / length);
	}
}

void cpu_inverse_sphere(const struct cpu_device *device, const struct call *call)
{
	struct cpu_job job = {device, call};
	cpu_share(device, 8.0 * (double)call->out[0]->elements, divide_up(row_count(call->in[0]), POINTS),
		inverse_piece, &job);
}

/* ---- weights of intervals ---- */

static float logistic(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

static void weigh_ray(const struct call *call, int64_t ray)
{
	const int64_t count = call->in[0]->dim[1];
	const float *t = (const float *)call->in_data[0] + ray * count,
		    *f = (const float *)call->in_data[1] + ray * count;
	const float s = (float)call->node->slope;
	float *w = (float *)call->out_data[0] + ray * (count - 1), left = 1, before = 0;
	for (int64_t j = 0; j + 1 < count; j++) {
		const float extent = t[j + 1] - t[j], middle = 0.5f * (f[j] + f[j + 1]);
		const float own = (f[j + 1] - f[j]) / (extent + 1e-5f), slope = fminf(before, own);
		const float p = logistic(s * (middle - slope * extent * 0.5f)),
			    q = logistic(s * (middle + slope * extent * 0.5f));
		const float alpha = fminf(fmaxf((p - q) / (p + 1e-5f), 0.0f), 1.0f);
		w[j] = alpha * left;
		left *= 1.0f - alpha;
		before = own;
	}
}

static void weights_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	(void)thread;
	for (int64_t ray = i * RAYS_OF_PIECE;
		ray < smaller((i + 1) * RAYS_OF_PIECE, job->call->out[0]->dim[0]); ray++)
		weigh_ray(job->call, ray);
}

void cpu_ray_weights(const struct cpu_device *device, const struct call *call)
{
	share_rays(device, call, weights_piece);
}

/* ---- the inverse of their distribution ---- */

/* Walks along the distribution and the samples together: both rise. */
static void invert_ray(const struct call *call, int64_t ray)
{
	const int64_t count = call->in[0]->dim[1], wanted = call->out[0]->dim[1];
	const float *t = (const float *)call->in_data[0] + ray * count,
		    *w = (const float *)call->in_data[1] + ray * (count - 1);
	float *y = (float *)call->out_data[0] + ray * wanted, sum = 0, low = 0, high = 0;
	int64_t above =
		0; /* entries of the distribution that are not above the sample; `high` is the next, `low` the last */
	for (int64_t j = 0; j + 1 < count; j++)
		sum += fabsf(w[j]);
	sum = fmaxf(sum, 1e-12f);
	for (int64_t k = 0; k < wanted; k++) {
		const float u = ((float)k + 0.5f) / (float)wanted;
		while (above < count && high <= u) {
			low = high;
			if (above < count - 1)
				high += w[above] / sum;
			above++;
		}
		const int64_t from = larger(above - 1, 0), to = smaller(above, count - 1);
		y[k] = t[from] + (u - low) / ((above < count ? high : low) - low + 1e-8f) * (t[to] - t[from]);
	}
}

static void inverse_cdf_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	(void)thread;
	for (int64_t ray = i * RAYS_OF_PIECE;
		ray < smaller((i + 1) * RAYS_OF_PIECE, job->call->out[0]->dim[0]); ray++)
		invert_ray(job->call, ray);
}

void cpu_inverse_cdf(const struct cpu_device *device, const struct call *call)
{
	share_rays(device, call, inverse_cdf_piece);
}

/* ---- two lists as one ---- */

/* Puts a distance and its value into the sorted list of `count` from the end; of equals, the later stands behind. */
static void insert(float *list, float *values, int64_t count, float distance, float value)
{
	int64_t at = count;
	for (; at > 0 && list[at - 1] > distance; at--) {
		list[at] = list[at - 1];
		if (values)
			values[at] = values[at - 1];
	}
	list[at] = distance;
	if (values)
		values[at] = value;
}

/* The lists rise but for rounding: what is merged is nearly in order. */
static void merge_ray(const struct call *call, int64_t ray)
{
	const int64_t n = call->in[0]->dim[1], m = call->in[1]->dim[1];
	const float *a = (const float *)call->in_data[0] + ray * n,
		    *b = (const float *)call->in_data[1] + ray * m;
	const float *of_a = call->in_data[2] ? (const float *)call->in_data[2] + ray * n : NULL;
	const float *of_b = call->in_data[3] ? (const float *)call->in_data[3] + ray * m : NULL;
	float *list = (float *)call->out_data[0] + ray * (n + m);
	float *values = call->out_data[1] ? (float *)call->out_data[1] + ray * (n + m) : NULL;
	int64_t i = 0, j = 0;
	while (i < n || j < m) {
		const bool first = j == m || (i < n && a[i] <= b[j]);
		const float value = !values ? 0 : first ? of_a[i] : of_b[j];
		insert(list, values, i + j, first ? a[i] : b[j], value);
		if (first)
			i++;
		else
			j++;
	}
}

static void merge_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	(void)thread;
	for (int64_t ray = i * RAYS_OF_PIECE;
		ray < smaller((i + 1) * RAYS_OF_PIECE, job->call->out[0]->dim[0]); ray++)
		merge_ray(job->call, ray);
}

void cpu_merge(const struct cpu_device *device, const struct call *call)
{
	share_rays(device, call, merge_piece);
}
