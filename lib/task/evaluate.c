#include "task/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "task/origin.h"

/* `wanted`: step and digest. */
static int add_sets(struct evaluation *evaluation, const struct task_group *groups, size_t count,
	const struct predictions_info *wanted)
{
	evaluation->set = memory_new(count, sizeof *evaluation->set);
	if (!evaluation->set)
		return error_status();
	for (size_t i = 0; i < count; i++) {
		struct evaluation_set *set = &evaluation->set[evaluation->sets++];

		*set = (struct evaluation_set){.group = groups[i], .wanted = *wanted};
		set->wanted.settings = evaluation->kind->predictor_settings(evaluation->run, &groups[i]);
		set->directory = run_path(evaluation->run, "predictions/%s", groups[i].name);
		if (!set->directory || !set->wanted.settings)
			return error_status();
	}
	return STATUS_OK;
}

int evaluation_open(struct evaluation *evaluation, const struct run *run, const char *step,
	const char *const *names, int count)
{
	struct predictions_info wanted = {0};
	struct task_group *groups = NULL;
	size_t found;
	int status;

	*evaluation = (struct evaluation){.run = run, .kind = task_find(config_text(run->config, "task"))};
	if (!evaluation->kind)
		return error_status();
	status = origin_find(run, step, &wanted.step, wanted.digest);
	if (!status)
		status = task_groups(run, names, count, &groups, &found);
	if (!status)
		status = add_sets(evaluation, groups, found, &wanted);
	free(groups);
	return status;
}

void evaluation_close(struct evaluation *evaluation)
{
	for (size_t i = 0; i < evaluation->sets; i++) {
		free(evaluation->set[i].directory);
		free(evaluation->set[i].stale);
		free((char *)(uintptr_t)evaluation->set[i].wanted.settings);
	}
	free(evaluation->set);
	*evaluation = (struct evaluation){0};
}

/* ---- predictions ---- */

static void add_info(const struct predictions_info *info, struct text *text)
{
	text_format(text, "step %lld digest %s %s", (long long)info->step, info->digest, info->settings);
}

/* Appends why the set's predictions cannot be used; nothing when they can. */
static int judge(const struct evaluation *evaluation, const struct evaluation_set *set, struct text *why)
{
	struct predictions_info info = {0};
	char *first = NULL;
	size_t missing = 0;
	bool found = false;
	int status = predictions_read(set->directory, &found, &info);

	if (status)
		return status;
	if (!found) {
		text_format(why, "there are no predictions of %s", set->group.name);
	} else if (!predictions_equal(&info, &set->wanted)) {
		text_format(why, "the predictions of %s were made by ", set->group.name);
		add_info(&info, why);
		text_add(why, ", not by ");
		add_info(&set->wanted, why);
	} else {
		status = evaluation->kind->score_missing(
			evaluation->run, set->group.list, set->group.index, set->directory, &missing, &first);
		if (!status && missing)
			text_format(why, "%zu predictions of %s are missing, the first is that of %s",
				missing, set->group.name, first);
	}
	free(first);
	free((char *)(uintptr_t)info.settings);
	return status;
}

int evaluation_check(struct evaluation *evaluation, size_t *stale)
{
	int status = STATUS_OK;

	*stale = 0;
	for (size_t i = 0; i < evaluation->sets && !status; i++) {
		struct text why = {0};

		status = judge(evaluation, &evaluation->set[i], &why);
		if (!status)
			status = text_check(&why);
		if (!status && why.length) {
			evaluation->set[i].stale = text_take(&why);
			++*stale;
		}
		text_release(&why);
	}
	return status;
}

/* ---- tables ---- */

static int publish_table(const struct evaluation *evaluation, const struct evaluation_set *set,
	const struct scores *scores, const char *comment)
{
	struct text table = {0};
	char *directory = run_path(evaluation->run, "eval"),
	     *path = run_path(evaluation->run, "eval/%s.tsv", set->group.name);
	int status = directory && path ? file_make_directory(directory) : error_status();

	scores_header(scores, &table);
	text_add(&table, comment);
	scores_rows(scores, set->group.name, &table);
	if (!status)
		status = text_check(&table);
	if (!status)
		status = file_publish(path, table.data, table.length);
	if (status == STATUS_PERMISSION) { /* a run of others */
		warn("%s; the scores go to standard output alone", error_message());
		status = STATUS_OK;
	}
	text_release(&table);
	free(directory);
	free(path);
	return status;
}

int evaluation_score(const struct evaluation *evaluation, size_t i, struct scores *scores, char **comment)
{
	const struct evaluation_set *set = &evaluation->set[i];
	struct predictions_info info = {0};
	struct text words = {0}, line = {0};
	bool found = false;
	int status;

	*scores = (struct scores){0};
	*comment = NULL;
	status = predictions_read(set->directory, &found, &info);
	if (!status && !found)
		status = error_set(STATUS_DATA, "%s: has no INFO; remove the directory and run predict again",
			set->directory);
	if (!status)
		status = evaluation->kind->score(
			evaluation->run, set->group.list, set->group.index, set->directory, scores);
	if (!status && !predictions_still(set->directory, &info))
		status = error_set(STATUS_UNAVAILABLE,
			"%s: other predictions took the place of those that were being scored; score again",
			set->directory);
	if (!status) {
		add_info(&info, &words);
		scores_comment(scores, set->group.name, words.data ? words.data : "", &line);
		*comment = text_take(&line);
		status = *comment ? publish_table(evaluation, set, scores, *comment) : error_status();
	}
	text_release(&words);
	text_release(&line);
	free((char *)(uintptr_t)info.settings);
	return status;
}
