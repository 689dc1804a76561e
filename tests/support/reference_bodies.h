/* One formula an operation; outputs are zeroed memory of their own. */
#ifndef NIGHTSHIFT_TESTS_REFERENCE_BODIES_H
#define NIGHTSHIFT_TESTS_REFERENCE_BODIES_H

#include "graph/backend.h"

typedef void reference_body(const struct call *call, double **in, double **out);
extern reference_body *const reference_bodies[OP_COUNT];

/* reference_vision.c */
reference_body reference_batch_norm, reference_batch_norm_backward, reference_max_pool,
	reference_max_pool_backward, reference_average_pool, reference_average_pool_backward,
	reference_global_pool, reference_global_pool_backward, reference_subsample,
	reference_subsample_backward, reference_slice, reference_slice_backward, reference_dropout,
	reference_scale, reference_fill, reference_cross_entropy, reference_cross_entropy_backward,
	reference_l1, reference_l1_backward;

/* reference_field.c */
reference_body reference_weight_norm, reference_weight_norm_backward, reference_gather,
	reference_gather_backward, reference_repeat, reference_normalise, reference_normalise_backward,
	reference_reduce, reference_reduce_backward, reference_fourier, reference_fourier_backward,
	reference_spherical_harmonics, reference_spherical_harmonics_backward;

/* reference_surface.c */
reference_body reference_hash_grid, reference_hash_grid_backward, reference_stencil_points, reference_stencil,
	reference_stencil_backward, reference_eikonal, reference_eikonal_backward, reference_curvature,
	reference_curvature_backward, reference_render, reference_render_backward;

/* reference_rays.c */
reference_body reference_noise, reference_ray_samples, reference_ray_points, reference_inverse_sphere,
	reference_ray_weights, reference_inverse_cdf, reference_merge, reference_resize;

/* Last dimension, and the elements in front of it. */
static inline int64_t reference_channels(const struct tensor *tensor)
{
	return tensor->dim[tensor->dims - 1];
}

static inline int64_t reference_rows(const struct tensor *tensor)
{
	return (int64_t)tensor->elements / reference_channels(tensor);
}

/* Integers lie in the doubles as the floats of the same bits. */
int32_t reference_integer(double value);
double reference_float_of(int32_t integer);

#endif
