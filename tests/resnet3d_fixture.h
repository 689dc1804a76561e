/*
 * Runs a network of support/resnet3d_vectors.h and compares it. Single precision may differ from the vectors' double by what
 * PyTorch's was seen to with basic blocks and with bottlenecks (whose batch norms see 8 values at this size: badly conditioned), and
 * where it differs more in a vector (golden/resnet3d_rounding.tsv) by a few times that: the luck of three other orders of sums.
 */
#ifndef NIGHTSHIFT_TESTS_RESNET3D_FIXTURE_H
#define NIGHTSHIFT_TESTS_RESNET3D_FIXTURE_H

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "graph/internal.h"
#include "support/resnet3d_vectors.h"

#define ROUNDING_FACTOR 5

enum margin {
	MARGIN_LOGITS,
	MARGIN_LOSS,
	MARGIN_LOSS1,
	MARGIN_LOSS2,
	MARGIN_LOSS3,
	MARGIN_NORM,
	MARGIN_FIRST,
	MARGIN_AFTER,
	MARGIN_MEAN,
	MARGIN_VARIANCE,
	MARGIN_FIRST_MEAN,
	MARGIN_FIRST_VARIANCE,
	MARGINS
};

struct net {
	const struct resnet3d_vector *vector;
	struct device *device;
	struct program *program;
	struct graph *train, *eval;
	int input[2], classes[2], logits[2], loss[2]; /* of train, then of eval */
	double margins[MARGINS];
};

/* Absolute, of norms and variances relative. What follows three steps is as far off as their losses. */
static const double basic_margins[MARGINS] = {
	1e-6, 1e-6, 6e-6, 4e-5, 4e-5, 5e-5, 5e-5, 4e-5, 5e-5, 5e-5, 5e-5, 5e-5};
static const double bottleneck_margins[MARGINS] = {
	1e-6, 1e-6, 6e-6, 4e-3, 1.6e-2, 4e-4, 4e-4, 1.6e-2, 1.6e-2, 4e-4, 4e-4, 4e-4};

/* Reads the row of a vector; where there is none, zeros stay. */
static void read_rounding(const char *name, double rounding[MARGINS])
{
	char *data = NULL, *lines[64], *cells[MARGINS + 1];
	size_t bytes;
	int count;

	if (file_read("tests/golden/resnet3d_rounding.tsv", 1 << 20, (void *)&data, &bytes))
		return;
	count = text_split(data, '\n', lines, 64);
	for (int i = 0; i < count; i++) {
		if (text_split(lines[i], '\t', cells, MARGINS + 1) != MARGINS + 1 ||
			strcmp(cells[0], name) != 0)
			continue;
		for (int k = 0; k < MARGINS; k++)
			text_to_double(cells[k + 1], &rounding[k]);
	}
	free(data);
}

static void find_margins(const struct resnet3d_vector *vector, double scale, double margins[MARGINS])
{
	const struct resnet3d *r = &vector->resnet;
	const double *usual =
		r->family != RESNET3D_DENSENET && r->depth >= 50 ? bottleneck_margins : basic_margins;
	double rounding[MARGINS] = {0};

	read_rounding(vector->name, rounding);
	for (int k = 0; k < MARGINS; k++)
		margins[k] = scale * fmax(usual[k], ROUNDING_FACTOR * rounding[k]);
	for (int k = MARGIN_LOSS; k <= MARGIN_LOSS3; k++)
		margins[k] = fmax(margins[k], 1.3e-7); /* half a unit of what is read */
}

/* ---- running ---- */

static int net_graph(struct net *net, int k)
{
	const int *shape = net->vector->shape;
	struct graph *graph = graph_new(net->program, k ? "eval" : "train", !k);

	*(k ? &net->eval : &net->train) = graph;
	if (!graph)
		return error_status();
	net->input[k] = graph_input(
		graph, "clips", TENSOR_F32, 5, (int64_t[]){shape[0], shape[2], shape[3], shape[4], shape[1]});
	net->classes[k] = graph_input(graph, "classes", TENSOR_I32, 1, (int64_t[]){shape[0]});
	net->logits[k] = resnet3d_build(graph, &net->vector->resnet, net->input[k], !k);
	net->loss[k] = graph_cross_entropy(graph, net->logits[k], net->classes[k], 0).loss;
	graph_output(graph, net->logits[k]);
	graph_output(graph, net->loss[k]);
	return k ? STATUS_OK : graph_backward(graph, net->loss[k]);
}

