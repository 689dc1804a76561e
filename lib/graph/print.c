/* Graphs as text: one line a node. */
#include <stdio.h>
#include "base/text.h"
#include "graph/internal.h"

static void add_tensor(const struct graph *graph, int index, bool accumulated, struct text *line)
{
	const struct tensor *tensor = &graph->tensors[index];
	static const char kinds[] = {[TENSOR_INPUT] = 'i',
		[TENSOR_PARAMETER] = 'p',
		[TENSOR_ACTIVATION] = 'a',
		[TENSOR_GRADIENT] = 'g',
		[TENSOR_PARAMETER_GRADIENT] = 'd'};

	text_format(line, "%s%c%d:", accumulated ? "+" : "", kinds[tensor->kind], index);
	for (int i = 0; i < tensor->dims; i++)
		text_format(line, "%s%lld", i ? "x" : "", (long long)tensor->dim[i]);
	text_format(line, "=%zu", tensor->bytes);
	if (graph->planned && graph_in_arena(graph, graph_root(graph, index)))
		text_format(line, "@%zu", tensor->offset);
}

static void add_tensors(
	const struct graph *graph, const int *tensors, int count, unsigned accumulate, struct text *line)
{
	bool some = false;

	for (int k = 0; k < count; k++) {
		if (tensors[k] < 0)
			continue;
		if (some)
			text_add(line, " ");
		add_tensor(graph, tensors[k], accumulate >> k & 1, line);
		some = true;
	}
	if (!some)
		text_add(line, "-");
}

void graph_print(const struct graph *graph, FILE *out)
{
	struct text line = {0};

	fprintf(out, "#node\toperation\tname\tinputs\toutputs\tflops\ttraffic\tworkspace\n");
	for (size_t n = 0; n < graph->node_count; n++) {
		const struct node *node = &graph->nodes[n];

		text_clear(&line);
		text_format(&line, "%zu\t%s\t", n, operation_name(node->operation));
		text_field(&line, node->name);
		text_add(&line, "\t");
		add_tensors(graph, node->in, NODE_INPUTS, 0, &line);
		text_add(&line, "\t");
		add_tensors(graph, node->out, NODE_OUTPUTS, node->accumulate, &line);
		text_format(&line, "\t%.0f\t%.0f\t%zu\n", node->flops, node->traffic, node->workspace);
		if (line.data)
			fputs(line.data, out);
	}
	if (graph->planned)
		fprintf(out, "#arena %zu bytes, at most %zu of them in use at once\n", graph->arena_bytes,
			graph->lower_bound_bytes);
	text_release(&line);
}

void program_print(const struct program *program, FILE *out)
{
	for (size_t i = 0; i < program->graph_count; i++) {
		fprintf(out, "#graph\t%s\t%s\n", program->graphs[i]->name,
			program->graphs[i]->training ? "training" : "inference");
		graph_print(program->graphs[i], out);
	}
}
