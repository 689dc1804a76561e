/*
 * The graph: a model builder records operations once, shapes known; the backward pass is appended; a plan gives every
 * tensor its place in one arena; then a step only runs a list (DESIGN section 6).
 *
 *	struct program *program = program_new(device);              a device of a back end, borrowed
 *	struct graph *graph = graph_new(program, "train", true);
 *	int x = graph_input(graph, "latents", TENSOR_F32, 4, (int64_t[]){8, 12, 16, 8});
 *	int y = unet_build(graph, &unet, x, ...);                    parameters join the program's store by name
 *	int loss = graph_masked_mse(graph, y, target, mask);
 *	graph_backward(graph, loss);
 *	program_update_rule(program, &optimizer);
 *	program_prepare(program)                                     plans, allocates; nothing allocates after this
 *	...
 *	graph_write(graph, x, data); graph_run(graph); graph_read(graph, loss, &value);
 *	program_collect(program, micro, micros); program_update(program, &scalars);
 *
 * Tensors are named by an index (>= 0). Builder functions return -1 after any error of this graph (the first message is
 * kept) and pass -1 inputs through, so that a builder needs no checks: program_prepare() reports.
 *
 * Layout: activations are channels-last, N[D]HWC or [N, tokens, C] or [N, C]; parameters are stored in the layout of the
 * original project's files when exported and in the engine's layout in memory (store_export/import convert).
 *
 * Operations that are not differentiable say so; a gradient that would have to pass through one is an error at build.
 */
#ifndef NIGHTSHIFT_GRAPH_GRAPH_H
#define NIGHTSHIFT_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "graph/store.h"

struct device; /* graph/backend.h */
struct program;
struct graph;

enum tensor_type { TENSOR_F32, TENSOR_BF16, TENSOR_I32 };
size_t tensor_type_size(enum tensor_type type);

enum activation {
	ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_SIGMOID, ACTIVATION_EXP,
	ACTIVATION_ABSOLUTE /* slope 0 at 0 */, ACTIVATION_SOFTPLUS /* log(1 + exp(x)), x above 20 */
};

/* ---- programs: a set of graphs over one store and one arena ---- */
struct program *program_new(struct device *device);
void program_free(struct program *program); /* its graphs and its store too */
struct store *program_store(struct program *program);

struct graph *graph_new(struct program *program, const char *name, bool training); /* owned by the program */
struct store *graph_store(const struct graph *graph); /* of its program */

/* ---- inputs and results ----
 * An input keeps what was written until it is written again. Outputs are valid until the next run of any graph of the
 * program, for they share one arena. */
int graph_input(struct graph *graph, const char *name, enum tensor_type type, int dims, const int64_t *dim);
/* Marks a tensor as a result: it keeps its place until the end of the run, for graph_read(). */
int graph_output(struct graph *graph, int tensor);
int graph_dims(const struct graph *graph, int tensor);
int64_t graph_dim(const struct graph *graph, int tensor, int i);
size_t graph_elements(const struct graph *graph, int tensor);

