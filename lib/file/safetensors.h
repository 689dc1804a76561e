/*
 * safetensors (spec/formats.md section 3), in single files and in shards with a diffusers index.json.
 *
 * A file's bytes depend only on the tensors (names, types, shapes, values) and metadata. The reader performs all checks
 * of the specification before any use, and reads the data once, sequentially, into memory.
 */
#ifndef NIGHTSHIFT_FILE_SAFETENSORS_H
#define NIGHTSHIFT_FILE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum safetensors_type { /* in the writer's order of the format */
	SAFETENSORS_U64,
	SAFETENSORS_I64,
	SAFETENSORS_F64,
	SAFETENSORS_F32,
	SAFETENSORS_U32,
	SAFETENSORS_I32,
	SAFETENSORS_BF16,
	SAFETENSORS_F16,
	SAFETENSORS_U16,
	SAFETENSORS_I16,
	SAFETENSORS_I8,
	SAFETENSORS_U8,
	SAFETENSORS_BOOL
};
/* Bytes an element. */
size_t safetensors_type_size(enum safetensors_type type);
const char *safetensors_type_name(enum safetensors_type type);

struct safetensor {
	char *name; /* owned by the file when read, borrowed when written */
	enum safetensors_type type;
	int dims;
	int64_t dim[8];
	size_t bytes;
	const void *data; /* into the file's buffer when read (aligned to the element's size where the file is
	                         in the writer's order, so in all of ours), borrowed when written */
};

struct safetensors {
	struct safetensor *tensor; /* sorted by name when read */
	size_t count;
	void *buffer; /* owned */
	size_t buffer_bytes;
};
void safetensors_release(struct safetensors *file);
/* A file that fails any check is STATUS_DATA with a message that names it; more than 8 dimensions and element types
 * beyond the list above are refused. On failure *file is empty. */
int safetensors_read(const char *path, struct safetensors *file);
int safetensors_decode(
	const char *name, const void *data, size_t bytes, struct safetensors *file); /* copies */
/* Takes over `data` (from malloc; freed in every case): for a caller who has read and checked the bytes himself. */
int safetensors_take(const char *name, void *data, size_t bytes, struct safetensors *file);
/* NULL when there is none of that name. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);
/* Takes `prefix` off all names where all have it and more (names saved from a wrapper around the network); whether it did. */
bool safetensors_strip(struct safetensors *file, const char *prefix);
/* Elements of F32, F16, BF16 or F64 as float32 into `out` (product of dim elements); other types: STATUS_DATA. */
int safetensors_to_float(const struct safetensor *tensor, float *out);

/*
 * The writer: tensors in any order, names unique, `bytes` equal to the shape's; anything else is STATUS_FAILURE. The
 * metadata is always {"format": "pt"}, which other loaders ask for.
 */
/* The header block (8-byte length included) that safetensors_publish() would write; owned by the caller. */
int safetensors_header(const struct safetensor *tensor, size_t count, char **header, size_t *bytes);
/* Publishes one file; *crc (may be NULL) is the CRC-32C of the whole file, *bytes (may be NULL) its length. */
int safetensors_publish(
	const char *path, const struct safetensor *tensor, size_t count, uint32_t *crc, uint64_t *bytes);

/* The sharding rule: tensors sorted by name are put into shards of at most `limit` data bytes in that order (a larger
 * tensor is a shard of its own). Fills shard[i] (0-based, for tensors in the caller's order) and *shards. */
int safetensors_shards(
	const struct safetensor *tensor, size_t count, uint64_t limit, int *shard, int *shards);
/* "STEM.safetensors" for a single shard, else "STEM-00001-of-00003.safetensors"; owned by the caller. */
char *safetensors_shard_name(const char *stem, int shard, int shards);
/* diffusers' index.json for several shards, published at path; it names shards by the last part of `stem`. */
int safetensors_index(const char *stem, const struct safetensor *tensor, size_t count, const int *shard,
	int shards, char **json, size_t *bytes);
int safetensors_publish_index(const char *path, const char *stem, const struct safetensor *tensor,
	size_t count, const int *shard, int shards);
/* Reads STEM.safetensors or, by its index, all shards, from a directory; a tensor that is not in the shard the index
 * says, or in no map, is STATUS_DATA; STATUS_NO_INPUT when there is neither file. `files` (owned by the caller, each
 * released, then free()) has *count entries. */
int safetensors_read_directory(
	const char *directory, const char *stem, struct safetensors **files, int *count);

#endif
