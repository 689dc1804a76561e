/* What the families of 3D ResNets share (resnet3d.c), and their blocks, each with the tensor names below its own path. */
#ifndef NIGHTSHIFT_MODEL_RESNET3D_BLOCKS_H
#define NIGHTSHIFT_MODEL_RESNET3D_BLOCKS_H

#include "model/resnet3d.h"

#define RESNET3D_NORM_MOMENTUM 0.1

struct resnet3d_builder {
	struct graph *graph;
	const struct resnet3d *resnet;
	bool frozen_norm; /* of the module that is being built */
};

/* One stage of residual blocks. */
struct resnet3d_stage {
	bool bottleneck;
	int width;  /* inside */
	int out;    /* channels of the blocks' results */
	int groups; /* of the middle convolution */
};

/* To be called before each module by its name in `train_from`. */
void resnet3d_module(struct resnet3d_builder *b, const char *name);
/* An odd kernel's padding keeps the size; no bias. The time axis has its own size and stride. */
int resnet3d_convolution(struct resnet3d_builder *b, int x, const char *name, int out, const int kernel[3],
	const int stride[3], int groups);
/* Batch norm, plus `residual` (-1: none), then ReLU where `relu` is set. */
int resnet3d_norm(struct resnet3d_builder *b, int x, const char *name, int residual, bool relu);
/* A cube, or a 1x1x1 kernel, the same stride on every axis. */
int resnet3d_cube(struct resnet3d_builder *b, int x, const char *name, int out, int kernel, int stride);
/* First convolution, norm and pooling; under the names of the families other than resnet2p1d. */
int resnet3d_stem(struct resnet3d_builder *b, int x, const char *convolution, const char *norm, int out);
int resnet3d_stem_pool(struct resnet3d_builder *b, int x);

/* A block under the current path; its first convolution over positions has the stride. */
typedef int resnet3d_block(struct resnet3d_builder *b, int x, const struct resnet3d_stage *stage, int stride);
resnet3d_block resnet3d_post_block, resnet3d_pre_block, resnet3d_2p1d_block;

/* DenseNet from the stem to the pooled features. */
int densenet3d_features(struct resnet3d_builder *b, int x);

#endif
