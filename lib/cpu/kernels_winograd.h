/* Transforms of Winograd's minimal filtering F(2x2,3x3) (kernels.h), a vector of channels at a time, and transposition. */

/* The first n vectors of a line each. */
INLINE void input_line(const vector d[4], const int step, vector t[4])
{
	t[0] = d[0] - d[2 * step];
	t[1] = d[step] + d[2 * step];
	t[2] = d[2 * step] - d[step];
	t[3] = d[step] - d[3 * step];
}

INLINE void gradient_line(vector a, vector b, vector t[4])
{
	t[0] = a;
	t[1] = a + b;
	t[2] = a - b;
	t[3] = -b;
}

INLINE void kernel_line(vector a, vector b, vector c, vector t[4])
{
	vector even = 0.5f * (a + c), odd = 0.5f * b;
	t[0] = a;
	t[1] = even + odd;
	t[2] = even - odd;
	t[3] = c;
}

INLINE void input_tile(
	float *to, ptrdiff_t point, const float *from, ptrdiff_t line, ptrdiff_t step, int64_t count)
{
	vector d[16], t[4][4], u[4];
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			d[4 * i + j] = load_some(from + i * line + j * step, count);
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		input_line(d + j, 4, t[j]);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		const vector row[4] = {t[0][i], t[1][i], t[2][i], t[3][i]};
		input_line(row, 1, u);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			store_some(to + (4 * i + j) * point, u[j], count);
	}
}

static void winograd_input(
	float *to, ptrdiff_t point, const float *from, ptrdiff_t line, ptrdiff_t step, int64_t channels)
{
	int64_t c = 0;
	for (; c + LANES <= channels; c += LANES)
		input_tile(to + c, point, from + c, line, step, LANES);
	if (c < channels)
		input_tile(to + c, point, from + c, line, step, channels - c);
}

INLINE void gradient_tile(
	float *to, ptrdiff_t point, const float *from, ptrdiff_t line, ptrdiff_t step, int64_t count)
{
	vector t[2][4], u[4];
#pragma GCC unroll 2
	for (int j = 0; j < 2; j++)
		gradient_line(
			load_some(from + j * step, count), load_some(from + line + j * step, count), t[j]);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		gradient_line(t[0][i], t[1][i], u);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			store_some(to + (4 * i + j) * point, u[j], count);
	}
}

static void winograd_gradient(
	float *to, ptrdiff_t point, const float *from, ptrdiff_t line, ptrdiff_t step, int64_t channels)
{
	int64_t c = 0;
	for (; c + LANES <= channels; c += LANES)
		gradient_tile(to + c, point, from + c, line, step, LANES);
	if (c < channels)
		gradient_tile(to + c, point, from + c, line, step, channels - c);
}

INLINE void kernel_tile(float *to, ptrdiff_t point, const float *from, ptrdiff_t tap, int64_t count)
{
	vector t[3][4], u[4];
#pragma GCC unroll 3
	for (int j = 0; j < 3; j++)
		kernel_line(load_some(from + j * tap, count), load_some(from + (3 + j) * tap, count),
			load_some(from + (6 + j) * tap, count), t[j]);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		kernel_line(t[0][i], t[1][i], t[2][i], u);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			store_some(to + (4 * i + j) * point, u[j], count);
	}
}

static void winograd_kernel(float *to, ptrdiff_t point, const float *from, ptrdiff_t tap, ptrdiff_t row,
	int64_t rows, int64_t columns)
{
	for (int64_t r = 0; r < rows; r++, from += row, to += columns) {
		int64_t c = 0;
		for (; c + LANES <= columns; c += LANES)
			kernel_tile(to + c, point, from + c, tap, LANES);
		if (c < columns)
			kernel_tile(to + c, point, from + c, tap, columns - c);
	}
}

INLINE void output_tile(
	const struct winograd_output *o, int64_t c, const int height, const int width, int64_t count)
{
	vector t[2][4];
	const vector bias = o->bias ? load_some(o->bias + c, count) : (vector){0};
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		const float *m = o->from + c + j * o->point;
		vector middle = load_some(m + 4 * o->point, count), low = load_some(m + 8 * o->point, count);
		t[0][j] = load_some(m, count) + middle + low;
		t[1][j] = middle - low - load_some(m + 12 * o->point, count);
	}
