/* The diffusion process. Single precision in the order of the original's (diffusers) operations, so that
 * values agree. */
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "model/diffusion.h"

/* ---- schedule ---- */

/* Cumulative product of 1 - beta; partial products in double, as the original's library does. */
static void cumulate(const float *beta, float *alpha_bar, int steps)
{
	double product = 1;

	for (int t = 0; t < steps; t++) {
		product *= (double)(1.0f - beta[t]);
		alpha_bar[t] = (float)product;
	}
}

/* Evenly spaced roots, squared; the second half is counted from the end. */
static void scaled_linear(const struct diffusion *diffusion, float *beta)
{
	int steps = diffusion->steps;
	float start = (float)sqrt(diffusion->beta_start), end = (float)sqrt(diffusion->beta_end);
	float step = (end - start) / (float)(steps - 1);

	for (int t = 0; t < steps; t++) {
		float root = t < steps / 2 ? start + step * (float)t : end - step * (float)(steps - 1 - t);

		beta[t] = root * root;
	}
}

/* Lin et al. 2024, algorithm 1: shifts and scales the roots of alpha-bar so that the last one is zero. */
static void rescale_zero_snr(float *beta, const float *alpha_bar, int steps)
{
	float first = sqrtf(alpha_bar[0]), last = sqrtf(alpha_bar[steps - 1]);
	float factor = first / (first - last), before = 1;

	for (int t = 0; t < steps; t++) {
		float root = (sqrtf(alpha_bar[t]) - last) * factor, square = root * root;

		beta[t] = 1.0f - (t == 0 ? square : square / before);
		before = square;
	}
}

int diffusion_init(struct diffusion *diffusion)
{
	float *beta = NULL;
	int steps = diffusion->steps;

	diffusion->alpha_bar = NULL;
	if (steps < 2 || !(diffusion->beta_start > 0 && diffusion->beta_start < 1) ||
		!(diffusion->beta_end > 0 && diffusion->beta_end < 1))
		return error_set(STATUS_CONFIG,
			"diffusion: at least 2 timesteps and betas between 0 and 1 are needed");
	if (diffusion->zero_snr && diffusion->prediction == PREDICTION_EPSILON)
		return error_set(STATUS_CONFIG, "diffusion.prediction = epsilon does not go with "
						"diffusion.zero_snr; take v or sample");
	beta = memory_new((size_t)steps, sizeof(*beta));
	diffusion->alpha_bar = memory_new((size_t)steps, sizeof(*diffusion->alpha_bar));
	if (!beta || !diffusion->alpha_bar) {
		free(beta);
		diffusion_release(diffusion);
		return error_status();
	}
	scaled_linear(diffusion, beta);
	cumulate(beta, diffusion->alpha_bar, steps);
	if (diffusion->zero_snr) {
		rescale_zero_snr(beta, diffusion->alpha_bar, steps);
		cumulate(beta, diffusion->alpha_bar, steps);
	}
	free(beta);
	return STATUS_OK;
}

void diffusion_release(struct diffusion *diffusion)
{
	free(diffusion->alpha_bar);
	diffusion->alpha_bar = NULL;
}

/* ---- training ---- */

void diffusion_add_noise(const struct diffusion *diffusion, int t, const float *clean, const float *noise,
	float *noisy, float *target, size_t count)
{
	float signal = sqrtf(diffusion->alpha_bar[t]), sigma = sqrtf(1.0f - diffusion->alpha_bar[t]);

	for (size_t i = 0; i < count; i++) {
		float x = clean[i], e = noise[i];

		noisy[i] = signal * x + sigma * e;
		switch (diffusion->prediction) {
		case PREDICTION_V:
			target[i] = signal * e - sigma * x;
			break;
		case PREDICTION_EPSILON:
			target[i] = e;
			break;
		case PREDICTION_SAMPLE:
			target[i] = x;
			break;
		}
	}
}

/* ---- sampling ---- */

/* Descending from steps by steps/n; the increment is rounded as the original's arange does, which can give n
 * + 1 entries. */
static int trailing_timesteps(int steps, int n, int *list)
{
	double ratio = (double)steps / n, increment = ((double)steps - ratio) - (double)steps;
	int count = (int)ceil((double)steps / ratio);

	for (int k = 0; k < count; k++)
		list[k] = (int)rint((double)steps + k * increment) - 1;
	return count;
}

