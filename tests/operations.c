/*
 * The operation table: every operation of lib/graph/operation.h in several shapes, forward and backward, against the plain
 * formulas in double (support/reference_bodies.c), whose gradients are checked by differences of the loss. Each row also
 * runs with every input and parameter used twice, so that gradients are added into what was written. Results must not
 * depend on the number of threads by a bit.
 */
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "graph/internal.h"
#include "support/reference.h"
#include "support/rows.h"

/* A device under test. In bfloat16 the rows of products run for their bits: what they compute is compared with the formula over
 * rounded operands in tests/bf16.c, which a loss behind them would hide. */
#define TARGETS 5
struct target {
	const struct backend *backend;
	const char *isa, *precision;
};

/* ---- building ---- */

static void compare(struct bench *bench, int tensor)
{
	if (tensor >= 0 && bench->results < RESULTS)
		bench->result[bench->results++] = graph_output(bench->graph, tensor);
}

/* Everything the forward nodes make is compared, and all gradients. */
static void collect_results(struct bench *bench)
{
	struct graph *graph = bench->graph;

	for (size_t n = 0; n < graph->forward_count; n++) {
		for (int k = 0; k < NODE_OUTPUTS; k++)
			compare(bench, graph->nodes[n].out[k]);
	}
	for (int i = 0; i < bench->inputs; i++)
		compare(bench, graph_gradient(graph, bench->input[i]));
}

static int build(struct bench *bench, const struct row *row, const int *s, bool twice)
{
	struct graph *graph = bench->graph;
	int y = row->build(bench, s), target, dims;
	int64_t dim[TENSOR_DIMS];

	if (twice)
		y = graph_add(graph, y, graph_activation(graph, row->build(bench, s), ACTIVATION_SILU));
	dims = graph_dims(graph, y);
	for (int i = 0; i < dims; i++)
		dim[i] = graph_dim(graph, y, i);
	target = row_input(bench, "target", dims, dim);
	if (dims > 1)
		bench->loss = graph_masked_mse(graph, y, target, row_input(bench, "mask", dims - 1, dim));
	else
		bench->loss = graph_mse(graph, y, target);
	if (twice)
		bench->loss = graph_scale(graph, bench->loss, 0.5);
	if (graph_backward(graph, bench->loss))
		return graph->status;
	collect_results(bench);
	return program_prepare(bench->program);
}

static int fill_all(struct bench *bench)
{
	static const struct step_scalars scalars = {.learning_rate = 0.1,
		.step = 5,
		.seed = 42,
		.micro = 3,
		.active_levels = 2,
		.epsilon = 0.25,
		.anneal = 0.4};
	struct store *store = program_store(bench->program);
	int status = STATUS_OK;

	program_set_scalars(bench->program, &scalars);
	for (int i = 0; i < bench->inputs && !status; i++) {
		const struct tensor *tensor = &bench->graph->tensors[bench->input[i]];
		float *values = memory_new(tensor->elements, sizeof(*values));

		row_fill(tensor->name, values, tensor->elements);
		status = graph_write(bench->graph, bench->input[i], values);
		free(values);
	}
	for (size_t i = 0; i < store_count(store) && !status; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		float *values = memory_new(parameter->count, sizeof(*values));

		row_fill(parameter->name, values, parameter->count);
		status = store_import(store, i, SLOT_VALUE, values);
		free(values);
	}
	return status;
}

/* ---- results ---- */

static void append(struct bench *bench, const void *address, size_t count)
{
	const double *exact =
		bench->device->backend == &reference_backend ? reference_at(bench->device, address) : NULL;
	float *values = memory_new(count, sizeof(*values));

	bench->values = realloc(bench->values, (bench->count + count) * sizeof(*bench->values));
	if (!exact)
		bench->device->backend->read(bench->device, values, address, count * sizeof(*values));
	for (size_t i = 0; i < count; i++)
		bench->values[bench->count + i] = exact ? exact[i] : (double)values[i];
	bench->count += count;
	free(values);
}

