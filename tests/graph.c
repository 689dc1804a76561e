/* Graphs and programs: names and errors, frozen parameters, initial values, files' layout, the tree of micro-batches,
 * several graphs of one program, what is not finite, the printed graph, the watches. */
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"

static struct device *device;

/* A fresh program and its one graph. */
static struct graph *fresh(struct program **program)
{
	*program = program_new(device);
	return graph_new(*program, "train", true);
}

static int input(struct graph *graph, const char *name, int64_t rows, int64_t columns)
{
	return graph_input(graph, name, TENSOR_F32, 2, (int64_t[]){rows, columns});
}

static int add_loss(struct graph *graph, int y)
{
	int64_t rows = graph_dim(graph, y, 0);
	int target = input(graph, "target", rows, graph_dim(graph, y, 1));
	int mask = graph_input(graph, "mask", TENSOR_F32, 1, &rows);

	return graph_masked_mse(graph, y, target, mask);
}

static int find_input(const struct graph *graph, const char *name)
{
	for (size_t i = 0; i < graph->tensor_count; i++) {
		if (graph->tensors[i].kind == TENSOR_INPUT && !strcmp(graph->tensors[i].name, name))
			return (int)i;
	}
	return -1;
}

/* Every element of an input: first, first + step, ... */
static int write_ramp(struct graph *graph, const char *name, double first, double step)
{
	int tensor = find_input(graph, name);
	size_t count = graph_elements(graph, tensor);
	float *values = memory_new(count, sizeof(*values));
	int status;

	for (size_t i = 0; i < count; i++)
		values[i] = (float)(first + step * (double)i);
	status = graph_write(graph, tensor, values);
	free(values);
	return status;
}

/* ---- errors of a build ---- */

/* What program_prepare() says of what `build` did. */
static void check_refused(const char *name, int (*build)(struct graph *graph), const char *words)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	int y = build(graph), status = program_prepare(program);

	check_report(y == -1 && status == STATUS_CONFIG && strstr(error_message(), words) &&
			     strstr(error_message(), "graph train"),
		name, "tensor %d, status %d: %s", y, status, error_message());
	program_free(program);
}

static int bad_add(struct graph *graph)
{
	graph_push(graph, "down_blocks.%d.", 3);
	return graph_add(graph, input(graph, "a", 2, 3), input(graph, "b", 3, 2));
}

static int bad_groups(struct graph *graph)
{
	int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){1, 2, 3, 10}), y;

	graph_push(graph, "resnets.0.");
	y = graph_group_norm(graph, x, "norm1", 3, 1e-5, ACTIVATION_NONE);
	graph_pop(graph);
	/* the first message stays, and -1 passes through */
	y = graph_linear(graph, y, "later", 4, true);
	return graph_activation(graph, y, ACTIVATION_SILU);
}

static int bad_kernel(struct graph *graph)
{
	int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){1, 2, 3, 4});

	return graph_convolution(graph, x, "conv_in", (struct convolution){.out = 4, .kernel = {3, 3}});
}

static int bad_rank(struct graph *graph)
{
	return graph_convolution(
		graph, input(graph, "x", 2, 3), "conv_in", (struct convolution){.out = 4, .kernel = {1, 1}});
}

static int bad_heads(struct graph *graph)
{
	int x = graph_input(graph, "x", TENSOR_F32, 3, (int64_t[]){1, 4, 6});

	graph_push(graph, "attn1.");
	return graph_attention(graph, x, x, x, 4);
}

static int bad_keys(struct graph *graph)
{
	int q = graph_input(graph, "q", TENSOR_F32, 3, (int64_t[]){1, 4, 6});
	int k = graph_input(graph, "k", TENSOR_F32, 3, (int64_t[]){1, 4, 8});

	return graph_attention(graph, q, k, k, 2);
}

static int bad_reshape(struct graph *graph)
{
	return graph_reshape(graph, input(graph, "x", 4, 6), 2, (int64_t[]){5, 5});
}