/* Parameter names: a path prefix ("down_blocks.0.") that graph_push() extends and graph_pop() restores. */
void graph_push(struct graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));
void graph_pop(struct graph *graph);
/* Records an error of the builder itself (bad sizes): kept as the graph's message, returns -1. */
int graph_fail(struct graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A parameter that is no layer's, as it is in files. */
int graph_parameter(struct graph *graph, const char *name, int dims, const int64_t *dim, enum store_initial initial,
	double scale);

/* ---- differentiable operations; NAME is relative to the prefix ---- */
/* Convolution of x [N,H,W,C] or [N,D,H,W,C]; parameters NAME.weight [out,in/groups,(kd,)kh,kw] and NAME.bias [out]. Sizes
 * are by axis, in x's order (of [N,H,W,C] the third is not used); groups 0 reads as 1, strides 0 as 1. */
struct convolution {
	int out, kernel[3], stride[3], pad_before[3], pad_after[3], groups;
	bool bias;
};
int graph_convolution(struct graph *graph, int x, const char *name, struct convolution convolution);
/* x [..., in] -> [..., out]; NAME.weight [out,in], NAME.bias [out]. */
int graph_linear(struct graph *graph, int x, const char *name, int out, bool bias);
/* The same with weight norm (Salimans & Kingma 2016): rows of NAME.weight_v [out,in] over their length times NAME.weight_g
 * [out,1], computed once in a graph. */
int graph_linear_normed(struct graph *graph, int x, const char *name, int out, bool bias);
/* Group norm over channels-last x, then the activation (none or SiLU); NAME.weight, NAME.bias [C]. Statistics in double or
 * float32 pairwise, biased variance. Wu & He 2018. */
int graph_group_norm(struct graph *graph, int x, const char *name, int groups, double epsilon, enum activation activation);
/* Layer norm over the last dimension. */
int graph_layer_norm(struct graph *graph, int x, const char *name, double epsilon);
/*
 * Batch norm of x [N,...,C] (Ioffe & Szegedy 2015), then plus `residual` (x's shape; -1: none), then the activation (none or
 * ReLU); NAME.weight and NAME.bias [C]. A training graph takes mean and biased variance of its x, unless `frozen`, and
 * NAME.running_mean and NAME.running_var get, once a step, r <- (1 - momentum) r + momentum x the mean over the step's
 * micro-batches of their mean and unbiased variance (program_norm_extent() has other ways). Other graphs take the running ones.
 */
struct batch_norm {
	double epsilon, momentum;
	enum activation activation;
	bool frozen;
};
int graph_batch_norm(struct graph *graph, int x, const char *name, struct batch_norm norm, int residual);
/* Registers the parameters of a batch norm that is called later, so that they come before those of what is built in between. */
void graph_batch_norm_parameters(struct graph *graph, const char *name, int64_t channels, double momentum);
/* q [N,T,H*D], k and v [N,S,H*D] -> [N,T,H*D]; softmax(q k^T / sqrt(D)) v for each of `heads` heads. Memory linear in T+S. */
int graph_attention(struct graph *graph, int q, int k, int v, int heads);
/* The same where token t of q sees the tokens 0 .. t of k and v; T = S. */
int graph_causal_attention(struct graph *graph, int q, int k, int v, int heads);
/* x [..., 2C] -> a * gelu(g), a the first half, g the second; exact erf GELU. */
int graph_geglu(struct graph *graph, int x);
int graph_activation(struct graph *graph, int x, enum activation activation);
/* log(1 + exp(beta x)) / beta; x itself where beta x is above 20. */
int graph_softplus(struct graph *graph, int x, double beta);
int graph_add(struct graph *graph, int a, int b); /* same shape */
/* x [N,...,C] + v [N,C] on every position. */
int graph_add_channels(struct graph *graph, int x, int v);
int graph_concat(struct graph *graph, int a, int b); /* along the last dimension */
/* Nearest: out[i] = x[floor(i * in / out)]; x [N,H,W,C]. */
int graph_upsample(struct graph *graph, int x, int64_t height, int64_t width);
/* Same elements, other dimensions (the memory order is unchanged): [N,H,W,C] <-> [N,H*W,C]. */
int graph_reshape(struct graph *graph, int x, int dims, const int64_t *dim);
/* Windows of [N,H,W,C] or [N,D,H,W,C], sizes by axis as in a convolution; stride 0 reads as the kernel. The padding is
 * smaller than the kernel. */
struct pool {
	int kernel[3], stride[3], pad_before[3], pad_after[3];
};
/* Padding is never the largest; the gradient goes to the first largest one in order of the axes. */
int graph_max_pool(struct graph *graph, int x, struct pool pool);
/* The sum over the kernel's size, padding counted as 0. */
int graph_average_pool(struct graph *graph, int x, struct pool pool);
/* The mean over all positions: [N,...,C] -> [N,C]. */
int graph_global_pool(struct graph *graph, int x);
/* Positions 0, s, 2s, ... of every axis of [N,H,W,C] or [N,D,H,W,C] (a stride each), then zeros up to `channels` channels. */
int graph_subsample(struct graph *graph, int x, const int *stride, int64_t channels);
/* The operation that made x passes no gradient on to what it was made of. */
void graph_detach(struct graph *graph, int x);
/* Channels first .. first + count - 1. */
int graph_slice(struct graph *graph, int x, int64_t first, int64_t count);
/* In a training graph each element is 0 with this probability and else divided by 1 - probability, by the seed, step and
 * micro-batch of the step scalars and the name; other graphs pass x through. */
int graph_dropout(struct graph *graph, int x, const char *name, double probability);
/* Rows of x [R,C] (a tensor or parameter): index int32 [...] -> [...,C]. A row that does not exist is not a number. */
int graph_gather(struct graph *graph, int x, int index);
/* Rows of the parameter NAME.weight [rows,width], initially normal. */
int graph_embedding(struct graph *graph, int index, const char *name, int64_t rows, int width);
/* x [N,C] -> [N,count,C], the same row `count` times. */
int graph_repeat(struct graph *graph, int x, int64_t count);
/* Rows over their length: x / max(|x|, 1e-12) along the last dimension. */
int graph_normalise(struct graph *graph, int x);
/* Sum and mean over all elements: [1]. */
int graph_sum(struct graph *graph, int x);
int graph_mean(struct graph *graph, int x);
/* x [...,D] -> [...,2 D levels]: for each input sin(2^k pi x), k = 0 .. levels - 1, then the cosines (Mildenhall et al. 2020). */
int graph_fourier(struct graph *graph, int x, int levels);
/* Real spherical harmonics of directions [...,3], degrees 0 .. degree (at most 3): [...,(degree + 1)^2], in the usual order and
 * with the usual signs. */
int graph_spherical_harmonics(struct graph *graph, int x, int degree);
/* x times a constant; x times a scalar [1] that may change from run to run and gets no gradient. */
int graph_scale(struct graph *graph, int x, double factor);
int graph_scale_by(struct graph *graph, int x, int factor);

/* ---- losses: scalars [1] ---- */
/* sum over selected elements of (prediction - target)^2 / number selected; mask [N,H,W] (or x's shape without
 * the last dimension) holds 0 or 1; no gradient to target and mask. All masked out: loss 0, gradient 0. */
int graph_masked_mse(struct graph *graph, int prediction, int target, int mask);
/* Means over all elements of (prediction - target)^2 and of |prediction - target|. */
int graph_mse(struct graph *graph, int prediction, int target);
int graph_l1(struct graph *graph, int prediction, int target);
/* Softmax cross-entropy of logits [N,K] and int32 classes [N], the target being (1 - smoothing) at the class plus smoothing / K
 * everywhere; mean over the samples whose class is not negative (those are left out; none: 0). */
struct cross_entropy {
	int loss;
	int losses; /* [N]; 0 for what is left out */
	int rank;   /* int32 [N]: how many classes come before the true one, so that it is among the top k where rank < k (of
		     * equals, the lower class comes first); K for what is left out */
};
struct cross_entropy graph_cross_entropy(struct graph *graph, int logits, int target, double smoothing);

/* ---- without gradient ---- */
/* t [N] float -> [N, width]: cos(t f_i) then sin(t f_i), f_i = exp(-ln(10000) i / (width/2)) (spec/marigold.md 5.2). */
int graph_timestep_embedding(struct graph *graph, int t, int width);

/* ---- derivation, planning, running ---- */
/* Appends the backward pass of the scalar `loss`, which may be a sum of losses; marks it as an output. Gradients of frozen parameters are not made. */
int graph_backward(struct graph *graph, int loss);
/* Gradient of a tensor after graph_backward() was called (for tests): its tensor index, kept as an output; -1 if none.
 * Must be requested with graph_want_gradient() before graph_backward() when the tensor is an input. */
void graph_want_gradient(struct graph *graph, int tensor);
int graph_gradient(struct graph *graph, int tensor);

/* How parameters are updated, to the letter of PyTorch's optimizers (what is 0 is off). */
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, OPTIMIZER_STATISTIC /* batch norm's own */ };
struct optimizer_rule {
	enum optimizer_kind kind;
	double beta1, beta2, epsilon; /* Adam: epsilon is added to the root of the bias-corrected second moment */
	double momentum, dampening;   /* SGD; the first step is not dampened */
	bool nesterov;
	double decay;   /* times the value added to the gradient; AdamW: times rate and value taken off the value */
	bool spare_vectors; /* no decay of parameters of one dimension: norms and biases */
	double average; /* keeps average <- average x itself + (1 - average) x value in SLOT_AVERAGE, from the initial values on */
	double clip;    /* largest global gradient norm; 0: no clipping */
};
int program_update_rule(struct program *program, const struct optimizer_rule *rule);
/* What changes from step to step; operations read it, nothing is baked in. */
struct step_scalars {
	double learning_rate;
	int64_t step; /* 1 for the first update (bias correction) */
	uint64_t seed;
	int64_t micro; /* number of the micro-batch in its step, over all ranks */
	int active_levels; /* of hash grids; 0: all */
	double epsilon;    /* of stencils */
	double anneal;     /* of rendering: 0 at the start of a training, 1 from its end on */
};
/* For the runs that follow; copied. */
void program_set_scalars(struct program *program, const struct step_scalars *scalars);

