/* The U-Net and its blocks against diffusers and PyTorch (golden/unet.py says how the numbers were made). */
#include <jansson.h>
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "file/safetensors.h"
#include "graph/internal.h"
#include "model/unet_blocks.h"
#include "support/reference.h"

#define INPUTS 8
#define ROW 11 /* numbers about one parameter */

/*
 * What single precision may differ from the double precision of the golden numbers, relative to root mean squares: a few
 * times what PyTorch's own single precision differs (golden NAME.rounding, the luck of one other order of sums), and
 * where that is small, what sums of a few hundred terms through a dozen layers explain. The reference back end computes
 * in double: what is left is the rounding of the golden numbers.
 */
#define ROUNDING_FACTOR 5
#define ROUNDING_FLOOR 3e-6
#define REFERENCE_LIMIT 3e-7
/* diffusers' time embedding is computed in single precision even so. */
#define EMBEDDING_LIMIT 1e-5
/* Adam moves an element whose gradient is almost zero by the sign of its rounding (as in the middle block, whose few
 * keys nearly cancel); epsilon and the moments are tested apart, in tests/cpu_numbers.c. */
#define ADAM_FLOOR 1e-2

static struct safetensors golden;

struct input {
	const char *name;
	double phase;
	int tensor;
};

struct network {
	const char *name;
	int threads; /* 0: 2 */
	struct device *device;
	struct program *program;
	struct graph *graph;
	struct unet_blocks blocks;
	struct unet unet;
	struct input input[INPUTS];
	bool embeds; /* a time embedding is part of it */
	int inputs;
	int out, target, mask, loss, skips[INPUTS], skip_count;
};

/* ---- formulas ---- */

static float wave(double phase, double step, size_t j)
{
	return (float)sin(phase + step * (double)j);
}

static double limit_of(const struct network *net, double floor_limit, float rounding)
{
	if (net->device->backend == &reference_backend)
		return net->embeds ? EMBEDDING_LIMIT : REFERENCE_LIMIT;
	return fmax(floor_limit, ROUNDING_FACTOR * (double)rounding);
}

/* Where element j of an [N,C,H,W] tensor is in [N,H,W,C]; tensors of other dimensions stay as they are. */
static size_t to_channels_last(const struct tensor *t, size_t j)
{
	size_t h = (size_t)t->dim[1], w = (size_t)t->dim[2], c = (size_t)t->dim[3];
	size_t column, row, channel;

	if (t->dims != 4)
		return j;
	column = j % w;
	row = j / w % h;
	channel = j / w / h % c;
	return ((j / w / h / c * h + row) * w + column) * c + channel;
}

static int write_wave(struct network *net, int tensor, double phase, double step)
{
	const struct tensor *t = &net->graph->tensors[tensor];
	float *values = memory_new(t->elements, sizeof(*values));
	int status;

	for (size_t j = 0; j < t->elements; j++)
		values[to_channels_last(t, j)] = wave(phase, step, j);
	status = graph_write(net->graph, tensor, values);
	free(values);
	return status;
}

static int write_mask(struct network *net)
{
	const struct tensor *t = &net->graph->tensors[net->mask];
	float *values = memory_new(t->elements, sizeof(*values));
	int status;

	for (size_t j = 0; j < t->elements; j++)
		values[j] = j % (size_t)(t->dim[1] * t->dim[2]) % 5 != 3;
	status = graph_write(net->graph, net->mask, values);
	free(values);
	return status;
}

static int compare_names(const void *a, const void *b, void *context)
{
	struct store *store = context;

	return strcmp(store_parameter(store, *(const size_t *)a)->name,
		store_parameter(store, *(const size_t *)b)->name);
}

/* Parameters in the order of their names; owned by the caller. */
static size_t *sorted_parameters(struct store *store)
{
	size_t *order = memory_new(store_count(store), sizeof(*order));

	for (size_t i = 0; i < store_count(store); i++)
		order[i] = i;
	qsort_r(order, store_count(store), sizeof(*order), compare_names, store);
	return order;
}

