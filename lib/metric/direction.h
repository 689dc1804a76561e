/* Which values of a metric are better, by its name: errors, losses and distances are to fall, shares of what is right to rise. */
#ifndef NIGHTSHIFT_METRIC_DIRECTION_H
#define NIGHTSHIFT_METRIC_DIRECTION_H

#include <stdbool.h>

bool metric_larger_is_better(const char *name);

#endif
