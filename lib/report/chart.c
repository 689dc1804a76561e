#include "report/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"

enum {
	WIDTH = 460,
	HEIGHT = 200,
	LEFT = 50,
	RIGHT = 442,
	TOP = 8,
	BOTTOM = 176,
	MARKS_SHOWN = 60,
	SMOOTH_BINS = 64
};

struct axis {
	double low, high; /* of what is shown; logarithms to base 10 where it is logarithmic */
	bool logarithmic;
	double unit; /* what the labels count: 1e-3 for ms */
	const char *unit_name;
	double step; /* between ticks of a linear axis, in units */
	double peak; /* not 0: there are values above it, up to this one */
};
struct frame {
	const struct chart *chart;
	struct text *page;
	struct axis x, y;
};

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten: about `count` steps in `span`. */
static double nice_step(double span, int count)
{
	double rough = span / count, power = pow(10, floor(log10(rough))), rest = rough / power;

	return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

static void choose_unit(const struct chart *chart, double most, struct axis *axis)
{
	static const struct {
		double unit;
		const char *name;
	} seconds[] = {{3600, "h"}, {60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}},
	  bytes[] = {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "bytes"}};
	int i = 0;

	axis->unit = 1;
	axis->unit_name = chart->unit_name;
	if (chart->unit == CHART_NUMBER)
		return;
	while (i < 4 && most < 1.5 * (chart->unit == CHART_SECONDS ? seconds[i].unit : bytes[i].unit))
		i++;
	axis->unit = chart->unit == CHART_SECONDS ? seconds[i].unit : bytes[i].unit;
	axis->unit_name = chart->unit == CHART_SECONDS ? seconds[i].name : bytes[i].name;
}

