/*
 * HDF5 files of byte strings: datasets of one dimension whose elements are bytes of any length, as videos are kept in (an element is
 * an image file).
 *
 * A reader of our own for what h5py and the HDF5 library write in such a case (superblocks 0 to 3, groups with symbol tables or
 * compact links, data in one piece or in chunks indexed by a version 1 B-tree; no filters). The library itself crashes on about one
 * damaged file of a hundred and serves one thread at a time; this one reads what it needs at its place, from packs too, and trusts no
 * number. What is stored otherwise is STATUS_DATA with the way out.
 */
#ifndef NIGHTSHIFT_FILE_HDF5_H
#define NIGHTSHIFT_FILE_HDF5_H

#include <stdint.h>

#include "file/source.h"

struct hdf5;
/* `name` is for messages. */
int hdf5_open(const char *name, const struct source_place *place, struct hdf5 **file);
void hdf5_close(struct hdf5 *file);

struct hdf5_strings {
	const char *name; /* borrowed: of the caller */
	uint64_t count;
	uint64_t address; /* of the elements, or of the tree of chunks */
	uint64_t chunk;   /* elements of a chunk; 0: one piece */
};
/* A dataset of the root group. */
int hdf5_find(struct hdf5 *file, const char *name, struct hdf5_strings *strings);
/* Element i, at most `limit` bytes; *data is owned by the caller. Thread-safe. */
int hdf5_read(struct hdf5 *file, const struct hdf5_strings *strings, uint64_t i, size_t limit, char **data, size_t *bytes);

#endif
