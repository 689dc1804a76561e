/* Which tensors of a program take most of its memory. */
#include <stdlib.h>
#include "graph/internal.h"

static const char *kind_name(enum tensor_kind kind)
{
	switch (kind) {
	case TENSOR_PARAMETER:
		return "parameter";
	case TENSOR_INPUT:
		return "input";
	case TENSOR_ACTIVATION:
		return "activation";
	case TENSOR_GRADIENT:
	case TENSOR_PARAMETER_GRADIENT:
		break;
	}
	return "gradient";
}

/* The operation that writes a tensor first. */
static const char *writer(const struct graph *graph, int root)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			int out = graph->nodes[n].out[k];

			if (out >= 0 && graph_root(graph, out) == root)
				return graph->nodes[n].name;
		}
	}
	return "";
}

/* Keeps the list sorted; of equals the first stays in front. */
static size_t insert(struct program_tensor *list, size_t have, size_t count, struct program_tensor tensor)
{
	size_t place = have;

	while (place > 0 && list[place - 1].bytes < tensor.bytes)
		place--;
	if (place >= count)
		return have;
	have = have < count ? have + 1 : count;
	for (size_t i = have - 1; i > place; i--)
		list[i] = list[i - 1];
	list[place] = tensor;
	return have;
}

/* A parameter is in all graphs, its gradient beside the first one's. */
static bool counts(const struct graph *graph, size_t i, bool first)
{
	const struct tensor *tensor = &graph->tensors[i];

	if (tensor->alias >= 0)
		return false;
	if (tensor->kind == TENSOR_PARAMETER || tensor->kind == TENSOR_PARAMETER_GRADIENT)
		return first;
	return tensor->kind == TENSOR_INPUT || graph_in_arena(graph, (int)i);
}

size_t program_largest(const struct program *program, struct program_tensor *largest, size_t count)
{
	size_t have = 0;

	for (size_t g = 0; g < program->graph_count && count > 0; g++) {
		const struct graph *graph = program->graphs[g];

		for (size_t i = 0; i < graph->tensor_count; i++) {
			const struct tensor *tensor = &graph->tensors[i];

			if (!counts(graph, i, g == 0) ||
				(have == count && tensor->bytes <= largest[count - 1].bytes))
				continue;
			have = insert(largest, have, count,
				(struct program_tensor){.graph = graph->name,
					.name = tensor->name ? tensor->name : writer(graph, (int)i),
					.kind = kind_name(tensor->kind),
					.bytes = tensor->bytes});
		}
	}
	return have;
}
