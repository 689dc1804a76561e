/* Parts that are loaded when they are needed: files beside the programs, in the source tree and installed. */
#ifndef NIGHTSHIFT_BASE_PLUGIN_H
#define NIGHTSHIFT_BASE_PLUGIN_H

#include <stdbool.h>

/*
 * The table that the plugin `file` ("nightshift-NAME.so") exports as `symbol`; it stays loaded, and asking again costs little.
 * `shared`: its libraries look for each other's symbols among all. STATUS_UNAVAILABLE: not there (the message is `missing`), or
 * it cannot be loaded.
 */
int plugin_load(const char *file, const char *symbol, bool shared, const char *missing, const void **table);

#endif
