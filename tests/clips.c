/*
 * The operations of networks over clips: small vectors made by PyTorch in double precision, and a small network of the
 * 3D-ResNets' kind through ten steps of SGD (golden/clips.py says how its numbers were made).
 */
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "support/golden.h"
#include "support/reference.h"

/*
 * What single precision may differ from the double precision of the golden numbers: a few times what PyTorch's own differs,
 * and where that is small, what sums of a few hundred terms explain. The reference back end computes in double: what is left
 * is the rounding of the golden numbers.
 */
#define ROUNDING_FACTOR 5
#define ROUNDING_FLOOR 3e-6
#define REFERENCE_LIMIT 3e-7

/* ---- one operation with a given gradient ---- */

/* y of x, and the gradients for a given dy: the loss is the mean of y * dy times their number, by two squares. */
struct lone {
	struct device *device;
	struct program *program;
	struct graph *graph;
};

static struct graph *lone_open(struct lone *lone, bool training)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};

	*lone = (struct lone){0};
	if (cpu_backend.open(&settings, &lone->device))
		return NULL;
	lone->program = program_new(lone->device);
	lone->graph = graph_new(lone->program, "lone", training);
	return lone->graph;
}

static void lone_close(struct lone *lone)
{
	program_free(lone->program);
	lone->device->backend->close(lone->device);
}

/* A loss whose gradient of y is dy: half the mean square of y - (y - n dy), the second factor held fixed as a target. */
static int given_gradient(struct lone *lone, int y, int *target)
{
	struct tensor shape = lone->graph->tensors[y];

	*target = graph_input(lone->graph, "target", TENSOR_F32, shape.dims, shape.dim);
	return graph_scale(lone->graph, graph_mse(lone->graph, y, *target), 0.5);
}

/* Prepares, writes, and runs twice: the first run tells y, from which the target of the second follows. */
static int lone_run(struct lone *lone, int y, int target, int (*write)(struct lone *lone), const float *dy)
{
	size_t count = graph_elements(lone->graph, y);
	float *values = memory_new(count, sizeof(*values));
	int status = program_prepare(lone->program);

	if (!status)
		status = write(lone);
	if (!status)
		status = graph_run(lone->graph);
	if (!status)
		status = graph_read(lone->graph, y, values);
	for (size_t i = 0; i < count; i++)
		values[i] -= (float)count * dy[i];
	if (!status)
		status = graph_write(lone->graph, target, values);
	if (!status)
		status = graph_run(lone->graph);
	free(values);
	return status;
}

/* Input `x` of the graph, always its first tensor. */
static int write_x(struct lone *lone, float (*value)(size_t i))
{
	size_t count = graph_elements(lone->graph, 0);
	float *values = memory_new(count, sizeof(*values));
	int status;

	for (size_t i = 0; i < count; i++)
		values[i] = value(i);
	status = graph_write(lone->graph, 0, values);
	free(values);
	return status;
}

static void check_values(struct lone *lone, int tensor, const double *expected, size_t count,
	double tolerance, const char *name)
{
	float values[128];
	double worst = 0;

	if (graph_elements(lone->graph, tensor) > 128 || graph_read(lone->graph, tensor, values)) {
		check_report(false, name, "%s", error_message());
		return;
	}
	for (size_t i = 0; i < count; i++)
		worst = fmax(worst, fabs(values[i] - expected[i]));
	check_report(worst <= tolerance, name, "off by %.3g", worst);
}

static double total(struct lone *lone, int tensor)
{
	float values[128];
	double sum = 0;

	if (graph_read(lone->graph, tensor, values))
		return NAN;
	for (size_t i = 0; i < graph_elements(lone->graph, tensor); i++)
		sum += values[i];
	return sum;
}

/* ---- convolution and pooling: exact integers ---- */

