#include "report/series.h"

#include <math.h>

static void merge(struct series_bin *into, const struct series_bin *from)
{
	if (!from->count && !from->bad)
		return;
	if (!into->count && !into->bad) {
		*into = *from;
		return;
	}
	into->first = fmin(into->first, from->first);
	into->last = fmax(into->last, from->last);
	into->low = fmin(into->low, from->low);
	into->high = fmax(into->high, from->high);
	into->sum += from->sum;
	into->count += from->count;
	into->bad += from->bad;
}

static void widen(struct series *series)
{
	for (int i = 0; i < SERIES_BINS; i++) {
		struct series_bin bin = series->bin[i];

		series->bin[i] = (struct series_bin){0};
		merge(&series->bin[i / 2], &bin);
	}
	series->width *= 2;
}

void series_add(struct series *series, double step, double value)
{
	bool finite = isfinite(value);
	struct series_bin one = {.count = finite, .bad = !finite, .first = step, .last = step};

	if (!(step >= 0 && step <= 0x1p50))
		return;
	if (series->width == 0) {
		series->width = 1;
		series->low = INFINITY;
		series->high = -INFINITY;
		series->first = series->last = step;
	}
	while (step / series->width >= SERIES_BINS)
		widen(series);
	one.low = finite ? value : INFINITY;
	one.high = finite ? value : -INFINITY;
	one.sum = finite ? value : 0;
	merge(&series->bin[(int)(step / series->width)], &one);
	series->count += one.count;
	series->bad += one.bad;
	series->low = fmin(series->low, one.low);
	series->high = fmax(series->high, one.high);
	series->first = fmin(series->first, step);
	series->last = fmax(series->last, step);
	series->latest = value;
	series->latest_step = step;
}

double series_smooth(const struct series *series, int bin, int reach)
{
	double sum = 0;
	int64_t count = 0;

	for (int i = bin - reach; i <= bin + reach; i++)
		if (i >= 0 && i < SERIES_BINS) {
			sum += series->bin[i].sum;
			count += series->bin[i].count;
		}
	return count ? sum / (double)count : NAN;
}
