/* Element-wise kernels. Tails go through the same vector code, so that an element's value does not depend on its place. */

INLINE vector activate(enum activation kind, vector x)
{
	vector density;
	switch (kind) {
	case ACTIVATION_RELU:
		return at_least(x, splat(0.0f));
	case ACTIVATION_SILU:
		return x * vector_sigmoid(x);
	case ACTIVATION_GELU:
		return x * vector_normal(x, &density);
	case ACTIVATION_SIGMOID:
		return vector_sigmoid(x);
	case ACTIVATION_EXP:
		return vector_exp_wide(x);
	case ACTIVATION_ABSOLUTE:
		return (vector)((vector_bits)x & 0x7fffffff);
	case ACTIVATION_SOFTPLUS:
		return vector_softplus(x);
	default:
		return x;
	}
}

/* Derivative of the activation at x. */
INLINE vector activation_slope(enum activation kind, vector x)
{
	vector s, density;
	switch (kind) {
	case ACTIVATION_RELU:
		return choose(x > 0.0f, splat(1.0f), splat(0.0f));
	case ACTIVATION_SILU:
		return vector_silu_slope(x);
	case ACTIVATION_GELU:
		s = vector_normal(x, &density);
		return s + x * density;
	case ACTIVATION_SIGMOID:
		return vector_sigmoid_slope(x);
	case ACTIVATION_EXP:
		return vector_exp_wide(x);
	case ACTIVATION_ABSOLUTE:
		return choose(x > 0.0f, splat(1.0f), choose(x < 0.0f, splat(-1.0f), splat(0.0f)));
	case ACTIVATION_SOFTPLUS:
		return vector_sigmoid(x);
	default:
		return splat(1.0f);
	}
}

INLINE void activation_loop(
	const enum activation kind, float *y, const float *x, int64_t count, bool accumulate)
{
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES) {
		vector v = activate(kind, load(x + i));
		store(y + i, accumulate ? load(y + i) + v : v);
	}
	if (i < count) {
		vector v = activate(kind, load_some(x + i, count - i));
		store_some(y + i, accumulate ? load_some(y + i, count - i) + v : v, count - i);
	}
}

static void activation(enum activation kind, float *y, const float *x, int64_t count, bool accumulate)
{
	switch (kind) {
	case ACTIVATION_NONE:
		activation_loop(ACTIVATION_NONE, y, x, count, accumulate);
		break;
	case ACTIVATION_RELU:
		activation_loop(ACTIVATION_RELU, y, x, count, accumulate);
		break;
	case ACTIVATION_SILU:
		activation_loop(ACTIVATION_SILU, y, x, count, accumulate);
		break;
	case ACTIVATION_GELU:
		activation_loop(ACTIVATION_GELU, y, x, count, accumulate);
		break;
	case ACTIVATION_SIGMOID:
		activation_loop(ACTIVATION_SIGMOID, y, x, count, accumulate);
		break;
	case ACTIVATION_EXP:
		activation_loop(ACTIVATION_EXP, y, x, count, accumulate);
		break;
	case ACTIVATION_ABSOLUTE:
		activation_loop(ACTIVATION_ABSOLUTE, y, x, count, accumulate);
		break;
	case ACTIVATION_SOFTPLUS:
		activation_loop(ACTIVATION_SOFTPLUS, y, x, count, accumulate);
		break;
	}
}

/* softplus(beta x) / beta */
static void softplus(float *y, const float *x, float beta, int64_t count, bool accumulate)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		vector v = vector_softplus(beta * load_some(x + i, some)) / beta;
		store_some(y + i, accumulate ? load_some(y + i, some) + v : v, some);
	}
}

static void softplus_backward(
	float *dx, const float *x, const float *dy, float beta, int64_t count, bool accumulate)
{
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		vector v = load_some(dy + i, some) * vector_sigmoid(beta * load_some(x + i, some));
		store_some(dx + i, accumulate ? load_some(dx + i, some) + v : v, some);
	}
}

INLINE void activation_backward_loop(const enum activation kind, float *dx, const float *x, const float *dy,
	int64_t count, bool accumulate)
{
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES) {
		vector v = load(dy + i) * activation_slope(kind, load(x + i));
		store(dx + i, accumulate ? load(dx + i) + v : v);
	}
	if (i < count) {
		vector v = load_some(dy + i, count - i) * activation_slope(kind, load_some(x + i, count - i));
		store_some(dx + i, accumulate ? load_some(dx + i, count - i) + v : v, count - i);
	}
}

