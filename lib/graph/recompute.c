/*
 * What to compute again so that a training graph fits into its arena: the cheapest for their size first.
 *
 * First single results of cheap operations whose inputs are kept anyway (norms, activations, sums, moves). Where that is not
 * enough, whole blocks: stretches of the forward pass between places where little is in use; of a block only what leaves it is
 * kept (Chen et al. 2016). Candidates are taken in order of their cost a byte; how many are needed is found by bisection, each
 * time by the true plan.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

/* A machine on which costs are compared; only their ratio matters. */
#define FLOPS_A_SECOND 5e10
#define BYTES_A_SECOND 1e10

/* Something that can be dropped together: one result (first == end: its root is `root`), or the inner results of the forward
 * nodes [first, end). */
struct candidate {
	size_t first, end;
	int root;
	double bytes, cost;
};

struct choice {
	struct graph *graph;
	bool *kept;    /* by root: a forward result that the backward pass reads */
	int *last_use; /* by root: the last forward node that reads it, -1: none */
	int *producer; /* by root: the forward node that writes it, -1: none */
	bool *dropped; /* by root: scratch for graph_arrange() */
	struct candidate *candidates;
	size_t count, capacity, singles; /* singles come first */
	size_t most;
};

/* ---- what is there ---- */

static bool cheap(enum operation operation)
{
	switch (operation) {
	case OP_GROUP_NORM:
	case OP_LAYER_NORM:
	case OP_BATCH_NORM:
	case OP_GEGLU:
	case OP_ACTIVATION:
	case OP_ADD:
	case OP_ADD_CHANNELS:
	case OP_CONCAT:
	case OP_UPSAMPLE:
	case OP_SUBSAMPLE:
	case OP_SLICE:
	case OP_DROPOUT:
	case OP_SCALE:
	case OP_REPEAT:
	case OP_NORMALISE:
	case OP_FOURIER:
	case OP_SPHERICAL_HARMONICS:
	case OP_WEIGHT_NORM:
		return true;
	default:
		return false;
	}
}

static double seconds(const struct node *node)
{
	return node->flops / FLOPS_A_SECOND + node->traffic / BYTES_A_SECOND;
}

/* Ranks that meet in an operation must do so equally often, whatever memory each of them has. */
static bool meets_ranks(const struct choice *c, const struct node *node)
{
	return node->operation == OP_BATCH_NORM && !node->norm.frozen && c->graph->program->norm_ranks > 1;
}

/* Whether a root is a result of the forward pass that may go. */
static bool may_go(const struct choice *c, int root)
{
	return root >= 0 && c->producer[root] >= 0 && graph_in_arena(c->graph, root) &&
	       c->graph->tensors[root].kind == TENSOR_ACTIVATION &&
	       !meets_ranks(c, &c->graph->nodes[c->producer[root]]);
}

static void mark_forward(struct choice *c, size_t n)
{
	const struct node *node = &c->graph->nodes[n];

	for (int k = 0; k < NODE_OUTPUTS; k++) {
		if (node->out[k] >= 0)
			c->producer[graph_root(c->graph, node->out[k])] = (int)n;
	}
	for (int k = 0; k < NODE_INPUTS; k++) {
		if (node->in[k] >= 0)
			c->last_use[graph_root(c->graph, node->in[k])] = (int)n;
	}
}

/* Outputs of the graph stay, by an output flag on any of their shapes. */
static void keep_outputs(struct choice *c)
{
	for (size_t i = 0; i < c->graph->tensor_count; i++) {
		if (c->graph->tensors[i].output)
			c->producer[graph_root(c->graph, (int)i)] = -1;
	}
}

static void look_around(struct choice *c)
{
	struct graph *graph = c->graph;

	for (size_t i = 0; i < graph->tensor_count; i++)
		c->producer[i] = c->last_use[i] = -1;
	for (size_t n = 0; n < graph->forward_count; n++)
		mark_forward(c, n);
	keep_outputs(c);
	for (size_t n = graph->forward_count; n < graph->node_count; n++) {
		for (int k = 0; k < NODE_INPUTS; k++) {
			int root = graph->nodes[n].in[k] < 0 ? -1 : graph_root(graph, graph->nodes[n].in[k]);

			if (may_go(c, root))
				c->kept[root] = true;
		}
	}
}

/* ---- candidates ---- */

static int add_candidate(struct choice *c, struct candidate candidate)
{
	if (candidate.bytes <= 0)
		return STATUS_OK;
	if (memory_grow(&c->candidates, &c->capacity, c->count + 1, sizeof(*c->candidates)))
		return error_status();
	c->candidates[c->count++] = candidate;
	return STATUS_OK;
}

