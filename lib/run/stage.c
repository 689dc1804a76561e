/* Staging: what is wanted, whether it is there, and filling it. */
#include "run/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/pack.h"
#include "run/shift.h"
#include "run/stage_budget.h"
#include "run/stage_entry.h"
#include "run/stage_files.h"
#include "run/stage_pack.h"
#include "run/stage_rows.h"
#include "run/stage_tar.h"
#include "run/stage_tree.h"

enum { DEFAULT_JOBS = 8, MOST_JOBS = 256 };
static const size_t longest_list = (size_t)1 << 30;
static const double patience = 5; /* s, with a damaged copy that others read */

/* One source that is wanted. */
struct wanted {
	const struct stage_options *options;
	char *real; /* the source, absolute and without links */
	bool archive;
	struct stage_tree tree; /* when it is no archive */
	const char *inside;     /* the file's name, when it is one file; points into real */
	char key[33];
	int jobs;
	bool pack; /* the copy is one pack */
};

void staged_release(struct staged *staged)
{
	free(staged->path);
	*staged = (struct staged){0};
}

/* ---- what is wanted ---- */

/* One name of a list, cleaned of "./" and "//". */
static int add_listed(struct names *names, const char *name)
{
	struct text rooted = {0};
	text_format(&rooted, "/%s", name);
	char *clean = text_check(&rooted) ? NULL : path_absolute(rooted.data);
	int status = clean ? names_add(names, clean + 1) : error_status();
	free(clean);
	text_release(&rooted);
	return status;
}

/* Takes a list apart in place. */
static int split_list(const char *list, char *data, size_t bytes, char separator, struct names *names)
{
	int status = STATUS_OK;
	size_t number = 0;
	for (char *name = data, *end; name < data + bytes && !status; name = end + 1) {
		number++;
		end = memchr(name, separator, (size_t)(data + bytes - name));
		if (!end)
			end = data + bytes;
		*end = 0;
		if (!*name)
			continue;
		if (!path_is_inside(name))
			return error_set(STATUS_DATA,
				"%s:%zu: %s: names in a list are relative to the source and stay in it", list,
				number, name);
		status = add_listed(names, name);
	}
	return status;
}

static int read_list(const struct stage_options *options, struct names *names)
{
	char *data;
	size_t bytes;
	int status = file_read(options->list, longest_list, &data, &bytes);
	if (status)
		return status;
	status = split_list(options->list, data, bytes, options->null ? 0 : '\n', names);
	free(data);
	return status;
}

static int list_some(struct wanted *wanted)
{
	struct names names = {0};
	int status = read_list(wanted->options, &names);
	if (!status)
		status = stage_tree_pick(&wanted->tree, wanted->real, wanted->options->follow, wanted->jobs,
			names.name, names.count);
	names_release(&names);
	return status;
}

static int list_one(struct wanted *wanted)
{
	char *above = path_directory(wanted->real);
	char *name = memory_text(path_base(wanted->real));
	int status = above && name
			     ? stage_tree_pick(&wanted->tree, above, wanted->options->follow, 1, &name, 1)
			     : error_status();
	wanted->inside = path_base(wanted->real);
	free(name);
	free(above);
	return status;
}

/* The same source as one pack is another copy. */
static void pack_key(struct wanted *wanted)
{
	struct sha256 digest;
	char hex[65];
	sha256_init(&digest);
	sha256_update(&digest, "pack 1", 7);
	sha256_update(&digest, wanted->key, 32);
	sha256_hex(&digest, hex);
	memcpy(wanted->key, hex, 32);
}

static void archive_key(struct wanted *wanted, const struct stat *information)
{
	struct sha256 digest;
	char hex[65];
	int64_t numbers[] = {information->st_size, information->st_mtim.tv_sec, information->st_mtim.tv_nsec};
	sha256_init(&digest);
	sha256_update(&digest, "archive 1", 10);
	sha256_update(&digest, wanted->real, strlen(wanted->real) + 1);
	sha256_update(&digest, numbers, sizeof numbers);
	sha256_hex(&digest, hex);
	memcpy(wanted->key, hex, 32);
	wanted->key[32] = 0;
}