static int bad_concat(struct graph *graph)
{
	return graph_concat(graph, input(graph, "a", 4, 6), input(graph, "b", 5, 6));
}

static int bad_upsample(struct graph *graph)
{
	int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){1, 4, 4, 1});

	return graph_upsample(graph, x, 3, 8);
}

static int bad_geglu(struct graph *graph)
{
	return graph_geglu(graph, input(graph, "x", 4, 7));
}

static int bad_mask(struct graph *graph)
{
	int mask = graph_input(graph, "mask", TENSOR_F32, 1, (int64_t[]){5});

	return graph_masked_mse(graph, input(graph, "y", 4, 6), input(graph, "t", 4, 6), mask);
}

static int bad_sharing(struct graph *graph)
{
	graph_linear(graph, input(graph, "a", 4, 6), "shared", 3, false);
	return graph_linear(graph, input(graph, "b", 4, 7), "shared", 3, false);
}

static int bad_type(struct graph *graph)
{
	return graph_activation(
		graph, graph_input(graph, "x", TENSOR_I32, 1, (int64_t[]){3}), ACTIVATION_RELU);
}

static int bad_size(struct graph *graph)
{
	return graph_input(graph, "x", TENSOR_F32, 2, (int64_t[]){3, 0});
}

static int huge_size(struct graph *graph)
{
	return graph_input(graph, "x", TENSOR_F32, 3, (int64_t[]){1LL << 40, 1LL << 40, 1LL << 40});
}

static int bad_pop(struct graph *graph)
{
	graph_pop(graph);
	return graph_activation(graph, input(graph, "x", 1, 1), ACTIVATION_RELU);
}

static void test_refusals(void)
{
	check_refused("an addition of two shapes names its place and both", bad_add,
		"down_blocks.3.add: shapes 2x3 and 3x2");
	check_refused("the first message is kept", bad_groups,
		"resnets.0.norm1: 10 channels are not divisible by 3 groups");
	check_refused("a kernel larger than the image", bad_kernel,
		"conv_in: the kernel is larger than the padded input 1x2x3x4");
	check_refused("a convolution of a matrix", bad_rank,
		"conv_in: a convolution takes [N,H,W,C] or [N,D,H,W,C], not 2x3");
	check_refused("heads that do not divide", bad_heads,
		"attn1.attention: 6 channels are not divisible by 4 heads");
	check_refused("queries and keys of two widths", bad_keys, "shapes 1x4x6 and 1x4x8");
	check_refused("a reshape that changes the number of elements", bad_reshape, "reshape: 4x6");
	check_refused("a concatenation of two heights", bad_concat, "concat: shapes 4x6 and 5x6");
	check_refused("upsampling to less", bad_upsample, "upsample: 1x4x4x1 to 3 rows");
	check_refused("an odd GEGLU", bad_geglu, "geglu: 7 channels");
	check_refused("a mask of another shape", bad_mask, "masked-mse: shapes 4x6 and 5");
	check_refused("a parameter in two shapes", bad_sharing,
		"parameter shared.weight is used with two shapes, 3x6 and 3x7");
	check_refused("an integer where floats are taken", bad_type, "takes float32");
	check_refused("a size of 0", bad_size, "x has an impossible size");
	check_refused("a size beyond memory", huge_size, "x has an impossible size");
	check_refused("one graph_pop() too many", bad_pop, "graph_pop()");
}

/* ---- errors of a derivation ---- */

static int backward_through_time(struct graph *graph)
{
	int t = graph_input(graph, "t", TENSOR_F32, 1, (int64_t[]){3});

	graph_want_gradient(graph, t);
	return add_loss(graph, graph_timestep_embedding(graph, t, 4));
}

static int backward_to_target(struct graph *graph)
{
	int target = input(graph, "t", 2, 3), mask = graph_input(graph, "m", TENSOR_F32, 1, (int64_t[]){2});

	graph_want_gradient(graph, target);
	return graph_masked_mse(
		graph, graph_linear(graph, input(graph, "x", 2, 3), "l", 3, false), target, mask);
}

