/* The operations as builder functions: shape rules, parameters, one node each. */
#include <math.h>
#include <stdio.h>
#include "graph/build.h"

int64_t graph_channels(const struct graph *graph, int x)
{
	return graph_dim(graph, x, graph_dims(graph, x) - 1);
}

bool graph_same_shape(const struct graph *graph, int a, int b)
{
	const struct tensor *s = &graph->tensors[a], *t = &graph->tensors[b];

	if (s->dims != t->dims)
		return false;
	for (int i = 0; i < s->dims; i++) {
		if (s->dim[i] != t->dim[i])
			return false;
	}
	return true;
}

const char *graph_shape_text(const struct graph *graph, int x, char buffer[128])
{
	const struct tensor *tensor = &graph->tensors[x];
	int length = 0;

	for (int i = 0; i < tensor->dims; i++)
		length += snprintf(buffer + length, 128 - (size_t)length, "%s%lld", i ? "x" : "",
			(long long)tensor->dim[i]);
	return buffer;
}

int graph_fail_shapes(struct graph *graph, const char *what, int a, int b)
{
	char text_a[128], text_b[128];

	return graph_fail(graph, "%s: shapes %s and %s do not fit", what, graph_shape_text(graph, a, text_a),
		graph_shape_text(graph, b, text_b));
}

int64_t graph_positions(const struct graph *graph, int x)
{
	return (int64_t)graph_elements(graph, x) / graph_dim(graph, x, 0) / graph_channels(graph, x);
}

bool graph_is_float(struct graph *graph, const char *what, int x)
{
	if (graph->tensors[x].type == TENSOR_F32)
		return true;
	graph_fail(graph, "%s: takes float32", what);
	return false;
}

bool graph_floats(struct graph *graph, const char *what, const int *tensors, int count)
{
	if (!graph_usable(graph, tensors, count))
		return false;
	for (int i = 0; i < count; i++) {
		if (!graph_is_float(graph, what, tensors[i]))
			return false;
	}
	return true;
}

int graph_add_operation(
	struct graph *graph, enum operation operation, const char *name, int dims, const int64_t *dim)
{
	struct node *node = graph_add_node(graph, operation, name);
	int y = node ? graph_add_tensor(graph, TENSOR_ACTIVATION, dims, dim, NULL) : -1;

	if (y >= 0)
		node->out[0] = y;
	return y;
}

int graph_add_operation_like(struct graph *graph, enum operation operation, const char *name, int like)
{
	struct tensor shape = graph->tensors[like];

	return graph_add_operation(graph, operation, name, shape.dims, shape.dim);
}

int graph_add_call(struct graph *graph, enum operation operation, const char *name, const int *in, int count,
	int dims, const int64_t *dim)
{
	int y = graph_add_operation(graph, operation, name, dims, dim);

	for (int k = 0; k < count && y >= 0; k++)
		graph_last_node(graph)->in[k] = in[k];
	return y;
}

int graph_add_call_like(
	struct graph *graph, enum operation operation, const char *name, const int *in, int count, int like)
{
	struct tensor shape = graph->tensors[like];

	return graph_add_call(graph, operation, name, in, count, shape.dims, shape.dim);
}

int graph_add_result(struct graph *graph, int k, enum tensor_type type, int dims, const int64_t *dim)
{
	int added = graph->status ? -1 : graph_add_tensor(graph, TENSOR_ACTIVATION, dims, dim, NULL);

	if (added < 0)
		return -1;
	graph->tensors[added].type = type;
	graph->tensors[added].bytes = graph->tensors[added].elements * tensor_type_size(type);
	graph_last_node(graph)->out[k] = added;
	return added;
}

struct node *graph_last_node(struct graph *graph)
{
	return &graph->nodes[graph->node_count - 1];
}

int graph_parameter(struct graph *graph, const char *name, int dims, const int64_t *dim,
	enum store_initial initial, double scale)
{
	return graph->status ? -1
			     : graph_add_parameter(graph, name, "", dims, dim, LAYOUT_PLAIN, initial, scale);
}

/* ---- products ---- */

static int64_t convolved(const struct graph *graph, int x, int axis, const struct convolution *c)
{
	int64_t padded = graph_dim(graph, x, axis + 1) + c->pad_before[axis] + c->pad_after[axis];

	return padded < c->kernel[axis] ? 0 : (padded - c->kernel[axis]) / c->stride[axis] + 1;
}

