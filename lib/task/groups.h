/* The data groups that a command line names. */
#ifndef NIGHTSHIFT_TASK_GROUPS_H
#define NIGHTSHIFT_TASK_GROUPS_H

#include <stddef.h>

#include "run/run.h"

struct task_group {
	const char *name, *list; /* borrowed */
	size_t index;            /* in the list */
};

/* Each name's group, of data.test, data.val, data.vis, data.train, the first list that has it (STATUS_USAGE when none has);
 * count 0: all of data.test, or of data.val where that is empty (STATUS_CONFIG when both are). *groups is owned by the caller,
 * NULL after a failure. */
int task_groups(const struct run *run, const char *const *names, int count, struct task_group **groups,
	size_t *found);

/* Where group `i` of `list` is read: its staged copy on this host, held from now on, else the configured path. Owned by the
 * caller; NULL with a message. */
char *task_group_path(const struct run *run, const char *list, size_t i);

/* Adds the missing files of one more group (`count`, and the first one's name, taken over or NULL) to those of earlier ones. */
void task_missing_add(size_t *all, char **first_of_all, size_t count, char *first);

#endif
