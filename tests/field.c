/*
 * Neural surfaces: the vectors of single functions, and the tiny configuration T0 through six training steps and with one option
 * changed, against numbers that were computed apart from this project (spec/neuralangelo.md section 12).
 */
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "support/field.h"

static struct device *device;

/* ---- single functions ---- */

static void test_grid_levels(void)
{
	static const uint32_t resolutions[] = {
		32, 43, 56, 74, 98, 129, 169, 223, 295, 389, 513, 676, 892, 1177, 1553, 2049};
	static const struct hash_grid grid = {16, 8, 5, 11, 22, -2, 2};
	static const int entries[] = {18, 19, 20, 21, 22};
	static const size_t totals[] = {3695768, 6984576, 13168648, 24702984, 45724048};
	struct hash_level levels[HASH_LEVELS];
	bool good = true;
	float values[2000];

	hash_grid_levels(&grid, levels);
	for (int i = 0; i < 16; i++)
		good = good && levels[i].resolution == resolutions[i] && levels[i].dense == (i < 6);
	check(good, "resolutions of the levels, and which are dense");
	check(levels[15].scale == 2047.00073f && levels[15].first == 41529744 && levels[5].entries == 2146696,
		"the last level's scale and place, a dense level's size");
	for (int i = 0; i < 5; i++) {
		struct hash_grid other = grid;

		other.entries = entries[i];
		good = good && hash_grid_levels(&other, levels) == totals[i];
	}
	check(good, "rows of tables of several sizes");
	hash_grid_initialise(1337, values, 2000); /* four draws for each of 512 threads */
	check(values[0] == -7.04601262e-05f && values[512] == -5.79412153e-06f &&
			values[1024] == -6.52030722e-05f && values[1536] == -7.41764525e-05f &&
			values[1] == -3.40311526e-05f && values[513] == 5.66044037e-06f,
		"the table's first values are tiny-cuda-nn's");
}

/* Runs a graph without parameters of one input and one output. */
static void check_function(const char *name, int (*build)(struct graph *graph, int x), const float *x,
	int64_t rows, int64_t columns, const double *expected, size_t count, double tolerance)
{
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "function", false);
	int in = graph_input(graph, "x", TENSOR_F32, 2, (int64_t[]){rows, columns});
	int out = graph_output(graph, build(graph, in));
	float *values = memory_new(graph_elements(graph, out), sizeof(*values));
	struct step_scalars scalars = {.epsilon = 1.0 / 33, .anneal = 1};
	double worst = 0;
	bool good;

	program_set_scalars(program, &scalars);
	good = !program_prepare(program) && !graph_write(graph, in, x) && !graph_run(graph) &&
	       !graph_read(graph, out, values);
	for (size_t i = 0; i < count; i++)
		worst = fmax(worst, fabs(values[i] - expected[i]));
	check_report(good && worst <= tolerance, name, "off by %.3g %s", worst, good ? "" : error_message());
	free(values);
	program_free(program);
}

static int build_harmonics(struct graph *graph, int x)
{
	return graph_spherical_harmonics(graph, x, 3);
}

static int build_fourier(struct graph *graph, int x)
{
	return graph_fourier(graph, graph_inverse_sphere(graph, x), 2);
}

/* Distances, then weights behind them. */
static int build_inverse_cdf(struct graph *graph, int x)
{
	return graph_inverse_cdf(graph, graph_slice(graph, x, 0, 5), graph_slice(graph, x, 5, 4), 4);
}

static int build_bilinear(struct graph *graph, int x)
{
	return graph_resize(
		graph, graph_reshape(graph, x, 4, (int64_t[]){1, 4, 5, 1}), RESIZE_BILINEAR, 7, 3);
}

static int build_bicubic(struct graph *graph, int x)
{
	return graph_resize(graph, graph_reshape(graph, x, 4, (int64_t[]){1, 4, 5, 1}), RESIZE_BICUBIC, 2, 9);
}