static int check_convolution(struct graph *graph, int x, const char *name, const struct convolution *c)
{
	char text[128];
	int dims = graph_dims(graph, x);

	if (dims != 4 && dims != 5)
		return graph_fail(graph, "%s: a convolution takes [N,H,W,C] or [N,D,H,W,C], not %s", name,
			graph_shape_text(graph, x, text));
	if (c->out <= 0 || c->groups <= 0 || c->out % c->groups || graph_channels(graph, x) % c->groups)
		return graph_fail(graph, "%s: %lld channels in, %d out and %d groups do not fit", name,
			(long long)graph_channels(graph, x), c->out, c->groups);
	for (int axis = 0; axis < dims - 2; axis++) {
		if (c->kernel[axis] <= 0 || c->stride[axis] <= 0 || c->pad_before[axis] < 0 ||
			c->pad_after[axis] < 0)
			return graph_fail(graph, "%s: impossible kernel, stride or padding", name);
		if (convolved(graph, x, axis, c) <= 0)
			return graph_fail(graph, "%s: the kernel is larger than the padded input %s", name,
				graph_shape_text(graph, x, text));
	}
	return 0;
}

/* Shapes of the weight, in files, and of the result. */
static void convolution_shapes(
	struct graph *graph, int x, const struct convolution *c, int64_t *weight, int64_t *y)
{
	int dims = graph_dims(graph, x);

	weight[0] = c->out;
	weight[1] = graph_channels(graph, x) / c->groups;
	y[0] = graph_dim(graph, x, 0);
	y[dims - 1] = c->out;
	for (int axis = 0; axis < dims - 2; axis++) {
		weight[axis + 2] = c->kernel[axis];
		y[axis + 1] = convolved(graph, x, axis, c);
	}
}

int graph_convolution(struct graph *graph, int x, const char *name, struct convolution c)
{
	int dims, weight, bias = -1, y;
	int64_t weight_dim[TENSOR_DIMS], y_dim[TENSOR_DIMS], terms = 1;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, name, x))
		return -1;
	c.groups = c.groups ? c.groups : 1;
	for (int axis = 0; axis < 3; axis++)
		c.stride[axis] = c.stride[axis] ? c.stride[axis] : 1;
	if (check_convolution(graph, x, name, &c))
		return -1;
	dims = graph_dims(graph, x);
	convolution_shapes(graph, x, &c, weight_dim, y_dim);
	for (int i = 1; i < dims; i++)
		terms *= weight_dim[i];
	weight = graph_add_parameter(graph, name, ".weight", dims, weight_dim, LAYOUT_CONVOLUTION,
		INITIAL_UNIFORM, 1 / sqrt((double)terms));
	if (c.bias)
		bias = graph_add_parameter(graph, name, ".bias", 1, (int64_t[]){c.out}, LAYOUT_PLAIN,
			INITIAL_UNIFORM, 1 / sqrt((double)terms));
	y = graph_add_operation(graph, OP_CONVOLUTION, name, dims, y_dim);
	if (y < 0)
		return -1;
	graph_last_node(graph)->in[0] = x;
	graph_last_node(graph)->in[1] = weight;
	graph_last_node(graph)->in[2] = bias;
	graph_last_node(graph)->convolution = c;
	return y;
}

int graph_linear(struct graph *graph, int x, const char *name, int out, bool with_bias)
{
	struct tensor shape;
	int64_t in;
	int weight, bias = -1, y;
	double scale;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, name, x))
		return -1;
	if (out <= 0)
		return graph_fail(graph, "%s: %d outputs", name, out);
	shape = graph->tensors[x];
	in = shape.dim[shape.dims - 1];
	scale = 1 / sqrt((double)in);
	weight = graph_add_parameter(
		graph, name, ".weight", 2, (int64_t[]){out, in}, LAYOUT_LINEAR, INITIAL_UNIFORM, scale);
	if (with_bias)
		bias = graph_add_parameter(
			graph, name, ".bias", 1, (int64_t[]){out}, LAYOUT_PLAIN, INITIAL_UNIFORM, scale);
	shape.dim[shape.dims - 1] = out;
	y = graph_add_operation(graph, OP_LINEAR, name, shape.dims, shape.dim);
	if (y < 0)
		return -1;
	graph_last_node(graph)->in[0] = x;
	graph_last_node(graph)->in[1] = weight;
	graph_last_node(graph)->in[2] = bias;
	return y;
}

