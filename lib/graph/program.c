/* Programs: memory for a set of graphs over one store, and running them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

struct program *program_new(struct device *device)
{
	struct program *program = memory_new(1, sizeof(*program));

	if (!program)
		return NULL;
	program->device = device;
	program->micros = 1;
	program->store = store_new(device);
	if (!program->store) {
		free(program);
		return NULL;
	}
	program->store->program = program;
	return program;
}

static void device_release(struct program *program, char **memory)
{
	if (*memory)
		program->device->backend->release(program->device, *memory);
	*memory = NULL;
}

void program_free(struct program *program)
{
	if (!program)
		return;
	for (size_t i = 0; i < program->graph_count; i++)
		graph_free(program->graphs[i]);
	for (int i = 0; i < program->accumulator_count; i++)
		device_release(program, &program->accumulator[i]);
	device_release(program, &program->arena);
	device_release(program, &program->workspace);
	store_free(program->store);
	free(program->graphs);
	free(program->complete);
	free(program->squares);
	free(program);
}

struct store *program_store(struct program *program)
{
	return program->store;
}

int program_update_rule(struct program *program, const struct optimizer_rule *rule)
{
	if (program->prepared)
		return error_set(STATUS_FAILURE, "the update rule comes before memory is allocated");
	program->rule = *rule;
	program->has_rule = true;
	return STATUS_OK;
}

void program_set_scalars(struct program *program, const struct step_scalars *scalars)
{
	program->scalars = *scalars;
}

void program_early_updates(struct program *program)
{
	program->early = true;
}

void program_memory(struct program *program, uint64_t bytes)
{
	program->memory = bytes;
	for (size_t i = 0; i < program->graph_count; i++) {
		if (!program->graphs[i]->prepared)
			program->graphs[i]->planned = false;
	}
}

void program_norm_extent(struct program *program, enum norm_extent extent, int ranks)
{
	program->norm_extent = extent;
	program->norm_ranks = extent == NORM_STEP ? ranks : 1;
}

bool program_norms_meet(const struct program *program)
{
	return program->norm_ranks > 1;
}

void program_micros(struct program *program, int64_t micros)
{
	program->micros = micros > 1 ? micros : 1;
}

/* ---- sizes ---- */

static bool trains(const struct program *program)
{
	for (size_t i = 0; i < program->graph_count; i++) {
		if (program->graphs[i]->loss >= 0)
			return true;
	}
	return false;
}

static int moments(const struct program *program)
{
	if (!program->has_rule || !trains(program))
		return 0;
	if (program->rule.kind == OPTIMIZER_SGD)
		return program->rule.momentum != 0;
	return 2;
}

static bool averages(const struct program *program)
{
	return program->has_rule && trains(program) && program->rule.average > 0;
}

int program_state_slots(const struct program *program)
{
	return moments(program) + averages(program);
}

/* Partial sums that wait while `micros` micro-batches are added in pairs from the left: log2, rounded down.
 */
static int accumulators(const struct program *program)
{
	int count = 0;

	if (!trains(program))
		return 0;
	for (int64_t n = program->micros; n > 1; n /= 2)
		count++;
	return count;
}

static int plan_graphs(struct program *program)
{
	for (size_t i = 0; i < program->graph_count; i++) {
		struct graph *graph = program->graphs[i];

		if (graph->status)
			return error_set(graph->status, "%s", graph->message ? graph->message : "no memory");
		graph->fitted = graph->fitted && graph->planned;
		if (!graph->planned && graph_arrange(graph, NULL))
			return error_status();
		if (graph_plan(graph))
			return error_status();
	}
	return STATUS_OK;
}