int diffusion_timesteps(const struct diffusion *diffusion, int n, int *list)
{
	int steps = diffusion->steps;

	if (n < 1 || n > steps) {
		error_set(STATUS_CONFIG, "%d sampling steps on a schedule of %d timesteps", n, steps);
		return 0;
	}
	switch (diffusion->spacing) {
	case SPACING_TRAILING:
		return trailing_timesteps(steps, n, list);
	case SPACING_LEADING:
		/* The last one would be behind the schedule, where the original reads past its end. */
		if ((n - 1) * (steps / n) + 1 >= steps) {
			error_set(STATUS_CONFIG,
				"%d sampling steps of spacing leading need more than %d timesteps", n, steps);
			return 0;
		}
		for (int k = 0; k < n; k++)
			list[n - 1 - k] = k * (steps / n) + 1;
		return n;
	case SPACING_LINSPACE:
		for (int k = 0; k < n; k++)
			list[n - 1 - k] = n == 1 ? 0 : (int)rint(k * ((double)(steps - 1) / (n - 1)));
		return n;
	}
	return 0;
}

void diffusion_ddim_step(
	const struct diffusion *diffusion, int n, int t, const float *prediction, float *x, size_t count)
{
	int steps = diffusion->steps, previous = t - steps / n;
	float alpha = diffusion->alpha_bar[t < 0 ? t + steps : t];
	float final = diffusion->final_alpha_one ? 1.0f : diffusion->alpha_bar[0];
	float alpha_previous = previous >= 0 ? diffusion->alpha_bar[previous] : final;
	float signal = sqrtf(alpha), sigma = sqrtf(1.0f - alpha);
	float signal_previous = sqrtf(alpha_previous), sigma_previous = sqrtf(1.0f - alpha_previous);

	for (size_t i = 0; i < count; i++) {
		float p = prediction[i], clean = p, noise = p;

		switch (diffusion->prediction) {
		case PREDICTION_V:
			clean = signal * x[i] - sigma * p;
			noise = signal * p + sigma * x[i];
			break;
		case PREDICTION_EPSILON:
			clean = (x[i] - sigma * p) / signal;
			break;
		case PREDICTION_SAMPLE:
			noise = (x[i] - signal * p) / sigma;
			break;
		}
		x[i] = signal_previous * clean + sigma_previous * noise;
	}
}

/* ---- configuration file ---- */

static const char *prediction_name(enum diffusion_prediction prediction)
{
	static const char *const names[] = {[PREDICTION_V] = "v_prediction",
		[PREDICTION_EPSILON] = "epsilon",
		[PREDICTION_SAMPLE] = "sample"};

	return names[prediction];
}

static const char *spacing_name(enum diffusion_spacing spacing)
{
	static const char *const names[] = {[SPACING_TRAILING] = "trailing",
		[SPACING_LEADING] = "leading",
		[SPACING_LINSPACE] = "linspace"};

	return names[spacing];
}

int diffusion_config_json(const struct diffusion *diffusion, struct text *out)
{
	text_add(out, "{\n  \"_class_name\": \"DDIMScheduler\",\n");
	text_add(out, "  \"beta_end\": ");
	text_number(out, diffusion->beta_end);
	text_add(out, ",\n  \"beta_schedule\": \"scaled_linear\",\n  \"beta_start\": ");
	text_number(out, diffusion->beta_start);
	text_add(out, ",\n  \"clip_sample\": false,\n  \"clip_sample_range\": 1.0,\n");
	text_add(out, "  \"dynamic_thresholding_ratio\": 0.995,\n");
	text_format(out, "  \"num_train_timesteps\": %d,\n", diffusion->steps);
	text_format(out, "  \"prediction_type\": \"%s\",\n", prediction_name(diffusion->prediction));
	text_format(out, "  \"rescale_betas_zero_snr\": %s,\n", diffusion->zero_snr ? "true" : "false");
	text_add(out, "  \"sample_max_value\": 1.0,\n");
	text_format(out, "  \"set_alpha_to_one\": %s,\n", diffusion->final_alpha_one ? "true" : "false");
	text_add(out, "  \"skip_prk_steps\": true,\n  \"steps_offset\": 1,\n  \"thresholding\": false,\n");
	text_format(out, "  \"timestep_spacing\": \"%s\",\n", spacing_name(diffusion->spacing));
	text_add(out, "  \"trained_betas\": null\n}\n");
	return text_check(out);
}