static void find_range(const struct chart *chart, double *low, double *high)
{
	*low = INFINITY;
	*high = -INFINITY;
	for (int k = 0; k < chart->lines; k++)
		if (chart->line[k].series->count) {
			*low = fmin(*low, chart->line[k].series->low);
			*high = fmax(*high, chart->line[k].series->high);
		}
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A third above what all but a fiftieth of the means reach. */
static double usual_height(const struct series *series)
{
	double mean[SERIES_BINS];
	int count = 0;

	for (int i = 0; i < SERIES_BINS; i++)
		if (series->bin[i].count)
			mean[count++] = series->bin[i].sum / (double)series->bin[i].count;
	qsort(mean, (size_t)count, sizeof *mean, compare_numbers);
	return count ? 1.33 * mean[count - 1 - count / 50] : INFINITY;
}

static void make_y_axis(const struct chart *chart, struct axis *axis)
{
	double low, high, margin;

	find_range(chart, &low, &high);
	if (chart->cut_peaks && usual_height(chart->line[0].series) < high &&
		usual_height(chart->line[0].series) > low)
		axis->peak = high;
	if (axis->peak > 0)
		high = usual_height(chart->line[0].series);
	choose_unit(chart, fmax(fabs(low), fabs(high)), axis);
	axis->logarithmic = chart->may_be_logarithmic && low > 0 && high > 20 * low;
	if (axis->logarithmic) {
		axis->low = log10(low / axis->unit);
		axis->high = log10(high / axis->unit);
		margin = 0.04 * (axis->high - axis->low);
	} else {
		axis->low = low / axis->unit;
		axis->high = high / axis->unit;
		if (chart->from_zero && axis->low > 0)
			axis->low = 0;
		margin = 0.05 * (axis->high - axis->low);
		/* One value alone, or so near to each other that digits end. */
		if (!(margin > 1e-9 * fmax(fabs(axis->low), fabs(axis->high))))
			margin = fmax(0.1 * fabs(axis->high), 1e-12);
	}
	axis->high += margin;
	if (axis->logarithmic || axis->low != 0)
		axis->low -= margin;
	axis->step = nice_step(axis->high - axis->low, 5);
}

static void make_x_axis(const struct chart *chart, struct axis *axis)
{
	axis->low = INFINITY;
	axis->high = -INFINITY;
	axis->unit = 1;
	for (int k = 0; k < chart->lines; k++)
		if (chart->line[k].series->width > 0) {
			axis->low = fmin(axis->low, chart->line[k].series->first);
			axis->high = fmax(axis->high, chart->line[k].series->last);
		}
	if (axis->low <= 0.1 * axis->high)
		axis->low = 0;
	if (axis->high <= axis->low)
		axis->high = axis->low + 1;
	axis->step = fmax(1, nice_step(axis->high - axis->low, 5));
}

static double place_x(const struct frame *frame, double step)
{
	return LEFT + (RIGHT - LEFT) * (step - frame->x.low) / (frame->x.high - frame->x.low);
}

static double place_y(const struct frame *frame, double value)
{
	double at = value / frame->y.unit;

	if (frame->y.logarithmic)
		at = log10(at);
	at = (at - frame->y.low) / (frame->y.high - frame->y.low);
	return BOTTOM - (BOTTOM - TOP) * fmin(fmax(at, 0), 1);
}

/* A tick's number in as few letters as tell it from its neighbours, `step` away. */
static void add_label(struct text *page, double value, double step)
{
	static const struct {
		double unit;
		const char *letter;
	} units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
	int i = 0, digits = 0;

	if (fabs(value) < 1e-12 * step || value == 0) {
		text_add(page, "0");
		return;
	}
	if (step < 1e-4) {
		text_format(page, "%.*e", (int)fmin(3, ceil(log10(fabs(value) / step) - 0.01)), value);
		return;
	}
	while (units[i].unit > 1 && fabs(value) < units[i].unit * (units[i].unit == 1e3 ? 10 : 1))
		i++;
	while (digits < 6 && fabs(step / units[i].unit * pow(10, digits) -
				     rint(step / units[i].unit * pow(10, digits))) > 1e-6)
		digits++;
	text_format(page, "%.*f%s", digits, value / units[i].unit, units[i].letter);
}

static void add_y_tick(struct frame *frame, double value, double step)
{
	double y = place_y(frame, value * frame->y.unit);

	text_format(frame->page,
		"<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
		LEFT, y, RIGHT, LEFT - 7, y + 4);
	add_label(frame->page, value, step);
	text_add(frame->page, "</text>\n");
}

/* Powers of ten, with 2 and 5 between them where there are few; on more than eight decades every second or third. */
static void add_logarithmic_ticks(struct frame *frame)
{
	static const double within[] = {1, 2, 5};
	double decades = frame->y.high - frame->y.low;
	int parts = decades < 3 ? 3 : 1, stride = decades > 8 ? (int)ceil(decades / 8) : 1;

	for (int power = (int)floor(frame->y.low); power <= frame->y.high; power++)
		for (int i = 0; i < parts; i++) {
			double value = within[i] * pow(10, power), at = log10(value);

			if (at >= frame->y.low && at <= frame->y.high && power % stride == 0)
				add_y_tick(frame, value, value);
		}
}

static void add_axes(struct frame *frame)
{
	const struct axis *x = &frame->x, *y = &frame->y;

	if (y->logarithmic)
		add_logarithmic_ticks(frame);
	for (double i = ceil(y->low / y->step); !y->logarithmic && i * y->step <= y->high; i++)
		add_y_tick(frame, i * y->step, y->step);
	for (double i = ceil(x->low / x->step); i * x->step <= x->high; i++) {
		double at = place_x(frame, i * x->step);

		text_format(frame->page,
			"<path class=\"axis\" d=\"M%.1f %dv4\"/><text x=\"%.1f\" y=\"%d\" "
			"text-anchor=\"middle\">",
			at, BOTTOM, at, BOTTOM + 18);
		add_label(frame->page, i * x->step, x->step);
		text_add(frame->page, "</text>\n");
	}
	text_format(frame->page, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
}

/* Where shifts after the first began. */
static void add_marks(struct frame *frame)
{
	const struct chart *chart = frame->chart;

	for (size_t i = chart->marks > MARKS_SHOWN ? chart->marks - MARKS_SHOWN : 0; i < chart->marks; i++) {
		double step = (double)chart->mark[i].step;

		if (step > frame->x.low && step <= frame->x.high)
			text_format(frame->page,
				"<path class=\"shift\" d=\"M%.1f %dV%d\"><title>shift %lld began after step "
				"%lld</title></path>\n",
				place_x(frame, step), TOP, BOTTOM, (long long)chart->mark[i].shift,
				(long long)chart->mark[i].step);
	}
}

/* ---- curves ---- */

static double middle(const struct series_bin *bin)
{
	return (bin->first + bin->last) / 2;
}

/* From each value to the next; bins in which nothing is finite part the line. */
static void add_points(struct frame *frame, const struct series *series, int reach)
{
	bool pen = false;

	text_add(frame->page, "d=\"");
	for (int i = 0; i < SERIES_BINS; i++) {
		const struct series_bin *bin = &series->bin[i];

		if (bin->count) {
			double value =
				reach ? series_smooth(series, i, reach) : bin->sum / (double)bin->count;

			text_format(frame->page, "%s%.1f %.1f", pen ? "L" : "M", place_x(frame, middle(bin)),
				place_y(frame, value));
			/* A value alone is a dot. */
			if (!pen)
				text_add(frame->page, "h.01");
		}
		pen = bin->count || (pen && !bin->bad);
	}
	text_add(frame->page, "\"");
}

/* The least and greatest value of each bin, where bins hold several. */
static void add_band(struct frame *frame, const struct chart_line *line)
{
	const struct series *series = line->series;
	bool first = true;

	text_format(frame->page, "<path class=\"band f%d\" d=\"", line->colour);
	for (int i = 0; i < SERIES_BINS; i++)
		if (series->bin[i].count) {
			text_format(frame->page, "%s%.1f %.1f", first ? "M" : "L",
				place_x(frame, middle(&series->bin[i])), place_y(frame, series->bin[i].high));
			first = false;
		}
	for (int i = SERIES_BINS - 1; i >= 0; i--)
		if (series->bin[i].count)
			text_format(frame->page, "L%.1f %.1f", place_x(frame, middle(&series->bin[i])),
				place_y(frame, series->bin[i].low));
	text_add(frame->page, "Z\"/>\n");
}

/* For the pointer: steps, and what to say at each. */
static void add_values(struct frame *frame, const struct chart_line *line)
{
	const struct series *series = line->series;
	const char *between = "";
	char buffer[32];

	text_add(frame->page, " data-name=\"");
	html_text(frame->page, line->name);
	text_add(frame->page, "\" data-x=\"");
	for (int i = 0; i < SERIES_BINS; i++)
		if (series->bin[i].count) {
			text_format(frame->page, "%s%.0f", between, floor(middle(&series->bin[i])));
			between = " ";
		}
	text_add(frame->page, "\" data-y=\"");
	between = "";
	for (int i = 0; i < SERIES_BINS; i++) {
		const struct series_bin *bin = &series->bin[i];

		if (!bin->count)
			continue;
		text_format(frame->page, "%s%s", between, number_text(bin->low / frame->y.unit, buffer));
		if (bin->low != bin->high)
			text_format(frame->page, "_%s", number_text(bin->high / frame->y.unit, buffer));
		between = " ";
	}
	text_add(frame->page, "\"");
}

/* Where values were not finite: on the axis. */
static void add_bad(struct frame *frame, const struct series *series)
{
	for (int i = 0; series->bad && i < SERIES_BINS; i++)
		if (series->bin[i].bad)
			text_format(frame->page,
				"<path class=\"bad\" d=\"M%.1f %dl6 6m0 -6l-6 6\"><title>not "
				"finite</title></path>\n",
				place_x(frame, middle(&series->bin[i])) - 3, BOTTOM - 3);
}

static int bins_used(const struct series *series)
{
	int used = 0;

	for (int i = 0; i < SERIES_BINS; i++)
		used += series->bin[i].count > 0;
	return used;
}

/* Values with their band; of a noisy curve the running mean above them. Several runs in one chart: one line each. */
static void add_line(struct frame *frame, const struct chart_line *line)
{
	bool plain = frame->chart->plain;
	int used = bins_used(line->series),
	    reach = frame->chart->smooth && used > SMOOTH_BINS ? used / 50 : 0;
	const char *dash = line->dashed ? " dash" : "";

	if (used) {
		if (!plain && line->series->width > 1 && line->series->count > used)
			add_band(frame, line);
		text_format(frame->page, "<path class=\"line k%d%s%s\"", line->colour,
			reach && !plain ? " faint" : "", dash);
		add_values(frame, line);
		text_add(frame->page, " ");
		add_points(frame, line->series, plain ? reach : 0);
		text_add(frame->page, "/>\n");
	}
	if (used && reach && !plain) {
		text_format(frame->page, "<path class=\"line k%d%s\" ", line->colour, dash);
		add_points(frame, line->series, reach);
		text_add(frame->page, "/>\n");
	}
	add_bad(frame, line->series);
}

/* ---- the figure ---- */

static void add_caption(struct frame *frame)
{
	const struct chart *chart = frame->chart;
	char buffer[32];
	int64_t bad = 0;

	text_add(frame->page, "<figcaption><span>");
	html_tag(frame->page, "b", NULL, chart->title);
	if (*frame->y.unit_name)
		text_format(frame->page, " %s", frame->y.unit_name);
	if (frame->y.logarithmic)
		text_add(frame->page, ", logarithmic");
	if (frame->y.peak > 0)
		text_format(frame->page, ", peaks to %s", number_text(frame->y.peak / frame->y.unit, buffer));
	for (int k = 0; k < chart->lines; k++)
		bad += chart->line[k].series->bad;
	if (bad)
		text_format(frame->page, " <span class=\"bad-text\">%lld not finite</span>", (long long)bad);
	text_add(frame->page, "</span><span>");
	for (int k = 0; chart->lines > 1 && k < chart->lines; k++) {
		text_format(frame->page, "<span class=\"key\"><i class=\"t%d%s\"></i>", chart->line[k].colour,
			chart->line[k].dashed ? " dash" : "");
		html_text(frame->page, chart->line[k].name);
		text_add(frame->page, "</span>");
	}
	text_add(frame->page, "</span></figcaption>\n");
}

void chart_write(const struct chart *chart, struct text *page)
{
	struct frame frame = {.chart = chart, .page = page};
	int64_t count = 0;

	for (int k = 0; k < chart->lines; k++)
		count += chart->line[k].series->count;
	if (!count)
		return;
	make_x_axis(chart, &frame.x);
	make_y_axis(chart, &frame.y);
	text_add(page, "<figure>");
	add_caption(&frame);
	text_format(page,
		"<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" data-range=\"%.17g %.17g %d %d %d\" "
		"aria-label=\"",
		WIDTH, HEIGHT, frame.x.low, frame.x.high, LEFT, RIGHT, WIDTH);
	html_text(page, chart->title);
	text_add(page, " over steps\">\n");
	add_axes(&frame);
	add_marks(&frame);
	for (int k = 0; k < chart->lines; k++)
		add_line(&frame, &chart->line[k]);
	text_format(page,
		"<line class=\"hair\" x1=\"0\" x2=\"0\" y1=\"%d\" "
		"y2=\"%d\"/></svg><output></output></figure>\n",
		TOP, BOTTOM);
}
