/* Diffusion process and sampler, latent codec, learning rates: against diffusers and PyTorch (golden/diffusion.py). */
#include <jansson.h>
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "file/safetensors.h"
#include "model/diffusion.h"
#include "model/latent.h"
#include "train/schedule.h"

#define STEPS 1000

static struct safetensors golden;

static const void *golden_data(const char *name, size_t bytes)
{
	const struct safetensor *tensor = safetensors_find(&golden, name);

	if (tensor && tensor->bytes == bytes)
		return tensor->data;
	check_report(false, name, "the golden file has no such tensor of %zu bytes", bytes);
	return NULL;
}

static int open_process(struct diffusion *process, bool zero_snr, enum diffusion_prediction prediction,
	enum diffusion_spacing spacing, bool one)
{
	*process = (struct diffusion){.steps = STEPS,
		.beta_start = 0.00085,
		.beta_end = 0.012,
		.zero_snr = zero_snr,
		.prediction = prediction,
		.spacing = spacing,
		.final_alpha_one = one};
	return diffusion_init(process);
}

static float wave(double phase, int j)
{
	return (float)sin(phase + 0.61 * j);
}

/* ---- schedule ---- */

/* Largest error relative to the value, over timesteps first .. end - 1. */
static double schedule_error(const float *values, const float *expected, int first, int end)
{
	double worst = 0;

	for (int t = first; t < end; t++)
		worst = fmax(worst, fabs((double)values[t] / (double)expected[t] - 1));
	return worst;
}

static void test_schedule(void)
{
	struct diffusion plain, zero;
	const float *expected = golden_data("alpha_bar.plain", STEPS * sizeof(float));
	double error;

	if (open_process(&plain, false, PREDICTION_V, SPACING_LEADING, false) || !expected)
		return;
	error = schedule_error(plain.alpha_bar, expected, 0, STEPS);
	check_report(error < 1e-6, "plain schedule is diffusers'", "relative error %.3g", error);
	check_close(plain.alpha_bar[999], 0.004660099, 5e-9, "its last value in exact arithmetic");
	expected = golden_data("alpha_bar.zero", STEPS * sizeof(float));
	if (open_process(&zero, true, PREDICTION_V, SPACING_TRAILING, false) || !expected)
		return;
	error = schedule_error(zero.alpha_bar, expected, 0, 990);
	check_report(
		error < 3e-6, "schedule of zero terminal SNR is diffusers'", "relative error %.3g", error);
	error = schedule_error(zero.alpha_bar, expected, 990, 999);
	check_report(error < 4e-5, "its end, where a subtraction cancels", "relative error %.3g", error);
	check(zero.alpha_bar[999] == 0, "its last value is zero");
	check_close(zero.alpha_bar[499], 0.24235917, 1e-6, "its middle in exact arithmetic");
	diffusion_release(&plain);
	diffusion_release(&zero);
}

static void test_refusals(void)
{
	int list[STEPS + 2];
	struct diffusion process = {.steps = 1, .beta_start = 0.1, .beta_end = 0.2};

	check_status(diffusion_init(&process), STATUS_CONFIG, "a schedule of one timestep is refused");
	process = (struct diffusion){.steps = 10, .beta_start = 0, .beta_end = 0.2};
	check_status(diffusion_init(&process), STATUS_CONFIG, "a beta of 0 is refused");
	process = (struct diffusion){.steps = 10, .beta_start = 0.1, .beta_end = 1};
	check_status(diffusion_init(&process), STATUS_CONFIG, "a beta of 1 is refused");
	check_status(open_process(&process, true, PREDICTION_EPSILON, SPACING_TRAILING, true), STATUS_CONFIG,
		"epsilon-prediction with zero terminal SNR is refused");
	open_process(&process, true, PREDICTION_V, SPACING_TRAILING, true);
	check(!diffusion_timesteps(&process, 0, list) && !diffusion_timesteps(&process, STEPS + 1, list),
		"more sampling steps than timesteps are refused");
	process.spacing = SPACING_LEADING;
	check(!diffusion_timesteps(&process, STEPS, list) && diffusion_timesteps(&process, STEPS / 2, list),
		"leading steps that begin behind the schedule are refused");
	diffusion_release(&process);
}

/* ---- training ---- */

