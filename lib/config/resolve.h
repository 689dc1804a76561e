/* From assignments to values: interpolation, conversion, absolute paths. */
#ifndef NIGHTSHIFT_CONFIG_RESOLVE_H
#define NIGHTSHIFT_CONFIG_RESOLVE_H

#include "config/internal.h"

/* Fills every slot's value and source from its assignment or default. STATUS_CONFIG, with the source in
 * front. */
int config_resolve(struct config *config);

#endif
