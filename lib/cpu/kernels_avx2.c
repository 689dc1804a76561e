/* The kernels for processors with AVX2 and FMA. */
#include "cpu/kernels.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>

#define LANES 8
#define STRIP_ROWS 6
#define VECTOR_FUSED(a, b, c) ((vector)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"

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
