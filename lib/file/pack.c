/* Packs: the index. */
#include "file/pack.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/tar.h"

enum { BLOCK = 512, END_BYTES = 2 * BLOCK, ENTRY_BYTES = 32, TRAILER_BYTES = 64, CHECKED_BYTES = 60 };
static const char magic[8] = "NSHPACK1";

struct trailer {
	uint64_t begin, count, names, file_bytes;
	uint32_t crc;
};

/* The index in memory: what the checks and the look-ups need. */
struct index {
	const unsigned char *entries;
	const char *names;
	size_t count;
};

struct pack {
	int descriptor;
	struct index index;
	void *map;
	size_t map_bytes;
};

static uint64_t get_u64(const unsigned char *data)
{
	uint64_t value;
	memcpy(&value, data, sizeof value);
	return le64toh(value);
}

static uint32_t get_u32(const unsigned char *data)
{
	uint32_t value;
	memcpy(&value, data, sizeof value);
	return le32toh(value);
}

static void put_u64(unsigned char *data, uint64_t value)
{
	value = htole64(value);
	memcpy(data, &value, sizeof value);
}

static void put_u32(unsigned char *data, uint32_t value)
{
	value = htole32(value);
	memcpy(data, &value, sizeof value);
}

/* ---- checks ---- */

/* *found false: the bytes are no trailer. */
static int parse_trailer(const char *name, const unsigned char *data, uint64_t file_bytes,
	struct trailer *trailer, bool *found)
{
	uint64_t index_bytes;
	*found = memcmp(data, magic, sizeof magic) == 0;
	if (!*found)
		return STATUS_OK;
	*trailer = (struct trailer){.begin = get_u64(data + 8),
		.count = get_u64(data + 16),
		.names = get_u64(data + 24),
		.file_bytes = get_u64(data + 32),
		.crc = get_u32(data + 40)};
	if (get_u32(data + CHECKED_BYTES) != crc32c(0, data, CHECKED_BYTES))
		return error_set(STATUS_DATA, "%s: the end of the pack is damaged", name);
	if (trailer->file_bytes != file_bytes)
		return error_set(STATUS_DATA, "%s: %llu bytes, the pack had %llu", name,
			(unsigned long long)file_bytes, (unsigned long long)trailer->file_bytes);
	uint64_t end = file_bytes - END_BYTES - TRAILER_BYTES;
	if (trailer->count > end / ENTRY_BYTES || trailer->names > end || trailer->begin > end)
		return error_set(STATUS_DATA, "%s: the pack's index does not fit into it", name);
	index_bytes = trailer->count * ENTRY_BYTES + trailer->names;
	if (index_bytes > end - trailer->begin || end - trailer->begin - index_bytes >= BLOCK)
		return error_set(STATUS_DATA, "%s: the pack's index does not fit into it", name);
	return STATUS_OK;
}

static void read_entry(const struct index *index, size_t i, struct pack_entry *entry)
{
	const unsigned char *data = index->entries + i * ENTRY_BYTES;
	*entry = (struct pack_entry){.offset = get_u64(data),
		.bytes = get_u64(data + 8),
		.name = index->names + get_u64(data + 16),
		.crc = get_u32(data + 24)};
}

/* One entry by itself and against the one before it. */
static bool entry_is_good(const struct index *index, const struct trailer *trailer, size_t i)
{
	const unsigned char *data = index->entries + i * ENTRY_BYTES;
	uint64_t name = get_u64(data + 16), length = get_u32(data + 28);
	struct pack_entry entry, before;
	if (name >= trailer->names || length >= trailer->names - name || !length)
		return false;
	read_entry(index, i, &entry);
	if (entry.name[length] || memchr(entry.name, 0, length) || !path_is_inside(entry.name))
		return false;
	if (entry.offset > trailer->begin || entry.bytes > trailer->begin - entry.offset)
		return false;
	if (!i)
		return true;
	read_entry(index, i - 1, &before);
	return strcmp(before.name, entry.name) < 0;
}

