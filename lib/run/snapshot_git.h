/*
 * What git knows of a directory, by running git: nothing of the repository is changed, not even its index. Where git is
 * missing, refuses (another owner) or knows nothing, that is said and the caller walks the directory.
 */
#ifndef NIGHTSHIFT_RUN_SNAPSHOT_GIT_H
#define NIGHTSHIFT_RUN_SNAPSHOT_GIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"

struct git_state {
	char *top;        /* top directory of the work tree, owned; NULL: no repository */
	char commit[80];  /* "" before the first commit */
	char branch[256]; /* "" when detached */
	char describe[256];
	char under_way[32];   /* "merge", "rebase", ... or "" */
	int64_t time;         /* of the commit; 0 without one */
	size_t changed;       /* tracked files that differ from the commit */
	struct names remotes; /* "NAME<TAB>URL" without user and password */
};
/* `why` (at least 256 bytes) says why there is none. Fails only for lack of memory. */
int git_state_read(const char *directory, struct git_state *state, char *why, size_t size);
void git_state_release(struct git_state *state);

/* Names below `top`, relative to it, unsorted: tracked ones (with `others` false; a submodule is one name), or those that are neither
 * tracked nor ignored (a repository within ends with "/"). */
int git_list(const char *top, bool others, struct names *names);
/* HEAD of the repository at `path`, "" when it has none. */
void git_commit(const char *path, char commit[80]);

/* A URL without user and password, in place. */
void git_strip_url(char *url);

#endif
