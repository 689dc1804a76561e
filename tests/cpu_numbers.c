/*
 * The CPU back end's other parts: optimizer steps against PyTorch's (tests/golden/optimizer.tsv), sums over parameters,
 * the accuracy of its exponential and normal distribution, and what opening it refuses.
 */
#include <stdint.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"

/* ---- optimizers, against PyTorch ---- */

#define GOLDEN_COUNT 37

/* Reads the row of `optimizer` at `step` into values; false when it is not there. */
static bool golden_row(char *lines, const char *optimizer, int step, float *values)
{
	char wanted[64];
	snprintf(wanted, sizeof wanted, "\n%s\t%d\t", optimizer, step);
	const char *row = strstr(lines, wanted);
	if (!row)
		return false;
	char *copy = memory_copy(row + 1, strcspn(row + 1, "\n") + 1), *field[GOLDEN_COUNT + 2];
	copy[strcspn(copy, "\n")] = '\0';
	bool good = text_split(copy, '\t', field, GOLDEN_COUNT + 2) == GOLDEN_COUNT + 2;
	for (int i = 0; good && i < GOLDEN_COUNT; i++) {
		double value = 0;
		good = text_to_double(field[i + 2], &value);
		values[i] = (float)value;
	}
	free(copy);
	return good;
}