static int backward_of_nothing(struct graph *graph)
{
	return add_loss(graph, input(graph, "x", 2, 3));
}

/* The samples' own losses are there to be read. */
static int backward_of_a_second_result(struct graph *graph)
{
	int logits = graph_linear(graph, input(graph, "x", 2, 3), "l", 3, false);
	int class = graph_input(graph, "class", TENSOR_I32, 1, (int64_t[]){2});
	struct cross_entropy result = graph_cross_entropy(graph, logits, class, 0);

	return graph_mse(graph, result.losses, graph_input(graph, "t", TENSOR_F32, 1, (int64_t[]){2}));
}

static void check_no_backward(const char *name, int (*build)(struct graph *graph), const char *words)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	int status = graph_backward(graph, build(graph));

	check_report(status && program_prepare(program) == status && strstr(error_message(), words), name,
		"status %d: %s", status, error_message());
	program_free(program);
}

static void test_no_backward(void)
{
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "predict", false);

	check_no_backward("a gradient through what has none", backward_through_time,
		"timestep-embedding is not differentiable");
	check_no_backward(
		"a gradient to a target", backward_to_target, "the target or the mask would need a gradient");
	check_no_backward("a loss without parameters", backward_of_nothing, "no parameter that is trained");
	check_no_backward("a gradient through what is only read", backward_of_a_second_result,
		"cross-entropy is not differentiable");
	check(graph_backward(graph,
		      add_loss(graph, graph_linear(graph, input(graph, "x", 2, 3), "l", 3, false))) != 0,
		"a backward pass of a graph that does not train");
	program_free(program);
}

/* ---- use at the wrong time ---- */

static void test_wrong_use(void)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	int x = input(graph, "x", 2, 3), hidden = graph_linear(graph, x, "a", 4, true);
	int y = graph_output(
		graph, graph_linear(graph, graph_activation(graph, hidden, ACTIVATION_SILU), "b", 3, true));
	struct optimizer_rule rule = {.kind = OPTIMIZER_SGD};
	struct step_scalars scalars = {.learning_rate = 1, .step = 1};
	float values[8] = {0};

	check(graph_run(graph) && graph_write(graph, x, values) && graph_read(graph, y, values),
		"nothing runs before it is prepared");
	check_status(program_prepare(program), 0, "a graph without a loss is prepared");
	check(!graph_write(graph, x, values) && !graph_run(graph) && !graph_read(graph, y, values),
		"and runs");
	check(graph_read(graph, hidden, values) && strstr(error_message(), "not marked as an output"),
		"only outputs are read");
	check(graph_write(graph, y, values) && graph_read(graph, 1000, values), "only inputs are written");
	check(graph_activation(graph, y, ACTIVATION_RELU) == -1, "a prepared graph does not grow");
	check(program_update_rule(program, &rule) && program_update(program, &scalars) &&
			program_collect(program, 0, 1),
		"no rule comes late, and nothing is updated without one");
	program_free(program);
}

/* ---- frozen parameters ---- */

static bool has_operation(const struct graph *graph, enum operation operation, const char *name)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		if (graph->nodes[n].operation == operation && !strcmp(graph->nodes[n].name, name))
			return true;
	}
	return false;
}

