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
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"

#include "cpu/vector.h"
#include "cpu/kernels_strip.h"
#include "cpu/kernels_pointwise.h"
#include "cpu/kernels_norm.h"
#include "cpu/kernels_attention.h"
#include "cpu/kernels_update.h"
#include "cpu/kernels_table.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