static void test_noise(void)
{
	enum { ROWS = 7, COUNT = 16 };
	struct diffusion process;
	const int64_t *t = golden_data("noise.t", ROWS * sizeof(int64_t));
	const float *noisy = golden_data("noise.noisy", ROWS * COUNT * sizeof(float));
	const float *velocity = golden_data("noise.velocity", ROWS * COUNT * sizeof(float));
	float clean[COUNT], noise[COUNT], x[ROWS * COUNT], v[ROWS * COUNT], same[COUNT];

	if (!t || !noisy || !velocity || open_process(&process, true, PREDICTION_V, SPACING_TRAILING, false))
		return;
	for (int j = 0; j < COUNT; j++) {
		clean[j] = wave(0.5, j);
		noise[j] = wave(1.5, j);
	}
	for (int i = 0; i < ROWS; i++)
		diffusion_add_noise(&process, (int)t[i], clean, noise, x + i * COUNT, v + i * COUNT, COUNT);
	check_array(x, noisy, ROWS * COUNT, 1e-6, "noisy samples are diffusers'");
	check_array(v, velocity, ROWS * COUNT, 1e-6, "targets of v-prediction are diffusers'");
	process.prediction = PREDICTION_EPSILON;
	diffusion_add_noise(&process, 300, clean, noise, x, same, COUNT);
	check(!memcmp(same, noise, sizeof(same)), "the target of epsilon-prediction is the noise");
	process.prediction = PREDICTION_SAMPLE;
	diffusion_add_noise(&process, 300, clean, noise, x, same, COUNT);
	check(!memcmp(same, clean, sizeof(same)), "the target of sample-prediction is the clean sample");
	diffusion_release(&process);
}

/* ---- sampling ---- */

static void test_timesteps(void)
{
	static const char *const names[] = {"trailing", "leading", "linspace"};
	const int64_t *sums = golden_data("timesteps", (size_t)3 * STEPS * 2 * sizeof(int64_t));
	struct diffusion process;
	int list[STEPS + 1];
	char name[64];

	for (int spacing = 0; spacing < 3 && sums; spacing++) {
		int wrong = 0;

		if (open_process(&process, true, PREDICTION_V, (enum diffusion_spacing)spacing, false))
			return;
		/* diffusers lists timestep 1000 for 1000 leading steps, and then fails at the first of them. */
		for (int n = 1; n <= STEPS - (spacing == SPACING_LEADING); n++) {
			const int64_t *expected = sums + ((size_t)spacing * STEPS + (size_t)(n - 1)) * 2;
			int64_t sum = 0;
			int count = diffusion_timesteps(&process, n, list);

			for (int k = 0; k < count; k++)
				sum += (int64_t)(k + 1) * list[k];
			if (!wrong && (count != expected[0] || sum != expected[1]))
				wrong = n;
		}
		snprintf(name, sizeof(name), "timesteps, %s, of 1 to 1000 steps are diffusers'",
			names[spacing]);
		check_report(!wrong, name, "not those of %d steps", wrong);
		diffusion_release(&process);
	}
	if (open_process(&process, true, PREDICTION_V, SPACING_TRAILING, false))
		return;
	check(diffusion_timesteps(&process, 4, list) == 4 && list[0] == 999 && list[1] == 749 &&
			list[2] == 499 && list[3] == 249,
		"four trailing steps");
	check(diffusion_timesteps(&process, 61, list) == 62 && list[61] == -1,
		"61 trailing steps have 62 entries");
	diffusion_release(&process);
}

static void run_chain(const struct diffusion *process, int n, float *x, int count)
{
	int list[STEPS + 1], steps = diffusion_timesteps(process, n, list);
	float prediction[16];

	for (int j = 0; j < count; j++)
		x[j] = wave(1, j);
	for (int k = 0; k < steps; k++) {
		for (int j = 0; j < count; j++)
			prediction[j] = 0.25f * x[j] - 0.5f;
		diffusion_ddim_step(process, n, list[k], prediction, x, (size_t)count);
	}
}

static void test_chain(const char *name, bool zero_snr, enum diffusion_prediction prediction,
	enum diffusion_spacing spacing, bool one)
{
	enum { ROWS = 8, COUNT = 16 };
	struct diffusion process;
	const int64_t *n = golden_data("ddim.n", ROWS * sizeof(int64_t));
	const float *expected;
	float x[ROWS * COUNT];
	char full[64], what[128];

	snprintf(full, sizeof(full), "ddim.%s", name);
	expected = golden_data(full, sizeof(x));
	if (!n || !expected || open_process(&process, zero_snr, prediction, spacing, one))
		return;
	for (int i = 0; i < ROWS; i++)
		run_chain(&process, (int)n[i], x + i * COUNT, COUNT);
	snprintf(what, sizeof(what), "sampling %s is diffusers'", name);
	check_array(x, expected, ROWS * COUNT, 5e-6, what);
	diffusion_release(&process);
}

/* One element, by hand: start 1, network output 0.25 x - 0.5. */
static void test_scalar_chain(void)
{
	static const double expected[] = {1.028807, 1.051807, 1.055449, 1.004635};
	struct diffusion process;
	int list[5];
	float x = 1;

	if (open_process(&process, true, PREDICTION_V, SPACING_TRAILING, false))
		return;
	diffusion_timesteps(&process, 4, list);
	for (int k = 0; k < 4; k++) {
		float prediction = 0.25f * x - 0.5f;

		diffusion_ddim_step(&process, 4, list[k], &prediction, &x, 1);
		check_close((double)x, expected[k], 2e-6, "a chain of four steps");
	}
	diffusion_release(&process);
}

