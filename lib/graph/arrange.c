/*
 * From the nodes as they were built to those that run: forward results that are not kept are computed again where the backward
 * pass needs them, and parameters are updated where nothing needs their gradient or old value any more.
 *
 * The built nodes stay; arranging again starts from them.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

struct arrangement {
	struct graph *graph;
	const bool *dropped; /* by root: not kept for the backward pass; NULL: all are */
	int *copy;           /* by root: the tensor that holds it again, -1: none yet */
	int *producer;       /* by root: forward node that writes it */
};

void graph_restore(struct graph *graph)
{
	if (!graph->built)
		return;
	free(graph->nodes);
	graph->nodes = graph->built;
	graph->node_count = graph->node_capacity = graph->built_count;
	graph->tensor_count = graph->built_tensors;
	graph->built = NULL;
	graph->planned = false;
}

static int append(struct graph *graph, const struct node *node)
{
	if (memory_grow(&graph->nodes, &graph->node_capacity, graph->node_count + 1, sizeof(*node)))
		return error_status();
	graph->nodes[graph->node_count++] = *node;
	return STATUS_OK;
}

/* ---- computing again ---- */

static bool is_dropped(const struct arrangement *a, int tensor)
{
	return tensor >= 0 && a->dropped && a->dropped[graph_root(a->graph, tensor)];
}

static int materialise(struct arrangement *a, int root);

/* The tensor that a node behind the forward pass reads in the place of `tensor`. */
static int again(struct arrangement *a, int tensor)
{
	int root;

	if (!is_dropped(a, tensor))
		return tensor;
	root = graph_root(a->graph, tensor);
	if (a->copy[root] < 0 && materialise(a, root))
		return -1;
	return graph_add_alias(a->graph, a->copy[root], tensor);
}

/* A second run writes no statistics; results that are kept go to memory of nobody's. */
static int other_output(struct arrangement *a, int tensor)
{
	int root = graph_root(a->graph, tensor), added;

	if (a->graph->tensors[root].kind == TENSOR_PARAMETER_GRADIENT)
		return -1;
	added = graph_add_like(a->graph, TENSOR_ACTIVATION, root);
	if (added >= 0) {
		a->graph->tensors[added].type = a->graph->tensors[root].type;
		if (is_dropped(a, root))
			a->copy[root] = added;
	}
	return added;
}

static int materialise(struct arrangement *a, int root)
{
	struct node node = a->graph->built[a->producer[root]];

	for (int k = 0; k < NODE_INPUTS; k++) {
		int in = node.in[k];

		if (in >= 0 && (node.in[k] = again(a, in)) < 0)
			return error_status();
	}
	for (int k = 0; k < NODE_OUTPUTS; k++) {
		if (node.out[k] >= 0)
			node.out[k] = other_output(a, node.out[k]);
	}
	if (a->copy[root] < 0)
		return error_set(
			STATUS_FAILURE, "graph %s: %s cannot be computed again", a->graph->name, node.name);
	node.repeated = true;
	return append(a->graph, &node);
}

static int append_backward(struct arrangement *a, size_t n)
{
	struct node node = a->graph->built[n];

	for (int k = 0; k < NODE_INPUTS; k++) {
		int in = node.in[k];

		if (in >= 0 && (node.in[k] = again(a, in)) < 0)
			return error_status();
	}
	return append(a->graph, &node);
}

static int append_all(struct arrangement *a)
{
	struct graph *graph = a->graph;
	int status = STATUS_OK;

	for (size_t n = 0; n < graph->built_count && !status; n++)
		status = n < graph->forward_count ? append(graph, &graph->built[n]) : append_backward(a, n);
	return status;
}

/* ---- updates ---- */

/* By parameter, the last node that touches its value or gradient, plus one; 0: none. */
static void find_last_touches(const struct graph *graph, const struct node *nodes, size_t count, size_t *last)
{
	for (size_t n = 0; n < count; n++) {
		for (int k = 0; k < NODE_INPUTS + NODE_OUTPUTS; k++) {
			int tensor = k < NODE_INPUTS ? nodes[n].in[k] : nodes[n].out[k - NODE_INPUTS];
			const struct tensor *t =
				tensor < 0 ? NULL : &graph->tensors[graph_root(graph, tensor)];

			if (t && (t->kind == TENSOR_PARAMETER || t->kind == TENSOR_PARAMETER_GRADIENT))
				last[t->parameter] = n + 1;
		}
	}
}