/* The sizes of everything by the present plans. */
static void add_up(struct program *program, struct program_bytes *bytes)
{
	struct store *store = program->store;

	*bytes = (struct program_bytes){.parameters = store->bytes};
	bytes->gradients = trains(program) && !program->early ? store->trained_bytes : 0;
	bytes->accumulators = (uint64_t)accumulators(program) * store->trained_bytes;
	bytes->state = (uint64_t)program_state_slots(program) * store->trained_bytes;
	bytes->state += trains(program) ? sparse_bytes(program) : 0;
	for (size_t i = 0; i < program->graph_count; i++) {
		const struct graph *graph = program->graphs[i];

		bytes->inputs += graph->input_bytes;
		if (graph->arena_bytes > bytes->arena)
			bytes->arena = graph->arena_bytes;
		if (graph->workspace_bytes > bytes->workspace)
			bytes->workspace = graph->workspace_bytes;
	}
	bytes->total = bytes->parameters + bytes->gradients + bytes->accumulators + bytes->state +
		       bytes->inputs + bytes->arena + bytes->workspace;
}

/* Training graphs compute again what does not fit into the budget beside all else. */
static int fit_graphs(struct program *program, struct program_bytes *bytes)
{
	uint64_t others = bytes->total - bytes->arena,
		 most = program->memory > others ? program->memory - others : 0;

	for (size_t i = 0; i < program->graph_count; i++) {
		struct graph *graph = program->graphs[i];

		if (graph->loss >= 0 && !graph->prepared && !graph->fitted && graph->arena_bytes > most &&
			graph_fit(graph, most))
			return error_status();
	}
	add_up(program, bytes);
	return STATUS_OK;
}

int program_measure(struct program *program, struct program_bytes *bytes)
{
	if (program->early && (!program->has_rule || program->rule.clip > 0 || program->micros > 1))
		return error_set(STATUS_FAILURE,
			"parameters cannot be updated early: clipping and micro-batches need all gradients");
	if (plan_graphs(program))
		return error_status();
	if (!program->store->sealed)
		store_arrange(program->store);
	add_up(program, bytes);
	return program->memory && bytes->total > program->memory ? fit_graphs(program, bytes) : STATUS_OK;
}

/* ---- preparation ---- */

static bool gives_gradient(const struct graph *graph, int parameter)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		if (graph->tensors[i].kind == TENSOR_PARAMETER_GRADIENT &&
			graph->tensors[i].parameter == parameter)
			return true;
	}
	return false;
}

/* Gradients are written, not cleared: a graph that left one out would leave another graph's value there. */
static int check_gradients(struct program *program)
{
	const struct graph *first = NULL;

	for (size_t i = 0; i < program->graph_count; i++) {
		const struct graph *graph = program->graphs[i];

		if (graph->loss < 0)
			continue;
		for (size_t p = 0; first && p < program->store->count; p++) {
			if (gives_gradient(first, (int)p) != gives_gradient(graph, (int)p))
				return error_set(STATUS_FAILURE,
					"graphs %s and %s do not both train parameter %s", first->name,
					graph->name, program->store->entries[p].parameter.name);
		}
		first = first ? first : graph;
	}
	return STATUS_OK;
}

/* A parameter without a gradient is not updated, not even by decay. */
static void find_reached(struct program *program)
{
	for (size_t p = 0; p < program->store->count; p++) {
		struct entry *entry = &program->store->entries[p];

		for (size_t i = 0; i < program->graph_count && !entry->reached; i++)
			entry->reached =
				program->graphs[i]->loss >= 0 && gives_gradient(program->graphs[i], (int)p);
	}
}

/* At least `bytes` bytes; what was there is lost when it grows. */
static int device_grow(struct program *program, char **memory, uint64_t had, uint64_t bytes)
{
	if (bytes == 0 || (*memory && had >= bytes))
		return STATUS_OK;
	device_release(program, memory);
	*memory = program->device->backend->allocate(program->device, bytes);
	return *memory ? STATUS_OK : error_status();
}

