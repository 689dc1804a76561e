/* The watch that finds the first tensor that is not finite. */
#include "base/error.h"
#include "graph/internal.h"

/* The shape, for the message. */
static void add_shape(const struct tensor *tensor, struct text *text)
{
	text_add(text, " [");
	for (int i = 0; i < tensor->dims; i++)
		text_format(text, "%s%lld", i ? "x" : "", (long long)tensor->dim[i]);
	text_add(text, "]");
}

static const char *kind_of(const struct tensor *tensor)
{
	switch (tensor->kind) {
	case TENSOR_PARAMETER:
		return "parameter ";
	case TENSOR_INPUT:
		return "input ";
	case TENSOR_GRADIENT:
		return "a gradient";
	case TENSOR_PARAMETER_GRADIENT:
		return "the gradient of ";
	default:
		return "a result";
	}
}

static int found(const struct graph *graph, const struct call *call, int tensor, const char *how)
{
	const struct tensor *t = &graph->tensors[tensor];
	const char *name = t->name ? t->name : "";
	struct text message = {0};

	if (t->kind == TENSOR_PARAMETER || t->kind == TENSOR_PARAMETER_GRADIENT)
		name = store_parameter(graph->program->store, (size_t)t->parameter)->name;
	text_format(&message, "not finite: %s%s", kind_of(t),
		t->kind == TENSOR_ACTIVATION || t->kind == TENSOR_GRADIENT ? "" : name);
	add_shape(t, &message);
	text_format(&message, ", %s %s (%s) of graph %s", how, call->node->name ? call->node->name : "",
		operation_name(call->node->operation), graph->name);
	error_set(STATUS_FENCED, "%s", message.data ? message.data : "not finite");
	text_release(&message);
	return STATUS_FENCED;
}

/* What the operation got so, where that can still be seen, is nearer to the cause than its result. */
static int blame(struct graph *graph, const struct call *call, int result)
{
	for (int k = 0; k < NODE_INPUTS; k++) {
		int tensor = call->node->in[k];
		bool finite = true;

		if (tensor < 0 || (graph->tensors[tensor].kind != TENSOR_PARAMETER &&
					  graph->tensors[tensor].kind != TENSOR_INPUT))
			continue;
		if (tensor_finite(graph, tensor, &finite))
			return error_status();
		if (!finite)
			return found(graph, call, tensor, "read by");
	}
	return found(graph, call, result, "made by");
}

int watch_finite(void *state, struct graph *graph, const struct call *call)
{
	int status = graph_run_call(graph, call);

	(void)state;
	if (!graph->training)
		return status;
	for (int k = 0; k < NODE_OUTPUTS && !status; k++) {
		bool finite = true;

		if (call->node->out[k] >= 0)
			status = tensor_finite(graph, call->node->out[k], &finite);
		if (!status && !finite)
			status = blame(graph, call, call->node->out[k]);
	}
	return status;
}