/* Lists the source and gives it its key. */
static int list_source(struct wanted *wanted)
{
	struct stat information;
	if (stat(wanted->real, &information))
		return error_errno(0, "%s", wanted->real);
	bool directory = S_ISDIR(information.st_mode);
	if (!directory && !S_ISREG(information.st_mode))
		return error_set(STATUS_DATA, "%s: is neither a directory nor a file", wanted->real);
	if (wanted->options->list && !directory)
		return error_set(STATUS_USAGE, "%s: --list wants a directory", wanted->real);
	if (wanted->archive) {
		archive_key(wanted, &information);
		if (wanted->options->pack)
			pack_key(wanted);
		wanted->pack = wanted->options->pack;
		return STATUS_OK;
	}
	int status = !directory              ? list_one(wanted)
		     : wanted->options->list ? list_some(wanted)
					     : stage_tree_walk(&wanted->tree, wanted->real,
						       wanted->options->follow, wanted->jobs);
	wanted->pack = wanted->options->pack && directory;
	if (!status)
		stage_tree_key(&wanted->tree, wanted->key);
	if (!status && wanted->pack)
		pack_key(wanted);
	return status;
}

/* A pack is read as it is. */
static int is_pack(const char *path, bool *packed)
{
	struct pack *pack;
	int status = pack_open(path, &pack);
	*packed = !status && pack;
	if (*packed)
		pack_close(pack);
	return status;
}

static int find_source(struct wanted *wanted, const char *source)
{
	wanted->real = realpath(source, NULL);
	if (!wanted->real)
		return error_errno(0, "%s", source);
	bool packed = false;
	wanted->archive = !file_is_directory(wanted->real) && stage_is_archive(wanted->real);
	int status = wanted->archive ? is_pack(wanted->real, &packed) : STATUS_OK;
	wanted->archive = wanted->archive && !packed;
	return status;
}

/* Whether it is read where it is. An archive is unpacked even where it is local: readers want files. */
static bool stays(const struct wanted *wanted)
{
	const struct stage_options *options = wanted->options;
	if (options->in_place)
		return true;
	return (!options->to || !*options->to) && !wanted->archive && !options->list &&
	       stage_is_local(wanted->real);
}

/* ---- whether it is there ---- */

static int open_data(const struct stage_entry *entry)
{
	int descriptor = open(entry->data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (descriptor < 0 && errno != ENOENT)
		error_errno(0, "%s", entry->data);
	return descriptor;
}

/* Reads the manifest; *complete: it is there and every file is good. Without one, `filling` reads the journal. */
static int inspect(const struct wanted *wanted, const struct stage_entry *entry, bool filling,
	struct stage_rows *rows, bool *complete)
{
	bool whole = false, same_boot = stage_entry_same_boot(entry);
	size_t bad = 0;
	*complete = false;
	stage_rows_release(rows);
	int status = stage_rows_read_manifest(rows, entry->manifest, &whole);
	if (!status && !whole && filling && file_exists(entry->manifest))
		warn("%s: is damaged; the copy is made anew", entry->manifest);
	if (!status && !whole && !filling)
		return STATUS_OK;
	if (!status && !whole)
		status = stage_rows_read_journal(rows, entry->journal);
	int data = open_data(entry);
	if (status || data < 0)
		return data < 0 && !status && errno != ENOENT ? error_status() : status;
	bool read = !same_boot || (whole && wanted->options->verify);
	if (read && rows->count && !filling)
		note("%s: reading the copy back%s", entry->path,
			same_boot ? "" : ", the node has been started since it was made");
	status = stage_rows_check(rows, data, read, wanted->jobs, &bad);
	close(data);
	if (!status && whole && bad && filling)
		warn("%s: %zu of %zu files are missing or damaged; they are copied again", entry->path, bad,
			rows->count);
	*complete = !status && whole && !bad;
	if (*complete && !same_boot)
		status = stage_entry_mark_boot(entry);
	return status;
}

static void count_rows(const struct stage_rows *rows, struct staged *staged)
{
	staged->files = rows->count;
	staged->bytes = 0;
	for (size_t i = 0; i < rows->count; i++)
		staged->bytes += rows->row[i].bytes;
}

/* ---- filling ---- */

/* The journal becomes what is good now, then the manifest goes: whoever is interrupted here loses nothing. */
static int write_journal(const struct stage_entry *entry, const struct stage_rows *rows)
{
	struct text text = {0};
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].good)
			stage_rows_format(&text, rows->row[i].path, rows->row[i].offset, rows->row[i].bytes,
				rows->row[i].crc);
	int status = stage_entry_write(entry->journal, &text);
	text_release(&text);
	return status ? status : file_remove(entry->manifest);
}