static const float ramp[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* 1x2x3x4x5 in NCDHW: channels last, flat index i = c 60 + position. */
static float convolution_x(size_t i)
{
	return (float)((int)((i % 2 * 60 + i / 2) % 7) - 3);
}

static int write_convolution(struct lone *lone)
{
	struct store *store = program_store(lone->program);
	float weight[54];
	int status = write_x(lone, convolution_x);

	for (int i = 0; i < 54; i++)
		weight[i] = (float)(i % 5 - 2);
	return status ? status : store_import(store, 0, SLOT_VALUE, weight);
}

static void test_convolution(void)
{
	static const double y[] = {-24, 6, 2, 35, 23, -27, 15, -33, -1, -29, 46, 24};
	static const double dw[] = {-14, 19, -13, -9, 42, -7, -33, -16, -30};
	static const double dx[] = {1, 2, 2, 4, 3, -9, 2, -12, 1, -15};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 3, 4, 5, 2}), target;
	int out = graph_output(graph, graph_convolution(graph, x, "conv",
					      (struct convolution){.out = 1,
						      .kernel = {3, 3, 3},
						      .stride = {2, 2, 2},
						      .pad_before = {1, 1, 1},
						      .pad_after = {1, 1, 1}}));
	float gradient[54], dx_of[120];
	double worst = 0, sum = 0;

	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	check_status(lone_run(&lone, out, target, write_convolution, ramp), 0, "a 3D convolution runs");
	check_values(&lone, out, y, 12, 0, "3D convolution with stride 2: integers are exact");
	store_export(program_store(lone.program), 0, SLOT_GRADIENT, gradient);
	for (int i = 0; i < 54; i++)
		sum += gradient[i];
	for (int i = 0; i < 9; i++)
		worst = fmax(worst, fabs(gradient[i] - dw[i]));
	check_report(worst < 2e-4 && fabs(sum + 26) < 2e-3, "its weight gradient", "off by %.3g, sum %.9g",
		worst, sum);
	graph_read(graph, graph_gradient(graph, x), dx_of);
	worst = sum = 0;
	for (int i = 0; i < 120; i++)
		sum += dx_of[i];
	for (int i = 0; i < 10; i++)
		worst = fmax(worst, fabs(dx_of[2 * i] - dx[i]));
	check_report(worst < 2e-4 && fabs(sum - 13) < 2e-3, "its data gradient", "off by %.3g, sum %.9g",
		worst, sum);
	lone_close(&lone);
}

/* Two groups of one channel each; what was flat over [channel][position] lies as [position][channel]. */
static void test_grouped_convolution(void)
{
	static const int y[2][12] = {{-16, -1, 5, 3, 38, -20, 22, -21, -2, -13, -2, 32},
		{-8, 7, -3, 32, -15, -7, -7, -12, 1, -16, 48, -8}};
	static const double dw[] = {-14, 19, -13, -9, 42, -7, -33, -16, -30};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 3, 4, 5, 2}), target;
	int out = graph_output(graph, graph_convolution(graph, x, "conv",
					      (struct convolution){.out = 2,
						      .kernel = {3, 3, 3},
						      .stride = {2, 2, 2},
						      .pad_before = {1, 1, 1},
						      .pad_after = {1, 1, 1},
						      .groups = 2}));
	float dy[24], gradient[54], dx[120];
	double expected[24], worst = 0, sum = 0, sum_x = 0;

	for (int i = 0; i < 24; i++) {
		dy[i] = (float)(i % 2 * 12 + i / 2 + 1);
		expected[i] = y[i % 2][i / 2];
	}
	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	check_status(lone_run(&lone, out, target, write_convolution, dy), 0, "a grouped convolution runs");
	check_values(&lone, out, expected, 24, 0, "grouped convolution: integers are exact");
	store_export(program_store(lone.program), 0, SLOT_GRADIENT, gradient);
	graph_read(graph, graph_gradient(graph, x), dx);
	for (int i = 0; i < 54; i++)
		sum += gradient[i];
	for (int i = 0; i < 9; i++)
		worst = fmax(worst, fabs(gradient[i] - dw[i]));
	for (int i = 0; i < 120; i++)
		sum_x += dx[i];
	check_report(worst < 2e-4 && fabs(sum - 58) < 2e-3 && fabs(sum_x - 181) < 2e-3, "its gradients",
		"off by %.3g, sums %.9g and %.9g", worst, sum, sum_x);
	lone_close(&lone);
}

static float sevens(size_t i)
{
	return (float)(7 * i % 11);
}

static int write_sevens(struct lone *lone)
{
	return write_x(lone, sevens);
}

static float count_up(size_t i)
{
	return (float)i;
}

static int write_count(struct lone *lone)
{
	return write_x(lone, count_up);
}

static float nothing(size_t i)
{
	(void)i;
	return 0;
}

