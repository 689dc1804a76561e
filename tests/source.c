/*
 * Data files: a pack is seen as the directory it was made of; packs that are cut, damaged or lying are refused.
 * `source PATH NAME ...` prints files of a source instead.
 */
#include <errno.h>
#include <sys/stat.h>

#include "check.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/pack.h"
#include "file/source.h"
#include "file/tar.h"

/* A slash at the end: a directory. Names around '/' in byte order, where a listing can go wrong. */
static const char *const tree[] = {"a/", "a/b/", "a/b/one.txt", "a/b/two.txt", "a/empty/", "a-b/", "a-b/x",
	"a.b/", "a.b/y", "a0", "b\xc3\xa4 r/", "b\xc3\xa4 r/n\tame", "deep/", "deep/1/", "deep/1/2/",
	"deep/1/2/3/", "deep/1/2/3/file", "nothing", "z"};
#define TREE (sizeof tree / sizeof *tree)

static int append(void *context, const void *data, size_t bytes)
{
	text_append(context, data, bytes);
	return text_check(context);
}

/* What a file of that name holds: other lengths, one empty, bytes of all kinds. */
static void content(const char *name, struct text *out)
{
	text_clear(out);
	text_add(out, "");
	for (size_t i = 0; strcmp(name, "nothing") != 0 && i < strlen(name) * 97; i++) {
		char byte = (char)(i * 7 + (unsigned char)name[i % strlen(name)]);
		text_append(out, &byte, 1);
	}
}

/* The tree as a directory and as a pack. */
static void make(const char *directory, struct text *pack)
{
	struct pack_entry entries[TREE];
	struct text data = {0};
	struct tar_writer writer = {.sink = append, .context = pack};
	char *tail;
	size_t bytes;
	int status = file_make_directory(directory);
	for (size_t i = 0; i < TREE && !status; i++) {
		char *path = path_join(directory, tree[i]);
		bool folder = text_ends(tree[i], "/");
		content(tree[i], &data);
		if (folder) {
			char *name = memory_text(tree[i]);
			name[strlen(name) - 1] = 0;
			status = file_make_directories(path) || tar_write_directory(&writer, name);
			free(name);
			data.length = 0;
		} else {
			status = file_publish(path, data.data, data.length) ||
				 tar_write_file(&writer, tree[i], false, data.data, data.length);
		}
		free(path);
		entries[TREE - 1 - i] = (struct pack_entry){.name = tree[i],
			.offset = pack->length - (data.length + 511) / 512 * 512,
			.bytes = data.length,
			.crc = crc32c(0, data.data, data.length)};
	}
	check_status(status ? status : pack_tail(entries, TREE, pack->length, &tail, &bytes), 0,
		"a pack is made of a tree");
	text_append(pack, tail, bytes);
	free(tail);
	text_release(&data);
}

static bool same_file(const struct source *a, const struct source *b, const char *name)
{
	char *data[2] = {0};
	size_t bytes[2] = {0};
	int one = source_read(a, name, 1 << 20, &data[0], &bytes[0]);
	int two = source_read(b, name, 1 << 20, &data[1], &bytes[1]);
	bool same = one == two && bytes[0] == bytes[1] && (one || !memcmp(data[0], data[1], bytes[0] + 1));
	free(data[0]);
	free(data[1]);
	return same;
}

static bool same_list(const struct source *a, const struct source *b, const char *name)
{
	struct names left = {0}, right = {0};
	int one = source_list(a, name, &left), two = source_list(b, name, &right);
	bool same = one == two && left.count == right.count;
	for (size_t i = 0; same && i < left.count; i++)
		same = !strcmp(left.name[i], right.name[i]);
	names_release(&left);
	names_release(&right);
	return same;
}

static bool same_kind(const struct source *a, const struct source *b, const char *name)
{
	enum source_kind left = SOURCE_NOTHING, right = SOURCE_NOTHING;
	int one = source_look(a, name, &left), two = source_look(b, name, &right);
	return one == two && left == right;
}

static bool same_place(const struct source *pack, const struct source *directory, const char *name)
{
	struct source_place a, b;
	bool same = false;
	char *one = NULL, *two = NULL;
	size_t bytes;
	int status = source_locate(pack, name, &a), other = source_locate(directory, name, &b);
	if (!status && !other && !file_read(a.path, 1 << 24, &one, &bytes) &&
		!file_read(b.path, 1 << 24, &two, &bytes))
		same = a.bytes == b.bytes && b.bytes == bytes && !b.offset &&
		       !memcmp(one + a.offset, two, bytes);
	else
		same = status && status == other;
	free(one);
	free(two);
	free(a.path);
	free(b.path);
	return same;
}

