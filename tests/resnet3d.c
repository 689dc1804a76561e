/*
 * The networks over clips: sizes and costs of every model, names as in the original's files (golden/resnet3d.py says how they were
 * made), initial values, frozen parts, refusals. `resnet3d VECTOR ...` runs those vectors instead, `--all` all of them, `--exact`
 * small ones in double precision.
 */
#include "base/digest.h"
#include "base/files.h"
#include "base/text.h"
#include "cpu/cpu.h"
#include "resnet3d_fixture.h"
#include "support/reference.h"

/* ---- sizes and costs: 400 classes, clips of 3x16x112x112 ---- */

struct model {
	enum resnet3d_family family;
	int depth;
	size_t parameters;
	int features;        /* into the last layer */
	double gmac, useful; /* of the convolutions, in 10^9; without what meets padding */
	size_t convolutions, norms;
	size_t learnable, tensors; /* of the state_dict */
};

static const struct model models[] = {
	{RESNET3D_RESNET, 10, 14604624, 512, 5.654, 4.711, 12, 12, 38, 74},
	{RESNET3D_RESNET, 18, 33409104, 512, 8.308, 6.688, 20, 20, 62, 122},
	{RESNET3D_RESNET, 34, 63718736, 512, 12.696, 9.758, 36, 36, 110, 218},
	{RESNET3D_RESNET, 50, 47018576, 2048, 10.068, 8.393, 53, 53, 161, 320},
	{RESNET3D_RESNET, 101, 86064720, 2048, 13.890, 10.875, 104, 104, 314, 626},
	{RESNET3D_RESNET, 152, 118223440, 2048, 18.610, 14.233, 155, 155, 467, 932},
	{RESNET3D_RESNET, 200, 127423056, 2048, 25.804, 20.071, 203, 203, 611, 1220},
	{RESNET3D_RESNET2P1D, 10, 14608044, 512, 5.822, 5.274, 21, 21, 65, 128},
	{RESNET3D_RESNET2P1D, 18, 33421164, 512, 8.477, 7.608, 37, 37, 113, 224},
	{RESNET3D_RESNET2P1D, 34, 63747500, 512, 12.865, 11.370, 69, 69, 209, 416},
	{RESNET3D_RESNET2P1D, 50, 47035382, 2048, 10.523, 9.597, 70, 70, 212, 422},
	{RESNET3D_RESNET2P1D, 101, 86101110, 2048, 14.345, 12.771, 138, 138, 416, 830},
	{RESNET3D_RESNET2P1D, 152, 118277110, 2048, 19.065, 16.843, 206, 206, 620, 1238},
	{RESNET3D_RESNET2P1D, 200, 127485942, 2048, 26.258, 23.418, 270, 270, 812, 1622},
	{RESNET3D_PRERESNET, 10, 14603728, 512, 5.654, 4.711, 12, 12, 38, 74},
	{RESNET3D_PRERESNET, 18, 33408208, 512, 8.308, 6.688, 20, 20, 62, 122},
	{RESNET3D_PRERESNET, 34, 63717840, 512, 12.696, 9.758, 36, 36, 110, 218},
	{RESNET3D_PRERESNET, 50, 47014608, 2048, 10.068, 8.393, 53, 53, 161, 320},
	{RESNET3D_PRERESNET, 101, 86060752, 2048, 13.890, 10.875, 104, 104, 314, 626},
	{RESNET3D_PRERESNET, 152, 118219472, 2048, 18.610, 14.233, 155, 155, 467, 932},
	{RESNET3D_PRERESNET, 200, 127419088, 2048, 25.804, 20.071, 203, 203, 611, 1220},
	{RESNET3D_WIDERESNET, 50, 158338832, 2048, 29.697, 23.882, 53, 53, 161, 320},
	{RESNET3D_WIDERESNET, 101, 296558352, 2048, 43.236, 32.064, 104, 104, 314, 626},
	{RESNET3D_WIDERESNET, 152, 410390288, 2048, 59.960, 43.337, 155, 155, 467, 932},
	{RESNET3D_WIDERESNET, 200, 442928912, 2048, 85.445, 63.402, 203, 203, 611, 1220},
	{RESNET3D_RESNEXT, 50, 26775824, 2048, 10.910, 9.869, 53, 53, 161, 320},
	{RESNET3D_RESNEXT, 101, 48431376, 2048, 13.025, 11.817, 104, 104, 314, 626},
	{RESNET3D_RESNEXT, 152, 66269456, 2048, 15.639, 14.260, 155, 155, 467, 932},
	{RESNET3D_RESNEXT, 200, 71381264, 2048, 19.621, 18.072, 203, 203, 611, 1220},
	{RESNET3D_DENSENET, 121, 11696528, 1024, 10.404, 9.049, 120, 121, 364, 727},
	{RESNET3D_DENSENET, 169, 19252624, 1664, 10.677, 9.270, 168, 169, 508, 1015},
	{RESNET3D_DENSENET, 201, 26143120, 1920, 11.242, 9.757, 200, 201, 604, 1207},
	{RESNET3D_DENSENET, 264, 41365392, 2688, 11.996, 10.419, 264, 265, 796, 1591},
};

