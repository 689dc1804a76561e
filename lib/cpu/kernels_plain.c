/* The kernels for any processor: vectors of four, no fused multiply-add. */
#include "cpu/kernels.h"

#define LANES 4
#define STRIP_ROWS 4
#define VECTOR_FUSED(a, b, c) ((a) * (b) + (c))
#define KERNELS kernels_plain
#define KERNELS_NAME "plain"

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
