/* Formulas in double: the hash grid, stencils, rendering and its losses. */
#include <math.h>
#include <stdlib.h>
#include "graph/hash_grid.h"
#include "reference_bodies.h"

/* ---- the grid: calls `each` for the corners of all points and levels ---- */

struct corner {
	int64_t point, feature;  /* first feature of the level */
	size_t row;              /* of the table */
	double weight, slope[3]; /* of the weight by the coordinates */
};

typedef void visit_corner(const struct call *call, const struct corner *corner, double **in, double **out);

static void visit_level(const struct call *call, const struct hash_level *level, struct corner at,
	double **in, double **out, visit_corner *each)
{
	const struct hash_grid *grid = &call->node->grid;

	for (int c = 0; c < 8; c++) {
		uint32_t cell[3], row;
		double factor[3], sign[3], extent = grid->high - grid->low;

		for (int axis = 0; axis < 3; axis++) {
			double u = (in[0][3 * at.point + axis] - grid->low) / extent,
			       p = level->scale * u + 0.5;

			cell[axis] = (uint32_t)(int64_t)floor(p) + (uint32_t)(c >> axis & 1);
			factor[axis] = c >> axis & 1 ? p - floor(p) : 1 - (p - floor(p));
			sign[axis] = (c >> axis & 1 ? 1 : -1) * level->scale / extent;
		}
		row = level->dense ? cell[0] + level->resolution * (cell[1] + level->resolution * cell[2])
				   : cell[0] ^ cell[1] * 2654435761u ^ cell[2] * 805459861u;
		at.row = level->first + row % level->entries;
		at.weight = factor[0] * factor[1] * factor[2];
		for (int axis = 0; axis < 3; axis++)
			at.slope[axis] = sign[axis] * factor[(axis + 1) % 3] * factor[(axis + 2) % 3];
		each(call, &at, in, out);
	}
}

static void visit_grid(const struct call *call, double **in, double **out, visit_corner *each)
{
	struct hash_level levels[HASH_LEVELS];
	int active = call->scalars->active_levels;

	hash_grid_levels(&call->node->grid, levels);
	if (active == 0 || active > call->node->grid.levels)
		active = call->node->grid.levels;
	for (int64_t p = 0; p < reference_rows(call->in[0]); p++) {
		for (int l = 0; l < active; l++) {
			struct corner at = {.point = p, .feature = l * call->node->grid.features};

			visit_level(call, &levels[l], at, in, out, each);
		}
	}
}

static int64_t width(const struct call *call)
{
	return call->node->grid.levels * call->node->grid.features;
}

static void read_corner(const struct call *call, const struct corner *c, double **in, double **out)
{
	int features = call->node->grid.features;

	for (int f = 0; f < features; f++)
		out[0][c->point * width(call) + c->feature + f] +=
			c->weight * in[1][c->row * (size_t)features + (size_t)f];
}

static void spread_corner(const struct call *call, const struct corner *c, double **in, double **out)
{
	int features = call->node->grid.features;

	for (int f = 0; f < features; f++) {
		double dy = in[2][c->point * width(call) + c->feature + f];
		size_t at = c->row * (size_t)features + (size_t)f;

		if (out[1])
			out[1][at] += c->weight * dy;
		for (int axis = 0; axis < 3 && out[0]; axis++)
			out[0][3 * c->point + axis] += c->slope[axis] * in[1][at] * dy;
	}
}

void reference_hash_grid(const struct call *call, double **in, double **out)
{
	visit_grid(call, in, out, read_corner);
}

void reference_hash_grid_backward(const struct call *call, double **in, double **out)
{
	visit_grid(call, in, out, spread_corner);
}

/* ---- stencils ---- */

static const double corners[4][3] = {{1, -1, -1}, {-1, -1, 1}, {-1, 1, -1}, {1, 1, 1}};
static const double axes[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};

static const double *direction(int64_t taps, int64_t t)
{
	return taps == 4 ? corners[t] : axes[t];
}

static double step_of(const struct call *call, int64_t taps)
{
	return taps == 4 ? call->scalars->epsilon / sqrt(3) : call->scalars->epsilon;
}

void reference_stencil_points(const struct call *call, double **in, double **out)
{
	int64_t taps = call->out[0]->dim[0], all = (int64_t)call->in[0]->elements;

	for (int64_t p = 0; p < taps * all; p++)
		out[0][p] = in[0][p % all] + step_of(call, taps) * direction(taps, p / all)[p % 3];
}

