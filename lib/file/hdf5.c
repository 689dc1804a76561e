/* HDF5 files of byte strings. */
#include "file/hdf5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

enum {
	TREE_LEVELS = 8,
	LOOKS = 1 << 16,
	HEADER_BLOCKS = 64,    /* of one object */
	BLOCK_LIMIT = 1 << 20, /* bytes of a block of messages or a node */
	NAME_LIMIT = 256,
	ELEMENT = 16, /* bytes of a reference to a string: length, address of its heap, number in it */
	REFERENCE_AT = 4,
	OBJECT = 16 /* bytes before an object in a heap */
};
#define NOWHERE UINT64_MAX

enum message {
	MESSAGE_SPACE = 1,
	MESSAGE_LINK_INFO = 2,
	MESSAGE_TYPE = 3,
	MESSAGE_LINK = 6,
	MESSAGE_LAYOUT = 8,
	MESSAGE_FILTERS = 11,
	MESSAGE_CONTINUED = 16,
	MESSAGE_TABLE = 17
};

struct hdf5 {
	char *name;
	int descriptor;
	uint64_t offset, bytes; /* of the file in the one on disk */
	uint64_t base, root;    /* addresses count from base; the root group's header */
};

static int bad(const struct hdf5 *file, const char *what)
{
	return error_set(STATUS_DATA, "%s: damaged HDF5 file: %s", file->name, what);
}

static uint64_t number(const unsigned char *data, int bytes)
{
	uint64_t value = 0;

	for (int i = bytes; i-- > 0;)
		value = value << 8 | data[i];
	return value;
}

/* Bytes at an address. */
static int fetch(const struct hdf5 *file, uint64_t address, void *data, size_t bytes)
{
	uint64_t at = file->base + address;
	size_t got;

	if (address > file->bytes || at > file->bytes || bytes > file->bytes - at)
		return bad(file, "something is said to lie behind its end");
	if (!file_read_at(file->descriptor, data, bytes, file->offset + at, &got))
		return error_errno(STATUS_IO, "%s", file->name);
	return got == bytes ? STATUS_OK : bad(file, "it ends early");
}

/* ---- objects: a header is a list of messages in blocks ---- */

struct walk {
	/* Called with each message; *stop ends the walk. */
	int (*take)(
		const struct hdf5 *file, void *context, int type, const unsigned char *data, size_t bytes);
	void *context;
	uint64_t block[HEADER_BLOCKS]; /* address and length of those that follow */
	uint64_t length[HEADER_BLOCKS];
	int blocks;
	bool second; /* version 2: other heads of messages, signatures and checksums */
	bool ordered;
};

static int walk_message(
	const struct hdf5 *file, struct walk *walk, int type, const unsigned char *data, size_t bytes)
{
	if (type != MESSAGE_CONTINUED)
		return walk->take(file, walk->context, type, data, bytes);
	if (bytes < 16 || walk->blocks == HEADER_BLOCKS)
		return bad(file, "a header goes on without end");
	walk->block[walk->blocks] = number(data, 8);
	walk->length[walk->blocks++] = number(data + 8, 8);
	return STATUS_OK;
}

static int walk_block(
	const struct hdf5 *file, struct walk *walk, uint64_t address, uint64_t length, bool first)
{
	size_t head = walk->second ? (walk->ordered ? 6 : 4) : 8, at = 0, end = (size_t)length;
	unsigned char *data;
	int status;

	if (length > BLOCK_LIMIT || length < 8)
		return bad(file, "a header of a size that cannot be");
	data = memory_new(end, 1);
	status = data ? fetch(file, address, data, end) : error_status();
	if (!status && walk->second && !first) {
		if (memcmp(data, "OCHK", 4) != 0)
			status = bad(file, "no header where one should go on");
		at = 4;
		end -= 4; /* the checksum */
	}
	while (!status && at + head <= end) {
		int type = (int)number(data + at, walk->second ? 1 : 2);
		size_t bytes = (size_t)number(data + at + (walk->second ? 1 : 2), 2);

		at += head;
		if (bytes > end - at)
			status = bad(file, "a message longer than its header");
		else
			status = walk_message(file, walk, type, data + at, bytes);
		at += bytes;
	}
	free(data);
	return status;
}