/* PyTorch 2's interpolate() of sin(0.7 + 0.61 i) as 4 x 5. */
static void test_resize(void)
{
	static const double bilinear[] = {0.7515401, 0.93964547, 0.19245248, 0.23531465, 0.25870017,
		0.024582348, -0.59064608, -0.83081232, -0.24400987, -0.031733036, 0.0096246004, 0.041402164,
		0.54527516, 0.84457328, 0.3032054, -0.13592428, -0.28884515, -0.15425717, -0.56167394,
		-0.99723166, -0.44017128};
	static const double bicubic[] = {-0.053975034, -0.091457192, -0.1475788, -0.18796239, -0.19679533,
		-0.19082242, -0.15313435, -0.098835531, -0.06239154, 0.13530971, 0.15845975, 0.19036116,
		0.19907889, 0.17762683, 0.14281108, 0.081061569, 0.013297834, -0.030277642};
	float x[20];

	for (int i = 0; i < 20; i++)
		x[i] = (float)sin(0.7 + 0.61 * i);
	check_function("bilinear resizing", build_bilinear, x, 4, 5, bilinear, 21, 2e-7);
	check_function("bicubic resizing", build_bicubic, x, 4, 5, bicubic, 18, 3e-7);
}

static void test_functions(void)
{
	static const double harmonics[] = {0.28209479, 0.29316151, 0.31270561, -0.23452921, -0.31465395,
		0.4195386, 0.07216159, -0.33563088, -0.07079714, 0.11725346, -0.5327975, 0.2873904,
		-0.22736888, -0.22991232, -0.11987944, 0.2406245};
	static const double fourier[] = {
		0.6631227, 0.9927089, 0.7485107, 0.1205367, -0.8229839, -0.9350162, 0.5680646, -0.3546050};

	check_function("spherical harmonics", build_harmonics, (float[]){0.48f, -0.6f, 0.64f}, 1, 3,
		harmonics, 16, 2e-7);
	check_function("sines and cosines of the inverse sphere", build_fourier, (float[]){3, -4, 12}, 1, 3,
		fourier, 8, 3e-7);
	check_function("the inverse of a distribution", build_inverse_cdf,
		(float[]){0, 1, 2, 3, 4, 0.1f, 0.4f, 0.3f, 0}, 1, 9, (double[]){1, 1.5, 2, 8.0 / 3}, 4, 1e-6);
}

/* The four taps of |x| - 0.5 at (0.3, -0.2, 0.4). */
static void test_stencil(void)
{
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "stencil", false);
	int x = graph_input(graph, "x", TENSOR_F32, 3, (int64_t[]){1, 1, 3});
	int f = graph_input(graph, "f", TENSOR_F32, 2, (int64_t[]){1, 1});
	int taps = graph_input(graph, "taps", TENSOR_F32, 3, (int64_t[]){4, 1, 1});
	int points = graph_output(graph, graph_stencil_points(graph, x, 4));
	struct stencil stencil = graph_stencil(graph, f, taps);
	struct step_scalars scalars = {.epsilon = 1.0 / 33};
	float at[12], values[4], gradient[3], trace, middle = (float)(sqrt(0.29) - 0.5);
	bool good;

	graph_output(graph, stencil.gradient);
	graph_output(graph, stencil.trace);
	program_set_scalars(program, &scalars);
	good = !program_prepare(program) && !graph_write(graph, x, (float[]){0.3f, -0.2f, 0.4f}) &&
	       !graph_run(graph) && !graph_read(graph, points, at);
	for (int t = 0; t < 4; t++)
		values[t] =
			(float)(sqrt((double)at[3 * t] * at[3 * t] + (double)at[3 * t + 1] * at[3 * t + 1] +
					(double)at[3 * t + 2] * at[3 * t + 2]) -
				0.5);
	good = good && !graph_write(graph, f, &middle) && !graph_write(graph, taps, values) &&
	       !graph_run(graph) && !graph_read(graph, stencil.gradient, gradient) &&
	       !graph_read(graph, stencil.trace, &trace);
	check(good, "a stencil runs");
	check_close(gradient[0], 0.565861455, 4e-6, "gradient by four taps, x");
	check_close(gradient[1], -0.38476164, 4e-6, "gradient by four taps, y");
	check_close(gradient[2], 0.749076124, 4e-6, "gradient by four taps, z");
	check_close(trace, 3.657493614, 1e-3, "trace by four taps");
	program_free(program);
}

