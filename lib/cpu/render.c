/*
 * Rays from samples, front to back: opacities of the object from signed distances (NeuS, Wang et al. 2021), of what is behind it
 * from densities. Opacities are float32 as where they come from; the backward pass computes them again and uses suffix colours,
 * so that nothing is divided by what shines through.
 */
#include <math.h>

#include "cpu/device.h"

enum { SDF, GRADIENT, COLOUR, SLOPE, DENSITY, BACKGROUND, DISTANCE, RAYS, BACKGROUND_DISTANCE, DCOLOUR };
enum { DIRECTION = 3, FAR = 7, HIT = 8 }; /* numbers of a ray */
#define RAYS_OF_PIECE 8
#define FARTHEST 1e10f

struct render_job {
	const struct call *call;
	int64_t rays, samples, behind; /* a ray's samples of the object and behind it */
	float inverse;                 /* exp of the slope parameter */
	float *scratch;                /* of a thread: opacity and what arrives, of each sample */
	int64_t scratch_floats;
	double *slopes; /* backward: of each ray */
};

static struct render_job render_job(const struct call *call)
{
	const struct tensor *background = call->in[BACKGROUND_DISTANCE];
	struct render_job job = {.call = call,
		.rays = call->in[DISTANCE]->dim[0],
		.samples = call->in[DISTANCE]->dim[1],
		.behind = background ? background->dim[1] : 0};
	job.scratch_floats = 2 * (job.samples + job.behind);
	return job;
}

static const float *row_of(const struct call *call, int input, int64_t ray, int64_t width)
{
	return (const float *)call->in_data[input] + ray * width;
}

/* ---- opacities ---- */

static float logistic(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* One sample of the object: what its opacity comes from. */
struct crossing {
	float extent;      /* distance to the next sample */
	float along;       /* gradient in the ray's direction */
	float first, last; /* signed distances at the ends of the interval */
	float p, q;        /* logistic there */
	float raw, alpha;  /* opacity before and after it is clipped */
};

static struct crossing crossing_at(const struct render_job *job, int64_t ray, int64_t j)
{
	const float *numbers = row_of(job->call, RAYS, ray, RAY_NUMBERS);
	const float *t = row_of(job->call, DISTANCE, ray, job->samples);
	const float *g = row_of(job->call, GRADIENT, ray, 3 * job->samples) + 3 * j;
	const float sdf = row_of(job->call, SDF, ray, job->samples)[j];
	const float anneal = (float)job->call->scalars->anneal;
	struct crossing c = {.extent = (j + 1 < job->samples ? t[j + 1] : numbers[FAR]) - t[j]};
	for (int axis = 0; axis < 3; axis++)
		c.along += numbers[DIRECTION + axis] * g[axis];
	const float slope =
		-((1.0f - anneal) * fmaxf(0.5f - 0.5f * c.along, 0.0f) + anneal * fmaxf(-c.along, 0.0f));
	c.first = sdf - slope * c.extent * 0.5f;
	c.last = sdf + slope * c.extent * 0.5f;
	c.p = logistic(job->inverse * c.first);
	c.q = logistic(job->inverse * c.last);
	c.raw = (c.p - c.q) / (c.p + 1e-5f);
	c.alpha = fminf(fmaxf(c.raw, 0.0f), 1.0f);
	return c;
}

static float background_extent(const struct render_job *job, int64_t ray, int64_t j)
{
	const float *t = row_of(job->call, BACKGROUND_DISTANCE, ray, job->behind);
	return (j + 1 < job->behind ? t[j + 1] : FARTHEST) - t[j];
}

/* Opacity and arriving part of all samples of a ray; returns what is left behind the last one. */
static float find_opacities(const struct render_job *job, int64_t ray, float *alpha, float *arriving)
{
	const bool hit = row_of(job->call, RAYS, ray, RAY_NUMBERS)[HIT] != 0;
	float left = 1;
	for (int64_t i = 0; i < job->samples + job->behind; i++) {
		const int64_t j = i - job->samples;
		if (j < 0)
			alpha[i] = hit ? crossing_at(job, ray, i).alpha : 0.0f;
		else
			alpha[i] = 1.0f - expf(-row_of(job->call, DENSITY, ray, job->behind)[j] *
						  background_extent(job, ray, j));
		arriving[i] = left;
		left *= 1.0f - alpha[i];
	}
	return left;
}

static const float *colour_at(const struct render_job *job, int64_t ray, int64_t i)
{
	if (i < job->samples)
		return row_of(job->call, COLOUR, ray, 3 * job->samples) + 3 * i;
	return row_of(job->call, BACKGROUND, ray, 3 * job->behind) + 3 * (i - job->samples);
}

/* ---- forward ---- */

static void render_ray(const struct render_job *job, int64_t ray, float *alpha)
{
	const int64_t all = job->samples + job->behind;
	float *arriving = alpha + all, *weights = (float *)job->call->out_data[1] + ray * all;
	double sum = 0, colour[3] = {0};
	find_opacities(job, ray, alpha, arriving);
	for (int64_t i = 0; i < all; i++) {
		const float *c = colour_at(job, ray, i);
		weights[i] = alpha[i] * arriving[i];
		sum += weights[i];
		for (int k = 0; k < 3; k++)
			colour[k] += (double)weights[i] * c[k];
	}
	for (int k = 0; k < 3; k++)
		((float *)job->call->out_data[0])[3 * ray + k] =
			(float)(colour[k] + (job->call->node->white ? 1 - sum : 0));
}

static void render_piece(void *context, int64_t i, int thread)
{
	const struct render_job *job = context;
	float *scratch = job->scratch + thread * job->scratch_floats;
	for (int64_t ray = i * RAYS_OF_PIECE; ray < smaller((i + 1) * RAYS_OF_PIECE, job->rays); ray++)
		render_ray(job, ray, scratch);
}

static double render_work(const struct render_job *job)
{
	return 40.0 * (double)(job->rays * (job->samples + job->behind));
}

size_t cpu_render_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct render_job job = render_job(call);
	return aligned_bytes(device->threads * job.scratch_floats, sizeof(float));
}