static void activation_backward(
	enum activation kind, float *dx, const float *x, const float *dy, int64_t count, bool accumulate)
{
	switch (kind) {
	case ACTIVATION_NONE:
		activation_backward_loop(ACTIVATION_NONE, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_RELU:
		activation_backward_loop(ACTIVATION_RELU, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_SILU:
		activation_backward_loop(ACTIVATION_SILU, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_GELU:
		activation_backward_loop(ACTIVATION_GELU, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_SIGMOID:
		activation_backward_loop(ACTIVATION_SIGMOID, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_EXP:
		activation_backward_loop(ACTIVATION_EXP, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_ABSOLUTE:
		activation_backward_loop(ACTIVATION_ABSOLUTE, dx, x, dy, count, accumulate);
		break;
	case ACTIVATION_SOFTPLUS:
		activation_backward_loop(ACTIVATION_SOFTPLUS, dx, x, dy, count, accumulate);
		break;
	}
}

static void geglu(float *y, const float *x, int64_t rows, int64_t width, bool accumulate)
{
	vector density;
	for (int64_t r = 0; r < rows; r++, x += 2 * width, y += width) {
		int64_t i = 0;
		for (; i + LANES <= width; i += LANES) {
			vector gate = load(x + width + i);
			vector v = load(x + i) * (gate * vector_normal(gate, &density));
			store(y + i, accumulate ? load(y + i) + v : v);
		}
		if (i < width) {
			vector gate = load_some(x + width + i, width - i);
			vector v = load_some(x + i, width - i) * (gate * vector_normal(gate, &density));
			store_some(y + i, accumulate ? load_some(y + i, width - i) + v : v, width - i);
		}
	}
}

/* Gradients of a * gelu(g) for one vector. */
INLINE void geglu_gradient(vector a, vector gate, vector dy, vector *da, vector *dgate)
{
	vector density, normal = vector_normal(gate, &density);
	*da = dy * (gate * normal);
	*dgate = dy * a * (normal + gate * density);
}

static void geglu_backward(
	float *dx, const float *x, const float *dy, int64_t rows, int64_t width, bool accumulate)
{
	vector da, dg;
	for (int64_t r = 0; r < rows; r++, x += 2 * width, dx += 2 * width, dy += width) {
		int64_t i = 0;
		for (; i + LANES <= width; i += LANES) {
			geglu_gradient(load(x + i), load(x + width + i), load(dy + i), &da, &dg);
			store(dx + i, accumulate ? load(dx + i) + da : da);
			store(dx + width + i, accumulate ? load(dx + width + i) + dg : dg);
		}
		int64_t rest = width - i;
		if (rest) {
			geglu_gradient(load_some(x + i, rest), load_some(x + width + i, rest),
				load_some(dy + i, rest), &da, &dg);
			store_some(dx + i, accumulate ? load_some(dx + i, rest) + da : da, rest);
			store_some(
				dx + width + i, accumulate ? load_some(dx + width + i, rest) + dg : dg, rest);
		}
	}
}

static void add(float *y, const float *a, const float *b, int64_t count)
{
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES)
		store(y + i, load(a + i) + load(b + i));
	for (; i < count; i++)
		y[i] = a[i] + b[i];
}

static void scale(float *y, const float *x, float factor, int64_t count)
{
	int64_t i = 0;
	for (; i + LANES <= count; i += LANES)
		store(y + i, load(x + i) * factor);
	for (; i < count; i++)
		y[i] = x[i] * factor;
}

static double masked_squares(const float *a, const float *b, const float *mask, int64_t rows, int64_t columns)
{
	double sum = 0;
	for (int64_t r = 0; r < rows; r++) {
		if (mask && mask[r] == 0.0f)
			continue;
		for (int64_t c = r * columns; c < (r + 1) * columns; c++) {
			double difference = (double)a[c] - b[c];
			sum += difference * difference;
		}
	}
	return sum;
}

static void masked_difference(float *d, const float *a, const float *b, const float *mask, int64_t rows,
	int64_t columns, float factor, bool accumulate)
{
	for (int64_t r = 0; r < rows; r++) {
		bool selected = !mask || mask[r] != 0.0f;
		for (int64_t c = r * columns; c < (r + 1) * columns; c++) {
			float value = selected ? factor * (a[c] - b[c]) : 0.0f;
			d[c] = accumulate ? d[c] + value : value;
		}
	}
}

static double absolutes(const float *a, const float *b, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += fabs((double)a[i] - b[i]);
	return sum;
}

static void signs(float *d, const float *a, const float *b, int64_t count, float factor, bool accumulate)
{
	const vector plus = splat(factor), minus = splat(-factor), none = splat(0.0f);
	for (int64_t i = 0; i < count; i += LANES) {
		const int64_t some = count - i < LANES ? count - i : LANES;
		const vector x = load_some(a + i, some), y = load_some(b + i, some);
		const vector v = choose(x > y, plus, choose(x < y, minus, none));
		store_some(d + i, accumulate ? load_some(d + i, some) + v : v, some);
	}
}
