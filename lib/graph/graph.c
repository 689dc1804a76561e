/* Graphs: tensors, nodes, names and the one error of a build. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

size_t tensor_type_size(enum tensor_type type)
{
	return type == TENSOR_BF16 ? 2 : 4;
}

struct store *graph_store(const struct graph *graph)
{
	return graph->program->store;
}

struct graph *graph_new(struct program *program, const char *name, bool training)
{
	struct graph *graph = memory_new(1, sizeof(*graph));

	if (!graph || memory_grow(&program->graphs, &program->graph_capacity, program->graph_count + 1,
			      sizeof(*program->graphs)))
		goto fail;
	graph->program = program;
	graph->training = training;
	graph->loss = -1;
	graph->name = memory_text(name);
	if (!graph->name)
		goto fail;
	program->graphs[program->graph_count++] = graph;
	return graph;
fail:
	free(graph);
	return NULL;
}

void graph_free(struct graph *graph)
{
	struct device *device = graph->program->device;

	graph_restore(graph); /* which owns the names */
	for (size_t i = 0; i < graph->tensor_count; i++)
		free(graph->tensors[i].name);
	for (size_t i = 0; i < graph->node_count; i++)
		free(graph->nodes[i].name);
	if (graph->inputs)
		device->backend->release(device, graph->inputs);
	text_release(&graph->prefix);
	free(graph->tensors);
	free(graph->nodes);
	free(graph->calls);
	free(graph->last_write);
	free(graph->message);
	free(graph->name);
	free(graph);
}

/* ---- errors ---- */

/* Keeps the present message as the graph's unless there is one already. */
static int keep_error(struct graph *graph, int status)
{
	if (graph->status)
		return -1;
	error_prefix("graph %s", graph->name);
	graph->status = status ? status : STATUS_FAILURE;
	graph->message = memory_text(error_message());
	return -1;
}

int graph_fail(struct graph *graph, const char *format, ...)
{
	char message[512];
	va_list list;

	va_start(list, format);
	vsnprintf(message, sizeof(message), format, list);
	va_end(list);
	if (graph->status)
		return -1;
	error_set(STATUS_CONFIG, "%s%s", graph->prefix.data ? graph->prefix.data : "", message);
	return keep_error(graph, STATUS_CONFIG);
}

bool graph_usable(struct graph *graph, const int *tensors, int count)
{
	if (!graph->prepared)
		graph_restore(graph);
	if (graph->status)
		return false;
	for (int i = 0; i < count; i++) {
		if (tensors[i] < 0 || (size_t)tensors[i] >= graph->tensor_count) {
			graph_fail(graph, "a builder was given a tensor that does not exist");
			return false;
		}
	}
	return true;
}

/* ---- names ---- */

void graph_push(struct graph *graph, const char *format, ...)
{
	char part[128];
	va_list list;

	if (graph->depth == GRAPH_DEPTH) {
		graph_fail(graph, "names nest deeper than %d", GRAPH_DEPTH);
		return;
	}
	va_start(list, format);
	vsnprintf(part, sizeof(part), format, list);
	va_end(list);
	graph->mark[graph->depth++] = graph->prefix.length;
	text_add(&graph->prefix, part);
}

void graph_pop(struct graph *graph)
{
	if (graph->depth == 0) {
		graph_fail(graph, "graph_pop() without graph_push()");
		return;
	}
	graph->prefix.length = graph->mark[--graph->depth];
	if (graph->prefix.data)
		graph->prefix.data[graph->prefix.length] = 0;
}

static char *full_name(struct graph *graph, const char *name, const char *suffix)
{
	struct text text = {0};

	text_append(&text, graph->prefix.data ? graph->prefix.data : "", graph->prefix.length);
	text_add(&text, name ? name : "");
	text_add(&text, suffix);
	return text_take(&text);
}

/* ---- tensors ---- */

static bool valid_sizes(const struct tensor *tensor)
{
	if (tensor->dims < 1 || tensor->dims > TENSOR_DIMS)
		return false;
	for (int i = 0; i < tensor->dims; i++) {
		if (tensor->dim[i] <= 0)
			return false;
	}
	return true;
}

static int count_elements(struct tensor *tensor)
{
	tensor->elements = 1;
	for (int i = 0; i < tensor->dims; i++) {
		if (size_multiply(tensor->elements, (size_t)tensor->dim[i], &tensor->elements))
			return STATUS_FAILURE;
	}
	return size_multiply(tensor->elements, tensor_type_size(tensor->type), &tensor->bytes);
}

