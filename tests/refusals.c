/* What the builder functions of clips and surfaces refuse, and what they say; frozen statistics. */
#include "check.h"
#include "cpu/cpu.h"
#include "graph/field.h"
#include "graph/internal.h"

static struct device *device;

static int matrix(struct graph *graph, const char *name, int64_t rows, int64_t columns)
{
	return graph_input(graph, name, TENSOR_F32, 2, (int64_t[]){rows, columns});
}

static int clip(struct graph *graph)
{
	return graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){2, 4, 6, 6, 3});
}

static int padded_pool(struct graph *graph)
{
	return graph_max_pool(
		graph, clip(graph), (struct pool){.kernel = {2, 2, 2}, .pad_before = {2, 0, 0}});
}

static int large_pool(struct graph *graph)
{
	return graph_average_pool(graph, clip(graph), (struct pool){.kernel = {5, 2, 2}});
}

static int flat_pool(struct graph *graph)
{
	return graph_max_pool(graph, matrix(graph, "x", 3, 4), (struct pool){.kernel = {2, 2, 2}});
}

static int norm_of_one(struct graph *graph)
{
	return graph_batch_norm(
		graph, matrix(graph, "x", 1, 4), "bn1", (struct batch_norm){.momentum = 0.1}, -1);
}

static int norm_twice(struct graph *graph)
{
	int x = matrix(graph, "x", 3, 4);

	x = graph_batch_norm(graph, x, "bn1", (struct batch_norm){.momentum = 0.1}, -1);
	return graph_batch_norm(graph, x, "bn1", (struct batch_norm){.momentum = 0.1}, -1);
}

static int norm_of_gelu(struct graph *graph)
{
	return graph_batch_norm(graph, matrix(graph, "x", 3, 4), "bn1",
		(struct batch_norm){.activation = ACTIVATION_GELU}, -1);
}

static int norm_and_another(struct graph *graph)
{
	return graph_batch_norm(graph, matrix(graph, "x", 3, 4), "bn1", (struct batch_norm){.momentum = 0.1},
		matrix(graph, "y", 3, 5));
}

static int certain_dropout(struct graph *graph)
{
	return graph_dropout(graph, matrix(graph, "x", 3, 4), "drop", 1);
}

static int fewer_channels(struct graph *graph)
{
	return graph_subsample(graph, clip(graph), (int[]){2, 2, 2}, 2);
}

static int slice_behind(struct graph *graph)
{
	return graph_slice(graph, matrix(graph, "x", 3, 4), 2, 3);
}

static int float_classes(struct graph *graph)
{
	int class = graph_input(graph, "class", TENSOR_F32, 1, (int64_t[]){3});

	return graph_cross_entropy(graph, matrix(graph, "x", 3, 4), class, 0).loss;
}

static int too_smooth(struct graph *graph)
{
	int class = graph_input(graph, "class", TENSOR_I32, 1, (int64_t[]){3});

	return graph_cross_entropy(graph, matrix(graph, "x", 3, 4), class, 1.5).loss;
}

static int other_classes(struct graph *graph)
{
	int class = graph_input(graph, "class", TENSOR_I32, 1, (int64_t[]){4});

	return graph_cross_entropy(graph, matrix(graph, "x", 3, 4), class, 0).loss;
}

static int float_rows(struct graph *graph)
{
	return graph_gather(
		graph, matrix(graph, "x", 3, 4), graph_input(graph, "i", TENSOR_F32, 1, (int64_t[]){2}));
}

static int large_factor(struct graph *graph)
{
	return graph_scale_by(graph, matrix(graph, "x", 3, 4), matrix(graph, "y", 1, 2));
}

static int no_beta(struct graph *graph)
{
	return graph_softplus(graph, matrix(graph, "x", 3, 4), 0);
}

static int high_degree(struct graph *graph)
{
	return graph_spherical_harmonics(graph, matrix(graph, "x", 3, 3), 4);
}

static int later_keys(struct graph *graph)
{
	int q = graph_input(graph, "q", TENSOR_F32, 3, (int64_t[]){1, 4, 6});
	int k = graph_input(graph, "k", TENSOR_F32, 3, (int64_t[]){1, 5, 6});

	return graph_causal_attention(graph, q, k, k, 2);
}

static int odd_grid(struct graph *graph)
{
	static const struct hash_grid grid = {
		.levels = 4, .features = 3, .first = 2, .last = 5, .entries = 8, .low = -1, .high = 1};

	return graph_hash_grid(graph, matrix(graph, "x", 3, 3), "grid", &grid);
}

static int five_taps(struct graph *graph)
{
	return graph_stencil_points(graph, graph_input(graph, "x", TENSOR_F32, 3, (int64_t[]){2, 3, 3}), 5);
}