/* Bytes of the inputs of a node that would have to be kept for it alone; negative: it cannot be done. */
static double extra_inputs(const struct choice *c, const struct node *node)
{
	double bytes = 0;

	for (int k = 0; k < NODE_INPUTS; k++) {
		int root = node->in[k] < 0 ? -1 : graph_root(c->graph, node->in[k]);

		if (root >= 0 && graph_in_arena(c->graph, root) && !c->kept[root])
			bytes += (double)c->graph->tensors[root].bytes;
	}
	return bytes;
}

/* A result whose inputs take more than it does stays; else they are kept in its place from here on. */
static int consider_single(struct choice *c, int root)
{
	const struct node *node = &c->graph->nodes[c->producer[root]];
	double bytes = (double)c->graph->tensors[root].bytes - extra_inputs(c, node);

	if (!cheap(node->operation) || bytes <= 0)
		return STATUS_OK;
	for (int k = 0; k < NODE_INPUTS; k++) {
		int in = node->in[k] < 0 ? -1 : graph_root(c->graph, node->in[k]);

		if (may_go(c, in))
			c->kept[in] = true;
	}
	return add_candidate(c, (struct candidate){.root = root, .bytes = bytes, .cost = seconds(node)});
}

static int find_singles(struct choice *c)
{
	int status = STATUS_OK;

	for (size_t n = 0; n < c->graph->forward_count && !status; n++) {
		const struct node *node = &c->graph->nodes[n];
		int root = node->out[0] < 0 ? -1 : graph_root(c->graph, node->out[0]);

		if (may_go(c, root) && c->kept[root] && c->producer[root] == (int)n)
			status = consider_single(c, root);
	}
	c->singles = c->count;
	return status;
}

/* Whether all that reads a result in the forward pass lies in front of node `end`. */
static bool inner(const struct choice *c, int root, size_t end)
{
	return may_go(c, root) && c->last_use[root] < (int)end;
}

static int add_block(struct choice *c, size_t first, size_t end)
{
	struct candidate block = {.first = first, .end = end, .root = -1};

	for (size_t n = first; n < end; n++) {
		const struct node *node = &c->graph->nodes[n];
		bool again = false;

		for (int k = 0; k < NODE_OUTPUTS; k++) {
			int root = node->out[k] < 0 ? -1 : graph_root(c->graph, node->out[k]);

			if (!inner(c, root, end))
				continue;
			again = true;
			block.bytes += c->kept[root] ? (double)c->graph->tensors[root].bytes : 0;
		}
		block.cost += again ? seconds(node) : 0;
	}
	return add_candidate(c, block);
}

/* Bytes in use between forward node n - 1 and n, by n. */
static double *bytes_between(const struct choice *c)
{
	size_t count = c->graph->forward_count;
	double *between = memory_new(count + 2, sizeof(*between)), sum = 0;

	for (size_t i = 0; between && i < c->graph->tensor_count; i++) {
		if (c->producer[i] < 0 || c->last_use[i] <= c->producer[i])
			continue;
		between[c->producer[i] + 1] += (double)c->graph->tensors[i].bytes;
		between[c->last_use[i] + 1] -= (double)c->graph->tensors[i].bytes;
	}
	for (size_t n = 0; between && n <= count; n++)
		between[n] = sum += between[n];
	return between;
}

static double kept_bytes(const struct choice *c, size_t n)
{
	double bytes = 0;

	for (int k = 0; k < NODE_OUTPUTS; k++) {
		int root =
			c->graph->nodes[n].out[k] < 0 ? -1 : graph_root(c->graph, c->graph->nodes[n].out[k]);

		bytes += root >= 0 && c->kept[root] ? (double)c->graph->tensors[root].bytes : 0;
	}
	return bytes;
}

/* About `blocks` blocks of like bytes, cut where no less is in use nearby. */
static int find_blocks(struct choice *c, size_t blocks)
{
	size_t count = c->graph->forward_count, first = 0;
	double *between, all = 0, sum = 0;
	int status;

	graph_restore(c->graph);
	between = bytes_between(c);
	status = between ? STATUS_OK : error_status();
	c->count = c->singles;
	for (size_t n = 0; n < count; n++)
		all += kept_bytes(c, n);
	for (size_t n = 0; n < count && !status; n++) {
		bool narrow =
			n + 1 == count || (between[n + 1] <= between[n] && between[n + 1] <= between[n + 2]);

		sum += kept_bytes(c, n);
		if (!narrow || (sum < all / (double)blocks && n + 1 < count))
			continue;
		status = add_block(c, first, n + 1);
		first = n + 1;
		sum = 0;
	}
	free(between);
	return status;
}