static int net_build(struct net *net)
{
	const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-3};

	net->program = program_new(net->device);
	if (!net->program || net_graph(net, 0) || net_graph(net, 1) ||
		program_update_rule(net->program, &rule))
		return error_status();
	return program_prepare(net->program);
}

/* The clips in channels-last order, the classes. */
static int net_write(struct net *net, int k)
{
	struct graph *graph = k ? net->eval : net->train;
	const size_t n = (size_t)net->vector->shape[0], c = (size_t)net->vector->shape[1];
	size_t count = graph_elements(graph, net->input[k]), positions = count / n / c;
	float *values = memory_new(count, sizeof(*values));
	int32_t *classes = memory_new(n, sizeof(*classes));
	int status = STATUS_FAILURE;

	for (size_t i = 0; values && i < count; i++) {
		size_t sample = i / (c * positions), channel = i / positions % c;

		values[(sample * positions + i % positions) * c + channel] =
			(float)(1.5 * (2 * resnet3d_uniform("input", i) - 1));
	}
	for (size_t i = 0; classes && i < n; i++)
		classes[i] = (int32_t)(3 * i % 10);
	if (values && classes)
		status = graph_write(graph, net->input[k], values);
	if (!status)
		status = graph_write(graph, net->classes[k], classes);
	free(values);
	free(classes);
	return status;
}

static int net_open(struct net *net, const struct resnet3d_vector *vector, const struct backend *backend)
{
	int status;

	*net = (struct net){.vector = vector};
	status = backend->open(&(struct device_settings){.threads = 2, .isa = "auto"}, &net->device);
	if (!status)
		status = net_build(net);
	if (!status)
		status = resnet3d_fill(program_store(net->program));
	for (int k = 0; k < 2 && !status; k++)
		status = net_write(net, k);
	return status;
}

static void net_close(struct net *net)
{
	program_free(net->program);
	if (net->device)
		net->device->backend->close(net->device);
}

static double net_loss(struct net *net, int k)
{
	float loss = NAN;

	return graph_read(k ? net->eval : net->train, net->loss[k], &loss) ? NAN : loss;
}

static int net_step(struct net *net, int step)
{
	const struct step_scalars scalars = {.learning_rate = 1e-5, .step = step};

	return graph_run(net->train) || program_collect(net->program, 0, 1) ||
	       program_update(net->program, &scalars);
}

/* Length, sum and first element of a parameter's slot. */
static bool net_slot(struct net *net, const char *name, enum store_slot slot, double numbers[3])
{
	struct store *store = program_store(net->program);
	int i = store_find(store, name);
	size_t count = i < 0 ? 0 : store_parameter(store, (size_t)i)->count;
	float *values = memory_new(count + 1, sizeof(*values));
	bool got = i >= 0 && values && !store_export(store, (size_t)i, slot, values);

	numbers[0] = numbers[1] = 0;
	for (size_t j = 0; j < count && got; j++) {
		numbers[0] += (double)values[j] * values[j];
		numbers[1] += values[j];
	}
	numbers[0] = got ? sqrt(numbers[0]) : NAN;
	numbers[2] = got ? values[0] : NAN;
	free(values);
	return got;
}

/* ---- comparing ---- */

