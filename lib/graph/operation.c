/* The table of operations: names, in-place rules, losses. */
#include "graph/operation.h"

static const struct {
	const char *name;
	unsigned in_place;
	bool is_loss;
	int results; /* outputs with a gradient; 0 reads as 1 */
} operations[OP_COUNT] = {
	[OP_CONVOLUTION] = {"convolution"},
	[OP_CONVOLUTION_DATA] = {"convolution-data"},
	[OP_CONVOLUTION_WEIGHT] = {"convolution-weight"},
	[OP_LINEAR] = {"linear"},
	[OP_LINEAR_DATA] = {"linear-data"},
	[OP_LINEAR_WEIGHT] = {"linear-weight"},
	[OP_GROUP_NORM] = {"group-norm"},
	[OP_GROUP_NORM_BACKWARD] = {"group-norm-backward"},
	[OP_LAYER_NORM] = {"layer-norm"},
	[OP_LAYER_NORM_BACKWARD] = {"layer-norm-backward"},
	[OP_ATTENTION] = {"attention"},
	[OP_ATTENTION_BACKWARD] = {"attention-backward"},
	[OP_GEGLU] = {"geglu"},
	[OP_GEGLU_BACKWARD] = {"geglu-backward"},
	[OP_ACTIVATION] = {"activation", 1},
	[OP_ACTIVATION_BACKWARD] = {"activation-backward", 3},
	[OP_ADD] = {"add", 3},
	[OP_COPY] = {"copy", 1},
	[OP_ADD_CHANNELS] = {"add-channels", 1},
	[OP_CHANNEL_SUM] = {"channel-sum"},
	[OP_CONCAT] = {"concat"},
	[OP_CONCAT_BACKWARD] = {"concat-backward"},
	[OP_UPSAMPLE] = {"upsample"},
	[OP_UPSAMPLE_BACKWARD] = {"upsample-backward"},
	[OP_TIMESTEP_EMBEDDING] = {"timestep-embedding"},
	[OP_MASKED_MSE] = {"masked-mse", .is_loss = true},
	[OP_MASKED_MSE_BACKWARD] = {"masked-mse-backward"},
	[OP_L1] = {"l1", .is_loss = true},
	[OP_L1_BACKWARD] = {"l1-backward"},
	[OP_BATCH_NORM] = {"batch-norm", 1u << 3},
	[OP_BATCH_NORM_BACKWARD] = {"batch-norm-backward"},
	[OP_MAX_POOL] = {"max-pool"},
	[OP_MAX_POOL_BACKWARD] = {"max-pool-backward"},
	[OP_AVERAGE_POOL] = {"average-pool"},
	[OP_AVERAGE_POOL_BACKWARD] = {"average-pool-backward"},
	[OP_GLOBAL_POOL] = {"global-pool"},
	[OP_GLOBAL_POOL_BACKWARD] = {"global-pool-backward"},
	[OP_SUBSAMPLE] = {"subsample"},
	[OP_SUBSAMPLE_BACKWARD] = {"subsample-backward"},
	[OP_SLICE] = {"slice"},
	[OP_SLICE_BACKWARD] = {"slice-backward"},
	[OP_DROPOUT] = {"dropout", 1},
	[OP_SCALE] = {"scale", 1},
	[OP_FILL] = {"fill"},
	[OP_WEIGHT_NORM] = {"weight-norm"},
	[OP_WEIGHT_NORM_BACKWARD] = {"weight-norm-backward"},
	[OP_GATHER] = {"gather"},
	[OP_GATHER_BACKWARD] = {"gather-backward"},
	[OP_REPEAT] = {"repeat"},
	[OP_NORMALISE] = {"normalise"},
	[OP_NORMALISE_BACKWARD] = {"normalise-backward"},
	[OP_REDUCE] = {"reduce", .is_loss = true},
	[OP_REDUCE_BACKWARD] = {"reduce-backward"},
	[OP_FOURIER] = {"fourier"},
	[OP_FOURIER_BACKWARD] = {"fourier-backward"},
	[OP_SPHERICAL_HARMONICS] = {"spherical-harmonics"},
	[OP_SPHERICAL_HARMONICS_BACKWARD] = {"spherical-harmonics-backward"},
	[OP_HASH_GRID] = {"hash-grid"},
	[OP_HASH_GRID_BACKWARD] = {"hash-grid-backward"},
	[OP_STENCIL] = {"stencil", .results = 2},
	[OP_STENCIL_BACKWARD] = {"stencil-backward"},
	[OP_RENDER] = {"render"},
	[OP_RENDER_BACKWARD] = {"render-backward"},
	[OP_EIKONAL] = {"eikonal", .is_loss = true},
	[OP_EIKONAL_BACKWARD] = {"eikonal-backward"},
	[OP_CURVATURE] = {"curvature", .is_loss = true},
	[OP_CURVATURE_BACKWARD] = {"curvature-backward"},
	[OP_STENCIL_POINTS] = {"stencil-points"},
	[OP_NOISE] = {"noise"},
	[OP_RAY_SAMPLES] = {"ray-samples"},
	[OP_RAY_POINTS] = {"ray-points"},
	[OP_INVERSE_SPHERE] = {"inverse-sphere"},
	[OP_RAY_WEIGHTS] = {"ray-weights"},
	[OP_INVERSE_CDF] = {"inverse-cdf"},
	[OP_MERGE] = {"merge"},
	[OP_RESIZE] = {"resize"},
	[OP_UPDATE] = {"update"},
	[OP_CROSS_ENTROPY] = {"cross-entropy", .is_loss = true},
	[OP_CROSS_ENTROPY_BACKWARD] = {"cross-entropy-backward"},
};

const char *operation_name(enum operation operation)
{
	return operations[operation].name;
}

bool operation_is_loss(enum operation operation)
{
	return operations[operation].is_loss;
}

int operation_results(enum operation operation)
{
	return operations[operation].results ? operations[operation].results : 1;
}

unsigned operation_in_place(enum operation operation)
{
	return operations[operation].in_place;
}