/* ---- attention and its neighbours ---- */

int graph_attention(struct graph *graph, int q, int k, int v, int heads)
{
	int y, lse;

	if (!graph_usable(graph, (int[]){q, k, v}, 3) || !graph_is_float(graph, "attention", q))
		return -1;
	if (graph_dims(graph, q) != 3 || graph_dims(graph, k) != 3 ||
		graph_dim(graph, q, 0) != graph_dim(graph, k, 0) ||
		graph_dim(graph, q, 2) != graph_dim(graph, k, 2))
		return graph_fail_shapes(graph, "attention", q, k);
	if (!graph_same_shape(graph, k, v))
		return graph_fail_shapes(graph, "attention", k, v);
	if (heads <= 0 || graph_channels(graph, q) % heads)
		return graph_fail(graph, "attention: %lld channels are not divisible by %d heads",
			(long long)graph_channels(graph, q), heads);
	y = graph_add_operation_like(graph, OP_ATTENTION, "attention", q);
	lse = y < 0 ? -1
		    : graph_add_tensor(graph, TENSOR_ACTIVATION, 3,
			      (int64_t[]){graph_dim(graph, q, 0), heads, graph_dim(graph, q, 1)}, NULL);
	if (lse < 0)
		return -1;
	graph_last_node(graph)->in[0] = q;
	graph_last_node(graph)->in[1] = k;
	graph_last_node(graph)->in[2] = v;
	graph_last_node(graph)->out[1] = lse;
	graph_last_node(graph)->attention.heads = heads;
	return y;
}

int graph_causal_attention(struct graph *graph, int q, int k, int v, int heads)
{
	int y;

	if (graph_usable(graph, (int[]){q, k}, 2) && graph_dim(graph, q, 1) != graph_dim(graph, k, 1))
		return graph_fail_shapes(graph, "attention", q, k);
	y = graph_attention(graph, q, k, v, heads);
	if (y >= 0)
		graph_last_node(graph)->attention.causal = true;
	return y;
}

int graph_geglu(struct graph *graph, int x)
{
	struct tensor shape;
	int y;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, "geglu", x))
		return -1;
	shape = graph->tensors[x];
	if (shape.dim[shape.dims - 1] % 2)
		return graph_fail(
			graph, "geglu: %lld channels are odd", (long long)shape.dim[shape.dims - 1]);
	shape.dim[shape.dims - 1] /= 2;
	y = graph_add_operation(graph, OP_GEGLU, "geglu", shape.dims, shape.dim);
	if (y >= 0)
		graph_last_node(graph)->in[0] = x;
	return y;
}

int graph_activation(struct graph *graph, int x, enum activation activation)
{
	int y;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, "activation", x))
		return -1;
	if (activation == ACTIVATION_NONE)
		return x;
	y = graph_add_operation_like(graph, OP_ACTIVATION, "activation", x);
	if (y < 0)
		return -1;
	graph_last_node(graph)->in[0] = x;
	graph_last_node(graph)->activation = activation;
	graph_last_node(graph)->beta = 1;
	return y;
}

int graph_softplus(struct graph *graph, int x, double beta)
{
	int y;

	if (graph_usable(graph, &x, 1) && !(beta > 0))
		return graph_fail(graph, "softplus: a beta of %g", beta);
	y = graph_activation(graph, x, ACTIVATION_SOFTPLUS);
	if (y >= 0)
		graph_last_node(graph)->beta = beta;
	return y;
}

/* ---- moving and adding ---- */

static int add_pair(struct graph *graph, int y, int a, int b)
{
	if (y < 0)
		return -1;
	graph_last_node(graph)->in[0] = a;
	graph_last_node(graph)->in[1] = b;
	return y;
}

int graph_add(struct graph *graph, int a, int b)
{
	if (!graph_usable(graph, (int[]){a, b}, 2) || !graph_is_float(graph, "add", a) ||
		!graph_is_float(graph, "add", b))
		return -1;
	if (!graph_same_shape(graph, a, b))
		return graph_fail_shapes(graph, "add", a, b);
	return add_pair(graph, graph_add_operation_like(graph, OP_ADD, "add", a), a, b);
}

