/* tar: archives of GNU tar and Python read member by member, refusals, cut archives; what our writer makes. */
#include "check.h"

#include "base/files.h"
#include "base/text.h"
#include "file/tar.h"

#define GOLDEN "tests/golden/files/"

static void add_hex(struct text *out, const unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		text_format(out, "%02x", data[i]);
}

/* One line a member, as tar.tsv has it behind the archive's name. */
static int list_archive(const char *path, struct text *out)
{
	struct tar_reader *reader;
	const struct tar_member *member;
	int status = tar_open(path, &reader);
	if (status)
		return status;
	while (!(status = tar_next(reader, &member)) && member) {
		unsigned char data[7]; /* small: members come in pieces */
		size_t got = 0, total = 0;
		text_format(out, "%c\t%s\t%s\t%o\t%lld\t", member->type, member->name,
			member->target ? member->target : "", member->mode, (long long)member->modified);
		uint64_t bytes = member->bytes;
		do {
			status = tar_read(reader, data, sizeof data, &got);
			add_hex(out, data, status ? 0 : got);
			total += status ? 0 : got;
		} while (!status && got);
		text_add(out, "\n");
		if (status)
			break;
		check(total == bytes, "a member has the size its header says");
	}
	if (!status)
		check(!tar_next(reader, &member) && !member, "the end stays the end");
	tar_close(reader);
	return status;
}

/* The lines of tar.tsv that belong to the archive. */
static void expected_lines(const char *table, const char *archive, struct text *out)
{
	size_t length = strlen(archive);
	text_add(out, "");
	for (const char *line = table; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, archive, length) && line[length] == '\t')
			text_append(out, line + length + 1, strcspn(line + length + 1, "\n") + 1);
}

static void test_goldens(void)
{
	static const char *archives[] = {"gnu.tar", "pax.tar", "ustar.tar", "v7.tar", "dotted.tar",
		"gzip.tar.gz", "xz.tar.xz", "bzip2.tar.bz2", "python.tar"};
	char *table;
	size_t bytes;
	if (!check_status(file_read(GOLDEN "tar.tsv", 1 << 20, &table, &bytes), 0, "read tar.tsv"))
		return;
	for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
		struct text found = {0}, expected = {0};
		char path[256];
		snprintf(path, sizeof path, GOLDEN "%s", archives[i]);
		check_status(list_archive(path, &found), STATUS_OK, archives[i]);
		expected_lines(table, archives[i], &expected);
		check(expected.length > 100, "the table knows the archive");
		check_text(found.data, expected.data, archives[i]);
		text_release(&found);
		text_release(&expected);
	}
	free(table);
}

/* The rows of files.tsv with reader "tar" are archives to refuse. */
static void test_refusals(void)
{
	char *table, *line, *rest;
	size_t bytes;
	int refused = 0;
	if (!check_status(file_read(GOLDEN "files.tsv", 1 << 20, &table, &bytes), 0, "read files.tsv"))
		return;
	rest = table;
	while ((line = strsep(&rest, "\n"))) {
		char *field[5], path[256];
		struct text found = {0};
		if (*line == '#' || text_split(line, '\t', field, 5) != 5 || strcmp(field[1], "tar"))
			continue;
		snprintf(path, sizeof path, GOLDEN "%s", field[0]);
		check_status(list_archive(path, &found), STATUS_DATA, field[0]);
		check_report(text_starts(error_message(), path) && strstr(error_message(), field[2]),
			field[0], "says '%s'", error_message());
		text_release(&found);
		refused++;
	}
	check(refused == 6, "all bad archives were tried");
	free(table);
}

static void check_content(const char *name, const void *data, size_t bytes, int status, const char *message)
{
	struct text found = {0};
	char path[512];
	snprintf(path, sizeof path, "%s/%s", check_scratch(), name);
	check_status(file_publish(path, data, bytes), 0, name);
	error_clear();
	check_status(list_archive(path, &found), status, name);
	check_report(strstr(error_message(), message) != NULL, name, "says '%s'", error_message());
	text_release(&found);
}

static void collect_line(const char *text, void *context)
{
	text_add(context, text);
}

