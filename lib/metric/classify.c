#include "metric/classify.h"

#include <math.h>
#include <stdbool.h>

static float largest(const float *value, size_t count)
{
	float most = -INFINITY;

	for (size_t i = 0; i < count; i++)
		most = value[i] > most ? value[i] : most;
	return most;
}

void classify_softmax(const float *logit, size_t classes, float *probability)
{
	float most = largest(logit, classes);
	double sum = 0;

	for (size_t i = 0; i < classes; i++) {
		probability[i] = expf(logit[i] - most);
		sum += (double)probability[i];
	}
	for (size_t i = 0; i < classes; i++)
		probability[i] = (float)((double)probability[i] / sum);
}

void classify_mean(const float *row, size_t rows, size_t classes, float *mean)
{
	for (size_t i = 0; i < classes; i++) {
		float sum = 0;

		for (size_t r = 0; r < rows; r++)
			sum += row[r * classes + i];
		mean[i] = sum / (float)rows;
	}
}

size_t classify_rank(const float *value, size_t classes, size_t truth)
{
	size_t before = 0;

	for (size_t i = 0; i < classes; i++)
		before += value[i] > value[truth] || (value[i] == value[truth] && i < truth);
	return before;
}

double classify_loss(const float *logit, size_t classes, size_t truth)
{
	double most = (double)largest(logit, classes), sum = 0;

	for (size_t i = 0; i < classes; i++)
		sum += exp((double)logit[i] - most);
	return log(sum) + most - (double)logit[truth];
}

/* Whether class a comes before class b. */
static bool before(const float *value, size_t a, size_t b)
{
	return value[a] > value[b] || (value[a] == value[b] && a < b);
}

void classify_best(const float *value, size_t classes, size_t count, size_t *best)
{
	size_t have = 0;

	for (size_t i = 0; i < classes; i++) {
		size_t at = have;

		if (have == count && !before(value, i, best[count - 1]))
			continue;
		if (have < count)
			have++;
		else
			at = count - 1;
		for (; at > 0 && before(value, i, best[at - 1]); at--)
			best[at] = best[at - 1];
		best[at] = i;
	}
}
