/* Formulas in double: encodings and what networks of fields are made of. */
#include <math.h>
#include <stdlib.h>
#include "graph/hash_grid.h"
#include "reference_bodies.h"

/* ---- weight norm ---- */

void reference_weight_norm(const struct call *call, double **in, double **out)
{
	int64_t columns = call->in[0]->dim[1];

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[1][p % columns] += in[0][p] * in[0][p];
	for (int64_t c = 0; c < columns; c++)
		out[1][c] = sqrt(out[1][c]);
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][p] = in[1][p % columns] * in[0][p] / out[1][p % columns];
}

void reference_weight_norm_backward(const struct call *call, double **in, double **out)
{
	int64_t columns = call->in[0]->dim[1];
	double *along = calloc((size_t)columns, sizeof(*along)); /* dw . v / |v| */

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		along[p % columns] += in[3][p] * in[0][p] / in[2][p % columns];
	for (int64_t c = 0; c < columns && out[1]; c++)
		out[1][c] = along[c];
	for (int64_t p = 0; p < (int64_t)call->in[0]->elements && out[0]; p++) {
		int64_t c = p % columns;

		out[0][p] = in[1][c] / in[2][c] * (in[3][p] - in[0][p] / in[2][c] * along[c]);
	}
	free(along);
}

/* ---- rows ---- */

void reference_gather(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->out[0]);

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][reference_integer(in[1][p / c]) * c + p % c];
}

void reference_gather_backward(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[0]);

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][reference_integer(in[1][p / c]) * c + p % c] += in[0][p];
}

void reference_repeat(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->out[0]), count = call->out[0]->dim[1];

	for (int64_t p = 0; p < (int64_t)call->out[0]->elements; p++)
		out[0][p] = in[0][p / c / count * c + p % c];
}

static double length_of(const double *x, int64_t c)
{
	double square = 0;

	for (int64_t i = 0; i < c; i++)
		square += x[i] * x[i];
	return fmax(sqrt(square), 1e-12);
}

void reference_normalise(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[0]);

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++)
		out[0][p] = in[0][p] / length_of(in[0] + p / c * c, c);
}

void reference_normalise_backward(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[0]);

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements; p++) {
		const double *x = in[0] + p / c * c, *dy = in[1] + p / c * c;
		double length = length_of(x, c), along = 0;

		for (int64_t i = 0; i < c; i++)
			along += x[i] * dy[i] / (length * length);
		out[0][p] = (in[1][p] - in[0][p] * along) / length;
	}
}

void reference_reduce(const struct call *call, double **in, double **out)
{
	for (size_t p = 0; p < call->in[0]->elements; p++)
		out[0][0] += call->node->factor * in[0][p];
}

void reference_reduce_backward(const struct call *call, double **in, double **out)
{
	for (size_t p = 0; p < call->out[0]->elements; p++)
		out[0][p] = call->node->factor * (in[0] ? in[0][0] : 1);
}

/* ---- encodings ---- */

void reference_fourier(const struct call *call, double **in, double **out)
{
	int levels = call->node->levels;

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements * levels; p++) {
		double angle = in[0][p / levels] * ldexp(acos(-1), (int)(p % levels));
		double *y = out[0] + p / levels * 2 * levels + p % levels;

		y[0] = sin(angle);
		y[levels] = cos(angle);
	}
}

void reference_fourier_backward(const struct call *call, double **in, double **out)
{
	int levels = call->node->levels;

	for (int64_t p = 0; p < (int64_t)call->in[0]->elements * levels; p++) {
		double frequency = ldexp(acos(-1), (int)(p % levels)), angle = in[0][p / levels] * frequency;
		const double *dy = in[1] + p / levels * 2 * levels + p % levels;

		out[0][p / levels] += frequency * (cos(angle) * dy[0] - sin(angle) * dy[levels]);
	}
}

/* A monomial c x^a y^b z^e of harmonic k. */
static const struct term {
	int k;
	double factor;
	int power[3];
} terms[] = {{0, 0.28209479177387814, {0, 0, 0}}, {1, -0.4886025119029199, {0, 1, 0}},
	{2, 0.4886025119029199, {0, 0, 1}}, {3, -0.4886025119029199, {1, 0, 0}},
	{4, 1.0925484305920792, {1, 1, 0}}, {5, -1.0925484305920792, {0, 1, 1}},
	{6, 2 * 0.31539156525252005, {0, 0, 2}}, {6, -0.31539156525252005, {2, 0, 0}},
	{6, -0.31539156525252005, {0, 2, 0}}, {7, -1.0925484305920792, {1, 0, 1}},
	{8, 0.5462742152960396, {2, 0, 0}}, {8, -0.5462742152960396, {0, 2, 0}},
	{9, -3 * 0.5900435899266435, {2, 1, 0}}, {9, 0.5900435899266435, {0, 3, 0}},
	{10, 2.890611442640554, {1, 1, 1}}, {11, -4 * 0.4570457994644658, {0, 1, 2}},
	{11, 0.4570457994644658, {2, 1, 0}}, {11, 0.4570457994644658, {0, 3, 0}},
	{12, 2 * 0.3731763325901154, {0, 0, 3}}, {12, -3 * 0.3731763325901154, {2, 0, 1}},
	{12, -3 * 0.3731763325901154, {0, 2, 1}}, {13, -4 * 0.4570457994644658, {1, 0, 2}},
	{13, 0.4570457994644658, {3, 0, 0}}, {13, 0.4570457994644658, {1, 2, 0}},
	{14, 1.445305721320277, {2, 0, 1}}, {14, -1.445305721320277, {0, 2, 1}},
	{15, -0.5900435899266435, {3, 0, 0}}, {15, 3 * 0.5900435899266435, {1, 2, 0}}};
#define TERMS (sizeof(terms) / sizeof(*terms))

/* The monomial, or its derivative by an axis (0 to 2). */
static double monomial(const struct term *term, const double *x, int by)
{
	double value = term->factor;

	for (int axis = 0; axis < 3; axis++) {
		int power = term->power[axis];

		value *= axis != by ? pow(x[axis], power) : power ? power * pow(x[axis], power - 1) : 0;
	}
	return value;
}

void reference_spherical_harmonics(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->out[0]);

	for (int64_t r = 0; r < reference_rows(call->out[0]); r++) {
		for (size_t t = 0; t < TERMS && terms[t].k < c; t++)
			out[0][r * c + terms[t].k] += monomial(&terms[t], in[0] + 3 * r, -1);
	}
}

void reference_spherical_harmonics_backward(const struct call *call, double **in, double **out)
{
	int64_t c = reference_channels(call->in[1]);

	for (int64_t p = 0; p < 3 * reference_rows(call->in[1]); p++) {
		for (size_t t = 0; t < TERMS && terms[t].k < c; t++)
			out[0][p] += monomial(&terms[t], in[0] + p / 3 * 3, (int)(p % 3)) *
				     in[1][p / 3 * c + terms[t].k];
	}
}