static void collect_values(struct bench *bench)
{
	struct store *store = program_store(bench->program);

	for (int i = 0; i < bench->results; i++)
		append(bench, graph_address(bench->graph, bench->result[i]),
			graph_elements(bench->graph, bench->result[i]));
	for (size_t i = 0; i < store_count(store); i++)
		append(bench, store_data(store, i, SLOT_GRADIENT), store_parameter(store, i)->count);
}

static void bench_release(struct bench *bench)
{
	program_free(bench->program);
	if (bench->device)
		bench->device->backend->close(bench->device);
	free(bench->values);
	*bench = (struct bench){0};
}

static int bench_run(struct bench *bench, const struct backend *backend,
	const struct device_settings *settings, const struct row *row, const int *s, bool twice)
{
	int status = backend->open(settings, &bench->device);

	if (status)
		return status;
	bench->program = program_new(bench->device);
	bench->graph = graph_new(bench->program, row->name, true);
	status = build(bench, row, s, twice);
	if (!status)
		status = fill_all(bench);
	if (!status)
		status = graph_run(bench->graph);
	if (!status)
		collect_values(bench);
	return status;
}

/* Largest error over the root mean square, over all tensors; 0 where both are zero. */
static double tensor_error(const double *values, const double *exact, size_t count)
{
	double squares = 0, worst = 0;

	for (size_t i = 0; i < count; i++) {
		double error = fabs(values[i] - exact[i]);

		squares += exact[i] * exact[i];
		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst == 0 ? 0 : worst / sqrt(squares / (double)count);
}

static double bench_error(const struct bench *bench, const struct bench *exact)
{
	struct store *store = program_store(exact->program);
	double worst = 0;
	size_t at = 0;

	if (bench->count != exact->count)
		return INFINITY;
	for (int i = 0; i < exact->results + (int)store_count(store); i++) {
		size_t count = i < exact->results
				       ? graph_elements(exact->graph, exact->result[i])
				       : store_parameter(store, (size_t)(i - exact->results))->count;
		double error = tensor_error(bench->values + at, exact->values + at, count);

		worst = error > worst || isnan(error) ? error : worst;
		at += count;
	}
	return worst;
}

/* ---- gradients of the reference ---- */

static double loss_at(struct bench *bench, double *value, double x)
{
	double had = *value, loss;

	*value = x;
	graph_run(bench->graph);
	loss = *reference_at(bench->device, graph_address(bench->graph, bench->loss));
	*value = had;
	return loss;
}

/* Difference quotient of fourth order. */
static double slope_at(struct bench *bench, double *value)
{
	double x = *value, h = 1e-3;

	return (8 * (loss_at(bench, value, x + h) - loss_at(bench, value, x - h)) -
		       (loss_at(bench, value, x + 2 * h) - loss_at(bench, value, x - 2 * h))) /
	       (12 * h);
}

/* Worst error of up to 24 elements of a tensor's gradient, over the largest of the tensor's gradients. */
static double slope_error(struct bench *bench, double *values, const double *gradient, size_t count)
{
	size_t step = count / 24 + 1;
	double *copy, largest = 1e-9, worst = 0;

	graph_run(bench->graph);
	copy = memory_copy(gradient, count * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(copy[i]));
	for (size_t i = 0; i < count; i += step)
		worst = fmax(worst, fabs(slope_at(bench, &values[i]) - copy[i]));
	free(copy);
	return worst / largest;
}

static double gradient_error(struct bench *bench)
{
	struct store *store = program_store(bench->program);
	double worst = 0;

	for (int i = 0; i < bench->inputs; i++) {
		int x = bench->input[i], dx = graph_gradient(bench->graph, x);

		if (dx >= 0)
			worst = fmax(
				worst, slope_error(bench,
					       reference_at(bench->device, graph_address(bench->graph, x)),
					       reference_at(bench->device, graph_address(bench->graph, dx)),
					       graph_elements(bench->graph, x)));
	}
	for (size_t i = 0; i < store_count(store); i++) {
		if (store_parameter(store, i)->statistic)
			continue;
		worst = fmax(worst,
			slope_error(bench, reference_at(bench->device, store_data(store, i, SLOT_VALUE)),
				reference_at(bench->device, store_data(store, i, SLOT_GRADIENT)),
				store_parameter(store, i)->count));
	}
	return worst;
}

/* ---- the tests ---- */

static const char *shape_name(const struct row *row, const int *s, bool twice, char buffer[128])
{
	int length = snprintf(buffer, 128, "%s", row->name);

	for (int i = 0; i < SIZES && s[i]; i++)
		length += snprintf(buffer + length, 128 - (size_t)length, "%c%d", i ? 'x' : ' ', s[i]);
	snprintf(buffer + length, 128 - (size_t)length, "%s", twice ? " twice" : "");
	return buffer;
}

/* What came out for one row on one device. */
struct outcome {
	bool ran, equal;
	double worst;
	char worst_shape[128], unequal_shape[128];
};

/* Rows of products alone have anything to round. */
static bool row_is_for(const struct row *row, const struct target *target)
{
	static const char *const products[] = {
		"convolution", "convolution-3d", "linear", "attention", "causal attention"};

	for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++)
		if (!strcmp(row->name, products[i]))
			return true;
	return !target->precision;
}