static int add_tensor(struct graph *graph, struct tensor *tensor, char *name)
{
	tensor->name = name;
	tensor->alias = -1;
	tensor->gradient = -1;
	tensor->first = -1;
	tensor->last = -1;
	if (graph->prepared)
		return graph_fail(graph, "the graph was prepared and cannot grow");
	if (!valid_sizes(tensor) || count_elements(tensor))
		return graph_fail(graph, "%s has an impossible size", name ? name : "a tensor");
	if (memory_grow(&graph->tensors, &graph->tensor_capacity, graph->tensor_count + 1, sizeof(*tensor)))
		return keep_error(graph, error_status());
	graph->planned = false;
	graph->tensors[graph->tensor_count] = *tensor;
	return (int)graph->tensor_count++;
}

int graph_add_tensor(
	struct graph *graph, enum tensor_kind kind, int dims, const int64_t *dim, const char *name)
{
	struct tensor tensor = {.type = TENSOR_F32, .kind = kind, .dims = dims, .parameter = -1};
	char *copy = NULL;
	int added;

	if (dims < 1 || dims > TENSOR_DIMS)
		return graph_fail(graph, "%s has %d dimensions, not 1 to %d", name ? name : "a tensor", dims,
			TENSOR_DIMS);
	for (int i = 0; i < dims; i++)
		tensor.dim[i] = dim[i];
	if (name && !(copy = memory_text(name)))
		return keep_error(graph, error_status());
	added = add_tensor(graph, &tensor, copy);
	if (added < 0)
		free(copy);
	return added;
}

int graph_add_like(struct graph *graph, enum tensor_kind kind, int like)
{
	struct tensor shape = graph->tensors[like];

	return graph_add_tensor(graph, kind, shape.dims, shape.dim, NULL);
}

int graph_add_alias(struct graph *graph, int of, int like)
{
	struct tensor shape = graph->tensors[like];
	const struct tensor *memory = &graph->tensors[of];
	int added;

	if (memory->dims == shape.dims &&
		!memcmp(memory->dim, shape.dim, (size_t)shape.dims * sizeof(*shape.dim)))
		return of;
	added = graph_add_tensor(graph, memory->kind, shape.dims, shape.dim, NULL);
	if (added >= 0) {
		graph->tensors[added].alias = of;
		graph->tensors[added].type = graph->tensors[of].type;
		graph->tensors[added].parameter = graph->tensors[of].parameter;
	}
	return added;
}

/* From the file's [out, in, taps...] to [taps..., in, out]. */
static void memory_order(enum store_layout layout, int dims, const int64_t *file, int64_t *memory)
{
	for (int i = 0; i < dims; i++)
		memory[i] = file[i];
	if (layout == LAYOUT_PLAIN)
		return;
	for (int i = 2; i < dims; i++)
		memory[i - 2] = file[i];
	memory[dims - 2] = file[1];
	memory[dims - 1] = file[0];
}

int graph_add_parameter(struct graph *graph, const char *name, const char *suffix, int dims,
	const int64_t *dim, enum store_layout layout, enum store_initial initial, double scale)
{
	struct tensor tensor = {.type = TENSOR_F32, .kind = TENSOR_PARAMETER, .dims = dims};
	char *full = full_name(graph, name, suffix);
	int added = -1;

	if (!full)
		return keep_error(graph, error_status());
	tensor.parameter = store_add(graph->program->store, full, dims, dim, layout, initial, scale);
	if (tensor.parameter < 0) {
		keep_error(graph, error_status());
		goto out;
	}
	for (size_t i = 0; i < graph->tensor_count; i++) {
		if (graph->tensors[i].kind == TENSOR_PARAMETER &&
			graph->tensors[i].parameter == tensor.parameter) {
			added = (int)i;
			goto out;
		}
	}
	memory_order(layout, dims, dim, tensor.dim);
	added = add_tensor(graph, &tensor, full);
	if (added >= 0)
		full = NULL;
out:
	free(full);
	return added;
}

int graph_add_statistic(struct graph *graph, const char *name, const char *suffix, int64_t channels,
	enum store_initial initial, double momentum)
{
	int added = graph_add_parameter(graph, name, suffix, 1, &channels, LAYOUT_PLAIN, initial, 0);

