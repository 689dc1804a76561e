/* Packing and storing with AVX512_BF16; each file that includes it gets its own copy, compiled for its target. */

#define MASK16(count) ((__mmask16)((1u << (count)) - 1))

/* What of `count` lanes are in the 16 from `first` on. */
static inline __mmask16 lanes(int64_t count, int64_t first)
{
	const int64_t left = count - first;
	return left >= 16 ? (__mmask16)0xffff : left > 0 ? MASK16(left) : (__mmask16)0;
}

static inline __m256i rounded(__m512 values)
{
	return (__m256i)_mm512_cvtneps_pbh(values);
}

/* Lane by lane `even` below `odd`. */
static inline __m512i paired(__m256i even, __m256i odd)
{
	return _mm512_or_si512(
		_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

static void convert(uint16_t *to, const float *from, int64_t count)
{
	int64_t i = 0;
	for (; i + 32 <= count; i += 32)
		_mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16),
						    _mm512_loadu_ps(from + i)));
	for (; i < count; i += 16) {
		const __mmask16 mask = lanes(count, i);
		_mm256_mask_storeu_epi16(to + i, mask, rounded(_mm512_maskz_loadu_ps(mask, from + i)));
	}
}

static inline __m256i rounded_some(const float *row, __mmask16 mask)
{
	return row ? rounded(_mm512_maskz_loadu_ps(mask, row)) : _mm256_setzero_si256();
}

static void pairs(uint16_t *to, const float *const row[BF16_STEP], int columns)
{
	for (int j = 0; j < BF16_COLUMNS; j += 16) {
		const __mmask16 mask = lanes(columns, j);
		for (int k = 0; k < BF16_STEP; k += 2)
			_mm512_storeu_si512(to + (k / 2 * BF16_COLUMNS + j) * 2,
				paired(rounded_some(row[k] ? row[k] + j : NULL, mask),
					rounded_some(row[k + 1] ? row[k + 1] + j : NULL, mask)));
	}
}

/* A 16x16 matrix of words turned in place. */
static inline __attribute__((always_inline)) void turn_words(__m512i v[16])
{
	__m512i t[16];
#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4) {
		v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
	/* v[4 g + c]: rows 4 g .. 4 g + 3 of the columns c, c + 4, c + 8, c + 12 */
#pragma GCC unroll 4
	for (int c = 0; c < 4; c++) {
		const __m512i low01 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88),
			      high01 = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd),
			      low23 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88),
			      high23 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
		t[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
		t[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
		t[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
		t[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++)
		v[i] = t[i];
}

static void turned_pairs(uint16_t *to, const float *const column[BF16_COLUMNS], int terms)
{
	const __mmask16 low = lanes(terms, 0), high = lanes(terms, 16);
	for (int first = 0; first < BF16_COLUMNS; first += 16) {
		__m512i v[16];
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++) {
			const float *from = column[first + j];
			v[j] = from ? (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + 16),
					      _mm512_maskz_loadu_ps(low, from))
				    : _mm512_setzero_si512();
		}
		turn_words(v);
#pragma GCC unroll 16
		for (int k = 0; k < 16; k++)
			_mm512_storeu_si512(to + (k * BF16_COLUMNS + first) * 2, v[k]);
	}
}

static void turn(uint16_t *to, ptrdiff_t to_row, const uint16_t *const row[BF16_STEP], int64_t columns)
{
	for (int64_t first = 0; first < columns; first += 16) {
		const __mmask16 mask = lanes(columns, first);
		__m512i v[16];
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++)
			v[i] = paired(_mm256_maskz_loadu_epi16(mask, row[2 * i] + first),
				_mm256_maskz_loadu_epi16(mask, row[2 * i + 1] + first));
		turn_words(v);
		const int64_t count = columns - first < 16 ? columns - first : 16;
		uint16_t *at = to + first * to_row;
		if (count < 16) {
			for (int64_t j = 0; j < count; j++)
				_mm512_storeu_si512(at + j * to_row, v[j]);
			return;
		}
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			_mm512_storeu_si512(at + j * to_row, v[j]);
	}
}

static inline void store_some(float *to, __m512 sum, const float *bias, __mmask16 mask, bool accumulate)
{
	if (accumulate)
		sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to));
	if (bias)
		sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, bias));
	_mm512_mask_storeu_ps(to, mask, sum);
}

static void store(float *to, ptrdiff_t to_row, const float *from, int64_t rows, int columns,
	const float *bias, bool accumulate)
{
	const __mmask16 low = lanes(columns, 0), high = lanes(columns, 16);
	for (int64_t i = 0; i < rows; i++, to += to_row, from += BF16_COLUMNS) {
		store_some(to, _mm512_loadu_ps(from), bias, low, accumulate);
		if (high)
			store_some(to + 16, _mm512_loadu_ps(from + 16), bias ? bias + 16 : NULL, high,
				accumulate);
	}
}