void reference_stencil(const struct call *call, double **in, double **out)
{
	int64_t taps = call->in[1]->dim[0], all = (int64_t)call->in[0]->elements;
	double e = step_of(call, taps);

	for (int64_t p = 0; p < all; p++) {
		for (int64_t t = 0; t < taps; t++) {
			double f = in[1][t * all + p];

			for (int axis = 0; axis < 3; axis++)
				out[0][3 * p + axis] +=
					direction(taps, t)[axis] * f / ((taps == 4 ? 4 : 2) * e);
			out[1][p] += f / ((taps == 4 ? 2 : 1) * e * e);
		}
		out[1][p] -= (taps == 4 ? 2 : 6) * in[0][p] / (e * e);
	}
}

void reference_stencil_backward(const struct call *call, double **in, double **out)
{
	int64_t taps = call->node->taps;
	int64_t all = (int64_t)(call->in[0] ? call->in[0]->elements / 3 : call->in[1]->elements);
	double e = step_of(call, taps);

	for (int64_t p = 0; p < all; p++) {
		double trace = in[1] ? in[1][p] / (e * e) : 0;

		if (out[0])
			out[0][p] = -(taps == 4 ? 2 : 6) * trace;
		for (int64_t t = 0; t < taps && out[1]; t++) {
			double along = 0;

			for (int axis = 0; axis < 3 && in[0]; axis++)
				along += direction(taps, t)[axis] * in[0][3 * p + axis] /
					 ((taps == 4 ? 4 : 2) * e);
			out[1][t * all + p] = along + trace / (taps == 4 ? 2 : 1);
		}
	}
}

/* ---- losses ---- */

static bool hits(const struct call *call, double **in, int64_t sample, int64_t samples)
{
	return in[1][sample / (samples / call->in[1]->dim[0]) * RAY_NUMBERS + 8] != 0;
}

void reference_eikonal(const struct call *call, double **in, double **out)
{
	int64_t samples = (int64_t)call->in[0]->elements / 3;

	for (int64_t p = 0; p < samples; p++) {
		const double *g = in[0] + 3 * p;

		if (hits(call, in, p, samples))
			out[0][0] +=
				pow(sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]) - 1, 2) / (double)samples;
	}
}

void reference_eikonal_backward(const struct call *call, double **in, double **out)
{
	int64_t samples = (int64_t)call->in[0]->elements / 3;
	double factor = (in[2] ? in[2][0] : 1) / (double)samples;

	for (int64_t p = 0; p < 3 * samples; p++) {
		const double *g = in[0] + p / 3 * 3;
		double length = sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);

		if (hits(call, in, p / 3, samples))
			out[0][p] = factor * 2 * (length - 1) * in[0][p] / length;
	}
}

void reference_curvature(const struct call *call, double **in, double **out)
{
	int64_t samples = (int64_t)call->in[0]->elements;

	for (int64_t p = 0; p < samples; p++)
		out[0][0] += hits(call, in, p, samples) * fabs(in[0][p]) / (double)samples;
}

void reference_curvature_backward(const struct call *call, double **in, double **out)
{
	int64_t samples = (int64_t)call->in[0]->elements;
	double factor = (in[2] ? in[2][0] : 1) / (double)samples;

	for (int64_t p = 0; p < samples; p++)
		out[0][p] = hits(call, in, p, samples) * (in[0][p] > 0 ? factor : -factor);
}

/* ---- rendering: inputs sdf, gradient, colour, slope, density, background colour, distance, rays, background distance ---- */

struct ray {
	int64_t number, samples, all; /* samples of the object come first */
	double *alpha, *arriving;     /* [all] */
};

static double logistic(double x)
{
	return 1 / (1 + exp(-x));
}

static double extent(double **in, const struct ray *ray, int64_t i)
{
	int64_t behind = ray->all - ray->samples, j = i - ray->samples;
	const double *t = j < 0 ? in[6] + ray->number * ray->samples + i : in[8] + ray->number * behind + j;

	if (j < 0 && i + 1 == ray->samples)
		return in[7][ray->number * RAY_NUMBERS + 7] - t[0];
	return j >= 0 && j + 1 == behind ? 1e10 - t[0] : t[1] - t[0];
}

/* Gradient along the ray at sample i of the object. */
static double along(double **in, const struct ray *ray, int64_t i)
{
	const double *d = in[7] + ray->number * RAY_NUMBERS + 3,
		     *g = in[1] + 3 * (ray->number * ray->samples + i);

	return d[0] * g[0] + d[1] * g[1] + d[2] * g[2];
}

/* Logistic at the two ends of an interval, and where those are. */
static void ends(
	const struct call *call, double **in, const struct ray *ray, int64_t i, double u[2], double p[2])
{
	double a = call->scalars->anneal, c = along(in, ray, i), f = in[0][ray->number * ray->samples + i];
	double slope = -((1 - a) * fmax(0.5 - 0.5 * c, 0) + a * fmax(-c, 0));

	for (int k = 0; k < 2; k++) {
		u[k] = f + (k ? 1 : -1) * slope * extent(in, ray, i) / 2;
		p[k] = logistic(exp(in[3][0]) * u[k]);
	}
}

