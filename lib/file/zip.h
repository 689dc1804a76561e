/*
 * ZIP archives of stored members, as PyTorch's checkpoints are: read through the central directory (sizes in local headers are
 * 0 there), ZIP64 included; members' data stay where they are in memory. Split archives are refused. The
 * CRC-32 of each member is checked, but for one of 0, which PyTorch writes where it was told to save the time.
 */
#ifndef NIGHTSHIFT_FILE_ZIP_H
#define NIGHTSHIFT_FILE_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "base/files.h"

struct zip_member {
	char *name;
	const unsigned char *data; /* borrowed from the archive; NULL: compressed, which is not read */
	size_t bytes;
};
struct zip {
	struct zip_member *member; /* sorted by name; directories left out */
	size_t count, capacity;
};
/* STATUS_DATA; on failure *zip is empty. */
int zip_decode(const char *name, const void *data, size_t bytes, struct zip *zip);
void zip_release(struct zip *zip);
/* NULL when there is none of that name. */
const struct zip_member *zip_find(const struct zip *zip, const char *name);

/* The writer: members in the order given, each member's data at a multiple of 64 bytes. */
struct zip_entry {
	char *name;
	uint64_t offset, bytes;
	uint32_t crc;
};
struct zip_writer {
	struct publish *publish;
	struct zip_entry *entry;
	size_t count, capacity;
};
int zip_add(struct zip_writer *writer, const char *name, const void *data, size_t bytes);
/* The central directory; the caller commits. */
int zip_finish(struct zip_writer *writer);
void zip_writer_release(struct zip_writer *writer);

#endif
