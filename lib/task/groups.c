#include "task/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/stage.h"

static const char *const lists[] = {"data.test", "data.val", "data.vis", "data.train"};
enum { LISTS = sizeof lists / sizeof *lists };

/* Datasets of all lists, each once, as "a, b". */
static void add_names(const struct run *run, struct text *out)
{
	struct names names = {0};
	int status = STATUS_OK;

	for (int l = LISTS - 1; l >= 0; l--)
		for (size_t i = 0; i < config_groups(run->config, lists[l]) && !status; i++)
			status = names_add(&names, config_group_text(run->config, lists[l], i, "name"));
	names_sort(&names);
	for (size_t i = 0; i < names.count; i++)
		if (!i || strcmp(names.name[i], names.name[i - 1]))
			text_format(out, "%s%s", out->length ? ", " : "", names.name[i]);
	names_release(&names);
}

static int find_group(const struct run *run, const char *name, struct task_group *group)
{
	for (int l = 0; l < LISTS; l++)
		for (size_t i = 0; i < config_groups(run->config, lists[l]); i++) {
			const char *have = config_group_text(run->config, lists[l], i, "name");

			if (strcmp(have, name) != 0)
				continue;
			*group = (struct task_group){have, lists[l], i};
			return STATUS_OK;
		}
	struct text have = {0};
	add_names(run, &have);
	int status = text_check(&have);
	if (!status)
		status = error_set(STATUS_USAGE, "%s: the run has no dataset %s; it has %s", run->path, name,
			have.data ? have.data : "none");
	text_release(&have);
	return status;
}

static int all_groups(const struct run *run, struct task_group **groups, size_t *found)
{
	const char *list = config_groups(run->config, "data.test") ? "data.test" : "data.val";
	size_t count = config_groups(run->config, list);

	if (!count)
		return error_set(STATUS_CONFIG,
			"%s: the run has neither data.test nor data.val; name a dataset", run->path);
	*groups = memory_new(count, sizeof **groups);
	if (!*groups)
		return error_status();
	for (size_t i = 0; i < count; i++)
		(*groups)[i] = (struct task_group){config_group_text(run->config, list, i, "name"), list, i};
	*found = count;
	return STATUS_OK;
}

int task_groups(
	const struct run *run, const char *const *names, int count, struct task_group **groups, size_t *found)
{
	int status = STATUS_OK;

	*groups = NULL;
	*found = 0;
	if (count == 0)
		return all_groups(run, groups, found);
	*groups = memory_new((size_t)count, sizeof **groups);
	if (!*groups)
		return error_status();
	for (int i = 0; i < count && !status; i++)
		status = find_group(run, names[i], &(*groups)[i]);
	if (status) {
		free(*groups);
		*groups = NULL;
		return status;
	}
	*found = (size_t)count;
	return STATUS_OK;
}

char *task_group_path(const struct run *run, const char *list, size_t i)
{
	const char *path = config_group_text(run->config, list, i, "path");
	char *staged = NULL;

	if (run_staged(run, config_group_text(run->config, list, i, "name"), path, &staged))
		return NULL;
	if (staged && stage_hold(staged)) {
		warn("%s; reading %s instead", error_message(), path);
		free(staged);
		staged = NULL;
	}
	return staged ? staged : memory_text(path);
}

void task_missing_add(size_t *all, char **first_of_all, size_t count, char *first)
{
	*all += count;
	if (*first_of_all)
		free(first);
	else
		*first_of_all = first;
}