static void test_damage(void)
{
	char *data;
	size_t bytes, end;
	if (!check_status(file_read(GOLDEN "gnu.tar", 1 << 20, &data, &bytes), 0, "read gnu.tar"))
		return;
	for (end = bytes; !data[end - 1];)
		end--;
	end = (end + 511) / 512 * 512;
	struct text warnings = {0};
	error_tee(collect_line, &warnings);
	check_content("no-end.tar", data, end, STATUS_OK, "");
	error_tee(NULL, NULL);
	check(warnings.length && strstr(warnings.data, "no-end.tar: has no end mark"),
		"a missing end is a warning");
	text_release(&warnings);
	check_content("half-end.tar", data, end + 512, STATUS_OK, "");
	check_content("cut-header.tar", data, 100, STATUS_DATA, "cut-header.tar: not a tar archive");
	check_content(
		"cut-data.tar", data, 1026, STATUS_DATA, "cut-data.tar: directory/plain.txt: Truncated");
	check_content("cut-padding.tar", data, 1100, STATUS_DATA,
		"cut-padding.tar: directory/plain.txt: Truncated");
	check_content("empty.tar", "", 0, STATUS_DATA, "empty.tar: not a tar archive");
	check_content(
		"text.tar", "just some words that are no archive\n", 36, STATUS_DATA, "not a tar archive");
	data[512] ^= 1; /* a letter of the second member's name: its checksum is wrong */
	check_content("checksum.tar", data, bytes, STATUS_DATA, "checksum.tar: ");
	free(data);
	if (!check_status(file_read(GOLDEN "gzip.tar.gz", 1 << 20, &data, &bytes), 0, "read gzip.tar.gz"))
		return;
	check_content("cut.tar.gz", data, bytes / 2, STATUS_DATA, "cut.tar.gz: ");
	check_content("cut-trailer.tar.gz", data, bytes - 4, STATUS_DATA, "cut-trailer.tar.gz: ");
	free(data);
}

static void test_missing(void)
{
	struct tar_reader *reader;
	check_status(tar_open("nowhere.tar", &reader), STATUS_NO_INPUT, "missing archive");
	check(!reader && strstr(error_message(), "nowhere.tar"), "it is named");
	check_status(tar_open("tests", &reader), STATUS_NO_INPUT, "directory as archive");
	tar_close(NULL);
}

static int sink(void *context, const void *data, size_t bytes)
{
	text_append(context, data, bytes);
	return STATUS_OK;
}

static int full_sink(void *context, const void *data, size_t bytes)
{
	(void)data;
	size_t *room = context;
	if (bytes > *room)
		return error_set(STATUS_CANNOT_CREATE, "full");
	*room -= bytes;
	return STATUS_OK;
}

struct names_of_test {
	char cut[200], tight[258], loose[260], target[201];
};

static void make_names(struct names_of_test *names)
{
	memset(names, 'n', sizeof *names);
	names->cut[120] = '/'; /* prefix of 120, name of 78 */
	names->cut[199] = 0;
	names->tight[155] = '/'; /* the largest prefix and the largest name */
	names->tight[256] = 0;
	names->loose[156] = '/'; /* one more than the prefix holds */
	names->loose[257] = 0;
	names->target[200] = 0;
}

static int write_members(struct tar_writer *writer, const struct names_of_test *names)
{
	char thousand[1000];
	memset(thousand, 'x', sizeof thousand);
	int status = tar_write_directory(writer, "d");
	if (!status)
		status = tar_write_file(writer, "d/run", true, "#!/bin/sh\n", 10);
	if (!status)
		status = tar_write_link(writer, "link", "d/run");
	if (!status)
		status = tar_write_link(writer, "long-link", names->target);
	if (!status)
		status = tar_write_file(writer, names->cut, false, "", 0);
	if (!status)
		status = tar_write_file(writer, names->tight, false, thousand, 512);
	if (!status)
		status = tar_write_file(writer, names->loose, false, thousand, 513);
	if (!status)
		status = tar_write_file(writer, "r\xc3\xa9sum\xc3\xa9 \xff", false, "\0\1", 2);
	return status ? status : tar_finish(writer);
}

