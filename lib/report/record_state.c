/* How a run stands: its state, how far it is and how long it will take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/text.h"
#include "report/record_parts.h"
#include "run/claim.h"
#include "run/fields.h"
#include "task/recipe.h"
#include "train/loop.h"

enum { TRAIN_CFG_LIMIT = 1 << 24 };

static void set_state(struct record *record, const char *state)
{
	snprintf(record->state, sizeof record->state, "%s", state);
}

/* ---- steps in all ---- */

/* From the newest checkpoint's train.cfg; 0 where there is none. */
static int64_t training_samples(const struct record *record)
{
	const struct record_checkpoint *newest = record_newest(record);
	char *path = newest ? run_path(&record->run, "checkpoints/%s/train.cfg", newest->name) : NULL;
	struct fields fields = {0};
	int64_t samples = 0;

	if (path && !fields_read(path, TRAIN_CFG_LIMIT, FIELDS_CFG, &fields)) {
		if (fields_integer(&fields, "data_samples", 1, INT64_MAX, &samples))
			samples = 0;
		fields_release(&fields);
	}
	error_clear();
	free(path);
	return samples;
}

static int64_t steps_in_all(const struct record *record)
{
	const struct config *config = record->run.config;
	struct loop_task task = {0};
	const char *rest;

	if (!config)
		return record->has_done ? record->done.step : -1;
	if (config_integer(config, "train.epochs") == 0)
		return config_integer(config, "train.steps");
	task.epoch_samples = training_samples(record);
	task.batch = config_integer(config, "batch.size");
	rest = config_text(config, "batch.rest");
	if (task.epoch_samples == 0)
		return record->has_done ? record->done.step : -1;
	if (strcmp(rest, "carry") != 0)
		task.epoch_steps =
			(task.epoch_samples + (strcmp(rest, "short") == 0 ? task.batch - 1 : 0)) / task.batch;
	return recipe_steps(config, &task);
}

/* ---- state ---- */

/* A number above all that ended: is its process still there? */
static void judge_owner(struct record *record, int64_t shift)
{
	struct shift_identity self;
	struct claim claim;
	struct text reason = {0};
	enum owner owner = OWNER_UNKNOWN;

	shift_identity(&self);
	if (claim_read(&record->run, shift, &claim))
		error_clear();
	else
		owner = owner_state(&claim, &self, &reason);
	error_clear();
	set_state(record, owner == OWNER_RUNS ? "running" : owner == OWNER_GONE ? "lost" : "unknown");
	text_release(&reason);
}

/* From the row of a shift that is over, and what its script did behind it. */
static void judge_end(struct record *record, const struct shift_row *last)
{
	if (strcmp(last->event, "requeue") == 0)
		set_state(record, "waiting");
	else if (strcmp(last->event, "hold") == 0)
		set_state(record, "held");
	else if (strcmp(last->event, "fail") == 0)
		set_state(record, "failed");
	else if (strcmp(last->event, "lost") == 0)
		set_state(record, "lost");
	else if (strcmp(last->reason, "stopped") == 0 || strcmp(last->reason, "interrupted") == 0)
		set_state(record, "stopped");
	else
		set_state(record, last->status == 0 || last->status == STATUS_AGAIN ? "waiting" : "failed");
}

static void judge_state(struct record *record)
{
	const struct shift_row *last = record->shifts ? &record->shift[record->shifts - 1] : NULL;
	int64_t highest = 0, ended = 0, steps = record->steps;

	for (size_t i = 0; i < record->shifts; i++) {
		const struct shift_row *row = &record->shift[i];

		if (row->shift > record->last_shift)
			record->last_shift = row->shift;
		if (row->shift > ended && strcmp(row->event, "start") != 0)
			ended = row->shift;
	}
	if (claims_highest(&record->run, &highest))
		error_clear();
	if (highest > record->last_shift)
		record->last_shift = highest;
	if (!record->run.config)
		set_state(record, "damaged");
	else if (record->has_done && (steps < 0 || record->done.step >= steps))
		set_state(record, "done");
	else if (record->last_shift > ended)
		judge_owner(record, record->last_shift);
	else if (last)
		judge_end(record, last);
	else
		set_state(record, "new");
}

/* The newest time in shifts.tsv: "2026-01-31T12:34:56Z". */
static void consider_shift_times(struct record *record)
{
	for (size_t i = 0; i < record->shifts; i++) {
		struct tm parts = {0};

		if (strptime(record->shift[i].time, "%Y-%m-%dT%H:%M:%SZ", &parts))
			record->last_write = fmax(record->last_write, (double)timegm(&parts));
	}
}

int record_judge(struct record *record)
{
	double ahead;

	record->steps = steps_in_all(record);
	judge_state(record);
	consider_shift_times(record);
	if (record->has_done && record->step < record->done.step)
		record->step = record->done.step;
	ahead = (double)(record->steps - record->step);
	if (strcmp(record->state, "done") == 0)
		record->left_s = 0;
	else if (record->steps >= 0 && isfinite(record->seconds_step))
		record->left_s = ahead > 0 ? ahead * record->seconds_step : 0;
	return STATUS_OK;
}
