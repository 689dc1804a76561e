/*
 * The networks over clips of Hara, Kataoka & Satoh 2018 (3D-ResNets-PyTorch; spec/resnets3d.md section 3) as graph builders, with
 * the original's tensor names, shapes and order: 3D ResNets, (2+1)D ResNets (Tran et al. 2018), pre-activation ResNets, wide
 * ResNets, ResNeXts and DenseNets. Initial values as the original's: He's normal of the outputs for convolutions.
 *
 * Files that the original reads also hold NAME.num_batches_tracked (int64, no dimensions) behind each NAME.running_var: the
 * number of training steps; no tensor of the graph is behind it.
 */
#ifndef NIGHTSHIFT_MODEL_RESNET3D_H
#define NIGHTSHIFT_MODEL_RESNET3D_H

#include <stdbool.h>
#include "graph/graph.h"

enum resnet3d_family {
	RESNET3D_RESNET,
	RESNET3D_RESNET2P1D,
	RESNET3D_PRERESNET,
	RESNET3D_WIDERESNET,
	RESNET3D_RESNEXT,
	RESNET3D_DENSENET,
	RESNET3D_FAMILIES
};

enum resnet3d_shortcut {
	RESNET3D_SHORTCUT_B,         /* 1x1x1 convolution and batch norm where the shape changes */
	RESNET3D_SHORTCUT_A,         /* every second position, then channels of zeros */
	RESNET3D_SHORTCUT_A_DETACHED /* the same without a gradient, as the original has it */
};

struct resnet3d {
	enum resnet3d_family family;
	int depth;
	int classes;
	int in_channels; /* 3; 2 for flow */
	enum resnet3d_shortcut shortcut;
	int conv1_t_size, conv1_t_stride; /* of the first convolution, in time */
	bool max_pool;
	double widen_factor; /* resnet, resnet2p1d and preresnet: times the widths 64, 128, 256, 512 */
	int wide_k;          /* wideresnet: the same */
	int cardinality;     /* resnext: groups */
	/* The first trained module, by its name in files (conv1, layer4, fc, denseblock4, ...): what is before it in the network is
	 * frozen, its gradients are not computed. NULL or "": all is trained. */
	const char *train_from;
	bool frozen_norm; /* batch norms before train_from keep their running statistics and use them */
};

/* resnet, resnet2p1d, preresnet, wideresnet, resnext, densenet. */
const char *resnet3d_family_name(enum resnet3d_family family);
/* The family of that name, or -1. */
int resnet3d_family(const char *name);
/* A network of this family and depth with the original's defaults: 3 channels, shortcut B, 7 frames at stride 1, max-pool. */
struct resnet3d resnet3d_default(enum resnet3d_family family, int depth, int classes);
/* STATUS_CONFIG with the key named (model.depth, train.from, ...). */
int resnet3d_check(const struct resnet3d *resnet);
/*
 * x [N,T,H,W,in_channels] -> logits [N,classes]. A training graph, to be told from others by `training` as graph_new() was, freezes
 * the parameters before train_from.
 */
int resnet3d_build(struct graph *graph, const struct resnet3d *resnet, int x, bool training);

/* The order of two tensors in the original's state dict, which numbers its optimizer's state; names of other networks come in some
 * fixed order. */
int resnet3d_compare_names(enum resnet3d_family family, const char *a, const char *b);

#endif