/* One shape on one device with 1, 2 and 3 threads. */
static void try_shape(const struct row *row, const int *s, bool twice, const struct target *target,
	const struct bench *exact, struct outcome *outcome)
{
	struct bench one = {0};

	for (int threads = 1; threads <= 3 && outcome->ran; threads++) {
		struct bench bench = {0};
		struct device_settings settings = {
			.threads = threads, .isa = target->isa, .precision = target->precision};
		double error;

		outcome->ran = !bench_run(&bench, target->backend, &settings, row, s, twice);
		error = outcome->ran ? bench_error(&bench, exact) : 0;
		if (error > outcome->worst || isnan(error)) {
			outcome->worst = error;
			shape_name(row, s, twice, outcome->worst_shape);
		}
		if (threads == 1) {
			one = bench;
			continue;
		}
		if (bench.count != one.count ||
			memcmp(bench.values, one.values, one.count * sizeof(*one.values)) != 0) {
			outcome->equal = false;
			shape_name(row, s, twice, outcome->unequal_shape);
		}
		bench_release(&bench);
	}
	bench_release(&one);
}

static void report(const struct row *row, const struct target *target, const struct outcome *outcome)
{
	char name[256];

	const char *how = target->precision ? target->precision : target->isa;

	snprintf(name, sizeof(name), "%s on %s %s equals the formula", row->name, target->backend->name, how);
	if (!target->precision)
		check_report(outcome->ran && outcome->worst <= row->tolerance, name,
			"%.3g of the root mean square in %s %s", outcome->worst, outcome->worst_shape,
			outcome->ran ? "" : error_message());
	snprintf(name, sizeof(name), "%s on %s %s: the same bits with 1, 2 and 3 threads", row->name,
		target->backend->name, how);
	check_report(outcome->ran && outcome->equal, name, "not in %s", outcome->unequal_shape);
}

