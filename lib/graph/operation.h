/*
 * Operations as nodes: what graph and back ends share. One enum value a body; backward bodies are operations of their own.
 *
 * For each body the table below says which tensors it gets. `accumulate` bit k: output k is added to instead of written
 * (gradients of tensors used more than once, folded into the writer). An absent optional tensor is -1.
 * Shapes are channels-last; weights are in the engine's memory layout: convolution [(kd,)kh,kw,in,out], linear
 * [in,out].
 *
 * CONVOLUTION           x, weight, bias?                       -> y
 * CONVOLUTION_DATA      dy, weight                             -> dx
 * CONVOLUTION_WEIGHT    x, dy                                  -> dweight, dbias?
 * LINEAR                x, weight, bias?                       -> y
 * LINEAR_DATA           dy, weight                             -> dx
 * LINEAR_WEIGHT         x, dy                                  -> dweight, dbias?
 * GROUP_NORM            x, gamma, beta                         -> y, mean [N,G], rstd [N,G]
 * GROUP_NORM_BACKWARD   x, gamma, beta, mean, rstd, dy         -> dx, dgamma, dbeta   (recomputes what SiLU needs from x)
 * LAYER_NORM            x, gamma, beta                         -> y, mean [rows], rstd [rows]
 * LAYER_NORM_BACKWARD   x, gamma, mean, rstd, dy               -> dx, dgamma, dbeta
 * ATTENTION             q, k, v                                -> o, lse [N,heads,T]
 * ATTENTION_BACKWARD    q, k, v, o, lse, do                    -> dq, dk, dv
 * GEGLU                 x                                      -> y
 * GEGLU_BACKWARD        x, dy                                  -> dx
 * ACTIVATION            x                                      -> y
 * ACTIVATION_BACKWARD   x, dy                                  -> dx
 * ADD                   a, b                                   -> y
 * COPY                  x                                      -> y                   (gradient of ADD, RESHAPE)
 * ADD_CHANNELS          x, v                                   -> y
 * CHANNEL_SUM           dy [N,...,C]                           -> dv [N,C]
 * CONCAT                a, b                                   -> y
 * CONCAT_BACKWARD       dy                                     -> da, db              (either may be absent)
 * UPSAMPLE              x                                      -> y
 * UPSAMPLE_BACKWARD     dy                                     -> dx
 * TIMESTEP_EMBEDDING    t                                      -> y
 * MASKED_MSE            prediction, target, mask?              -> loss [1], count [1]
 * MASKED_MSE_BACKWARD   prediction, target, mask?, count, dloss? -> dprediction
 * L1                    prediction, target                     -> loss [1], count [1]
 * L1_BACKWARD           prediction, target, -, count, dloss?   -> dprediction         (sign of 0 is 0)
 * BATCH_NORM            x, gamma, beta, residual?, running mean?, running variance? -> y, mean [C], rstd [C],
 *                                                                 batch mean?, unbiased variance? [C]
 * BATCH_NORM_BACKWARD   x, gamma, beta, mean, rstd, dy, y?     -> dx?, dgamma?, dbeta?, dresidual?  (y where a residual
 *                                                                 went through ReLU)
 * MAX_POOL              x                                      -> y, tap (int32: number of the largest's place in the window)
 * MAX_POOL_BACKWARD     dy, tap                                -> dx
 * AVERAGE_POOL          x                                      -> y
 * AVERAGE_POOL_BACKWARD dy                                     -> dx
 * GLOBAL_POOL           x [N,...,C]                            -> y [N,C]
 * GLOBAL_POOL_BACKWARD  dy                                     -> dx
 * SUBSAMPLE             x                                      -> y
 * SUBSAMPLE_BACKWARD    dy                                     -> dx                  (0 where nothing was taken)
 * SLICE                 x                                      -> y
 * SLICE_BACKWARD        dy                                     -> dx                  (0 in the other channels)
 * DROPOUT               x                                      -> y                   (its own gradient, too)
 * SCALE                 x, factor [1]?                         -> y                   (its own gradient, too)
 * FILL                                                         -> y                   (every element is the constant)
 * WEIGHT_NORM           v [in,out], g [out]                    -> w [in,out], length [out]
 * WEIGHT_NORM_BACKWARD  v, g, length, dw                       -> dv?, dg?
 * GATHER                x [R,C], index (int32)                 -> y
 * GATHER_BACKWARD       dy, index                              -> dx
 * REPEAT                x [N,C]                                -> y [N,count,C]       (its gradient is CHANNEL_SUM)
 * NORMALISE             x                                      -> y
 * NORMALISE_BACKWARD    x, dy                                  -> dx
 * REDUCE                x                                      -> y [1]               (sum times the factor)
 * REDUCE_BACKWARD       dy [1]?                                -> dx
 * FOURIER               x                                      -> y
 * FOURIER_BACKWARD      x, dy                                  -> dx
 * SPHERICAL_HARMONICS   x                                      -> y
 * SPHERICAL_HARMONICS_BACKWARD x, dy                           -> dx
 * HASH_GRID             x, table                               -> y
 * HASH_GRID_BACKWARD    x, table, dy                           -> dx?, dtable?
 * STENCIL               f, taps                                -> gradient, trace     (both have gradients)
 * STENCIL_BACKWARD      dgradient?, dtrace?                    -> df?, dtaps?
 * RENDER                sdf, gradient, colour, slope, density?, background colour?, distance, rays, background distance?
 *                                                              -> colour [R,3], weights
 * RENDER_BACKWARD       the same, dcolour                      -> dsdf?, dgradient?, dcolour?, dslope?, ddensity?,
 *                                                                 dbackground colour?
 * EIKONAL               gradient, rays                         -> loss [1]
 * EIKONAL_BACKWARD      gradient, rays, dloss?                 -> dgradient
 * CURVATURE             trace, rays                            -> loss [1]
 * CURVATURE_BACKWARD    trace, rays, dloss?                    -> dtrace
 * STENCIL_POINTS        x                                      -> y
 * NOISE                                                        -> y
 * RAY_SAMPLES           rays, noise?                           -> distance
 * RAY_POINTS            rays, distance                         -> y
 * INVERSE_SPHERE        x                                      -> y
 * RAY_WEIGHTS           distance, sdf                          -> w [R,N-1]
 * INVERSE_CDF           distance, w                            -> y [R,count]
 * MERGE                 a, b, value a?, value b?               -> y [R,N+M], value?
 * RESIZE                x                                      -> y
 * UPDATE                gradient, value                        (changes the value; the graph calls the back end's update())
 * CROSS_ENTROPY         logits, class (int32)                  -> loss [1], lse [N], losses [N], rank [N] (int32)
 * CROSS_ENTROPY_BACKWARD logits, class, lse, dloss?            -> dlogits
 *
 * Outputs marked `?` and those of CONCAT_BACKWARD may be absent (any other gradient that nobody wants goes to a scratch
 * tensor). An absent dloss is 1.
 *
 * In place: the planner may give the first output the memory of an input that is not needed afterwards, and only then
 * `accumulate` is 0: ADD (a or b), COPY, ADD_CHANNELS (x), ACTIVATION (x), ACTIVATION_BACKWARD (x or dy), BATCH_NORM
 * (residual), DROPOUT, SCALE (x). Bodies of these read an element before they write the same element and nothing else of that
 * memory later. A COPY onto itself is not run.
 *
 * Optimizer bodies work on whole parameters, through the back end's own entries (backend.h).
 *
 * Floating-point rules: float32; sums over more than a few hundred terms in double or in a fixed pairwise/blocked order;
 * the result may depend on the instruction set, never on the number of threads.
 */