#pragma GCC unroll 2
	for (int i = 0; i < height; i++) {
		const vector y[2] = {t[i][0] + t[i][1] + t[i][2] + bias, t[i][1] - t[i][2] - t[i][3] + bias};
#pragma GCC unroll 2
		for (int j = 0; j < width; j++) {
			float *to = o->to + i * o->line + j * o->step + c;
			store_some(to, o->accumulate ? load_some(to, count) + y[j] : y[j], count);
		}
	}
}

INLINE void output_tiles(const struct winograd_output *o, const int height, const int width)
{
	int64_t c = 0;
	for (; c + LANES <= o->channels; c += LANES)
		output_tile(o, c, height, width, LANES);
	if (c < o->channels)
		output_tile(o, c, height, width, o->channels - c);
}

static void winograd_output(const struct winograd_output *o)
{
	if (o->height == 2 && o->width == 2)
		output_tiles(o, 2, 2);
	else if (o->height == 2)
		output_tiles(o, 2, 1);
	else if (o->width == 2)
		output_tiles(o, 1, 2);
	else
		output_tiles(o, 1, 1);
}

INLINE void weight_line(const vector m[4], vector t[3])
{
	vector even = 0.5f * (m[1] + m[2]);
	t[0] = m[0] + even;
	t[1] = 0.5f * (m[1] - m[2]);
	t[2] = even + m[3];
}

INLINE void weight_tile(
	float *to, ptrdiff_t tap, const float *from, ptrdiff_t point, bool accumulate, int64_t count)
{
	vector t[4][3], u[3];
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		vector m[4];
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			m[i] = load_some(from + (4 * i + j) * point, count);
		weight_line(m, t[j]);
	}
#pragma GCC unroll 3
	for (int i = 0; i < 3; i++) {
		const vector row[4] = {t[0][i], t[1][i], t[2][i], t[3][i]};
		weight_line(row, u);
#pragma GCC unroll 3
		for (int j = 0; j < 3; j++) {
			float *out = to + (3 * i + j) * tap;
			store_some(out, accumulate ? load_some(out, count) + u[j] : u[j], count);
		}
	}
}

static void winograd_weight(
	float *to, ptrdiff_t tap, const float *from, ptrdiff_t point, int64_t columns, bool accumulate)
{
	int64_t c = 0;
	for (; c + LANES <= columns; c += LANES)
		weight_tile(to + c, tap, from + c, point, accumulate, LANES);
	if (c < columns)
		weight_tile(to + c, tap, from + c, point, accumulate, columns - c);
}

/* ---- transposition ---- */

#if LANES == 16
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b)                                                                                       \
	__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* A square of LANES by LANES: each round interleaves the halves of the rows. */
INLINE void turn_square(float *to, ptrdiff_t to_row, const float *from, ptrdiff_t from_row)
{
	vector row[LANES], next[LANES];
#pragma GCC unroll 16
	for (int i = 0; i < LANES; i++)
		row[i] = load(from + i * from_row);
#pragma GCC unroll 4
	for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
		for (int i = 0; i < LANES / 2; i++) {
			next[2 * i] = ZIP_LOW(row[i], row[i + LANES / 2]);
			next[2 * i + 1] = ZIP_HIGH(row[i], row[i + LANES / 2]);
		}
#pragma GCC unroll 16
		for (int i = 0; i < LANES; i++)
			row[i] = next[i];
	}
#pragma GCC unroll 16
	for (int i = 0; i < LANES; i++)
		store(to + i * to_row, row[i]);
}

static void turn(
	float *to, ptrdiff_t to_row, const float *from, ptrdiff_t from_row, int64_t rows, int64_t columns)
{
	const int64_t whole_rows = rows / LANES * LANES, whole_columns = columns / LANES * LANES;
	for (int64_t i = 0; i < whole_rows; i += LANES)
		for (int64_t j = 0; j < whole_columns; j += LANES)
			turn_square(to + j * to_row + i, to_row, from + i * from_row + j, from_row);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)
			to[j * to_row + i] = from[i * from_row + j];
}
