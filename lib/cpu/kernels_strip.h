/* Strips of matrix products: STRIP_ROWS x 2 vectors of sums in registers (kernels.h, struct strip). */

/* One tile. All of rows, vectors and ragged are constants where this is expanded. `ragged`: the last vector has only
 * `last` lanes in memory. */
INLINE void strip_tile(const struct strip *s, const float *a, float *c, const int rows, const int vectors,
	const bool ragged, int last)
{
	vector sum[STRIP_ROWS][2];
	const char *next = s->next ? (const char *)s->next : (const char *)s->b;
	const ptrdiff_t line = s->next ? 64 : 0;
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
		sum[i][0] = sum[i][1] = (vector){0};
	for (int64_t segment = 0; segment < s->segments; segment++) {
		const float *ap = a + segment * s->a_segment, *bp = s->b + segment * s->b_segment;
		for (int64_t k = 0; k < s->length; k++, ap += s->a_step, bp += s->b_step) {
			vector b[2];
			__builtin_prefetch(next, 0, 2);
			next += line;
#pragma GCC unroll 2
			for (int j = 0; j < vectors; j++)
				b[j] = ragged && j == vectors - 1 ? load_some(bp + j * LANES, last)
								  : load(bp + j * LANES);
#pragma GCC unroll 16
			for (int i = 0; i < rows; i++) {
				vector broadcast = splat(ap[i * s->a_row]);
#pragma GCC unroll 2
				for (int j = 0; j < vectors; j++)
					sum[i][j] = fused(broadcast, b[j], sum[i][j]);
			}
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++) {
			float *out = c + i * s->c_row + j * LANES;
			const bool some = ragged && j == vectors - 1;
			if (s->accumulate)
				sum[i][j] += some ? load_some(out, last) : load(out);
			if (s->bias)
				sum[i][j] += some ? load_some(s->bias + j * LANES, last)
						  : load(s->bias + j * LANES);
			if (some)
				store_some(out, sum[i][j], last);
			else
				store(out, sum[i][j]);
		}
	}
}

/* A function for each number of rows: strip_ROWS(). */
#define STRIP_FUNCTION(ROWS)                                                                                 \
	static void strip_##ROWS(const struct strip *s, const float *a, float *c)                            \
	{                                                                                                    \
		const int last = s->columns % LANES;                                                         \
		if (s->columns == 2 * LANES)                                                                 \
			strip_tile(s, a, c, ROWS, 2, false, 0);                                              \
		else if (s->columns > LANES)                                                                 \
			strip_tile(s, a, c, ROWS, 2, true, last);                                            \
		else if (s->columns == LANES)                                                                \
			strip_tile(s, a, c, ROWS, 1, false, 0);                                              \
		else                                                                                         \
			strip_tile(s, a, c, ROWS, 1, true, last);                                            \
	}
STRIP_FUNCTION(1)
STRIP_FUNCTION(2)
STRIP_FUNCTION(3)
STRIP_FUNCTION(4)
#if STRIP_ROWS > 4
STRIP_FUNCTION(5)
STRIP_FUNCTION(6)
#endif
#if STRIP_ROWS > 6
STRIP_FUNCTION(7)
STRIP_FUNCTION(8)
STRIP_FUNCTION(9)
STRIP_FUNCTION(10)
STRIP_FUNCTION(11)
STRIP_FUNCTION(12)
STRIP_FUNCTION(13)
STRIP_FUNCTION(14)
#endif

/* Tiles of nearly equal height. */
static void strip(const struct strip *s)
{
	static void (*const tile[STRIP_ROWS + 1])(const struct strip *, const float *, float *) = {
		NULL,
		strip_1,
		strip_2,
		strip_3,
		strip_4,
#if STRIP_ROWS > 4
		strip_5,
		strip_6,
#endif
#if STRIP_ROWS > 6
		strip_7,
		strip_8,
		strip_9,
		strip_10,
		strip_11,
		strip_12,
		strip_13,
		strip_14
#endif
	};
	struct strip part = *s;
	int64_t tiles = (s->rows + STRIP_ROWS - 1) / STRIP_ROWS;
	for (int64_t t = 0; t < tiles; t++) {
		int64_t first = s->rows * t / tiles, end = s->rows * (t + 1) / tiles;
		part.next = s->next ? s->next + first * s->a_row : NULL;
		tile[end - first](&part, s->a + first * s->a_row, s->c + first * s->c_row);
	}
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static void copy_rows(
	float *to, ptrdiff_t to_row, const float *from, ptrdiff_t from_row, int64_t rows, int64_t columns)
{
	for (int64_t r = 0; r < rows; r++, to += to_row, from += from_row) {
		int64_t c = 0;
		for (; c + LANES <= columns; c += LANES)
			store(to + c, load(from + c));
		/* what is stored under a mask cannot be forwarded to the reads that follow */
		for (; c + 4 <= columns; c += 4)
			*(four *)(to + c) = *(const four *)(from + c);
		for (; c < columns; c++)
			to[c] = from[c];
	}
}