static int allocate(struct program *program, const struct program_bytes *bytes)
{
	int wanted = accumulators(program);

	if (store_allocate(program->store, bytes->gradients > 0, moments(program), averages(program)))
		return error_status();
	if (trains(program) && sparse_allocate(program))
		return error_status();
	while (program->accumulator_count < wanted && program->store->trained_bytes) {
		char **memory = &program->accumulator[program->accumulator_count];

		if (device_grow(program, memory, 0, program->store->trained_bytes))
			return error_status();
		program->accumulator_count++;
	}
	for (size_t i = 0; i < program->graph_count; i++) {
		if (device_grow(program, &program->graphs[i]->inputs, program->graphs[i]->input_bytes,
			    program->graphs[i]->input_bytes))
			return error_status();
	}
	if (device_grow(program, &program->arena, program->bytes.arena, bytes->arena))
		return error_status();
	return device_grow(program, &program->workspace, program->bytes.workspace, bytes->workspace);
}

/* Fixes the addresses of every call; a copy onto itself is left out. */
static int bind_graph(struct graph *graph)
{
	if (!graph->calls)
		graph->calls = memory_new(graph->node_count, sizeof(*graph->calls));
	if (!graph->calls)
		return error_status();
	graph->call_count = 0;
	graph->forward_calls = 0;
	for (size_t n = 0; n < graph->node_count; n++) {
		struct call *call = &graph->calls[graph->call_count];

		graph_call(graph, n, call, true);
		if (graph->nodes[n].operation == OP_COPY && call->in_data[0] == call->out_data[0])
			continue;
		graph->call_count++;
		if (n < graph->forward_count)
			graph->forward_calls = graph->call_count;
	}
	if (graph_find_last_writes(graph))
		return error_status();
	graph->prepared = true;
	return STATUS_OK;
}

int program_prepare(struct program *program)
{
	struct program_bytes bytes;

	if (program_measure(program, &bytes) || check_gradients(program) || allocate(program, &bytes))
		return error_status();
	program->bytes = bytes;
	program->prepared = true;
	find_reached(program);
	if (program->early && !program->squares)
		program->squares = memory_new(program->store->count, sizeof(*program->squares));
	if (program->early && !program->squares)
		return error_status();
	for (size_t i = 0; i < program->graph_count; i++) {
		if (bind_graph(program->graphs[i]))
			return error_status();
	}
	return STATUS_OK;
}

/* ---- running ---- */

static int check_ready(const struct graph *graph, int tensor)
{
	if (!graph->prepared)
		return error_set(STATUS_FAILURE, "graph %s is used before it was prepared", graph->name);
	if (tensor < 0 || (size_t)tensor >= graph->tensor_count)
		return error_set(STATUS_FAILURE, "graph %s has no such tensor", graph->name);
	return STATUS_OK;
}

int graph_write(struct graph *graph, int tensor, const void *data)
{
	struct device *device = graph->program->device;

	if (check_ready(graph, tensor))
		return error_status();
	if (graph->tensors[tensor].kind != TENSOR_INPUT)
		return error_set(STATUS_FAILURE, "graph %s: only inputs are written", graph->name);
	return device->backend->write(
		device, graph_address(graph, tensor), data, graph->tensors[tensor].bytes);
}

int graph_read(struct graph *graph, int tensor, void *data)
{
	struct device *device = graph->program->device;

	if (check_ready(graph, tensor))
		return error_status();
	if (graph_in_arena(graph, graph_root(graph, tensor)) &&
		graph->tensors[tensor].last < (int)graph->node_count)
		return error_set(STATUS_FAILURE,
			"graph %s: a tensor is read that was not marked as an output", graph->name);
	return device->backend->read(
		device, data, graph_address(graph, tensor), graph->tensors[tensor].bytes);
}

int tensor_finite(struct graph *graph, int tensor, bool *finite)
{
	struct device *device = graph->program->device;
	double sum;

	*finite = true;
	if (graph->tensors[tensor].type != TENSOR_F32)
		return STATUS_OK;
	if (device->backend->sum_squares(
		    device, graph_address(graph, tensor), graph->tensors[tensor].elements, &sum))
		return error_status();
	*finite = isfinite(sum);
	return STATUS_OK;
}