static int make_private(const char *path)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_errno(0, "cannot create %s", path);
	return STATUS_OK;
}

static int open_target(
	const struct stage_entry *entry, const struct stage_rows *have, struct stage_target *target)
{
	*target = (struct stage_target){.descriptor = -1, .journal = -1, .path = entry->data};
	int status = make_private(entry->path);
	if (!status)
		status = make_private(entry->data);
	if (!status)
		status = write_journal(entry, have);
	if (!status)
		status = stage_entry_mark_boot(entry);
	if (!status && (target->descriptor = open_data(entry)) < 0)
		status = error_errno(0, "%s", entry->data);
	if (!status &&
		(target->journal = open(entry->journal, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)) < 0)
		status = error_errno(0, "%s", entry->journal);
	return status;
}

static int rows_of_tree(const struct stage_tree *tree, struct stage_rows *rows)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < tree->file_count && !status; i++)
		status = stage_rows_add(
			rows, tree->files[i].path, 0, tree->files[i].bytes, tree->files[i].crc);
	stage_rows_sort(rows);
	return status;
}

static int copy_source(struct wanted *wanted, const struct stage_rows *have,
	const struct stage_target *target, struct stage_rows *rows, struct stage_count *count)
{
	if (wanted->archive && wanted->pack)
		return stage_pack_archive(wanted->real, target, rows, count);
	if (wanted->archive)
		return stage_tar_unpack(wanted->real, have, target, wanted->jobs, wanted->real, rows, count);
	if (wanted->pack)
		return stage_pack_copy(&wanted->tree, have, target, wanted->jobs, wanted->real, rows, count);
	int status = stage_files_copy(&wanted->tree, have, target, wanted->jobs, wanted->real, count);
	return status ? status : rows_of_tree(&wanted->tree, rows);
}

/* Reads back what was written. What is bad leaves the journal, so that the next call copies it again. */
static int read_back(const struct wanted *wanted, const struct stage_entry *entry,
	const struct stage_target *target, struct stage_rows *rows)
{
	size_t bad = 0, i = 0;
	rows->files = true;
	int status = stage_rows_check(rows, target->descriptor, true, wanted->jobs, &bad);
	if (status || !bad)
		return status;
	while (rows->row[i].good)
		i++;
	status = write_journal(entry, rows);
	return status ? status
		      : error_set(STATUS_IO,
				"%s/%s (and %zu more): differs from what was read from %s; start again, and "
				"suspect "
				"the disk or its file system",
				entry->data, rows->row[i].path, bad - 1, wanted->real);
}

static int publish_manifest(const struct stage_entry *entry, const struct stage_rows *rows)
{
	struct text text = {0};
	stage_rows_manifest(rows, &text);
	int status = stage_entry_write(entry->manifest, &text);
	text_release(&text);
	return status ? status : file_remove(entry->journal);
}

static void report(
	const struct wanted *wanted, const struct stage_entry *entry, const struct stage_count *count)
{
	char bytes[32], rate[32];
	double seconds = clock_seconds() - count->progress.started;
	text_of_bytes(count->bytes, bytes);
	text_of_bytes((uint64_t)((double)count->bytes / (seconds > 1e-3 ? seconds : 1e-3)), rate);
	note("%s: %llu files, %s copied to %s in %.1f s (%s/s)", wanted->real,
		(unsigned long long)count->files, bytes, entry->data, seconds, rate);
}

/* What the copy will take: of a compressed archive at least its own size. */
static int reserve(const struct wanted *wanted, const struct stage_entry *entry)
{
	uint64_t bytes = wanted->tree.bytes;
	if (wanted->archive && file_size(wanted->real, &bytes))
		return error_status();
	uint64_t lost = wanted->tree.file_count * (wanted->pack ? 1024 : 2048);
	return stage_budget_reserve(entry, bytes + lost, wanted->options->budget);
}