/* One row in all shapes, each once and with its inputs used twice: gradients of the reference, then every device. */
static void test_row(const struct row *row, const struct target *targets, size_t count)
{
	struct outcome outcomes[TARGETS];
	char name[256], shape[128] = "";
	double worst = 0;
	int checked = 0;

	for (size_t k = 0; k < count; k++)
		outcomes[k] = (struct outcome){.ran = true, .equal = true};
	for (int i = 0; i < 2 * SHAPES && row->shapes[i / 2][0]; i++) {
		const int *s = row->shapes[i / 2];
		bool twice = i % 2;
		struct bench exact = {0};
		double error = 0;

		if (bench_run(&exact, &reference_backend, NULL, row, s, twice))
			break;
		for (size_t k = 0; k < count; k++)
			if (row_is_for(row, &targets[k]))
				try_shape(row, s, twice, &targets[k], &exact, &outcomes[k]);
		if (graph_flops(exact.graph) < 3e5) {
			error = gradient_error(&exact);
			checked++;
		}
		if (error > worst || isnan(error)) {
			worst = error;
			shape_name(row, s, twice, shape);
		}
		bench_release(&exact);
	}
	snprintf(name, sizeof(name), "%s: gradients are those of the loss by differences", row->name);
	check_report(checked >= 4 && worst < 1e-7, name, "%.3g in %s, %d shapes", worst, shape, checked);
	for (size_t k = 0; k < count; k++)
		if (row_is_for(row, &targets[k]))
			report(row, &targets[k], &outcomes[k]);
}

static int build_nothing(struct bench *bench, const int *s)
{
	return row_image(bench, "x", s);
}

/* A mask without a selected element: no loss, no gradient. */
static void test_empty_mask(const struct backend *backend, const char *isa)
{
	const struct row row = {"masked-mse", build_nothing, 0, {{2, 3, 5, 4}}};
	struct device_settings settings = {.threads = 2, .isa = isa};
	struct bench bench = {0};
	float zeros[2 * 3 * 5 * 4] = {0}, gradient[2 * 3 * 5 * 4], loss = 1;
	bool good = !bench_run(&bench, backend, &settings, &row, row.shapes[0], false) &&
		    !graph_write(bench.graph, bench.input[2], zeros) && !graph_run(bench.graph) &&
		    !graph_read(bench.graph, bench.loss, &loss) &&
		    !graph_read(bench.graph, graph_gradient(bench.graph, bench.input[0]), gradient);

	check(good && loss == 0 && !memcmp(gradient, zeros, sizeof(zeros)),
		"an empty mask gives neither loss nor gradient");
	bench_release(&bench);
}

/* ---- functions over whole parameters ---- */

#define SLOTS 5

struct vectors {
	struct device *device;
	float *slot[SLOTS]; /* value, gradient, moments, average */
	size_t count;
};

static int vectors_init(struct vectors *v, const struct backend *backend,
	const struct device_settings *settings, size_t count)
{
	float *values = memory_new(count, sizeof(*values));
	int status = backend->open(settings, &v->device);

	v->count = count;
	for (int k = 0; k < SLOTS && !status; k++) {
		char name[2] = {(char)('a' + k), 0};

		v->slot[k] = backend->allocate(v->device, count * sizeof(float));
		row_fill(name, values, count);
		for (size_t i = 0; k == 3 && i < count; i++)
			values[i] = 0.01f + values[i] * values[i];
		status = v->slot[k] ? backend->write(v->device, v->slot[k], values, count * sizeof(float))
				    : STATUS_FAILURE;
	}
	free(values);
	return status;
}

static void vectors_release(struct vectors *v)
{
	for (int k = 0; k < SLOTS; k++)
		v->device->backend->release(v->device, v->slot[k]);
	v->device->backend->close(v->device);
}

/* Adds, scales and updates from step `first` on. */
static int vectors_update(struct vectors *v, const struct optimizer_rule *rule, int64_t first)
{
	const struct backend *backend = v->device->backend;
	struct step_scalars scalars = {.learning_rate = 1e-2};
	struct update_call call = {.value = v->slot[0],
		.gradient = v->slot[1],
		.moment1 = rule->kind == OPTIMIZER_SGD && rule->momentum == 0 ? NULL : v->slot[2],
		.moment2 = rule->kind == OPTIMIZER_SGD ? NULL : v->slot[3],
		.average = rule->average > 0 ? v->slot[4] : NULL,
		.count = v->count,
		.rule = rule,
		.scalars = &scalars,
		.scale = 0.7};
	int status = backend->add(v->device, v->slot[1], v->slot[0], v->count);

	if (!status)
		status = backend->scale(v->device, v->slot[1], 1.0 / 3, v->count);
	for (int64_t step = first; step < first + 3 && !status; step++) {
		scalars.step = step;
		status = backend->update(v->device, &call);
	}
	return status;
}

