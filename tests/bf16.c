/*
 * Products in bfloat16. What a unit packs and multiplies has the bits of its plain twin. Convolutions and linear layers, forward
 * and both gradients, equal the formula in double over the rounded operands within float32's rounding: what they read, the
 * gradient they are given included, is taken from the device, so that nothing else differs.
 */
#include "base/memory.h"
#include "check.h"
#include "cpu/bf16.h"
#include "cpu/cpu.h"
#include "graph/internal.h"

/* One line: "UNIT WHAT". */
static void report(bool good, const char *unit, const char *what, const char *why)
{
	char name[256];

	snprintf(name, sizeof(name), "%s %s", unit, what);
	check_report(good, name, "%s", why);
}

/* ---- units against their plain twins ---- */

#define ROWS 45
#define SEGMENTS 3
#define STEPS 5
#define A_ROW (SEGMENTS * STEPS * BF16_STEP + 6)

static uint64_t drawn;

static uint32_t draw(void)
{
	drawn = drawn * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(drawn >> 32);
}

/* A number with all its bits, of sizes from 2^-8 to 2^8. */
static float draw_float(void)
{
	const float sign = draw() & 1 ? -1.0f : 1.0f;
	return sign * ldexpf(1 + (float)(draw() >> 8) * 0x1p-24f, (int)(draw() % 16) - 8);
}

static void fill_floats(float *to, size_t count)
{
	static const uint32_t special[] = {0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001,
		0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f808000, 0x3f818000, 0x3f808001};
	for (size_t i = 0; i < count; i++)
		to[i] = draw_float();
	for (size_t i = 0; i < count / 7; i++)
		memcpy(&to[draw() % count], &special[draw() % (sizeof special / sizeof *special)],
			sizeof *to);
}

static void test_packing(const struct bf16 *unit, const struct bf16 *plain)
{
	static float from[BF16_STEP][BF16_COLUMNS + 40];
	static uint16_t one[96 * BF16_STEP], two[96 * BF16_STEP];
	const float *line[BF16_STEP];
	const uint16_t *turned[BF16_STEP];
	bool converts = true, pairs = true, columns = true, turns = true;

	for (int n = 1; n <= BF16_COLUMNS; n++) {
		fill_floats(from[0], sizeof from / sizeof(float));
		for (int i = 0; i < BF16_STEP; i++)
			line[i] = draw() % 5 ? from[i] + n % 3 : NULL;
		unit->convert(one, from[0], n * 3 + 1);
		plain->convert(two, from[0], n * 3 + 1);
		converts = converts && !memcmp(one, two, (size_t)(n * 3 + 1) * sizeof *one);
		unit->pairs(one, line, n);
		plain->pairs(two, line, n);
		pairs = pairs && !memcmp(one, two, BF16_STEP_SIZE * sizeof *one);
		unit->turned_pairs(one, line, n);
		plain->turned_pairs(two, line, n);
		columns = columns && !memcmp(one, two, BF16_STEP_SIZE * sizeof *one);
		for (int i = 0; i < BF16_STEP; i++)
			turned[i] = (const uint16_t *)from[i];
		memset(one, 0, sizeof one);
		memset(two, 0, sizeof two);
		unit->turn(one, BF16_STEP + 2, turned, n * 2);
		plain->turn(two, BF16_STEP + 2, turned, n * 2);
		turns = turns && !memcmp(one, two, sizeof one);
	}
	report(converts, unit->name, "rounds as plain arithmetic does", "other bits");
	report(pairs, unit->name, "packs rows as plain arithmetic does", "other bits");
	report(columns, unit->name, "packs columns as plain arithmetic does", "other bits");
	report(turns, unit->name, "turns as plain arithmetic does", "other bits");
}