static int fill_parameters(struct store *store)
{
	size_t *order = sorted_parameters(store);
	int status = STATUS_OK;

	for (size_t k = 0; k < store_count(store) && !status; k++) {
		const struct parameter *parameter = store_parameter(store, order[k]);
		bool one = strstr(parameter->name, "norm") && text_ends(parameter->name, "weight");
		float *values = memory_new(parameter->count, sizeof(*values));

		for (size_t j = 0; j < parameter->count; j++)
			values[j] = (float)(0.05 * sin(1 + (double)k + 0.37 * (double)j) + one);
		status = store_import(store, order[k], SLOT_VALUE, values);
		free(values);
	}
	free(order);
	return status;
}

/* ---- comparing ---- */

static const float *golden_data(const char *network, const char *what, size_t count)
{
	char name[128];
	const struct safetensor *tensor;

	snprintf(name, sizeof(name), "%s.%s", network, what);
	tensor = safetensors_find(&golden, name);
	if (!tensor || tensor->bytes != count * sizeof(float)) {
		check_report(false, name, "the golden file has no such tensor of %zu elements", count);
		return NULL;
	}
	return tensor->data;
}

static const float *golden_rounding(const char *network, const char *what, size_t count)
{
	char name[128];

	snprintf(name, sizeof(name), "%s.rounding", what);
	return golden_data(network, name, count);
}

