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
 * MASKED_MSE            prediction, target, mask               -> loss [1], count [1]
 * MASKED_MSE_BACKWARD   prediction, target, mask, count        -> dprediction         (d loss = 1)
 *
 * Only outputs marked `?` and those of CONCAT_BACKWARD may be absent (a gradient that nobody wants goes to a scratch tensor).
 *
 * In place: the planner may give the first output the memory of an input that is not needed afterwards, and only then
 * `accumulate` is 0: ADD (a or b), COPY, ADD_CHANNELS (x), ACTIVATION (x), ACTIVATION_BACKWARD (x or dy). Bodies of these
 * read an element before they write the same element and nothing else of that memory later. A COPY onto itself is not run.
 *
 * Optimizer bodies work on whole parameters, through the back end's own entries (backend.h).
 *
 * Floating-point rules: float32; sums over more than a few hundred terms in double or in a fixed pairwise/blocked order;
 * the result may depend on the instruction set, never on the number of threads.
 */
#ifndef NIGHTSHIFT_GRAPH_OPERATION_H
#define NIGHTSHIFT_GRAPH_OPERATION_H

#include "graph/graph.h"

enum operation {
	OP_CONVOLUTION, OP_CONVOLUTION_DATA, OP_CONVOLUTION_WEIGHT, OP_LINEAR, OP_LINEAR_DATA, OP_LINEAR_WEIGHT,
	OP_GROUP_NORM, OP_GROUP_NORM_BACKWARD, OP_LAYER_NORM, OP_LAYER_NORM_BACKWARD, OP_ATTENTION, OP_ATTENTION_BACKWARD,
	OP_GEGLU, OP_GEGLU_BACKWARD, OP_ACTIVATION, OP_ACTIVATION_BACKWARD, OP_ADD, OP_COPY, OP_ADD_CHANNELS, OP_CHANNEL_SUM,
	OP_CONCAT, OP_CONCAT_BACKWARD, OP_UPSAMPLE, OP_UPSAMPLE_BACKWARD, OP_TIMESTEP_EMBEDDING, OP_MASKED_MSE,
	OP_MASKED_MSE_BACKWARD, OP_COUNT
};
const char *operation_name(enum operation operation);
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

#define NODE_INPUTS 6
#define NODE_OUTPUTS 3
struct node {
	enum operation operation;
	int in[NODE_INPUTS], out[NODE_OUTPUTS]; /* tensor indices, -1: absent */
	unsigned accumulate;                    /* bit k: out[k] += */
	union {
		struct convolution convolution;
		struct {
			int groups;
			double epsilon;
			enum activation activation;
		} norm;
		struct {
			int heads;
		} attention;
		enum activation activation;
	};
	char *name;      /* source name: parameter path or builder's word */
	double flops, traffic;
	size_t workspace; /* bytes, filled by prepare */
};

#endif