static void expect_member(struct text *out, char type, const char *name, const char *target, const char *mode,
	const char *data, size_t bytes)
{
	text_format(out, "%c\t%s\t%s\t%s\t1700000000\t", type, name, target, mode);
	add_hex(out, (const unsigned char *)data, bytes);
	text_add(out, "\n");
}

static void test_writer(void)
{
	struct text archive = {0}, again = {0}, found = {0}, expected = {0};
	struct tar_writer writer = {sink, &archive, 1700000000}, second = {sink, &again, 1700000000};
	struct names_of_test names;
	char path[512], thousand[1000];
	make_names(&names);
	memset(thousand, 'x', sizeof thousand);
	check_status(write_members(&writer, &names), STATUS_OK, "write an archive");
	check_status(write_members(&second, &names), STATUS_OK, "write it again");
	check(archive.length == again.length && !memcmp(archive.data, again.data, again.length),
		"the same bytes");
	check(archive.length % 512 == 0, "whole blocks");
	snprintf(path, sizeof path, "%s/ours.tar", check_scratch());
	check_status(file_publish(path, archive.data, archive.length), 0, "publish it");
	check_status(list_archive(path, &found), STATUS_OK, "read it");
	expect_member(&expected, 'd', "d", "", "755", "", 0);
	expect_member(&expected, 'f', "d/run", "", "755", "#!/bin/sh\n", 10);
	expect_member(&expected, 'l', "link", "d/run", "777", "", 0);
	expect_member(&expected, 'l', "long-link", names.target, "777", "", 0);
	expect_member(&expected, 'f', names.cut, "", "644", "", 0);
	expect_member(&expected, 'f', names.tight, "", "644", thousand, 512);
	expect_member(&expected, 'f', names.loose, "", "644", thousand, 513);
	expect_member(&expected, 'f', "r\xc3\xa9sum\xc3\xa9 \xff", "", "644", "\0\1", 2);
	check_text(found.data, expected.data, "what was written comes back");
	text_release(&archive);
	text_release(&again);
	text_release(&found);
	text_release(&expected);
}

/* Headers by the letter of the format: fields, checksum, and pax only where a name needs it. */
static void test_header(void)
{
	struct text archive = {0};
	struct tar_writer writer = {sink, &archive, 8};
	check_status(tar_write_file(&writer, "a", false, "x", 1), STATUS_OK, "write one member");
	check_status(tar_finish(&writer), STATUS_OK, "finish");
	const char *header = archive.data;
	if (!check(archive.length == 2048, "header, data, two zero blocks"))
		return;
	check(!memcmp(header, "a\0", 2), "name");
	check(!memcmp(header + 100,
		      "0000644\0"
		      "0000000\0"
		      "0000000\0"
		      "00000000001\0"
		      "00000000010\0",
		      48),
		"mode, owner, group, size, time");
	check(!memcmp(header + 156, "0\0", 2) && !memcmp(header + 257,
							 "ustar\0"
							 "00",
							 9),
		"type, magic, version");
	unsigned sum = 0;
	for (int i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? ' ' : (unsigned char)header[i];
	char field[16];
	snprintf(field, sizeof field, "%06o", sum);
	check(!memcmp(header + 148, field, 7) && header[155] == ' ', "checksum");
	text_release(&archive);
}

static void test_writer_refusals(void)
{
	struct names_of_test names;
	size_t room = 4000;
	struct tar_writer writer = {full_sink, &room, -1};
	make_names(&names);
	check_status(write_members(&writer, &names), STATUS_CANNOT_CREATE, "the sink's status comes through");
	check_status(tar_write_file(&writer, "/absolute", false, "", 0), STATUS_FAILURE, "absolute name");
	check_status(tar_write_link(&writer, "a/../../b", "x"), STATUS_FAILURE, "name that leads outside");
	check_status(tar_write_file(&writer, "", false, "", 0), STATUS_FAILURE, "empty name");
}

int main(void)
{
	test_goldens();
	test_refusals();
	test_damage();
	test_missing();
	test_writer();
	test_header();
	test_writer_refusals();
	return check_summary();
}