static const struct {
	enum resnet3d_family family;
	int depth;
	size_t parameters;
} without_projections[] = {{RESNET3D_RESNET, 10, 14430800}, {RESNET3D_RESNET, 18, 33235280},
	{RESNET3D_RESNET, 34, 63544912}, {RESNET3D_RESNET, 50, 44242000}, {RESNET3D_RESNET, 101, 83288144},
	{RESNET3D_RESNET, 152, 115446864}, {RESNET3D_RESNET, 200, 124646480},
	{RESNET3D_RESNET2P1D, 18, 33247340}, {RESNET3D_RESNET2P1D, 34, 63573676},
	{RESNET3D_PRERESNET, 18, 33234384}, {RESNET3D_WIDERESNET, 50, 155545872},
	{RESNET3D_RESNEXT, 50, 23982864}, {RESNET3D_RESNEXT, 101, 45638416}};

static struct device *device;

/* A graph of the network alone, never allocated. The caller frees the program. */
static struct graph *outline(const struct resnet3d *resnet, const int64_t shape[5], bool training)
{
	struct program *program = program_new(device);
	struct graph *graph = graph_new(program, "outline", training);
	int x = graph_input(graph, "clips", TENSOR_F32, 5, shape);

	resnet3d_build(graph, resnet, x, training);
	return graph;
}

static struct graph *outline_usual(const struct resnet3d *resnet, bool training)
{
	return outline(resnet, (int64_t[]){1, 16, 112, 112, resnet->in_channels}, training);
}

static void measure_model(struct graph *graph, struct model *measured)
{
	struct store *store = graph_store(graph);
	double linear = 0, flops = 0;

	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);

		measured->learnable += !parameter->statistic;
		measured->parameters += parameter->statistic ? 0 : parameter->count;
		measured->norms += text_ends(parameter->name, ".running_var");
		if (parameter->dims == 2)
			measured->features = (int)parameter->dim[1];
	}
	measured->tensors = store_count(store) + measured->norms;
	graph_cost(graph);
	for (size_t n = 0; n < graph->node_count; n++) {
		measured->convolutions += graph->nodes[n].operation == OP_CONVOLUTION;
		*(graph->nodes[n].operation == OP_CONVOLUTION ? &flops : &linear) += graph->nodes[n].flops;
	}
	measured->gmac = flops / 2e9;
	measured->useful = (flops - graph_padding_flops(graph)) / 2e9;
}

static void test_sizes(void)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		const struct model *m = &models[i];
		struct resnet3d resnet = resnet3d_default(m->family, m->depth, 400);
		struct graph *graph = outline_usual(&resnet, false);
		struct model f = {0};
		char name[64];

		snprintf(name, sizeof(name), "sizes and costs of %s-%d", resnet3d_family_name(m->family),
			m->depth);
		if (graph->status) {
			check_report(false, name, "%s", graph->message);
			continue;
		}
		measure_model(graph, &f);
		check_report(f.parameters == m->parameters && f.features == m->features &&
				     f.convolutions == m->convolutions && f.norms == m->norms &&
				     f.learnable == m->learnable && f.tensors == m->tensors &&
				     fabs(f.gmac - m->gmac) < 5.01e-4 && fabs(f.useful - m->useful) < 5.01e-4,
			name,
			"%zu parameters, %d features, %zu convolutions, %zu norms, %zu and %zu tensors, %.4f "
			"and "
			"%.4f GMAC",
			f.parameters, f.features, f.convolutions, f.norms, f.learnable, f.tensors, f.gmac,
			f.useful);
		program_free(graph->program);
	}
}

