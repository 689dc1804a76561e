/* The soft part of attention, on scores stored [keys, queries]: lanes are queries, so nothing is added across lanes. */

INLINE void softmax_lanes(float *scores, int64_t keys, int64_t queries, vector factor_of_scores,
	float *largest, float *sum, float *factor, const bool ragged, int64_t some)
{
	vector before = ragged ? load_some(largest, some) : load(largest), now = before;
	for (int64_t k = 0; k < keys; k++) {
		const float *p = scores + k * queries;
		vector v = (ragged ? load_some(p, some) : load(p)) * factor_of_scores;
		now = choose(v > now, v, now);
	}
	vector total = {0};
	for (int64_t k = 0; k < keys; k++) {
		float *p = scores + k * queries;
		vector e = vector_exp(fused(ragged ? load_some(p, some) : load(p), factor_of_scores, -now));
		total += e;
		if (ragged)
			store_some(p, e, some);
		else
			store(p, e);
	}
	vector f = vector_exp(before - now);
	vector added = fused(ragged ? load_some(sum, some) : load(sum), f, total);
	store_some(largest, now, ragged ? some : LANES);
	store_some(sum, added, ragged ? some : LANES);
	store_some(factor, f, ragged ? some : LANES);
}

static void softmax_block(float *scores, int64_t keys, int64_t queries, float factor_of_scores,
	float *largest, float *sum, float *factor)
{
	const vector s = splat(factor_of_scores);
	int64_t q = 0;
	for (; q + LANES <= queries; q += LANES)
		softmax_lanes(scores + q, keys, queries, s, largest + q, sum + q, factor + q, false, 0);
	if (q < queries)
		softmax_lanes(
			scores + q, keys, queries, s, largest + q, sum + q, factor + q, true, queries - q);
}

INLINE void softmax_backward_lanes(float *p, float *d, int64_t keys, int64_t queries, vector factor_of_scores,
	vector lse, vector delta, const int64_t some)
{
	for (int64_t k = 0; k < keys; k++, p += queries, d += queries) {
		vector e = vector_exp(fused(load_some(p, some), factor_of_scores, -lse));
		store_some(p, e, some);
		store_some(d, e * (load_some(d, some) - delta) * factor_of_scores, some);
	}
}

static void softmax_backward(float *p, float *d, int64_t keys, int64_t queries, float factor_of_scores,
	const float *lse, const float *delta)
{
	const vector s = splat(factor_of_scores);
	for (int64_t q = 0; q < queries; q += LANES) {
		const int64_t some = queries - q < LANES ? queries - q : LANES;
		const vector l = load_some(lse + q, some), e = load_some(delta + q, some);
		if (some == LANES)
			softmax_backward_lanes(p + q, d + q, keys, queries, s, l, e, LANES);
		else
			softmax_backward_lanes(p + q, d + q, keys, queries, s, l, e, some);
	}
}

INLINE void softmax_whole_lanes(float *p, float *d, int64_t keys, int64_t queries, vector factor_of_scores,
	vector lse, const int64_t some)
{
	vector sum = {0}, product = {0};
	for (int64_t k = 0; k < keys; k++) {
		vector e = vector_exp(fused(load_some(p + k * queries, some), factor_of_scores, -lse));
		store_some(p + k * queries, e, some);
		sum += e;
		product = fused(e, load_some(d + k * queries, some), product);
	}
	const vector inverse = 1.0f / sum, delta = product * inverse;
	for (int64_t k = 0; k < keys; k++, p += queries, d += queries) {
		vector e = load_some(p, some) * inverse;
		store_some(p, e, some);
		store_some(d, e * (load_some(d, some) - delta) * factor_of_scores, some);
	}
}

static void softmax_backward_whole(
	float *p, float *d, int64_t keys, int64_t queries, float factor_of_scores, const float *lse)
{
	const vector s = splat(factor_of_scores);
	for (int64_t q = 0; q < queries; q += LANES) {
		const int64_t some = queries - q < LANES ? queries - q : LANES;
		const vector l = load_some(lse + q, some);
		if (some == LANES)
			softmax_whole_lanes(p + q, d + q, keys, queries, s, l, LANES);
		else
			softmax_whole_lanes(p + q, d + q, keys, queries, s, l, some);
	}
}

static double dot(const float *a, const float *b, int64_t count)
{
	wide sum = {0};
	int64_t i = 0;
	for (; i + HALF <= count; i += HALF)
		sum += widen(a + i) * widen(b + i);
	double total = wide_total(sum);
	for (; i < count; i++)
		total += (double)a[i] * b[i];
	return total;
}
