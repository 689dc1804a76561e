/*
 * The operation table: what every back end must compute, in several shapes. A row builds one operation on inputs whose values
 * are functions of their names; tests/operations.c adds a loss, runs it and compares.
 */
#ifndef NIGHTSHIFT_TESTS_ROWS_H
#define NIGHTSHIFT_TESTS_ROWS_H

#include "graph/graph.h"

#define SIZES 12
#define SHAPES 10
#define RESULTS 64
#define INPUTS 12

/* One graph of a row on one device. */
struct bench {
	struct device *device;
	struct program *program;
	struct graph *graph;
	int input[INPUTS], inputs;
	int loss;
	int result[RESULTS], results; /* tensors that are compared */
	double *values; /* of the results, one after the other, then of the parameters' gradients */
	size_t count;
};

struct row {
	const char *name;
	int (*build)(struct bench *bench, const int *s); /* the operation on inputs of sizes s */
	double tolerance; /* largest error over the root mean square of the tensor */
	int shapes[SHAPES][SIZES];
};

/* One file of rows each. */
struct table {
	const struct row *rows;
	size_t count;
};
extern const struct table network_rows, vision_rows, field_rows, ray_rows;

/* The float input of that name; made when it is new. A variable has a gradient, an image four dimensions. */
int row_input(struct bench *bench, const char *name, int dims, const int64_t *dim);
int row_variable(struct bench *bench, const char *name, int dims, const int64_t *dim);
int row_image(struct bench *bench, const char *name, const int *s);
/* An input of integers 0 .. bound - 1, where its name says so (row_fill() has the bounds). */
int row_integers(struct bench *bench, const char *name, int dims, const int64_t *dim);
/* A name for a parameter that cannot be used twice in a graph: `first` or `second`. */
const char *row_name(struct bench *bench, const char *first, const char *second);

/* The values of an input or parameter: functions of the name alone, so that every device gets the same. */
void row_fill(const char *name, void *values, size_t count);

#endif