/* Before program_prepare(): parameters are updated during graph_run(), by the scalars set before it, as soon as their gradient is
 * complete and nobody reads the old value any more; gradients live in the arena, as short as that. program_collect() and
 * program_update() are called all the same and do nothing more. Not with clipping, more than one micro-batch, or ranks: then
 * program_prepare() fails. Gradients cannot be read from the store. */
void program_early_updates(struct program *program);
/* Before program_prepare(): everything on the device should fit into so many bytes (0: no matter). Where it does not, results of
 * the forward pass are computed again in the backward pass, the cheapest for their size first; the numbers stay the same. Where
 * that is not enough the program is as small as it gets: program_measure() tells. */
void program_memory(struct program *program, uint64_t bytes);

/*
 * Before program_prepare(): parameters that are read by rows (tables of hash grids, embeddings) are updated by rows. A row whose
 * gradient is 0 in a step waits; before it is read, exported or updated again it gets the updates that it waited for one by one, by
 * their own learning rates, so that all bits are those of updates of everything. Where the back end cannot, nothing changes.
 */
void program_sparse_updates(struct program *program);

/* The largest number of micro-batches that program_collect() will be told; 1 unless set. Before program_prepare(). */
void program_micros(struct program *program, int64_t micros);

/* Plans memory, allocates arena, gradients and state, prepares every operation of every graph. May be called again after
 * more graphs were added over the same parameters (new shapes): parameters and state stay, the arena grows if it must. */