static int walk_header(const struct hdf5 *file, uint64_t address,
	int (*take)(
		const struct hdf5 *file, void *context, int type, const unsigned char *data, size_t bytes),
	void *context)
{
	struct walk walk = {.take = take, .context = context};
	unsigned char head[32];
	uint64_t length, start;
	int status = fetch(file, address, head, 16);

	if (status)
		return status;
	walk.second = !memcmp(head, "OHDR", 4);
	if (walk.second) {
		int flags = head[5], width = 1 << (flags & 3);

		start = 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0);
		status = fetch(file, address + start, head, (size_t)width);
		length = number(head, width);
		start += (uint64_t)width;
		walk.ordered = flags & 4;
	} else {
		start = 16;
		length = number(head + 8, 4);
		if (head[0] != 1)
			status = bad(file, "no object where one should be");
	}
	if (!status)
		status = walk_block(file, &walk, address + start, length, true);
	for (int i = 0; !status && i < walk.blocks; i++)
		status = walk_block(file, &walk, walk.block[i], walk.length[i], false);
	return status;
}

/* ---- groups ---- */

struct group {
	const char *wanted;
	uint64_t found;       /* header of the object of that name; NOWHERE */
	uint64_t tree, names; /* of a symbol table; NOWHERE: none */
	bool dense;           /* links are kept in a way that is not read */
	int looked;           /* at nodes and names; ends what would go on for ever */
};

static int take_link(const struct hdf5 *file, struct group *group, const unsigned char *data, size_t bytes)
{
	size_t at = 2, width, length;
	int flags;

	if (bytes < 4 || data[0] != 1)
		return bad(file, "a link of an unknown form");
	flags = data[1];
	if (flags & 8 && data[at++] != 0)
		return STATUS_OK; /* not a link to an object of this file */
	at += (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0);
	width = (size_t)1 << (flags & 3);
	if (at + width > bytes)
		return bad(file, "a link without a name");
	length = (size_t)number(data + at, (int)width);
	at += width;
	if (length > bytes - at || bytes - at - length < 8)
		return bad(file, "a link without an end");
	if (length == strlen(group->wanted) && !memcmp(data + at, group->wanted, length))
		group->found = number(data + at + length, 8);
	return STATUS_OK;
}

static int take_group(
	const struct hdf5 *file, void *context, int type, const unsigned char *data, size_t bytes)
{
	struct group *group = context;
	size_t at = bytes > 1 && data[1] & 1 ? 10 : 2;

	if (type == MESSAGE_LINK)
		return take_link(file, group, data, bytes);
	if (type == MESSAGE_TABLE && bytes >= 16) {
		group->tree = number(data, 8);
		group->names = number(data + 8, 8);
	}
	/* Where a heap of links is, if there is one. */
	if (type == MESSAGE_LINK_INFO && bytes >= at + 8)
		group->dense = number(data + at, 8) != NOWHERE;
	return STATUS_OK;
}

/* A node of a symbol table: names and objects. */
static int search_symbols(const struct hdf5 *file, struct group *group, uint64_t address, uint64_t names)
{
	unsigned char head[8], entry[40];
	int status = fetch(file, address, head, sizeof head);
	size_t length = strlen(group->wanted) + 1;

	if (!status && memcmp(head, "SNOD", 4) != 0)
		status = bad(file, "no names where they should be");
	for (uint64_t i = 0; !status && i < number(head + 6, 2) && group->found == NOWHERE; i++) {
		char name[NAME_LIMIT];

		if (++group->looked > LOOKS)
			return bad(file, "too many names");

		status = fetch(file, address + 8 + 40 * i, entry, sizeof entry);
		if (!status && number(entry, 8) < file->bytes &&
			names + number(entry, 8) + length <= file->bytes &&
			!(status = fetch(file, names + number(entry, 8), name, length)) &&
			!memcmp(name, group->wanted, length))
			group->found = number(entry + 8, 8);
	}
	return status;
}