static void test_sums(const struct bf16 *unit, const struct bf16 *plain)
{
	static float from[(ROWS + 3) * A_ROW], c[2][(ROWS + 3) * BF16_COLUMNS], stored[2][ROWS * 40],
		bias[40];
	static uint16_t a[(ROWS + 3) * A_ROW], b[SEGMENTS * STEPS * BF16_STEP_SIZE];
	const ptrdiff_t a_segment[SEGMENTS] = {STEPS * BF16_STEP + 3, 0, 2 * STEPS * BF16_STEP + 5},
			b_segment[SEGMENTS] = {STEPS * BF16_STEP_SIZE, 2 * STEPS * BF16_STEP_SIZE, 0};
	bool sums = true, stores = true;

	for (int n = 0; n < 24; n++) {
		struct bf16_product product = {.a = a,
			.b = b,
			.a_segment = a_segment,
			.b_segment = b_segment,
			.a_row = A_ROW,
			.segments = 1 + n % SEGMENTS,
			.steps = 1 + n % STEPS,
			.rows = 1 + n * 17 % ROWS,
			.columns = 1 + n * 7 % BF16_COLUMNS};
		for (size_t i = 0; i < sizeof from / sizeof *from; i++)
			from[i] = n % 4 ? draw_float() : draw_float() * 0x1p-66f;
		plain->convert(a, from, sizeof a / sizeof *a);
		plain->convert(b, from + 77, sizeof b / sizeof *b);
		for (int k = 0; k < 2; k++) {
			const struct bf16 *u = k ? plain : unit;
			product.c = c[k];
			u->begin();
			u->multiply(&product);
			u->end();
			memcpy(stored[k], from, sizeof stored[k]);
			memcpy(bias, from + 5000, sizeof bias);
			u->store(stored[k], 40, c[k], product.rows, product.columns, n % 3 ? bias : NULL,
				n % 2);
		}
		for (int64_t i = 0; i < product.rows; i++)
			sums = sums && !memcmp(c[0] + i * BF16_COLUMNS, c[1] + i * BF16_COLUMNS,
					       (size_t)product.columns * sizeof(float));
		stores = stores && !memcmp(stored[0], stored[1], sizeof stored[0]);
	}
	report(sums, unit->name, "sums to the bits of plain arithmetic", "other bits");
	report(stores, unit->name, "stores as plain arithmetic does", "other bits");
}

/* ---- operations ---- */

/* n d h w c out, kernel, stride, pad before, pad after (three each), groups; d 0: images; kernel 0: a linear layer over rows n */
struct shape {
	int n, d, h, w, c, out, kernel[3], stride[3], before[3], after[3], groups;
};

static const struct shape shapes[] = {
	{2, 0, 9, 11, 5, 7, {0, 3, 3}, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}, 1},
	{1, 0, 30, 21, 64, 20, {0, 3, 3}, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}, 1},
	{1, 0, 6, 8, 160, 48, {0, 3, 3}, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}, 1},
	{2, 0, 12, 9, 33, 40, {0, 3, 3}, {0, 2, 2}, {0, 0, 0}, {0, 1, 1}, 1},
	{3, 0, 7, 7, 40, 72, {0, 1, 1}, {0, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1},
	{2, 0, 8, 6, 40, 24, {0, 1, 1}, {0, 2, 2}, {0, 0, 0}, {0, 0, 0}, 1},
	{1, 0, 23, 70, 3, 20, {0, 7, 7}, {0, 2, 2}, {0, 3, 3}, {0, 3, 3}, 1},
	{1, 0, 5, 6, 4, 9, {0, 5, 4}, {0, 1, 3}, {0, 4, 2}, {0, 0, 3}, 1},
	{2, 5, 6, 7, 18, 33, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1},
	{1, 9, 12, 12, 3, 16, {7, 7, 7}, {1, 2, 2}, {3, 3, 3}, {3, 3, 3}, 1},
	{2, 4, 6, 6, 32, 64, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, 1},
	{1, 2, 4, 4, 24, 40, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}, 1},
	{2, 6, 5, 5, 16, 48, {1, 1, 1}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, 1},
	{1, 3, 5, 6, 24, 48, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 6},
	{1, 4, 6, 6, 128, 96, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, 4},
	{1, 1, 2, 2, 16, 16, {5, 3, 3}, {1, 1, 1}, {2, 1, 1}, {2, 1, 1}, 1},
	{1, 40, 20, 20, 64, 4, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}, 1},
	{3, 0, 0, 0, 70, 50, {0}, {0}, {0}, {0}, 1},
	{1500, 0, 0, 0, 33, 40, {0}, {0}, {0}, {0}, 1},
	{130, 0, 0, 0, 320, 70, {0}, {0}, {0}, {0}, 1},
};