static void test_without_projections(void)
{
	size_t good = 0, count = sizeof(without_projections) / sizeof(*without_projections);

	for (size_t i = 0; i < count; i++) {
		struct resnet3d resnet =
			resnet3d_default(without_projections[i].family, without_projections[i].depth, 400);
		struct model measured = {0};
		struct graph *graph;

		resnet.shortcut = RESNET3D_SHORTCUT_A;
		graph = outline_usual(&resnet, false);
		measure_model(graph, &measured);
		good += measured.parameters == without_projections[i].parameters;
		program_free(graph->program);
	}
	check_report(good == count, "parameters with shortcuts of type A", "%zu of %zu models", good, count);
}

/* Training costs three forward passes but the first convolution's input gradient: 345.9 and 430.5 GFLOP for 8 clips. */
static void test_training_cost(int depth, double gflop)
{
	struct resnet3d resnet = resnet3d_default(RESNET3D_RESNET, depth, 400);
	struct graph *graph = outline(&resnet, (int64_t[]){8, 16, 112, 112, 3}, true);
	int classes = graph_input(graph, "classes", TENSOR_I32, 1, (int64_t[]){8});
	double flops = 0;
	char name[64];

	graph_backward(graph,
		graph_cross_entropy(graph, graph->nodes[graph->node_count - 1].out[0], classes, 0).loss);
	graph_cost(graph);
	for (size_t n = 0; n < graph->node_count; n++) {
		if (graph->nodes[n].operation <= OP_LINEAR_WEIGHT)
			flops += graph->nodes[n].flops;
	}
	snprintf(name, sizeof(name), "products of a training step of resnet-%d", depth);
	check_close(flops * 1e-9, gflop, 0.05, name);
	program_free(graph->program);
}

/* ---- names ---- */

/* "NAME SIZES" of each entry of the state_dict in its order. */
static void digest_names(const struct store *store, char hex[65])
{
	struct sha256 state;
	struct text text = {0};

	sha256_init(&state);
	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);

		text_clear(&text);
		text_add(&text, parameter->name);
		for (int k = 0; k < parameter->dims; k++)
			text_format(&text, " %lld", (long long)parameter->dim[k]);
		text_add(&text, "\n");
		if (text_ends(parameter->name, ".running_var"))
			text_format(&text, "%.*snum_batches_tracked\n",
				(int)(strlen(parameter->name) - strlen("running_var")), parameter->name);
		sha256_update(&state, text.data, text.length);
	}
	sha256_hex(&state, hex);
	text_release(&text);
}

/* The first tensor that does not stand behind the one before it, by its name alone; NULL when there is none. */
static const char *first_unordered(const struct store *store, enum resnet3d_family family)
{
	for (size_t i = 1; i < store_count(store); i++) {
		const char *before = store_parameter(store, i - 1)->name,
			   *name = store_parameter(store, i)->name;

		if (resnet3d_compare_names(family, before, name) >= 0 ||
			resnet3d_compare_names(family, name, before) <= 0 ||
			resnet3d_compare_names(family, store_parameter(store, i / 2)->name, name) >= 0)
			return name;
		if (text_ends(before, "running_var")) {
			char counter[256];

			snprintf(counter, sizeof(counter), "%.*snum_batches_tracked",
				(int)(strlen(before) - strlen("running_var")), before);
			if (resnet3d_compare_names(family, before, counter) >= 0 ||
				resnet3d_compare_names(family, counter, name) >= 0)
				return before;
		}
	}
	return NULL;
}