/* One sample on a ray along z: its weight is its opacity. */
static void test_opacity(void)
{
	static const struct {
		double sdf, along, extent, anneal, alpha;
	} cases[] = {{0.01, -0.8, 0.02, 1, 0.134659933}, {0.01, -0.8, 0.02, 0, 0.150172569},
		{-0.02, -1, 0.015, 1, 0.165096904}, {0.05, 0.3, 0.02, 0.5, 0.018671899}};
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "opacity", false);
	int64_t one[3] = {1, 1, 3};
	struct render render = {
		.rays = graph_input(graph, "rays", TENSOR_F32, 2, (int64_t[]){1, RAY_NUMBERS}),
		.distance = graph_input(graph, "t", TENSOR_F32, 2, one),
		.sdf = graph_input(graph, "sdf", TENSOR_F32, 2, one),
		.gradient = graph_input(graph, "gradient", TENSOR_F32, 3, one),
		.colour = graph_input(graph, "colour", TENSOR_F32, 3, one),
		.slope = graph_input(graph, "slope", TENSOR_F32, 1, one),
		.background_distance = -1};
	int weights = graph_output(graph, graph_render(graph, render).weights);
	double worst = 0;
	bool good = !program_prepare(program) && !graph_write(graph, render.slope, (float[]){3}) &&
		    !graph_write(graph, render.distance, (float[]){0}) &&
		    !graph_write(graph, render.colour, (float[]){1, 1, 1});

	for (int i = 0; i < 4; i++) {
		struct step_scalars scalars = {.anneal = cases[i].anneal};
		float sdf = (float)cases[i].sdf, alpha = 0;

		program_set_scalars(program, &scalars);
		good = good &&
		       !graph_write(graph, render.rays,
			       (float[]){0, 0, 0, 0, 0, 1, 0, (float)cases[i].extent, 1}) &&
		       !graph_write(graph, render.sdf, &sdf) &&
		       !graph_write(graph, render.gradient, (float[]){0, 0, (float)cases[i].along}) &&
		       !graph_run(graph) && !graph_read(graph, weights, &alpha);
		worst = fmax(worst, fabs(alpha - cases[i].alpha));
	}
	check_report(good && worst < 3e-7, "opacities from signed distances", "off by %.3g", worst);
	program_free(program);
}

/* ---- T0 ---- */

static const struct field t0 = {.grid = {4, 2, 2, 6, 11, -2, 2},
	.sdf_layers = 1,
	.sdf_hidden = 8,
	.colour_layers = 2,
	.colour_hidden = 8,
	.trunk_layers = 3,
	.trunk_hidden = 8,
	.trunk_skip = 1u << 1,
	.head_layers = 2,
	.head_hidden = 4,
	.fourier_levels = 2,
	.images = 3,
	.code = 2,
	.rays = 8,
	.coarse = 8,
	.fine = 4,
	.rounds = 2,
	.behind = 3,
	.taps = 4};

static double filler(uint32_t a, uint32_t b)
{
	uint32_t x = 2654435761u * a + 2246822519u * b + 374761393u;

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	x *= 3266489917u;
	x ^= x >> 16;
	return floor(x / 256) / 16777216;
}

/* The parameters in the original's order. */
static const char *const order[] = {"s_var", "appear_embed.weight", "appear_embed_outside.weight",
	"neural_sdf.tcnn_encoding.params", "neural_sdf.mlp.linears.0.", "neural_sdf.mlp.linears.1.",
	"neural_sdf.mlp.linears.2.", "neural_sdf.mlp.linear_sdf.", "neural_rgb.mlp.linears.0.",
	"neural_rgb.mlp.linears.1.", "neural_rgb.mlp.linears.2.", "background_nerf.mlp_feat.linears.0.",
	"background_nerf.mlp_feat.linears.1.", "background_nerf.mlp_feat.linears.2.",
	"background_nerf.mlp_rgb.linears.0.", "background_nerf.mlp_rgb.linears.1."};
#define LAYERS (sizeof(order) / sizeof(*order))
#define TENSORS 40

/* Indices in the store; returns how many. */
static int original_order(const struct store *store, int found[TENSORS])
{
	static const char *const normed[] = {"bias", "weight_g", "weight_v", NULL};
	static const char *const plain[] = {"weight", "bias", NULL};
	static const char *const lone[] = {"", NULL};
	int count = 0;

	for (size_t i = 0; i < LAYERS; i++) {
		bool layer = text_ends(order[i], ".");
		const char *const *part = !layer ? lone : strstr(order[i], "mlp.linears") ? normed : plain;

		for (; *part; part++) {
			char name[128];
			int at;

			snprintf(name, sizeof(name), "%s%s", order[i], *part);
			at = store_find(store, name);
			if (at >= 0)
				found[count++] = at;
		}
	}
	return count;
}