/* Updates, squares and copies; all slots and the sum end up in `out` (SLOTS count + 1). */
static int vectors_run(struct vectors *v, const struct optimizer_rule *rule, int64_t first, double *out)
{
	const struct backend *backend = v->device->backend;
	float *values = memory_new(v->count, sizeof(*values));
	int status = vectors_update(v, rule, first);

	if (!status)
		status = backend->sum_squares(v->device, v->slot[0], v->count, &out[SLOTS * v->count]);
	for (int k = 0; k < SLOTS && !status; k++) {
		const double *exact =
			backend == &reference_backend ? reference_at(v->device, v->slot[k]) : NULL;

		status = backend->read(v->device, values, v->slot[k], v->count * sizeof(float));
		for (size_t i = 0; i < v->count; i++)
			out[(size_t)k * v->count + i] = exact ? exact[i] : (double)values[i];
	}
	if (!status)
		status = backend->copy(v->device, v->slot[1], v->slot[0], v->count * sizeof(float));
	if (!status)
		status = backend->read(v->device, values, v->slot[1], v->count * sizeof(float));
	for (size_t i = 0; i < v->count && !status; i++)
		status = values[i] != (float)out[i];
	free(values);
	return status;
}

/* One count from step `first` on: worst error, and whether threads change nothing. */
static bool compare_vectors(const struct target *target, const struct optimizer_rule *rule, size_t count,
	int64_t first, double *worst, bool *equal)
{
	size_t all = SLOTS * count + 1;
	double *out = memory_new(4 * all, sizeof(*out)); /* reference, then 1 to 3 threads */
	bool ran = true;

	for (int threads = 0; threads <= 3; threads++) {
		struct device_settings settings = {.threads = threads, .isa = target->isa};
		const struct backend *backend = threads ? target->backend : &reference_backend;
		struct vectors v = {0};
		double *mine = out + (size_t)threads * all;

		ran = ran && !vectors_init(&v, backend, &settings, count) &&
		      !vectors_run(&v, rule, first, mine);
		vectors_release(&v);
		for (size_t k = 0; threads && k < SLOTS; k++)
			*worst = fmax(*worst, tensor_error(mine + k * count, out + k * count, count));
		if (threads)
			*worst = fmax(*worst, fabs(mine[SLOTS * count] / out[SLOTS * count] - 1));
		*equal = *equal && (threads < 2 || !memcmp(mine, out + all, all * sizeof(*out)));
	}
	free(out);
	return ran;
}

static void test_vectors(const struct target *target, const char *what, const struct optimizer_rule *rule)
{
	static const size_t counts[] = {1, 7, 1000, 100003};
	double worst = 0;
	bool ran = true, equal = true;
	char name[256];

	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts) && ran; c++)
		ran = compare_vectors(target, rule, counts[c], c % 2 ? 1 : 3, &worst, &equal);
	snprintf(name, sizeof(name), "%s on %s %s equals the formula", what, target->backend->name,
		target->isa);
	check_report(ran && worst < 4e-6, name, "%.3g of the root mean square; %s", worst, error_message());
	snprintf(name, sizeof(name), "%s on %s %s: the same bits with 1, 2 and 3 threads", what,
		target->backend->name, target->isa);
	check(equal, name);
}

