/* log/val.tsv: the values of each dataset by step, and the best of each metric. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/tsv.h"
#include "metric/direction.h"
#include "report/record_parts.h"

enum { LOOKS_KEPT = 20000, SETS_KEPT = 64 };

/* NULL with a message; *full: there are too many. */
static struct record_set *find_set(struct record *record, const char *dataset, bool *full)
{
	struct record_set *set;

	for (size_t i = 0; i < record->sets; i++)
		if (strcmp(record->set[i].dataset, dataset) == 0)
			return &record->set[i];
	*full = record->sets == SETS_KEPT;
	if (*full || memory_grow(&record->set, &record->set_capacity, record->sets + 1, sizeof *record->set))
		return NULL;
	set = &record->set[record->sets];
	*set = (struct record_set){.dataset = memory_text(dataset)};
	if (!set->dataset)
		return NULL;
	record->sets++;
	return set;
}

static struct record_metric *find_metric(struct record_set *set, const char *name, bool *full)
{
	struct record_metric *metric;

	for (int i = 0; i < set->metrics; i++)
		if (strcmp(set->metric[i].name, name) == 0)
			return &set->metric[i];
	*full = set->metrics == RECORD_METRICS;
	if (*full)
		return NULL;
	metric = &set->metric[set->metrics];
	*metric = (struct record_metric){.name = memory_text(name),
		.larger_is_better = metric_larger_is_better(name),
		.series = memory_new(1, sizeof *metric->series),
		.best_step = -1};
	set->metrics++;
	return metric->name && metric->series ? metric : NULL;
}

/* Drops the older half, but what is the best of a metric. */
static void thin_looks(struct record_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->looks; i++) {
		bool keep = i >= set->looks / 2;

		for (int m = 0; m < set->metrics && !keep; m++)
			keep = set->metric[m].best_step == set->look[i].step;
		if (keep)
			set->look[kept++] = set->look[i];
	}
	set->looks = kept;
}

static struct record_looks *find_look(struct record_set *set, int64_t step)
{
	struct record_looks *look;

	if (set->looks && set->look[set->looks - 1].step == step)
		return &set->look[set->looks - 1];
	if (set->looks >= LOOKS_KEPT)
		thin_looks(set);
	if (memory_grow(&set->look, &set->capacity, set->looks + 1, sizeof *set->look))
		return NULL;
	look = &set->look[set->looks++];
	look->step = step;
	for (int m = 0; m < RECORD_METRICS; m++)
		look->value[m] = NAN;
	return look;
}

static void consider_best(struct record_metric *metric, int64_t step, double value)
{
	if (!isfinite(value))
		return;
	if (metric->best_step < 0 ||
		(metric->larger_is_better ? value > metric->best : value < metric->best)) {
		metric->best = value;
		metric->best_step = step;
	}
}

static int add_value(struct record *record, const struct tsv *table, bool *full)
{
	double step, value, n = -1, n_nan = -1;
	int dataset = tsv_column(table, "dataset"), name = tsv_column(table, "metric");
	struct record_set *set;
	struct record_metric *metric;
	struct record_looks *look;

	if (dataset < 0 || name < 0 || dataset >= table->fields || name >= table->fields ||
		!tsv_number(table, tsv_column(table, "step"), &step) || !(step >= 0 && step < 0x1p53) ||
		!tsv_number(table, tsv_column(table, "value"), &value))
		return STATUS_OK;
	tsv_number(table, tsv_column(table, "n"), &n);
	tsv_number(table, tsv_column(table, "n_nan"), &n_nan);
	text_unescape(table->field[dataset]);
	text_unescape(table->field[name]);
	set = find_set(record, table->field[dataset], full);
	metric = set ? find_metric(set, table->field[name], full) : NULL;
	if (*full)
		return STATUS_OK;
	look = metric ? find_look(set, (int64_t)step) : NULL;
	if (!look)
		return error_status();
	look->value[metric - set->metric] = value;
	metric->n = fabs(n) < 0x1p53 ? (int64_t)n : -1;
	metric->n_nan = fabs(n_nan) < 0x1p53 ? (int64_t)n_nan : -1;
	series_add(metric->series, step, value);
	consider_best(metric, (int64_t)step, value);
	return STATUS_OK;
}

int record_read_validation(struct record *record)
{
	char *path = run_path(&record->run, "log/val.tsv");
	struct tsv table = {.descriptor = -1};
	bool full = false, any_full = false;
	int status = path ? STATUS_OK : error_status();

	if (!status && file_exists(path)) {
		if (tsv_open(path, &table))
			status = record_trouble(record);
		while (!status && table.descriptor >= 0 && tsv_next(&table)) {
			full = false;
			if (table.kind == TSV_ROW)
				status = add_value(record, &table, &full);
			any_full = any_full || full;
		}
		if (!status)
			status = record_check_table(record, &table, "log/val.tsv");
	}
	if (!status && any_full) {
		error_set(STATUS_DATA,
			"log/val.tsv: more than %d datasets or %d metrics; the others are left out",
			SETS_KEPT, RECORD_METRICS);
		status = record_trouble(record);
	}
	tsv_close(&table);
	free(path);
	return status;
}
