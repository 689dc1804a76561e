/* Graphs in the DOT language: a cluster a graph, a box an operation, an arrow a tensor that one operation makes and another reads. */
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

/* Within a quoted string. */
static void add_quoted(struct text *text, const char *value)
{
	for (const char *c = value ? value : ""; *c; c++) {
		if (*c == '"' || *c == '\\')
			text_append(text, "\\", 1);
		text_append(text, (unsigned char)*c < ' ' ? " " : c, 1);
	}
}

static void add_shape(const struct tensor *tensor, struct text *text)
{
	for (int i = 0; i < tensor->dims; i++)
		text_format(text, "%s%lld", i ? "x" : "", (long long)tensor->dim[i]);
}

static void draw_node(const struct graph *graph, size_t number, size_t n, struct text *text)
{
	const struct node *node = &graph->nodes[n];

	text_format(text, "\t\tg%zun%zu [label=\"%s\\n", number, n, operation_name(node->operation));
	add_quoted(text, node->name);
	for (int k = 0; k < NODE_OUTPUTS; k++) {
		const struct tensor *tensor = node->out[k] < 0 ? NULL : &graph->tensors[node->out[k]];

		if (!tensor)
			continue;
		text_add(text, "\\n");
		add_shape(tensor, text);
		text_format(text, ", %zu B", tensor->bytes);
		if (graph->planned && graph_in_arena(graph, graph_root(graph, node->out[k])))
			text_format(text, " at %zu", tensor->offset);
	}
	text_format(text, "\\n%.0f FLOP\"%s];\n", node->flops,
		n < graph->forward_count ? "" : ", style=filled, fillcolor=gray90");
}

/* Inputs are ellipses; parameters are not drawn: each operation bears the name of its own. */
static void draw_inputs(const struct graph *graph, size_t number, struct text *text)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];

		if (tensor->kind != TENSOR_INPUT || graph_root(graph, (int)i) != (int)i)
			continue;
		text_format(text, "\t\tg%zut%zu [shape=ellipse, label=\"", number, i);
		add_quoted(text, tensor->name);
		text_add(text, "\\n");
		add_shape(tensor, text);
		text_format(text, ", %zu B\"];\n", tensor->bytes);
	}
}

/* `writer` holds for each root the operation that wrote it last, plus one. */
static void draw_edges(const struct graph *graph, size_t number, size_t *writer, struct text *text)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		const struct node *node = &graph->nodes[n];

		for (int k = 0; k < NODE_INPUTS; k++) {
			int root = node->in[k] < 0 ? -1 : graph_root(graph, node->in[k]);

			if (root >= 0 && graph->tensors[root].kind == TENSOR_INPUT)
				text_format(text, "\t\tg%zut%d -> g%zun%zu;\n", number, root, number, n);
			else if (root >= 0 && writer[root])
				text_format(text, "\t\tg%zun%zu -> g%zun%zu;\n", number, writer[root] - 1,
					number, n);
		}
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			if (node->out[k] >= 0)
				writer[graph_root(graph, node->out[k])] = n + 1;
		}
	}
}

static int draw_graph(const struct graph *graph, size_t number, struct text *text)
{
	size_t *writer = memory_new(graph->tensor_count, sizeof(*writer));

	if (!writer)
		return STATUS_FAILURE;
	text_format(text, "\tsubgraph cluster_%zu {\n\t\tlabel=\"", number);
	add_quoted(text, graph->name);
	text_format(text, " (%s)\";\n", graph->training ? "training" : "inference");
	draw_inputs(graph, number, text);
	for (size_t n = 0; n < graph->node_count; n++)
		draw_node(graph, number, n, text);
	draw_edges(graph, number, writer, text);
	text_add(text, "\t}\n");
	free(writer);
	return text_check(text);
}

int program_draw(const struct program *program, FILE *out)
{
	struct text text = {0};
	int status = STATUS_OK;

	text_add(&text, "digraph program {\n\tnode [shape=box, fontname=\"sans\"];\n");
	for (size_t i = 0; i < program->graph_count && !status; i++)
		status = draw_graph(program->graphs[i], i, &text);
	text_add(&text, "}\n");
	if (!status && !(status = text_check(&text)))
		fputs(text.data, out);
	text_release(&text);
	return status;
}
