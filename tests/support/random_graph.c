/* Random graphs: pieces of networks over a pool of tensors of one shape. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "graph/internal.h"
#include "support/random_graph.h"

#define POOL 64
static const int64_t shape[4] = {2, 3, 4, 8}, tokens[3] = {2, 12, 8};

struct generator {
	struct random random;
	uint64_t seed;
	uint32_t drawn;
	struct graph *graph;
	int pool[POOL]; /* tensors of `shape` */
	int count;
};

static int draw(struct generator *g, int bound)
{
	return (int)random_below(g->random, g->seed, 0, g->drawn++, (uint64_t)bound);
}

static int any(struct generator *g)
{
	return g->pool[draw(g, g->count)];
}

/* A tensor of `shape` from some of the pool by one of fifteen pieces of networks. */
static int grow(struct generator *g, int index)
{
	struct graph *graph = g->graph;
	int x = any(g), y;
	char name[32];

	snprintf(name, sizeof(name), "layer%d", index);
	switch (draw(g, 20)) {
	case 0:
		return graph_convolution(graph, x, name,
			(struct convolution){.out = 8,
				.kernel = {3, 3},
				.pad_before = {1, 1},
				.pad_after = {1, 1},
				.bias = true});
	case 1:
		return graph_group_norm(graph, x, name, 2, 1e-5, ACTIVATION_SILU);
	case 2:
		return graph_activation(graph, x, ACTIVATION_GELU);
	case 3:
		y = graph_reshape(graph, x, 3, tokens);
		y = graph_attention(graph, y, graph_reshape(graph, any(g), 3, tokens), y, 2);
		return graph_reshape(graph, y, 4, shape);
	case 4:
		y = graph_concat(graph, x, any(g));
		return graph_convolution(graph, y, name, (struct convolution){.out = 8, .kernel = {1, 1}});
	case 5:
		return graph_geglu(graph, graph_concat(graph, x, any(g)));
	case 6:
		y = graph_linear(graph, graph_reshape(graph, x, 3, tokens), name, 8, true);
		return graph_reshape(graph, graph_layer_norm(graph, y, "norm", 1e-5), 4, shape);
	case 7:
		y = graph_convolution(graph, x, name,
			(struct convolution){.out = 8,
				.kernel = {3, 3},
				.stride = {2, 2},
				.pad_before = {1, 1},
				.pad_after = {1, 1}});
		return graph_upsample(graph, y, shape[1], shape[2]);
	case 8:
		return graph_batch_norm(graph, x, name, (struct batch_norm){.epsilon = 1e-5, .momentum = 0.1},
			draw(g, 2) ? any(g) : -1);
	case 9:
		y = graph_average_pool(graph, x, (struct pool){.kernel = {2, 2}});
		return graph_upsample(graph, y, shape[1], shape[2]);
	case 10:
		y = graph_subsample(graph, x, (int[]){1, 2}, 8);
		return graph_upsample(graph, y, shape[1], shape[2]);
	case 11:
		return graph_concat(graph, graph_slice(graph, x, 3, 5), graph_slice(graph, any(g), 0, 3));
	case 12:
		return graph_dropout(graph, x, name, 0.3);
	case 13:
		return graph_scale(graph, graph_softplus(graph, x, 2), 0.7);
	case 14:
		y = graph_linear_normed(graph, graph_reshape(graph, x, 3, tokens), "normed", 8, true);
		return graph_reshape(graph, y, 4, shape);
	default: /* additions most of all: they share gradients */
		return graph_add(graph, x, any(g));
	}
}

/* Everything is added up in the end, so that most of the pool matters. */
static int build_random(struct generator *g)
{
	int inputs = 1 + draw(g, 2), pieces = 4 + draw(g, 24), y, mask, target;

	for (int i = 0; i < inputs; i++) {
		g->pool[g->count++] = graph_input(g->graph, i ? "b" : "a", TENSOR_F32, 4, shape);
		if (draw(g, 2))
			graph_want_gradient(g->graph, g->pool[i]);
	}
	y = graph_linear(g->graph, g->pool[0], "first", 8, true);
	g->pool[g->count++] = y;
	for (int i = 0; i < pieces; i++) {
		g->pool[g->count++] = grow(g, i);
		if (draw(g, 12) == 0)
			graph_output(g->graph, g->pool[g->count - 1]);
		if (draw(g, 6) == 0)
			graph_want_gradient(g->graph, g->pool[g->count - 1]);
	}
	for (int i = inputs; i < g->count; i++) {
		if (draw(g, 3))
			y = graph_add(g->graph, y, g->pool[i]);
	}
	target = graph_input(g->graph, "target", TENSOR_F32, 4, shape);
	mask = graph_input(g->graph, "mask", TENSOR_F32, 3, shape);
	return graph_masked_mse(g->graph, y, target, mask);
}

struct graph *random_graph(struct program *program, uint64_t seed)
{
	struct generator generator = {.random = random_stream(11, "graph"), .seed = seed};
	int loss;

	generator.graph = graph_new(program, "random", true);
	if (!generator.graph)
		return NULL;
	loss = build_random(&generator);
	if (draw(&generator, 3) == 0)
		store_freeze(program_store(program), "layer*.bias");
	if (draw(&generator, 3) == 0)
		store_freeze(program_store(program), "norm.weight");
	graph_backward(generator.graph, loss);
	return generator.graph;
}

static void fill(float *values, size_t count, uint64_t stream)
{
	random_normal(random_stream(stream, "values"), 0, 0, 0, values, count);
}

int random_graph_fill(struct graph *graph, uint64_t seed)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		const struct tensor *tensor = &graph->tensors[i];
		float values[2 * 3 * 4 * 8];

		if (tensor->kind != TENSOR_INPUT || tensor->alias >= 0)
			continue;
		fill(values, tensor->elements, i);
		for (size_t j = 0; j < tensor->elements && !strcmp(tensor->name, "mask"); j++)
			values[j] = j % 3 != 0;
		if (graph_write(graph, (int)i, values))
			return error_status();
	}
	return store_initialise(graph->program->store, seed);
}