static void test_equal(const char *directory, const char *path)
{
	static const char *const names[] = {"", ".", "a", "a/", "a//b", "a/./b/one.txt", "a/b/one.txt",
		"a/b/one.txt/", "a/b/three.txt", "a-b", "a.b", "a.b/", "nothing", "nothing/x", "./z", "z/",
		"../z", "/z", "a/../z", "deep/1/2", "deep/1", "deep", "b\xc3\xa4 r", "A", "a/b/", "a/empty",
		"a/em"};
	struct source *left, *right;
	const char *worst = NULL;
	check_status(source_open(directory, &left), 0, "a directory opens");
	if (!check(!source_open(path, &right), "a pack opens"))
		return;
	for (size_t i = 0; i < TREE + sizeof names / sizeof *names; i++) {
		const char *name = i < TREE ? tree[i] : names[i - TREE];
		if (!same_file(left, right, name) || !same_list(left, right, name) ||
			!same_kind(left, right, name) || !same_place(right, left, name))
			worst = name;
	}
	check_report(!worst, "a pack is seen as its directory", "not so: %s", worst);
	source_close(left);
	source_close(right);
}

static int open_changed(const char *path, const struct text *pack, size_t length, long flip)
{
	struct source *source;
	char *data = memory_copy(pack->data, pack->length);
	if (flip >= 0)
		data[flip] = (char)(data[flip] ^ 1);
	int status = file_publish(path, data, length);
	free(data);
	status = status ? status : source_open(path, &source);
	if (!status)
		source_close(source);
	return status;
}

static void test_damage(const char *path, struct text *pack)
{
	struct pack *opened;
	struct pack_entry entry;
	check(!pack_open(path, &opened) && opened && pack_find(opened, "a0", &entry), "an entry is found");
	check_text(entry.name, "a0", "by its name");
	size_t index = pack->length;
	for (size_t i = 0; i < pack->length - 16; i++)
		if (!memcmp(pack->data + i, PACK_INDEX, strlen(PACK_INDEX)))
			index = i + 512;
	pack_close(opened);
	long worst = -1;
	for (size_t i = index; i < pack->length - 1024; i++) {
		bool padding = i >= pack->length - 1024 - 64 - 512 && i < pack->length - 1024 - 64, found;
		pack->data[i] ^= 1;
		if (!pack_check("x", pack->data, pack->length, pack->length, &found) && found && !padding)
			worst = (long)i;
		pack->data[i] ^= 1;
	}
	check_report(worst < 0, "each flipped bit of an index is found", "byte %ld", worst);
	check_status(open_changed(path, pack, pack->length - 512, -1), STATUS_NO_INPUT, "a cut pack is none");
	check_status(open_changed(path, pack, 100, -1), STATUS_NO_INPUT, "nor is its beginning");
	check_status(open_changed(path, pack, 0, -1), STATUS_NO_INPUT, "nor an empty file");
	check_status(open_changed(path, pack, pack->length, (long)entry.offset), 0, "damaged data open");
	struct source *source;
	char *data;
	size_t bytes;
	check(!source_open(path, &source), "and are read");
	check_status(source_read(source, "a0", 1000, &data, &bytes), STATUS_IO, "but are not passed on");
	check_status(
		source_read(source, "z", 10, &data, &bytes), STATUS_DATA, "a file over the limit is refused");
	source_close(source);
	check_status(source_open("nowhere", &source), STATUS_NO_INPUT, "a missing source is");
}

static int print_files(const char *path, int count, char **names)
{
	struct source *source;
	int status = source_open(path, &source);
	for (int i = 0; i < count && !status; i++) {
		char *data = NULL;
		size_t bytes = 0;
		status = source_read(source, names[i], 1 << 30, &data, &bytes);
		if (!status)
			fwrite(data, 1, bytes, stdout);
		free(data);
	}
	return status ? error_print(status) : status;
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return print_files(argv[1], argc - 2, argv + 2);
	struct text pack = {0};
	char *directory = path_join(check_scratch(), "tree"), *path = path_join(check_scratch(), "tree.tar");
	make(directory, &pack);
	check_status(file_publish(path, pack.data, pack.length), 0, "a pack is written");
	test_equal(directory, path);
	test_damage(path, &pack);
	text_release(&pack);
	free(directory);
	free(path);
	return check_summary();
}