static void test_frozen(void)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	struct store *store = program_store(program);
	struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .momentum = 0.9};
	struct step_scalars scalars = {.learning_rate = 0.1, .step = 1};
	struct program_bytes bytes;
	int y = graph_linear(graph, input(graph, "x", 5, 3), "first", 4, true), loss;
	float first[12], before[12], second[8], start[8];

	y = graph_layer_norm(graph, y, "norm", 1e-5);
	y = graph_linear(graph, y, "second", 2, true);
	loss = add_loss(graph, y);
	check(store_freeze(store, "first.*") == 2 && store_freeze(store, "norm.weight") == 1,
		"parameters freeze by pattern");
	check_status(graph_backward(graph, loss), 0, "a graph with frozen parameters is derived");
	program_update_rule(program, &rule);
	check_status(program_prepare(program) || store_initialise(store, 3), 0, "and prepared");
	check(!has_operation(graph, OP_LINEAR_WEIGHT, "first") &&
			has_operation(graph, OP_LINEAR_WEIGHT, "second"),
		"no gradient of a frozen weight is computed");
	program_measure(program, &bytes);
	check(bytes.gradients == 3 * GRAPH_ALIGNMENT && bytes.state == bytes.gradients,
		"frozen parameters have neither gradient nor moment");
	store_export(store, 0, SLOT_VALUE, before);
	store_export(store, (size_t)store_find(store, "second.weight"), SLOT_VALUE, start);
	check_status(write_ramp(graph, "x", -1, 0.3) || write_ramp(graph, "target", 1, 0.5) ||
			     write_ramp(graph, "mask", 1, 0) || graph_run(graph) ||
			     program_collect(program, 0, 1) || program_update(program, &scalars),
		0, "a step with frozen parameters");
	store_export(store, 0, SLOT_VALUE, first);
	store_export(store, (size_t)store_find(store, "second.weight"), SLOT_VALUE, second);
	check(!memcmp(first, before, sizeof(first)) && memcmp(second, start, sizeof(second)) != 0,
		"frozen ones stay, others move");
	check(store_export(store, 0, SLOT_GRADIENT, first) != 0 &&
			strstr(error_message(), "first.weight has no gradient"),
		"a frozen one has no gradient to read");
	program_free(program);
}

/* ---- the store ---- */

static void test_layouts(void)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	struct store *store = program_store(program);
	int x = graph_input(graph, "x", TENSOR_F32, 4, (int64_t[]){1, 4, 4, 3});
	float file[5 * 3 * 2 * 3], back[5 * 3 * 2 * 3];
	const float *memory;
	size_t wrong = 0;

	graph_convolution(graph, x, "conv", (struct convolution){.out = 5, .kernel = {2, 3}});
	check_status(program_prepare(program), 0, "a convolution is prepared");
	for (int i = 0; i < 90; i++)
		file[i] = (float)i;
	store_import(store, 0, SLOT_VALUE, file);
	store_export(store, 0, SLOT_VALUE, back);
	memory = store_data(store, 0, SLOT_VALUE);
	for (int o = 0; o < 5; o++) {
		for (int i = 0; i < 3; i++) {
			for (int t = 0; t < 6; t++)
				wrong += memory[(t * 3 + i) * 5 + o] != file[(o * 3 + i) * 6 + t];
		}
	}
	check(!wrong && !memcmp(file, back, sizeof(file)), "files hold [out,in,h,w], memory [h,w,in,out]");
	program_free(program);
}

/* Two programs with the same parameters in another order and beside others. */
static void test_initial_values(void)
{
	enum { IN = 300, OUT = 40 };
	struct program *program[2];
	static float weight[2][IN * OUT];
	double squares = 0, bound = 1 / sqrt(IN), largest = 0;
	float gamma[OUT], other[IN * OUT];

	for (int i = 0; i < 2; i++) {
		struct graph *graph = fresh(&program[i]);
		int x = input(graph, "x", 2, IN);

		if (i)
			graph_linear(graph, x, "before", 7, true);
		x = graph_linear(graph, x, "layer", OUT, true);
		graph_layer_norm(graph, x, "norm", 1e-5);
		check_status(program_prepare(program[i]) || store_initialise(program_store(program[i]), 5), 0,
			"initial values");
		store_export(program_store(program[i]),
			(size_t)store_find(program_store(program[i]), "layer.weight"), SLOT_VALUE, weight[i]);
	}
	check(!memcmp(weight[0], weight[1], sizeof(weight[0])), "they depend on seed and name alone");
	for (int i = 0; i < IN * OUT; i++) {
		squares += (double)weight[0][i] * (double)weight[0][i];
		largest = fmax(largest, fabs((double)weight[0][i]));
	}
	check(largest <= bound && largest > 0.99 * bound,
		"they fill the interval of PyTorch's initial weights");
	check_close(squares / (IN * OUT), bound * bound / 3, 0.02 * bound * bound, "evenly");
	store_export(program_store(program[0]), (size_t)store_find(program_store(program[0]), "norm.weight"),
		SLOT_VALUE, gamma);
	check(gamma[0] == 1 && gamma[OUT - 1] == 1, "norms start at one");
	store_initialise(program_store(program[0]), 6);
	store_export(program_store(program[0]), (size_t)store_find(program_store(program[0]), "layer.weight"),
		SLOT_VALUE, other);
	check(memcmp(weight[0], other, sizeof(other)) != 0, "another seed gives others");
	program_free(program[0]);
	program_free(program[1]);
}