/* Largest error over the root mean square. */
static double relative_error(const float *values, const float *expected, size_t count)
{
	double squares = 0, worst = 0;

	for (size_t j = 0; j < count; j++) {
		double error = fabs((double)values[j] - (double)expected[j]);

		squares += (double)expected[j] * (double)expected[j];
		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst / sqrt(squares / (double)count);
}

static void check_tensor(struct network *net, int tensor, const char *what)
{
	const struct tensor *t = &net->graph->tensors[tensor];
	const float *expected = golden_data(net->name, what, t->elements),
		    *rounding = golden_rounding(net->name, what, 1);
	float *memory = memory_new(t->elements, sizeof(*memory)),
	      *values = memory_new(t->elements, sizeof(*values));
	char name[128];
	double error, limit;

	if (!expected || !rounding || graph_read(net->graph, tensor, memory)) {
		check_report(false, what, "%s", error_message());
		goto out;
	}
	for (size_t j = 0; j < t->elements; j++)
		values[j] = memory[to_channels_last(t, j)];
	error = relative_error(values, expected, t->elements);
	limit = limit_of(net, ROUNDING_FLOOR, *rounding);
	snprintf(name, sizeof(name), "%s on %s: %s", net->name, net->device->backend->name, what);
	check_report(error <= limit, name, "error %.3g of the root mean square, not %.3g", error, limit);
out:
	free(memory);
	free(values);
}

/* Elements, root mean square, projection, spaced elements. */
static void make_row(const float *values, size_t count, double *row)
{
	double squares = 0, projection = 0;

	for (size_t j = 0; j < count; j++) {
		squares += (double)values[j] * (double)values[j];
		projection += (double)values[j] * cos(0.7 * (double)j + 0.3);
	}
	row[0] = (double)count;
	row[1] = sqrt(squares / (double)count);
	row[2] = projection / sqrt((double)count);
	for (size_t i = 0; i < 8; i++)
		row[3 + i] = values[i * (count - 1) / 7];
}

/* Error of a row in root mean squares of its parameter's values. */
static double row_error(const float *values, size_t count, const float *expected)
{
	double row[ROW], worst = 0;

	make_row(values, count, row);
	if (row[0] != (double)expected[0])
		return INFINITY;
	for (int i = 1; i < ROW; i++) {
		double error = fabs(row[i] - (double)expected[i]);

		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst / (double)expected[1];
}

/* Values for every parameter, by `get`, against the rows of the golden file. */
static void check_parameters(struct network *net, const char *what, double floor_limit,
	int (*get)(struct network *net, size_t parameter, float *values))
{
	struct store *store = program_store(net->program);
	size_t count = store_count(store), *order = sorted_parameters(store);
	const float *expected = golden_data(net->name, "parameters", count * ROW);
	const float *rounding = golden_rounding(net->name, "parameters", count);
	const char *where = "";
	char name[128];
	double worst = 0;

	for (size_t k = 0; k < count && expected && rounding; k++) {
		const struct parameter *parameter = store_parameter(store, order[k]);
		float *values = memory_new(parameter->count, sizeof(*values));
		double error = get(net, order[k], values)
				       ? INFINITY
				       : row_error(values, parameter->count, expected + k * ROW);

		error /= limit_of(net, floor_limit, rounding[k]);
		if (error > worst || isnan(error)) {
			worst = error;
			where = parameter->name;
		}
		free(values);
	}
	snprintf(name, sizeof(name), "%s on %s: %s of %zu parameters", net->name, net->device->backend->name,
		what, count);
	check_report(expected && rounding && worst <= 1, name, "error is %.3g of what is allowed in %s",
		worst, where);
	free(order);
}

static int get_gradient(struct network *net, size_t parameter, float *values)
{
	return store_export(program_store(net->program), parameter, SLOT_GRADIENT, values);
}

/* ---- blocks ---- */

static int input(struct network *net, const char *name, int dims, const int64_t *dim, double phase)
{
	int tensor = graph_input(net->graph, name, TENSOR_F32, dims, dim);

	graph_want_gradient(net->graph, tensor);
	net->input[net->inputs++] = (struct input){name, phase, tensor};
	return tensor;
}

static int image(struct network *net, const char *name, int h, int w, int channels, double phase)
{
	return input(net, name, 4, (int64_t[]){2, h, w, channels}, phase);
}

static void add_time(struct network *net)
{
	int time = input(net, "time", 2, (int64_t[]){2, 64}, 0.25);

	net->blocks.time = graph_activation(net->graph, time, ACTIVATION_SILU);
}

static void add_context(struct network *net)
{
	net->blocks.context = input(net, "context", 3, (int64_t[]){2, 3, 12}, 0.5);
}

static int build_resnet(struct network *net)
{
	add_time(net);
	return unet_resnet(&net->blocks, image(net, "x", 5, 7, 16, 0), 16);
}

static int build_shortcut(struct network *net)
{
	add_time(net);
	return unet_resnet(&net->blocks, image(net, "x", 5, 7, 16, 0), 24);
}

static int build_transformer(struct network *net)
{
	add_context(net);
	return unet_transformer(&net->blocks, image(net, "x", 5, 7, 24, 0), 3);
}

static void keep_skips(struct network *net)
{
	for (int i = 0; i < net->blocks.skips; i++)
		net->skips[net->skip_count++] = graph_output(net->graph, net->blocks.skip[i]);
}

static int build_down(struct network *net)
{
	int out;

	add_time(net);
	add_context(net);
	out = unet_down(&net->blocks, image(net, "x", 5, 7, 16, 0), 0);
	keep_skips(net);
	return out;
}

static int build_last_down(struct network *net)
{
	int out;

	net->unet.attention[1] = false;
	add_time(net);
	out = unet_down(&net->blocks, image(net, "x", 5, 7, 16, 0), 1);
	keep_skips(net);
	return out;
}

static int build_middle(struct network *net)
{
	add_time(net);
	add_context(net);
	return unet_middle(&net->blocks, image(net, "x", 5, 7, 24, 0));
}

/* Upsampling aims at the size of the skip that lies below those of this block: 3x4 to the odd 5x7. */
static int build_up(struct network *net)
{
	int below = graph_input(net->graph, "below", TENSOR_F32, 4, (int64_t[]){2, 5, 7, 16});

	add_time(net);
	add_context(net);
	unet_push_skip(&net->blocks, below);
	unet_push_skip(&net->blocks, image(net, "skip0", 3, 4, 16, 1));
	unet_push_skip(&net->blocks, image(net, "skip1", 3, 4, 24, 2));
	unet_push_skip(&net->blocks, image(net, "skip2", 3, 4, 24, 3));
	return unet_up(&net->blocks, image(net, "x", 3, 4, 24, 0), 0);
}

static int build_last_up(struct network *net)
{
	static const char *const names[] = {"skip0", "skip1", "skip2"};

	net->unet.attention[0] = false;
	add_time(net);
	for (int i = 0; i < 3; i++)
		unet_push_skip(&net->blocks, image(net, names[i], 5, 7, 16, 1 + i));
	return unet_up(&net->blocks, image(net, "x", 5, 7, 24, 0), 1);
}

/* ---- whole networks ---- */

static const struct unet small_unet = {.in_channels = 8,
	.out_channels = 4,
	.levels = 2,
	.width = {16, 24},
	.heads = {2, 3},
	.attention = {true, true},
	.layers = 2,
	.norm_groups = 4,
	.context_width = 12};
static const struct unet toy_unet = {.in_channels = 8,
	.out_channels = 4,
	.levels = 4,
	.width = {32, 64, 96, 96},
	.heads = {2, 4, 6, 6},
	.attention = {true, true, true, false},
	.layers = 2,
	.norm_groups = 8,
	.context_width = 24};
static const struct unet adam_unet = {.in_channels = 8,
	.out_channels = 4,
	.levels = 2,
	.width = {16, 32},
	.heads = {1, 2},
	.attention = {true, false},
	.layers = 1,
	.norm_groups = 4,
	.context_width = 8};
static const struct unet full_unet = {.in_channels = 8,
	.out_channels = 4,
	.levels = 4,
	.width = {320, 640, 1280, 1280},
	.heads = {5, 10, 20, 20},
	.attention = {true, true, true, false},
	.layers = 2,
	.norm_groups = 32,
	.context_width = 1024};

static int build_toy(struct network *net)
{
	int t = graph_input(net->graph, "t", TENSOR_F32, 1, (int64_t[]){1});
	int x = input(net, "x", 4, (int64_t[]){1, 9, 13, 8}, 0), context;

	net->embeds = true;
	context = input(net, "context", 3, (int64_t[]){1, 2, 24}, 0.5);
	return unet_build(net->graph, &toy_unet, x, t, context);
}

static int write_toy_time(struct network *net)
{
	float t = 500;

	return graph_write(net->graph, 0, &t);
}

static void add_loss(struct network *net)
{
	const struct graph *graph = net->graph;
	int64_t dim[4];

	for (int i = 0; i < 4; i++)
		dim[i] = graph_dim(graph, net->out, i);
	net->target = graph_input(net->graph, "target", TENSOR_F32, 4, dim);
	net->mask = graph_input(net->graph, "mask", TENSOR_F32, 3, dim);
	net->loss = graph_masked_mse(net->graph, net->out, net->target, net->mask);
}

static int network_open(struct network *net, const struct backend *backend, const struct unet *unet)
{
	struct device_settings settings = {.threads = net->threads ? net->threads : 2, .isa = "auto"};

	if (backend->open(&settings, &net->device))
		return error_status();
	net->program = program_new(net->device);
	net->graph = net->program ? graph_new(net->program, net->name, true) : NULL;
	if (!net->graph)
		return error_status();
	net->unet = *unet;
	net->blocks.graph = net->graph;
	net->blocks.unet = &net->unet;
	return STATUS_OK;
}

static void network_close(struct network *net)
{
	program_free(net->program);
	if (net->device)
		net->device->backend->close(net->device);
}

static int network_run(struct network *net)
{
	int status = fill_parameters(program_store(net->program));

	for (int i = 0; i < net->inputs && !status; i++)
		status = write_wave(net, net->input[i].tensor, net->input[i].phase, 0.61);
	if (!status)
		status = write_wave(net, net->target, 2.5, 0.37);
	if (!status)
		status = write_mask(net);
	return status ? status : graph_run(net->graph);
}

static void test_network(const struct backend *backend, const char *name, int (*build)(struct network *net))
{
	struct network net = {.name = name};
	char what[64];

	if (check_status(network_open(&net, backend, &small_unet), 0, name)) {
		net.out = graph_output(net.graph, build(&net));
		add_loss(&net);
		graph_backward(net.graph, net.loss);
		if (!check_status(program_prepare(net.program), 0, "a block is prepared") ||
			(build == build_toy && write_toy_time(&net)) ||
			!check_status(network_run(&net), 0, "a block is run"))
			goto out;
		check_tensor(&net, net.out, "out");
		check_tensor(&net, net.loss, "loss");
		for (int i = 0; i < net.skip_count; i++) {
			snprintf(what, sizeof(what), "skip%d", i);
			check_tensor(&net, net.skips[i], what);
		}
		for (int i = 0; i < net.inputs; i++) {
			snprintf(what, sizeof(what), "d_%s", net.input[i].name);
			check_tensor(&net, graph_gradient(net.graph, net.input[i].tensor), what);
		}
		check_parameters(&net, "gradients", ROUNDING_FLOOR, get_gradient);
	}
out:
	network_close(&net);
}

static void test_blocks(const struct backend *backend)
{
	test_network(backend, "resnet", build_resnet);
	test_network(backend, "shortcut", build_shortcut);
	test_network(backend, "transformer", build_transformer);
	test_network(backend, "down", build_down);
	test_network(backend, "last_down", build_last_down);
	test_network(backend, "middle", build_middle);
	test_network(backend, "up", build_up);
	test_network(backend, "last_up", build_last_up);
}

/* ---- time ---- */

/* Arguments up to 999 in single precision are off by up to 3e-5 in the golden numbers, those of 0 and 1 are not. */
static void test_embedding(void)
{
	enum { TIMES = 5, WIDTH = 320 };
	struct network net = {.name = "embedding"};
	const struct safetensor *tensor = safetensors_find(&golden, "embedding");
	float times[TIMES] = {0, 1, 250, 500, 999}, values[TIMES * WIDTH];
	int t, e;

	if (!check(tensor && tensor->bytes == sizeof(values), "the golden file has the time embedding") ||
		network_open(&net, &cpu_backend, &small_unet))
		return;
	t = graph_input(net.graph, "t", TENSOR_F32, 1, (int64_t[]){TIMES});
	e = graph_output(net.graph, graph_timestep_embedding(net.graph, t, WIDTH));
	check(!program_prepare(net.program) && !graph_write(net.graph, t, times) && !graph_run(net.graph) &&
			!graph_read(net.graph, e, values),
		"the time is embedded");
	check_array(values, tensor->data, 2 * WIDTH, 2e-7, "embedding of the times 0 and 1 is diffusers'");
	check_array(values, tensor->data, TIMES * WIDTH, 6e-5, "embedding of times up to 999 is diffusers'");
	check_close((double)values[4 * WIDTH + 319], 0.10562, 5e-6, "its last element in exact arithmetic");
	network_close(&net);
}

/* ---- ten steps of Adam ---- */

struct training {
	struct network net;
	int x, t, context, micros;
	float losses[10], norms[10];
	float **start; /* by parameter */
};

/* The graph takes 2 / micros samples. */
static int training_init(struct training *training, const struct backend *backend, double clip)
{
	struct network *net = &training->net;
	struct optimizer_rule rule = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = clip};
	int64_t n = 2 / training->micros;

	if (network_open(net, backend, &adam_unet))
		return error_status();
	training->x = graph_input(net->graph, "x", TENSOR_F32, 4, (int64_t[]){n, 6, 5, 8});
	training->t = graph_input(net->graph, "t", TENSOR_F32, 1, &n);
	training->context = graph_input(net->graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, 8});
	net->out = unet_build(net->graph, &adam_unet, training->x, training->t, training->context);
	add_loss(net);
	graph_backward(net->graph, net->loss);
	program_micros(net->program, training->micros);
	if (program_update_rule(net->program, &rule) || program_prepare(net->program))
		return error_status();
	return fill_parameters(program_store(net->program));
}