#ifndef NIGHTSHIFT_GRAPH_OPERATION_H
#define NIGHTSHIFT_GRAPH_OPERATION_H

#include "graph/field.h"
#include "graph/graph.h"

enum operation {
	OP_CONVOLUTION, OP_CONVOLUTION_DATA, OP_CONVOLUTION_WEIGHT, OP_LINEAR, OP_LINEAR_DATA, OP_LINEAR_WEIGHT,
	OP_GROUP_NORM, OP_GROUP_NORM_BACKWARD, OP_LAYER_NORM, OP_LAYER_NORM_BACKWARD, OP_ATTENTION, OP_ATTENTION_BACKWARD,
	OP_GEGLU, OP_GEGLU_BACKWARD, OP_ACTIVATION, OP_ACTIVATION_BACKWARD, OP_ADD, OP_COPY, OP_ADD_CHANNELS, OP_CHANNEL_SUM,
	OP_CONCAT, OP_CONCAT_BACKWARD, OP_UPSAMPLE, OP_UPSAMPLE_BACKWARD, OP_TIMESTEP_EMBEDDING, OP_MASKED_MSE,
	OP_MASKED_MSE_BACKWARD, OP_L1, OP_L1_BACKWARD, OP_BATCH_NORM, OP_BATCH_NORM_BACKWARD, OP_MAX_POOL, OP_MAX_POOL_BACKWARD,
	OP_AVERAGE_POOL, OP_AVERAGE_POOL_BACKWARD, OP_GLOBAL_POOL, OP_GLOBAL_POOL_BACKWARD, OP_SUBSAMPLE, OP_SUBSAMPLE_BACKWARD,
	OP_SLICE, OP_SLICE_BACKWARD, OP_DROPOUT, OP_SCALE, OP_FILL, OP_CROSS_ENTROPY, OP_CROSS_ENTROPY_BACKWARD,
	OP_WEIGHT_NORM, OP_WEIGHT_NORM_BACKWARD, OP_GATHER, OP_GATHER_BACKWARD, OP_REPEAT, OP_NORMALISE, OP_NORMALISE_BACKWARD,
	OP_REDUCE, OP_REDUCE_BACKWARD, OP_FOURIER, OP_FOURIER_BACKWARD, OP_SPHERICAL_HARMONICS, OP_SPHERICAL_HARMONICS_BACKWARD,
	OP_HASH_GRID, OP_HASH_GRID_BACKWARD, OP_STENCIL, OP_STENCIL_BACKWARD, OP_RENDER, OP_RENDER_BACKWARD, OP_EIKONAL,
	OP_EIKONAL_BACKWARD, OP_CURVATURE, OP_CURVATURE_BACKWARD, OP_STENCIL_POINTS, OP_NOISE, OP_RAY_SAMPLES, OP_RAY_POINTS,
	OP_INVERSE_SPHERE, OP_RAY_WEIGHTS, OP_INVERSE_CDF, OP_MERGE, OP_RESIZE, OP_UPDATE,
	OP_COUNT
};
const char *operation_name(enum operation operation);
/* Whether its first output is a loss, whose gradient need not be given when it is 1. */
bool operation_is_loss(enum operation operation);
/* How many of its outputs, from the first on, have a gradient. */
int operation_results(enum operation operation);
/* Bit k: output 0 may take the memory of input k. */
unsigned operation_in_place(enum operation operation);

