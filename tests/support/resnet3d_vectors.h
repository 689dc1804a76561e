/*
 * What networks of the 3D ResNets' families compute from a known filling, in double precision by other software: logits by running
 * statistics, then three training steps of SGD (rate 1e-5, momentum 0.9, decay 1e-3).
 *
 * Element i of the tensor NAME (row-major as in files) is made of u, from 0 to 1, splitmix64 of FNV-1a of the name: convolutions
 * (2u - 1) sqrt(6 / fan-out), the last layer (2u - 1) / sqrt(fan-in) and bias 0.1 (2u - 1), norms 0.1 + 0.2 u and 0.2 (2u - 1),
 * the input 1.5 (2u - 1) in NCTHW order; the class of sample n is 3n mod 10.
 */
#ifndef NIGHTSHIFT_TESTS_RESNET3D_VECTORS_H
#define NIGHTSHIFT_TESTS_RESNET3D_VECTORS_H

#include "model/resnet3d.h"

struct resnet3d_vector {
	const char *name;
	struct resnet3d resnet;
	size_t parameters;         /* 0: not known */
	int shape[5];              /* N, C, T, H, W */
	double eval[4], sum, loss; /* first logits of sample 0, sum of all, mean loss */
	double losses[3];          /* of the steps, each before its update */
	double norm, first;        /* of all gradients of step 1, and of the first convolution's */
	/* After step 3; last_norm NULL: not known. */
	double after[4], mean, variance; /* eval logits; sums of the running statistics of last_norm */
	const char *last_norm;
	double first_norm[2]; /* the same sums of the first norm; 0: not known */
};

extern const struct resnet3d_vector resnet3d_vectors[]; /* the last one has no name */

/* The u of an element. */
double resnet3d_uniform(const char *name, size_t i);
/* Fills all parameters of a program's store, and `count` floats in the order of files. */
int resnet3d_fill(struct store *store);
void resnet3d_fill_tensor(const struct parameter *parameter, float *values);

#endif