static double centre_of(const char *name)
{
	if (!strcmp(name, "s_var"))
		return 3;
	if (strstr(name, "linear_sdf.bias"))
		return -0.5;
	return strstr(name, "linear_sdf.weight") || strstr(name, "weight_g");
}

static double width_of(const char *name)
{
	if (!strcmp(name, "s_var") || strstr(name, "linear_sdf.bias"))
		return 0;
	if (strstr(name, "linear_sdf.weight") || strstr(name, "weight_g"))
		return 0.25;
	if (strstr(name, "params") || text_ends(name, "bias"))
		return 0.1;
	return strstr(name, "background_nerf") ? 0.5 : 1;
}

static int fill_parameters(struct store *store)
{
	int found[TENSORS], count = original_order(store, found), status = STATUS_OK;

	for (int p = 0; p < count && !status; p++) {
		const struct parameter *parameter = store_parameter(store, (size_t)found[p]);
		float *values = memory_new(parameter->count, sizeof(*values));

		for (size_t i = 0; i < parameter->count; i++)
			values[i] = (float)(centre_of(parameter->name) +
					    width_of(parameter->name) *
						    (2 * filler((uint32_t)p, (uint32_t)i) - 1));
		status = store_import(store, (size_t)found[p], SLOT_VALUE, values);
		free(values);
	}
	return status;
}

/* World-to-camera of the two images: rotation rows, translation. */
static const double cameras[2][12] = {
	{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 2.5}, {0.6, 0, -0.8, 0, 1, 0, 0.8, 0, 0.6, 0, -0.25, 2.5}};

/* The ray of a pixel by K = [[5, .5, 3.25], [0, 4, 2], [0, 0, 1]], and where it meets the unit sphere. */
static void make_ray(int image, int pixel, float ray[RAY_NUMBERS])
{
	const double *camera = cameras[image];
	double v = (pixel / 6 + 0.5 - 2) / 4, u = (pixel % 6 + 0.5 - 3.25 - 0.5 * v) / 5;
	double direction[3], length = 0, along = 0, square = 0, root;

	for (int axis = 0; axis < 3; axis++) {
		direction[axis] = camera[axis] * u + camera[3 + axis] * v + camera[6 + axis];
		ray[axis] = (float)-(camera[axis] * camera[9] + camera[3 + axis] * camera[10] +
				     camera[6 + axis] * camera[11]);
		length += direction[axis] * direction[axis];
	}
	for (int axis = 0; axis < 3; axis++) {
		ray[3 + axis] = (float)(direction[axis] / sqrt(length));
		along += (double)ray[axis] * ray[3 + axis];
		square += (double)ray[axis] * ray[axis];
	}
	root = along * along - (square - 1);
	ray[8] = root >= 0;
	ray[6] = root >= 0 ? (float)fmax(-along - sqrt(root), 0) : 1;
	ray[7] = root >= 0 ? (float)(-along + sqrt(root)) : 1.2f;
}

struct training {
	struct program *program;
	struct field field;
	struct field_samples samples;
	struct field_graph graph;
	float distance[8 * 16];
	int found[TENSORS], count;
};

static int training_init(struct training *t, const struct field *field)
{
	static const int pixels[2][4] = {{14, 8, 0, 9}, {15, 20, 13, 5}};
	static const struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 1e-2};
	float rays[8][RAY_NUMBERS], target[8 * 3];
	int32_t image[8];
	int status;

	*t = (struct training){.program = program_new(device), .field = *field};
	t->samples = field_add_samples(t->program, field);
	t->graph = field_add_graph(t->program, field, true);
	program_update_rule(t->program, &rule);
	status = program_prepare(t->program);
	for (int r = 0; r < 8; r++) {
		make_ray(r / 4, pixels[r / 4][r % 4], rays[r]);
		image[r] = r / 4 * 2;
		for (int c = 0; c < 3; c++)
			target[3 * r + c] =
				(float)filler(100 + (uint32_t)(r / 4), (uint32_t)(3 * (r % 4) + c));
	}
	if (!status)
		status = fill_parameters(program_store(t->program)) ||
			 graph_write(t->samples.graph, t->samples.rays, rays) ||
			 graph_write(t->graph.graph, t->graph.rays, rays) ||
			 graph_write(t->graph.graph, t->graph.target, target) ||
			 (field->code && graph_write(t->graph.graph, t->graph.image, image));
	t->count = original_order(program_store(t->program), t->found);
	return status;
}

