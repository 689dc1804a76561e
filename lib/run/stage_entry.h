/*
 * One entry of a node's cache of copies: where it is, whose it is, and its lock (layout: run/stage.h).
 *
 * Names in /tmp can be made by anybody before us: the cache directory must be a real directory that belongs
 * to us, and is made inaccessible to others.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_ENTRY_H
#define NIGHTSHIFT_RUN_STAGE_ENTRY_H

#include <stdbool.h>

#include "base/text.h"

/* Whether the file system of `path` is known to belong to this node alone. A missing path asks for its
 * nearest parent. */
bool stage_is_local(const char *path);
/* The node's scratch directory, owned by the caller: SLURM_TMPDIR, JOBSCRATCH, LOCAL_SCRATCH, SCRATCHDIR,
 * TMPDIR where they are local, else /tmp with a warning. */
char *stage_scratch(void);

enum stage_lock { STAGE_SHARED, STAGE_EXCLUSIVE };

struct stage_entry {
	char *path;     /* SCRATCH/nightshift-USER/KEY */
	char *data;     /* .../data */
	char *manifest; /* .../MANIFEST */
	char *journal;  /* .../journal */
	char *boot;     /* .../boot */
	char *lock_path;
	int lock; /* descriptor; -1 while unlocked */
};
/* Makes SCRATCH/nightshift-USER where it is missing. STATUS_PERMISSION when it is a link or another user's.
 */
int stage_entry_open(struct stage_entry *entry, const char *scratch, const char *key);
void stage_entry_release(struct stage_entry *entry); /* and unlocks */

/* Takes the lock if nobody is in the way (*taken). */
int stage_entry_try(struct stage_entry *entry, enum stage_lock kind, bool *taken);
/* Waits for it, saying so once; a lock dies with its holder. STATUS_AGAIN on notice. */
int stage_entry_wait(struct stage_entry *entry, enum stage_lock kind);
void stage_entry_unlock(struct stage_entry *entry);

/* Writes a small file of the entry under its name by rename. No fsync: it would write the whole copy out too,
 * and a crash of the node is met by the boot file. */
int stage_entry_write(const char *path, const struct text *text);
/* Whether the entry was filled since the node started. */
bool stage_entry_same_boot(const struct stage_entry *entry);
int stage_entry_mark_boot(const struct stage_entry *entry);

#endif