/* Writes sample `first` and those behind it of a wave over the whole batch. */
static int write_part(struct training *training, int tensor, double phase, double step, int first)
{
	const struct tensor *t = &training->net.graph->tensors[tensor];
	size_t sample = t->elements / (size_t)t->dim[0];

	return write_wave(&training->net, tensor, phase + step * (double)(sample * (size_t)first), step);
}

static int training_step(struct training *training, int k)
{
	struct network *net = &training->net;
	struct step_scalars scalars = {.learning_rate = 1e-3, .step = k + 1};
	float times[2] = {(float)(100 * k + 7), (float)(999 - 90 * k)}, loss;
	double norm;

	for (int micro = 0; micro < training->micros; micro++) {
		int first = micro * 2 / training->micros;

		if (write_part(training, training->x, k, 0.61, first) ||
			write_part(training, training->context, 0.5 + k, 0.61, first) ||
			write_part(training, net->target, 2.5 + 0.5 * k, 0.37, first) || write_mask(net) ||
			graph_write(net->graph, training->t, times + first) || graph_run(net->graph) ||
			graph_read(net->graph, net->loss, &loss) ||
			program_collect(net->program, micro, training->micros))
			return error_status();
		training->losses[k] += loss / (float)training->micros;
	}
	if (program_gradient_norm(net->program, &norm) || program_update(net->program, &scalars))
		return error_status();
	training->norms[k] = (float)norm;
	return STATUS_OK;
}