static int write_nothing(struct lone *lone)
{
	return write_x(lone, nothing);
}

static void test_max_pool(void)
{
	static const struct pool window = {
		.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .pad_before = {1, 1, 1}, .pad_after = {1, 1, 1}};
	static const double y[] = {9, 10, 10, 9, 10, 9, 10, 10, 9};
	static const double dx[36] = {[3] = 5, [6] = 5, [14] = 5, [17] = 6, [25] = 15, [28] = 9};
	static const double first[16] = {[0] = 1, [1] = 1, [4] = 1, [5] = 1};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 1, 6, 6, 1}), target;
	int out = graph_output(graph, graph_max_pool(graph, x, window));

	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	check_status(lone_run(&lone, out, target, write_sevens, ramp), 0, "a max pool runs");
	check_values(&lone, out, y, 9, 0, "max pool: values");
	check_values(&lone, graph_gradient(graph, x), dx, 36, 2e-5, "max pool: gradients go to the largest");
	lone_close(&lone);

	graph = lone_open(&lone, true);
	x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 1, 4, 4, 1});
	out = graph_output(graph, graph_max_pool(graph, x, window));
	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	check_status(
		lone_run(&lone, out, target, write_nothing, (float[]){1, 1, 1, 1}), 0, "a max pool of zeros");
	check_values(&lone, graph_gradient(graph, x), first, 16, 0, "max pool: of equals the first gets it");
	lone_close(&lone);
}

static void test_average_pool(void)
{
	static const double dx[27] = {[0] = 0.125,
		[1] = 0.125,
		[3] = 0.125,
		[4] = 0.125,
		[9] = 0.125,
		[10] = 0.125,
		[12] = 0.125,
		[13] = 0.125};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 3, 3, 3, 1}), target;
	int out = graph_output(graph, graph_average_pool(graph, x, (struct pool){.kernel = {2, 2, 2}}));

	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	check_status(lone_run(&lone, out, target, write_count, ramp), 0, "an average pool runs");
	check_values(&lone, out, (double[]){6.5}, 1, 0, "average pool: a value");
	check_values(&lone, graph_gradient(graph, x), dx, 27, 1e-6, "average pool: gradients");
	lone_close(&lone);
}

/* Every second position and a zero channel behind (the shortcut without parameters). */
static void test_subsample(void)
{
	static const double y[16] = {1, 0, 3, 0, 7, 0, 9, 0, 19, 0, 21, 0, 25, 0, 27, 0};
	struct lone lone;
	struct graph *graph = lone_open(&lone, false);
	int x = graph_input(graph, "x", TENSOR_F32, 5, (int64_t[]){1, 3, 3, 3, 1});
	int out = graph_output(graph, graph_subsample(graph, x, (int[]){2, 2, 2}, 2));
	float values[27];

	for (int i = 0; i < 27; i++)
		values[i] = (float)(i + 1);
	check(!program_prepare(lone.program) && !graph_write(graph, x, values) && !graph_run(graph),
		"a shortcut runs");
	check_values(&lone, out, y, 16, 0, "shortcut: every second position, zeros behind");
	lone_close(&lone);
}

/* ---- batch norm and its running statistics ---- */

static int write_batch(struct lone *lone)
{
	struct store *store = program_store(lone->program);
	float values[8];

	for (int i = 0; i < 8; i++)
		values[i] = (float)(i + 1);
	return graph_write(lone->graph, 0, values) || store_import(store, 0, SLOT_VALUE, (float[]){1.5f}) ||
	       store_import(store, 1, SLOT_VALUE, (float[]){0.5f}) ||
	       store_import(store, 3, SLOT_VALUE, (float[]){1});
}