/* By parameter, the root tensors of value and gradient in this graph; -1: none. */
static void find_tensors(const struct graph *graph, int *value, int *gradient)
{
	for (size_t i = 0; i < graph->program->store->count; i++)
		value[i] = gradient[i] = -1;
	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];

		if (tensor->alias < 0 && tensor->kind == TENSOR_PARAMETER)
			value[tensor->parameter] = (int)i;
		if (tensor->alias < 0 && tensor->kind == TENSOR_PARAMETER_GRADIENT)
			gradient[tensor->parameter] = (int)i;
	}
}

static int append_update(struct graph *graph, int gradient, int value)
{
	struct node node = {.operation = OP_UPDATE, .name = graph->tensors[value].name};

	for (int k = 0; k < NODE_INPUTS; k++)
		node.in[k] = -1;
	for (int k = 0; k < NODE_OUTPUTS; k++)
		node.out[k] = -1;
	node.in[0] = gradient;
	node.in[1] = value;
	return append(graph, &node);
}

/* Puts the updates behind their parameters' last touches, but not before the loss is known. */
static int insert_updates(struct graph *graph)
{
	size_t parameters = graph->program->store->count, count = graph->node_count;
	struct node *nodes = graph->nodes;
	size_t *last = memory_new(parameters, sizeof(*last));
	int *value = memory_new(parameters, sizeof(*value)),
	    *gradient = memory_new(parameters, sizeof(*gradient));
	int status = last && value && gradient ? STATUS_OK : error_status();

	graph->nodes = NULL;
	graph->node_count = graph->node_capacity = 0;
	if (!status) {
		find_last_touches(graph, nodes, count, last);
		find_tensors(graph, value, gradient);
	}
	for (size_t n = 0; n < count && !status; n++) {
		status = append(graph, &nodes[n]);
		for (size_t i = 0; i < parameters && !status; i++) {
			size_t place = last[i] < graph->forward_count ? graph->forward_count : last[i];

			if (gradient[i] >= 0 && !store_parameter(graph->program->store, i)->frozen &&
				place == n + 1)
				status = append_update(graph, gradient[i], value[i]);
		}
	}
	free(nodes);
	free(last);
	free(value);
	free(gradient);
	return status;
}

/* ---- the whole ---- */

static int arrangement_init(struct arrangement *a, struct graph *graph, const bool *dropped)
{
	size_t count = graph->tensor_count;

	a->graph = graph;
	a->dropped = dropped;
	a->copy = memory_new(count, sizeof(*a->copy));
	a->producer = memory_new(count, sizeof(*a->producer));
	if (!a->copy || !a->producer)
		return error_status();
	for (size_t i = 0; i < count; i++)
		a->copy[i] = a->producer[i] = -1;
	for (size_t n = 0; n < graph->forward_count; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (graph->nodes[n].out[k] >= 0)
				a->producer[graph_root(graph, graph->nodes[n].out[k])] = (int)n;
		}
	}
	return STATUS_OK;
}

int graph_arrange(struct graph *graph, const bool *dropped)
{
	bool updates = graph->program->early && graph->loss >= 0;
	struct arrangement arrangement = {0};
	int status;

	graph_restore(graph);
	if (!dropped && !updates)
		return STATUS_OK;
	status = arrangement_init(&arrangement, graph, dropped);
	if (!status) {
		graph->built = graph->nodes;
		graph->built_count = graph->node_count;
		graph->built_tensors = graph->tensor_count;
		graph->nodes = NULL;
		graph->node_count = graph->node_capacity = 0;
		status = append_all(&arrangement);
	}
	if (!status && updates)
		status = insert_updates(graph);
	graph->planned = false;
	free(arrangement.copy);
	free(arrangement.producer);
	return status;
}
