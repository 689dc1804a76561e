/* Random graphs with a backward pass, for tests of the plan and of differentiation. */
#ifndef NIGHTSHIFT_TESTS_RANDOM_GRAPH_H
#define NIGHTSHIFT_TESTS_RANDOM_GRAPH_H

#include "graph/graph.h"

/* A training graph in a program that has none yet: a function of the seed. Some tensors are outputs, of some the gradient
 * is wanted, some parameters are used more than once, some are frozen. */
struct graph *random_graph(struct program *program, uint64_t seed);
/* After program_prepare(): values for all inputs and parameters. */
int random_graph_fill(struct graph *graph, uint64_t seed);

#endif