static void test_batch_norm(void)
{
	static const double y[] = {-1.79128567, -1.13663262, -0.481979571, 0.172673476, 0.827326524,
		1.48197957, 2.13663262, 2.79128567};
	static const double dx[] = {0.600098263, -0.109109101, -0.163663418, -0.218217734, -0.272772051,
		-0.327326368, -0.381880684, 0.872871093};
	static const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD};
	static const struct step_scalars scalars = {.learning_rate = 0, .step = 1};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 2, (int64_t[]){8, 1}), target;
	int out = graph_output(graph,
		graph_batch_norm(graph, x, "bn", (struct batch_norm){.epsilon = 1e-5, .momentum = 0.1}, -1));
	struct store *store = program_store(lone.program);
	float gamma, beta, mean, variance;

	graph_want_gradient(graph, x);
	graph_backward(graph, given_gradient(&lone, out, &target));
	program_update_rule(lone.program, &rule);
	check_status(lone_run(&lone, out, target, write_batch, (float[]){1, 0, 0, 0, 0, 0, 0, 2}), 0,
		"a batch norm runs");
	check_values(&lone, out, y, 8, 1e-6, "batch norm: values");
	check_values(&lone, graph_gradient(graph, x), dx, 8, 2e-6, "batch norm: gradient of the input");
	store_export(store, 0, SLOT_GRADIENT, &gamma);
	store_export(store, 1, SLOT_GRADIENT, &beta);
	check_close(gamma, 1.52752378, 2e-6, "batch norm: gradient of the weight");
	check_close(beta, 3, 2e-6, "batch norm: gradient of the bias");
	check_status(program_collect(lone.program, 0, 1) || program_update(lone.program, &scalars), 0,
		"its update");
	store_export(store, 2, SLOT_VALUE, &mean);
	store_export(store, 3, SLOT_VALUE, &variance);
	check_close(mean, 0.45, 1e-7, "the running mean");
	check_close(variance, 1.5, 2e-7, "the running variance is unbiased");
	check(!strcmp(store_parameter(store, 2)->name, "bn.running_mean") &&
			!strcmp(store_parameter(store, 3)->name, "bn.running_var"),
		"statistics have PyTorch's names");
	check(store_keeps(store, 0, SLOT_GRADIENT) && !store_keeps(store, 2, SLOT_MOMENT1),
		"statistics have no moments");
	lone_close(&lone);
}

/* Two micro-batches, 1..4 and 5..8: one update by the mean of what each has. */
static void test_micro_batches(void)
{
	static const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .clip = 1e-9};
	static const struct step_scalars scalars = {.learning_rate = 0, .step = 1};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 2, (int64_t[]){4, 1});
	int out = graph_batch_norm(graph, x, "bn", (struct batch_norm){.epsilon = 1e-5, .momentum = 0.1}, -1);
	int target = graph_input(graph, "target", TENSOR_F32, 2, (int64_t[]){4, 1});
	struct store *store = program_store(lone.program);
	float mean, variance;
	bool good;

	graph_backward(graph, graph_mse(graph, out, target));
	program_update_rule(lone.program, &rule);
	program_micros(lone.program, 2);
	good = !program_prepare(lone.program) && !store_initialise(store, 1);
	for (int micro = 0; micro < 2 && good; micro++) {
		float values[4];

		for (int i = 0; i < 4; i++)
			values[i] = (float)(4 * micro + i + 1);
		good = !graph_write(graph, x, values) && !graph_run(graph) &&
		       !program_collect(lone.program, micro, 2);
	}
	good = good && !program_update(lone.program, &scalars);
	check(good && !store_export(store, 2, SLOT_VALUE, &mean) &&
			!store_export(store, 3, SLOT_VALUE, &variance),
		"two micro-batches run");
	check_close(mean, 0.1 * (2.5 + 6.5) / 2, 1e-7,
		"the running mean gets the mean of the micro-batches' means");
	check_close(variance, 0.9 + 0.1 * 5.0 / 3, 2e-7,
		"the running variance gets the mean of the micro-batches' variances, whatever is clipped");
	lone_close(&lone);
}

/* ---- cross-entropy ---- */