/* `data`: the bytes of the index, of which the trailer was good. */
static int parse_index(
	const char *name, const unsigned char *data, const struct trailer *trailer, struct index *index)
{
	size_t entries = (size_t)trailer->count * ENTRY_BYTES;
	*index = (struct index){data, (const char *)data + entries, (size_t)trailer->count};
	if (crc32c(0, data, entries + (size_t)trailer->names) != trailer->crc)
		return error_set(STATUS_DATA, "%s: the pack's index is damaged", name);
	for (size_t i = 0; i < index->count; i++)
		if (!entry_is_good(index, trailer, i))
			return error_set(STATUS_DATA, "%s: entry %zu of the pack's index is wrong", name, i);
	return STATUS_OK;
}

int pack_check(const char *name, const void *data, size_t bytes, uint64_t file_bytes, bool *found)
{
	struct trailer trailer;
	struct index index;
	const unsigned char *end = (const unsigned char *)data + bytes;
	*found = false;
	if (bytes < END_BYTES + TRAILER_BYTES || bytes > file_bytes)
		return STATUS_OK;
	int status = parse_trailer(name, end - END_BYTES - TRAILER_BYTES, file_bytes, &trailer, found);
	if (status || !*found)
		return status;
	if (file_bytes - trailer.begin > bytes)
		return error_set(STATUS_DATA, "%s: the pack's index is cut", name);
	return parse_index(name, end - (file_bytes - trailer.begin), &trailer, &index);
}

/* ---- reading ---- */

static int read_at(int descriptor, const char *path, void *data, size_t bytes, uint64_t offset)
{
	size_t got;
	if (!file_read_at(descriptor, data, bytes, offset, &got))
		return error_errno(0, "%s", path);
	return got == bytes ? STATUS_OK : error_set(STATUS_DATA, "%s: the pack is cut", path);
}

static int map_index(struct pack *pack, const char *path, const struct trailer *trailer)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (size_t)(trailer->begin % page);
	pack->map_bytes = before + (size_t)(trailer->file_bytes - trailer->begin);
	pack->map = mmap(NULL, pack->map_bytes, PROT_READ, MAP_SHARED, pack->descriptor,
		(off_t)(trailer->begin - before));
	if (pack->map == MAP_FAILED) {
		pack->map = NULL;
		return error_errno(0, "cannot map the index of %s", path);
	}
	return parse_index(path, (const unsigned char *)pack->map + before, trailer, &pack->index);
}

static int open_index(struct pack *pack, const char *path, bool *found)
{
	unsigned char end[TRAILER_BYTES];
	struct trailer trailer;
	struct stat information;
	if (fstat(pack->descriptor, &information))
		return error_errno(0, "%s", path);
	uint64_t bytes = (uint64_t)information.st_size;
	if (!S_ISREG(information.st_mode) || bytes < END_BYTES + TRAILER_BYTES)
		return STATUS_OK;
	int status = read_at(pack->descriptor, path, end, sizeof end, bytes - END_BYTES - TRAILER_BYTES);
	if (!status)
		status = parse_trailer(path, end, bytes, &trailer, found);
	return status || !*found ? status : map_index(pack, path, &trailer);
}

int pack_open(const char *path, struct pack **pack)
{
	bool found = false;
	struct pack *opened = memory_new(1, sizeof *opened);
	*pack = NULL;
	if (!opened)
		return error_status();
	opened->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int status = opened->descriptor < 0 ? error_errno(0, "%s", path) : open_index(opened, path, &found);
	if (status || !found)
		pack_close(opened);
	else
		*pack = opened;
	return status;
}

void pack_close(struct pack *pack)
{
	if (!pack)
		return;
	if (pack->map)
		munmap(pack->map, pack->map_bytes);
	if (pack->descriptor >= 0)
		close(pack->descriptor);
	free(pack);
}

size_t pack_count(const struct pack *pack)
{
	return pack->index.count;
}

void pack_get(const struct pack *pack, size_t i, struct pack_entry *entry)
{
	read_entry(&pack->index, i, entry);
}