static struct ray ray_of(const struct call *call, double **in, int64_t number)
{
	struct ray ray = {.number = number, .samples = call->in[6]->dim[1]};
	double left = 1;

	ray.all = ray.samples + (call->in[8] ? call->in[8]->dim[1] : 0);
	ray.alpha = calloc((size_t)ray.all, sizeof(*ray.alpha));
	ray.arriving = calloc((size_t)ray.all, sizeof(*ray.arriving));
	for (int64_t i = 0; i < ray.all; i++) {
		double u[2], p[2];

		if (i >= ray.samples) {
			double density = in[4][number * (ray.all - ray.samples) + i - ray.samples];

			ray.alpha[i] = 1 - exp(-density * extent(in, &ray, i));
		} else if (in[7][number * RAY_NUMBERS + 8] != 0) {
			ends(call, in, &ray, i, u, p);
			ray.alpha[i] = fmin(fmax((p[0] - p[1]) / (p[0] + 1e-5), 0), 1);
		}
		ray.arriving[i] = left;
		left *= 1 - ray.alpha[i];
	}
	return ray;
}

static int64_t colour_at(const struct ray *ray, int64_t i, int *input)
{
	*input = i < ray->samples ? 2 : 5;
	if (i < ray->samples)
		return 3 * (ray->number * ray->samples + i);
	return 3 * (ray->number * (ray->all - ray->samples) + i - ray->samples);
}

void reference_render(const struct call *call, double **in, double **out)
{
	for (int64_t r = 0; r < call->out[0]->dim[0]; r++) {
		struct ray ray = ray_of(call, in, r);
		double left = 1;

		for (int64_t i = 0; i < ray.all; i++) {
			int input;
			int64_t at = colour_at(&ray, i, &input);
			double w = ray.alpha[i] * ray.arriving[i];

			out[1][r * ray.all + i] = w;
			left -= w;
			for (int k = 0; k < 3; k++)
				out[0][3 * r + k] += w * in[input][at + k];
		}
		for (int k = 0; k < 3; k++)
			out[0][3 * r + k] += call->node->white ? left : 0;
		free(ray.alpha);
		free(ray.arriving);
	}
}

/* Sample i of the object, from the gradient of its opacity. */
static void crossing_backward(
	const struct call *call, double **in, double **out, const struct ray *ray, int64_t i, double dalpha)
{
	int64_t at = ray->number * ray->samples + i;
	double u[2], p[2], du[2], dp[2], a = call->scalars->anneal, c = along(in, ray, i), s = exp(in[3][0]);
	double dslope;

	if (in[7][ray->number * RAY_NUMBERS + 8] == 0)
		return;
	ends(call, in, ray, i, u, p);
	dp[0] = dalpha * (p[1] + 1e-5) / pow(p[0] + 1e-5, 2);
	dp[1] = -dalpha / (p[0] + 1e-5);
	for (int k = 0; k < 2; k++) {
		du[k] = dp[k] * s * p[k] * (1 - p[k]);
		if (out[3])
			out[3][0] += du[k] * u[k];
	}
	dslope = extent(in, ray, i) / 2 * (du[1] - du[0]) * (0.5 * (1 - a) * (c < 1) + a * (c < 0));
	if (out[0])
		out[0][at] = du[0] + du[1];
	for (int axis = 0; axis < 3 && out[1]; axis++)
		out[1][3 * at + axis] = dslope * in[7][ray->number * RAY_NUMBERS + 3 + axis];
}

static void ray_backward(const struct call *call, double **in, double **out, const struct ray *ray)
{
	double behind[3] = {call->node->white, call->node->white, call->node->white};

	for (int64_t i = ray->all; i-- > 0;) {
		int input;
		int64_t at = colour_at(ray, i, &input);
		double dalpha = 0;

		for (int k = 0; k < 3; k++) {
			double c = in[input][at + k], dcolour = in[9][3 * ray->number + k];

			if (out[input])
				out[input][at + k] = ray->arriving[i] * ray->alpha[i] * dcolour;
			dalpha += ray->arriving[i] * dcolour * (c - behind[k]);
			behind[k] = ray->alpha[i] * c + (1 - ray->alpha[i]) * behind[k];
		}
		if (input == 2)
			crossing_backward(call, in, out, ray, i, dalpha);
		else if (out[4])
			out[4][at / 3] = dalpha * extent(in, ray, i) * (1 - ray->alpha[i]);
	}
}

void reference_render_backward(const struct call *call, double **in, double **out)
{
	for (int64_t r = 0; r < call->in[6]->dim[0]; r++) {
		struct ray ray = ray_of(call, in, r);

		ray_backward(call, in, out, &ray);
		free(ray.alpha);
		free(ray.arriving);
	}
}