void cpu_render(const struct cpu_device *device, const struct call *call)
{
	struct render_job job = render_job(call);
	job.inverse = expf(*(const float *)call->in_data[SLOPE]);
	job.scratch = call->workspace;
	cpu_share(device, render_work(&job), divide_up(job.rays, RAYS_OF_PIECE), render_piece, &job);
}

/* ---- backward: outputs are the gradients of the first six inputs ---- */

/* Element i of the gradient of an input. */
static void give(const struct call *call, int input, int64_t i, double value)
{
	float *to = call->out_data[input];
	if (to)
		to[i] = accumulates(call, input) ? to[i] + (float)value : (float)value;
}

/* From the gradient of a sample's opacity to distance, gradient and slope; returns the slope's part. */
static double crossing_backward(const struct render_job *job, int64_t ray, int64_t j, double dalpha)
{
	const float *numbers = row_of(job->call, RAYS, ray, RAY_NUMBERS);
	const int64_t at = ray * job->samples + j;
	const struct crossing c = crossing_at(job, ray, j);
	const double anneal = job->call->scalars->anneal, a = (double)c.p + 1e-5;
	const bool inside = numbers[HIT] != 0 && c.raw >= 0 && c.raw <= 1;
	const double dp = inside ? dalpha * ((double)c.q + 1e-5) / (a * a) : 0, dq = inside ? -dalpha / a : 0;
	const double of_p = dp * c.p * (1 - (double)c.p), of_q = dq * c.q * (1 - (double)c.q);
	const double dfirst = of_p * job->inverse, dlast = of_q * job->inverse;
	const double dslope = 0.5 * c.extent * (dlast - dfirst);
	const double dalong = dslope * (0.5 * (1 - anneal) * (c.along < 1) + anneal * (c.along < 0));
	give(job->call, SDF, at, dfirst + dlast);
	for (int axis = 0; axis < 3; axis++)
		give(job->call, GRADIENT, 3 * at + axis, dalong * numbers[DIRECTION + axis]);
	return (of_p * c.first + of_q * c.last) * job->inverse;
}

static void background_backward(
	const struct render_job *job, int64_t ray, int64_t j, double alpha, double dalpha)
{
	give(job->call, DENSITY, ray * job->behind + j,
		dalpha * background_extent(job, ray, j) * (1 - alpha));
}

static void ray_backward(const struct render_job *job, int64_t ray, float *alpha)
{
	const int64_t all = job->samples + job->behind;
	const float *dcolour = row_of(job->call, DCOLOUR, ray, 3), *arriving = alpha + all;
	const double last = job->call->node->white ? 1 : 0;
	double behind[3] = {last, last, last}; /* colour of what is behind a sample */
	job->slopes[ray] = 0;
	find_opacities(job, ray, alpha, alpha + all);
	for (int64_t i = all - 1; i >= 0; i--) {
		const float *c = colour_at(job, ray, i);
		const bool object = i < job->samples;
		const int64_t at =
			object ? 3 * (ray * job->samples + i) : 3 * (ray * job->behind + i - job->samples);
		double dalpha = 0;
		for (int k = 0; k < 3; k++) {
			dalpha += dcolour[k] * (c[k] - behind[k]) * arriving[i];
			give(job->call, object ? COLOUR : BACKGROUND, at + k,
				(double)arriving[i] * alpha[i] * dcolour[k]);
			behind[k] = alpha[i] * (double)c[k] + (1 - (double)alpha[i]) * behind[k];
		}
		if (object)
			job->slopes[ray] += crossing_backward(job, ray, i, dalpha);
		else
			background_backward(job, ray, i - job->samples, alpha[i], dalpha);
	}
}

static void render_backward_piece(void *context, int64_t i, int thread)
{
	const struct render_job *job = context;
	float *scratch = job->scratch + thread * job->scratch_floats;
	for (int64_t ray = i * RAYS_OF_PIECE; ray < smaller((i + 1) * RAYS_OF_PIECE, job->rays); ray++)
		ray_backward(job, ray, scratch);
}

size_t cpu_render_backward_workspace(const struct cpu_device *device, const struct call *call)
{
	return cpu_render_workspace(device, call) + aligned_bytes(call->in[DISTANCE]->dim[0], sizeof(double));
}

void cpu_render_backward(const struct cpu_device *device, const struct call *call)
{
	struct render_job job = render_job(call);
	void *workspace = call->workspace;
	double slope = 0;
	job.inverse = expf(*(const float *)call->in_data[SLOPE]);
	job.scratch = workspace_take(&workspace, device->threads * job.scratch_floats, sizeof(float));
	job.slopes = workspace;
	cpu_share(device, 2 * render_work(&job), divide_up(job.rays, RAYS_OF_PIECE), render_backward_piece,
		&job);
	for (int64_t ray = 0; ray < job.rays; ray++)
		slope += job.slopes[ray];
	give(call, SLOPE, 0, slope);
}
