/* eval/DATASET.tsv: mean and range of each column, and the worst samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/tsv.h"
#include "report/record_parts.h"

enum { FIRST_COLUMN = 2, REMARKS_KEPT = 20, TABLES_KEPT = 64 };

static void release_sample(struct record_sample *sample)
{
	free(sample->name);
	for (int i = 0; i < RECORD_COLUMNS; i++)
		free(sample->field[i]);
	*sample = (struct record_sample){0};
}

void record_release_scores(struct record_scores *scores)
{
	for (int i = 0; i < scores->columns; i++)
		free(scores->column[i].name);
	for (int i = 0; i < scores->worsts; i++)
		release_sample(&scores->worst[i]);
	names_release(&scores->remarks);
	free(scores->dataset);
}

static int take_columns(struct record_scores *scores, const struct tsv *table)
{
	for (int i = 0; i < RECORD_COLUMNS && FIRST_COLUMN + i < table->columns; i++) {
		struct record_column *column = &scores->column[i];

		if (i < scores->columns)
			continue;
		*column = (struct record_column){.name = memory_text(table->column[FIRST_COLUMN + i]),
			.low = INFINITY,
			.high = -INFINITY};
		scores->columns = i + 1;
		if (!column->name)
			return error_status();
	}
	return STATUS_OK;
}

static int copy_sample(const struct tsv *table, double error, struct record_sample *sample)
{
	*sample = (struct record_sample){.error = error, .name = memory_text(table->field[1])};
	if (sample->name)
		text_unescape(sample->name);
	for (int i = 0; i < RECORD_COLUMNS && FIRST_COLUMN + i < table->fields; i++) {
		sample->field[i] = memory_text(table->field[FIRST_COLUMN + i]);
		if (!sample->field[i])
			return error_status();
		text_unescape(sample->field[i]);
	}
	return sample->name ? STATUS_OK : error_status();
}

/* What has no error (nan) is worse than anything. */
static int consider_worst(struct record_scores *scores, const struct tsv *table, double error)
{
	double rank = isnan(error) ? INFINITY : error;
	int at = scores->worsts, status;

	if (at == RECORD_WORST && !(rank > scores->worst[at - 1].error))
		return STATUS_OK;
	if (at == RECORD_WORST)
		release_sample(&scores->worst[--at]);
	for (; at > 0 && rank > scores->worst[at - 1].error; at--)
		scores->worst[at] = scores->worst[at - 1];
	status = copy_sample(table, rank, &scores->worst[at]);
	if (scores->worsts < RECORD_WORST)
		scores->worsts++;
	return status;
}

static int add_sample(struct record_scores *scores, const struct tsv *table)
{
	double error = NAN;

	if (table->fields < FIRST_COLUMN)
		return STATUS_OK;
	scores->samples++;
	tsv_number(table, FIRST_COLUMN, &error);
	for (int i = 0; i < scores->columns; i++) {
		struct record_column *column = &scores->column[i];
		double value;

		if (!tsv_number(table, FIRST_COLUMN + i, &value) || !isfinite(value)) {
			column->other++;
			continue;
		}
		column->count++;
		column->sum += value;
		column->low = fmin(column->low, value);
		column->high = fmax(column->high, value);
	}
	return consider_worst(scores, table, error);
}

static int read_table(struct record *record, const char *name)
{
	struct record_scores *scores;
	struct tsv table = {.descriptor = -1};
	char *path = run_path(&record->run, "eval/%s", name);
	int status = path ? memory_grow(&record->scores, &record->scores_capacity, record->scored + 1,
				    sizeof *record->scores)
			  : error_status();

	if (status) {
		free(path);
		return status;
	}
	scores = &record->scores[record->scored++];
	*scores = (struct record_scores){.dataset = memory_text(name)};
	if (!scores->dataset)
		status = error_status();
	else
		scores->dataset[strlen(name) - strlen(".tsv")] = 0;
	if (!status && tsv_open(path, &table))
		status = record_trouble(record);
	while (!status && table.descriptor >= 0 && tsv_next(&table)) {
		if (table.kind == TSV_HEADER)
			status = take_columns(scores, &table);
		else if (table.kind == TSV_ROW)
			status = add_sample(scores, &table);
		else if (scores->remarks.count < REMARKS_KEPT)
			status = names_add(&scores->remarks, table.field[0]);
	}
	if (!status)
		status = record_check_table(record, &table, path + strlen(record->run.path) + 1);
	tsv_close(&table);
	free(path);
	return status;
}

int record_read_scores(struct record *record)
{
	struct names names = {0};
	char *directory = run_path(&record->run, "eval");
	int status = directory ? STATUS_OK : error_status();

	if (!status && file_is_directory(directory) && file_list(directory, &names))
		status = record_trouble(record);
	for (size_t i = 0; !status && i < names.count && record->scored < TABLES_KEPT; i++)
		if (names.name[i][0] != '.' && text_ends(names.name[i], ".tsv"))
			status = read_table(record, names.name[i]);
	names_release(&names);
	free(directory);
	return status;
}
