/*
 * The U-Net of Stable Diffusion 2 (diffusers' UNet2DConditionModel; spec/marigold.md section 5) as a graph builder, with
 * the original's tensor names; all sizes from the configuration.
 */
#ifndef NIGHTSHIFT_MODEL_UNET_H
#define NIGHTSHIFT_MODEL_UNET_H

#include <stdbool.h>
#include "graph/graph.h"
#include "base/text.h"

#define UNET_LEVELS 8
struct unet {
	int in_channels, out_channels;
	int levels;
	int width[UNET_LEVELS];
	int heads[UNET_LEVELS];      /* number of heads at each level (the original's misnamed attention_head_dim) */
	bool attention[UNET_LEVELS]; /* cross-attention block at this level (down and up alike); the middle always has one */
	int layers;                  /* resnets per down level; the up levels have one more */
	int norm_groups;
	int context_width;           /* width of the text condition */
};
/* Checks sizes (divisibility by groups and heads, ranges); STATUS_CONFIG with the key named. */
int unet_check(const struct unet *unet);
/* x [N,h,w,in_channels], t [N] float timesteps, context [N,L,context_width] -> [N,h,w,out_channels]. */
int unet_build(struct graph *graph, const struct unet *unet, int x, int t, int context);
/* diffusers' config.json of this network, appended to `out`. */
int unet_config_json(const struct unet *unet, struct text *out);

#endif