static int other_taps(struct graph *graph)
{
	int taps = graph_input(graph, "taps", TENSOR_F32, 3, (int64_t[]){4, 2, 4});

	return graph_stencil(graph, matrix(graph, "f", 2, 3), taps).trace;
}

static int short_rays(struct graph *graph)
{
	return graph_ray_samples(graph, matrix(graph, "rays", 4, 6), 8, -1);
}

static int render_of_some(struct graph *graph)
{
	struct render render = {.distance = matrix(graph, "t", 2, 4),
		.sdf = matrix(graph, "sdf", 2, 5),
		.gradient = graph_input(graph, "g", TENSOR_F32, 3, (int64_t[]){2, 4, 3}),
		.colour = graph_input(graph, "c", TENSOR_F32, 3, (int64_t[]){2, 4, 3}),
		.slope = graph_input(graph, "s", TENSOR_F32, 1, (int64_t[]){1}),
		.rays = matrix(graph, "rays", 2, RAY_NUMBERS),
		.background_distance = -1};

	return graph_render(graph, render).colour;
}

static int one_value(struct graph *graph)
{
	return graph_merge(graph, matrix(graph, "a", 2, 4), matrix(graph, "b", 2, 3),
		matrix(graph, "fa", 2, 4), matrix(graph, "fb", 2, 4))
		.distance;
}

static int weights_of_all(struct graph *graph)
{
	return graph_inverse_cdf(graph, matrix(graph, "t", 2, 4), matrix(graph, "w", 2, 4), 3);
}

static const struct {
	const char *name;
	int (*build)(struct graph *graph);
	const char *words;
} refused[] = {
	{"a window that fits into the padding", padded_pool, "max-pool: impossible kernel"},
	{"a window larger than the clip", large_pool,
		"average-pool: the window is larger than the padded input 2x4x6x6x3"},
	{"a pool of a matrix", flat_pool, "max-pool: takes [N,H,W,C] or [N,D,H,W,C], not 3x4"},
	{"a batch of one value", norm_of_one,
		"bn1: batch norm of one value a channel; more or larger samples a batch are needed"},
	{"statistics that are learnt twice", norm_twice,
		"bn1: a batch norm that learns its statistics is used twice"},
	{"a batch norm with GELU", norm_of_gelu, "bn1: batch norm goes with no activation or ReLU"},
	{"a residual of another shape", norm_and_another, "bn1: shapes 3x4 and 3x5"},
	{"dropping everything", certain_dropout, "drop: a probability of 1"},
	{"a shortcut to fewer channels", fewer_channels, "subsample: takes"},
	{"channels that are not there", slice_behind, "slice: channels 2 to 4 of 3x4"},
	{"classes that are no integers", float_classes, "cross-entropy: takes int32 classes"},
	{"more smoothing than there is", too_smooth, "a smoothing between 0 and 1"},
	{"more classes than samples", other_classes, "cross-entropy: shapes 3x4 and 4"},
	{"rows by numbers that are no integers", float_rows, "gather: shapes 3x4 and 2"},
	{"a factor that is no scalar", large_factor, "scale: shapes 3x4 and 1x2"},
	{"softplus without a beta", no_beta, "softplus: a beta of 0"},
	{"harmonics of degree 4", high_degree, "spherical-harmonics: takes"},
	{"causal attention to more keys than queries", later_keys, "attention: shapes 1x4x6 and 1x5x6"},
	{"a grid of three features", odd_grid, "grid: takes three coordinates and a grid of possible sizes"},
	{"a stencil of five taps", five_taps, "stencil-points: 5 taps"},
	{"taps of other samples", other_taps, "stencil: shapes 2x3 and 4x2x4"},
	{"rays without an end", short_rays, "ray-samples: a ray has 9 numbers"},
	{"rendering of different samples", render_of_some,
		"render: the tensors are not of the same rays and samples"},
	{"values of another list", one_value, "merge: shapes 2x4 and 2x3"},
	{"as many weights as distances", weights_of_all, "inverse-cdf: shapes 2x4 and 2x4"},
};

static void test_refusals(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct program *program = program_new(device);
		struct graph *graph = graph_new(program, "train", true);
		int y = refused[i].build(graph), status = program_prepare(program);

		check_report(y == -1 && status == STATUS_CONFIG && strstr(error_message(), refused[i].words),
			refused[i].name, "tensor %d, status %d: %s", y, status, error_message());
		program_free(program);
	}
}

/* ---- gradients that are refused ---- */