	if (added >= 0)
		store_set_statistic(graph->program->store, graph->tensors[added].parameter, momentum);
	return added;
}

int graph_input(struct graph *graph, const char *name, enum tensor_type type, int dims, const int64_t *dim)
{
	int added;

	if (!graph_usable(graph, NULL, 0))
		return -1;
	added = graph_add_tensor(graph, TENSOR_INPUT, dims, dim, name);
	if (added >= 0) {
		graph->tensors[added].type = type;
		graph->tensors[added].bytes = graph->tensors[added].elements * tensor_type_size(type);
	}
	return added;
}

int graph_output(struct graph *graph, int tensor)
{
	if (!graph_usable(graph, &tensor, 1))
		return -1;
	graph->tensors[tensor].output = true;
	graph->planned = false;
	return tensor;
}

int graph_dims(const struct graph *graph, int tensor)
{
	return tensor < 0 ? 0 : graph->tensors[tensor].dims;
}

int64_t graph_dim(const struct graph *graph, int tensor, int i)
{
	if (tensor < 0 || i < 0 || i >= graph->tensors[tensor].dims)
		return 0;
	return graph->tensors[tensor].dim[i];
}

size_t graph_elements(const struct graph *graph, int tensor)
{
	return tensor < 0 ? 0 : graph->tensors[tensor].elements;
}

int graph_root(const struct graph *graph, int tensor)
{
	while (graph->tensors[tensor].alias >= 0)
		tensor = graph->tensors[tensor].alias;
	return tensor;
}

bool graph_in_arena(const struct graph *graph, int root)
{
	enum tensor_kind kind = graph->tensors[root].kind;

	return kind == TENSOR_ACTIVATION || kind == TENSOR_GRADIENT ||
	       (kind == TENSOR_PARAMETER_GRADIENT && graph->program->early);
}

/* ---- nodes ---- */

struct node *graph_add_node(struct graph *graph, enum operation operation, const char *name)
{
	struct node *node;

	if (!graph_usable(graph, NULL, 0))
		return NULL;
	if (memory_grow(&graph->nodes, &graph->node_capacity, graph->node_count + 1, sizeof(*graph->nodes))) {
		keep_error(graph, error_status());
		return NULL;
	}
	node = &graph->nodes[graph->node_count];
	*node = (struct node){.operation = operation};
	for (int i = 0; i < NODE_INPUTS; i++)
		node->in[i] = -1;
	for (int i = 0; i < NODE_OUTPUTS; i++)
		node->out[i] = -1;
	node->name = full_name(graph, name, "");
	if (!node->name) {
		keep_error(graph, error_status());
		return NULL;
	}
	graph->node_count++;
	if (graph->loss < 0)
		graph->forward_count = graph->node_count;
	graph->planned = false;
	return node;
}

void *graph_address(const struct graph *graph, int tensor)
{
	const struct tensor *root = &graph->tensors[graph_root(graph, tensor)];
	const struct program *program = graph->program;

	switch (root->kind) {
	case TENSOR_INPUT:
		return graph->inputs + root->offset;
	case TENSOR_PARAMETER:
		return store_data(program->store, (size_t)root->parameter, SLOT_VALUE);
	case TENSOR_PARAMETER_GRADIENT:
		return program->early ? (void *)(program->arena + root->offset)
				      : store_data(program->store, (size_t)root->parameter, SLOT_GRADIENT);
	default:
		return program->arena + root->offset;
	}
}

void graph_call(const struct graph *graph, size_t index, struct call *call, bool data)
{
	const struct node *node = &graph->nodes[index];

	*call = (struct call){.node = node};
	for (int i = 0; i < NODE_INPUTS; i++) {
		if (node->in[i] < 0)
			continue;
		call->in[i] = &graph->tensors[node->in[i]];
		call->in_data[i] = data ? graph_address(graph, node->in[i]) : NULL;
	}
	for (int i = 0; i < NODE_OUTPUTS; i++) {
		if (node->out[i] < 0)
			continue;
		call->out[i] = &graph->tensors[node->out[i]];
		call->out_data[i] = data ? graph_address(graph, node->out[i]) : NULL;
	}
	call->workspace = data ? graph->program->workspace : NULL;
	call->scalars = data ? &graph->program->scalars : NULL;
	call->ranks = graph->program->norm_ranks > 1 ? graph->program->norm_ranks : 1;
	call->exchange = &graph->program->exchange;
}
