/* The page that compares runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "metric/direction.h"
#include "report/html.h"
#include "report/page_parts.h"

static void add_run(const struct record *record, size_t i, struct text *page)
{
	char value[32];
	struct text steps = {0};

	text_format(page, "<tr><td><span class=\"key\"><i class=\"t%zu\"></i></span></td>", i % 8);
	html_tag(page, "td", NULL, record->name);
	text_format(page, "<td><span class=\"state %s\">%s</span></td>", record->state, record->state);
	page_steps(record, &steps);
	html_tag(page, "td", "number", text_check(&steps) ? "" : steps.data);
	text_release(&steps);
	if (record->step > 0)
		html_number_cell(page, "", record->loss);
	else
		text_add(page, "<td></td>");
	if (record->has_best) {
		html_number_cell(page, "", record->best_value);
		html_tag(page, "td", NULL, record->best_metric);
	} else {
		text_add(page, "<td></td><td></td>");
	}
	html_tag(page, "td", "number",
		isfinite(record->samples_s) ? number_text(record->samples_s, value) : "");
	html_tag(
		page, "td", "number", record->trained_s > 0 ? text_of_seconds(record->trained_s, value) : "");
	html_tag(page, "td", NULL, record->last_write > 0 ? clock_text(record->last_write, value) : "");
	html_tag(page, "td", "path", record->run.path);
	text_add(page, "</tr>\n");
}

/* ---- datasets by metrics ---- */

/* What a run says about its datasets: validation or evaluation. */
struct dataset_table {
	size_t (*datasets)(const struct record *record);
	const char *(*dataset)(const struct record *record, size_t i);
	int (*metrics)(const struct record *record, size_t i);
	const char *(*metric)(const struct record *record, size_t i, int m);
	double (*value)(const struct record *record, size_t i, int m); /* nan: none */
};

static size_t validation_datasets(const struct record *record)
{
	return record->sets;
}

static const char *validation_dataset(const struct record *record, size_t i)
{
	return record->set[i].dataset;
}

static int validation_metrics(const struct record *record, size_t i)
{
	return record->set[i].metrics;
}

static const char *validation_metric(const struct record *record, size_t i, int m)
{
	return record->set[i].metric[m].name;
}

static double validation_value(const struct record *record, size_t i, int m)
{
	return record->set[i].metric[m].best_step >= 0 ? record->set[i].metric[m].best : NAN;
}

static const struct dataset_table validation_table = {
	validation_datasets, validation_dataset, validation_metrics, validation_metric, validation_value};

static size_t evaluation_datasets(const struct record *record)
{
	return record->scored;
}

static const char *evaluation_dataset(const struct record *record, size_t i)
{
	return record->scores[i].dataset;
}

static int evaluation_metrics(const struct record *record, size_t i)
{
	return record->scores[i].columns;
}

static const char *evaluation_metric(const struct record *record, size_t i, int m)
{
	return record->scores[i].column[m].name;
}

static double evaluation_value(const struct record *record, size_t i, int m)
{
	const struct record_column *column = &record->scores[i].column[m];

	return column->count ? column->sum / (double)column->count : NAN;
}

static const struct dataset_table evaluation_table = {
	evaluation_datasets, evaluation_dataset, evaluation_metrics, evaluation_metric, evaluation_value};

/* nan where the run has no such dataset or metric. */
static double find_value(const struct dataset_table *table, const struct record *record, const char *dataset,
	const char *metric)
{
	for (size_t i = 0; i < table->datasets(record); i++)
		for (int m = 0;
			strcmp(table->dataset(record, i), dataset) == 0 && m < table->metrics(record, i); m++)
			if (strcmp(table->metric(record, i, m), metric) == 0)
				return table->value(record, i, m);
	return NAN;
}

static bool has_dataset(const struct dataset_table *table, const struct record *record, const char *dataset)
{
	for (size_t i = 0; i < table->datasets(record); i++)
		if (strcmp(table->dataset(record, i), dataset) == 0)
			return true;
	return false;
}

static double best_value(const struct dataset_table *table, const struct record *records, size_t count,
	const char *dataset, const char *metric)
{
	double best = NAN;

	for (size_t run = 0; run < count; run++) {
		double value = find_value(table, &records[run], dataset, metric);

		best = metric_larger_is_better(metric) ? fmax(best, value) : fmin(best, value);
	}
	return best;
}

/* Metrics of the first run that has the dataset; words (a column without numbers) are none. */
static void add_matrix(const struct dataset_table *table, const struct record *records, size_t count,
	size_t run, size_t i, struct text *page)
{
	const struct record *first = &records[run];
	const char *dataset = table->dataset(first, i);

	html_tag(page, "h3", NULL, dataset);
	text_add(page, "<div class=\"wide\"><table><tr><th>run</th>");
	for (int m = 0; m < table->metrics(first, i); m++)
		if (!isnan(table->value(first, i, m))) {
			text_add(page, "<th class=\"number\">");
			html_name(page, table->metric(first, i, m));
			text_add(page, "</th>");
		}
	text_add(page, "</tr>\n");
	for (size_t r = run; r < count; r++) {
		if (!has_dataset(table, &records[r], dataset))
			continue;
		text_add(page, "<tr>");
		html_tag(page, "td", NULL, records[r].name);
		for (int m = 0; m < table->metrics(first, i); m++) {
			const char *metric = table->metric(first, i, m);
			double value = find_value(table, &records[r], dataset, metric);

			if (isnan(table->value(first, i, m)))
				continue;
			if (isnan(value))
				text_add(page, "<td></td>");
			else
				html_number_cell(page,
					value == best_value(table, records, count, dataset, metric) ? "best"
												    : "",
					value);
		}
		text_add(page, "</tr>\n");
	}
	text_add(page, "</table></div>\n");
}

/* One table a dataset. */
static void add_matrices(const struct dataset_table *table, const struct record *records, size_t count,
	const char *id, const char *title, struct text *page)
{
	bool begun = false;

	for (size_t run = 0; run < count; run++)
		for (size_t i = 0; i < table->datasets(&records[run]); i++) {
			const char *dataset = table->dataset(&records[run], i);
			bool old = false;

			for (size_t r = 0; r < run; r++)
				old = old || has_dataset(table, &records[r], dataset);
			if (old)
				continue;
			if (!begun)
				page_section(page, id, title);
			begun = true;
			add_matrix(table, records, count, run, i, page);
		}
}

int page_of_runs(const struct record *records, size_t count, struct text *page)
{
	struct text body = {0};
	int status;

	html_head(page, "Runs");
	text_format(page, "<header><h1>%zu runs</h1></header>\n", count);
	for (size_t i = 0; i < count; i++)
		page_trouble(&records[i], page);
	text_add(page,
		"<div class=\"wide\"><table><tr><th></th><th>run</th><th>state</th><th "
		"class=\"number\">steps</th>"
		"<th class=\"number\">loss</th><th class=\"number\">best</th><th>metric</th>"
		"<th class=\"number\">samples/s</th><th class=\"number\">trained for</th><th>last write</th>"
		"<th>path</th></tr>\n");
	for (size_t i = 0; i < count; i++)
		add_run(&records[i], i, page);
	text_add(page, "</table></div>\n");
	status = page_charts(records, count, &body);
	add_matrices(&validation_table, records, count, "validation", "Best of the validation", &body);
	add_matrices(&evaluation_table, records, count, "evaluation", "Evaluation", &body);
	if (!status)
		status = page_differences(records, count, &body);
	return page_finish(page, &body, status);
}