static void test_config_json(void)
{
	struct diffusion process;
	struct text text = {0}, other = {0};
	json_error_t error;
	json_t *mine, *theirs, *value;
	const char *key;

	if (open_process(&process, true, PREDICTION_V, SPACING_TRAILING, false))
		return;
	check_status(diffusion_config_json(&process, &text), 0, "scheduler_config.json is written");
	mine = json_loads(text.data ? text.data : "", 0, &error);
	theirs = json_load_file("tests/golden/diffusion.json", 0, &error);
	json_object_foreach(theirs, key, value)
	{
		if (!json_equal(value, json_object_get(mine, key)))
			text_format(&other, " %s", key);
	}
	check_report(mine && theirs && !other.length, "scheduler_config.json agrees with diffusers",
		"not in%s", other.data ? other.data : "");
	json_decref(mine);
	json_decref(theirs);
	text_release(&text);
	text_release(&other);
	diffusion_release(&process);
}

/* ---- codec ---- */

enum { PIXELS = 8 * 8 * 3, CHANNELS = 4 };

/* Columns of the encoder for one patch: latent of each unit image. */
static bool encode_units(const struct latent_codec *codec, float columns[PIXELS][CHANNELS])
{
	float image[PIXELS];

	for (int i = 0; i < PIXELS; i++) {
		memset(image, 0, sizeof(image));
		image[i] = 1;
		if (codec->encode(codec, image, 8, 8, columns[i]))
			return false;
	}
	return true;
}

static void test_codec_orthonormal(const struct latent_codec *codec)
{
	static const double scale[CHANNELS] = {7.442, 1.117, 1.092, 2.136};
	static float columns[PIXELS][CHANNELS];
	double worst = 0;

	if (!check(encode_units(codec, columns), "unit images are encoded"))
		return;
	for (int a = 0; a < CHANNELS; a++) {
		for (int b = 0; b < CHANNELS; b++) {
			double product = 0;

			for (int i = 0; i < PIXELS; i++)
				product +=
					(double)columns[i][a] * scale[a] * (double)columns[i][b] * scale[b];
			worst = fmax(worst, fabs(product - (a == b)));
		}
	}
	check_report(worst < 1e-6, "rows of the transform are orthonormal", "off by %.3g", worst);
	check_close(columns[0][0] * scale[0], 1 / (8 * sqrt(3)), 1e-8, "the first is the mean of luminance");
	check(columns[21][1] > columns[0][1] && columns[3 * 56][2] > columns[0][2],
		"then ramps along x and y");
	check_close(columns[5][3] * scale[3], -1 / (8 * sqrt(2)), 1e-8, "the last is red less blue");
}

static void test_codec_inverse(const struct latent_codec *codec)
{
	enum { HEIGHT = 16, WIDTH = 24, CELLS = HEIGHT * WIDTH / 64 };
	float latent[CELLS * CHANNELS], again[CELLS * CHANNELS], image[HEIGHT * WIDTH * 3],
		grey[HEIGHT * WIDTH * 3];
	double worst = 0;

	for (int i = 0; i < CELLS * CHANNELS; i++)
		latent[i] = wave(0.2, i);
	check(!codec->decode(codec, latent, HEIGHT, WIDTH, image) &&
			!codec->encode(codec, image, HEIGHT, WIDTH, again),
		"latents are decoded and encoded");
	check_array(again, latent, CELLS * CHANNELS, 1e-6, "encoding undoes decoding");
	/* a grey ramp is of the kind that the latents can hold */
	for (int i = 0; i < HEIGHT * WIDTH * 3; i++)
		grey[i] = 0.02f * (float)(i / 3 % WIDTH) - 0.03f * (float)(i / 3 / WIDTH);
	check(!codec->encode(codec, grey, HEIGHT, WIDTH, latent) &&
			!codec->decode(codec, latent, HEIGHT, WIDTH, image),
		"a ramp is encoded and decoded");
	check_array(image, grey, HEIGHT * WIDTH * 3, 1e-6, "decoding undoes the encoding of a ramp");
	/* the mean over the colours of a pixel, which is depth, does not depend on the colour channel */
	for (int i = 3; i < CELLS * CHANNELS; i += CHANNELS)
		latent[i] += 1;
	check(!codec->decode(codec, latent, HEIGHT, WIDTH, image), "a coloured ramp is decoded");
	for (int i = 0; i < HEIGHT * WIDTH * 3; i += 3)
		worst = fmax(worst, fabs((image[i] + image[i + 1] + image[i + 2]) / 3 - grey[i]));
	check_report(
		worst < 1e-6, "the mean of the colours is free of the colour channel", "off by %.3g", worst);
}

