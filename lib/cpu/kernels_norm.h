/* Sums over rows in double and the two norms. `half` elements are widened at a time. */

#define HALF (LANES / 2)

static void column_sums(double *sum, const float *x, int64_t rows, int64_t columns)
{
	int64_t c = 0;
	for (; c + LANES <= columns; c += LANES) {
		wide low = load_wide(sum + c), high = load_wide(sum + c + HALF);
		for (int64_t r = 0; r < rows; r++) {
			low += widen(x + r * columns + c);
			high += widen(x + r * columns + c + HALF);
		}
		store_wide(sum + c, low);
		store_wide(sum + c + HALF, high);
	}
	for (; c < columns; c++)
		for (int64_t r = 0; r < rows; r++)
			sum[c] += x[r * columns + c];
}

static void column_moments(double *sum, double *square, const float *x, int64_t rows, int64_t columns)
{
	int64_t c = 0;
	for (; c + LANES <= columns; c += LANES) {
		wide low = load_wide(sum + c), high = load_wide(sum + c + HALF);
		wide low2 = load_wide(square + c), high2 = load_wide(square + c + HALF);
		for (int64_t r = 0; r < rows; r++) {
			wide a = widen(x + r * columns + c), b = widen(x + r * columns + c + HALF);
			low += a;
			high += b;
			low2 += a * a;
			high2 += b * b;
		}
		store_wide(sum + c, low);
		store_wide(sum + c + HALF, high);
		store_wide(square + c, low2);
		store_wide(square + c + HALF, high2);
	}
	for (; c < columns; c++) {
		for (int64_t r = 0; r < rows; r++) {
			double value = x[r * columns + c];
			sum[c] += value;
			square[c] += value * value;
		}
	}
}

INLINE void norm_apply_loop(const struct norm_rows *n, float *y, const bool silu)
{
	for (int64_t p = 0; p < n->positions; p++) {
		const float *x = n->x + p * n->channels;
		float *out = y + p * n->channels;
		int64_t c = 0;
		for (; c + LANES <= n->channels; c += LANES) {
			vector z = fused(load(x + c), load(n->scale + c), load(n->shift + c));
			store(out + c, silu ? z * vector_sigmoid(z) : z);
		}
		int64_t rest = n->channels - c;
		if (rest) {
			vector z = fused(load_some(x + c, rest), load_some(n->scale + c, rest),
				load_some(n->shift + c, rest));
			store_some(out + c, silu ? z * vector_sigmoid(z) : z, rest);
		}
	}
}

static void norm_apply(const struct norm_rows *n, float *y)
{
	if (n->silu)
		norm_apply_loop(n, y, true);
	else
		norm_apply_loop(n, y, false);
}

/* dy through the activation behind the norm. */
INLINE vector norm_inner_gradient(vector x, vector scale, vector shift, vector dy, const bool silu)
{
	if (!silu)
		return dy;
	vector z = fused(x, scale, shift), s = vector_sigmoid(z);
	return dy * (s * (1.0f + z * (1.0f - s)));
}

/* Adds a vector to LANES doubles. */
INLINE void widen_add(wide sum[2], vector v)
{
	float part[LANES];
	store(part, v);
	sum[0] += widen(part);
	sum[1] += widen(part + HALF);
}

INLINE void norm_sums_loop(const struct norm_rows *n, double *sum, double *product, const bool silu)
{
	for (int64_t c = 0; c < n->channels; c += LANES) {
		int64_t some = n->channels - c < LANES ? n->channels - c : LANES;
		vector scale = load_some(n->scale + c, some), shift = load_some(n->shift + c, some);
		wide first[2] = {{0}}, second[2] = {{0}};
		for (int64_t p = 0; p < n->positions; p++) {
			const float *px = n->x + p * n->channels + c, *py = n->dy + p * n->channels + c;
			vector x = some == LANES ? load(px) : load_some(px, some);
			vector dy = some == LANES ? load(py) : load_some(py, some);
			vector g = norm_inner_gradient(x, scale, shift, dy, silu);
			widen_add(first, g);
			widen_add(second, g * x);
		}
		double all[2 * LANES];
		memcpy(all, first, sizeof first);
		memcpy(all + LANES, second, sizeof second);
		for (int64_t i = 0; i < some; i++) {
			sum[c + i] += all[i];
			product[c + i] += all[LANES + i];
		}
	}
}

static void norm_gradient_sums(const struct norm_rows *n, double *sum, double *product)
{
	if (n->silu)
		norm_sums_loop(n, sum, product, true);
	else
		norm_sums_loop(n, sum, product, false);
}

