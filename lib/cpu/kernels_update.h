/* Optimizer steps and norms over parameters. */

static double sum_squares(const float *x, int64_t count)
{
	wide sum[2] = {{0}};
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES) {
		wide a = widen(x + i), b = widen(x + i + HALF);
		sum[0] += a * a;
		sum[1] += b * b;
	}
	double total = wide_total(sum[0] + sum[1]);
	for (; i < count; i++)
		total += (double)x[i] * x[i];
	return total;
}

/* In the order of PyTorch's operations: decay, lerp, mul and addcmul, sqrt and div and add, addcdiv. */
INLINE vector adam_vector(
	const struct adam_step *s, vector value, vector gradient, vector *moment1, vector *moment2)
{
	vector kept = value * s->keep;
	vector g = gradient * s->scale + s->decay * value;
	*moment1 = *moment1 + s->beta1_rest * (g - *moment1);
	*moment2 = *moment2 * s->beta2 + s->beta2_rest * g * g;
	vector root = VECTOR_ROOT(*moment2) / s->correction2 + s->epsilon;
	return kept - s->step_size * *moment1 / root;
}

static void adam(const struct adam_step *step, float *value, const float *gradient, float *moment1,
	float *moment2, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		vector m = load_some(moment1 + i, some), v = load_some(moment2 + i, some);
		store_some(value + i,
			adam_vector(step, load_some(value + i, some), load_some(gradient + i, some), &m, &v),
			some);
		store_some(moment1 + i, m, some);
		store_some(moment2 + i, v, some);
	}
}

/* d = gradient + decay value; buffer = momentum buffer + fresh d; value -= rate (nesterov: d + momentum buffer). */
static void sgd(
	const struct sgd_step *step, float *value, const float *gradient, float *buffer, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		const vector old = load_some(value + i, some);
		vector d = load_some(gradient + i, some) * step->scale + step->decay * old;
		if (buffer) {
			vector b = step->momentum * load_some(buffer + i, some) + step->fresh * d;
			store_some(buffer + i, b, some);
			d = step->nesterov ? d + step->momentum * b : b;
		}
		store_some(value + i, old - step->rate * d, some);
	}
}

static void blend(float *to, const float *from, float keep, float fresh, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		store_some(to + i, keep * load_some(to + i, some) + fresh * load_some(from + i, some), some);
	}
}
