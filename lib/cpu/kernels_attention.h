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

static void softmax_backward(float *p, float *d, int64_t keys, int64_t queries, float factor_of_scores,
	const float *lse, const float *delta)
{
	const vector s = splat(factor_of_scores);
	for (int64_t k = 0; k < keys; k++, p += queries, d += queries) {
		int64_t q = 0;
		for (; q + LANES <= queries; q += LANES) {
			vector e = vector_exp(fused(load(p + q), s, -load(lse + q)));
			store(p + q, e);
			store(d + q, e * (load(d + q) - load(delta + q)) * s);
		}
		int64_t rest = queries - q;
		if (rest) {
			vector e = vector_exp(fused(load_some(p + q, rest), s, -load_some(lse + q, rest)));
			store_some(p + q, e, rest);
			store_some(
				d + q, e * (load_some(d + q, rest) - load_some(delta + q, rest)) * s, rest);
		}
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
