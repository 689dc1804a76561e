/*
 * Staging: complete local copies of datasets, one a node, shared by the jobs there (spec/slurm.md section 3).
 *
 *	SCRATCH/nightshift-USER/          mode 0700, ours
 *	  KEY.lock                        flock: shared by readers, exclusive while the copy is filled or mended
 *	  KEY/data/...                    the copy; directories 0700, files 0600; or one pack, KEY/data/pack.tar
 *	  KEY/journal                     while filling: "crc32c<TAB>bytes<TAB>offset<TAB>path" of each piece that is whole
 *	  KEY/MANIFEST                    "crc32c<TAB>bytes<TAB>path", sorted, last the CRC of the rows: there means complete
 *	  KEY/size                        what it takes or will take; the time of KEY.lock is that of its last use
 *	  KEY/boot                        the boot in which it was filled; after another one the bytes are read back first
 *
 * KEY is a digest of the source: its path and the name, size and modification time of each file. A changed source is
 * another copy; a whole copy is never written to. The lock dies with its process, so a stager that was killed is
 * followed by the next, which goes on from the journal.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_H
#define NIGHTSHIFT_RUN_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "run/run.h"

struct stage_options {
	const char *
		to; /* scratch directory; NULL or "": the site's usual places, and what is local stays where it is */
	bool in_place; /* copy nothing */
	bool verify;   /* read the copy back and compare it with the digests taken while reading the source */
	bool follow;   /* links that leave the source are followed instead of refused */
	int jobs;      /* files copied at once; 0: chosen */
	bool pack;     /* a directory becomes one pack (file/pack.h), as which it is read */
	uint64_t budget;  /* bytes that the copies of this user may take on the node's scratch; 0: no limit */
	const char *list; /* NULL, or a file that names the wanted files below the source, one a line */
	bool null;        /* names in the list end with NUL instead of newline */
};

struct staged {
	char *path;                          /* where to read, owned */
	char key[33];                        /* "-" where nothing was copied */
	uint64_t files, bytes;               /* in all; 0 in place */
	uint64_t copied_files, copied_bytes; /* by this call */
};
void staged_release(struct staged *staged);

/*
 * Brings one source (a directory, a file, or a tar archive, which is unpacked) to local scratch, or finds it
 * there. STATUS_AGAIN when a notice came: what is whole stays and is not copied again. STATUS_CANNOT_CREATE
 * before the first byte when space or inodes do not suffice. STATUS_DATA when the source changed meanwhile or
 * holds links that leave it.
 */
int stage_source(const char *source, const struct stage_options *options, struct staged *staged);

#define STAGE_HEADER "#name\tpath\tkey\tsource\n"
/* Every data group of the run; publishes RUN/staged/HOST.tsv and appends the same rows (STAGE_HEADER) to `rows`. */
int stage_run(const struct run *run, const struct stage_options *options, struct text *rows);

/* Keeps the copy behind `path` (a path of RUN/staged/HOST.tsv) until this process ends: takes the shared
 * lock. Any other path: nothing to keep, STATUS_OK. STATUS_UNAVAILABLE when the copy is gone or is being
 * filled: read the source instead. */
int stage_hold(const char *path);

#endif
