/*
 * Operations of neural surfaces: the hash grid, differences of a signed distance, volume rendering with its losses, and the
 * sampling of rays (Neuralangelo, Li et al. 2023; NeuS, Wang et al. 2021). spec/neuralangelo.md sections 4 to 6 and 11.
 *
 * Rays are rows of RAY_NUMBERS floats: origin 3, direction 3 (unit), near, far, and 1 where the ray meets the unit sphere, else
 * 0: such rays render nothing of the object and count in no loss but in its mean. Samples of a ray lie from near to far.
 */
#ifndef NIGHTSHIFT_GRAPH_FIELD_H
#define NIGHTSHIFT_GRAPH_FIELD_H

#include "graph/graph.h"
#include "graph/hash_grid.h"

#define RAY_NUMBERS 9

/* ---- with gradients ---- */

/* x [...,3] -> [...,levels x features] from the table NAME.params; levels from the step scalars' active_levels on give 0. */
int graph_hash_grid(struct graph *graph, int x, const char *name, const struct hash_grid *grid);

/* Gradient [R,N,3] and trace of the Hessian [R,N] of a function from its values f [R,N] at points and taps [4 or 6,R,N] at the
 * points of graph_stencil_points(), by the step scalars' epsilon. */
struct stencil {
	int gradient, trace;
};
struct stencil graph_stencil(struct graph *graph, int f, int taps);

/* The colours of rays, front to back; the object's opacity from its signed distance as in NeuS, with the step scalars' anneal. */
struct render {
	int distance;                /* [R,N], rising; no gradient */
	int sdf, gradient, colour;   /* [R,N], [R,N,3], [R,N,3] */
	int slope;                   /* [1]: logarithm of the logistic's slope */
	int rays;                    /* [R,RAY_NUMBERS]; no gradient */
	int background_distance;     /* [R,B], rising; no gradient; -1: no background */
	int density, background_colour; /* [R,B], [R,B,3] */
	bool white;                  /* what shines through is white, else black */
};
struct rendered {
	int colour;  /* [R,3] */
	int weights; /* [R,N+B]; no gradient */
};
struct rendered graph_render(struct graph *graph, struct render render);

/* Means over all samples of (|gradient| - 1)^2 and of |trace|; rays that miss and numbers that are not finite count as 0. */
int graph_eikonal(struct graph *graph, int gradient, int rays);
int graph_curvature(struct graph *graph, int trace, int rays);

/* ---- without gradient ---- */

/* The taps of a stencil around x [R,N,3]: [taps,R,N,3], taps 4 (corners of a tetrahedron at distance epsilon) or 6 (both ways
 * along each axis). */
int graph_stencil_points(struct graph *graph, int x, int taps);
/* Numbers of a stream named NAME (after the prefix), by the seed, step and micro-batch of the step scalars. */
int graph_noise_uniform(struct graph *graph, const char *name, int dims, const int64_t *dim); /* [0, 1) */
int graph_noise_normal(struct graph *graph, const char *name, int dims, const int64_t *dim);
/* Distances [R,count]: one in each of `count` equal parts from near to far, at its middle or where noise [R,count] says. */
int graph_ray_samples(struct graph *graph, int rays, int64_t count, int noise);
/* Distances [R,count] behind far, dense in its neighbourhood: far / (v + 1e-5), v from 1 down to 0 likewise. */
int graph_ray_background(struct graph *graph, int rays, int64_t count, int noise);
/* origin + distance x direction: [R,N,3]. */
int graph_ray_points(struct graph *graph, int rays, int distance);
/* (p / |p|, 1 / |p|): [...,3] -> [...,4]. */
int graph_inverse_sphere(struct graph *graph, int points);
/* Weights [R,N-1] of the intervals of distances [R,N] from the signed distances there, for a logistic of this slope. */
int graph_ray_weights(struct graph *graph, int distance, int sdf, double slope);
/* `count` more distances [R,count] where intervals have weight: the inverse of its distribution at (k + 0.5) / count. */
int graph_inverse_cdf(struct graph *graph, int distance, int weights, int64_t count);
/* Two rising lists [R,N] and [R,M] as one [R,N+M], with what belongs to each (-1 and -1: nothing); of equals, a's come first. */
struct merged {
	int distance, value;
};
struct merged graph_merge(struct graph *graph, int a, int b, int value_a, int value_b);
/* x [N,H,W,C] at another size as PyTorch's interpolate() without aligned corners: weights of the 2 or 4 (a = -0.75)
 * neighbours of each axis, the edge's value beyond it; no smoothing when it gets smaller. */
enum resize { RESIZE_BILINEAR, RESIZE_BICUBIC };
int graph_resize(struct graph *graph, int x, enum resize kind, int64_t height, int64_t width);

#endif