/* Node of a version 1 tree: its head, then keys and children in turn. *data is owned by the caller. */
static int read_node(const struct hdf5 *file, uint64_t address, int kind, size_t key, int *level,
	size_t *children, unsigned char **data)
{
	unsigned char head[24];
	int status = fetch(file, address, head, sizeof head);

	*data = NULL;
	if (status)
		return status;
	*level = head[5];
	*children = (size_t)number(head + 6, 2);
	if (memcmp(head, "TREE", 4) != 0 || head[4] != kind || *level >= TREE_LEVELS)
		return bad(file, "no tree where one should be");
	*data = memory_new(*children * (key + 8) + key, 1);
	status = *data ? fetch(file, address + 24, *data, *children * (key + 8) + key) : error_status();
	if (status) {
		free(*data);
		*data = NULL;
	}
	return status;
}

static int search_tree(
	const struct hdf5 *file, struct group *group, uint64_t address, uint64_t names, int above)
{
	unsigned char *data;
	size_t children;
	int level, status = read_node(file, address, 0, 8, &level, &children, &data);

	if (!status && (level >= above || ++group->looked > LOOKS))
		status = bad(file, "a tree that goes in circles");
	for (size_t i = 0; !status && i < children && group->found == NOWHERE; i++) {
		uint64_t child = number(data + 16 * i + 8, 8);

		status = level ? search_tree(file, group, child, names, level)
			       : search_symbols(file, group, child, names);
	}
	free(data);
	return status;
}

static int search_table(const struct hdf5 *file, struct group *group)
{
	unsigned char head[32];
	int status = fetch(file, group->names, head, sizeof head);

	if (!status && memcmp(head, "HEAP", 4) != 0)
		status = bad(file, "no names where they should be");
	return status ? status : search_tree(file, group, group->tree, number(head + 24, 8), TREE_LEVELS);
}

/* ---- datasets ---- */

struct shape {
	struct hdf5_strings *strings;
	int rank; /* -1: not seen */
	bool strings_of_bytes, filtered, placed, unknown_layout;
};

static void take_space(struct shape *shape, const unsigned char *data, size_t bytes)
{
	size_t head = bytes >= 4 && data[0] == 1 ? 8 : 4;

	if (bytes < head + 8 || (data[0] != 1 && data[0] != 2))
		return;
	shape->rank = data[1];
	shape->strings->count = number(data + head, 8);
}

/* Class 9 is any length, of class 0, whole numbers; of one byte. */
static void take_type(struct shape *shape, const unsigned char *data, size_t bytes)
{
	shape->strings_of_bytes = bytes >= 16 && (data[0] & 15) == 9 && (data[1] & 15) == 0 &&
				  number(data + 4, 4) == ELEMENT && (data[8] & 15) == 0 &&
				  number(data + 12, 4) == 1;
}

static void take_layout(struct shape *shape, const unsigned char *data, size_t bytes)
{
	struct hdf5_strings *strings = shape->strings;
	bool known = bytes >= 18 && (data[0] == 3 || data[0] == 4);

	if (known && data[1] == 1) {
		strings->address = number(data + 2, 8);
		shape->placed = true;
	} else if (bytes >= 19 && data[0] == 3 && data[1] == 2 && data[2] == 2) {
		strings->address = number(data + 3, 8);
		strings->chunk = number(data + 11, 4);
		shape->placed = strings->chunk > 0;
	} else {
		shape->unknown_layout = true;
	}
}

static int take_dataset(
	const struct hdf5 *file, void *context, int type, const unsigned char *data, size_t bytes)
{
	struct shape *shape = context;

	(void)file;
	if (type == MESSAGE_SPACE)
		take_space(shape, data, bytes);
	else if (type == MESSAGE_TYPE)
		take_type(shape, data, bytes);
	else if (type == MESSAGE_LAYOUT)
		take_layout(shape, data, bytes);
	else if (type == MESSAGE_FILTERS)
		shape->filtered = true;
	return STATUS_OK;
}