static void check_names(const char *family, int64_t depth, const char *shortcut, const char *expected)
{
	struct resnet3d resnet =
		resnet3d_default((enum resnet3d_family)resnet3d_family(family), (int)depth, 400);
	struct graph *graph;
	char digest[65], name[64];

	resnet.shortcut = *shortcut == 'A' ? RESNET3D_SHORTCUT_A : RESNET3D_SHORTCUT_B;
	graph = outline_usual(&resnet, false);
	digest_names(graph_store(graph), digest);
	snprintf(name, sizeof(name), "names, sizes and order of %s-%d %s", family, (int)depth, shortcut);
	check_text(digest, expected, name);
	const char *unordered = first_unordered(graph_store(graph), resnet.family);
	snprintf(name, sizeof(name), "the order of %s-%d %s follows from the names", family, (int)depth,
		shortcut);
	check_report(!unordered, name, "%s", unordered ? unordered : "");
	program_free(graph->program);
}

static void test_names(void)
{
	char *data = NULL, *lines[128], *cells[4];
	size_t bytes;
	int64_t depth;
	int count;

	if (file_read("tests/golden/resnet3d.tsv", 1 << 20, (void *)&data, &bytes)) {
		check_report(false, "golden names", "%s", error_message());
		return;
	}
	count = text_split(data, '\n', lines, 128);
	for (int i = 0; i < count; i++) {
		if (text_split(lines[i], '\t', cells, 4) == 4 && text_to_int64(cells[1], &depth))
			check_names(cells[0], depth, cells[2], cells[3]);
	}
	free(data);
}

/* ---- initial values ---- */

static double deviation(struct store *store, const char *name, double *mean)
{
	int i = store_find(store, name);
	size_t count = store_parameter(store, (size_t)i)->count;
	float *values = memory_new(count, sizeof(*values));
	double squares = 0;

	*mean = 0;
	store_export(store, (size_t)i, SLOT_VALUE, values);
	for (size_t j = 0; j < count; j++) {
		*mean += values[j] / (double)count;
		squares += (double)values[j] * values[j] / (double)count;
	}
	free(values);
	return sqrt(squares - *mean * *mean);
}

static struct store *initial(const struct resnet3d *resnet, struct program **program)
{
	struct graph *graph = outline(resnet, (int64_t[]){1, 16, 64, 64, 3}, false);

	*program = graph->program;
	check(program_prepare(*program) == STATUS_OK && store_initialise(graph_store(graph), 7) == STATUS_OK,
		"a network gets initial values");
	return graph_store(graph);
}

/* Of n values, a deviation is known to 1 / sqrt(2n) of itself: four times that is allowed. */
static void test_initial_values(void)
{
	struct resnet3d resnet = resnet3d_default(RESNET3D_RESNET, 10, 400);
	struct program *program;
	struct store *store = initial(&resnet, &program);
	double mean;

	check_close(deviation(store, "conv1.weight", &mean), 0.00954504, 0.00954504 * 4 / sqrt(2 * 65856),
		"first convolution: He's normal of its outputs");
	check_close(mean, 0, 0.00954504 * 4 / sqrt(65856), "around zero");
	check_close(deviation(store, "bn1.weight", &mean), 0, 0, "norms begin alike");
	check_close(mean, 1, 0, "with one");
	check_close(deviation(store, "fc.weight", &mean), 1 / sqrt(512.0) / sqrt(3.0),
		1 / sqrt(512.0) * 4 / sqrt(2 * 204800), "the last layer is uniform");
	program_free(program);
	resnet = resnet3d_default(RESNET3D_RESNEXT, 50, 10);
	store = initial(&resnet, &program);
	check_close(deviation(store, "layer1.0.conv2.weight", &mean), 0.0240563,
		0.0240563 * 4 / sqrt(2 * 13824), "of all output channels, groups or not");
	program_free(program);
	resnet = resnet3d_default(RESNET3D_DENSENET, 121, 10);
	store = initial(&resnet, &program);
	check(deviation(store, "classifier.bias", &mean) == 0 && mean == 0,
		"DenseNet's last bias begins with zero");
	program_free(program);
}

/* ---- parts ---- */

static size_t trained(const struct resnet3d *resnet)
{
	struct graph *graph = outline_usual(resnet, true);
	size_t count = 0;

	for (size_t i = 0; i < store_count(graph_store(graph)); i++) {
		const struct parameter *parameter = store_parameter(graph_store(graph), i);

		count += !parameter->frozen && !parameter->statistic;
	}
	program_free(graph->program);
	return count;
}

