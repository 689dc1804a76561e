/* The table of operations: names and in-place rules. */
#include "graph/operation.h"

static const struct {
	const char *name;
	unsigned in_place;
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
	[OP_MASKED_MSE] = {"masked-mse"},
	[OP_MASKED_MSE_BACKWARD] = {"masked-mse-backward"},
};

const char *operation_name(enum operation operation)
{
	return operations[operation].name;
}

unsigned operation_in_place(enum operation operation)
{
	return operations[operation].in_place;
}