static int find_object(struct hdf5 *file, const char *name, uint64_t *header)
{
	struct group group = {.wanted = name, .found = NOWHERE, .tree = NOWHERE, .names = NOWHERE};
	int status = walk_header(file, file->root, take_group, &group);

	if (!status && group.found == NOWHERE && group.tree != NOWHERE)
		status = search_table(file, &group);
	if (status)
		return status;
	*header = group.found;
	if (group.found != NOWHERE)
		return STATUS_OK;
	return error_set(STATUS_DATA,
		group.dense ? "%s: keeps its many names in a way that is not read; write \"%s\" into a "
			      "file of its own"
			    : "%s: no dataset \"%s\" in it",
		file->name, name);
}

int hdf5_find(struct hdf5 *file, const char *name, struct hdf5_strings *strings)
{
	struct shape shape = {.strings = strings, .rank = -1};
	uint64_t header;
	int status =
		strlen(name) < NAME_LIMIT ? find_object(file, name, &header) : bad(file, "a name too long");

	*strings = (struct hdf5_strings){.name = name};
	if (!status)
		status = walk_header(file, header, take_dataset, &shape);
	if (status)
		return status;
	if (shape.rank != 1 || !shape.strings_of_bytes)
		return error_set(STATUS_DATA,
			"%s: the dataset \"%s\" is not a list of images (bytes of any length)", file->name,
			name);
	if (shape.filtered || shape.unknown_layout || !shape.placed)
		return error_set(STATUS_DATA,
			"%s: the dataset \"%s\" is compressed or stored in another way than plainly; write "
			"it "
			"without options",
			file->name, name);
	/* A reference for each element must fit in the file. */
	if (strings->count > file->bytes)
		return bad(file, "more elements than bytes");
	return STATUS_OK;
}

/* ---- elements ---- */

/* Where the chunk with element i lies: the last child whose first element is not behind it. */
static int find_chunk(
	const struct hdf5 *file, const struct hdf5_strings *strings, uint64_t i, uint64_t *address)
{
	enum { KEY = 8 + 16 }; /* size, filters; offset in the one dimension and in the element */
	uint64_t node = strings->address, start = 0;
	int level = TREE_LEVELS;

	while (level > 0) {
		unsigned char *data;
		size_t children, child = 0;
		int below, status = read_node(file, node, 1, KEY, &below, &children, &data);

		if (!status && (below >= level || !children))
			status = bad(file, "a tree that goes in circles");
		if (status) {
			free(data);
			return status;
		}
		while (child + 1 < children && number(data + (child + 1) * (KEY + 8) + 8, 8) <= i)
			child++;
		start = number(data + child * (KEY + 8) + 8, 8);
		node = number(data + child * (KEY + 8) + KEY, 8);
		level = below;
		free(data);
	}
	if (start > i || i - start >= strings->chunk)
		return bad(file, "an element is nowhere");
	*address = node + (i - start) * ELEMENT;
	return STATUS_OK;
}

/* An object of a heap: they stand one behind the other. */
static int find_object_in_heap(
	const struct hdf5 *file, uint64_t heap, uint64_t wanted, uint64_t *address, uint64_t *bytes)
{
	unsigned char head[OBJECT];
	int status = fetch(file, heap, head, sizeof head);
	uint64_t size = number(head + 8, 8);

	if (!status && (memcmp(head, "GCOL", 4) != 0 || size > file->bytes))
		status = bad(file, "no bytes where an element's should be");
	for (uint64_t at = 16; !status && at + OBJECT <= size; at += OBJECT + (*bytes + 7) / 8 * 8) {
		status = fetch(file, heap + at, head, sizeof head);
		*bytes = number(head + 8, 8);
		if (!status && (number(head, 2) == 0 || *bytes > size - at - OBJECT))
			break;
		*address = heap + at + OBJECT;
		if (!status && number(head, 2) == wanted)
			return STATUS_OK;
	}
	return status ? status : bad(file, "an element's bytes are not there");
}