/* ---- micro-batches ---- */

enum { WIDTH = 6, MICROS = 16 };

static int build_linear_step(struct program **program)
{
	struct graph *graph = fresh(program);
	int loss = add_loss(graph, graph_linear(graph, input(graph, "x", 3, WIDTH), "layer", WIDTH, false));

	return graph_backward(graph, loss);
}

/* Gradients of very different sizes, so that the order of additions shows. */
static int run_micro(struct program *program, int micro)
{
	struct graph *graph = program->graphs[0];

	return write_ramp(graph, "x", 0.1 + micro, pow(-3, micro % 5) * 0.37) ||
	       write_ramp(graph, "target", micro, 0.77) || write_ramp(graph, "mask", 1, 0) ||
	       graph_run(graph);
}

/* Pairs of consecutive ones from the left, level by level; the mean in the end. */
static void tree_mean(float sums[MICROS][WIDTH * WIDTH], int count)
{
	int total = count;

	while (count > 1) {
		for (int i = 0; i < count; i++) {
			for (int j = 0; j < WIDTH * WIDTH; j++) {
				if (i % 2)
					sums[i / 2][j] += sums[i][j];
				else
					sums[i / 2][j] = sums[i][j];
			}
		}
		count = (count + 1) / 2;
	}
	for (int j = 0; j < WIDTH * WIDTH; j++)
		sums[0][j] *= (float)(1.0 / total);
}

static void test_tree(void)
{
	struct program *program;
	struct store *store;
	static float alone[MICROS][WIDTH * WIDTH], sums[MICROS][WIDTH * WIDTH], value[WIDTH * WIDTH];
	int wrong = 0, different = 0;

	check_status(build_linear_step(&program), 0, "a step of micro-batches");
	store = program_store(program);
	program_micros(program, MICROS);
	check_status(program_prepare(program) || store_initialise(store, 1), 0, "is prepared");
	for (int micro = 0; micro < MICROS; micro++) {
		run_micro(program, micro);
		store_export(store, 0, SLOT_GRADIENT, alone[micro]);
	}
	for (int micros = 1; micros <= MICROS; micros++) {
		float forward[WIDTH * WIDTH] = {0};

		for (int micro = 0; micro < micros; micro++) {
			run_micro(program, micro);
			program_collect(program, micro, micros);
			for (int j = 0; j < WIDTH * WIDTH; j++)
				forward[j] += alone[micro][j];
		}
		store_export(store, 0, SLOT_GRADIENT, value);
		memcpy(sums, alone, sizeof(alone));
		tree_mean(sums, micros);
		wrong += memcmp(sums[0], value, sizeof(value)) != 0;
		for (int j = 0; j < WIDTH * WIDTH; j++)
			forward[j] *= (float)(1.0 / micros);
		different += memcmp(forward, value, sizeof(value)) != 0;
	}
	check_report(
		!wrong, "1 to 16 micro-batches are added by the tree, to the bit", "%d counts differ", wrong);
	check(different > 8, "which is not the sum in a row");
	check(program_collect(program, 0, MICROS + 1) && program_collect(program, 3, 3),
		"no more of them than planned");
	program_free(program);
}

/* ---- clipping and norms ---- */