size_t pack_lower(const struct pack *pack, const char *name)
{
	size_t low = 0, high = pack->index.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct pack_entry entry;
		read_entry(&pack->index, middle, &entry);
		if (strcmp(entry.name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool pack_find(const struct pack *pack, const char *name, struct pack_entry *entry)
{
	size_t i = pack_lower(pack, name);
	if (i == pack->index.count)
		return false;
	read_entry(&pack->index, i, entry);
	return strcmp(entry->name, name) == 0;
}

int pack_read(const struct pack *pack, const struct pack_entry *entry, const char *path, void *data)
{
	int status = read_at(pack->descriptor, path, data, (size_t)entry->bytes, entry->offset);
	if (!status && crc32c(0, data, (size_t)entry->bytes) != entry->crc)
		status = error_set(STATUS_IO, "%s: differs from what was packed; stage it again", path);
	return status;
}

/* ---- writing ---- */

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct pack_entry *)a)->name, ((const struct pack_entry *)b)->name);
}

/* Sorts; *bytes: of the names. */
static int sort_entries(struct pack_entry *entries, size_t count, size_t *bytes)
{
	if (count)
		qsort(entries, count, sizeof *entries, compare_entries);
	*bytes = 0;
	for (size_t i = 0; i < count; i++) {
		if (i && !strcmp(entries[i - 1].name, entries[i].name))
			return error_set(STATUS_FAILURE, "%s: twice in one pack", entries[i].name);
		*bytes += strlen(entries[i].name) + 1;
	}
	return STATUS_OK;
}

static void fill_entries(const struct pack_entry *entries, size_t count, unsigned char *data)
{
	size_t place = 0;
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(entries[i].name);
		unsigned char *entry = data + i * ENTRY_BYTES;
		put_u64(entry, entries[i].offset);
		put_u64(entry + 8, entries[i].bytes);
		put_u64(entry + 16, place);
		put_u32(entry + 24, entries[i].crc);
		put_u32(entry + 28, (uint32_t)length);
		memcpy(data + count * ENTRY_BYTES + place, entries[i].name, length + 1);
		place += length + 1;
	}
}

static void fill_trailer(const struct trailer *trailer, unsigned char *data)
{
	memcpy(data, magic, sizeof magic);
	put_u64(data + 8, trailer->begin);
	put_u64(data + 16, trailer->count);
	put_u64(data + 24, trailer->names);
	put_u64(data + 32, trailer->file_bytes);
	put_u32(data + 40, trailer->crc);
	put_u32(data + CHECKED_BYTES, crc32c(0, data, CHECKED_BYTES));
}

static int append(void *context, const void *data, size_t bytes)
{
	text_append(context, data, bytes);
	return text_check(context);
}

int pack_tail(struct pack_entry *entries, size_t count, uint64_t offset, char **data, size_t *bytes)
{
	struct text out = {0};
	struct tar_writer writer = {.sink = append, .context = &out};
	size_t names, used;
	int status = sort_entries(entries, count, &names);
	if (status)
		return status;
	used = count * ENTRY_BYTES + names;
	size_t member = (used + TRAILER_BYTES + BLOCK - 1) / BLOCK * BLOCK;
	unsigned char *index = memory_new(member, 1);
	if (!index)
		return error_status();
	fill_entries(entries, count, index);
	struct trailer trailer = {.begin = offset + BLOCK,
		.count = count,
		.names = names,
		.file_bytes = offset + BLOCK + member + END_BYTES,
		.crc = crc32c(0, index, used)};
	fill_trailer(&trailer, index + member - TRAILER_BYTES);
	status = tar_write_file(&writer, PACK_INDEX, false, index, member);
	free(index);
	if (!status)
		status = tar_finish(&writer);
	if (!status && out.length != trailer.file_bytes - offset)
		status = error_set(STATUS_FAILURE, "the index of a pack is too large");
	*data = status ? NULL : text_take(&out);
	*bytes = status ? 0 : (size_t)(trailer.file_bytes - offset);
	text_release(&out);
	return status ? status : *data ? STATUS_OK : error_status();
}