/* Under the exclusive lock; `have` are the rows of inspect(). */
static int fill(struct wanted *wanted, const struct stage_entry *entry, const struct stage_rows *have,
	struct staged *staged)
{
	struct stage_target target = {.descriptor = -1, .journal = -1};
	struct stage_rows rows = {0};
	struct stage_count count = {0};
	int status = reserve(wanted, entry);
	if (!status)
		status = open_target(entry, have, &target);
	if (!status)
		status = copy_source(wanted, have, &target, &rows, &count);
	if (!status && wanted->options->verify)
		status = read_back(wanted, entry, &target, &rows);
	if (!status)
		status = publish_manifest(entry, &rows);
	if (!status) {
		count_rows(&rows, staged);
		staged->copied_files = count.files;
		staged->copied_bytes = count.bytes;
		report(wanted, entry, &count);
	}
	if (target.descriptor >= 0)
		close(target.descriptor);
	if (target.journal >= 0)
		close(target.journal);
	stage_rows_release(&rows);
	if (status == STATUS_CANNOT_CREATE) { /* full: what is there helps nobody and hinders others */
		char *message = memory_text(error_message());
		file_remove_tree(entry->path);
		error_set(status, "%s", message ? message : "no space");
		free(message);
	}
	return status;
}

/*
 * Shared lock, look; if it is not complete, exclusive lock, look again, fill. The exclusive lock is never waited for: who holds
 * it is filling, which the wait for the shared one covers, and who reads a damaged copy may do so for hours.
 */
static int bring(struct wanted *wanted, struct stage_entry *entry, struct staged *staged)
{
	struct stage_rows rows = {0};
	bool complete = false, taken = false;
	double since = clock_seconds();
	int status = STATUS_OK;
	while (!status && !complete && !taken) {
		status = stage_entry_wait(entry, STAGE_SHARED);
		if (!status)
			status = inspect(wanted, entry, false, &rows, &complete);
		if (status || complete)
			break;
		stage_entry_unlock(entry);
		status = stage_entry_try(entry, STAGE_EXCLUSIVE, &taken);
		if (!status && taken)
			status = inspect(wanted, entry, true, &rows, &complete);
		else if (!status && clock_seconds() - since > patience && rows.files)
			status = error_set(STATUS_UNAVAILABLE,
				"%s: is damaged, and other jobs read it; wait for their end, or choose "
				"another place with --to",
				entry->path);
		else if (!status)
			clock_sleep(0.05);
	}
	if (!status && complete)
		count_rows(&rows, staged);
	else if (!status)
		status = fill(wanted, entry, &rows, staged);
	if (!status)
		stage_budget_touch(entry);
	stage_rows_release(&rows);
	return status;
}

static int stage_wanted(struct wanted *wanted, struct staged *staged)
{
	struct stage_entry entry = {.lock = -1};
	const char *to = wanted->options->to;
	char *scratch = to && *to ? memory_text(to) : stage_scratch();
	int status = scratch ? list_source(wanted) : error_status();
	if (!status)
		status = stage_entry_open(&entry, scratch, wanted->key);
	if (!status)
		status = bring(wanted, &entry, staged);
	if (!status) {
		memcpy(staged->key, wanted->key, sizeof staged->key);
		const char *inside = wanted->pack ? STAGE_PACK : wanted->inside;
		staged->path = inside ? path_join(entry.data, inside) : memory_text(entry.data);
		status = staged->path ? STATUS_OK : error_status();
	}
	stage_entry_release(&entry);
	free(scratch);
	return status;
}

int stage_source(const char *source, const struct stage_options *options, struct staged *staged)
{
	struct wanted wanted = {.options = options, .tree = {.descriptor = -1}, .jobs = options->jobs};
	*staged = (struct staged){.key = "-"};
	if (wanted.jobs <= 0)
		wanted.jobs = DEFAULT_JOBS;
	if (wanted.jobs > MOST_JOBS)
		wanted.jobs = MOST_JOBS;
	int status = find_source(&wanted, source);
	if (!status && stays(&wanted)) {
		staged->path = memory_text(wanted.real);
		status = staged->path ? STATUS_OK : error_status();
	} else if (!status) {
		status = stage_wanted(&wanted, staged);
	}
	stage_tree_release(&wanted.tree);
	free(wanted.real);
	if (status)
		staged_release(staged);
	return status;
}

/* ---- a whole run ---- */

static const char *const lists[] = {"data.train", "data.val", "data.vis", "data.test"};

/* A row for a dataset, which can stand in several lists but has one path. */
static int add_row(struct text *rows, const char *name, const char *row)
{
	struct text line = {0};
	text_format(&line, "\n%s\t%s\n", name, row);
	int status = text_check(&line);
	if (!status && !strstr(rows->data, line.data))
		text_add(rows, line.data + 1);
	text_release(&line);
	return status ? status : text_check(rows);
}

/* Of each source in `done`: its path, its row, and where it is read. */
enum { DONE = 3 };

