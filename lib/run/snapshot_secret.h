/* Secrets that must not end up in a snapshot: by a file's name, and by what stands in it. */
#ifndef NIGHTSHIFT_RUN_SNAPSHOT_SECRET_H
#define NIGHTSHIFT_RUN_SNAPSHOT_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Whether files of this name (a path below the tree) hold keys or passwords by custom. */
bool secret_name(const char *path);
/* What kind of secret the text holds ("private key", "GitHub token", ...); NULL: none that is known. */
const char *secret_content(const char *data, size_t bytes);

#endif