static void test_cross_entropy(void)
{
	static const float logits[] = {1, 2, 3, 0, 0, 0, 3, 2, 1};
	static const double gradient[] = {
		0.0450152866, 0.122364236, -0.167379522, 1.0 / 6, -1.0 / 3, 1.0 / 6, 0, 0, 0};
	struct lone lone;
	struct graph *graph = lone_open(&lone, true);
	int x = graph_input(graph, "x", TENSOR_F32, 2, (int64_t[]){3, 3});
	int class = graph_input(graph, "class", TENSOR_I32, 1, (int64_t[]){3});
	struct cross_entropy result = graph_cross_entropy(graph, x, class, 0);
	int32_t classes[3] = {2, 1, -1}, rank[3];
	float loss, losses[3];
	bool good;

	graph_want_gradient(graph, x);
	graph_output(graph, result.losses);
	graph_output(graph, result.rank);
	graph_backward(graph, result.loss);
	good = !program_prepare(lone.program) && !graph_write(graph, x, logits) &&
	       !graph_write(graph, class, classes) && !graph_run(graph) &&
	       !graph_read(graph, result.loss, &loss) && !graph_read(graph, result.losses, losses) &&
	       !graph_read(graph, result.rank, rank);
	check(good, "a cross-entropy runs");
	check_close(loss, 0.7531091266, 1e-7, "cross-entropy: the mean over the samples that have a class");
	check_close(losses[0] + losses[1], 2 * 0.7531091266, 2e-7, "cross-entropy: the samples' losses");
	check(losses[2] == 0 && rank[0] == 0 && rank[1] == 1 && rank[2] == 3,
		"cross-entropy: places of the true classes");
	check_values(&lone, graph_gradient(graph, x), gradient, 9, 3e-8, "cross-entropy: gradient");
	classes[0] = classes[1] = -1;
	good = !graph_write(graph, class, classes) && !graph_run(graph) &&
	       !graph_read(graph, result.loss, &loss);
	check(good && loss == 0 && total(&lone, graph_gradient(graph, x)) == 0,
		"cross-entropy: without a class neither loss nor gradient");
	classes[0] = 3;
	check(!graph_write(graph, class, classes) && graph_run(graph) == STATUS_FENCED,
		"a class that does not exist is not trained on");
	lone_close(&lone);
}

/* ---- a network ---- */

static struct safetensors golden;

struct network {
	const char *run; /* in the golden file */
	struct device *device;
	struct program *program;
	struct graph *train, *predict;
	int x[2], class[2]; /* of the two graphs */
	struct cross_entropy result[2];
	float **before; /* by parameter */
};

#define SAMPLES 3
static const int64_t clip_dim[] = {SAMPLES, 8, 24, 26, 3}; /* in memory; 3 x 8 x 24 x 26 in golden/clips.py */
#define CLIP (SAMPLES * 8 * 24 * 26 * 3)

static int convolution(
	struct graph *graph, int x, const char *name, int out, int kernel, int stride, int groups)
{
	int pad = kernel / 2;

	return graph_convolution(graph, x, name,
		(struct convolution){.out = out,
			.kernel = {kernel, kernel, kernel},
			.stride = {stride, stride, stride},
			.pad_before = {pad, pad, pad},
			.pad_after = {pad, pad, pad},
			.groups = groups});
}

static int norm(struct graph *graph, int x, const char *name, bool relu, int residual)
{
	return graph_batch_norm(graph, x, name,
		(struct batch_norm){.epsilon = 1e-5,
			.momentum = 0.1,
			.activation = relu ? ACTIVATION_RELU : ACTIVATION_NONE},
		residual);
}

static int add_basic_block(struct graph *graph, int x, const char *name, int out, int stride)
{
	int y, shortcut = x;

	graph_push(graph, "%s.", name);
	y = norm(graph, convolution(graph, x, "conv1", out, 3, stride, 1), "bn1", true, -1);
	if (stride > 1)
		shortcut = norm(graph, convolution(graph, x, "downsample.0", out, 1, stride, 1),
			"downsample.1", false, -1);
	y = norm(graph, convolution(graph, y, "conv2", out, 3, 1, 1), "bn2", true, shortcut);
	graph_pop(graph);
	return y;
}

static int add_bottleneck(struct graph *graph, int x)
{
	int y;

	graph_push(graph, "layer3.");
	y = norm(graph, convolution(graph, x, "conv1", 8, 1, 1, 1), "bn1", true, -1);
	y = graph_convolution(graph, y, "conv2",
		(struct convolution){.out = 8,
			.kernel = {3, 3, 3},
			.stride = {1, 2, 2},
			.pad_before = {1, 1, 1},
			.pad_after = {1, 1, 1},
			.groups = 2});
	y = convolution(graph, norm(graph, y, "bn2", true, -1), "conv3", 16, 1, 1, 1);
	y = norm(graph, y, "bn3", true, graph_subsample(graph, x, (int[]){1, 2, 2}, 16));
	graph_pop(graph);
	return y;
}

