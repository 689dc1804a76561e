/* Which curves stand in which chart. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/page_parts.h"

enum { COLOURS = 8, ITEMS = 3, MARKS = 256, EPOCHS_SHOWN = 300 };

/* Charts with a name of their own; what else the logs hold gets one each. */
static const struct known_chart {
	const char *title, *unit_name;
	enum chart_unit unit;
	bool may_be_logarithmic, from_zero, cut_peaks, smooth;
	struct {
		enum record_log log;
		const char *column, *label;
	} item[ITEMS];
} known[] = {
	{"Loss", "", CHART_NUMBER, true, false, false, true,
		{{RECORD_STEP, "loss", "of a step"}, {RECORD_EPOCH, "loss", "mean of an epoch"},
			{RECORD_EPOCH, "val_loss", "validation"}}},
	{"Accuracy", "", CHART_NUMBER, false, false, false, true,
		{{RECORD_STEP, "accuracy", "of a step"}, {RECORD_EPOCH, "accuracy", "of an epoch"}}},
	{"Learning rate", "", CHART_NUMBER, true, false, false, false, {{RECORD_STEP, "lr", "rate"}}},
	{"Norm of the gradient", "", CHART_NUMBER, true, false, false, true,
		{{RECORD_STEP, "grad_norm", "norm"}}},
	{"Throughput", "samples/s", CHART_NUMBER, false, true, false, true,
		{{RECORD_TIME, "samples_s", "samples/s"}}},
	{"Time of a step", "", CHART_SECONDS, false, true, true, true,
		{{RECORD_TIME, "step_s", "step"}, {RECORD_TIME, "data_s", "waiting for data"},
			{RECORD_TIME, "exchange_s", "exchanging gradients"}}},
	{"Memory of the process", "", CHART_BYTES, false, true, false, false,
		{{RECORD_TIME, "rss_bytes", "memory"}}},
};
enum { KNOWN = sizeof known / sizeof *known };

struct builder {
	const struct record *records;
	size_t count;
	struct text *page;
	struct chart_mark mark[MARKS];
	size_t marks;
	struct names labels; /* what the lines of the chart at hand are called */
	int status;
};

static bool is_known(const char *column)
{
	for (int i = 0; i < KNOWN; i++)
		for (int k = 0; k < ITEMS && known[i].item[k].column; k++)
			if (strcmp(known[i].item[k].column, column) == 0)
				return true;
	return false;
}

/* Adds a line of run `run`; `label` tells it from others of the same run. */
static void add_line(struct builder *builder, struct chart *chart, size_t run, const char *label,
	const struct series *series)
{
	bool several = builder->count > 1;
	struct chart_line *line = &chart->line[chart->lines];
	struct text name = {0};
	bool again = false;

	if (!series || series->width == 0 || chart->lines == CHART_LINES || builder->status)
		return;
	for (int i = 0; several && i < chart->lines; i++)
		again = again || chart->line[i].colour == (int)(run % COLOURS);
	if (several)
		text_format(&name, "%s%s", builder->records[run].name, *label ? " " : "");
	text_add(&name, label);
	builder->status = text_check(&name);
	if (!builder->status)
		builder->status = names_add(&builder->labels, name.data);
	text_release(&name);
	if (builder->status)
		return;
	line->series = series;
	line->name = builder->labels.name[builder->labels.count - 1];
	line->colour = several ? (int)(run % COLOURS) : chart->lines % COLOURS;
	line->dashed = several ? again : chart->lines > 0 && series->count < chart->line[0].series->count;
	chart->lines++;
}

static void start_chart(struct builder *builder, struct chart *chart, const char *title)
{
	*chart = (struct chart){.title = title, .unit_name = "", .plain = builder->count > 1};
	if (builder->count == 1) {
		chart->mark = builder->mark;
		chart->marks = builder->marks;
	}
}

static void end_chart(struct builder *builder, struct chart *chart)
{
	if (!builder->status)
		chart_write(chart, builder->page);
	names_release(&builder->labels);
}

/* The metric of that name of every dataset. */
static void add_metric(struct builder *builder, struct chart *chart, const char *name)
{
	for (size_t run = 0; run < builder->count; run++)
		for (size_t i = 0; i < builder->records[run].sets; i++) {
			const struct record_set *set = &builder->records[run].set[i];

			for (int m = 0; m < set->metrics; m++)
				if (strcmp(set->metric[m].name, name) == 0)
					add_line(builder, chart, run, set->dataset, set->metric[m].series);
		}
}

/* A second line of a chart: not where there are several runs, nor where it is nought all the time (the exchange of one
 * process), nor the means of hundreds of short epochs, which say no more than the steps. */
static bool is_worth_it(const struct builder *builder, enum record_log log, const struct series *series)
{
	return builder->count == 1 && series->high > 0 &&
	       (log != RECORD_EPOCH || series->count <= EPOCHS_SHOWN);
}

