/*
 * One curve of a log of any length in bounded memory: values by step in at most SERIES_BINS bins of equal width, a power of two
 * of steps that grows as the log does. A bin keeps the smallest and the largest of its values and their mean, so that nothing
 * that stands out is lost; while there are fewer steps than bins, each value has one of its own.
 */
#ifndef NIGHTSHIFT_REPORT_SERIES_H
#define NIGHTSHIFT_REPORT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

enum { SERIES_BINS = 512 };

struct series_bin {
	int64_t count;      /* finite values */
	int64_t bad;        /* others */
	double first, last; /* least and greatest step */
	double sum, low, high;
};
struct series {
	struct series_bin bin[SERIES_BINS];
	double width;        /* 0: nothing was added */
	int64_t count, bad;
	double low, high;    /* of all finite values */
	double first, last;  /* steps */
	double latest;       /* the value added last */
	double latest_step;
};
/* Steps below 0 and beyond 2^50 are passed over. Any order. */
void series_add(struct series *series, double step, double value);
/* Mean of a bin and of its neighbours up to `reach` away; bins without finite values count nothing. */
double series_smooth(const struct series *series, int bin, int reach);

#endif
