/* Scores of classes: from a network's outputs to probabilities, ranks and tables (spec/resnets3d.md sections 2.2, 6). */
#ifndef NIGHTSHIFT_METRIC_CLASSIFY_H
#define NIGHTSHIFT_METRIC_CLASSIFY_H

#include <stddef.h>
#include <stdint.h>

/* Softmax in float32, the largest logit taken off first. `probability` may be `logit`. */
void classify_softmax(const float *logit, size_t classes, float *probability);
/* Mean over rows [rows, classes] in float32, added in their order. */
void classify_mean(const float *row, size_t rows, size_t classes, float *mean);
/* How many classes come before `truth`: those with a larger value, and of equal ones the lower ones. */
size_t classify_rank(const float *value, size_t classes, size_t truth);
/* -log softmax(logit)[truth], in double. */
double classify_loss(const float *logit, size_t classes, size_t truth);
/* The `count` best classes, best first, of equal ones the lower first; count <= classes. */
void classify_best(const float *value, size_t classes, size_t count, size_t *best);

#endif