static const struct {
	const char *name;
	struct optimizer_rule rule;
} optimizers[] = {
	{"adam", {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
	{"sgd", {.kind = OPTIMIZER_SGD}},
	{"momentum", {.kind = OPTIMIZER_SGD, .momentum = 0.9}},
	{"adam-decay", {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.1}},
	{"adamw", {.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.1}},
	{"average", {.kind = OPTIMIZER_ADAMW,
			    .beta1 = 0.9,
			    .beta2 = 0.999,
			    .epsilon = 1e-8,
			    .decay = 0.1,
			    .average = 0.9}},
	{"dampened", {.kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.5, .decay = 0.1}},
	{"nesterov", {.kind = OPTIMIZER_SGD, .momentum = 0.9, .decay = 0.1, .nesterov = true}},
};

/* Steps one optimizer as tests/golden/optimizer.py does; `scale` 0.5 gets gradients twice as large. */
static void test_optimizer(
	struct device *device, char *lines, const char *name, const struct optimizer_rule *rule, double scale)
{
	float value[GOLDEN_COUNT], gradient[GOLDEN_COUNT], expected[GOLDEN_COUNT];
	float moment1[GOLDEN_COUNT] = {0}, moment2[GOLDEN_COUNT] = {0}, average[GOLDEN_COUNT];
	char title[64];
	double worst = 0;
	for (int i = 0; i < GOLDEN_COUNT; i++)
		value[i] = (float)sin(1.0 + i);
	for (int step = 1; step <= 6; step++) {
		const struct step_scalars scalars = {.learning_rate = 0.01 * step, .step = step};
		const float *result = rule->average > 0 ? average : value;
		for (int i = 0; i < GOLDEN_COUNT; i++)
			gradient[i] =
				(float)(sin(3 + 0.7 * i + 1.3 * step) * pow(10, 1 - i % 9)) / (float)scale;
		device->backend->update(device,
			&(struct update_call){.value = value,
				.gradient = gradient,
				.moment1 =
					rule->kind == OPTIMIZER_SGD && rule->momentum == 0 ? NULL : moment1,
				.moment2 = moment2,
				.average = rule->average > 0 ? average : NULL,
				.count = GOLDEN_COUNT,
				.rule = rule,
				.scalars = &scalars,
				.scale = scale});
		if (!golden_row(lines, name, step, expected))
			worst = INFINITY;
		for (int i = 0; i < GOLDEN_COUNT; i++)
			worst = fmax(worst, fabs(result[i] - expected[i]) / fmax(1, fabs(expected[i])));
	}
	snprintf(title, sizeof title, "%s steps like PyTorch's, scale %g, %s", name, scale,
		device->backend->isa(device));
	check_report(worst <= 2.5e-7, title, "off by %.3g", worst);
}

static double random_value(uint64_t *state)
{
	double sum = 0;
	for (int i = 0; i < 4; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		sum += (double)(*state >> 11) * 0x1p-53;
	}
	return (sum - 2) * 1.7; /* near normal, deviation 1 */
}

/* ---- sums over parameters ---- */

static void test_vectors(struct device *device)
{
	enum { COUNT = 150001 };
	float *a = malloc(COUNT * sizeof *a), *b = malloc(COUNT * sizeof *b);
	double expected = 0, sum = 0, error = 0;
	uint64_t state = 7;
	for (int i = 0; i < COUNT; i++) {
		a[i] = (float)random_value(&state);
		b[i] = (float)random_value(&state);
		expected += (double)a[i] * a[i];
	}
	device->backend->sum_squares(device, a, COUNT, &sum);
	check_close(sum / expected, 1, 1e-13, "sum of squares");
	device->backend->add(device, b, a, COUNT);
	device->backend->scale(device, b, 0.25, COUNT);
	state = 7;
	for (int i = 0; i < COUNT; i++) {
		const float first = (float)random_value(&state), second = (float)random_value(&state);
		error = fmax(error, fabs(b[i] - 0.25f * (first + second)));
	}
	check_close(error, 0, 0, "add and scale are exact to rounding");
	a[COUNT - 2] = NAN;
	device->backend->sum_squares(device, a, COUNT, &sum);
	check(isnan(sum), "sum of squares with a nan is nan");
	a[COUNT - 2] = -INFINITY;
	device->backend->sum_squares(device, a, COUNT, &sum);
	check(isinf(sum), "sum of squares with an infinity is infinite");
	device->backend->sum_squares(device, a, 0, &sum);
	check(sum == 0, "sum of squares of nothing is 0");
	free(a);
	free(b);
}

/* ---- functions of one element ---- */

static double normal_distribution(double x)
{
	return 0.5 * erfc(-x / sqrt(2.0));
}

static double exact_activation(enum activation kind, double x)
{
	switch (kind) {
	case ACTIVATION_RELU:
		return x > 0 ? x : 0;
	case ACTIVATION_SILU:
		return x / (1 + exp(-x));
	case ACTIVATION_GELU:
		return x * normal_distribution(x);
	case ACTIVATION_SIGMOID:
		return 1 / (1 + exp(-x));
	default:
		return x;
	}
}

static double exact_slope(enum activation kind, double x)
{
	double s = 1 / (1 + exp(-x));
	switch (kind) {
	case ACTIVATION_RELU:
		return x > 0;
	case ACTIVATION_SILU:
		return s + x * s * (1 - s);
	case ACTIVATION_GELU:
		return normal_distribution(x) + x * exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
	case ACTIVATION_SIGMOID:
		return s * (1 - s);
	default:
		return 1;
	}
}

/* Runs ACTIVATION (or its gradient with dy = 1) on `count` elements. */
static void activate(
	struct device *device, enum activation kind, bool backward, float *x, float *y, size_t count)
{
	const struct node node = {
		.operation = backward ? OP_ACTIVATION_BACKWARD : OP_ACTIVATION, .activation = kind};
	struct tensor tensor = {
		.dims = 1, .dim = {(int64_t)count}, .elements = count, .bytes = count * sizeof(float)};
	float *ones = malloc(count * sizeof *ones);
	for (size_t i = 0; i < count; i++)
		ones[i] = 1;
	struct call call = {.node = &node,
		.in = {&tensor, backward ? &tensor : NULL},
		.out = {&tensor},
		.in_data = {x, ones},
		.out_data = {y}};
	device->backend->run(device, &call);
	free(ones);
}

/* Over the whole range of floats: error relative to the larger of the value and `floor` times |x| (1 for gradients). */
static void test_function(
	struct device *device, enum activation kind, bool backward, double limit, const char *name)
{
	enum { COUNT = 200000 };
	float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
	double worst = 0, where = 0;
	for (int i = 0; i < COUNT; i++) {
		const double size = exp(-20 + 25.0 * (i / 2) / (COUNT / 2)); /* 2e-9 to 150 */
		x[i] = (float)(i % 2 ? size : -size);
	}
	activate(device, kind, backward, x, y, COUNT);
	for (int i = 0; i < COUNT; i++) {
		const double exact = backward ? exact_slope(kind, x[i]) : exact_activation(kind, x[i]);
		const double scale =
			backward ? 1 : fmax(fabs(exact), kind == ACTIVATION_GELU ? 0.1 * fabs(x[i]) : 1e-30);
		const double error = fabs(y[i] - exact) / scale;
		/* below -87 results are 0 or subnormal */
		if (!(error <= worst) && (x[i] > -87 || isnan(error))) {
			worst = isnan(error) ? INFINITY : error;
			where = x[i];
		}
	}
	check_report(worst <= limit, name, "relative error %.3g at %.9g", worst, where);
	free(x);
	free(y);
}

static void test_functions(struct device *device)
{
	float special[4] = {NAN, INFINITY, -INFINITY, 0}, y[4];
	test_function(device, ACTIVATION_SILU, false, 3e-7, "silu is right to 5 units in the last place");
	test_function(device, ACTIVATION_SILU, true, 3e-7, "slope of silu");
	test_function(device, ACTIVATION_GELU, false, 1e-6, "gelu");
	test_function(device, ACTIVATION_GELU, true, 3e-7, "slope of gelu");
	for (enum activation kind = ACTIVATION_RELU; kind <= ACTIVATION_SIGMOID; kind++) {
		activate(device, kind, false, special, y, 4);
		check(isnan(y[0]), "an activation keeps nan");
		check(kind == ACTIVATION_SIGMOID ? y[1] == 1 : isinf(y[1]), "an activation of infinity");
		check(y[3] == (kind == ACTIVATION_SIGMOID ? 0.5f : 0), "an activation of 0");
	}
}

static void test_refusals(void)
{
	struct device *device = NULL;
	check_status(cpu_backend.open(&(struct device_settings){.threads = 1, .isa = "avx3"}, &device),
		STATUS_CONFIG, "an unknown instruction set is an error of the configuration");
	check(strstr(error_message(), "avx3") != NULL, "the message names it");
	check_status(cpu_backend.open(&(struct device_settings){.threads = 0, .isa = "auto"}, &device),
		STATUS_CONFIG, "no threads is an error of the configuration");
	check(!cpu_backend.open(&(struct device_settings){.threads = 2, .isa = "auto"}, &device),
		"auto finds one");
	check(cpu_backend.model(device)[0] != '\0', "the processor has a name");
	const struct node node = {.operation = OP_ADD};
	struct tensor integers = {.type = TENSOR_I32, .dims = 1, .dim = {4}, .elements = 4, .bytes = 16};
	const struct call call = {.node = &node, .in = {&integers, &integers}, .out = {&integers}};
	check(!cpu_backend.supports(device, &call), "there are no bodies for integers");
	cpu_backend.close(device);
}

static void test_device(const char *isa, char *lines)
{
	struct device *device = NULL;
	if (cpu_backend.open(&(struct device_settings){.threads = 2, .isa = isa}, &device)) {
		check_skip(isa, "this processor does not have it");
		return;
	}
	for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
		test_optimizer(device, lines, optimizers[i].name, &optimizers[i].rule, 1);
		test_optimizer(device, lines, optimizers[i].name, &optimizers[i].rule, 0.5);
	}
	test_vectors(device);
	test_functions(device);
	cpu_backend.close(device);
}

int main(void)
{
	char *lines = NULL;
	size_t bytes;
	if (check_status(file_read("tests/golden/optimizer.tsv", 1 << 20, &lines, &bytes), 0,
		    "read optimizer.tsv")) {
		test_device("plain", lines);
		test_device("avx2", lines);
		test_device("avx512", lines);
	}
	test_refusals();
	free(lines);
	return check_summary();
}