static void add_known(struct builder *builder, const struct known_chart *wanted)
{
	struct chart chart;

	start_chart(builder, &chart, wanted->title);
	chart.unit_name = wanted->unit_name;
	chart.unit = wanted->unit;
	chart.may_be_logarithmic = wanted->may_be_logarithmic;
	chart.from_zero = wanted->from_zero;
	chart.cut_peaks = wanted->cut_peaks;
	chart.smooth = wanted->smooth;
	for (size_t run = 0; run < builder->count; run++)
		for (int k = 0; k < ITEMS && wanted->item[k].column; k++) {
			const struct series *series = record_find(
				&builder->records[run], wanted->item[k].log, wanted->item[k].column);

			if (series && (k == 0 || is_worth_it(builder, wanted->item[k].log, series)))
				add_line(builder, &chart, run,
					builder->count > 1 && k == 0 ? "" : wanted->item[k].label, series);
		}
	if (wanted == &known[0])
		add_metric(builder, &chart, "loss");
	end_chart(builder, &chart);
}

/* Whether this is the first mention of a metric in all runs. */
static bool is_first_metric(const struct builder *builder, size_t run, size_t set, int metric)
{
	const char *name = builder->records[run].set[set].metric[metric].name;

	for (size_t r = 0; r <= run; r++)
		for (size_t s = 0; s < (r == run ? set : builder->records[r].sets); s++)
			for (int m = 0; m < builder->records[r].set[s].metrics; m++)
				if (strcmp(builder->records[r].set[s].metric[m].name, name) == 0)
					return false;
	return true;
}

static void add_metrics(struct builder *builder)
{
	for (size_t run = 0; run < builder->count; run++)
		for (size_t s = 0; s < builder->records[run].sets; s++)
			for (int m = 0; m < builder->records[run].set[s].metrics; m++) {
				const char *name = builder->records[run].set[s].metric[m].name;
				struct text title = {0};
				struct chart chart;

				if (strcmp(name, "loss") == 0 || !is_first_metric(builder, run, s, m))
					continue;
				text_format(&title, "Validation: %s", name);
				if (!builder->status)
					builder->status = text_check(&title);
				if (!builder->status) {
					start_chart(builder, &chart, title.data);
					chart.may_be_logarithmic = true;
					add_metric(builder, &chart, name);
					end_chart(builder, &chart);
				}
				text_release(&title);
			}
}

static bool is_first_column(const struct builder *builder, size_t run, size_t curve)
{
	const char *name = builder->records[run].curve[curve].name;

	for (size_t r = 0; r <= run; r++)
		for (size_t c = 0; c < (r == run ? curve : builder->records[r].curves); c++)
			if (strcmp(builder->records[r].curve[c].name, name) == 0)
				return false;
	return true;
}

/* Columns that no chart of its own name has: one chart a name, the log of steps and that of epochs together. */
static void add_others(struct builder *builder)
{
	static const char *const labels[RECORD_LOGS] = {"of a step", "of an epoch", ""};

	for (size_t run = 0; run < builder->count; run++)
		for (size_t c = 0; c < builder->records[run].curves; c++) {
			const char *name = builder->records[run].curve[c].name;
			struct chart chart;

			if (is_known(name) || !is_first_column(builder, run, c))
				continue;
			start_chart(builder, &chart, name);
			chart.may_be_logarithmic = chart.smooth = true;
			for (size_t r = 0; r < builder->count; r++)
				for (int log = 0; log < RECORD_LOGS; log++)
					add_line(builder, &chart, r, labels[log],
						record_find(
							&builder->records[r], (enum record_log)log, name));
			end_chart(builder, &chart);
		}
}

/* Where shifts began, but for those that began where one before them did. */
static void find_marks(struct builder *builder)
{
	const struct record *record = &builder->records[0];

	for (size_t i = 0; i < record->shifts; i++) {
		const struct shift_row *row = &record->shift[i];
		bool old = row->step < 1 || strcmp(row->event, "start") != 0;

		for (size_t k = 0; k < builder->marks && !old; k++)
			old = builder->mark[k].step == row->step;
		if (old)
			continue;
		if (builder->marks == MARKS)
			memmove(builder->mark, builder->mark + 1, --builder->marks * sizeof *builder->mark);
		builder->mark[builder->marks++] = (struct chart_mark){row->shift, row->step};
	}
}

int page_charts(const struct record *records, size_t count, struct text *page)
{
	struct builder builder = {.records = records, .count = count, .page = page};
	size_t before;

	page_section(page, "curves", "Curves");
	text_add(page, "<div class=\"charts\">\n");
	before = page->length;
	if (count == 1)
		find_marks(&builder);
	add_known(&builder, &known[0]);
	add_metrics(&builder);
	add_others(&builder);
	for (int i = 1; i < KNOWN; i++)
		add_known(&builder, &known[i]);
	if (page->length == before)
		text_add(page, "<p class=\"soft\">No step has been logged yet.</p>");
	text_add(page, "</div>\n");
	if (builder.marks)
		text_add(page, "<p class=\"soft\">Dotted: where a shift began. Shaded: the least and the "
			       "greatest value of the "
			       "steps that share a place.</p>\n");
	return builder.status;
}