static void test_train_from(void)
{
	struct resnet3d resnet = resnet3d_default(RESNET3D_RESNET, 18, 400);
	static const char *const names[] = {"", "conv1", "bn1", "layer4", "fc"};
	static const size_t counts[] = {62, 62, 61, 17, 2};
	size_t good = 0;

	for (size_t i = 0; i < 5; i++) {
		resnet.train_from = names[i];
		good += trained(&resnet) == counts[i];
	}
	check(good == 5, "trained from a module on: as many tensors as the original's");
	resnet = resnet3d_default(RESNET3D_DENSENET, 121, 400);
	resnet.train_from = "norm5";
	check(trained(&resnet) == 4, "DenseNet's modules are found behind 'features.'");
	resnet.family = RESNET3D_RESNET2P1D;
	resnet.depth = 18;
	resnet.train_from = "bn1_t";
	check(trained(&resnet) == 113 - 4, "(2+1)D: the stem has four modules");
}

/* Norms in front of train_from by running statistics: those stay as they are. */
static void test_frozen_norm(void)
{
	struct resnet3d_vector vector = {.name = "frozen norms",
		.resnet = resnet3d_default(RESNET3D_RESNET, 10, 10),
		.shape = {2, 3, 4, 32, 32}};
	double before[3], after[3], last_before[3], last_after[3], frozen_loss;
	struct net net;

	vector.resnet.widen_factor = 0.125;
	vector.resnet.train_from = "layer4";
	vector.resnet.frozen_norm = true;
	if (!check(net_open(&net, &vector, &cpu_backend) == STATUS_OK, "a network with frozen norms"))
		return;
	net_slot(&net, "layer3.0.bn2.running_var", SLOT_VALUE, before);
	net_slot(&net, "layer4.0.bn1.running_var", SLOT_VALUE, last_before);
	check(net_step(&net, 1) == STATUS_OK, "takes a step");
	frozen_loss = net_loss(&net, 0);
	net_slot(&net, "layer3.0.bn2.running_var", SLOT_VALUE, after);
	net_slot(&net, "layer4.0.bn1.running_var", SLOT_VALUE, last_after);
	check(before[1] == after[1], "statistics of frozen norms stay");
	check(last_before[1] != last_after[1], "those behind move");
	net_close(&net);
	vector.resnet.frozen_norm = false;
	check(net_open(&net, &vector, &cpu_backend) == STATUS_OK && net_step(&net, 1) == STATUS_OK &&
			net_loss(&net, 0) != frozen_loss,
		"without them, frozen parts use the batch's statistics as the original");
	net_slot(&net, "layer3.0.bn2.running_var", SLOT_VALUE, after);
	check(before[1] != after[1], "and their running ones move");
	net_close(&net);
}

/* ---- refusals ---- */

static void refused(struct resnet3d resnet, const char *key)
{
	char name[96];

	snprintf(name, sizeof(name), "a bad network is refused by %s", key);
	check_report(resnet3d_check(&resnet) == STATUS_CONFIG && text_starts(error_message(), key), name,
		"%s", error_message());
}

