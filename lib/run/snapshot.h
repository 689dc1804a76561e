/*
 * Code snapshots: the source state of a run as RUN/code.tar.gz and RUN/code.manifest; the same bytes for the same state.
 *
 * code.manifest is a table "#kind name value bytes note": where the code was and what git says of it (directory, commit, branch,
 * describe, remote, state, submodule), the digest of the uncompressed archive (tar), each file and link, what was left out and
 * why (omitted), and the programs and shared libraries that are used, with digests. Digests are SHA-256.
 *
 * A run that has begun keeps its snapshot; a later start that finds other code or other binaries writes down what it found as
 * code-JOB.RESTART.manifest.
 */
#ifndef NIGHTSHIFT_RUN_SNAPSHOT_H
#define NIGHTSHIFT_RUN_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "run/run.h"

/* Takes the snapshot of the code in `directory`. Large files are left out, and too many refused, unless `force`. Says on stderr
 * what was left out and what differs from the run's first snapshot. */
int snapshot_take(const struct run *run, const char *directory, bool force);

/* Compares the code in `directory` (NULL: where the snapshot was taken) and the archive with RUN/code.manifest: rows "#change kind name" (added, removed, changed) are appended to
 * `rows`; *count is their number. STATUS_NO_INPUT without a manifest, STATUS_DATA when it or the archive is damaged. */
int snapshot_verify(
	const struct run *run, const char *directory, bool force, struct text *rows, size_t *count);

#endif