static void add_network(struct network *net, struct graph *graph, int i)
{
	static const struct pool three = {
		.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .pad_before = {1, 1, 1}, .pad_after = {1, 1, 1}};
	int x = net->x[i] = graph_input(graph, "x", TENSOR_F32, 5, clip_dim);

	net->class[i] = graph_input(graph, "class", TENSOR_I32, 1, clip_dim);
	x = graph_convolution(graph, x, "conv1",
		(struct convolution){.out = 6,
			.kernel = {3, 5, 5},
			.stride = {1, 2, 2},
			.pad_before = {1, 2, 2},
			.pad_after = {1, 2, 2}});
	x = graph_max_pool(graph, norm(graph, x, "bn1", true, -1), three);
	x = add_basic_block(graph, x, "layer1", 6, 1);
	x = add_bottleneck(graph, add_basic_block(graph, x, "layer2", 10, 2));
	x = graph_average_pool(graph, x, (struct pool){.kernel = {1, 2, 2}});
	x = graph_linear(graph, graph_global_pool(graph, x), "fc", 10, true);
	net->result[i] = graph_cross_entropy(graph, x, net->class[i], 0.1);
	graph_output(graph, net->result[i].losses);
}

static int fill_network(struct network *net)
{
	struct store *store = program_store(net->program);
	size_t *order = golden_order(store);
	int status = STATUS_OK;

	net->before = memory_new(store_count(store), sizeof(*net->before));
	for (size_t k = 0; k < store_count(store) && !status; k++) {
		const struct parameter *p = store_parameter(store, order[k]);
		float *values = memory_new(p->count, sizeof(*values));
		bool one = p->dims == 1 && text_ends(p->name, "weight");

		for (size_t j = 0; j < p->count; j++)
			values[j] = p->statistic ? text_ends(p->name, "var")
						 : (float)(0.1 * sin(1 + (double)k + 0.37 * (double)j) + one);
		status = store_import(store, order[k], SLOT_VALUE, values);
		net->before[order[k]] = values;
	}
	free(order);
	return status;
}

static int network_open(struct network *net, const struct backend *backend, const char *run,
	const struct optimizer_rule *rule)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};
	int status = backend->open(&settings, &net->device);

	if (status)
		return status;
	net->run = run;
	net->program = program_new(net->device);
	net->train = graph_new(net->program, "train", true);
	net->predict = graph_new(net->program, "predict", false);
	add_network(net, net->train, 0);
	add_network(net, net->predict, 1);
	graph_backward(net->train, net->result[0].loss);
	program_update_rule(net->program, rule);
	status = program_prepare(net->program);
	return status ? status : fill_network(net);
}

static void network_close(struct network *net)
{
	for (size_t i = 0; i < store_count(program_store(net->program)); i++)
		free(net->before[i]);
	free(net->before);
	program_free(net->program);
	net->device->backend->close(net->device);
}

static int run_batch(struct network *net, int i, int step)
{
	struct graph *graph = i ? net->predict : net->train;
	float *values = memory_new(CLIP, sizeof(*values));
	int32_t class[SAMPLES];
	int status;

	for (size_t j = 0; j < CLIP; j++) { /* j in NCDHW order */
		size_t position = j % (8 * 24 * 26), channel = j / (8 * 24 * 26) % 3,
		       n = j / (8 * 24 * 26) / 3;

		values[(n * 8 * 24 * 26 + position) * 3 + channel] =
			(float)sin(0.3 * step + 0.61 * (double)j);
	}
	for (int n = 0; n < SAMPLES; n++)
		class[n] = (3 * n + step) % 10;
	status = graph_write(graph, net->x[i], values);
	if (!status)
		status = graph_write(graph, net->class[i], class);
	if (!status)
		status = graph_run(graph);
	free(values);
	return status;
}

static void check_golden(struct network *net, const char *what, const float *values, size_t count)
{
	const float *expected = golden_find(&golden, net->run, what, count), *rounding;
	char name[128];
	double error, limit = REFERENCE_LIMIT;

	snprintf(name, sizeof(name), "%s.rounding", what);
	rounding = golden_find(&golden, net->run, name, 1);
	snprintf(name, sizeof(name), "%s on %s: %s", net->run, net->device->backend->name, what);
	if (!expected || !rounding) {
		check_report(false, name, "%s", error_message());
		return;
	}
	error = golden_error(values, expected, count);
	if (net->device->backend != &reference_backend)
		limit = fmax(ROUNDING_FLOOR, ROUNDING_FACTOR * (double)*rounding);
	check_report(error <= limit, name, "error %.3g of the root mean square, not %.3g", error, limit);
}

