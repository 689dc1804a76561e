/* A chart: curves over steps as inline SVG, with axes, a legend, the places where shifts began, and values under the pointer. */
#ifndef NIGHTSHIFT_REPORT_CHART_H
#define NIGHTSHIFT_REPORT_CHART_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "report/series.h"

enum { CHART_LINES = 24 };
enum chart_unit { CHART_NUMBER, CHART_SECONDS, CHART_BYTES };

struct chart_line {
	const struct series *series;
	const char *name;
	int colour; /* 0 to 7 */
	bool dashed;
};
struct chart_mark { /* a shift that began */
	int64_t shift, step;
};
struct chart {
	const char *title, *unit_name; /* unit_name: "samples/s", "" */
	enum chart_unit unit;
	bool may_be_logarithmic; /* where all is positive and spans more than a factor of 20 */
	bool from_zero;          /* the axis begins at 0 */
	bool cut_peaks;          /* the axis ends above most of the first line's means; higher values are told */
	bool smooth;             /* a running mean before the values of a noisy curve */
	bool plain;              /* one line a curve, no bands: several runs in one chart */
	struct chart_line line[CHART_LINES];
	int lines;
	const struct chart_mark *mark;
	size_t marks;
};
/* Appends <figure>...</figure>; nothing where no line has a value. */
void chart_write(const struct chart *chart, struct text *page);

#endif