static void test_clipping(void)
{
	struct program *program;
	struct store *store;
	struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .clip = 0.25};
	struct step_scalars scalars = {.learning_rate = 0.5, .step = 1};
	float start[WIDTH * WIDTH], gradient[WIDTH * WIDTH], value[WIDTH * WIDTH];
	double norm = 0, squares = 0, worst = 0;

	check_status(build_linear_step(&program), 0, "a step with clipping");
	store = program_store(program);
	program_update_rule(program, &rule);
	check_status(program_prepare(program) || store_initialise(store, 1) || run_micro(program, 2) ||
			     program_collect(program, 0, 1) || program_gradient_norm(program, &norm),
		0, "runs");
	store_export(store, 0, SLOT_VALUE, start);
	store_export(store, 0, SLOT_GRADIENT, gradient);
	for (int j = 0; j < WIDTH * WIDTH; j++)
		squares += (double)gradient[j] * (double)gradient[j];
	check_close(norm, sqrt(squares), 1e-12 * norm, "the norm of the gradient");
	check(norm > rule.clip, "is above the limit");
	check_status(program_update(program, &scalars), 0, "an update");
	store_export(store, 0, SLOT_VALUE, value);
	for (int j = 0; j < WIDTH * WIDTH; j++)
		worst = fmax(
			worst, fabs((double)start[j] - 0.5 * (double)gradient[j] * rule.clip / (norm + 1e-6) -
				       (double)value[j]));
	check_report(worst < 1e-7, "moves by the clipped gradient", "off by %.3g", worst);
	check(!program_not_finite(program), "all gradients are finite");
	program_free(program);
}

/* ---- what is not finite ---- */

static int run_with(struct program *program, double x, double weight)
{
	struct store *store = program_store(program);
	float values[WIDTH * WIDTH];

	for (int j = 0; j < WIDTH * WIDTH; j++)
		values[j] = (float)weight;
	return store_import(store, 0, SLOT_VALUE, values) || write_ramp(program->graphs[0], "x", x, 0) ||
	       write_ramp(program->graphs[0], "target", 0, 0) ||
	       write_ramp(program->graphs[0], "mask", 1, 0) || graph_run(program->graphs[0]);
}

static void test_not_finite(void)
{
	struct program *program;
	float gradient[WIDTH * WIDTH], before[WIDTH * WIDTH];

	check_status(build_linear_step(&program) || program_prepare(program), 0, "a step that will overflow");
	check(!run_with(program, 1, 0.5) && !program_not_finite(program), "first it does not");
	store_export(program_store(program), 0, SLOT_GRADIENT, before);
	check(run_with(program, NAN, 1) && error_status() == STATUS_FENCED &&
			strstr(error_message(), "not finite: input x"),
		"an input that is not finite is named");
	check(run_with(program, 1, INFINITY) && error_status() == STATUS_FENCED &&
			strstr(error_message(), "not finite: parameter layer.weight"),
		"and a parameter");
	check(run_with(program, 1e30, 1e30) && error_status() == STATUS_FENCED &&
			strstr(error_message(), "not finite: result of layer (linear)"),
		"and a layer");
	check(run_with(program, 1e15, 1e15) && error_status() == STATUS_FENCED &&
			strstr(error_message(), "not finite: result of masked-mse"),
		"and the loss itself");
	store_export(program_store(program), 0, SLOT_GRADIENT, gradient);
	check(!memcmp(gradient, before, sizeof(before)), "the backward pass does not run after that");
	check(!run_with(program, 1e38, 1e-30) && program_not_finite(program) &&
			!strcmp(program_not_finite(program), "layer.weight"),
		"a gradient that is not finite is named by its parameter");
	program_free(program);
}

/* ---- several graphs ---- */

static int add_network(struct graph *graph, int64_t rows)
{
	int y = graph_linear(graph, input(graph, "x", rows, 5), "a", 64, true);

	y = graph_activation(graph, y, ACTIVATION_GELU);
	return graph_linear(graph, y, "b", 2, true);
}