INLINE void norm_gradient_loop(
	const struct norm_rows *n, const float *slope, const float *offset, float *dx, const bool silu)
{
	for (int64_t p = 0; p < n->positions; p++) {
		const float *x = n->x + p * n->channels, *dy = n->dy + p * n->channels;
		float *out = dx + p * n->channels;
		int64_t c = 0;
		for (; c + LANES <= n->channels; c += LANES) {
			vector xv = load(x + c), a = load(n->scale + c);
			vector g = norm_inner_gradient(xv, a, load(n->shift + c), load(dy + c), silu);
			vector v = fused(g, a, fused(xv, load(slope + c), load(offset + c)));
			store(out + c, n->accumulate ? load(out + c) + v : v);
		}
		int64_t rest = n->channels - c;
		if (rest) {
			vector xv = load_some(x + c, rest), a = load_some(n->scale + c, rest);
			vector g = norm_inner_gradient(
				xv, a, load_some(n->shift + c, rest), load_some(dy + c, rest), silu);
			vector v = fused(
				g, a, fused(xv, load_some(slope + c, rest), load_some(offset + c, rest)));
			store_some(out + c, n->accumulate ? load_some(out + c, rest) + v : v, rest);
		}
	}
}

static void norm_gradient(const struct norm_rows *n, const float *slope, const float *offset, float *dx)
{
	if (n->silu)
		norm_gradient_loop(n, slope, offset, dx, true);
	else
		norm_gradient_loop(n, slope, offset, dx, false);
}

/* Lanes added in order. */
INLINE double wide_total(wide v)
{
	double sum = 0;
	for (int i = 0; i < HALF; i++)
		sum += v[i];
	return sum;
}

static void layer_norm(float *y, float *mean, float *rstd, const float *x, const float *gamma,
	const float *beta, int64_t rows, int64_t columns, double epsilon)
{
	for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
		wide sum = {0}, square = {0};
		int64_t c = 0;
		for (; c + HALF <= columns; c += HALF) {
			wide v = widen(x + c);
			sum += v;
			square += v * v;
		}
		double total = wide_total(sum), squares = wide_total(square);
		for (; c < columns; c++) {
			total += x[c];
			squares += (double)x[c] * x[c];
		}
		double middle = total / (double)columns,
		       variance = squares / (double)columns - middle * middle;
		double inverse = 1.0 / sqrt((variance > 0 || variance != variance ? variance : 0) + epsilon);
		mean[r] = (float)middle;
		rstd[r] = (float)inverse;
		const float a = rstd[r], b = (float)(-middle * inverse);
		for (c = 0; c + LANES <= columns; c += LANES)
			store(y + c, fused(fused(load(x + c), splat(a), splat(b)), load(gamma + c),
					     load(beta + c)));
		int64_t rest = columns - c;
		if (rest) {
			vector v = fused(load_some(x + c, rest), splat(a), splat(b));
			store_some(
				y + c, fused(v, load_some(gamma + c, rest), load_some(beta + c, rest)), rest);
		}
	}
}

/* Of one row: the sums of g = dy * gamma and of g * x, and the parameters' sums. */
INLINE void layer_norm_row_sums(double *dgamma, double *dbeta, const float *x, const float *gamma,
	const float *dy, int64_t columns, double mean, double rstd, double total[2])
{
	wide sum = {0}, product = {0};
	int64_t c = 0;
	for (; c + HALF <= columns; c += HALF) {
		wide d = widen(dy + c), normal = (widen(x + c) - mean) * rstd, g = d * widen(gamma + c);
		store_wide(dbeta + c, load_wide(dbeta + c) + d);
		store_wide(dgamma + c, load_wide(dgamma + c) + d * normal);
		sum += g;
		product += g * normal;
	}
	total[0] = wide_total(sum);
	total[1] = wide_total(product);
	for (; c < columns; c++) {
		double normal = (x[c] - mean) * rstd, g = (double)dy[c] * gamma[c];
		dbeta[c] += dy[c];
		dgamma[c] += dy[c] * normal;
		total[0] += g;
		total[1] += g * normal;
	}
}

static void layer_norm_backward(float *dx, double *dgamma, double *dbeta, const float *x, const float *gamma,
	const float *mean, const float *rstd, const float *dy, int64_t rows, int64_t columns, bool accumulate)
{
	for (int64_t r = 0; r < rows; r++, x += columns, dy += columns, dx += columns) {
		double total[2], m = mean[r], s = rstd[r];
		layer_norm_row_sums(dgamma, dbeta, x, gamma, dy, columns, m, s, total);
		/* dx = rstd (g - mean g - normal * mean(g normal)), as g * a + x * b + e */
		double slope = -s * s * total[1] / (double)columns;
		const vector a = splat(rstd[r]), b = splat((float)slope);
		const vector e = splat((float)(-slope * m - s * total[0] / (double)columns));
		int64_t c = 0;
		for (; c + LANES <= columns; c += LANES) {
			vector v = fused(load(dy + c) * load(gamma + c), a, fused(load(x + c), b, e));
			store(dx + c, accumulate ? load(dx + c) + v : v);
		}
		int64_t rest = columns - c;
		if (rest) {
			vector v = fused(load_some(dy + c, rest) * load_some(gamma + c, rest), a,
				fused(load_some(x + c, rest), b, e));
			store_some(dx + c, accumulate ? load_some(dx + c, rest) + v : v, rest);
		}
	}
}
