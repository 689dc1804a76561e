/*
 * Machine-independent sine, cosine, logarithm and exponential: argument reduction and a series, in double,
 * from operations that IEEE 754 rounds one way only. Compiled with -ffp-contract=off, so no multiply-add is
 * made of them.
 */
#include <math.h>

#include "base/random.h"

/* sum of c[i] x^i */
static double polynomial(const double *c, int count, double x)
{
	double sum = c[count - 1];
	for (int i = count - 2; i >= 0; i--)
		sum = sum * x + c[i];
	return sum;
}

/* floor() of what an integer can hold, without a call. */
static inline double whole(double x)
{
	double below = (double)(int64_t)x;
	return below > x ? below - 1 : below;
}

/* x - n pi/2 with |result| <= pi/4 and n modulo 4; pi/2 in three parts, so that n times the first two is
 * exact. */
static double reduce(double x, int *quadrant)
{
	static const double part[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
	double n = whole(x * 0.6366197723675814 + 0.5);
	*quadrant = (int)((int64_t)n & 3);
	return ((x - n * part[0]) - n * part[1]) - n * part[2];
}

static double sine_series(double x)
{
	static const double c[] = {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
		1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
	return x * polynomial(c, sizeof c / sizeof *c, x * x);
}

static double cosine_series(double x)
{
	static const double c[] = {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
		1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
	return polynomial(c, sizeof c / sizeof *c, x * x);
}

double exact_sin(double x)
{
	int quadrant;
	double r = reduce(x, &quadrant);
	double value = quadrant & 1 ? cosine_series(r) : sine_series(r);
	return quadrant & 2 ? -value : value;
}

double exact_cos(double x)
{
	int quadrant;
	double r = reduce(x, &quadrant);
	double value = quadrant & 1 ? sine_series(r) : cosine_series(r);
	return quadrant == 1 || quadrant == 2 ? -value : value;
}

void exact_sin_cos(double x, double *sine, double *cosine)
{
	int quadrant;
	double r = reduce(x, &quadrant), s = sine_series(r), c = cosine_series(r);
	*sine = quadrant & 1 ? c : s;
	*cosine = quadrant & 1 ? s : c;
	if (quadrant & 2)
		*sine = -*sine;
	if (quadrant == 1 || quadrant == 2)
		*cosine = -*cosine;
}

static const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;

/* m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m-1)/(m+1)). */
double exact_log(double x)
{
	static const double c[] = {2, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15,
		2.0 / 17, 2.0 / 19, 2.0 / 21};
	int exponent;
	if (!(x > 0) || isinf(x))
		return x == 0 ? -INFINITY : x > 0 ? x : NAN;
	double m = frexp(x, &exponent);
	if (m < 0.7071067811865476) {
		m *= 2;
		exponent--;
	}
	double s = (m - 1) / (m + 1);
	return exponent * ln2_high + (s * polynomial(c, sizeof c / sizeof *c, s * s) + exponent * ln2_low);
}

double exact_exp(double x)
{
	static const double c[] = {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
		1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
	if (isnan(x))
		return x;
	if (x > 710)
		return INFINITY;
	if (x < -746)
		return 0;
	double k = floor(x * 1.4426950408889634 + 0.5);
	double r = (x - k * ln2_high) - k * ln2_low;
	return ldexp(polynomial(c, sizeof c / sizeof *c, r), (int)k);
}