/* The change since the start; the network is the first member of a training. */
static int get_change(struct network *net, size_t parameter, float *values)
{
	const float *start = ((struct training *)net)->start[parameter];
	struct store *store = program_store(net->program);
	int status = store_export(store, parameter, SLOT_VALUE, values);

	for (size_t j = 0; j < store_parameter(store, parameter)->count; j++)
		values[j] -= start[j];
	return status;
}

static void keep_start(struct training *training)
{
	struct store *store = program_store(training->net.program);

	training->start = memory_new(store_count(store), sizeof(*training->start));
	for (size_t i = 0; i < store_count(store); i++) {
		training->start[i] = memory_new(store_parameter(store, i)->count, sizeof(float));
		store_export(store, i, SLOT_VALUE, training->start[i]);
	}
}

static void test_adam(const char *name, double clip, int micros)
{
	struct training training = {.net = {.name = name}, .micros = micros};
	const float *losses = golden_data(name, "losses", 10), *norms = golden_data(name, "norms", 10);
	char what[128];
	int status = training_init(&training, &cpu_backend, clip);

	if (!status)
		keep_start(&training);
	for (int k = 0; k < 10 && !status; k++)
		status = training_step(&training, k);
	snprintf(what, sizeof(what), "ten steps, %s, %d micro-batches", name, micros);
	if (check_status(status, 0, what) && losses && norms) {
		check_array(training.losses, losses, 10, 2e-5, "losses of ten steps are PyTorch's");
		check_array(training.norms, norms, 10, 1e-4, "gradient norms of ten steps are PyTorch's");
		check_parameters(&training.net, "changes in ten steps", ADAM_FLOOR, get_change);
	}
	for (size_t i = 0; training.start && i < store_count(program_store(training.net.program)); i++)
		free(training.start[i]);
	free(training.start);
	network_close(&training.net);
}

