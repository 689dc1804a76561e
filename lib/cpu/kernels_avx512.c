/* The kernels for processors with AVX-512 (F, BW, DQ, VL). */
#include "cpu/kernels.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(                                                                                \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>

#define LANES 16
#define STRIP_ROWS 14
#define VECTOR_FUSED(a, b, c) ((vector)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define VECTOR_IS_FUSED
#define VECTOR_SMALLER(a, b) ((vector)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define VECTOR_LARGER(a, b) ((vector)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define VECTOR_ROOT(a) ((vector)_mm512_sqrt_ps((__m512)(a)))
#define LANE_MASK(count) ((__mmask16)((1u << (count)) - 1))
#define VECTOR_LOAD_SOME(p, count) ((vector)_mm512_maskz_loadu_ps(LANE_MASK(count), p))
#define VECTOR_STORE_SOME(p, v, count) _mm512_mask_storeu_ps(p, LANE_MASK(count), (__m512)(v))
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"

#include "cpu/vector.h"
#include "cpu/kernels_strip.h"
#include "cpu/kernels_winograd.h"
#include "cpu/kernels_pointwise.h"
#include "cpu/kernels_norm.h"
#include "cpu/kernels_batch_norm.h"
#include "cpu/kernels_pool.h"
#include "cpu/kernels_hash_grid.h"
#include "cpu/kernels_attention.h"
#include "cpu/kernels_update.h"
#include "cpu/kernels_table.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