enum tensor_kind {
	TENSOR_INPUT, TENSOR_PARAMETER, TENSOR_ACTIVATION, TENSOR_GRADIENT /* of an activation */, TENSOR_PARAMETER_GRADIENT
};

#define TENSOR_DIMS 5
struct tensor {
	char *name;            /* may be NULL for activations */
	enum tensor_type type;
	enum tensor_kind kind;
	int dims;
	int64_t dim[TENSOR_DIMS];
	size_t elements, bytes;
	int parameter;         /* index in the store, for the two parameter kinds */
	int alias;             /* same memory as this tensor (reshape), or -1 */
	bool output, wanted; /* a result; its gradient is one */
	int gradient;          /* tensor index or -1 */
	int first, last;       /* first and last node that touches it */
	size_t offset;         /* in the arena */
};

#define NODE_INPUTS 10
#define NODE_OUTPUTS 6
struct node {
	enum operation operation;
	int in[NODE_INPUTS], out[NODE_OUTPUTS]; /* tensor indices, -1: absent */
	unsigned accumulate;                    /* bit k: out[k] += */
	bool repeated;                          /* computed again in the backward pass */
	bool detached;                          /* its inputs get no gradient */
	union {
		struct convolution convolution;
		struct {
			int groups;
			double epsilon;
			enum activation activation;
			bool frozen; /* batch norm by running statistics */
		} norm;
		struct {
			int heads;
			bool causal; /* a query sees the keys up to its own */
		} attention;
		struct {
			enum activation activation;
			double beta; /* of softplus */
		};
		struct pool pool; /* SUBSAMPLE: the strides */
		int64_t first;    /* SLICE: channel */
		double probability; /* DROPOUT; the node's name is the stream of random numbers */
		double factor;    /* SCALE, REDUCE */
		int levels;       /* FOURIER */
		int degree;       /* SPHERICAL_HARMONICS */
		struct hash_grid grid;
		int taps;         /* STENCIL */
		bool white;       /* RENDER */
		bool normal;      /* NOISE, else uniform */
		bool background;  /* RAY_SAMPLES behind far */
		double slope;     /* RAY_WEIGHTS */
		enum resize resize;
		double value;     /* FILL */
		double smoothing; /* CROSS_ENTROPY */
	};
	char *name;      /* source name: parameter path or builder's word */
	double flops, traffic;
	size_t workspace; /* bytes, filled by prepare */
};

#endif