static void test_more_graphs(void)
{
	struct program *program;
	struct graph *train = fresh(&program), *small = graph_new(program, "small", false), *large;
	struct program_bytes before, after;
	int y = graph_output(small, add_network(small, 2)), z;
	float first[4], again[4], third[400];
	int same = 0;

	graph_backward(train, add_loss(train, add_network(train, 3)));
	check_status(program_prepare(program) || store_initialise(program_store(program), 2), 0,
		"two graphs of one program");
	check(!write_ramp(small, "x", 1, 0.1) && !graph_run(small) && !graph_read(small, y, first),
		"the one predicts");
	check(!write_ramp(train, "x", 0, 0.2) && !write_ramp(train, "target", 0, 0.2) &&
			!write_ramp(train, "mask", 1, 0) && !graph_run(train),
		"the other trains");
	check(!graph_run(small) && !graph_read(small, y, again) && !memcmp(first, again, sizeof(first)),
		"the first still has its inputs");
	program_measure(program, &before);
	large = graph_new(program, "large", false);
	z = graph_output(large, add_network(large, 200));
	check_status(program_prepare(program), 0, "a third of another shape is added later");
	program_measure(program, &after);
	check(after.arena > before.arena && after.parameters == before.parameters,
		"the arena grows, the parameters stay");
	check(!write_ramp(large, "x", 1, 0.1) && !graph_run(large) && !graph_read(large, z, third),
		"it runs");
	for (int i = 0; i < 4; i++)
		same += fabs((double)third[i] - (double)first[i]) < 1e-6;
	check(same == 4, "with the same parameters");
	check(!graph_run(small) && !graph_read(small, y, again) && !memcmp(first, again, sizeof(first)),
		"and the first runs on in the new arena");
	large = graph_new(program, "new", false);
	graph_linear(large, input(large, "x", 2, 5), "c", 3, true);
	check(program_prepare(program) && strstr(error_message(), "parameter c.weight is new"),
		"new parameters cannot come later");
	program_free(program);
}

static void test_uneven_training(void)
{
	struct program *program;
	struct graph *one = fresh(&program), *two = graph_new(program, "two", true);
	int x = input(one, "x", 2, 3), y = input(two, "x", 2, 3);

	graph_backward(one, add_loss(one, graph_linear(one, x, "l", 3, true)));
	graph_backward(two, add_loss(two, graph_linear(two, y, "l", 3, false)));
	check(program_prepare(program) &&
			strstr(error_message(), "graphs train and two do not both train parameter l.bias"),
		"training graphs of one program train the same parameters");
	program_free(program);
}

/* ---- the printed graph ---- */

static void test_print(void)
{
	struct program *program;
	struct graph *graph = fresh(&program);
	char *text = NULL, *fields[16], *lines[64];
	size_t bytes;
	int count;
	FILE *out = open_memstream(&text, &bytes);
	bool good = true;

	graph_push(graph, "mid.");
	graph_backward(graph, add_loss(graph, graph_linear(graph, input(graph, "x", 7, 5), "fc", 3, true)));
	check_status(program_prepare(program), 0, "a graph to print");
	graph_print(graph, out);
	fclose(out);
	count = text_split(text, '\n', lines, 64);
	for (int i = 0; i < count - 2; i++) {
		good = good && text_split(lines[i], '\t', fields, 16) == 8;
		if (i == 1)
			good = good && !strcmp(fields[1], "linear") && !strcmp(fields[2], "mid.fc") &&
			       strstr(fields[3], "7x5") && strstr(fields[4], "7x3=84@") &&
			       !strcmp(fields[5], "210");
	}
	check(good && count == (int)graph->node_count + 3 && !*lines[count - 1],
		"a line a node: operation, name, shapes, places, operations");
	check_close(graph_flops(graph), 210 + 210 + 2 * 4 * 21, 0,
		"operations of a linear layer, its gradient and the loss");
	free(text);
	program_free(program);
}

/* ---- the watches ---- */

static int count_calls(void *state, struct graph *graph, const struct call *call)
{
	++*(int *)state;
	return graph_run_call(graph, call);
}

