/*
 * The memory plan: when each tensor lives, and where in the arena.
 *
 * Tensors that share memory (reshapes, operations in place, copies that nothing tells from their source) form
 * a group. Groups are placed by falling size at the lowest offset that is free while they live: greedy by
 * size (Pisarchyk & Lee 2020) reaches the lower bound on networks of the kinds built here.
 */
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

struct group {
	size_t bytes;
	int first, last; /* nodes; first -1: nothing lives here */
	size_t offset;
	bool output;
};

struct plan {
	struct graph *graph;
	int *parent;          /* by tensor: union-find over memory */
	struct group *groups; /* by tensor, valid at union roots in the arena */
	int *order;           /* union roots, by falling size */
	int *placed;          /* union roots that have their place, by offset */
	size_t count, placed_count;
};

/* ---- lifetimes ---- */

static int group_of(const struct plan *plan, int tensor)
{
	int i = graph_root(plan->graph, tensor);

	while (plan->parent[i] != i)
		i = plan->parent[i];
	return i;
}

static void touch(struct plan *plan, int tensor, int node)
{
	struct group *group;
	int g;

	if (tensor < 0)
		return;
	g = group_of(plan, tensor);
	if (!graph_in_arena(plan->graph, g))
		return;
	group = &plan->groups[g];
	if (group->first < 0)
		group->first = node;
	group->last = node;
}

static void find_lifetimes(struct plan *plan)
{
	struct graph *graph = plan->graph;

	for (size_t i = 0; i < graph->tensor_count; i++) {
		plan->parent[i] = (int)i;
		plan->groups[i] =
			(struct group){.bytes = align_up(graph->tensors[i].bytes), .first = -1, .last = -1};
	}
	for (size_t n = 0; n < graph->node_count; n++) {
		for (int k = 0; k < NODE_INPUTS; k++)
			touch(plan, graph->nodes[n].in[k], (int)n);
		for (int k = 0; k < NODE_OUTPUTS; k++)
			touch(plan, graph->nodes[n].out[k], (int)n);
	}
	for (size_t i = 0; i < graph->tensor_count; i++) {
		struct group *group = &plan->groups[graph_root(graph, (int)i)];

		if (graph->tensors[i].output) {
			group->last = (int)graph->node_count;
			group->output = true;
		}
	}
}

/* ---- sharing ---- */

static void merge(struct plan *plan, int into, int from)
{
	struct group *a = &plan->groups[into], *b = &plan->groups[from];

	plan->parent[from] = into;
	a->first = a->first < b->first ? a->first : b->first;
	a->last = a->last > b->last ? a->last : b->last;
	a->output = a->output || b->output;
}

static bool mentions(const struct plan *plan, const int *tensors, int count, int group)
{
	for (int k = 0; k < count; k++) {
		if (tensors[k] >= 0 && group_of(plan, tensors[k]) == group)
			return true;
	}
	return false;
}

/* Whether node n's first output starts a life of the size of group g, both in the arena. */
static bool starts_like(const struct plan *plan, size_t n, int g)
{
	const struct node *node = &plan->graph->nodes[n];
	int y = group_of(plan, node->out[0]);

	return y != g && graph_in_arena(plan->graph, y) && graph_in_arena(plan->graph, g) &&
	       !(node->accumulate & 1) && plan->groups[y].first == (int)n &&
	       plan->groups[y].bytes == plan->groups[g].bytes;
}

/*
 * A copy needs no memory of its own when its source is last read before the copy is first written again. (The
 * source is a finished gradient; nothing writes it after the copy.)
 */
static void share_copy(struct plan *plan, size_t n)
{
	const struct graph *graph = plan->graph;
	int x = group_of(plan, graph->nodes[n].in[0]), y = group_of(plan, graph->nodes[n].out[0]);
	bool written = false;

	if (!starts_like(plan, n, x))
		return;
	for (size_t i = n + 1; i < graph->node_count; i++) {
		const struct node *node = &graph->nodes[i];

		written = written || mentions(plan, node->out, NODE_OUTPUTS, y);
		if (mentions(plan, node->out, NODE_OUTPUTS, x) ||
			(written && mentions(plan, node->in, NODE_INPUTS, x)))
			return;
	}
	if (written && plan->groups[x].output)
		return;
	merge(plan, x, y);
}

static void share_in_place(struct plan *plan, size_t n)
{
	const struct node *node = &plan->graph->nodes[n];
	unsigned allowed = operation_in_place(node->operation);

	for (int k = 0; k < NODE_INPUTS; k++) {
		int x;

		if (!(allowed >> k & 1) || node->in[k] < 0)
			continue;
		x = group_of(plan, node->in[k]);
		if (starts_like(plan, n, x) && plan->groups[x].last == (int)n) {
			merge(plan, x, group_of(plan, node->out[0]));
			return;
		}
	}
}

static void share(struct plan *plan)
{
	for (size_t n = 0; n < plan->graph->node_count; n++) {
		if (plan->graph->nodes[n].operation == OP_COPY)
			share_copy(plan, n);
		share_in_place(plan, n);
	}
}

