/*
 * Ten training steps on real frames, equal to PyTorch's with the original's network (golden/resnet3d.py says how the numbers were
 * made). Needs two videos in $NIGHTSHIFT_SAMPLES/video (../shared/data/video) and an ffmpeg that decodes them to the same pixels.
 */
#include "base/command.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "cpu/cpu.h"
#include "support/golden.h"
#include "support/resnet3d_vectors.h"

enum { FRAMES = 14, SIDE = 56, CLIP = 8, CROP = 48, CLIPS = 4, STEPS = 10, TENSORS = 62 };
#define VIDEO ((size_t)FRAMES * SIDE * SIDE * 3)
#define ROUNDING_FACTOR 5
#define ROUNDING_FLOOR 3e-6

static struct safetensors golden;
static unsigned char frames[2 * VIDEO];

/* ---- frames ---- */

/* Every second row and column of a part of a video's first frames. */
static int decode(const char *folder, const char *name, const char *crop, unsigned char *out)
{
	char path[512], count[8];
	const char *arguments[] = {"ffmpeg", "-v", "error", "-i", path, "-vf", crop, "-frames:v", count, "-f",
		"rawvideo", "-pix_fmt", "rgb24", "-", NULL};
	const size_t wide = (size_t)2 * SIDE * 3;
	struct text raw = {0};
	int exit_status = 0, status;

	snprintf(path, sizeof(path), "%s/video/%s", folder, name);
	snprintf(count, sizeof(count), "%d", FRAMES);
	status = command_run(arguments, NULL, 60, 4 * VIDEO + 1, &raw, NULL, &exit_status);
	if (!status && (exit_status || raw.length != 4 * VIDEO))
		status = error_set(STATUS_NO_INPUT, "%s: ffmpeg decodes no %d frames", path, FRAMES);
	for (size_t row = 0; row < (size_t)FRAMES * SIDE && !status; row++) {
		for (size_t i = 0; i < (size_t)SIDE * 3; i++)
			out[row * SIDE * 3 + i] = (unsigned char)raw.data[2 * row * wide + i / 3 * 6 + i % 3];
	}
	text_release(&raw);
	return status;
}

static int read_frames(void)
{
	const char *folder = getenv("NIGHTSHIFT_SAMPLES");
	const struct safetensor *expected = safetensors_find(&golden, "frames.sha256");
	char hex[65], wanted[65] = "";
	struct sha256 state;

	folder = folder ? folder : "../shared/data";
	if (decode(folder, "cockatoo.mp4", "crop=112:112:600:300", frames) ||
		decode(folder, "nasa_13013.mp4", "crop=112:112:180:80", frames + VIDEO))
		return error_status();
	sha256_init(&state);
	sha256_update(&state, frames, sizeof(frames));
	sha256_hex(&state, hex);
	for (size_t i = 0; expected && i < 32; i++)
		snprintf(wanted + 2 * i, 3, "%02x", ((const unsigned char *)expected->data)[i]);
	return strcmp(hex, wanted) == 0 ? STATUS_OK
					: error_set(STATUS_NO_INPUT, "this ffmpeg decodes to other pixels");
}

/* ---- the network ---- */

struct net {
	struct device *device;
	struct program *program;
	struct graph *train, *predict;
	int input[2], classes[2];
	struct cross_entropy result[2];
	float *before[TENSORS];
};

static struct graph *add_graph(struct net *net, int k)
{
	struct resnet3d resnet = resnet3d_default(RESNET3D_RESNET, 10, 10);
	struct graph *graph = graph_new(net->program, k ? "predict" : "train", !k);
	int logits;

	resnet.widen_factor = 0.125;
	net->input[k] = graph_input(graph, "clips", TENSOR_F32, 5, (int64_t[]){CLIPS, CLIP, CROP, CROP, 3});
	net->classes[k] = graph_input(graph, "classes", TENSOR_I32, 1, (int64_t[]){CLIPS});
	logits = resnet3d_build(graph, &resnet, net->input[k], !k);
	net->result[k] = graph_cross_entropy(graph, logits, net->classes[k], 0);
	graph_output(graph, net->result[k].losses);
	return graph;
}

static int net_open(struct net *net)
{
	const struct optimizer_rule rule = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .decay = 1e-3};
	struct store *store;
	int status = cpu_backend.open(&(struct device_settings){.threads = 2, .isa = "auto"}, &net->device);

	if (status)
		return status;
	net->program = program_new(net->device);
	store = program_store(net->program);
	net->train = add_graph(net, 0);
	net->predict = add_graph(net, 1);
	graph_backward(net->train, net->result[0].loss);
	program_update_rule(net->program, &rule);
	status = program_prepare(net->program);
	if (!status)
		status = resnet3d_fill(store);
	for (size_t i = 0; i < store_count(store) && i < TENSORS && !status; i++) {
		net->before[i] = memory_new(store_parameter(store, i)->count, sizeof(float));
		status = store_export(store, i, SLOT_VALUE, net->before[i]);
	}
	return status;
}

static void net_close(struct net *net)
{
	for (int i = 0; i < TENSORS; i++)
		free(net->before[i]);
	program_free(net->program);
	if (net->device)
		net->device->backend->close(net->device);
}