/* A sum of squares is not finite exactly when an element is not. */
static void test_not_finite(const struct backend *backend, const char *isa)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct device_settings settings = {.threads = 2, .isa = isa};
	struct vectors v = {0};
	float large[1000];
	double sum;
	bool good = !vectors_init(&v, backend, &settings, 1000);

	for (size_t i = 0; i < 1000; i++)
		large[i] = 3e38f;
	good = good && !backend->write(v.device, v.slot[0], large, sizeof(large)) &&
	       !backend->sum_squares(v.device, v.slot[0], 1000, &sum) && isfinite(sum);
	for (size_t i = 0; i < 1000 && good; i += 37) {
		large[i] = bad[i % 3];
		good = !backend->write(v.device, v.slot[0], large, sizeof(large)) &&
		       !backend->sum_squares(v.device, v.slot[0], 1000, &sum) && !isfinite(sum);
		large[i] = 3e38f;
	}
	check(good, "a sum of squares shows every element that is not finite, and no other");
	vectors_release(&v);
}

static void test_whole_parameters(const struct target *target)
{
	static const struct optimizer_rule adam = {
		.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.1};
	static const struct optimizer_rule adamw = {.kind = OPTIMIZER_ADAMW,
		.beta1 = 0.9,
		.beta2 = 0.999,
		.epsilon = 1e-8,
		.decay = 0.1,
		.average = 0.9};
	static const struct optimizer_rule momentum = {
		.kind = OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.3, .decay = 0.1, .average = 0.99};
	static const struct optimizer_rule nesterov = {
		.kind = OPTIMIZER_SGD, .momentum = 0.9, .decay = 0.01, .nesterov = true};
	static const struct optimizer_rule statistic = {.kind = OPTIMIZER_STATISTIC, .momentum = 0.1};

	test_empty_mask(target->backend, target->isa);
	test_vectors(target, "adam", &adam);
	test_vectors(target, "adamw with an average", &adamw);
	test_vectors(target, "sgd with momentum and dampening", &momentum);
	test_vectors(target, "sgd with nesterov momentum", &nesterov);
	test_vectors(target, "a running statistic", &statistic);
	test_not_finite(target->backend, target->isa);
}

/* An operation without a row is not tested; updates are no body of a back end's (tests/arrange.c). */
static void test_complete(void)
{
	struct text missing = {0};

	for (int operation = 0; operation < OP_COUNT; operation++) {
		if (operation != OP_UPDATE && !reference_ran((enum operation)operation))
			text_format(&missing, " %s", operation_name((enum operation)operation));
	}
	check_report(!missing.length, "every operation has a row", "not%s", missing.data ? missing.data : "");
	text_release(&missing);
}

/* The instruction sets of this processor, then its units of bfloat16. */
static size_t find_targets(struct target *targets)
{
	static const struct target all[TARGETS] = {{&cpu_backend, "plain", NULL},
		{&cpu_backend, "avx2", NULL}, {&cpu_backend, "avx512", NULL},
		{&cpu_backend, "auto", "bf16-avx512"}, {&cpu_backend, "auto", "bf16-amx"}};
	size_t count = 0;

	for (size_t i = 0; i < TARGETS; i++) {
		struct device_settings settings = {
			.threads = 1, .isa = all[i].isa, .precision = all[i].precision};
		struct device *device = NULL;

		if (cpu_backend.open(&settings, &device))
			check_skip(all[i].precision ? all[i].precision : all[i].isa,
				"this processor has not got it");
		else
			targets[count++] = all[i];
		if (device)
			cpu_backend.close(device);
	}
	return count;
}

int main(void)
{
	static const struct table *const tables[] = {&network_rows, &vision_rows, &field_rows, &ray_rows};
	struct target targets[TARGETS];
	size_t count = find_targets(targets);

	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
		for (size_t i = 0; i < tables[t]->count; i++)
			test_row(&tables[t]->rows[i], targets, count);
	}
	test_complete();
	for (size_t k = 0; k < count; k++)
		if (!targets[k].precision)
			test_whole_parameters(&targets[k]);
	return check_summary();
}