/* ---- places ---- */

static int compare_groups(const void *a, const void *b, void *context)
{
	const struct plan *plan = context;
	const struct group *s = &plan->groups[*(const int *)a], *t = &plan->groups[*(const int *)b];

	if (s->bytes != t->bytes)
		return s->bytes < t->bytes ? 1 : -1;
	if (s->first != t->first)
		return s->first < t->first ? -1 : 1;
	return *(const int *)a < *(const int *)b ? -1 : 1;
}

static void collect_groups(struct plan *plan)
{
	for (size_t i = 0; i < plan->graph->tensor_count; i++) {
		if (group_of(plan, (int)i) == (int)i && graph_in_arena(plan->graph, (int)i) &&
			plan->groups[i].first >= 0)
			plan->order[plan->count++] = (int)i;
	}
	qsort_r(plan->order, plan->count, sizeof(*plan->order), compare_groups, plan);
}

static bool together(const struct group *a, const struct group *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* The lowest gap among the placed groups that live at the same time. */
static void place(struct plan *plan, int g)
{
	struct group *group = &plan->groups[g];
	size_t at = 0, position;

	for (size_t i = 0; i < plan->placed_count; i++) {
		const struct group *other = &plan->groups[plan->placed[i]];

		if (!together(group, other))
			continue;
		if (other->offset >= at + group->bytes)
			break;
		if (other->offset + other->bytes > at)
			at = other->offset + other->bytes;
	}
	group->offset = at;
	for (position = plan->placed_count; position > 0; position--) {
		if (plan->groups[plan->placed[position - 1]].offset <= at)
			break;
		plan->placed[position] = plan->placed[position - 1];
	}
	plan->placed[position] = g;
	plan->placed_count++;
	if (at + group->bytes > plan->graph->arena_bytes)
		plan->graph->arena_bytes = at + group->bytes;
}

/* The most bytes that live at one node: no plan can do with less. */
static void find_lower_bound(struct plan *plan)
{
	plan->graph->lower_bound_bytes = 0;
	for (int n = 0; n < (int)plan->graph->node_count; n++) {
		size_t live = 0;

		for (size_t i = 0; i < plan->count; i++) {
			const struct group *group = &plan->groups[plan->order[i]];

			if (group->first <= n && n <= group->last)
				live += group->bytes;
		}
		if (live > plan->graph->lower_bound_bytes)
			plan->graph->lower_bound_bytes = live;
	}
}

static void write_places(struct plan *plan)
{
	struct graph *graph = plan->graph;

	graph->input_bytes = 0;
	for (size_t i = 0; i < graph->tensor_count; i++) {
		struct tensor *tensor = &graph->tensors[i];
		const struct group *group = &plan->groups[group_of(plan, (int)i)];

		tensor->first = group->first;
		tensor->last = group->last;
		if (tensor->kind == TENSOR_INPUT && tensor->alias < 0) {
			tensor->offset = graph->input_bytes;
			graph->input_bytes += align_up(tensor->bytes);
		} else {
			tensor->offset = group->offset;
		}
	}
}

/* ---- the whole ---- */

static int find_workspace(struct graph *graph)
{
	struct device *device = graph->program->device;

	graph->workspace_bytes = 0;
	for (size_t n = 0; n < graph->node_count; n++) {
		struct call call;

		if (graph->nodes[n].operation == OP_UPDATE)
			continue;
		graph_call(graph, n, &call, false);
		if (!device->backend->supports(device, &call))
			return error_set(STATUS_UNAVAILABLE,
				"graph %s: %s: the %s back end cannot do %s of these sizes", graph->name,
				graph->nodes[n].name, device->backend->name,
				operation_name(graph->nodes[n].operation));
		graph->nodes[n].workspace = device->backend->workspace(device, &call);
		if (graph->nodes[n].workspace > graph->workspace_bytes)
			graph->workspace_bytes = align_up(graph->nodes[n].workspace);
	}
	return STATUS_OK;
}

int graph_plan(struct graph *graph)
{
	struct plan plan = {.graph = graph};
	size_t count = graph->tensor_count;
	int status = STATUS_OK;

	if (graph->planned)
		return STATUS_OK;
	plan.parent = memory_new(count, sizeof(*plan.parent));
	plan.groups = memory_new(count, sizeof(*plan.groups));
	plan.order = memory_new(count, sizeof(*plan.order));
	plan.placed = memory_new(count, sizeof(*plan.placed));
	if (!plan.parent || !plan.groups || !plan.order || !plan.placed) {
		status = error_status();
		goto out;
	}
	graph->arena_bytes = 0;
	find_lifetimes(&plan);
	share(&plan);
	collect_groups(&plan);
	for (size_t i = 0; i < plan.count; i++)
		place(&plan, plan.order[i]);
	find_lower_bound(&plan);
	write_places(&plan);
	status = find_workspace(graph);
	graph_cost(graph);
	graph->planned = !status;
out:
	free(plan.parent);
	free(plan.groups);
	free(plan.order);
	free(plan.placed);
	return status;
}