static void test_codec(void)
{
	const struct latent_codec *codec = latent_codec_find("patch");
	float image[9 * 8 * 3] = {0}, latent[8];

	if (!check(codec && codec->channels == CHANNELS && codec->factor == 8, "the patch codec is there"))
		return;
	check(!latent_codec_find("none") && error_status() == STATUS_CONFIG, "an unknown codec is named");
	check_status(codec->encode(codec, image, 9, 8, latent), STATUS_DATA,
		"a side that is no multiple of 8 is refused");
	test_codec_orthonormal(codec);
	test_codec_inverse(codec);
}

/* ---- learning rates ---- */

/* The published schedule: 100 steps of warm-up, then exponential to 0.01 at 25,000. */
static void test_published_rates(void)
{
	static const struct {
		int64_t n;
		double factor;
	} expected[] = {{0, 0}, {1, 0.01}, {50, 0.5}, {100, 1}, {101, 0.99981507}, {1000, 0.84666351},
		{5000, 0.40404125}, {10000, 0.16025784}, {18000, 0.03649631}, {20000, 0.02521195},
		{24999, 0.01000185}, {25000, 0.01}, {30000, 0.01}};
	const struct schedule schedule = {
		.kind = SCHEDULE_EXPONENTIAL, .warmup = 100, .total = 25000, .final_ratio = 0.01};
	double worst = 0;

	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		worst = fmax(worst, fabs(schedule_factor(&schedule, expected[i].n) - expected[i].factor));
	check_report(worst < 6e-9, "the published learning rates", "off by %.3g", worst);
}

static void test_rates(void)
{
	const struct schedule cosine = {
		.kind = SCHEDULE_COSINE, .warmup = 10, .total = 100, .final_ratio = 0};
	const struct schedule exponential = {
		.kind = SCHEDULE_EXPONENTIAL, .warmup = 0, .total = 80, .final_ratio = 0.05};
	const struct schedule constant = {
		.kind = SCHEDULE_CONSTANT, .warmup = 4, .total = 10, .final_ratio = 0.5};
	const struct schedule to_zero = {
		.kind = SCHEDULE_EXPONENTIAL, .warmup = 2, .total = 10, .final_ratio = 0};
	const double *expected = golden_data("rate.cosine", 101 * sizeof(double));
	double worst = 0;

	for (int64_t n = 0; n <= 100 && expected; n++)
		worst = fmax(worst, fabs(schedule_factor(&cosine, n) - expected[n]));
	check_report(worst < 1e-14, "cosine rates are diffusers'", "off by %.3g", worst);
	expected = golden_data("rate.exponential", 81 * sizeof(double));
	worst = 0;
	for (int64_t n = 0; n <= 80 && expected; n++)
		worst = fmax(worst, fabs(schedule_factor(&exponential, n) - expected[n]));
	check_report(worst < 1e-13, "exponential rates are PyTorch's", "off by %.3g", worst);
	check(schedule_factor(&constant, 1) == 0.25 && schedule_factor(&constant, 4) == 1 &&
			schedule_factor(&constant, 1000) == 1,
		"a constant rate with warm-up");
	check(schedule_factor(&to_zero, 2) == 1 && schedule_factor(&to_zero, 3) == 0 &&
			schedule_factor(&to_zero, 10) == 0,
		"an exponential to zero is zero");
	check(schedule_kind("cosine") == SCHEDULE_COSINE &&
			schedule_kind("exponential") == SCHEDULE_EXPONENTIAL &&
			schedule_kind("constant") == SCHEDULE_CONSTANT && schedule_kind("linear") == -1,
		"names of the schedules");
}

int main(void)
{
	if (!check_status(safetensors_read("tests/golden/diffusion.safetensors", &golden), 0,
		    "golden numbers are read"))
		return check_summary();
	test_schedule();
	test_refusals();
	test_noise();
	test_timesteps();
	test_chain("v_zero_trailing", true, PREDICTION_V, SPACING_TRAILING, false);
	test_chain("v_zero_one", true, PREDICTION_V, SPACING_TRAILING, true);
	test_chain("v_plain_leading", false, PREDICTION_V, SPACING_LEADING, false);
	test_chain("v_plain_linspace", false, PREDICTION_V, SPACING_LINSPACE, false);
	test_chain("epsilon_plain_leading", false, PREDICTION_EPSILON, SPACING_LEADING, false);
	test_chain("sample_zero_trailing", true, PREDICTION_SAMPLE, SPACING_TRAILING, false);
	test_scalar_chain();
	test_config_json();
	test_codec();
	test_published_rates();
	test_rates();
	safetensors_release(&golden);
	return check_summary();
}