static void test_refusals(void)
{
	struct resnet3d good = resnet3d_default(RESNET3D_RESNET, 18, 400), bad;
	struct graph *graph;

	check_status(resnet3d_check(&good), STATUS_OK, "the default network is good");
	bad = good, bad.depth = 20, refused(bad, "model.depth");
	bad = good, bad.family = RESNET3D_DENSENET, refused(bad, "model.depth");
	bad = good, bad.family = RESNET3D_WIDERESNET, refused(bad, "model.depth");
	bad = good, bad.family = (enum resnet3d_family)9, refused(bad, "model.name");
	bad = good, bad.widen_factor = 0.01, refused(bad, "model.widen_factor");
	bad = good, bad.widen_factor = NAN, refused(bad, "model.widen_factor");
	bad = good, bad.wide_k = 0, refused(bad, "model.wide_k");
	bad = good, bad.classes = 0, refused(bad, "model.n_classes");
	bad = good, bad.conv1_t_size = 0, refused(bad, "model.conv1_t_size");
	bad = good, bad.conv1_t_stride = 0, refused(bad, "model.conv1_t_stride");
	bad = good, bad.train_from = "layer5", refused(bad, "train.from: resnet has no module layer5");
	bad = good, bad.train_from = "conv1_s", refused(bad, "train.from");
	bad = resnet3d_default(RESNET3D_RESNEXT, 50, 400), bad.cardinality = 0,
	refused(bad, "model.cardinality");
	check(resnet3d_family("preresnet") == RESNET3D_PRERESNET && resnet3d_family("vgg") < 0,
		"names of families");
	bad = resnet3d_default(RESNET3D_DENSENET, 121, 400);
	graph = outline(&bad, (int64_t[]){1, 14, 112, 112, 3}, false);
	check(graph->status && strstr(graph->message, "average-pool"), "DenseNet needs 15 frames");
	program_free(graph->program);
	graph = outline(&bad, (int64_t[]){1, 15, 29, 29, 3}, false);
	check(!graph->status, "and has enough with 15 of 29x29");
	program_free(graph->program);
	graph = outline(&good, (int64_t[]){1, 1, 1, 1, 3}, false);
	check(!graph->status, "a ResNet takes any size");
	program_free(graph->program);
	graph = outline(&good, (int64_t[]){1, 16, 112, 112, 2}, false);
	check(graph->status && strstr(graph->message, "of 3 channels, not of 2"), "flow where RGB is wanted");
	program_free(graph->program);
}

/* ---- whole frames ---- */

/* resnet-18 B by running statistics on clips of 16 frames of 112 rows. */
static const struct {
	int width;
	double logits[10];
} whole[] = {{112, {-0.21739817, -0.047561101, -0.090523162, -0.10411299, -0.075857610, -0.083251419,
			   -0.028715925, -0.039951575, 0.040277327, -0.19317958}},
	{149, {-0.21817788, -0.047662156, -0.090273567, -0.10381401, -0.075192700, -0.083101420, -0.028579864,
		      -0.040083846, 0.040767109, -0.19298632}}};

static void test_whole_frames(void)
{
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		struct resnet3d_vector vector = {.name = "resnet-18 B on whole frames",
			.resnet = resnet3d_default(RESNET3D_RESNET, 18, 10),
			.shape = {1, 3, 16, 112, whole[i].width}};
		float logits[10];
		double worst = 0;
		struct net net;

		if (net_open(&net, &vector, &cpu_backend) || graph_run(net.eval) ||
			graph_read(net.eval, net.logits[1], logits)) {
			check_report(false, vector.name, "%s", error_message());
		} else {
			for (int k = 0; k < 10; k++)
				worst = fmax(worst, fabs(logits[k] - whole[i].logits[k]));
			compare(&net, worst, 0, 1e-6, "logits of 112x%d", whole[i].width);
		}
		net_close(&net);
	}
}

/* In double precision what is left is the rounding of the filling, at worst 1e-3 of what single precision may differ. */
#define EXACT 0.02

static int run_vectors(int count, char **names)
{
	if (!strcmp(names[0], "--exact")) {
		static const char *const small[] = {"case 2: resnet-10 A, widen 0.125",
			"case 4: resnet-10 B, widen 0.125, kt 4",
			"case 6: resnet2p1d-10 B, widen 0.25, kt 3, 2 channels",
			"case 15: resnet-10 B, widen 0.125, trained from fc"};

		for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
			check_vector(small[i], &reference_backend, EXACT, NULL);
	} else if (!strcmp(names[0], "--all")) {
		for (const struct resnet3d_vector *vector = resnet3d_vectors; vector->name; vector++)
			check_vector(vector->name, &cpu_backend, 1, NULL);
		test_whole_frames();
	} else {
		for (int i = 0; i < count; i++)
			check_vector(names[i], &cpu_backend, 1, NULL);
	}
	return check_summary();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return run_vectors(argc - 1, argv + 1);
	check_status(cpu_backend.open(&(struct device_settings){.threads = 2, .isa = "auto"}, &device),
		STATUS_OK, "a device");
	test_sizes();
	test_without_projections();
	test_training_cost(18, 345.9);
	test_training_cost(50, 430.5);
	test_names();
	test_initial_values();
	test_train_from();
	test_frozen_norm();
	test_refusals();
	cpu_backend.close(device);
	return check_summary();
}