/* Two layers whose names would break a drawing or a trace that took them as they are. */
static struct graph *two_layers(struct program **program)
{
	struct graph *graph = fresh(program);
	int x = input(graph, "x", 7, 5);

	x = graph_linear(graph, x, "a\"b\\", 4, true);
	graph_backward(graph, add_loss(graph, graph_linear(graph, x, "second", 3, true)));
	check_status(program_prepare(*program), 0, "two layers");
	check_status(store_initialise(program_store(*program), 1), 0, "their weights");
	return graph;
}

static void test_watch(void)
{
	struct program *program;
	struct graph *graph = two_layers(&program);
	float weight[12] = {0};
	int calls = 0;

	program_set_watch(program, count_calls, &calls);
	check(!graph_run(graph) && calls == (int)graph->call_count, "a watch sees every operation once");
	program_set_watch(program, watch_finite, NULL);
	check_status(graph_run(graph), 0, "nothing is wrong with what is finite");
	weight[7] = NAN;
	check_status(store_import(program_store(program), 2, SLOT_VALUE, weight), 0, "a weight that is not");
	check(graph_run(graph) == STATUS_FENCED &&
			!strcmp(error_message(), "not finite: parameter second.weight [4x3], read by second "
						 "(linear) of graph train"),
		"a weight that is not finite is named with the operation that read it");
	weight[7] = 3e38f;
	store_import(program_store(program), 2, SLOT_VALUE, weight);
	store_import(program_store(program), 0, SLOT_VALUE, (float[20]){[0] = 3e38f});
	graph_write(graph, find_input(graph, "x"), (float[35]){[0] = 3e38f});
	check(graph_run(graph) == STATUS_FENCED &&
			strstr(error_message(), "a result [7x4], made by a\"b\\ (linear)"),
		"the first result that is not finite is named");
	program_set_watch(program, NULL, NULL);
	program_free(program);
}

static void test_profile(void)
{
	struct machine machine = {.flops = 1e9, .traffic = 1e9};
	struct profile *profile = profile_new();
	struct program *program;
	struct graph *graph = two_layers(&program);
	struct text rows = {0}, trace = {0};
	char *drawing = NULL;
	size_t bytes;
	FILE *out = open_memstream(&drawing, &bytes);

	program_set_watch(program, watch_profile, profile);
	check_status(graph_run(graph), 0, "a step that is timed");
	check_status(profile_add(profile, "data", 0, 0.25), 0, "and work outside");
	check_status(profile_table(profile, &machine, 1, 1, &rows), 0, "the table");
	check(strstr(rows.data, "\ndata\t1\t0.250000\t0.2500\t0.00\t0.00\t0.000\t0.000\n") &&
			strstr(rows.data, "\nlinear\t2\t"),
		"a row for each kind of work");
	check(!profile_trace(profile, 3, &trace) && strstr(trace.data, "\"name\":\"a\\\"b\\\\\"") &&
			strstr(trace.data, "\"pid\":3"),
		"names are quoted in the trace");
	check(!program_draw(program, out) && !fclose(out) &&
			strstr(drawing, "linear\\na\\\"b\\\\\\n7x4, 112 B at "),
		"names are quoted in the drawing");
	check(!machine_measure(device, &machine) && machine.flops > 1e7 && machine.traffic > 1e7,
		"the machine is measured");
	free(drawing);
	text_release(&rows);
	text_release(&trace);
	profile_free(profile);
	program_free(program);
}

int main(void)
{
	struct device_settings settings = {.threads = 2, .isa = "auto"};

	if (!check_status(cpu_backend.open(&settings, &device), 0, "the device opens"))
		return check_summary();
	test_refusals();
	test_no_backward();
	test_wrong_use();
	test_frozen();
	test_layouts();
	test_initial_values();
	test_tree();
	test_clipping();
	test_not_finite();
	test_more_graphs();
	test_uneven_training();
	test_print();
	test_watch();
	test_profile();
	cpu_backend.close(device);
	return check_summary();
}
