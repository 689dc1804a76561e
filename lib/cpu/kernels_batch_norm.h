/* Batch norm with what may stand behind it: a residual and ReLU. Rows are dense. */

enum relu_mask { MASK_NONE, MASK_BY_X, MASK_BY_Y };

INLINE enum relu_mask relu_mask_of(const struct batch_rows *b)
{
	return !b->relu ? MASK_NONE : b->y ? MASK_BY_Y : MASK_BY_X;
}

INLINE void batch_norm_loop(const struct batch_rows *b, float *y, const bool residual, const bool relu)
{
	for (int64_t r = 0; r < b->rows; r++) {
		const int64_t at = r * b->channels;
		for (int64_t c = 0; c < b->channels; c += LANES) {
			const int64_t some = b->channels - c < LANES ? b->channels - c : LANES;
			vector z = fused(load_some(b->x + at + c, some), load_some(b->scale + c, some),
				load_some(b->shift + c, some));
			if (residual)
				z += load_some(b->residual + at + c, some);
			z = relu ? at_least(z, splat(0.0f)) : z;
			store_some(y + at + c, z, some);
		}
	}
}

static void batch_norm(const struct batch_rows *b, float *y)
{
	if (b->residual && b->relu)
		batch_norm_loop(b, y, true, true);
	else if (b->residual)
		batch_norm_loop(b, y, true, false);
	else if (b->relu)
		batch_norm_loop(b, y, false, true);
	else
		batch_norm_loop(b, y, false, false);
}

/* dy through ReLU. */
INLINE vector batch_inner_gradient(
	const struct batch_rows *b, int64_t at, int64_t c, int64_t some, vector x, const enum relu_mask mask)
{
	const vector dy = load_some(b->dy + at + c, some);
	if (mask == MASK_NONE)
		return dy;
	const vector z = mask == MASK_BY_Y
				 ? load_some(b->y + at + c, some)
				 : fused(x, load_some(b->scale + c, some), load_some(b->shift + c, some));
	return choose(z > 0.0f, dy, splat(0.0f));
}

/* `few` rows from element `at` on, of a vector of channels. */
INLINE void short_batch_sums(const struct batch_rows *b, double *sum, double *product, int64_t at, int64_t c,
	int64_t few, const int64_t some, const enum relu_mask mask)
{
	const vector middle = load_some(b->middle + c, some);
	vector first = {0}, second = {0};
	for (int64_t r = 0; r < few; r++, at += b->channels) {
		const vector x = load_some(b->x + at + c, some);
		const vector g = batch_inner_gradient(b, at, c, some, x, mask);
		first += g;
		second = fused(g, x - middle, second);
	}
	widen_add(sum + c, first, some);
	widen_add(product + c, second, some);
}

INLINE void batch_sums_loop(
	const struct batch_rows *b, double *sum, double *product, const enum relu_mask mask)
{
	for (int64_t r = 0; r < b->rows; r += SHORT) {
		const int64_t few = b->rows - r < SHORT ? b->rows - r : SHORT, at = r * b->channels;
		int64_t c = 0;
		for (; c + LANES <= b->channels; c += LANES)
			short_batch_sums(b, sum, product, at, c, few, LANES, mask);
		if (c < b->channels)
			short_batch_sums(b, sum, product, at, c, few, b->channels - c, mask);
	}
}

static void batch_norm_sums(const struct batch_rows *b, double *sum, double *product)
{
	switch (relu_mask_of(b)) {
	case MASK_NONE:
		batch_sums_loop(b, sum, product, MASK_NONE);
		break;
	case MASK_BY_X:
		batch_sums_loop(b, sum, product, MASK_BY_X);
		break;
	case MASK_BY_Y:
		batch_sums_loop(b, sum, product, MASK_BY_Y);
		break;
	}
}

INLINE void batch_gradient_loop(const struct batch_rows *b, const float *slope, const float *offset,
	float *dx, float *dresidual, const enum relu_mask mask)
{
	for (int64_t r = 0; r < b->rows; r++) {
		const int64_t at = r * b->channels;
		for (int64_t c = 0; c < b->channels; c += LANES) {
			const int64_t some = b->channels - c < LANES ? b->channels - c : LANES;
			const vector x = load_some(b->x + at + c, some);
			const vector g = batch_inner_gradient(b, at, c, some, x, mask);
			const vector v = fused(g, load_some(b->scale + c, some),
				fused(x, load_some(slope + c, some), load_some(offset + c, some)));
			if (dx)
				store_some(
					dx + at + c, b->add_x ? load_some(dx + at + c, some) + v : v, some);
			if (dresidual)
				store_some(dresidual + at + c,
					b->add_residual ? load_some(dresidual + at + c, some) + g : g, some);
		}
	}
}

static void batch_norm_gradient(
	const struct batch_rows *b, const float *slope, const float *offset, float *dx, float *dresidual)
{
	switch (relu_mask_of(b)) {
	case MASK_NONE:
		batch_gradient_loop(b, slope, offset, dx, dresidual, MASK_NONE);
		break;
	case MASK_BY_X:
		batch_gradient_loop(b, slope, offset, dx, dresidual, MASK_BY_X);
		break;
	case MASK_BY_Y:
		batch_gradient_loop(b, slope, offset, dx, dresidual, MASK_BY_Y);
		break;
	}
}
