/* Gradients handed to the exchange between ranks while the last backward pass of a step still runs. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

void program_set_exchange(struct program *program, const struct program_exchange *exchange)
{
	program->exchange = *exchange;
}

float *program_gradients(struct program *program, size_t *count)
{
	*count = program->store->trained_bytes / sizeof(float);
	return (float *)program->store->block[SLOT_GRADIENT];
}

void program_begin(struct program *program, int64_t micro, int64_t micros)
{
	program->last_micro = micro == micros - 1;
	program->complete_from = program->store->count;
	if (program->complete)
		memset(program->complete, 0, program->store->count * sizeof(*program->complete));
}

/* The parameter whose gradient a tensor is; -1 for other tensors. */
static int parameter_of_gradient(const struct graph *graph, int tensor)
{
	const struct tensor *root;

	if (tensor < 0)
		return -1;
	root = &graph->tensors[graph_root(graph, tensor)];
	return root->kind == TENSOR_PARAMETER_GRADIENT ? root->parameter : -1;
}

int graph_find_last_writes(struct graph *graph)
{
	struct program *program = graph->program;
	size_t count = program->store->count;

	if (graph->loss < 0)
		return STATUS_OK;
	if (!program->complete)
		program->complete = memory_new(count, sizeof(*program->complete));
	if (!graph->last_write)
		graph->last_write = memory_new(count, sizeof(*graph->last_write));
	if (!program->complete || !graph->last_write)
		return error_status();
	program->complete_from = count;
	for (size_t n = 0; n < graph->call_count; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			int parameter = parameter_of_gradient(graph, graph->calls[n].node->out[k]);

			if (parameter >= 0)
				graph->last_write[parameter] = n + 1;
		}
	}
	return STATUS_OK;
}

/* The gradient of a parameter gets no more from this run. */
static int complete(struct program *program, size_t i)
{
	const struct entry *entry = &program->store->entries[i];

	if (program->complete[i])
		return STATUS_OK;
	program->complete[i] = true;
	if (entry->parameter.frozen)
		return STATUS_OK;
	/* Rank 0's statistics stand for all: those of the others add nothing. */
	if (entry->parameter.statistic && program->norm_extent == NORM_RANK && program->exchange.rank > 0)
		return program->device->backend->scale(program->device,
			store_data(program->store, i, SLOT_GRADIENT), 0, entry->parameter.count);
	return program_add_waiting(program, entry->trained_offset / sizeof(float), entry->parameter.count);
}

/* Tells the exchange how far the block is complete. */
static int tell(struct program *program)
{
	const struct store *store = program->store;
	size_t from = program->complete_from;

	while (from > 0 && program->complete[from - 1])
		from--;
	program->complete_from = from;
	return program->exchange.ready(program->exchange.state,
		(from < store->count ? store->entries[from].trained_offset : store->trained_bytes) /
			sizeof(float));
}

int graph_run_last(struct graph *graph)
{
	struct program *program = graph->program;
	int status = STATUS_OK;

	for (size_t i = 0; i < program->store->count && !status; i++) {
		if (graph->last_write[i] <= graph->forward_calls) /* nothing, or a batch's statistics */
			status = complete(program, i);
	}
	for (size_t n = graph->forward_calls; n < graph->call_count && !status; n++) {
		status = graph_run_calls(graph, n, n + 1);
		for (int k = 0; k < NODE_OUTPUTS && !status; k++) {
			int parameter = parameter_of_gradient(graph, graph->calls[n].node->out[k]);

			if (parameter >= 0 && graph->last_write[parameter] == n + 1)
				status = complete(program, (size_t)parameter);
		}
		if (!status)
			status = tell(program);
	}
	return status;
}

int program_finish_exchange(struct program *program)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < program->store->count && !status; i++)
		status = complete(program, i);
	if (!status)
		status = tell(program);
	return status ? status : program->exchange.finish(program->exchange.state);
}