/* The gradient, or the change since the start. */
static int parameter_values(struct network *net, size_t i, bool change, float *values)
{
	struct store *store = program_store(net->program);
	int status = store_export(store, i, change ? SLOT_VALUE : SLOT_GRADIENT, values);

	for (size_t j = 0; j < store_parameter(store, i)->count && change; j++)
		values[j] -= net->before[i][j];
	return status;
}

static void check_rows(struct network *net, const char *what, bool change, size_t rows)
{
	struct store *store = program_store(net->program);
	size_t *order = golden_order(store), row = 0;
	const float *expected = golden_find(&golden, net->run, what, rows * GOLDEN_ROW), *rounding;
	const char *where = "";
	char name[128];
	double worst = 0;

	snprintf(name, sizeof(name), "%s.rounding", what);
	rounding = golden_find(&golden, net->run, name, rows);
	for (size_t k = 0; k < store_count(store) && expected && rounding && row < rows; k++) {
		const struct parameter *p = store_parameter(store, order[k]);
		float *values = memory_new(p->count, sizeof(*values));
		double error, limit = REFERENCE_LIMIT;

		if (change || !p->statistic) {
			error = parameter_values(net, order[k], change, values)
					? INFINITY
					: golden_row_error(values, p->count, expected + row * GOLDEN_ROW);
			if (net->device->backend != &reference_backend)
				limit = fmax(ROUNDING_FLOOR, ROUNDING_FACTOR * (double)rounding[row]);
			if (error / limit > worst || isnan(error)) {
				worst = error / limit;
				where = p->name;
			}
			row++;
		}
		free(values);
	}
	snprintf(name, sizeof(name), "%s on %s: %s", net->run, net->device->backend->name, what);
	check_report(row == rows && worst <= 1, name, "%zu rows, error is %.3g of what is allowed in %s", row,
		worst, where);
	free(order);
}

#define STEPS 10
#define TRAINED 29
#define TENSORS 47

/* The reference back end is slow and computes one step. */
static void test_network(const struct backend *backend, const char *run, const struct optimizer_rule *rule)
{
	int steps = backend == &reference_backend ? 1 : STEPS;
	struct network net = {0};
	float losses[STEPS], samples[SAMPLES];
	int status = network_open(&net, backend, run, rule);

	for (int step = 1; step <= steps && !status; step++) {
		struct step_scalars scalars = {.learning_rate = 0.005, .step = step};

		status = run_batch(&net, 0, step);
		if (!status)
			status = graph_read(net.train, net.result[0].loss, &losses[step - 1]);
		if (!status && step == 1) {
			graph_read(net.train, net.result[0].losses, samples);
			check_golden(&net, "first", samples, SAMPLES);
			check_rows(&net, "gradients", false, TRAINED);
		}
		if (!status)
			status = program_collect(net.program, 0, 1);
		if (!status)
			status = program_update(net.program, &scalars);
	}
	if (!status)
		status = run_batch(&net, 1, STEPS + 1);
	check_status(status, 0, "the network trains");
	if (steps < STEPS) {
		network_close(&net);
		return;
	}
	check_golden(&net, "losses", losses, STEPS);
	check_rows(&net, "changes", true, TENSORS);
	graph_read(net.predict, net.result[1].losses, samples);
	check_golden(&net, "last", samples, SAMPLES);
	network_close(&net);
}

int main(void)
{
	static const struct optimizer_rule dampened = {
		.kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.4, .decay = 1e-2};
	static const struct optimizer_rule nesterov = {
		.kind = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true, .decay = 1e-3};

	test_convolution();
	test_grouped_convolution();
	test_max_pool();
	test_average_pool();
	test_subsample();
	test_batch_norm();
	test_micro_batches();
	test_cross_entropy();
	if (safetensors_read("tests/golden/clips.safetensors", &golden)) {
		check_report(false, "golden numbers", "%s", error_message());
		return check_summary();
	}
	test_network(&reference_backend, "dampened", &dampened);
	test_network(&cpu_backend, "dampened", &dampened);
	test_network(&cpu_backend, "nesterov", &nesterov);
	safetensors_release(&golden);
	return check_summary();
}