enum { X, WEIGHT, BIAS, DY, Y, DX, DWEIGHT };

/* One layer y = f(x) with its loss on a device, and all that it read and wrote. */
struct layer {
	struct device *device;
	struct program *program;
	struct graph *graph;
	int tensor[7]; /* -1: a parameter */
	float *values[7];
	size_t counts[7];
};

/* The gradient of the layer's result: what its weight gradient reads. */
static int result_gradient(const struct graph *graph)
{
	for (size_t n = 0; n < graph->node_count; n++) {
		const struct node *node = &graph->nodes[n];
		if (node->operation == OP_CONVOLUTION_WEIGHT || node->operation == OP_LINEAR_WEIGHT)
			return node->in[1];
	}
	return -1;
}

static int build_layer(struct layer *layer, const struct shape *s)
{
	struct graph *graph = layer->graph;
	struct convolution convolution = {.out = s->out, .bias = true, .groups = s->groups};
	const int axis = s->d ? 0 : 1;
	int64_t dim[5] = {s->n, s->c};
	int dims = 2, target, x, y;

	if (s->kernel[2]) {
		const int64_t all[5] = {s->n, s->d, s->h, s->w, s->c};
		dims = 0;
		for (int i = 0; i < 5; i++)
			if (i != 1 || s->d)
				dim[dims++] = all[i];
	}
	x = graph_input(graph, "x", TENSOR_F32, dims, dim);
	graph_want_gradient(graph, x);
	for (int i = axis; i < 3; i++) {
		convolution.kernel[i - axis] = s->kernel[i];
		convolution.stride[i - axis] = s->stride[i];
		convolution.pad_before[i - axis] = s->before[i];
		convolution.pad_after[i - axis] = s->after[i];
	}
	y = s->kernel[2] ? graph_convolution(graph, x, "layer", convolution)
			 : graph_linear(graph, x, "layer", s->out, true);
	for (int i = 0; i < dims; i++)
		dim[i] = graph_dim(graph, y, i);
	target = graph_input(graph, "target", TENSOR_F32, dims, dim);
	if (graph_backward(graph, graph_mse(graph, y, target)))
		return -1;
	memcpy(layer->tensor,
		(int[7]){graph_output(graph, x), -1, -1, graph_output(graph, result_gradient(graph)),
			graph_output(graph, y), graph_output(graph, graph_gradient(graph, x)), -1},
		sizeof layer->tensor);
	return program_prepare(layer->program) ? -1 : target;
}

static int write_input(struct layer *layer, int tensor)
{
	const size_t count = graph_elements(layer->graph, tensor);
	float *values = memory_new(count, sizeof *values);
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(draw() >> 8) * 0x1p-23f - 1;
	const int status = graph_write(layer->graph, tensor, values);
	free(values);
	return status;
}

static void keep(struct layer *layer, int k, const void *address, size_t count)
{
	layer->values[k] = memory_new(count, sizeof(float));
	layer->counts[k] = count;
	layer->device->backend->read(layer->device, layer->values[k], address, count * sizeof(float));
}

