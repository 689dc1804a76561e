/*
 * The blocks that the U-Net is made of, each with the tensor names below its own path (the caller pushes the path:
 * "mid_block.resnets.0."). Images are [N,h,w,C].
 */
#ifndef NIGHTSHIFT_MODEL_UNET_BLOCKS_H
#define NIGHTSHIFT_MODEL_UNET_BLOCKS_H

#include "model/unet.h"

#define UNET_NORM_EPSILON 1e-5
#define UNET_SKIPS (UNET_LEVELS * 9 + 1) /* of 8 layers and one downsampling a level, and the first convolution */

struct unet_blocks {
	struct graph *graph;
	const struct unet *unet;
	int time;    /* SiLU of the time embedding, [N, 4 width] */
	int context; /* [N, L, context_width] */
	int skip[UNET_SKIPS];
	int skips;
};

/* Square kernel, half of it (rounded down) as padding on all sides, with bias. */
int unet_convolution(struct unet_blocks *b, int x, const char *name, int out, int kernel, int stride);
int unet_resnet(struct unet_blocks *b, int x, int out);
int unet_transformer(struct unet_blocks *b, int x, int heads);
void unet_push_skip(struct unet_blocks *b, int x);
/* Down block i, mid block, up block i, under their own paths ("down_blocks.0."); skips are pushed and popped. Up block i
 * works at level `levels - 1 - i`. */
int unet_down(struct unet_blocks *b, int x, int i);
int unet_middle(struct unet_blocks *b, int x);
int unet_up(struct unet_blocks *b, int x, int i);

#endif
