/*
 * A neural surface of Neuralangelo's kind, for tests and measurements: a signed distance on a hash grid, colours, a background,
 * codes of images; a graph that finds the samples of rays and one that renders them.
 */
#ifndef NIGHTSHIFT_TESTS_FIELD_H
#define NIGHTSHIFT_TESTS_FIELD_H

#include "graph/field.h"

/* Layers count those before the last; bit k of a skip mask: layer k gets the network's input behind what runs. */
struct field {
	struct hash_grid grid;
	int sdf_layers, sdf_hidden;
	int colour_layers, colour_hidden;
	int trunk_layers, trunk_hidden, head_layers, head_hidden, fourier_levels; /* of the background; all of its layers */
	unsigned sdf_skip, colour_skip, trunk_skip;
	int images, code; /* numbers of a code; 0: no codes */
	int rays, coarse, fine, rounds, behind /* 0: no background */;
	int taps;
	bool white;
};

/* Finds the samples: distances [rays, coarse + rounds x fine]. */
struct field_samples {
	struct graph *graph;
	int rays, distance; /* input, output */
	int coarse;         /* signed distances of the first samples: an output */
};
struct field_samples field_add_samples(struct program *program, const struct field *field);

/* Renders them, with the three losses and their sum: render + 0.1 eikonal + the input times the curvature. */
struct field_graph {
	struct graph *graph;
	int rays, distance, image, target, curvature_weight; /* inputs; image is -1 without codes */
	int colour, weights, sdf, gradient, trace;           /* outputs */
	int render, eikonal, curvature, total;
};
struct field_graph field_add_graph(struct program *program, const struct field *field, bool training);

#endif
