/* Presets: files NAME.cfg that come with the project. */
#ifndef NIGHTSHIFT_CONFIG_PRESET_H
#define NIGHTSHIFT_CONFIG_PRESET_H

#include <stdbool.h>

/* Whether a word of the command line names a preset: neither a path nor a file name with .cfg. */
bool preset_is_name(const char *word);
/* Finds NAME.cfg in $NIGHTSHIFT_HOME/slurm/presets, or beside the program in ../slurm/presets or
 * ../share/nightshift/slurm/presets. *path is owned by the caller. STATUS_NO_INPUT names the nearest preset. */
int preset_find(const char *name, char **path);

#endif
