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

/* In the order of PyTorch's operations: lerp, mul and addcmul, sqrt and div and add, addcdiv. */
INLINE vector adam_vector(
	const struct adam_step *s, vector value, vector gradient, vector *moment1, vector *moment2)
{
	vector g = gradient * s->scale;
	*moment1 = *moment1 + s->beta1_rest * (g - *moment1);
	*moment2 = *moment2 * s->beta2 + s->beta2_rest * g * g;
	vector root = VECTOR_ROOT(*moment2) / s->correction2 + s->epsilon;
	return value - s->step_size * *moment1 / root;
}

static void adam(const struct adam_step *step, float *value, const float *gradient, float *moment1,
	float *moment2, int64_t count)
{
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES) {
		vector m = load(moment1 + i), v = load(moment2 + i);
		store(value + i, adam_vector(step, load(value + i), load(gradient + i), &m, &v));
		store(moment1 + i, m);
		store(moment2 + i, v);
	}
	int64_t rest = count - i;
	if (rest) {
		vector m = load_some(moment1 + i, rest), v = load_some(moment2 + i, rest);
		store_some(value + i,
			adam_vector(step, load_some(value + i, rest), load_some(gradient + i, rest), &m, &v),
			rest);
		store_some(moment1 + i, m, rest);
		store_some(moment2 + i, v, rest);
	}
}

static void sgd(float rate, float momentum, float factor, float *value, const float *gradient, float *buffer,
	int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		float g = gradient[i] * factor;
		if (buffer)
			g = buffer[i] = momentum * buffer[i] + g;
		value[i] -= rate * g;
	}
}