/* ---- trying ---- */

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *s = a, *t = b;
	double left = s->cost * t->bytes, right = t->cost * s->bytes;

	if (left != right)
		return left < right ? -1 : 1;
	return s->first != t->first ? (s->first < t->first ? -1 : 1)
				    : (s->root > t->root) - (s->root < t->root);
}

/* Singles before blocks, each in order of their cost a byte. */
static void sort_candidates(struct choice *c)
{
	if (c->count == 0)
		return;
	qsort(c->candidates, c->singles, sizeof(*c->candidates), compare_candidates);
	qsort(c->candidates + c->singles, c->count - c->singles, sizeof(*c->candidates), compare_candidates);
}

static void drop(struct choice *c, const struct candidate *candidate)
{
	if (candidate->root >= 0)
		c->dropped[candidate->root] = true;
	for (size_t n = candidate->first; n < candidate->end; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++) {
			int out = c->graph->nodes[n].out[k], root = out < 0 ? -1 : graph_root(c->graph, out);

			if (inner(c, root, candidate->end))
				c->dropped[root] = true;
		}
	}
}

/* Plans with the first `count` candidates dropped. */
static int try_first(struct choice *c, size_t count, size_t *bytes)
{
	graph_restore(c->graph);
	memset(c->dropped, 0, c->graph->tensor_count * sizeof(*c->dropped));
	for (size_t i = 0; i < count; i++)
		drop(c, &c->candidates[i]);
	if (graph_arrange(c->graph, c->dropped) || graph_plan(c->graph))
		return error_status();
	*bytes = c->graph->arena_bytes;
	return STATUS_OK;
}

struct trial {
	size_t count, blocks, bytes;
	double cost;
};

static double cost_of(const struct choice *c, size_t count)
{
	double cost = 0;

	for (size_t i = 0; i < count; i++)
		cost += c->candidates[i].cost;
	return cost;
}

/* Keeps what fits at least cost, else what is smallest. */
static void keep_better(const struct choice *c, struct trial *best, struct trial trial)
{
	bool fits = trial.bytes <= c->most, best_fits = best->bytes <= c->most;

	if (fits != best_fits ? fits : fits ? trial.cost < best->cost : trial.bytes < best->bytes)
		*best = trial;
}

/* The fewest of the candidates that fit, or as many as make it smallest. */
static int bisect(struct choice *c, size_t blocks, struct trial *best)
{
	size_t low = 0, high = c->count;
	int status = STATUS_OK;

	sort_candidates(c);
	while (low <= high && !status) {
		size_t middle = low == 0 && high == c->count ? high : (low + high) / 2;
		struct trial trial = {.count = middle, .blocks = blocks, .cost = cost_of(c, middle)};

		status = try_first(c, middle, &trial.bytes);
		if (status)
			break;
		keep_better(c, best, trial);
		if (trial.bytes <= c->most) {
			if (middle == 0)
				break;
			high = middle - 1;
		} else {
			if (middle == c->count)
				break;
			low = middle + 1;
		}
	}
	return status;
}

/* Cheap results alone; then blocks, from many small ones to few large ones. */
static int search(struct choice *c, struct trial *best)
{
	int status = bisect(c, 0, best);

	for (size_t blocks = 64; blocks >= 2 && best->bytes > c->most && !status; blocks /= 2) {
		status = find_blocks(c, blocks);
		if (!status)
			status = bisect(c, blocks, best);
	}
	return status;
}

static int choice_init(struct choice *c, struct graph *graph, size_t most)
{
	size_t count = graph->tensor_count;

	c->graph = graph;
	c->most = most;
	c->kept = memory_new(count, sizeof(*c->kept));
	c->last_use = memory_new(count, sizeof(*c->last_use));
	c->producer = memory_new(count, sizeof(*c->producer));
	c->dropped = memory_new(count, sizeof(*c->dropped));
	return c->kept && c->last_use && c->producer && c->dropped ? STATUS_OK : error_status();
}

static void choice_release(struct choice *c)
{
	free(c->kept);
	free(c->last_use);
	free(c->producer);
	free(c->dropped);
	free(c->candidates);
}

int graph_fit(struct graph *graph, size_t most)
{
	struct trial best = {.bytes = graph->arena_bytes};
	struct choice choice = {0};
	size_t bytes;
	int status;

	graph_restore(graph);
	graph_cost(graph);
	status = choice_init(&choice, graph, most);
	if (!status) {
		look_around(&choice);
		status = find_singles(&choice);
	}
	if (!status)
		status = search(&choice, &best);
	if (!status && best.blocks)
		status = find_blocks(&choice, best.blocks);
	if (!status) {
		sort_candidates(&choice);
		status = try_first(&choice, best.count, &bytes);
	}
	choice_release(&choice);
	graph->fitted = !status;
	return status;
}