/* What a schedule says of an iteration. */
struct iteration {
	double anneal, epsilon, weight;
	int active;
};

/* Samples, renders and derives. */
static int training_run(struct training *t, int it, const struct iteration *at)
{
	struct step_scalars scalars = {
		.step = it + 1, .anneal = at->anneal, .epsilon = at->epsilon, .active_levels = at->active};
	float weight = (float)at->weight;

	program_set_scalars(t->program, &scalars);
	return graph_run(t->samples.graph) ||
	       graph_read(t->samples.graph, t->samples.distance, t->distance) ||
	       graph_write(t->graph.graph, t->graph.distance, t->distance) ||
	       graph_write(t->graph.graph, t->graph.curvature_weight, &weight) || graph_run(t->graph.graph) ||
	       program_collect(t->program, 0, 1);
}

static double scalar(const struct training *t, int tensor)
{
	float value = NAN;

	graph_read(t->graph.graph, tensor, &value);
	return value;
}

static double tensor_norm(const struct training *t, int p)
{
	struct store *store = program_store(t->program);
	size_t count = store_parameter(store, (size_t)t->found[p])->count;
	float *gradient = memory_new(count, sizeof(*gradient));
	double sum = 0;

	store_export(store, (size_t)t->found[p], SLOT_GRADIENT, gradient);
	for (size_t i = 0; i < count; i++)
		sum += (double)gradient[i] * gradient[i];
	free(gradient);
	return sqrt(sum);
}

/* Worst relative error of the rows' tensors' gradients. */
static void check_norms(const struct training *t, const double *expected, double tolerance, const char *name)
{
	double worst = 0;
	int where = -1;

	for (int p = 0; p < t->count; p++) {
		double error = fabs(tensor_norm(t, p) / expected[p] - 1);

		if (error > worst || isnan(error)) {
			worst = error;
			where = p;
		}
	}
	check_report(worst <= tolerance, name, "tensor %d is off by %.3g of itself", where, worst);
}

static void check_values(
	const char *name, const float *values, const double *expected, size_t count, double tolerance)
{
	double worst = 0;

	for (size_t i = 0; i < count; i++)
		worst = fmax(worst, fabs(values[i] - expected[i]));
	check_report(worst <= tolerance, name, "off by %.3g", worst);
}

static void check_samples(struct training *t)
{
	static const double coarse[] = {
		-.0485268, -.219285, -.302449, -.144751, .0773226, .36332, .656873, .861431};
	static const double first[] = {1.69235, 1.69592, 1.70305, 1.71018, 1.71732, 1.71938, 1.77344, 1.8275,
		1.88156, 1.90855, 2.12476, 2.34096, 2.55716, 2.77337, 2.98957, 3.20577};
	static const double fourth[] = {1.65499, 1.88955, 2.1241, 2.15136, 2.16455, 2.19136, 2.21061, 2.22002,
		2.25336, 2.26986, 2.32911, 2.35866, 2.59322, 2.82777, 3.06233, 3.29689};
	static const double fifth[] = {1.72636, 1.93254, 2.13872, 2.3449, 2.55108, 2.75726, 2.96344, 3.16962,
		3.16962, 3.16962, 3.16962, 3.16962, 3.16962, 3.16962, 3.16962, 3.16962};
	float sdf[64];

	check_values("samples of ray 0", t->distance, first, 16, 6e-6);
	check_values("samples of ray 3", t->distance + 3 * 16, fourth, 16, 1.2e-5);
	check_values("samples of ray 4, where nothing has weight", t->distance + 4 * 16, fifth, 16, 6e-6);
	graph_run(t->samples.graph);
	graph_read(t->samples.graph, t->samples.coarse, sdf);
	check_values("signed distances of the first samples", sdf, coarse, 8, 1e-6);
}

