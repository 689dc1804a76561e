/* A neural surface from the builder functions. */
#include "support/field.h"

struct point_values {
	int sdf, feature; /* [..,1] and [..,hidden] */
};

/* Layers with weight norm; the last one, number `layers`, is left to the caller. */
static int normed_layers(struct graph *graph, int x, int layers, int hidden, unsigned skip, double beta)
{
	int y = x;

	for (int k = 0; k < layers; k++) {
		graph_push(graph, "linears.%d", k);
		if (skip >> k & 1)
			y = graph_concat(graph, y, x);
		y = graph_linear_normed(graph, y, "", hidden, true);
		y = beta > 0 ? graph_softplus(graph, y, beta) : graph_activation(graph, y, ACTIVATION_RELU);
		graph_pop(graph);
	}
	return y;
}

/* The signed distance of points [..,3]; the feature where it is wanted. */
static struct point_values add_sdf(struct graph *graph, const struct field *field, int x, bool feature)
{
	struct point_values values = {-1, -1};
	int in, hidden;

	graph_push(graph, "neural_sdf.");
	in = graph_concat(graph, x, graph_hash_grid(graph, x, "tcnn_encoding", &field->grid));
	graph_push(graph, "mlp.");
	hidden = normed_layers(graph, in, field->sdf_layers, field->sdf_hidden, field->sdf_skip, 100);
	values.sdf = graph_linear(graph, hidden, "linear_sdf", 1, true);
	if (feature) {
		graph_push(graph, "linears.%d", field->sdf_layers);
		values.feature = graph_linear_normed(graph, hidden, "", field->sdf_hidden, true);
		values.feature = graph_softplus(graph, values.feature, 100);
		graph_pop(graph);
	}
	graph_pop(graph);
	graph_pop(graph);
	return values;
}

static int as_samples(struct graph *graph, int x, int64_t rays, int64_t samples)
{
	return graph_reshape(graph, x, 2, (int64_t[]){rays, samples});
}

struct field_samples field_add_samples(struct program *program, const struct field *field)
{
	struct graph *graph = graph_new(program, "samples", false);
	struct field_samples s = {.graph = graph};
	int count = field->coarse, sdf;

	s.rays = graph_input(graph, "rays", TENSOR_F32, 2, (int64_t[]){field->rays, RAY_NUMBERS});
	s.distance = graph_ray_samples(graph, s.rays, count, -1);
	sdf = add_sdf(graph, field, graph_ray_points(graph, s.rays, s.distance), false).sdf;
	s.coarse = sdf = graph_output(graph, as_samples(graph, sdf, field->rays, count));
	for (int round = 0; round < field->rounds; round++) {
		int weights = graph_ray_weights(graph, s.distance, sdf, 64 << round), more, of_more = -1;
		bool last = round + 1 == field->rounds;
		struct merged merged;

		more = graph_inverse_cdf(graph, s.distance, weights, field->fine);
		if (!last) {
			of_more = add_sdf(graph, field, graph_ray_points(graph, s.rays, more), false).sdf;
			of_more = as_samples(graph, of_more, field->rays, field->fine);
		}
		merged = graph_merge(graph, s.distance, more, last ? -1 : sdf, of_more);
		s.distance = merged.distance;
		sdf = merged.value;
		count += field->fine;
	}
	graph_output(graph, s.distance);
	return s;
}

/* What is the same for all samples of a ray: the code of its image behind y. */
static int add_code(
	struct graph *graph, int y, int image, const char *name, const struct field *field, int64_t samples)
{
	int code;

	if (!field->code)
		return y;
	code = graph_embedding(graph, image, name, field->images, field->code);
	return graph_concat(graph, y, graph_repeat(graph, code, samples));
}

static int add_colour(struct graph *graph, const struct field *field, int x, int view, int normal,
	int feature, int image, int64_t samples)
{
	int y = graph_concat(graph, x, graph_repeat(graph, view, samples));

	y = graph_concat(graph, graph_concat(graph, y, normal), feature);
	y = add_code(graph, y, image, "appear_embed", field, samples);
	graph_push(graph, "neural_rgb.mlp.");
	y = normed_layers(graph, y, field->colour_layers, field->colour_hidden, field->colour_skip, 0);
	graph_push(graph, "linears.%d", field->colour_layers);
	y = graph_linear_normed(graph, y, "", 3, true);
	graph_pop(graph);
	graph_pop(graph);
	return graph_activation(graph, y, ACTIVATION_SIGMOID);
}

/* Density [R,B] and colour [R,B,3] behind the sphere. */
static void add_background(
	struct graph *graph, const struct field *field, struct render *render, int view, int image)
{
	int q, in, y;

