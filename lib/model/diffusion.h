/*
 * The diffusion process: noise schedule, targets and the DDIM sampler (spec/marigold.md sections 6.1, 6.2, 7.3).
 * Float32 where the original computes in float32.
 */
#ifndef NIGHTSHIFT_MODEL_DIFFUSION_H
#define NIGHTSHIFT_MODEL_DIFFUSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

enum diffusion_prediction { PREDICTION_V, PREDICTION_EPSILON, PREDICTION_SAMPLE };
enum diffusion_spacing { SPACING_TRAILING, SPACING_LEADING, SPACING_LINSPACE };

struct diffusion {
	int steps;                 /* T, 1000 */
	double beta_start, beta_end;
	bool zero_snr;             /* rescale to zero terminal SNR */
	enum diffusion_prediction prediction;
	enum diffusion_spacing spacing;
	bool final_alpha_one;      /* alpha-bar behind the last step: 1, or (original) alpha-bar of t = 0 */
	float *alpha_bar;          /* [steps], owned; filled by diffusion_init() */
};
/* Fills alpha_bar from the other members. Epsilon-prediction does not go with zero terminal SNR: at the last timestep
 * nothing of the sample is left to be found by subtraction. */
int diffusion_init(struct diffusion *diffusion);
void diffusion_release(struct diffusion *diffusion);
/* noisy = sqrt(ab_t) clean + sqrt(1-ab_t) noise; target by the prediction type; `count` elements of one sample. */
void diffusion_add_noise(const struct diffusion *diffusion, int t, const float *clean, const float *noise, float *noisy,
	float *target, size_t count);
/* Timesteps for n sampling steps into list (room for n + 1); returns how many (the original's rounding included). More
 * steps than the schedule has: 0 and a message. */
int diffusion_timesteps(const struct diffusion *diffusion, int n, int *list);
/* One DDIM step (eta 0) from timestep t with n sampling steps in all: x is replaced by the previous sample. */
void diffusion_ddim_step(const struct diffusion *diffusion, int n, int t, const float *prediction, float *x, size_t count);
/* diffusers' scheduler_config.json. */
int diffusion_config_json(const struct diffusion *diffusion, struct text *out);

#endif