static void check_rendering(struct training *t)
{
	static const double colours[] = {.535807, .398927, .383249, .530346, .394021, .382856, .524303,
		.497972, .482582, .530170, .406433, .390241, .477787, .494049, .460092, .447266, .530559,
		.438598, .426871, .551589, .418278, .379905, .545406, .421155};
	static const double gradient[] = {.972926, -.0612104, -.741572};
	float values[8 * 16 * 3];

	graph_read(t->graph.graph, t->graph.colour, values);
	check_values("colours of the rays", values, colours, 24, 2e-6);
	graph_read(t->graph.graph, t->graph.gradient, values);
	check_values("gradient of the first sample", values, gradient, 3, 3e-6);
	graph_read(t->graph.graph, t->graph.trace, values);
	check_close(values[0], 2.97703, 1e-4, "trace of the first sample");
	graph_read(t->graph.graph, t->graph.weights, values);
	check_close(values[0], .0479304, 1e-6, "opacity of the first sample");
}

static const double first_norms[] = {.00451143, .0149155, .00389805, .0410746, .055171, .0233759, .0365076,
	.0145226, .00177096, .00239301, .0230070, .0239967, .0612199, .0241641, .0294804, .102144, .0256584,
	.0295579, .100102, .0180705, .0215453, .0242229, .00723161, .0341374, .00917783, .0456482, .0272479,
	.0480096, .0232931, .0572854, .0872037};
static const double last_norms[] = {.0038550, .0123960, .00341218, .088971, .0855264, .0239015, .0391061,
	.0133956, .00180318, .00262074, .0225674, .0376368, .0436783, .0222274, .0238882, .0772867, .0224856,
	.028536, .0828148, .0154049, .0201587, .0242456, .00486102, .0333818, .00516091, .0407804, .0219311,
	.0450957, .0174165, .0596199, .0905409};

static void check_table_gradient(struct training *t)
{
	struct store *store = program_store(t->program);
	const float *table = store_data(store, (size_t)t->found[3], SLOT_GRADIENT);
	size_t count = store_parameter(store, (size_t)t->found[3])->count, used = 0;

	for (size_t i = 0; i < count; i++)
		used += table[i] != 0;
	check_report(used == 262, "elements of the table with a gradient", "%zu", used);
	check_close(table[1724], .01452, 6e-6, "the table's largest gradient");
	check_close(table[1748], -.01419, 6e-6, "its second largest");
	check_close(table[84], .01381, 6e-6, "its third largest");
}

static void test_training(void)
{
	static const struct {
		struct iteration at;
		double rate, render, eikonal, curvature, total, norm;
	} rows[] = {{{0, 1.0 / 5, 0, 2}, 0, 0.7534935, 0.131973, 1.482786, 0.7666908, 0.2337071},
		{{0.1, 1.0 / 5, 2.5e-4, 2}, 5e-4, 0.7530736, 0.131973, 1.482786, 0.7666416, 0.2337009},
		{{0.2, 1.0 / 5, 5e-4, 2}, 1e-3, 0.7510596, 0.129267, 1.48529, 0.7647289, 0.2332903},
		{{0.3, 1.0 / 5, 5e-4, 2}, 1e-3, 0.7474864, 0.124017, 1.49034, 0.7606333, 0.2305240},
		{{0.4, 1.0 / 11, 1.98425e-4, 2}, 1e-3, 0.7442571, 0.123292, 1.4755, 0.7568792, 0.2249528},
		{{0.5, 1.0 / 26, 7.87451e-5, 3}, 1e-3, 0.7389633, 0.142249, 3.2173, 0.7534416, 0.235329}};
	struct training t;
	double worst[5] = {0}, norm = 0;
	int status = training_init(&t, &t0);

	check_report(t.count == 31, "T0 has 31 tensors", "%d", t.count);
	for (int it = 0; it < 6 && !status; it++) {
		struct step_scalars scalars = {.learning_rate = rows[it].rate, .step = it + 1};

		status = training_run(&t, it, &rows[it].at) || program_gradient_norm(t.program, &norm);
		if (!status && it == 0) {
			check_samples(&t);
			check_rendering(&t);
			check_norms(&t, first_norms, 3e-5, "gradients of all tensors in the first step");
			check_table_gradient(&t);
		}
		if (!status && it == 5)
			check_norms(&t, last_norms, 1e-4, "gradients of all tensors in the sixth step");
		worst[0] = fmax(worst[0], fabs(scalar(&t, t.graph.render) / rows[it].render - 1));
		worst[1] = fmax(worst[1], fabs(scalar(&t, t.graph.eikonal) / rows[it].eikonal - 1));
		worst[2] = fmax(worst[2], fabs(scalar(&t, t.graph.curvature) / rows[it].curvature - 1));
		worst[3] = fmax(worst[3], fabs(scalar(&t, t.graph.total) / rows[it].total - 1));
		worst[4] = fmax(worst[4], fabs(norm / rows[it].norm - 1));
		if (!status)
			status = program_update(t.program, &scalars);
	}
	check_status(status, 0, "six steps of T0");
	check_report(worst[0] < 3e-7, "render loss of six steps", "off by %.3g of itself", worst[0]);
	check_report(worst[1] < 1e-5, "eikonal loss", "off by %.3g of itself", worst[1]);
	check_report(worst[2] < 3e-5, "curvature loss", "off by %.3g of itself", worst[2]);
	check_report(worst[3] < 3e-7, "their sum", "off by %.3g of itself", worst[3]);
	check_report(worst[4] < 5e-6, "norm of the gradient", "off by %.3g of itself", worst[4]);
	program_free(t.program);
}