	render->background_distance = graph_ray_background(graph, render->rays, field->behind, -1);
	q = graph_inverse_sphere(graph, graph_ray_points(graph, render->rays, render->background_distance));
	in = y = graph_concat(graph, q, graph_fourier(graph, q, field->fourier_levels));
	graph_push(graph, "background_nerf.mlp_feat.");
	for (int k = 0; k < field->trunk_layers; k++) {
		bool last = k + 1 == field->trunk_layers;

		graph_push(graph, "linears.%d", k);
		if (field->trunk_skip >> k & 1)
			y = graph_concat(graph, y, in);
		y = graph_linear(graph, y, "", field->trunk_hidden + last, true);
		y = last ? y : graph_activation(graph, y, ACTIVATION_RELU);
		graph_pop(graph);
	}
	graph_pop(graph);
	render->density = graph_softplus(graph, graph_slice(graph, y, 0, 1), 1);
	render->density = as_samples(graph, render->density, field->rays, field->behind);
	y = graph_activation(graph, graph_slice(graph, y, 1, field->trunk_hidden), ACTIVATION_RELU);
	y = graph_concat(graph, y, graph_repeat(graph, view, field->behind));
	y = add_code(graph, y, image, "appear_embed_outside", field, field->behind);
	graph_push(graph, "background_nerf.mlp_rgb.");
	for (int k = 0; k < field->head_layers; k++) {
		bool last = k + 1 == field->head_layers;

		graph_push(graph, "linears.%d", k);
		y = graph_linear(graph, y, "", last ? 3 : field->head_hidden, true);
		y = graph_activation(graph, y, last ? ACTIVATION_SIGMOID : ACTIVATION_RELU);
		graph_pop(graph);
	}
	graph_pop(graph);
	render->background_colour = y;
}

static void add_losses(struct field_graph *g, const struct field *field)
{
	struct graph *graph = g->graph;
	int weighted;

	g->target = graph_input(graph, "target", TENSOR_F32, 2, (int64_t[]){field->rays, 3});
	g->curvature_weight = graph_input(graph, "curvature weight", TENSOR_F32, 1, (int64_t[]){1});
	g->render = graph_output(graph, graph_scale(graph, graph_l1(graph, g->colour, g->target), 3));
	g->eikonal = graph_output(graph, graph_eikonal(graph, g->gradient, g->rays));
	g->curvature = graph_output(graph, graph_curvature(graph, g->trace, g->rays));
	weighted = graph_add(graph, graph_scale(graph, g->eikonal, 0.1),
		graph_scale_by(graph, g->curvature, g->curvature_weight));
	g->total = graph_output(graph, graph_add(graph, g->render, weighted));
}

struct field_graph field_add_graph(struct program *program, const struct field *field, bool training)
{
	struct graph *graph = graph_new(program, training ? "train" : "render", training);
	struct field_graph g = {.graph = graph, .image = -1};
	int64_t rays = field->rays, samples = field->coarse + field->rounds * field->fine;
	struct point_values values, around;
	struct stencil stencil;
	struct rendered rendered;
	struct render render = {.background_distance = -1, .white = field->white};
	int x, view;

	g.rays = graph_input(graph, "rays", TENSOR_F32, 2, (int64_t[]){rays, RAY_NUMBERS});
	g.distance = graph_input(graph, "distance", TENSOR_F32, 2, (int64_t[]){rays, samples});
	if (field->code)
		g.image = graph_input(graph, "image", TENSOR_I32, 1, &rays);
	x = graph_ray_points(graph, g.rays, g.distance);
	values = add_sdf(graph, field, x, true);
	around = add_sdf(graph, field, graph_stencil_points(graph, x, field->taps), false);
	g.sdf = graph_output(graph, as_samples(graph, values.sdf, rays, samples));
	stencil = graph_stencil(
		graph, g.sdf, graph_reshape(graph, around.sdf, 3, (int64_t[]){field->taps, rays, samples}));
	g.gradient = graph_output(graph, stencil.gradient);
	g.trace = graph_output(graph, stencil.trace);
	view = graph_spherical_harmonics(graph, graph_slice(graph, g.rays, 3, 3), 3);
	render.distance = g.distance;
	render.sdf = g.sdf;
	render.gradient = g.gradient;
	render.rays = g.rays;
	render.slope = graph_parameter(graph, "s_var", 1, (int64_t[]){1}, INITIAL_ONE, 0);
	render.colour = add_colour(
		graph, field, x, view, graph_normalise(graph, g.gradient), values.feature, g.image, samples);
	if (field->behind)
		add_background(graph, field, &render, view, g.image);
	rendered = graph_render(graph, render);
	g.colour = graph_output(graph, rendered.colour);
	g.weights = graph_output(graph, rendered.weights);
	add_losses(&g, field);
	if (training)
		graph_backward(graph, g.total);
	return g;
}