/* While the others are copied nobody removes it, and it counts as used when all are there. */
static void hold_done(const struct names *done)
{
	for (size_t i = 0; i + DONE <= done->count; i += DONE)
		if (stage_hold(done->name[i + 2]))
			error_clear();
}

/* The same source in an earlier list is not listed again. */
static int stage_group(const char *name, const char *path, const struct stage_options *options,
	struct names *done, struct text *rows)
{
	struct staged staged = {0};
	struct text row = {0};
	if (!*path)
		return error_set(STATUS_CONFIG,
			"dataset %s has no path; set data.train.%s.path=DIR or whichever list it is in", name,
			name);
	for (size_t i = 0; i + DONE <= done->count; i += DONE)
		if (!strcmp(done->name[i], path))
			return add_row(rows, name, done->name[i + 1]);
	int status = stage_source(path, options, &staged);
	if (status)
		return error_prefix("%s", name);
	text_field(&row, staged.path);
	text_format(&row, "\t%s\t", staged.key);
	text_field(&row, path);
	status = text_check(&row);
	if (!status)
		status = names_add(done, path);
	if (!status)
		status = names_add(done, row.data);
	if (!status)
		status = names_add(done, staged.path);
	if (!status)
		status = add_row(rows, name, row.data);
	if (!status && stage_hold(staged.path))
		error_clear();
	text_release(&row);
	staged_release(&staged);
	return status;
}

static int publish_rows(const struct run *run, const struct text *rows)
{
	struct shift_identity identity;
	shift_identity(&identity);
	char *directory = run_path(run, "staged"), *path = run_path(run, "staged/%s.tsv", identity.host);
	int status = directory && path ? file_make_directory(directory) : error_status();
	if (!status)
		status = file_publish(path, rows->data, rows->length);
	free(directory);
	free(path);
	return status;
}

int stage_run(const struct run *run, const struct stage_options *options, struct text *rows)
{
	struct names done = {0};
	int status = STATUS_OK;
	text_add(rows, STAGE_HEADER);
	for (size_t i = 0; i < sizeof lists / sizeof *lists && !status; i++)
		for (size_t j = 0; j < config_groups(run->config, lists[i]) && !status; j++)
			status = stage_group(config_group_text(run->config, lists[i], j, "name"),
				config_group_text(run->config, lists[i], j, "path"), options, &done, rows);
	if (!status)
		hold_done(&done);
	names_release(&done);
	if (!status)
		status = text_check(rows);
	return status ? status : publish_rows(run, rows);
}

/* ---- readers ---- */

static bool is_key(const char *name, size_t length)
{
	return length == 32 && strspn(name, "0123456789abcdef") >= 32;
}

/* ".../nightshift-USER/KEY" of ".../nightshift-USER/KEY/data[/FILE]", owned by the caller; NULL for any other path. */
static char *entry_of(const char *path)
{
	const char *cache = strstr(path, "/nightshift-");
	for (; cache; cache = strstr(cache + 1, "/nightshift-")) {
		const char *key = strchr(cache + 1, '/');
		size_t length = key ? strcspn(key + 1, "/") : 0;
		if (key && is_key(key + 1, length) && text_starts(key + 1 + length, "/data")) {
			char *entry = memory_copy(path, (size_t)(key + 1 + length - path) + 1);
			if (entry)
				entry[key + 1 + length - path] = 0;
			return entry;
		}
	}
	return NULL;
}

int stage_hold(const char *path)
{
	struct text lock = {0}, manifest = {0};
	char *entry = entry_of(path);
	if (!entry)
		return STATUS_OK;
	text_format(&lock, "%s.lock", entry);
	text_format(&manifest, "%s/MANIFEST", entry);
	free(entry);
	int status = text_check(&lock) ? error_status() : text_check(&manifest);
	/* The descriptor stays open on purpose: the lock lasts as long as the process. */
	int descriptor = status ? -1 : open(lock.data, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (!status && (descriptor < 0 || flock(descriptor, LOCK_SH | LOCK_NB) ||
			       !file_exists(manifest.data) || !file_exists(path)))
		status = error_set(
			STATUS_UNAVAILABLE, "%s: the local copy is gone or is being made anew", path);
	if (!status)
		futimens(descriptor, NULL);
	if (status && descriptor >= 0)
		close(descriptor);
	text_release(&lock);
	text_release(&manifest);
	return status;
}
