/* Residual blocks over clips: He et al. 2016 (both orders), Xie et al. 2017 (groups), Tran et al. 2018 (space, then time). */
#include <stdio.h>
#include "model/resnet3d_blocks.h"

/* ---- shortcuts ---- */

static bool changes_shape(const struct resnet3d_builder *b, int x, int out, int stride)
{
	return stride != 1 || graph_dim(b->graph, x, 4) != out;
}

static int shortcut(struct resnet3d_builder *b, int x, int out, int stride)
{
	if (!changes_shape(b, x, out, stride))
		return x;
	if (b->resnet->shortcut == RESNET3D_SHORTCUT_B) {
		x = resnet3d_cube(b, x, "downsample.0", out, 1, stride);
		return resnet3d_norm(b, x, "downsample.1", -1, false);
	}
	x = graph_subsample(b->graph, x, (int[]){stride, stride, stride}, out);
	if (b->resnet->shortcut == RESNET3D_SHORTCUT_A_DETACHED)
		graph_detach(b->graph, x);
	return x;
}

/* The last norm of a block, plus the shortcut, then ReLU. Its parameters come before those of the shortcut, which is needed first. */
static int join(struct resnet3d_builder *b, int y, const char *norm, int x, int stride)
{
	int out = (int)graph_dim(b->graph, y, 4);

	graph_batch_norm_parameters(b->graph, norm, out, RESNET3D_NORM_MOMENTUM);
	return resnet3d_norm(b, y, norm, shortcut(b, x, out, stride), true);
}

/* ---- the blocks ---- */

int resnet3d_post_block(struct resnet3d_builder *b, int x, const struct resnet3d_stage *stage, int stride)
{
	const int three[3] = {3, 3, 3}, strides[3] = {stride, stride, stride};
	int y;

	if (!stage->bottleneck) {
		y = resnet3d_cube(b, x, "conv1", stage->width, 3, stride);
		y = resnet3d_norm(b, y, "bn1", -1, true);
		y = resnet3d_cube(b, y, "conv2", stage->out, 3, 1);
		return join(b, y, "bn2", x, stride);
	}
	y = resnet3d_cube(b, x, "conv1", stage->width, 1, 1);
	y = resnet3d_norm(b, y, "bn1", -1, true);
	y = resnet3d_convolution(b, y, "conv2", stage->width, three, strides, stage->groups);
	y = resnet3d_norm(b, y, "bn2", -1, true);
	y = resnet3d_cube(b, y, "conv3", stage->out, 1, 1);
	return join(b, y, "bn3", x, stride);
}

int resnet3d_pre_block(struct resnet3d_builder *b, int x, const struct resnet3d_stage *stage, int stride)
{
	int y = resnet3d_norm(b, x, "bn1", -1, true);

	if (!stage->bottleneck) {
		y = resnet3d_cube(b, y, "conv1", stage->width, 3, stride);
		y = resnet3d_norm(b, y, "bn2", -1, true);
		y = resnet3d_cube(b, y, "conv2", stage->out, 3, 1);
	} else {
		y = resnet3d_cube(b, y, "conv1", stage->width, 1, 1);
		y = resnet3d_norm(b, y, "bn2", -1, true);
		y = resnet3d_cube(b, y, "conv2", stage->width, 3, stride);
		y = resnet3d_norm(b, y, "bn3", -1, true);
		y = resnet3d_cube(b, y, "conv3", stage->out, 1, 1);
	}
	return graph_add(b->graph, y, shortcut(b, x, stage->out, stride));
}

/* ---- space, then time ---- */

/* Channels between the two parts, so that they have the parameters of a 3x3x3 convolution. */
static int middle_width(int in, int out)
{
	return 27 * in * out / (9 * in + 3 * out);
}

/* NAME_s, norm, ReLU and NAME_t, whose norm is the caller's. */
static int split(struct resnet3d_builder *b, int x, int number, int out, int stride)
{
	int middle = middle_width((int)graph_dim(b->graph, x, 4), out);
	char name[4][16];

	snprintf(name[0], sizeof(name[0]), "conv%d_s", number);
	snprintf(name[1], sizeof(name[1]), "bn%d_s", number);
	snprintf(name[2], sizeof(name[2]), "conv%d_t", number);
	x = resnet3d_convolution(b, x, name[0], middle, (int[]){1, 3, 3}, (int[]){1, stride, stride}, 1);
	x = resnet3d_norm(b, x, name[1], -1, true);
	return resnet3d_convolution(b, x, name[2], out, (int[]){3, 1, 1}, (int[]){stride, 1, 1}, 1);
}

int resnet3d_2p1d_block(struct resnet3d_builder *b, int x, const struct resnet3d_stage *stage, int stride)
{
	int y;

	if (!stage->bottleneck) {
		y = split(b, x, 1, stage->width, stride);
		y = resnet3d_norm(b, y, "bn1_t", -1, true);
		y = split(b, y, 2, stage->out, 1);
		return join(b, y, "bn2_t", x, stride);
	}
	y = resnet3d_cube(b, x, "conv1", stage->width, 1, 1);
	y = resnet3d_norm(b, y, "bn1", -1, true);
	y = split(b, y, 2, stage->width, stride);
	y = resnet3d_norm(b, y, "bn2_t", -1, true);
	y = resnet3d_cube(b, y, "conv3", stage->out, 1, 1);
	return join(b, y, "bn3", x, stride);
}