static void keep_all(struct layer *layer)
{
	struct store *store = program_store(layer->program);
	for (int k = 0; k < 7; k++)
		if (layer->tensor[k] >= 0)
			keep(layer, k, graph_address(layer->graph, layer->tensor[k]),
				graph_elements(layer->graph, layer->tensor[k]));
	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);
		const bool bias = strstr(parameter->name, "bias") != NULL;
		keep(layer, bias ? BIAS : WEIGHT, store_data(store, i, SLOT_VALUE), parameter->count);
		if (!bias)
			keep(layer, DWEIGHT, store_data(store, i, SLOT_GRADIENT), parameter->count);
	}
}

/* Runs the layer with numbers that depend on the shape alone. */
static bool run_layer(
	struct layer *layer, const struct shape *s, const char *isa, const char *precision, int threads)
{
	const struct device_settings settings = {.threads = threads, .isa = isa, .precision = precision};
	*layer = (struct layer){0};
	drawn = (uint64_t)s->c * 1000 + (uint64_t)s->n;
	if (cpu_backend.open(&settings, &layer->device))
		return false;
	layer->program = program_new(layer->device);
	layer->graph = graph_new(layer->program, "layer", true);
	const int target = build_layer(layer, s);
	struct store *store = program_store(layer->program);
	bool good = target >= 0 && !write_input(layer, layer->tensor[X]) && !write_input(layer, target);
	for (size_t i = 0; i < store_count(store) && good; i++) {
		const struct parameter *parameter = store_parameter(store, i);
		float *values = memory_new(parameter->count, sizeof *values);
		for (size_t k = 0; k < parameter->count; k++)
			values[k] = (float)(draw() >> 8) * 0x1p-23f - 1;
		good = !store_import(store, i, SLOT_VALUE, values);
		free(values);
	}
	good = good && !graph_run(layer->graph);
	if (good)
		keep_all(layer);
	return good;
}

static void release_layer(struct layer *layer)
{
	for (int k = 0; k < 7; k++)
		free(layer->values[k]);
	program_free(layer->program);
	if (layer->device)
		layer->device->backend->close(layer->device);
}

/* ---- the formula ---- */

/* To nearest, ties to even: numbers here are neither denormal nor beyond. */
static double rounded(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
	memcpy(&value, &bits, sizeof value);
	return (double)value;
}

static double *rounded_all(const float *from, size_t count)
{
	double *to = memory_new(count, sizeof *to);
	for (size_t i = 0; i < count; i++)
		to[i] = rounded(from[i]);
	return to;
}

/* A shape as a convolution in 3D. */
struct sizes {
	int in[3], out[3], kernel[3], stride[3], before[3];
};

static struct sizes sizes_of(const struct shape *s)
{
	const int in[3] = {s->d ? s->d : 1, s->h ? s->h : 1, s->w ? s->w : 1};
	struct sizes z = {0};
	for (int i = 0; i < 3; i++) {
		z.kernel[i] = s->kernel[i] ? s->kernel[i] : 1;
		z.stride[i] = s->stride[i] ? s->stride[i] : 1;
		z.in[i] = in[i];
		z.before[i] = s->before[i];
		z.out[i] = (in[i] + s->before[i] + s->after[i] - z.kernel[i]) / z.stride[i] + 1;
	}
	return z;
}

/* Input pixel of output pixel `o` by tap `t`, counted through all three axes; -1: padding. */
static int64_t input_pixel(const struct sizes *z, int64_t o, int64_t t)
{
	int64_t pixel = 0, out_rest = (int64_t)z->out[0] * z->out[1] * z->out[2],
		tap_rest = (int64_t)z->kernel[0] * z->kernel[1] * z->kernel[2];
	for (int i = 0; i < 3; i++) {
		out_rest /= z->out[i];
		tap_rest /= z->kernel[i];
		const int64_t at =
			o / out_rest % z->out[i] * z->stride[i] + t / tap_rest % z->kernel[i] - z->before[i];
		if (at < 0 || at >= z->in[i])
			return -1;
		pixel = pixel * z->in[i] + at;
	}
	return pixel;
}

