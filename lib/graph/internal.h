/*
 * What the files of lib/graph share. Tests look too; nothing else includes it.
 *
 * A tensor index names a shape; its memory belongs to the end of its `alias` chain, the root. Roots of kind
 * activation and gradient live in the arena; inputs, parameters and their gradients have memory of their own.
 */
#ifndef NIGHTSHIFT_GRAPH_INTERNAL_H
#define NIGHTSHIFT_GRAPH_INTERNAL_H

#include "base/text.h"
#include "graph/look.h"

#define GRAPH_ALIGNMENT 64
#define GRAPH_DEPTH 16 /* of graph_push() */

struct graph {
	struct program *program;
	char *name;
	bool training;
	struct tensor *tensors;
	size_t tensor_count, tensor_capacity;
	struct node *nodes;
	size_t node_count, node_capacity;
	size_t forward_count; /* nodes before the backward pass; all of them when there is none */
	struct node *built;   /* before graph_arrange(); NULL: `nodes` are as they were built */
	size_t built_count, built_tensors;
	int loss;             /* -1: none */
	struct text prefix;
	size_t mark[GRAPH_DEPTH];
	int depth;
	int status; /* of the first error, with its message */
	char *message;

	/* the plan */
	bool planned, fitted; /* the latter: as small as the budget asks for, or as it gets */
	size_t arena_bytes, lower_bound_bytes, input_bytes, workspace_bytes;

	/* ready to run */
	bool prepared;
	char *inputs;
	struct call *calls; /* without copies onto themselves */
	size_t call_count, forward_calls;
	size_t *last_write; /* by parameter: the call after which its gradient is complete, plus one; 0: none */
};

struct entry {
	struct parameter parameter;
	size_t offset;         /* bytes, in the block of values */
	size_t trained_offset; /* bytes, in the blocks of gradients and moments; frozen ones have none */
	bool reached;          /* a training graph gives it a gradient */
	uint16_t *done;        /* by row, on the device, where it is updated by rows; else NULL (sparse.c) */
	int updates;           /* of the program's recent ones: how many it has had */
};

struct store {
	struct device *device;
	struct program *program;
	struct entry *entries;
	size_t count, capacity;
	size_t bytes, trained_bytes; /* of the blocks, after store_arrange() */
	char *block[STORE_SLOTS];    /* by enum store_slot; NULL until allocated */
	bool sealed;                 /* allocated: no more parameters */
};

#define PROGRAM_LEVELS 63
struct program {
	struct device *device;
	struct store *store;
	struct graph **graphs;
	size_t graph_count, graph_capacity;
	struct optimizer_rule rule;
	struct step_scalars scalars;
	bool has_rule, prepared, early; /* parameters are updated while the backward pass runs */
	double *squares;                /* by parameter, where they are: of its last gradient */
	bool updated;                   /* a run has, since the last program_update() */
	uint64_t memory;                /* budget; 0: none */
	int64_t micros;
	char *arena, *workspace;
	struct program_bytes bytes;               /* what is allocated */
	char *accumulator[PROGRAM_LEVELS];        /* partial sums of gradients, the newest on top */
	int accumulator_level[PROGRAM_LEVELS];    /* log2 of the micro-batches in each */
	int accumulator_count, accumulator_depth; /* allocated, in use */
	double norm;
	bool norm_known;
	program_watch *watch;                     /* runs each operation; NULL: the back end alone */
	void *watch_state;
	struct program_exchange exchange; /* finish is NULL: none */
	enum norm_extent norm_extent;
	int norm_ranks;                   /* that share the statistics of batch norms; 0 and 1: none do */
	bool sparse;                      /* parameters that are read by rows are updated by rows */
	double rates[ROW_UPDATES];        /* recent updates: their learning rates, */
	int64_t first_update;             /* the number of the first of them, */
	int recent_updates;               /* and how many there are */
	bool last_micro;                  /* the next run is a step's last micro-batch */
	bool *complete;                   /* by parameter, in the last micro-batch */
	size_t complete_from;             /* the parameters from this one on are complete */
};

