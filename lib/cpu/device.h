/*
 * Inside the CPU back end: the device and one pair of functions for each operation.
 *
 * Every operation splits its work over outputs, or over pieces of a sum whose sizes depend on shapes alone, so that no
 * result depends on the number of threads. Scratch memory comes from the call's workspace only.
 */
#ifndef NIGHTSHIFT_CPU_DEVICE_H
#define NIGHTSHIFT_CPU_DEVICE_H

#include "cpu/bf16.h"
#include "cpu/kernels.h"
#include "cpu/team.h"
#include "graph/backend.h"

struct cpu_device {
	struct device base;
	int threads;
	struct team *team;
	const struct kernels *kernels;
	const struct bf16 *bf16; /* NULL: products are float32 */
	char model[128];
};

static inline const struct cpu_device *cpu_device(const struct device *device)
{
	return (const struct cpu_device *)device;
}

/* A piece of an operation: piece `i`, on thread `thread`. */
typedef void cpu_piece(void *context, int64_t i, int thread);

/* What most pieces need to know. */
struct cpu_job {
	const struct cpu_device *device;
	const struct call *call;
};

/* Runs pieces 0 .. count-1, alone when `work` (in simple element operations) is not worth waking anybody for. */
static inline void cpu_share(
	const struct cpu_device *device, double work, int64_t count, cpu_piece *piece, void *context)
{
	if (work >= 40000 && device->threads > 1 && count > 1) {
		team_run(device->team, count, piece, context);
		return;
	}
	for (int64_t i = 0; i < count; i++)
		piece(context, i, 0);
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Bytes rounded up so that what follows is aligned to a cache line. */
static inline size_t aligned_bytes(int64_t count, size_t size)
{
	return ((size_t)count * size + 63) & ~(size_t)63;
}

/* Takes `count` elements of `size` bytes from the front of *workspace. */
static inline void *workspace_take(void **workspace, int64_t count, size_t size)
{
	void *taken = *workspace;
	*workspace = (char *)taken + aligned_bytes(count, size);
	return taken;
}

static inline bool accumulates(const struct call *call, int output)
{
	return call->node->accumulate >> output & 1;
}

/* Last dimension, and the elements in front of it. */
static inline int64_t last_dim(const struct tensor *tensor)
{
	return tensor->dim[tensor->dims - 1];
}

static inline int64_t row_count(const struct tensor *tensor)
{
	int64_t rows = 1;
	for (int i = 0; i < tensor->dims - 1; i++)
		rows *= tensor->dim[i];
	return rows;
}

/* What an operation's file gives: workspace (NULL: none needed) and body. */
struct cpu_operation {
	size_t (*workspace)(const struct cpu_device *device, const struct call *call);
	void (*run)(const struct cpu_device *device, const struct call *call);
};

#define CPU_OPERATION(name) void name(const struct cpu_device *device, const struct call *call)
#define CPU_WORKSPACE(name) size_t name(const struct cpu_device *device, const struct call *call)

/* convolution.c */
CPU_WORKSPACE(cpu_convolution_workspace);
CPU_OPERATION(cpu_convolution);
CPU_WORKSPACE(cpu_convolution_data_workspace);
CPU_OPERATION(cpu_convolution_data);
/* weight.c */
CPU_WORKSPACE(cpu_convolution_weight_workspace);
CPU_OPERATION(cpu_convolution_weight);
CPU_WORKSPACE(cpu_linear_weight_workspace);
CPU_OPERATION(cpu_linear_weight);
/* product.c */
CPU_WORKSPACE(cpu_linear_workspace);
CPU_OPERATION(cpu_linear);
CPU_WORKSPACE(cpu_linear_data_workspace);
CPU_OPERATION(cpu_linear_data);
/* norm.c */
CPU_WORKSPACE(cpu_group_norm_workspace);
CPU_OPERATION(cpu_group_norm);
CPU_WORKSPACE(cpu_group_norm_backward_workspace);
CPU_OPERATION(cpu_group_norm_backward);
CPU_OPERATION(cpu_layer_norm);
CPU_WORKSPACE(cpu_layer_norm_backward_workspace);
CPU_OPERATION(cpu_layer_norm_backward);
/* attention.c */
CPU_WORKSPACE(cpu_attention_workspace);
CPU_OPERATION(cpu_attention);
CPU_WORKSPACE(cpu_attention_backward_workspace);
CPU_OPERATION(cpu_attention_backward);
/* batch_norm.c */
CPU_WORKSPACE(cpu_batch_norm_workspace);
CPU_OPERATION(cpu_batch_norm);
CPU_WORKSPACE(cpu_batch_norm_backward_workspace);
CPU_OPERATION(cpu_batch_norm_backward);
/* pool.c */
CPU_OPERATION(cpu_max_pool);
CPU_OPERATION(cpu_max_pool_backward);
CPU_OPERATION(cpu_average_pool);
CPU_OPERATION(cpu_average_pool_backward);
CPU_WORKSPACE(cpu_global_pool_workspace);
CPU_OPERATION(cpu_global_pool);
CPU_OPERATION(cpu_global_pool_backward);
/* part.c */
CPU_OPERATION(cpu_subsample);
CPU_OPERATION(cpu_subsample_backward);
CPU_OPERATION(cpu_slice);
CPU_OPERATION(cpu_slice_backward);
/* dropout.c */
CPU_OPERATION(cpu_dropout);
/* weight_norm.c */
CPU_OPERATION(cpu_weight_norm);
CPU_OPERATION(cpu_weight_norm_backward);
/* rows.c */
CPU_OPERATION(cpu_gather);
CPU_OPERATION(cpu_gather_backward);
CPU_OPERATION(cpu_repeat);
CPU_OPERATION(cpu_normalise);
CPU_OPERATION(cpu_normalise_backward);
/* reduce.c */
CPU_WORKSPACE(cpu_reduce_workspace);
CPU_OPERATION(cpu_reduce);
CPU_OPERATION(cpu_reduce_backward);
/* encoding.c */
CPU_OPERATION(cpu_fourier);
CPU_OPERATION(cpu_fourier_backward);
CPU_OPERATION(cpu_spherical_harmonics);
CPU_OPERATION(cpu_spherical_harmonics_backward);
/* hash_grid.c */
CPU_OPERATION(cpu_hash_grid);
CPU_OPERATION(cpu_hash_grid_backward);
/* stencil.c */
CPU_OPERATION(cpu_stencil_points);
CPU_OPERATION(cpu_stencil);
CPU_OPERATION(cpu_stencil_backward);
CPU_WORKSPACE(cpu_sample_loss_workspace);
CPU_OPERATION(cpu_eikonal);
CPU_OPERATION(cpu_eikonal_backward);
CPU_OPERATION(cpu_curvature);
CPU_OPERATION(cpu_curvature_backward);
/* render.c */
CPU_WORKSPACE(cpu_render_workspace);
CPU_OPERATION(cpu_render);
CPU_WORKSPACE(cpu_render_backward_workspace);
CPU_OPERATION(cpu_render_backward);
/* rays.c */
CPU_OPERATION(cpu_ray_samples);
CPU_OPERATION(cpu_ray_points);
CPU_OPERATION(cpu_inverse_sphere);
CPU_OPERATION(cpu_ray_weights);
CPU_OPERATION(cpu_inverse_cdf);
CPU_OPERATION(cpu_merge);
/* noise.c, resize.c */
CPU_OPERATION(cpu_noise);
CPU_OPERATION(cpu_resize);
/* pointwise.c */
CPU_OPERATION(cpu_geglu);
CPU_OPERATION(cpu_geglu_backward);
CPU_OPERATION(cpu_activation);
CPU_OPERATION(cpu_activation_backward);
CPU_OPERATION(cpu_add);
CPU_OPERATION(cpu_copy);
CPU_OPERATION(cpu_add_channels);
CPU_WORKSPACE(cpu_channel_sum_workspace);
CPU_OPERATION(cpu_channel_sum);
CPU_OPERATION(cpu_concat);
CPU_OPERATION(cpu_concat_backward);
CPU_OPERATION(cpu_timestep_embedding);
CPU_OPERATION(cpu_scale_by);
CPU_OPERATION(cpu_fill);
/* resample.c */
CPU_OPERATION(cpu_upsample);
CPU_OPERATION(cpu_upsample_backward);
/* loss.c */
CPU_WORKSPACE(cpu_masked_mse_workspace);
CPU_OPERATION(cpu_masked_mse);
CPU_OPERATION(cpu_masked_mse_backward);
CPU_WORKSPACE(cpu_l1_workspace);
CPU_OPERATION(cpu_l1);
CPU_OPERATION(cpu_l1_backward);
/* cross_entropy.c */
CPU_WORKSPACE(cpu_cross_entropy_workspace);
CPU_OPERATION(cpu_cross_entropy);
CPU_OPERATION(cpu_cross_entropy_backward);
/* update.c */
int cpu_sum_squares(struct device *device, const float *data, size_t count, double *sum);
int cpu_update(struct device *device, const struct update_call *call);
int cpu_replay_rows(struct device *device, const struct update_call *call, const struct row_updates *rows,
	const struct call *reader);
int cpu_update_rows(
	struct device *device, const struct update_call *call, const struct row_updates *rows);
/* Every row that these operations read, at least once; rows of one level by one thread, in order. */
typedef void cpu_visit_row(void *context, int64_t row);
void cpu_visit_hash_grid(
	const struct cpu_device *device, const struct call *call, cpu_visit_row *visit, void *context);
void cpu_visit_gather(const struct call *call, cpu_visit_row *visit, void *context);

/*
 * sums.c: out[c] (+)= sum over rows of x[rows, columns], in double by blocks of rows; `batch` such sums one behind the
 * other (x [batch, rows, columns] -> out [batch, columns]).
 */
size_t cpu_column_sums_bytes(int64_t batch, int64_t rows, int64_t columns);
void cpu_column_sums(const struct cpu_device *device, float *out, const float *x, int64_t batch, int64_t rows,
	int64_t columns, bool accumulate, void *workspace);
/* Rows in a block of a sum over rows: a function of the shape alone. */
int64_t cpu_sum_rows(int64_t columns);

#endif
