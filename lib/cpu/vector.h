/*
 * Vectors of floats for the kernel bodies, in the compiler's own vector types. The including file says first (the last
 * five only where the instruction set has better than what stands below):
 *
 *	LANES                       floats in a vector
 *	VECTOR_FUSED(a, b, c)       a * b + c, fused where the instruction set can (it says so by VECTOR_IS_FUSED)
 *	VECTOR_SMALLER(a, b)        the smaller; b where either is not a number
 *	VECTOR_LARGER(a, b)         the larger; the same
 *	VECTOR_ROOT(a)              square roots
 *	VECTOR_LOAD_SOME(p, count)  the first `count` lanes from memory, 0 in the others; count below LANES
 *	VECTOR_STORE_SOME(p, v, count)
 *
 * Everything here is static: each instruction set gets its own copy, compiled for it.
 */
#include <math.h>
#include <string.h>

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float vector_in_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t vector_bits __attribute__((vector_size(4 * LANES)));
/* Half a vector, and the same many doubles. */
typedef float half __attribute__((vector_size(2 * LANES)));
typedef float half_in_memory __attribute__((vector_size(2 * LANES), aligned(4), may_alias));
typedef double wide __attribute__((vector_size(4 * LANES)));
typedef double wide_in_memory __attribute__((vector_size(4 * LANES), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vector choose(vector_bits mask, vector yes, vector no)
{
	return (vector)((mask & (vector_bits)yes) | (~mask & (vector_bits)no));
}

#ifndef VECTOR_SMALLER
#define VECTOR_SMALLER(a, b) choose((a) < (b), a, b)
#define VECTOR_LARGER(a, b) choose((a) > (b), a, b)
#define VECTOR_ROOT(a) vector_root(a)
#define VECTOR_LOAD_SOME(p, count) vector_load_some(p, count)
#define VECTOR_STORE_SOME(p, v, count) memcpy(p, &(v), (size_t)(count) * sizeof(float))

INLINE vector vector_root(vector v)
{
	vector root;
	for (int i = 0; i < LANES; i++)
		root[i] = sqrtf(v[i]);
	return root;
}

INLINE vector vector_load_some(const float *p, int64_t count)
{
	vector v = {0};
	memcpy(&v, p, (size_t)count * sizeof(float));
	return v;
}
#endif

INLINE vector load(const float *p)
{
	return *(const vector_in_memory *)p;
}

INLINE void store(float *p, vector v)
{
	*(vector_in_memory *)p = v;
}

/* The first `count` lanes, at most all; the others are 0. */
INLINE vector load_some(const float *p, int64_t count)
{
	return count == LANES ? load(p) : VECTOR_LOAD_SOME(p, count);
}

INLINE void store_some(float *p, vector v, int64_t count)
{
	if (count == LANES)
		store(p, v);
	else
		VECTOR_STORE_SOME(p, v, count);
}

INLINE vector splat(float value)
{
	return value - (vector){0};
}

INLINE wide splat_wide(double value)
{
	return value - (wide){0};
}

INLINE wide widen(const float *p)
{
	return __builtin_convertvector((half) * (const half_in_memory *)p, wide);
}

INLINE void store_wide(double *p, wide v)
{
	*(wide_in_memory *)p = v;
}

INLINE wide load_wide(const double *p)
{
	return *(const wide_in_memory *)p;
}

INLINE vector fused(vector a, vector b, vector c)
{
	return VECTOR_FUSED(a, b, c);
}

/* Not-a-number in a stays. */
INLINE vector at_most(vector a, vector limit)
{
	return VECTOR_SMALLER(limit, a);
}

INLINE vector at_least(vector a, vector limit)
{
	return VECTOR_LARGER(limit, a);
}

/*
 * e^x, error below 1.5 units in the last place: x = n ln 2 + r, a polynomial for e^r, n into the exponent. 0 below
 * -87.33 (where results would be subnormal), 2.4e38 above 88.37; not-a-number stays. The polynomial minimises the
 * largest relative error on +-ln 2 / 2 (3e-9).
 */
INLINE vector vector_exp(vector x)
{
	const vector round = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
	vector limited = at_least(at_most(x, splat(88.37f)), splat(-87.33f));
	vector shifted = fused(limited, splat(1.44269504f), round);
	vector n = shifted - round;
	vector r = fused(n, splat(-0.693145752f), limited); /* 15 bits of ln 2: exact products */
	r = fused(n, splat(-1.42860677e-6f), r);
	vector p = splat(0.00138144684f);
	p = fused(p, r, splat(0.00836878084f));
	p = fused(p, r, splat(0.0416683927f));
	p = fused(p, r, splat(0.166665196f));
	p = fused(p, r, splat(0.49999994f));
	p = fused(p * r, r, r) + 1.0f;
	vector_bits exponent = ((vector_bits)shifted - 0x4b400000 + 127) << 23;
	vector result = p * (vector)exponent;
	return (vector)((vector_bits)result & ~(x < -87.33f));
}

/* The same beyond both ends: infinite above 88.72. */
INLINE vector vector_exp_wide(vector x)
{
	vector half_way = vector_exp(0.5f * x);
	return choose((x > 88.0f) | (x < -87.0f), half_way * half_way, vector_exp(x));
}

/* log(1 + e^x) = max(x, 0) + log1p(e), e = e^-|x|; log1p(e) = 2 artanh(s), s = e / (2 + e) at most 1/3: the series up to
 * s^15 is right to 1e-8. */
INLINE vector vector_softplus(vector x)
{
	vector e = vector_exp((vector)((vector_bits)x | (int32_t)0x80000000));
	vector s = e / (2.0f + e), q = s * s;
	vector p = splat(1.0f / 15);
	p = fused(p, q, splat(1.0f / 13));
	p = fused(p, q, splat(1.0f / 11));
	p = fused(p, q, splat(1.0f / 9));
	p = fused(p, q, splat(1.0f / 7));
	p = fused(p, q, splat(1.0f / 5));
	p = fused(p, q, splat(1.0f / 3));
	p = fused(p * q, s, s);
	return at_least(x, splat(0.0f)) + 2.0f * p;
}

INLINE vector vector_sigmoid(vector x)
{
	return 1.0f / (1.0f + vector_exp(-x));
}

/* Derivatives of the logistic function s, and of x s (SiLU). 1 - s is computed as s e^-x, without cancellation. */
INLINE vector vector_sigmoid_slope(vector x)
{
	vector e = vector_exp(-x), s = 1.0f / (1.0f + e);
	return s * (e * s);
}

INLINE vector vector_silu_slope(vector x)
{
	vector e = vector_exp(-x), s = 1.0f / (1.0f + e);
	return s * fused(x, e * s, splat(1.0f));
}

/* The distribution function of the standard normal and its density, by erfc(u) = e^(-u^2) t P(t), t = 1/(1 + 0.4 u);
 * P fitted to 1.2e-8 relative; absolute error of the distribution about 1e-7. */
INLINE vector vector_normal(vector x, vector *density)
{
	vector u = (vector)((vector_bits)x & 0x7fffffff) * 0.707106781f;
	vector e = vector_exp(-u * u);
	vector t = 1.0f / fused(u, splat(0.4f), splat(1.0f));
	vector p = splat(-0.0285603516f);
	p = fused(p, t, splat(0.192202732f));
	p = fused(p, t, splat(-0.48467949f));
	p = fused(p, t, splat(0.52795738f));
	p = fused(p, t, splat(-0.267643064f));
	p = fused(p, t, splat(0.262814999f));
	p = fused(p, t, splat(0.132968113f));
	p = fused(p, t, splat(0.214196593f));
	p = fused(p, t, splat(0.225040853f));
	p = fused(p, t, splat(0.225702256f));
	vector tail = 0.5f * e * (p * t); /* of the far side */
	*density = e * 0.398942280f;
	return choose(x < 0.0f, tail, 1.0f - tail);
}