/* All parameters after five steps; owned by the caller. */
static float *train_with(int threads, size_t *count)
{
	struct training training = {.net = {.name = "threads", .threads = threads}, .micros = 2};
	struct store *store;
	float *values = NULL;
	int status = training_init(&training, &cpu_backend, 0.1);

	*count = 0;
	for (int k = 0; k < 5 && !status; k++)
		status = training_step(&training, k);
	if (!status) {
		store = program_store(training.net.program);
		for (size_t i = 0; i < store_count(store); i++)
			*count += store_parameter(store, i)->count;
		values = memory_new(*count, sizeof(*values));
		*count = 0;
		for (size_t i = 0; i < store_count(store); i++) {
			store_export(store, i, SLOT_VALUE, values + *count);
			*count += store_parameter(store, i)->count;
		}
	}
	network_close(&training.net);
	return values;
}

static void test_threads(void)
{
	size_t counts[3];
	float *values[3];
	bool equal = true;

	for (int i = 0; i < 3; i++) {
		values[i] = train_with(i + 1, &counts[i]);
		equal = equal && values[i] && counts[i] == counts[0] &&
			!memcmp(values[i], values[0], counts[0] * sizeof(**values));
	}
	check(equal, "five steps give the same bits with 1, 2 and 3 threads");
	for (int i = 0; i < 3; i++)
		free(values[i]);
}