static int to_a_distance(struct graph *graph)
{
	struct render render = {.distance = matrix(graph, "t", 2, 4),
		.sdf = matrix(graph, "sdf", 2, 4),
		.gradient = graph_input(graph, "g", TENSOR_F32, 3, (int64_t[]){2, 4, 3}),
		.colour = graph_input(graph, "c", TENSOR_F32, 3, (int64_t[]){2, 4, 3}),
		.slope = graph_parameter(graph, "slope", 1, (int64_t[]){1}, INITIAL_ONE, 0),
		.rays = matrix(graph, "rays", 2, RAY_NUMBERS),
		.background_distance = -1};

	graph_want_gradient(graph, render.distance);
	return graph_mse(graph, graph_render(graph, render).colour, matrix(graph, "target", 2, 3));
}

static int to_weights(struct graph *graph)
{
	int w = graph_ray_weights(graph, matrix(graph, "t", 2, 4),
		graph_linear(graph, matrix(graph, "x", 2, 3), "l", 4, false), 3);

	return graph_mean(graph, w);
}

static void check_no_gradient(const char *name, int (*build)(struct graph *graph), const char *words)
{
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "train", true);
	int status = graph_backward(graph, build(graph));

	check_report(status && program_prepare(program) == status && strstr(error_message(), words), name,
		"status %d: %s", status, error_message());
	program_free(program);
}

/* ---- statistics ---- */

/* Frozen by name they stay, though the batch's are used. */
static void test_frozen_statistics(void)
{
	static const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .decay = 0.5};
	static const struct step_scalars scalars = {.learning_rate = 0.1, .step = 1};
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "train", true);
	struct store *store = program_store(program);
	int x = matrix(graph, "x", 4, 2), other = matrix(graph, "other", 4, 2);
	int y = graph_batch_norm(graph, x, "bn1", (struct batch_norm){.epsilon = 1e-5, .momentum = 0.5}, -1);
	float values[8] = {1, 2, 3, 4, 5, 6, 7, 9}, mean[2] = {9, 9}, gamma[2] = {0};
	bool good;

	graph_linear(graph, other, "lonely", 3, false); /* reached by no loss */
	graph_output(graph, y);
	check(store_freeze(store, "*running_mean") == 1, "a statistic is frozen by its name");
	check_status(graph_backward(graph, graph_mse(graph, y, other)), 0,
		"a network with a frozen statistic is derived");
	program_update_rule(program, &rule);
	good = !program_prepare(program) && !store_initialise(store, 1) && !graph_write(graph, x, values) &&
	       !graph_write(graph, other, values) && !graph_run(graph) && !program_collect(program, 0, 1);
	store_export(store, 0, SLOT_VALUE, gamma);
	good = good && gamma[0] == 1 && !program_update(program, &scalars);
	check(good && !store_export(store, 2, SLOT_VALUE, mean) && mean[0] == 0 && mean[1] == 0,
		"it stays as it is");
	check(!store_export(store, 3, SLOT_VALUE, mean) && mean[0] > 1 && mean[1] > 1, "the other is learnt");
	check(!store_export(store, 0, SLOT_VALUE, mean) && mean[0] != 1, "weights are trained");
	program_free(program);
}

/* A parameter that no loss depends on is not updated, not even by decay. */
static void test_unreached(void)
{
	static const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .decay = 0.5};
	static const struct step_scalars scalars = {.learning_rate = 0.1, .step = 1};
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "train", true);
	struct store *store = program_store(program);
	int x = matrix(graph, "x", 1, 1), y = graph_linear(graph, x, "used", 1, false);
	float one = 1, values[2];
	bool good;

	graph_linear(graph, x, "lonely", 1, false);
	graph_backward(graph, graph_mse(graph, y, x));
	program_update_rule(program, &rule);
	good = !program_prepare(program) && !store_import(store, 0, SLOT_VALUE, &one) &&
	       !store_import(store, 1, SLOT_VALUE, &one) && !graph_write(graph, x, &one) &&
	       !graph_run(graph) && !program_collect(program, 0, 1) && !program_update(program, &scalars) &&
	       !store_export(store, 0, SLOT_VALUE, &values[0]) &&
	       !store_export(store, 1, SLOT_VALUE, &values[1]);
	check(good && values[0] == 0.95f && values[1] == 1, "what no loss depends on does not decay");
	program_free(program);
}

int main(void)
{
	struct device_settings settings = {.threads = 1, .isa = "auto"};

	if (cpu_backend.open(&settings, &device)) {
		check_report(false, "a device", "%s", error_message());
		return check_summary();
	}
	test_refusals();
	check_no_gradient(
		"a gradient to a distance", to_a_distance, "a distance or a ray would need a gradient");
	check_no_gradient(
		"a gradient through the weights of a ray", to_weights, "ray-weights is not differentiable");
	test_frozen_statistics();
	test_unreached();
	cpu_backend.close(device);
	return check_summary();
}
