/* Sums over rows and the two norms. Sums are of at most SHORT terms in float32, then in double. */

#define HALF (LANES / 2)
#define SHORT 16

/* sum[0 .. count-1] += the lanes of v */
INLINE void widen_add(double *sum, vector v, int64_t count)
{
	float part[LANES];
	store(part, v);
	if (count == LANES) {
		store_wide(sum, load_wide(sum) + widen(part));
		store_wide(sum + HALF, load_wide(sum + HALF) + widen(part + HALF));
		return;
	}
	for (int64_t i = 0; i < count; i++)
		sum[i] += part[i];
}

/* Rows of a vector of columns, two chains of additions. */
INLINE vector short_sum(const float *x, int64_t rows, int64_t columns, const int64_t some)
{
	vector even = {0}, odd = {0};
	int64_t r = 0;
	for (; r + 2 <= rows; r += 2) {
		even += load_some(x + r * columns, some);
		odd += load_some(x + (r + 1) * columns, some);
	}
	return r < rows ? even + odd + load_some(x + r * columns, some) : even + odd;
}

static void column_sums(double *sum, const float *x, int64_t rows, int64_t columns)
{
	for (; rows > 0; rows -= SHORT, x += SHORT * columns) {
		const int64_t few = rows < SHORT ? rows : SHORT;
		int64_t c = 0;
		for (; c + LANES <= columns; c += LANES)
			widen_add(sum + c, short_sum(x + c, few, columns, LANES), LANES);
		if (c < columns)
			widen_add(sum + c, short_sum(x + c, few, columns, columns - c), columns - c);
	}
}

/* Moments about the first row, so that a large mean costs nothing; `few` rows of a vector of columns. */
INLINE void short_moments(double *sum, double *square, const float *x, vector pivot, int64_t few,
	int64_t columns, const int64_t some)
{
	vector first = {0}, second = {0};
	for (int64_t r = 0; r < few; r++) {
		vector d = load_some(x + r * columns, some) - pivot;
		first += d;
		second = fused(d, d, second);
	}
	widen_add(sum, first, some);
	widen_add(square, second, some);
}

static void column_moments(double *sum, double *square, const float *x, int64_t rows, int64_t columns)
{
	for (int64_t r = 0; r < rows; r += SHORT) {
		const float *at = x + r * columns;
		const int64_t few = rows - r < SHORT ? rows - r : SHORT;
		int64_t c = 0;
		for (; c + LANES <= columns; c += LANES)
			short_moments(sum + c, square + c, at + c, load(x + c), few, columns, LANES);
		if (c < columns)
			short_moments(sum + c, square + c, at + c, load_some(x + c, columns - c), few,
				columns, columns - c);
	}
	for (int64_t c = 0; c < columns; c++) {
		const double pivot = x[c], n = (double)rows;
		square[c] += pivot * (2 * sum[c] + n * pivot);
		sum[c] += n * pivot;
	}
}

INLINE void norm_apply_loop(const struct norm_rows *n, float *y, const bool silu)
{
	for (int64_t p = 0; p < n->positions; p++) {
		const float *x = n->x + p * n->channels;
		float *out = y + p * n->channels;
		for (int64_t c = 0; c < n->channels; c += LANES) {
			const int64_t some = n->channels - c < LANES ? n->channels - c : LANES;
			vector z = fused(load_some(x + c, some), load_some(n->scale + c, some),
				load_some(n->shift + c, some));
			store_some(out + c, silu ? z * vector_sigmoid(z) : z, some);
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
	return dy * vector_silu_slope(fused(x, scale, shift));
}

/* `few` positions of a vector of channels; g is kept in `keep` unless that is NULL. */
INLINE void short_gradient_sums(const struct norm_rows *n, float *keep, double *sum, double *product,
	int64_t at, int64_t c, int64_t few, const int64_t some, const bool silu)
{
	const vector scale = load_some(n->scale + c, some), shift = load_some(n->shift + c, some);
	const vector middle = load_some(n->middle + c, some);
	vector first = {0}, second = {0};
	for (int64_t p = 0; p < few; p++, at += n->channels) {
		vector x = load_some(n->x + at + c, some);
		vector g = norm_inner_gradient(x, scale, shift, load_some(n->dy + at + c, some), silu);
		first += g;
		second = fused(g, x - middle, second);
		if (keep)
			store_some(keep + at + c, g, some);
	}
	widen_add(sum + c, first, some);
	widen_add(product + c, second, some);
}

INLINE void norm_sums_loop(
	const struct norm_rows *n, float *keep, double *sum, double *product, const bool silu)
{
	for (int64_t p = 0; p < n->positions; p += SHORT) {
		const int64_t few = n->positions - p < SHORT ? n->positions - p : SHORT, at = p * n->channels;
		int64_t c = 0;
		for (; c + LANES <= n->channels; c += LANES)
			short_gradient_sums(n, keep, sum, product, at, c, few, LANES, silu);
		if (c < n->channels)
			short_gradient_sums(n, keep, sum, product, at, c, few, n->channels - c, silu);
	}
}

static void norm_gradient_sums(const struct norm_rows *n, float *keep, double *sum, double *product)
{
	if (!n->silu)
		norm_sums_loop(n, NULL, sum, product, false);
	else if (keep)
		norm_sums_loop(n, keep, sum, product, true);
	else
		norm_sums_loop(n, NULL, sum, product, true);
}

INLINE void norm_gradient_loop(
	const struct norm_rows *n, const float *slope, const float *offset, float *dx, const bool silu)
{
	for (int64_t p = 0; p < n->positions; p++) {
		const float *x = n->x + p * n->channels, *dy = n->dy + p * n->channels;
		float *out = dx + p * n->channels;
		for (int64_t c = 0; c < n->channels; c += LANES) {
			const int64_t some = n->channels - c < LANES ? n->channels - c : LANES;
			vector xv = load_some(x + c, some), a = load_some(n->scale + c, some);
			vector g = norm_inner_gradient(
				xv, a, load_some(n->shift + c, some), load_some(dy + c, some), silu);
			vector v = fused(
				g, a, fused(xv, load_some(slope + c, some), load_some(offset + c, some)));
			store_some(out + c, n->accumulate ? load_some(out + c, some) + v : v, some);
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