/* ---- the network of the original's size ---- */

static void check_names(struct store *store)
{
	size_t *order = sorted_parameters(store), bytes, line = 0, wrong = 0;
	char *text = NULL, *at;

	if (!check_status(file_read("tests/golden/unet.tsv", 1 << 20, &text, &bytes), 0, "names are read"))
		goto out;
	for (at = text; *at && line < store_count(store); line++) {
		const struct parameter *parameter = store_parameter(store, order[line]);
		char *end = strchr(at, '\n');
		struct text mine = {0};

		text_format(&mine, "%s\t", parameter->name);
		for (int i = 0; i < parameter->dims; i++)
			text_format(&mine, "%s%lld", i ? "x" : "", (long long)parameter->dim[i]);
		*end = 0;
		wrong += strcmp(at, mine.data) != 0;
		at = end + 1;
		text_release(&mine);
	}
	check(!wrong && line == store_count(store) && !*at,
		"names and shapes of all tensors are the original's");
out:
	free(order);
	free(text);
}

/* Of the nodes before the backward pass. */
static double forward_flops(const struct network *net)
{
	double sum = 0;

	for (size_t n = 0; n < net->graph->forward_count; n++)
		sum += net->graph->nodes[n].flops;
	return sum;
}

static void test_full_size(void)
{
	struct network net = {.name = "full"};
	struct store *store;
	struct program_bytes bytes;
	size_t parameters = 0;
	int64_t n = 2;
	int x, t, context;

	if (!check_status(network_open(&net, &cpu_backend, &full_unet), 0, "the full network is built"))
		goto out;
	x = graph_input(net.graph, "x", TENSOR_F32, 4, (int64_t[]){n, 60, 80, 8});
	t = graph_input(net.graph, "t", TENSOR_F32, 1, &n);
	context = graph_input(net.graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, 1024});
	net.out = unet_build(net.graph, &full_unet, x, t, context);
	add_loss(&net);
	graph_backward(net.graph, net.loss);
	store = program_store(net.program);
	for (size_t i = 0; i < store_count(store); i++)
		parameters += store_parameter(store, i)->count;
	check(parameters == 865922244 && store_count(store) == 686, "865,922,244 parameters in 686 tensors");
	check_names(store);
	check_status(program_measure(net.program, &bytes), 0, "the full network is measured without memory");
	check(!store_has(store, SLOT_VALUE), "measuring allocates nothing");
	check(bytes.parameters >= 4 * (uint64_t)parameters &&
			bytes.parameters < 4 * (uint64_t)parameters + 686 * 64,
		"bytes of the parameters");
	check(net.graph->arena_bytes < 1.02 * (double)net.graph->lower_bound_bytes,
		"the arena is within 2 % of the most that lives at once");
	check(fabs(forward_flops(&net) / (4 * 480.9e9) - 1) < 0.01,
		"operations of a forward pass are the known ones");
	printf("# 2x60x80: arena %.3f GiB, lower bound %.3f GiB, %.0f GFLOP\n",
		(double)net.graph->arena_bytes / (1 << 30), (double)net.graph->lower_bound_bytes / (1 << 30),
		graph_flops(net.graph) / 1e9);
out:
	network_close(&net);
}