/* y, dx and dweight of the operands a layer read. */
static void formula(const struct layer *layer, const struct shape *s, double *exact[7])
{
	const struct sizes z = sizes_of(s);
	const int64_t taps = (int64_t)z.kernel[0] * z.kernel[1] * z.kernel[2],
		      in = (int64_t)z.in[0] * z.in[1] * z.in[2],
		      out = (int64_t)z.out[0] * z.out[1] * z.out[2], channels = s->c / s->groups,
		      columns = s->out / s->groups;
	double *x = exact[X], *weight = exact[WEIGHT], *dy = exact[DY];
	for (int64_t i = 0; i < s->n * out; i++) {
		for (int64_t t = 0; t < taps; t++) {
			const int64_t pixel = input_pixel(&z, i % out, t);
			for (int64_t c = 0; c < s->c && pixel >= 0; c++) {
				const int64_t at = (i / out * in + pixel) * s->c + c, group = c / channels,
					      row = (t * channels + c % channels) * s->out + group * columns;
				for (int64_t j = 0; j < columns; j++) {
					const int64_t to = i * s->out + group * columns + j;
					exact[Y][to] += x[at] * weight[row + j];
					exact[DX][at] += dy[to] * weight[row + j];
					exact[DWEIGHT][row + j] += x[at] * dy[to];
				}
			}
		}
		for (int j = 0; j < s->out; j++)
			exact[Y][i * s->out + j] += (double)layer->values[BIAS][j];
	}
}

/* Largest error over the root mean square. */
static double error_of(const float *values, const double *exact, size_t count)
{
	double worst = 0, squares = 0;
	for (size_t i = 0; i < count; i++) {
		const double error = fabs((double)values[i] - exact[i]);
		worst = error > worst || isnan(error) ? error : worst;
		squares += exact[i] * exact[i];
	}
	return worst / sqrt(squares / (double)count);
}

static double layer_error(const struct layer *layer, const struct shape *s)
{
	static const int compared[] = {Y, DX, DWEIGHT};
	double *exact[7] = {0}, worst = 0;
	for (int k = 0; k < 7; k++)
		exact[k] = k == X || k == WEIGHT || k == DY ? rounded_all(layer->values[k], layer->counts[k])
							    : memory_new(layer->counts[k], sizeof *exact[k]);
	formula(layer, s, exact);
	for (int i = 0; i < 3; i++) {
		const int k = compared[i];
		const double error = error_of(layer->values[k], exact[k], layer->counts[k]);
		worst = error > worst || isnan(error) ? error : worst;
	}
	for (int k = 0; k < 7; k++)
		free(exact[k]);
	return worst;
}

static bool same_bits(const struct layer *a, const struct layer *b)
{
	bool same = true;
	for (int k = 0; k < 7; k++)
		same = same && a->counts[k] == b->counts[k] && a->values[k] && b->values[k] &&
		       !memcmp(a->values[k], b->values[k], a->counts[k] * sizeof(float));
	return same;
}

/* What float32's sums may be off by, as in the operation table. */
#define TOLERANCE 5e-6

static void test_layers(const char *isa, const char *precision)
{
	char why[256] = "", threads_why[256] = "";
	double worst = 0;
	bool equal = true;

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const struct shape *s = &shapes[i];
		struct layer one, three;
		const bool ran =
			run_layer(&one, s, isa, precision, 1) && run_layer(&three, s, isa, precision, 3);
		const double error = ran ? layer_error(&one, s) : INFINITY;
		if (!(error <= worst)) {
			worst = error;
			snprintf(why, sizeof why, "%.3g of the root mean square in shape %zu %s", error, i,
				ran ? "" : error_message());
		}
		if (!ran || !same_bits(&one, &three)) {
			equal = false;
			snprintf(threads_why, sizeof threads_why, "not in shape %zu", i);
		}
		release_layer(&one);
		release_layer(&three);
	}
	report(worst <= TOLERANCE, precision, "layers equal the formula over rounded operands", why);
	report(equal, precision, "layers: the same bits with 1 and 3 threads", threads_why);
}