int program_prepare(struct program *program);

/* Between host memory (contiguous, the tensor's own layout and type) and the device. */
int graph_write(struct graph *graph, int tensor, const void *data);
int graph_read(struct graph *graph, int tensor, void *data);
/* Forward, and backward where there is one. A loss that is not finite: STATUS_FENCED before the backward pass, with a
 * message that names the first tensor that is not finite. */
int graph_run(struct graph *graph);

/* After each micro-batch's graph_run() of a training graph: adds its gradients into the sum by a binary tree that pairs
 * consecutive micro-batches from the left. After the last one (micro == micros - 1) the gradient is the mean over micros (and ranks). */
int program_collect(struct program *program, int64_t micro, int64_t micros);
/*
 * Ranks: processes that run the same program on micro-batches of their own add up their gradients while the last backward pass
 * runs. The gradients of a program lie in one block, in order of building, so that it is filled from its end.
 *
 *	program_set_exchange(program, &exchange);                   after program_prepare()
 *	for each micro-batch: program_begin(program, micro, micros); ... graph_run(graph); program_collect(program, micro, micros);
 */
struct program_exchange {
	void *state;
	/* From float `from` of the block to its end this process's sums are complete, and nobody else looks at them until finish()
	 * returns. Called after every operation of the last micro-batch's backward pass, so that an exchange gets on. */
	int (*ready)(void *state, size_t from);
	/* Everything is ready: returns when the block holds the sums over all ranks. */
	int (*finish)(void *state);
	int ranks, rank;
	/* `count` numbers of every rank, in the order of ranks, to every rank: for batch norms over ranks. May be NULL: each for itself. */
	int (*gather)(void *state, const double *mine, size_t count, double *all);
	int failed; /* status of the first gather() that failed; the run that needed it fails */
};
/* Over what training graphs take the statistics of batch norms whose statistics are not frozen, and what the running ones get. Before
 * program_prepare(). */
