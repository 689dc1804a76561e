/* What one key's type and range cannot say: keys that must fit each other. */
#ifndef NIGHTSHIFT_CONFIG_CHECK_H
#define NIGHTSHIFT_CONFIG_CHECK_H

#include "config/config.h"

/* STATUS_CONFIG: names the keys, their values and where they came from. */
int config_check(const struct config *config);
/* Warns of what is allowed and seldom meant: validation without data, no checkpoints. */
void config_warn(const struct config *config);

#endif