__attribute__((format(printf, 5, 6))) static void compare(
	struct net *net, double value, double expected, double tolerance, const char *format, ...)
{
	char what[64], name[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	snprintf(name, sizeof(name), "%s on %s: %s", net->vector->name, net->device->backend->name, what);
	check_close(value, expected, tolerance, name);
}

/* The first four logits of sample 0 as one number, the sum of all. */
static void compare_logits(struct net *net, const double expected[4], double tolerance, const char *when)
{
	float logits[64] = {0};
	double worst = 0;

	if (graph_elements(net->eval, net->logits[1]) > 64 || graph_run(net->eval) ||
		graph_read(net->eval, net->logits[1], logits)) {
		check_report(false, net->vector->name, "%s", error_message());
		return;
	}
	for (int i = 0; i < 4; i++)
		worst = fmax(worst, fabs(logits[i] - expected[i]));
	compare(net, worst, 0, tolerance, "logits %s", when);
}

static void compare_eval(struct net *net)
{
	const struct resnet3d_vector *vector = net->vector;
	float logits[64] = {0};
	double sum = 0;

	compare_logits(net, vector->eval, net->margins[MARGIN_LOGITS], "before training");
	graph_read(net->eval, net->logits[1], logits);
	for (int i = 0; i < 64; i++)
		sum += logits[i];
	compare(net, sum, vector->sum, net->margins[MARGIN_LOGITS] * 10 * vector->shape[0],
		"sum of the logits");
	compare(net, net_loss(net, 1), vector->loss, net->margins[MARGIN_LOSS], "loss by running statistics");
}

static const char *first_convolution(const struct resnet3d_vector *vector)
{
	return vector->resnet.family == RESNET3D_DENSENET     ? "features.conv1.weight"
	       : vector->resnet.family == RESNET3D_RESNET2P1D ? "conv1_s.weight"
							      : "conv1.weight";
}

static void compare_first_step(struct net *net)
{
	const struct resnet3d_vector *vector = net->vector;
	double norm = NAN, first[3];

	compare(net, net_loss(net, 0), vector->losses[0], net->margins[MARGIN_LOSS1], "loss 1");
	program_gradient_norm(net->program, &norm);
	compare(net, norm, vector->norm, net->margins[MARGIN_NORM] * vector->norm, "norm of the gradients");
	if (vector->resnet.train_from) {
		check(!net_slot(net, first_convolution(vector), SLOT_GRADIENT, first),
			"what is frozen has no gradient");
		return;
	}
	net_slot(net, first_convolution(vector), SLOT_GRADIENT, first);
	compare(net, first[0], vector->first, net->margins[MARGIN_FIRST] * vector->first,
		"gradient of the first convolution");
}

/* Sums of a norm's running statistics. */
static void compare_norm(
	struct net *net, const char *norm, double mean, double variance, const double margins[2])
{
	char name[128];
	double numbers[3];

	snprintf(name, sizeof(name), "%s.running_mean", norm);
	net_slot(net, name, SLOT_VALUE, numbers);
	compare(net, numbers[1], mean, margins[0], "%s", name);
	snprintf(name, sizeof(name), "%s.running_var", norm);
	net_slot(net, name, SLOT_VALUE, numbers);
	compare(net, numbers[1], variance, margins[1] * variance, "%s", name);
}

static void compare_end(struct net *net)
{
	const struct resnet3d_vector *vector = net->vector;
	static const char *const first[RESNET3D_FAMILIES] = {
		"bn1", "bn1_s", "bn1", "bn1", "bn1", "features.norm1"};

	if (!vector->last_norm)
		return;
	compare_logits(net, vector->after, net->margins[MARGIN_AFTER], "after training");
	compare_norm(net, vector->last_norm, vector->mean, vector->variance, &net->margins[MARGIN_MEAN]);
	if (vector->first_norm[1] > 0)
		compare_norm(net, first[vector->resnet.family], vector->first_norm[0], vector->first_norm[1],
			&net->margins[MARGIN_FIRST_MEAN]);
}

/* Trained parameters of the network. */
static size_t net_parameters(struct net *net)
{
	struct store *store = program_store(net->program);
	size_t count = 0;

	for (size_t i = 0; i < store_count(store); i++)
		count += store_parameter(store, i)->statistic ? 0 : store_parameter(store, i)->count;
	return count;
}

/* `scale` times the margins; `look` (may be NULL) is called after the first step. */
static void check_vector(
	const char *name, const struct backend *backend, double scale, void (*look)(struct net *net))
{
	const struct resnet3d_vector *vector = resnet3d_vectors;
	struct net net;

	while (vector->name && strcmp(vector->name, name) != 0)
		vector++;
	if (!vector->name || net_open(&net, vector, backend)) {
		check_report(false, name, "%s", vector->name ? error_message() : "no such vector");
		if (vector->name)
			net_close(&net);
		return;
	}
	find_margins(vector, scale, net.margins);
	if (vector->parameters)
		compare(&net, (double)net_parameters(&net), (double)vector->parameters, 0, "parameters");
	compare_eval(&net);
	for (int step = 1; step <= 3; step++) {
		if (net_step(&net, step)) {
			check_report(false, name, "%s", error_message());
			break;
		}
		if (step == 1)
			compare_first_step(&net);
		else
			compare(&net, net_loss(&net, 0), vector->losses[step - 1],
				net.margins[MARGIN_LOSS1 + step - 1], "loss %d", step);
		if (step == 1 && look)
			look(&net);
	}
	compare_end(&net);
	net_close(&net);
}

#endif
