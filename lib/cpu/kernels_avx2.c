/* The kernels for processors with AVX2 and FMA. */
#include "cpu/kernels.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>

static const int32_t lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

#define LANES 8
#define STRIP_ROWS 6
#define VECTOR_FUSED(a, b, c) ((vector)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VECTOR_IS_FUSED
#define VECTOR_SMALLER(a, b) ((vector)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define VECTOR_LARGER(a, b) ((vector)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define VECTOR_ROOT(a) ((vector)_mm256_sqrt_ps((__m256)(a)))
#define LANE_MASK(count) _mm256_loadu_si256((const __m256i *)(lane_masks + 8 - (count)))
#define VECTOR_LOAD_SOME(p, count) ((vector)_mm256_maskload_ps(p, LANE_MASK(count)))
#define VECTOR_STORE_SOME(p, v, count) _mm256_maskstore_ps(p, LANE_MASK(count), (__m256)(v))
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"

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
