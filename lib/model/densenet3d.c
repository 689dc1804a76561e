/* DenseNet over clips: Huang et al. 2017 with bottlenecks (4 times the growth) and compression by half. */
#include <stdio.h>
#include "model/resnet3d_blocks.h"

#define BLOCKS 4
#define GROWTH 32
#define BOTTLENECK 4
#define FIRST_WIDTH 64

static const int *layers_of(int depth)
{
	static const int layers[][BLOCKS] = {
		{6, 12, 24, 16}, {6, 12, 32, 32}, {6, 12, 48, 32}, {6, 12, 64, 48}};

	return layers[depth == 121 ? 0 : depth == 169 ? 1 : depth == 201 ? 2 : 3];
}

static int dense_layer(struct resnet3d_builder *b, int x)
{
	int y = resnet3d_norm(b, x, "norm1", -1, true);

	y = resnet3d_cube(b, y, "conv1", BOTTLENECK * GROWTH, 1, 1);
	y = resnet3d_norm(b, y, "norm2", -1, true);
	y = resnet3d_cube(b, y, "conv2", GROWTH, 3, 1);
	return graph_concat(b->graph, x, y);
}

static int dense_block(struct resnet3d_builder *b, int x, int number, int layers)
{
	char name[32];

	snprintf(name, sizeof(name), "denseblock%d", number);
	resnet3d_module(b, name);
	for (int j = 1; j <= layers; j++) {
		graph_push(b->graph, "%s.denselayer%d.", name, j);
		x = dense_layer(b, x);
		graph_pop(b->graph);
	}
	return x;
}

/* Half the channels at half the resolution, an odd last position left out. */
static int transition(struct resnet3d_builder *b, int x, int number)
{
	char name[32];

	snprintf(name, sizeof(name), "transition%d", number);
	resnet3d_module(b, name);
	graph_push(b->graph, "%s.", name);
	x = resnet3d_norm(b, x, "norm", -1, true);
	x = resnet3d_cube(b, x, "conv", (int)graph_dim(b->graph, x, 4) / 2, 1, 1);
	x = graph_average_pool(b->graph, x, (struct pool){.kernel = {2, 2, 2}});
	graph_pop(b->graph);
	return x;
}

int densenet3d_features(struct resnet3d_builder *b, int x)
{
	const int *layers = layers_of(b->resnet->depth);

	graph_push(b->graph, "features.");
	x = resnet3d_stem(b, x, "conv1", "norm1", FIRST_WIDTH);
	for (int i = 1; i <= BLOCKS; i++) {
		x = dense_block(b, x, i, layers[i - 1]);
		if (i < BLOCKS)
			x = transition(b, x, i);
	}
	resnet3d_module(b, "norm5");
	x = resnet3d_norm(b, x, "norm5", -1, true);
	graph_pop(b->graph);
	return graph_global_pool(b->graph, x);
}