/* ---- T0 at points, one of them outside the cube, where rows wrap ---- */

static const float places[3][3] = {{0.3f, -0.2f, 0.4f}, {-0.7f, 0.1f, 0.05f}, {1.9f, -1.95f, 2.1f}};

/* Signed distance, gradient and trace of a point. */
struct at_point {
	double sdf, gradient[3], trace;
};

static void check_points(int taps, const struct iteration *at, const struct at_point *expected,
	double tolerance, double trace_tolerance, const char *name)
{
	struct step_scalars scalars = {.step = 1, .epsilon = at->epsilon, .active_levels = at->active};
	struct field field = t0;
	struct training t;
	float rays[8][RAY_NUMBERS], distance[8 * 16] = {0}, sdf[8 * 16], gradient[8 * 16 * 3], trace[8 * 16];
	double worst = 0, worst_trace = 0;
	int status;

	field.taps = taps;
	status = training_init(&t, &field);
	for (int r = 0; r < 8; r++) {
		const float *p = places[r % 3], ray[RAY_NUMBERS] = {p[0], p[1], p[2], 0.6f, 0, 0.8f, 0, 1, 1};

		memcpy(rays[r], ray, sizeof(ray));
	}
	program_set_scalars(t.program, &scalars);
	if (!status)
		status = graph_write(t.graph.graph, t.graph.rays, rays) ||
			 graph_write(t.graph.graph, t.graph.distance, distance) || graph_run(t.graph.graph) ||
			 graph_read(t.graph.graph, t.graph.sdf, sdf) ||
			 graph_read(t.graph.graph, t.graph.gradient, gradient) ||
			 graph_read(t.graph.graph, t.graph.trace, trace);
	for (int k = 0; k < 3 && !status; k++) {
		worst = fmax(worst, fabs(sdf[16 * k] - expected[k].sdf));
		for (int axis = 0; axis < 3; axis++)
			worst = fmax(worst, fabs(gradient[48 * k + axis] - expected[k].gradient[axis]));
		worst_trace = fmax(worst_trace, fabs(trace[16 * k] - expected[k].trace));
	}
	check_report(!status && worst <= tolerance && worst_trace <= trace_tolerance, name,
		"off by %.3g, trace %.3g", worst, worst_trace);
	program_free(t.program);
}

static void test_points(void)
{
	static const struct iteration coarse = {.epsilon = 1.0 / 5, .active = 2},
				      fine = {.epsilon = 1.0 / 26, .active = 3};
	static const struct at_point four[] = {{-0.0444738, {0.684570, 0.711518, 0.751873}, 7.27319},
		{0.0682859, {-0.474649, 0.891944, 0.948875}, 1.33474},
		{0.8645271, {0.925462, 0.253499, 0.155864}, 4.96567}};
	static const struct at_point six[] = {{-0.0444738, {0.552814, 0.870493, 0.637988}, 7.32974},
		{0.0682859, {-0.488392, 0.927245, 0.985486}, 0.96214},
		{0.8645271, {0.644458, 0.282658, 0.196914}, 5.52424}};
	static const struct at_point fine_four[] = {{-0.0280063, {0.776951, 0.497113, 0.866285}, 2.22272},
		{0.1343831, {-0.644434, 0.862395, 1.323252}, -41.19584},
		{0.8463030, {1.208526, -0.341782, 0.308708}, 11.09747}};
	static const struct at_point fine_six[] = {{-0.0280063, {0.583770, 0.454303, 0.751137}, 8.46343},
		{0.1343831, {-0.572793, 0.876601, 1.344509}, -22.62506},
		{0.8463030, {1.139520, -0.320982, 0.163539}, 13.94130}};

	check_points(4, &coarse, four, 2e-6, 5e-5, "points by four taps, two levels");
	check_points(6, &coarse, six, 2e-6, 2e-5, "points by six taps, two levels");
	check_points(4, &fine, fine_four, 8e-6, 1.5e-3, "points by four taps, three levels");
	check_points(6, &fine, fine_six, 8e-6, 8e-4, "points by six taps, three levels");
}