int graph_add_channels(struct graph *graph, int x, int v)
{
	if (!graph_usable(graph, (int[]){x, v}, 2) || !graph_is_float(graph, "add-channels", x) ||
		!graph_is_float(graph, "add-channels", v))
		return -1;
	if (graph_dims(graph, v) != 2 || graph_dims(graph, x) < 2 ||
		graph_dim(graph, v, 0) != graph_dim(graph, x, 0) ||
		graph_channels(graph, v) != graph_channels(graph, x))
		return graph_fail_shapes(graph, "add-channels", x, v);
	return add_pair(graph, graph_add_operation_like(graph, OP_ADD_CHANNELS, "add-channels", x), x, v);
}

int graph_concat(struct graph *graph, int a, int b)
{
	struct tensor shape;

	if (!graph_usable(graph, (int[]){a, b}, 2) || !graph_is_float(graph, "concat", a) ||
		!graph_is_float(graph, "concat", b))
		return -1;
	shape = graph->tensors[a];
	if (graph_dims(graph, b) != shape.dims)
		return graph_fail_shapes(graph, "concat", a, b);
	for (int i = 0; i < shape.dims - 1; i++) {
		if (graph_dim(graph, b, i) != shape.dim[i])
			return graph_fail_shapes(graph, "concat", a, b);
	}
	shape.dim[shape.dims - 1] += graph_channels(graph, b);
	return add_pair(graph, graph_add_operation(graph, OP_CONCAT, "concat", shape.dims, shape.dim), a, b);
}

int graph_upsample(struct graph *graph, int x, int64_t height, int64_t width)
{
	char text[128];
	int y;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, "upsample", x))
		return -1;
	if (graph_dims(graph, x) != 4 || height < graph_dim(graph, x, 1) || width < graph_dim(graph, x, 2))
		return graph_fail(graph, "upsample: %s to %lld rows and %lld columns",
			graph_shape_text(graph, x, text), (long long)height, (long long)width);
	y = graph_add_operation(graph, OP_UPSAMPLE, "upsample", 4,
		(int64_t[]){graph_dim(graph, x, 0), height, width, graph_channels(graph, x)});
	if (y >= 0)
		graph_last_node(graph)->in[0] = x;
	return y;
}

int graph_reshape(struct graph *graph, int x, int dims, const int64_t *dim)
{
	char text[128];
	int y;

	if (!graph_usable(graph, &x, 1))
		return -1;
	y = graph_add_tensor(graph, graph->tensors[x].kind, dims, dim, NULL);
	if (y < 0)
		return -1;
	if (graph->tensors[y].elements != graph->tensors[x].elements)
		return graph_fail(graph, "reshape: %s has not as many elements as asked for",
			graph_shape_text(graph, x, text));
	graph->tensors[y].alias = x;
	graph->tensors[y].type = graph->tensors[x].type;
	graph->tensors[y].parameter = graph->tensors[x].parameter;
	return y;
}

int graph_timestep_embedding(struct graph *graph, int t, int width)
{
	int y;

	if (!graph_usable(graph, &t, 1) || !graph_is_float(graph, "timestep-embedding", t))
		return -1;
	if (graph_dims(graph, t) != 1 || width <= 0 || width % 2)
		return graph_fail(graph, "timestep-embedding: takes [N] and an even width, not %d", width);
	y = graph_add_operation(graph, OP_TIMESTEP_EMBEDDING, "timestep-embedding", 2,
		(int64_t[]){graph_dim(graph, t, 0), width});
	if (y >= 0)
		graph_last_node(graph)->in[0] = t;
	return y;
}

int graph_dropout(struct graph *graph, int x, const char *name, double probability)
{
	int y;

	if (!graph_floats(graph, name, &x, 1))
		return -1;
	if (!(probability >= 0 && probability < 1))
		return graph_fail(graph, "%s: a probability of %g to drop", name, probability);
	if (!graph->training || probability == 0)
		return x;
	y = graph_add_call_like(graph, OP_DROPOUT, name, &x, 1, x);
	if (y < 0)
		return -1;
	graph_last_node(graph)->probability = probability;
	return y;
}
