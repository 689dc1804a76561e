/* Pooling: rows of channels under the places of a window. */

/* Where x is larger than y, or not a number: y = x, place[i] = tap. */
static void pool_largest(float *y, int32_t *place, const float *x, int32_t tap, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		const vector old = load_some(y + i, some), new = load_some(x + i, some);
		const vector_bits taken = (new > old) | (new != new);
		const vector places = choose(
			taken, (vector)(tap - (vector_bits){0}), load_some((const float *)place + i, some));
		store_some(y + i, choose(taken, new, old), some);
		store_some((float *)place + i, places, some);
	}
}

/* dx += dy where place is tap. */
static void pool_select(float *dx, const float *dy, const int32_t *place, int32_t tap, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		const vector_bits here = (vector_bits)load_some((const float *)place + i, some) == tap;
		store_some(dx + i,
			load_some(dx + i, some) + choose(here, load_some(dy + i, some), splat(0.0f)), some);
	}
}

/* y += factor x */
static void add_scaled(float *y, const float *x, float factor, int64_t count)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		store_some(y + i, fused(load_some(x + i, some), splat(factor), load_some(y + i, some)), some);
	}
}
