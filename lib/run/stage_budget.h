/*
 * Room for a new copy: the copies that were used longest ago go first. Each entry says in KEY/size what it takes or will take, and
 * its lock file's time is that of its last use. What is locked, or was used in the last half hour, stays.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_BUDGET_H
#define NIGHTSHIFT_RUN_STAGE_BUDGET_H

#include <stdint.h>

#include "run/stage_entry.h"

/*
 * Under the exclusive lock of `entry`, before it is filled: notes that it will take `bytes`, and removes others until all take at
 * most `budget` and the disk has room. STATUS_CANNOT_CREATE, and nothing is noted, when that cannot be reached. A budget of 0
 * removes nothing and never fails.
 */
int stage_budget_reserve(const struct stage_entry *entry, uint64_t bytes, uint64_t budget);
/* The entry is used now. */
void stage_budget_touch(const struct stage_entry *entry);

#endif
