#include "task/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "run/checkpoint.h"

static const char *const lists[] = {"data.test", "data.val", "data.vis", "data.train"};
enum { LISTS = sizeof lists / sizeof *lists };

/* ---- groups ---- */

static int add_set(struct evaluation *evaluation, const char *list, size_t group)
{
	const char *name = config_group_text(evaluation->run->config, list, group, "name");
	char *directory = run_path(evaluation->run, "predictions/%s", name);

	if (!directory)
		return error_status();
	evaluation->set[evaluation->sets++] =
		(struct evaluation_set){.name = name, .list = list, .group = group, .directory = directory};
	return STATUS_OK;
}

static int add_named(struct evaluation *evaluation, const char *name)
{
	const struct config *config = evaluation->run->config;

	for (int l = 0; l < LISTS; l++)
		for (size_t i = 0; i < config_groups(config, lists[l]); i++)
			if (strcmp(config_group_text(config, lists[l], i, "name"), name) == 0)
				return add_set(evaluation, lists[l], i);
	return error_set(STATUS_USAGE, "%s: the run has no data group %s", evaluation->run->path, name);
}

static int add_all(struct evaluation *evaluation)
{
	const struct config *config = evaluation->run->config;
	const char *list = config_groups(config, "data.test") ? "data.test" : "data.val";
	int status = STATUS_OK;

	if (!config_groups(config, list))
		return error_set(STATUS_CONFIG,
			"%s: the run has neither data.test nor data.val; name a data group",
			evaluation->run->path);
	for (size_t i = 0; i < config_groups(config, list) && !status; i++)
		status = add_set(evaluation, list, i);
	return status;
}

int evaluation_open(struct evaluation *evaluation, const struct run *run, const char *step,
	const char *const *names, int count)
{
	const struct config *config = run->config;
	size_t most = (size_t)count + config_groups(config, "data.test") + config_groups(config, "data.val");
	int status;

	*evaluation = (struct evaluation){.run = run, .kind = task_find(config_text(config, "task"))};
	if (!evaluation->kind)
		return error_status();
	evaluation->set = memory_new(most, sizeof *evaluation->set);
	evaluation->wanted.settings = evaluation->kind->predictor_settings(run);
	if (!evaluation->set || !evaluation->wanted.settings)
		return error_status();
	status = checkpoint_newest(run, step, &evaluation->wanted.step, evaluation->wanted.digest);
	for (int i = 0; i < count && !status; i++)
		status = add_named(evaluation, names[i]);
	if (!status && count == 0)
		status = add_all(evaluation);
	return status;
}

void evaluation_close(struct evaluation *evaluation)
{
	for (size_t i = 0; i < evaluation->sets; i++) {
		free(evaluation->set[i].directory);
		free(evaluation->set[i].stale);
	}
	free(evaluation->set);
	free((char *)(uintptr_t)evaluation->wanted.settings);
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
		text_format(why, "there are no predictions of %s", set->name);
	} else if (!predictions_equal(&info, &evaluation->wanted)) {
		text_format(why, "the predictions of %s were made by ", set->name);
		add_info(&info, why);
		text_add(why, ", not by ");
		add_info(&evaluation->wanted, why);
	} else {
		status = evaluation->kind->score_missing(
			evaluation->run, set->list, set->group, set->directory, &missing, &first);
		if (!status && missing)
			text_format(why, "%zu predictions of %s are missing, the first is that of %s",
				missing, set->name, first);
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
	     *path = run_path(evaluation->run, "eval/%s.tsv", set->name);
	int status = directory && path ? file_make_directory(directory) : error_status();

	scores_header(scores, &table);
	text_add(&table, comment);
	scores_rows(scores, set->name, &table);
	if (!status)
		status = text_check(&table);
	if (!status)
		status = file_publish(path, table.data, table.length);
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
			evaluation->run, set->list, set->group, set->directory, scores);
	if (!status) {
		add_info(&info, &words);
		scores_comment(scores, set->name, words.data ? words.data : "", &line);
		*comment = text_take(&line);
		status = *comment ? publish_table(evaluation, set, scores, *comment) : error_status();
	}
	text_release(&words);
	text_release(&line);
	free((char *)(uintptr_t)info.settings);
	return status;
}
