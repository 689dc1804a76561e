/* Keys by task: which keys a task has, and what their defaults and choices are there. */
#ifndef NIGHTSHIFT_CONFIG_TASKS_H
#define NIGHTSHIFT_CONFIG_TASKS_H

#include "config/internal.h"

/* The value of `task`, once it stands. */
const char *config_task(const struct config *config);
bool config_row_applies(const struct config_key *row, const char *task);
const char *config_row_default(const struct config_key *row, const char *task);
/* While composing: no key of another task was set, and every choice is one of this task's. STATUS_CONFIG. */
int config_check_tasks(const struct config *config);

#endif
