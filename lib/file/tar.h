/*
 * tar: reading by libarchive (plain, or compressed by gzip, bzip2, xz, zstd, lz4), and our deterministic ustar writer
 * (spec/formats.md section 8).
 *
 * Reading refuses absolute names, "..", devices, sparse members and cut archives (STATUS_DATA, the message names archive
 * and member); links are given as such: whoever extracts must not follow them. An archive without its end mark is read
 * with a warning. Names are bytes in no particular encoding. Names may come twice: the last one counts.
 */
#ifndef NIGHTSHIFT_FILE_TAR_H
#define NIGHTSHIFT_FILE_TAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

struct tar_member {
	const char *name;   /* without leading "./"; borrowed until the next member */
	char type;          /* 'f' file, 'd' directory, 'l' symbolic link, 'h' hard link */
	const char *target; /* of links */
	uint64_t bytes;
	unsigned mode;    /* permission bits alone: no set-user-id */
	int64_t modified; /* seconds since 1970 */
};
struct tar_reader;
int tar_open(const char *path, struct tar_reader **reader);
/* *member is NULL at the end of the archive. */
int tar_next(struct tar_reader *reader, const struct tar_member **member);
/* Reads up to `bytes` of the present member; *got is 0 at its end. */
int tar_read(struct tar_reader *reader, void *data, size_t bytes, size_t *got);
void tar_close(struct tar_reader *reader);

/*
 * The writer hands its bytes to a sink (a file, a compressor, a digest). Members in the order given: the caller sorts by
 * the bytes of the name, directories before their content. Files have mode 0644 or 0755, directories 0755, links 0777;
 * owner 0, no owner names; a pax header only where a name or size needs one. Equal members give equal bytes.
 */
struct tar_writer {
	int (*sink)(void *context, const void *data, size_t bytes);
	void *context;
	int64_t modified; /* mtime of every member */
};
int tar_write_file(
	struct tar_writer *writer, const char *name, bool executable, const void *data, size_t bytes);
/* The header alone: `bytes` bytes and zeros up to a multiple of 512 must follow. */
int tar_begin_file(struct tar_writer *writer, const char *name, bool executable, uint64_t bytes);
int tar_write_link(struct tar_writer *writer, const char *name, const char *target);
int tar_write_directory(struct tar_writer *writer, const char *name);
int tar_finish(struct tar_writer *writer);

#endif
