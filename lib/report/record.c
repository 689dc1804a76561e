#include "report/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/record_parts.h"

int record_trouble(struct record *record)
{
	int status = names_add(&record->trouble, error_message());

	if (!status)
		error_clear();
	return status;
}

/* ---- reading ---- */

/* A directory that has something of a run, at least. */
static bool looks_like_run(const struct record *record)
{
	static const char *const signs[] = {"config.cfg", "shifts.tsv", "log", "checkpoints"};
	bool found = false;

	for (size_t i = 0; i < sizeof signs / sizeof *signs && !found; i++) {
		char *path = run_path(&record->run, "%s", signs[i]);

		found = path && file_exists(path);
		free(path);
	}
	return found;
}

static int open_run(const char *path, struct record *record)
{
	int status = run_open(path, &record->run);

	if (!status)
		return STATUS_OK;
	record->run.path = path_absolute(path);
	if (!record->run.path || !file_is_directory(record->run.path))
		return status;
	if (!looks_like_run(record))
		return error_set(STATUS_NO_INPUT, "%s: no run; mkconfig makes one", path);
	return record_trouble(record);
}

static int read_small_parts(struct record *record)
{
	int status = STATUS_OK;

	if (shift_rows(&record->run, &record->shift, &record->shifts))
		status = record_trouble(record);
	if (!status && run_done_read(&record->run, &record->has_done, &record->done))
		status = record_trouble(record);
	if (!status && run_platform_read(&record->run, &record->has_platform, &record->platform))
		status = record_trouble(record);
	return status;
}

int record_read(const char *path, const struct record_options *options, struct record *record)
{
	int status;

	*record = (struct record){
		.steps = -1, .epoch = -1, .loss = NAN, .seconds_step = NAN, .samples_s = NAN, .left_s = NAN};
	status = open_run(path, record);
	if (!status)
		record->name = memory_text(path_base(record->run.path));
	if (!status && !record->name)
		status = error_status();
	if (!status)
		status = read_small_parts(record);
	if (!status)
		status = record_read_logs(record, options->brief);
	if (!status)
		status = record_read_checkpoints(record, options->verify);
	if (!status && !options->brief)
		status = record_read_validation(record);
	if (!status && !options->brief)
		status = record_read_scores(record);
	return status ? status : record_judge(record);
}

static void release_set(struct record_set *set)
{
	for (int m = 0; m < set->metrics; m++) {
		free(set->metric[m].name);
		free(set->metric[m].series);
	}
	free(set->dataset);
	free(set->look);
}

void record_release(struct record *record)
{
	for (size_t i = 0; i < record->curves; i++) {
		free(record->curve[i].name);
		free(record->curve[i].series);
	}
	for (size_t i = 0; i < record->sets; i++)
		release_set(&record->set[i]);
	for (size_t i = 0; i < record->scored; i++)
		record_release_scores(&record->scores[i]);
	for (size_t i = 0; i < record->checkpoints; i++) {
		free(record->checkpoint[i].name);
		free(record->checkpoint[i].wrong);
	}
	free(record->curve);
	free(record->set);
	free(record->scores);
	free(record->checkpoint);
	free(record->shift);
	free(record->name);
	names_release(&record->trouble);
	run_close(&record->run);
	*record = (struct record){0};
}
