/* Normalisation as builder functions: shape rules, parameters, statistics. */
#include "base/error.h"
#include "graph/build.h"

/* ---- group norm and layer norm ---- */

/* y with two saved statistics; parameters NAME.weight and NAME.bias over the last dimension. */
static int add_norm(struct graph *graph, enum operation operation, int x, const char *name,
	int statistics_dims, const int64_t *statistics)
{
	int64_t channels = graph_channels(graph, x);
	int gamma, beta, y, mean, rstd;

	gamma = graph_add_parameter(graph, name, ".weight", 1, &channels, LAYOUT_PLAIN, INITIAL_ONE, 0);
	beta = graph_add_parameter(graph, name, ".bias", 1, &channels, LAYOUT_PLAIN, INITIAL_ZERO, 0);
	y = graph_add_operation_like(graph, operation, name, x);
	mean = y < 0 ? -1 : graph_add_tensor(graph, TENSOR_ACTIVATION, statistics_dims, statistics, NULL);
	rstd = mean < 0 ? -1 : graph_add_tensor(graph, TENSOR_ACTIVATION, statistics_dims, statistics, NULL);
	if (rstd < 0)
		return -1;
	graph_last_node(graph)->in[0] = x;
	graph_last_node(graph)->in[1] = gamma;
	graph_last_node(graph)->in[2] = beta;
	graph_last_node(graph)->out[1] = mean;
	graph_last_node(graph)->out[2] = rstd;
	return y;
}

int graph_group_norm(
	struct graph *graph, int x, const char *name, int groups, double epsilon, enum activation activation)
{
	int y;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, name, x))
		return -1;
	if (groups <= 0 || graph_channels(graph, x) % groups)
		return graph_fail(graph, "%s: %lld channels are not divisible by %d groups", name,
			(long long)graph_channels(graph, x), groups);
	if (activation != ACTIVATION_NONE && activation != ACTIVATION_SILU)
		return graph_fail(graph, "%s: group norm goes with no activation or SiLU", name);
	y = add_norm(graph, OP_GROUP_NORM, x, name, 2, (int64_t[]){graph_dim(graph, x, 0), groups});
	if (y < 0)
		return -1;
	graph_last_node(graph)->norm.groups = groups;
	graph_last_node(graph)->norm.epsilon = epsilon;
	graph_last_node(graph)->norm.activation = activation;
	return y;
}

int graph_layer_norm(struct graph *graph, int x, const char *name, double epsilon)
{
	int64_t rows;
	int y;

	if (!graph_usable(graph, &x, 1) || !graph_is_float(graph, name, x))
		return -1;
	rows = (int64_t)graph_elements(graph, x) / graph_channels(graph, x);
	y = add_norm(graph, OP_LAYER_NORM, x, name, 1, &rows);
	if (y < 0)
		return -1;
	graph_last_node(graph)->norm.epsilon = epsilon;
	return y;
}

/* ---- batch norm ---- */

static int check_batch_norm(
	struct graph *graph, int x, const char *name, const struct batch_norm *norm, int residual)
{
	if (norm->activation != ACTIVATION_NONE && norm->activation != ACTIVATION_RELU)
		return graph_fail(graph, "%s: batch norm goes with no activation or ReLU", name);
	if (!(norm->momentum >= 0 && norm->momentum <= 1))
		return graph_fail(graph, "%s: a momentum of %g is not between 0 and 1", name, norm->momentum);
	if (graph_dims(graph, x) < 2)
		return graph_fail(graph, "%s: batch norm takes [N,...,C]", name);
	if (residual >= 0 && !graph_same_shape(graph, x, residual))
		return graph_fail_shapes(graph, name, x, residual);
	return STATUS_OK;
}

/* A training graph's statistics become the running ones' part of the step, in the places of their gradients. */
static int add_statistics(struct graph *graph, const char *name, const int running[2])
{
	int64_t channels = graph_dim(graph, running[0], 0);

	if ((int64_t)graph_elements(graph, graph_last_node(graph)->in[0]) == channels)
		return graph_fail(graph,
			"%s: batch norm of one value a channel; more or larger samples a batch are needed",
			name);
	for (size_t i = 0; i < graph->tensor_count; i++) {
		if (graph->tensors[i].kind == TENSOR_PARAMETER_GRADIENT &&
			graph->tensors[i].parameter == graph->tensors[running[0]].parameter)
			return graph_fail(
				graph, "%s: a batch norm that learns its statistics is used twice", name);
	}
	for (int k = 0; k < 2; k++) {
		int added = graph_add_like(graph, TENSOR_PARAMETER_GRADIENT, running[k]);

		if (added < 0)
			return -1;
		graph->tensors[added].parameter = graph->tensors[running[k]].parameter;
		graph_last_node(graph)->out[3 + k] = added;
	}
	return STATUS_OK;
}

/* In the order of files; -1 after an error. */
struct batch_norm_parameters {
	int gamma, beta, mean, variance;
};

static struct batch_norm_parameters add_batch_norm_parameters(
	struct graph *graph, const char *name, int64_t channels, double momentum)
{
	struct batch_norm_parameters parameters;

	parameters.gamma =
		graph_add_parameter(graph, name, ".weight", 1, &channels, LAYOUT_PLAIN, INITIAL_ONE, 0);
	parameters.beta =
		graph_add_parameter(graph, name, ".bias", 1, &channels, LAYOUT_PLAIN, INITIAL_ZERO, 0);
	parameters.mean = graph_add_statistic(graph, name, ".running_mean", channels, INITIAL_ZERO, momentum);
	parameters.variance =
		graph_add_statistic(graph, name, ".running_var", channels, INITIAL_ONE, momentum);
	return parameters;
}

void graph_batch_norm_parameters(struct graph *graph, const char *name, int64_t channels, double momentum)
{
	if (graph_usable(graph, NULL, 0))
		add_batch_norm_parameters(graph, name, channels, momentum);
}

int graph_batch_norm(struct graph *graph, int x, const char *name, struct batch_norm norm, int residual)
{
	bool learns = graph->training && !norm.frozen;
	struct batch_norm_parameters p;
	int64_t channels;
	int y;

	if (!graph_floats(graph, name, (int[]){x, residual}, residual >= 0 ? 2 : 1) ||
		check_batch_norm(graph, x, name, &norm, residual))
		return -1;
	channels = graph_channels(graph, x);
	p = add_batch_norm_parameters(graph, name, channels, norm.momentum);
	if (p.variance < 0)
		return -1;
	y = graph_add_call_like(graph, OP_BATCH_NORM, name,
		(int[]){x, p.gamma, p.beta, residual, learns ? -1 : p.mean, learns ? -1 : p.variance}, 6, x);
	if (y < 0 || graph_add_result(graph, 1, TENSOR_F32, 1, &channels) < 0 ||
		graph_add_result(graph, 2, TENSOR_F32, 1, &channels) < 0)
		return -1;
	graph_last_node(graph)->norm.epsilon = norm.epsilon;
	graph_last_node(graph)->norm.activation = norm.activation;
	graph_last_node(graph)->norm.frozen = !learns;
	return learns && add_statistics(graph, name, (int[]){p.mean, p.variance}) ? -1 : y;
}