/* The processor's sums against plain arithmetic, through all of packing and loops. */
static void test_twin(const char *precision, const char *plain)
{
	char why[64] = "";
	bool equal = true;

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct layer real, twin;
		if (!run_layer(&real, &shapes[i], "auto", precision, 2) ||
			!run_layer(&twin, &shapes[i], "auto", plain, 2) || !same_bits(&real, &twin)) {
			equal = false;
			snprintf(why, sizeof why, "not in shape %zu", i);
		}
		release_layer(&real);
		release_layer(&twin);
	}
	report(equal, precision, "layers have the bits of plain arithmetic", why);
}

/* ---- attention ---- */

struct tokens {
	int images, queries, keys, heads, width;
	bool causal;
};

static const struct tokens token_shapes[] = {
	{2, 5, 7, 1, 3, false},
	{1, 70, 256, 2, 16, false},
	{1, 33, 600, 1, 40, false},
	{2, 65, 31, 3, 64, false},
	{1, 300, 300, 1, 24, true},
	{1, 20, 40, 1, 160, false},
};

/* What one run of attention read and wrote; lse is not compared. */
enum { Q, K, V, O, DO, DQ, DK, DV, TENSORS };
struct attended {
	float *values[TENSORS];
	size_t counts[TENSORS];
};

static const struct node *find_node(const struct graph *graph, enum operation operation)
{
	for (size_t n = 0; n < graph->node_count; n++)
		if (graph->nodes[n].operation == operation)
			return &graph->nodes[n];
	return NULL;
}

static bool run_tokens(struct attended *a, const struct tokens *t, const char *precision, int threads)
{
	const struct device_settings settings = {.threads = threads, .isa = "auto", .precision = precision};
	const int64_t q_dim[3] = {t->images, t->queries, t->heads * t->width},
		      k_dim[3] = {t->images, t->keys, t->heads * t->width};
	struct layer layer = {0};
	int input[4];
	*a = (struct attended){0};
	drawn = (uint64_t)t->keys * 1000 + (uint64_t)t->queries;
	if (cpu_backend.open(&settings, &layer.device))
		return false;
	layer.program = program_new(layer.device);
	struct graph *graph = layer.graph = graph_new(layer.program, "attention", true);
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = {"q", "k", "v", "target"};
		input[i] = graph_input(graph, names[i], TENSOR_F32, 3, i % 3 ? k_dim : q_dim);
		if (i < 3)
			graph_want_gradient(graph, input[i]);
	}
	const int y = t->causal ? graph_causal_attention(graph, input[0], input[1], input[2], t->heads)
				: graph_attention(graph, input[0], input[1], input[2], t->heads);
	bool good = !graph_backward(graph, graph_mse(graph, y, input[3]));
	int tensor[TENSORS] = {input[0], input[1], input[2], y};
	if (good) {
		tensor[DO] = find_node(graph, OP_ATTENTION_BACKWARD)->in[5];
		for (int i = 0; i < 3; i++)
			tensor[DQ + i] = graph_gradient(graph, input[i]);
		for (int i = 0; i < TENSORS; i++)
			tensor[i] = graph_output(graph, tensor[i]);
	}
	good = good && !program_prepare(layer.program);
	for (int i = 0; i < 4 && good; i++)
		good = !write_input(&layer, input[i]);
	good = good && !graph_run(graph);
	for (int i = 0; i < TENSORS && good; i++) {
		a->counts[i] = graph_elements(graph, tensor[i]);
		a->values[i] = memory_new(a->counts[i], sizeof(float));
		good = !graph_read(graph, tensor[i], a->values[i]);
	}
	program_free(layer.program);
	layer.device->backend->close(layer.device);
	return good;
}