size_t align_up(size_t bytes);

/* store.c */
struct store *store_new(struct device *device);
void store_free(struct store *store);
void store_arrange(struct store *store); /* offsets and sizes of the blocks */
int store_allocate(struct store *store, bool gradients, int moments, bool average);
float *store_data(const struct store *store, size_t i, enum store_slot slot);

/* graph.c */
void graph_free(struct graph *graph);
bool graph_usable(
	struct graph *graph, const int *tensors, int count); /* no error so far and none of them -1 */
int graph_root(const struct graph *graph, int tensor);
int graph_add_tensor(
	struct graph *graph, enum tensor_kind kind, int dims, const int64_t *dim, const char *name);
int graph_add_like(struct graph *graph, enum tensor_kind kind, int like);
/* A tensor of the shape of `like` in the memory of `of`; `of` itself when the shapes are equal. */
int graph_add_alias(struct graph *graph, int of, int like);
int graph_add_parameter(struct graph *graph, const char *name, const char *suffix, int dims,
	const int64_t *dim, enum store_layout layout, enum store_initial initial, double scale);
/* The running statistic NAME SUFFIX [channels] of a batch norm. */
int graph_add_statistic(struct graph *graph, const char *name, const char *suffix, int64_t channels,
	enum store_initial initial, double momentum);
/* A node with all tensors absent, named prefix + name (`name` may be NULL); NULL after an error. Valid until
 * the next. */
struct node *graph_add_node(struct graph *graph, enum operation operation, const char *name);
void *graph_address(const struct graph *graph, int tensor);
void graph_call(const struct graph *graph, size_t node, struct call *call, bool data);
/* Whether the memory of this tensor is planned into the arena. */
bool graph_in_arena(const struct graph *graph, int root);

/* exchange.c */
int graph_find_last_writes(struct graph *graph);
/* The backward pass of a last micro-batch, its gradients handed over as they get complete. */
int graph_run_last(struct graph *graph);
/* What was not handed over yet; then waits for the other ranks. */
int program_finish_exchange(struct program *program);

/* Updates parameter i by its gradient, which is kept nowhere else. */
int program_update_early(struct program *program, size_t i, float *gradient);
/* Adds the partial sums that wait to floats [first, first + count) of the block of gradients. */
int program_add_waiting(struct program *program, size_t first, size_t count);

/* sparse.c */
/* Bytes and memory of what is kept by row. */
uint64_t sparse_bytes(const struct program *program);
int sparse_allocate(struct program *program);
/* Before an operation of a run: the rows that it reads get the updates that they lack. */
int sparse_ready(struct program *program, const struct call *call);
/* The update of a parameter whose entry has `done`. */
int sparse_update(struct program *program, size_t i, const struct update_call *call);
/* All rows of a parameter get the updates that they lack. */
int sparse_settle(struct program *program, size_t i);

/* update.c */
/* What an update of parameter i gets beside its gradient; *rule is filled for it. */
struct update_call program_update_call(const struct program *program, size_t i, struct optimizer_rule *rule);

/* program.c */
int graph_run_calls(struct graph *graph, size_t first, size_t end);
/* Whether all of a float tensor is finite, as it stands on the device; true for other types. */
int tensor_finite(struct graph *graph, int tensor, bool *finite);

/* arrange.c */
/* The nodes that run: what is `dropped` (by root; NULL: nothing) after the forward pass is computed again in the backward pass;
 * updates of parameters where the program wants them there. */
int graph_arrange(struct graph *graph, const bool *dropped);
void graph_restore(struct graph *graph); /* the nodes as they were built */

/* recompute.c */
/* Plans the graph with as little computed again as brings its arena to `most` bytes; else as small as it gets. */
int graph_fit(struct graph *graph, size_t most);

/* plan.c, cost.c */
int graph_plan(struct graph *graph);
void graph_cost(struct graph *graph);

#endif
