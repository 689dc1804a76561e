/*
 * Depth metrics and alignment (spec/marigold.md section 8), under the original names.
 *
 * Predictions and truth are rasters of `count` floats with a mask of bytes (not 0: valid). Every sum is taken in double
 * in a fixed order with + - * / and sqrt alone, so results are the same on every processor.
 */
#ifndef NIGHTSHIFT_METRIC_DEPTH_H
#define NIGHTSHIFT_METRIC_DEPTH_H

#include <stddef.h>
#include <stdint.h>

#define DEPTH_METRICS 10
extern const char *const depth_metric_names[DEPTH_METRICS]; /* abs_relative_difference first, order of 8.4 */

enum depth_align { DEPTH_ALIGN_NONE, DEPTH_ALIGN_LEAST_SQUARES, DEPTH_ALIGN_DISPARITY };
extern const char *const depth_align_names[3]; /* "none", "least-squares", "disparity" */
/* -1 for another word. */
int depth_align_find(const char *name);

/* Scale and shift of a prediction to the truth over mask (8.2); constant prediction: the minimum-norm solution.
 * STATUS_DATA when the mask is empty or a value under it is not finite. */
int depth_fit(const float *prediction, const float *truth, const uint8_t *mask, size_t count, double *scale, double *shift);
/* Aligned, clipped to [minimum, maximum] and to >= 1e-6, into `out` (may be `prediction`). DISPARITY fits 1 / truth where
 * the prediction is above 0. STATUS_DATA as depth_fit(), for every kind. */
int depth_align(enum depth_align kind, const float *prediction, const float *truth, const uint8_t *mask, size_t count,
	double minimum, double maximum, float *out);
/* The ten metrics over mask; sums in double, values in the original's formulas: ratios are compared in float32 as
 * there; the variance in silog_rmse is not allowed below 0 (rounding makes that nan in the original). Empty mask: all nan. */
void depth_metrics(const float *aligned, const float *truth, const uint8_t *mask, size_t count, double metrics[DEPTH_METRICS]);

#endif