/* Clip n of a step: see golden/resnet3d.py. */
static void cut(int step, int n, float *out)
{
	static const float mean[3] = {0.4345f, 0.4051f, 0.3775f}, deviation[3] = {0.2768f, 0.2713f, 0.2737f};
	const unsigned char *from = frames + (size_t)(n % 2) * VIDEO;
	int first = 2 * ((step + n) % 4) % (FRAMES - CLIP + 1), row = step % 4, column = 2 * n;

	for (int t = 0; t < CLIP; t++) {
		for (int y = 0; y < CROP; y++) {
			for (int i = 0; i < CROP * 3; i++) {
				int x = (step + n) % 2 ? CROP - 1 - i / 3 : i / 3;
				size_t at =
					(size_t)((first + t) * SIDE + row + y) * SIDE + (size_t)(column + x);

				*out++ = ((float)from[at * 3 + (size_t)(i % 3)] / 255 - mean[i % 3]) /
					 deviation[i % 3];
			}
		}
	}
}

static int run_batch(struct net *net, int k, int step)
{
	const size_t clip = (size_t)CLIP * CROP * CROP * 3;
	struct graph *graph = k ? net->predict : net->train;
	float *values = memory_new(CLIPS * clip, sizeof(*values));
	int32_t classes[CLIPS];
	int status;

	for (int n = 0; n < CLIPS; n++) {
		cut(step, n, values + (size_t)n * clip);
		classes[n] = (3 * n + step) % 10;
	}
	status = graph_write(graph, net->input[k], values);
	if (!status)
		status = graph_write(graph, net->classes[k], classes);
	if (!status)
		status = graph_run(graph);
	free(values);
	return status;
}

/* ---- comparing ---- */

static void check_golden(const char *what, const float *values, size_t count)
{
	const float *expected = golden_find(&golden, "frames", what, count), *rounding;
	char name[64];
	double error, limit;

	snprintf(name, sizeof(name), "%s.rounding", what);
	rounding = golden_find(&golden, "frames", name, 1);
	if (!expected || !rounding) {
		check_report(false, what, "%s", error_message());
		return;
	}
	error = golden_error(values, expected, count);
	limit = fmax(ROUNDING_FLOOR, ROUNDING_FACTOR * (double)*rounding);
	snprintf(name, sizeof(name), "%s on real frames", what);
	check_report(error <= limit, name, "error %.3g of the root mean square, not %.3g", error, limit);
}

/* Gradients, or changes since the start. */
static void check_rows(struct net *net, bool change)
{
	struct store *store = program_store(net->program);
	size_t *order = golden_order(store), row = 0, rows = 0;
	const char *what = change ? "changes" : "gradients", *where = "";
	const float *expected, *rounding;
	double worst = 0;
	char name[64];

	for (size_t i = 0; i < store_count(store); i++)
		rows += change || !store_parameter(store, i)->statistic;
	snprintf(name, sizeof(name), "%s.rounding", what);
	expected = golden_find(&golden, "frames", what, rows * GOLDEN_ROW);
	rounding = golden_find(&golden, "frames", name, rows);
	for (size_t k = 0; k < store_count(store) && expected && rounding; k++) {
		const struct parameter *p = store_parameter(store, order[k]);
		float *values;
		double error;

		if (!change && p->statistic)
			continue;
		values = memory_new(p->count, sizeof(*values));
		store_export(store, order[k], change ? SLOT_VALUE : SLOT_GRADIENT, values);
		for (size_t j = 0; j < p->count && change; j++)
			values[j] -= net->before[order[k]][j];
		error = golden_row_error(values, p->count, expected + row * GOLDEN_ROW) /
			fmax(ROUNDING_FLOOR, ROUNDING_FACTOR * (double)rounding[row]);
		if (error > worst || isnan(error)) {
			worst = error;
			where = p->name;
		}
		free(values);
		row++;
	}
	free(order);
	snprintf(name, sizeof(name), "%s on real frames", what);
	check_report(row == rows && worst <= 1, name, "%zu of %zu rows; %s is off by %.3g times the limit",
		row, rows, where, worst);
}

static void test_steps(struct net *net)
{
	float losses[STEPS], each[CLIPS];
	int status = STATUS_OK;

	for (int step = 1; step <= STEPS && !status; step++) {
		const struct step_scalars scalars = {.learning_rate = 0.001, .step = step};

		status = run_batch(net, 0, step);
		if (!status)
			status = program_collect(net->program, 0, 1);
		if (!status)
			status = graph_read(net->train, net->result[0].loss, &losses[step - 1]);
		if (!status && step == 1) {
			graph_read(net->train, net->result[0].losses, each);
			check_golden("first", each, CLIPS);
			check_rows(net, false);
		}
		if (!status)
			status = program_update(net->program, &scalars);
	}
	check_status(status, STATUS_OK, "ten steps on real frames");
	check_golden("losses", losses, STEPS);
	check_rows(net, true);
	status = run_batch(net, 1, STEPS + 1);
	graph_read(net->predict, net->result[1].losses, each);
	check_golden("last", each, CLIPS);
}

int main(void)
{
	struct net net = {0};

	if (safetensors_read("tests/golden/resnet3d.safetensors", &golden)) {
		check_report(false, "golden numbers", "%s", error_message());
		return check_summary();
	}
	if (read_frames())
		check_skip("training on real frames", error_message());
	else if (check(net_open(&net) == STATUS_OK, "a network for real frames"))
		test_steps(&net);
	if (net.program)
		net_close(&net);
	safetensors_release(&golden);
	return check_summary();
}
