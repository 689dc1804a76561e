/* The logs of a run: each column a curve; and how fast it goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "file/tsv.h"
#include "report/record_parts.h"

enum { RECENT_STEPS = 64, BRIEF_BYTES = 1 << 16 };

static const struct {
	const char *path, *step; /* the column that counts */
	const char *skipped[5];  /* what is no curve */
} logs[RECORD_LOGS] = {
	[RECORD_STEP] = {"log/step.tsv", "step", {"step", "epoch", "samples"}},
	[RECORD_EPOCH] = {"log/epoch.tsv", "step", {"epoch", "step", "samples", "lr"}},
	[RECORD_TIME] = {"log/time.tsv", "step", {"step", "shift", "wall_s", "early"}},
};

const struct series *record_find(const struct record *record, enum record_log log, const char *name)
{
	for (size_t i = 0; i < record->curves; i++)
		if (record->curve[i].log == log && strcmp(record->curve[i].name, name) == 0)
			return record->curve[i].series->width > 0 ? record->curve[i].series : NULL;
	return NULL;
}

static bool is_skipped(enum record_log log, const char *name)
{
	for (int i = 0; i < 5 && logs[log].skipped[i]; i++)
		if (strcmp(name, logs[log].skipped[i]) == 0)
			return true;
	return false;
}

static int add_curve(struct record *record, enum record_log log, const char *name, struct series **series)
{
	int status = memory_grow(
		&record->curve, &record->curve_capacity, record->curves + 1, sizeof *record->curve);
	struct record_curve *curve;

	if (status)
		return status;
	curve = &record->curve[record->curves++];
	*curve = (struct record_curve){log, memory_text(name), memory_new(1, sizeof *curve->series)};
	*series = curve->series;
	return curve->name && curve->series ? STATUS_OK : error_status();
}

/* The curve of each column of a header; NULL where it is none. */
static int find_curves(
	struct record *record, enum record_log log, const struct tsv *table, struct series **of_column)
{
	for (int i = 0; i < table->columns; i++) {
		of_column[i] = NULL;
		if (is_skipped(log, table->column[i]))
			continue;
		for (size_t k = 0; k < record->curves && !of_column[i]; k++)
			if (record->curve[k].log == log &&
				strcmp(record->curve[k].name, table->column[i]) == 0)
				of_column[i] = record->curve[k].series;
		if (!of_column[i] && add_curve(record, log, table->column[i], &of_column[i]))
			return error_status();
	}
	return STATUS_OK;
}

/* ---- times ---- */

/* The newest rows of time.tsv, and the time that all shifts have trained. */
struct clock_rows {
	double step[RECENT_STEPS], wall[RECENT_STEPS], rate[RECENT_STEPS];
	size_t rows;
	double shift, wall_before;
};

static void add_time(struct record *record, const struct tsv *table, double step, struct clock_rows *clock)
{
	double shift, wall, seconds = 0, rate = NAN;
	size_t at = clock->rows % RECENT_STEPS;

	if (!tsv_number(table, tsv_column(table, "shift"), &shift) ||
		!tsv_number(table, tsv_column(table, "wall_s"), &wall) || !isfinite(wall) || !isfinite(shift))
		return;
	tsv_number(table, tsv_column(table, "step_s"), &seconds);
	tsv_number(table, tsv_column(table, "samples_s"), &rate);
	if (!clock->rows || shift != clock->shift) {
		record->trained_s += isfinite(seconds) ? seconds : 0;
		clock->rows = at = 0;
	} else if (wall > clock->wall_before) {
		record->trained_s += wall - clock->wall_before;
	}
	clock->shift = shift;
	clock->wall_before = wall;
	clock->step[at] = step;
	clock->wall[at] = wall;
	clock->rate[at] = rate;
	clock->rows++;
	record->last_write = fmax(record->last_write, wall);
}

static void judge_speed(struct record *record, const struct clock_rows *clock)
{
	size_t kept = clock->rows < RECENT_STEPS ? clock->rows : RECENT_STEPS, count = 0;
	size_t newest = (clock->rows + RECENT_STEPS - 1) % RECENT_STEPS;
	size_t oldest = clock->rows < RECENT_STEPS ? 0 : clock->rows % RECENT_STEPS;
	double sum = 0;

	if (kept > 1 && clock->step[newest] > clock->step[oldest])
		record->seconds_step = (clock->wall[newest] - clock->wall[oldest]) /
				       (clock->step[newest] - clock->step[oldest]);
	for (size_t i = 0; i < kept; i++)
		if (isfinite(clock->rate[i])) {
			sum += clock->rate[i];
			count++;
		}
	if (count)
		record->samples_s = sum / (double)count;
}

/* ---- one log ---- */

static void add_row(struct record *record, enum record_log log, const struct tsv *table,
	struct series **of_column, struct clock_rows *clock)
{
	double step, value;

	if (!tsv_number(table, tsv_column(table, logs[log].step), &step))
		return;
	for (int i = 0; i < table->columns; i++)
		if (of_column[i] && tsv_number(table, i, &value))
			series_add(of_column[i], step, value);
	if (log == RECORD_TIME)
		add_time(record, table, step, clock);
	/* A step's row counts the epochs before it; one that ends an epoch shows in the log of epochs. */
	if ((log == RECORD_STEP || log == RECORD_EPOCH) &&
		tsv_number(table, tsv_column(table, "epoch"), &value))
		record->epoch = fmax(record->epoch, value);
	if (log == RECORD_STEP && step >= 0 && step < 0x1p53) {
		record->step = (int64_t)step;
		tsv_number(table, tsv_column(table, "loss"), &record->loss);
	}
}

/* What a table left out, in words. */
int record_check_table(struct record *record, const struct tsv *table, const char *path)
{
	if (!table->damaged && !table->failed)
		return STATUS_OK;
	if (table->failed)
		error_set(STATUS_IO, "%s: cannot be read to its end", path);
	else
		error_set(STATUS_DATA, "%s: %lld damaged lines were passed over", path,
			(long long)table->damaged);
	return record_trouble(record);
}

static int read_log(struct record *record, enum record_log log, bool brief)
{
	char *path = run_path(&record->run, "%s", logs[log].path);
	struct series *of_column[TSV_FIELDS];
	struct clock_rows clock = {0};
	struct tsv table = {.descriptor = -1};
	bool headed = false;
	int status = path ? STATUS_OK : error_status();

	if (status || !file_exists(path)) {
		free(path);
		return status;
	}
	if (tsv_open(path, &table))
		status = record_trouble(record);
	else
		while (!status && tsv_next(&table)) {
			if (table.kind == TSV_HEADER) {
				status = find_curves(record, log, &table, of_column);
				if (brief && !headed)
					tsv_skip(&table, BRIEF_BYTES);
				headed = true;
			} else if (table.kind == TSV_ROW && headed) {
				add_row(record, log, &table, of_column, &clock);
			}
		}
	if (!status)
		status = record_check_table(record, &table, logs[log].path);
	if (log == RECORD_TIME)
		judge_speed(record, &clock);
	tsv_close(&table);
	free(path);
	return status;
}

int record_read_logs(struct record *record, bool brief)
{
	int status = STATUS_OK;

	for (int log = 0; log < RECORD_LOGS && !status; log++)
		status = read_log(record, (enum record_log)log, brief);
	return status;
}
