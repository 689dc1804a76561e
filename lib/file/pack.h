/*
 * Packs: many files as one, read by name at random.
 *
 * A pack is a tar archive of directories and files that any tar unpacks. Its last member, PACK_INDEX, holds an index and ends
 * with a trailer that lies right before the archive's two empty blocks, so that a reader finds it from the end of the file and
 * opens a pack of millions of files at once. All numbers are little-endian:
 *
 *	entry    32 bytes each, in byte order of the names: u64 offset of the data in the file, u64 bytes, u64 offset of the name
 *	         among the names, u32 CRC-32C of the data, u32 length of the name
 *	names    each with a NUL behind it; a directory's ends with a slash and has no data
 *	zeros    up to a multiple of 512 bytes of the whole member
 *	trailer  64 bytes: "NSHPACK1", u64 offset of the entries in the file, u64 entries, u64 bytes of the names, u64 bytes of the
 *	         file, u32 CRC-32C of entries and names, 16 zeros, u32 CRC-32C of the 60 bytes before
 */
#ifndef NIGHTSHIFT_FILE_PACK_H
#define NIGHTSHIFT_FILE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_INDEX ".nightshift-index"

struct pack_entry {
	const char *name; /* borrowed: of the pack when read */
	uint64_t offset, bytes;
	uint32_t crc;
};

struct pack;
/* Maps the index and checks all of it. STATUS_DATA: damaged or cut; *pack is NULL with STATUS_OK where the file is no pack. The
 * file must not shrink while it is open. */
int pack_open(const char *path, struct pack **pack);
void pack_close(struct pack *pack);
size_t pack_count(const struct pack *pack);
void pack_get(const struct pack *pack, size_t i, struct pack_entry *entry);
/* The first entry whose name is not below `name` in byte order; pack_count() when all are. */
size_t pack_lower(const struct pack *pack, const char *name);
bool pack_find(const struct pack *pack, const char *name, struct pack_entry *entry);
/* All of an entry's data into `data`, compared with its digest. `path` is for messages. Thread-safe. */
int pack_read(const struct pack *pack, const struct pack_entry *entry, const char *path, void *data);

/* Checks the last `bytes` bytes of a file of `file_bytes` bytes, as pack_open() does. *found: it is a pack. For tests. */
int pack_check(const char *name, const void *data, size_t bytes, uint64_t file_bytes, bool *found);

/* What closes a pack whose members end at `offset` (a multiple of 512): the index member and the end of the archive, from entries
 * in any order, which are sorted. *data is owned by the caller. Two of one name: STATUS_FAILURE. */
int pack_tail(struct pack_entry *entries, size_t count, uint64_t offset, char **data, size_t *bytes);

#endif
