/* What the builder functions share (build.c has the definitions). */
#ifndef NIGHTSHIFT_GRAPH_BUILD_H
#define NIGHTSHIFT_GRAPH_BUILD_H

#include "graph/internal.h"

/* Size of the last dimension. */
int64_t graph_channels(const struct graph *graph, int x);
/* Elements of a sample over its channels: product of the dimensions between the first and the last. */
int64_t graph_positions(const struct graph *graph, int x);
bool graph_same_shape(const struct graph *graph, int a, int b);
/* "8x12x16x4", for messages. */
const char *graph_shape_text(const struct graph *graph, int x, char buffer[128]);
int graph_fail_shapes(struct graph *graph, const char *what, int a, int b);
/* Whether these tensors can be used and hold floats; else the graph's error is set. */
bool graph_floats(struct graph *graph, const char *what, const int *tensors, int count);
bool graph_is_float(struct graph *graph, const char *what, int x);
/* A node with one new output of the given shape. */
int graph_add_operation(
	struct graph *graph, enum operation operation, const char *name, int dims, const int64_t *dim);
int graph_add_operation_like(struct graph *graph, enum operation operation, const char *name, int like);
/* The same with the inputs set. */
int graph_add_call(struct graph *graph, enum operation operation, const char *name, const int *in, int count,
	int dims, const int64_t *dim);
int graph_add_call_like(
	struct graph *graph, enum operation operation, const char *name, const int *in, int count, int like);
/* Output k of the last node; -1 after an error. */
int graph_add_result(struct graph *graph, int k, enum tensor_type type, int dims, const int64_t *dim);
struct node *graph_last_node(struct graph *graph);

#endif