static void release_tokens(struct attended *a)
{
	for (int i = 0; i < TENSORS; i++)
		free(a->values[i]);
}

#define MOST_KEYS 600
#define KEY_BLOCK 256 /* keys whose scores are exponentiated together */

static double dot(const double *a, const double *b, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += a[i] * b[i];
	return sum;
}

/* One query of one head: `q`, `d_o`, `o` at its first channel, keys and their gradients `row` doubles apart. */
struct query {
	const double *q, *k, *v, *d_o;
	const float *plain_o, *plain_d_o;
	double *o, *dq, *dk, *dv;
	int64_t seen, keys, width, row;
};

/* The output, and scores; returns the log of the sum of exponentials. */
static double attend_formula(const struct query *t, double scores[MOST_KEYS])
{
	double largest = -INFINITY, sum = 0;
	for (int64_t first = 0; first < t->seen; first += KEY_BLOCK) {
		const int64_t end = first + KEY_BLOCK < t->seen ? first + KEY_BLOCK : t->seen;
		const double before = largest;
		for (int64_t j = first; j < end; j++) {
			scores[j] = dot(t->q, t->k + j * t->row, t->width) / sqrt((double)t->width);
			largest = scores[j] > largest ? scores[j] : largest;
		}
		const double factor = exp(before - largest);
		sum *= factor;
		for (int64_t c = 0; c < t->width; c++)
			t->o[c] *= factor;
		for (int64_t j = first; j < end; j++) {
			const double p = exp(scores[j] - largest);
			sum += p;
			for (int64_t c = 0; c < t->width; c++)
				t->o[c] += rounded((float)p) * t->v[j * t->row + c];
		}
	}
	for (int64_t c = 0; c < t->width; c++)
		t->o[c] /= sum;
	return largest + log(sum);
}

static void attend_backward_formula(const struct query *t, const double *scores, double lse)
{
	double p[MOST_KEYS], d[MOST_KEYS], delta = 0;
	for (int64_t j = 0; j < t->seen; j++) {
		p[j] = exp(scores[j] - lse);
		d[j] = dot(t->d_o, t->v + j * t->row, t->width);
		delta += p[j] * d[j];
	}
	/* where one block does not hold all keys, from the output */
	if (t->keys > KEY_BLOCK) {
		delta = 0;
		for (int64_t c = 0; c < t->width; c++)
			delta += (double)t->plain_o[c] * (double)t->plain_d_o[c];
	}
	for (int64_t j = 0; j < t->seen; j++) {
		const double ds = rounded((float)(p[j] * (d[j] - delta) / sqrt((double)t->width))),
			     probability = rounded((float)p[j]);
		for (int64_t c = 0; c < t->width; c++) {
			t->dv[j * t->row + c] += probability * t->d_o[c];
			t->dk[j * t->row + c] += ds * t->q[c];
			t->dq[c] += ds * t->k[j * t->row + c];
		}
	}
}

static double attended_error(const struct attended *a, const struct tokens *t)
{
	double *exact[TENSORS], worst = 0;
	const int64_t row = (int64_t)t->heads * t->width;
	for (int i = 0; i < TENSORS; i++)
		exact[i] = i <= V || i == DO ? rounded_all(a->values[i], a->counts[i])
					     : memory_new(a->counts[i], sizeof *exact[i]);
	for (int64_t i = 0; i < (int64_t)t->images * t->heads * t->queries; i++) {
		const int64_t query = i % t->queries, head = i / t->queries % t->heads,
			      image = i / t->queries / t->heads,
			      at = (image * t->queries + query) * row + head * t->width,
			      keys_at = image * t->keys * row + head * t->width;
		double scores[MOST_KEYS];
		const struct query one = {exact[Q] + at, exact[K] + keys_at, exact[V] + keys_at,
			exact[DO] + at, a->values[O] + at, a->values[DO] + at, exact[O] + at, exact[DQ] + at,
			exact[DK] + keys_at, exact[DV] + keys_at, t->causal ? query + 1 : t->keys, t->keys,
			t->width, row};
		attend_backward_formula(&one, scores, attend_formula(&one, scores));
	}
	for (int i = 0; i < TENSORS; i++) {
		const double error = i <= V || i == DO ? 0 : error_of(a->values[i], exact[i], a->counts[i]);
		worst = error > worst || isnan(error) ? error : worst;
	}
	for (int i = 0; i < TENSORS; i++)
		free(exact[i]);
	return worst;
}