int hdf5_read(struct hdf5 *file, const struct hdf5_strings *strings, uint64_t i, size_t limit, char **data,
	size_t *bytes)
{
	unsigned char element[ELEMENT];
	uint64_t address = strings->address + i * ELEMENT, length, there = 0;
	int status = strings->address == NOWHERE ? bad(file, "an element was never written") : STATUS_OK;

	if (!status && strings->chunk)
		status = find_chunk(file, strings, i, &address);
	if (!status)
		status = fetch(file, address, element, sizeof element);
	length = number(element, REFERENCE_AT);
	if (!status && (length == 0 || length > limit))
		status = error_set(STATUS_DATA, "%s: element %llu of \"%s\" has %llu bytes, no image",
			file->name, (unsigned long long)i, strings->name, (unsigned long long)length);
	if (!status)
		status = find_object_in_heap(
			file, number(element + REFERENCE_AT, 8), number(element + 12, 4), &address, &there);
	if (!status && length > there)
		status = bad(file, "an element is longer than its bytes");
	if (status)
		return status;
	*data = memory_new((size_t)length + 1, 1);
	status = *data ? fetch(file, address, *data, (size_t)length) : error_status();
	if (status) {
		free(*data);
		return status;
	}
	*bytes = (size_t)length;
	return STATUS_OK;
}

/* ---- files ---- */

/* The superblock is at the beginning, or behind 512, 1024, 2048, ... bytes of something else. */
static int find_superblock(struct hdf5 *file, unsigned char head[96])
{
	for (uint64_t at = 0; at < file->bytes; at = at ? at * 2 : 512) {
		memset(head, 0, 96);
		file->base = 0;
		if (file->bytes - at < 48)
			break;
		if (fetch(file, at, head, file->bytes - at < 96 ? 48 : 96))
			return error_status();
		if (!memcmp(head, "\x89HDF\r\n\x1a\n", 8))
			return STATUS_OK;
	}
	return error_set(STATUS_DATA, "%s: no HDF5 file", file->name);
}

static int read_superblock(struct hdf5 *file)
{
	unsigned char head[96];
	int status = find_superblock(file, head), version = head[8];
	const unsigned char *sizes = version < 2 ? head + 13 : head + 9;

	if (status)
		return status;
	if (version > 3 || sizes[0] != 8 || sizes[1] != 8)
		return error_set(STATUS_DATA,
			"%s: HDF5 of a form that is not read (version %d, %d-byte addresses)", file->name,
			version, sizes[0]);
	if (version < 2) {
		size_t more = version == 1 ? 4 : 0;

		file->base = number(head + 24 + more, 8);
		file->root = number(head + 64 + more, 8);
	} else {
		file->base = number(head + 12, 8);
		file->root = number(head + 36, 8);
	}
	return file->base <= file->bytes ? STATUS_OK : bad(file, "it begins behind its end");
}

int hdf5_open(const char *name, const struct source_place *place, struct hdf5 **result)
{
	struct hdf5 *file = memory_new(1, sizeof *file);
	int status;

	*result = NULL;
	if (!file)
		return error_status();
	file->offset = place->offset;
	file->bytes = place->bytes;
	file->name = memory_text(name);
	file->descriptor = open(place->path, O_RDONLY | O_CLOEXEC);
	if (file->descriptor < 0)
		status = error_errno(0, "%s", place->path);
	else
		status = file->name ? read_superblock(file) : error_status();
	if (status) {
		hdf5_close(file);
		return status;
	}
	*result = file;
	return STATUS_OK;
}

void hdf5_close(struct hdf5 *file)
{
	if (!file)
		return;
	if (file->descriptor >= 0)
		close(file->descriptor);
	free(file->name);
	free(file);
}