/* ---- one option changed: the fourth step from the initial values ---- */

struct variant {
	const char *name;
	void (*change)(struct field *field);
	int tensors;
	size_t parameters;
	double render, eikonal, curvature, total, norm;
	double tolerance; /* 6e-3 where a ray's weights are of the size of rounding */
	bool fine;        /* all levels and the smallest epsilon */
};

static void keep(struct field *field)
{
	(void)field;
}

static void use_six(struct field *field)
{
	field->taps = 6;
}

static void drop_background(struct field *field)
{
	field->behind = 0;
}

static void make_white(struct field *field)
{
	field->behind = 0;
	field->white = true;
}

static void drop_codes(struct field *field)
{
	field->code = 0;
}

static void deepen(struct field *field)
{
	field->sdf_layers = 2;
	field->sdf_skip = field->colour_skip = 1u << 1;
}

static const struct variant variants[] = {
	{"T0", keep, 31, 12184, 0.751941, 0.131973, 1.48279, 0.765880, 0.233237, 6e-6, false},
	{"six taps", use_six, 31, 12184, 0.751349, 0.128789, 1.43265, 0.764944, 0.218675, 3e-5, false},
	{"no background", drop_background, 20, 11574, 1.170320, 0.059805, 2.05180, 1.177326, 3.23551, true,
		false},
	{"no background, white", make_white, 20, 11574, 1.168400, 0.059805, 2.05180, 1.175407, 0.782881, true,
		false},
	{"no codes", drop_codes, 29, 12148, 0.707538, 0.200761, 1.82582, 0.728527, 0.200517, 1e-5, false},
	{"all levels", keep, 31, 12184, 0.747796, 1.09270, 29.518, 0.871825, 1.27841, 5e-4, true},
	{"deeper, with skips", deepen, 34, 12608, 0.740901, 0.037034, 1.26001, 0.745235, 0.178506, true,
		false},
};

static double relative(double value, double expected)
{
	return fabs(value / expected - 1);
}

static void test_variant(const struct variant *v)
{
	struct iteration at = {0.3, 1.0 / 5, 5e-4, 2};
	struct field field = t0;
	struct training t;
	size_t parameters = 0;
	double norm = 0, error;
	char name[128];
	int status;

	if (v->fine)
		at = (struct iteration){0.3, 1.0 / 64, 5e-4, 0};
	v->change(&field);
	status = training_init(&t, &field);
	if (!status)
		status = training_run(&t, 3, &at) || program_gradient_norm(t.program, &norm);
	for (int p = 0; p < t.count; p++)
		parameters += store_parameter(program_store(t.program), (size_t)t.found[p])->count;
	error = fmax(fmax(relative(scalar(&t, t.graph.render), v->render),
			     relative(scalar(&t, t.graph.total), v->total)),
		fmax(fmax(relative(scalar(&t, t.graph.eikonal), v->eikonal),
			     relative(scalar(&t, t.graph.curvature), v->curvature)),
			relative(norm, v->norm)));
	snprintf(name, sizeof(name), "one step: %s", v->name);
	check_report(!status && t.count == v->tensors && parameters == v->parameters && error <= v->tolerance,
		name, "%d tensors, %zu parameters, off by %.3g of itself", t.count, parameters, error);
	program_free(t.program);
}

int main(void)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};

	if (cpu_backend.open(&settings, &device)) {
		check_report(false, "a device", "%s", error_message());
		return check_summary();
	}
	test_grid_levels();
	test_functions();
	test_resize();
	test_stencil();
	test_opacity();
	test_training();
	test_points();
	for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++)
		test_variant(&variants[i]);
	cpu_backend.close(device);
	return check_summary();
}