/*
 * Probabilities and their gradients are rounded from float32, so one that lies within its error of a tie can fall to the other
 * side: off by 2^-8 of itself, where the largest terms are some times as large as their root mean square, of which a sum over
 * 7 to 600 keys has 2.6 to 24.
 */
#define ATTENTION_TOLERANCE 0x1p-8

static void test_attention(const char *precision, const char *twin)
{
	char why[128] = "", other[64] = "";
	double worst = 0;
	bool equal = true;

	for (size_t i = 0; i < sizeof token_shapes / sizeof *token_shapes; i++) {
		const struct tokens *t = &token_shapes[i];
		struct attended a, b;
		const bool ran = run_tokens(&a, t, precision, 1) && run_tokens(&b, t, twin, 3);
		const double error = ran ? attended_error(&a, t) : INFINITY;
		if (!(error <= worst)) {
			worst = error;
			snprintf(why, sizeof why, "%.3g of the root mean square in shape %zu", error, i);
		}
		for (int k = 0; k < TENSORS; k++)
			if (!ran || memcmp(a.values[k], b.values[k], a.counts[k] * sizeof(float)) != 0) {
				equal = false;
				snprintf(other, sizeof other, "not in shape %zu, tensor %d", i, k);
			}
		release_tokens(&a);
		release_tokens(&b);
	}
	report(worst <= ATTENTION_TOLERANCE, precision, "attention equals the formula over rounded operands",
		why);
	report(equal, precision, "attention has the bits of plain arithmetic, whatever the threads", other);
}

/* ---- refusals ---- */

static int open_status(const char *isa, const char *precision)
{
	const struct device_settings settings = {.threads = 1, .isa = isa, .precision = precision};
	struct device *device = NULL;
	const int status = cpu_backend.open(&settings, &device);
	if (!status)
		cpu_backend.close(device);
	return status;
}

static void test_refusals(bool has_bf16)
{
	check_status(open_status("auto", "auto"), 0, "automatic precision opens anywhere");
	check_status(open_status("plain", "f32"), 0, "float32 opens anywhere");
	check_status(open_status("auto", "bf16-tensor"), STATUS_UNAVAILABLE, "an unknown unit is refused");
	check_status(open_status("plain", "bf16"), has_bf16 ? STATUS_CONFIG : STATUS_UNAVAILABLE,
		"bf16 is refused below AVX-512");
	check(strstr(error_message(), "precision = \"bf16\"") != NULL, "the refusal names the key");
}

int main(void)
{
	static const struct {
		const struct bf16 *plain;
		const char *name;
	} units[] = {{&bf16_amx_plain, "bf16-amx"}, {&bf16_avx512_plain, "bf16-avx512"}};
	int found = 0;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		const struct bf16 *unit = NULL;
		if (bf16_choose(units[i].name, &unit)) {
			check_skip(units[i].name, "this processor has not got it");
			test_layers("auto", units[i].plain->name);
			test_attention(units[i].plain->name, units[i].plain->name);
			continue;
		}
		found++;
		test_packing(unit, units[i].plain);
		test_sums(unit, units[i].plain);
		test_layers("auto", units[i].name);
		test_twin(units[i].name, units[i].plain->name);
		test_attention(units[i].name, units[i].plain->name);
	}
	test_refusals(found > 0);
	return check_summary();
}