static void test_demo_size(void)
{
	static const struct unet demo_unet = {.in_channels = 8,
		.out_channels = 4,
		.levels = 2,
		.width = {32, 64},
		.heads = {1, 2},
		.attention = {true, false},
		.layers = 1,
		.norm_groups = 8,
		.context_width = 32};
	struct network net = {.name = "demo"};
	size_t parameters = 0;
	int64_t n = 1;
	int x, t, context;

	if (!check_status(network_open(&net, &cpu_backend, &demo_unet), 0, "the small network is built"))
		goto out;
	x = graph_input(net.graph, "x", TENSOR_F32, 4, (int64_t[]){n, 12, 16, 8});
	t = graph_input(net.graph, "t", TENSOR_F32, 1, &n);
	context = graph_input(net.graph, "context", TENSOR_F32, 3, (int64_t[]){n, 2, 32});
	unet_build(net.graph, &demo_unet, x, t, context);
	for (size_t i = 0; i < store_count(program_store(net.program)); i++)
		parameters += store_parameter(program_store(net.program), i)->count;
	check(parameters == 794116, "794,116 parameters");
out:
	network_close(&net);
}

/* ---- configuration ---- */

static void test_config_json(void)
{
	static const char *const needed[] = {"_class_name", "attention_head_dim", "block_out_channels",
		"cross_attention_dim", "down_block_types", "up_block_types", "in_channels", "out_channels",
		"layers_per_block", "norm_num_groups", "sample_size", "use_linear_projection"};
	struct text text = {0}, other = {0};
	json_error_t error;
	json_t *mine, *theirs, *value;
	const char *key;
	bool good;

	check_status(unet_config_json(&full_unet, &text), 0, "config.json is written");
	mine = json_loads(text.data ? text.data : "", 0, &error);
	theirs = json_load_file("tests/golden/unet.json", 0, &error);
	good = mine && theirs;
	for (size_t i = 0; good && i < sizeof(needed) / sizeof(*needed); i++)
		good = json_object_get(mine, needed[i]) != NULL;
	check(good, "config.json has every key that the network depends on");
	json_object_foreach(mine, key, value)
	{
		if (!json_equal(value, json_object_get(theirs, key)))
			text_format(&other, " %s", key);
	}
	check_report(
		!other.length, "config.json agrees with diffusers", "not in%s", other.data ? other.data : "");
	text_release(&other);
	json_decref(mine);
	json_decref(theirs);
	text_release(&text);
}

static void check_refused(struct unet unet, const char *key)
{
	char name[128];
	int status = unet_check(&unet);

	snprintf(name, sizeof(name), "a bad value of %s is refused by that name", key);
	check_report(status == STATUS_CONFIG && strstr(error_message(), key), name, "status %d, %s", status,
		error_message());
}

static void test_bad_sizes(void)
{
	struct unet unet = small_unet;

	check_status(unet_check(&unet), 0, "a good network is accepted");
	unet.levels = 9;
	check_refused(unet, "model.widths");
	unet = small_unet;
	unet.width[1] = 25;
	check_refused(unet, "model.widths");
	unet = small_unet;
	unet.norm_groups = 5;
	check_refused(unet, "model.norm_groups");
	unet = small_unet;
	unet.heads[1] = 5;
	check_refused(unet, "model.heads");
	unet = small_unet;
	unet.layers = 0;
	check_refused(unet, "model.layers");
	unet = small_unet;
	unet.context_width = 0;
	check_refused(unet, "model.context_width");
}

int main(void)
{
	test_config_json();
	test_bad_sizes();
	test_full_size();
	test_demo_size();
	if (!check_status(
		    safetensors_read("tests/golden/unet.safetensors", &golden), 0, "golden numbers are read"))
		return check_summary();
	test_blocks(&reference_backend);
	test_blocks(&cpu_backend);
	test_network(&reference_backend, "toy", build_toy);
	test_network(&cpu_backend, "toy", build_toy);
	test_embedding();
	test_adam("adam", 0, 1);
	test_adam("clipped", 0.1, 1);
	test_adam("clipped", 0.1, 2);
	test_threads();
	safetensors_release(&golden);
	return check_summary();
}
