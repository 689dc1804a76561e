/*
 * The store: the parameters of a program, by name, with their gradients and optimizer state.
 *
 * Files hold parameters in the layout of the original project (`dim`, row-major: convolution weights [out,in,kh,kw]).
 * Memory holds them in the engine's layout; store_export() and store_import() convert, for every slot alike.
 */
#ifndef NIGHTSHIFT_GRAPH_STORE_H
#define NIGHTSHIFT_GRAPH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum store_initial {
	INITIAL_ZERO, INITIAL_ONE, INITIAL_UNIFORM /* +-scale */, INITIAL_NORMAL /* scale = std */,
	INITIAL_HASH_GRID /* tiny-cuda-nn's own numbers, its own seed plus ours */
};
enum store_layout { LAYOUT_PLAIN, LAYOUT_CONVOLUTION /* memory [taps...,in,out] */, LAYOUT_LINEAR /* memory [in,out] */ };
enum store_slot { SLOT_VALUE, SLOT_GRADIENT, SLOT_MOMENT1, SLOT_MOMENT2, SLOT_AVERAGE /* of the values */ };
#define STORE_SLOTS 5

struct parameter {
	char *name;
	int dims;
	int64_t dim[5]; /* in files */
	size_t count;   /* elements */
	enum store_layout layout;
	enum store_initial initial;
	double scale;
	bool frozen;
	bool statistic;  /* no optimizer: value <- (1 - momentum) value + momentum x what stands in its gradient's place */
	double momentum; /* of a statistic */
	int64_t updates; /* of a statistic: how many it has had */
	size_t row;      /* floats of a row, where the network reads it by rows; else 0 */
};

size_t store_count(const struct store *store);
const struct parameter *store_parameter(const struct store *store, size_t i); /* in order of registration */
int store_find(const struct store *store, const char *name);                 /* index or -1 */
/* Freezes the parameters whose name matches the shell pattern, before graph_backward(); returns how many. */
size_t store_freeze(struct store *store, const char *pattern);
/* Adds a parameter or finds the one of that name (other shape: -1 and a message). Used by the builder functions. */
int store_add(struct store *store, const char *name, int dims, const int64_t *dim, enum store_layout layout,
	enum store_initial initial, double scale);
/* Initial values: each a function of (seed, name, element in file order) alone. After program_prepare(). */
int store_initialise(struct store *store, uint64_t seed);
/* Other initial values than it was added with. */
void store_set_initial(struct store *store, int i, enum store_initial initial, double scale);
/* Makes a parameter a statistic. */
void store_set_statistic(struct store *store, int i, double momentum);
/* The network reads this parameter by rows of `width` floats. */
void store_set_row(struct store *store, int i, size_t width);
/* A statistic goes on from so many updates. */
void store_set_updates(struct store *store, size_t i, int64_t updates);
/* The values of all parameters that have an average change places with it. */
int store_swap_averages(struct store *store);
/* Whether a slot exists (moments depend on the update rule). */
bool store_has(const struct store *store, enum store_slot slot);
/* Whether it exists for this parameter: frozen ones have their value only, statistics no moments. */
bool store_keeps(const struct store *store, size_t i, enum store_slot slot);
/* `count` floats in file layout. */
int store_export(const struct store *store, size_t i, enum store_slot slot, float *out);
int store_import(struct store *store, size_t i, enum store_slot slot, const float *in);

#endif