static int name_not_finite(struct graph *graph, const struct call *call, int tensor, bool *found)
{
	const struct tensor *t = &graph->tensors[tensor];
	bool finite;

	if (tensor_finite(graph, tensor, &finite))
		return error_status();
	*found = !finite;
	if (finite)
		return STATUS_OK;
	if (t->kind == TENSOR_PARAMETER)
		return error_set(STATUS_FENCED, "not finite: parameter %s",
			store_parameter(graph->program->store, (size_t)t->parameter)->name);
	if (t->kind == TENSOR_INPUT)
		return error_set(STATUS_FENCED, "not finite: input %s", t->name ? t->name : "");
	return error_set(STATUS_FENCED, "not finite: result of %s (%s)", call->node->name,
		operation_name(call->node->operation));
}

/* Runs the forward pass again, looking at every tensor on the way; returns STATUS_FENCED with the first one
 * named. */
static int find_not_finite(struct graph *graph)
{
	struct device *device = graph->program->device;
	bool found = false;
	int status = STATUS_OK;

	graph->program->exchange.gather = NULL; /* the other ranks do not come along */
	for (size_t n = 0; n < graph->forward_calls && !status; n++) {
		const struct call *call = &graph->calls[n];
		const struct node *node = call->node;

		for (int k = 0; k < NODE_INPUTS && !status; k++) {
			if (node->in[k] >= 0)
				status = name_not_finite(graph, call, node->in[k], &found);
		}
		if (!status)
			status = device->backend->run(device, call);
		for (int k = 0; k < NODE_OUTPUTS && !status; k++) {
			if (node->out[k] >= 0)
				status = name_not_finite(graph, call, node->out[k], &found);
		}
	}
	return status ? status : error_set(STATUS_FENCED, "not finite: the loss of graph %s", graph->name);
}

int graph_run_call(struct graph *graph, const struct call *call)
{
	struct device *device = graph->program->device;
	struct program_exchange *exchange = &graph->program->exchange;

	if (call->node->operation == OP_UPDATE)
		return program_update_early(graph->program, (size_t)call->in[0]->parameter, call->in_data[0]);
	exchange->failed = STATUS_OK;
	if (graph->program->sparse && sparse_ready(graph->program, call))
		return error_prefix("graph %s: %s", graph->name, call->node->name);
	if (device->backend->run(device, call))
		return error_prefix("graph %s: %s", graph->name, call->node->name);
	return exchange->failed;
}

void program_set_watch(struct program *program, program_watch *watch, void *state)
{
	program->watch = watch;
	program->watch_state = state;
}

int graph_run_calls(struct graph *graph, size_t first, size_t end)
{
	const struct program *program = graph->program;
	int status = STATUS_OK;

	for (size_t n = first; n < end && !status; n++)
		status = program->watch ? program->watch(program->watch_state, graph, &graph->calls[n])
					: graph_run_call(graph, &graph->calls[n]);
	return status;
}

int graph_run(struct graph *graph)
{
	float loss;

	if (!graph->prepared)
		return error_set(STATUS_FAILURE, "graph %s is run before it was prepared", graph->name);
	if (graph_run_calls(graph, 0, graph->forward_calls))
		return error_status();
	if (graph->loss < 0)
		return STATUS_OK;
	if (graph->program->early && (graph->program->scalars.step < 1 || graph->program->exchange.finish))
		return error_set(STATUS_FAILURE, "graph %s would update parameters early, %s", graph->name,
			graph->program->exchange.finish ? "and there are other ranks"
							: "and no step was set");
	graph->program->norm_known = false;
	if (graph_read(graph, graph->loss, &loss))
		return error_status();
	if (!isfinite(loss))
		return find_not_finite(graph);
	if (graph->program->last_micro && graph->program->exchange.finish)
		return graph_run_last(graph);
	graph->program->updated = graph->program->early;
	return graph_run_calls(graph, graph->forward_calls, graph->call_count);
}