enum norm_extent {
	NORM_MICRO, /* a micro-batch; the mean over all of the step's */
	NORM_STEP,  /* the micro-batches that all ranks run at the same time; they have one each, of the same size */
	NORM_RANK   /* a micro-batch, of which each rank has one; that of rank 0 alone */
};
void program_norm_extent(struct program *program, enum norm_extent extent, int ranks);
bool program_norms_meet(const struct program *program); /* whether ranks meet in them */
void program_set_exchange(struct program *program, const struct program_exchange *exchange);
/* The block of gradients and its floats (some between parameters belong to none; they are 0). After program_prepare(). */
float *program_gradients(struct program *program, size_t *count);
/* Before graph_run(): which of this process's micro-batches of a step it is. Without it, or without an exchange, gradients are
 * complete at program_collect() only. */
void program_begin(struct program *program, int64_t micro, int64_t micros);
/* Global gradient norm (before clipping; squares added in double, parameters in store order). */
int program_gradient_norm(struct program *program, double *norm);
/* Clips and updates all parameters by the rule: above `clip` the gradient is multiplied by clip / (norm + 1e-6). */
int program_update(struct program *program, const struct step_scalars *scalars);
/* Name of the first parameter whose gradient is not finite, or NULL. */
const char *program_not_finite(struct program *program);

/* ---- looking ---- */
struct program_bytes { /* what was (or, before prepare, would be) allocated on the device */
	uint64_t parameters, gradients, accumulators /* of program_collect() */, state, inputs, arena, workspace, total;
};
int program_measure(struct program *program, struct program_bytes *bytes); /* works before and after prepare; equal */
/* What a parameter that is trained has beside its value and gradient: moments and average. After program_update_rule(). */
int program_state_slots(const struct program *program);
/* The largest tensors of a measured program, the largest first, each memory once: fills at most `count`, returns how many. */
struct program_tensor {
	const char *graph; /* the program's, like the other names */
	const char *name;  /* of the parameter, of the input, or of the operation that writes it */
	const char *kind;  /* "parameter", "input", "activation", "gradient" */
	uint64_t bytes;
};
size_t program_largest(const struct program *program, struct program_tensor *largest, size_t count);
double graph_flops(const struct graph *graph);  /* of one run: multiply and add count one each */
double graph_padding_flops(const struct graph *graph); /* of these, those of convolutions that only meet padding */
double graph_traffic(const struct graph *graph); /* bytes read and written by one run */
/* One line a node: operation, name, tensors in and out (kind, number:shape=bytes@offset in the arena), flops, bytes moved,
 * workspace; lines that start with # around them. */
void graph_print(const struct graph *graph, FILE *out);

#endif
