/* Unpacking a tar archive to local scratch. */
#include "run/stage_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"
#include "file/tar.h"

enum { BATCH_MEMBERS = 512, BATCH_BYTES = 16 << 20, SMALL_BYTES = 2 << 20, BUFFER_BYTES = 256 << 10 };

struct member {
	char *path;
	size_t start; /* in the batch's bytes */
	size_t bytes;
	uint32_t crc;
};

struct link {
	char *path, *goal; /* below the root; the goal resolved as text, "" is the root */
	bool hard, made;
};

/* Names seen so far, as 64-bit digests: equal digests only cost a file that is written twice. */
struct seen {
	uint64_t *slot;
	size_t size, used; /* size is a power of two */
};

struct unpack {
	struct tar_reader *reader;
	const char *archive;
	const struct stage_rows *have;
	const struct stage_target *target;
	struct stage_rows *rows;
	struct stage_count *count;
	int jobs;
	struct member member[BATCH_MEMBERS];
	size_t members;
	char *bytes;
	size_t filled;
	struct link *links;
	size_t link_count, link_capacity;
	struct seen seen;
	struct text directory; /* the one made last */
};

bool stage_is_archive(const char *path)
{
	static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz",
		".tar.zst", ".tzst", ".tar.lz4"};
	char head[512] = {0};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (text_ends(path, ends[i]))
			return true;
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no waiting for the writer of a pipe */
	if (file < 0)
		return false;
	ssize_t got = read(file, head, sizeof head);
	close(file);
	return got == sizeof head && !memcmp(head + 257, "ustar", 5);
}

/* ---- names ---- */

static uint64_t name_digest(const char *name)
{
	uint64_t digest = 14695981039346656037u; /* FNV-1a */
	for (; *name; name++)
		digest = (digest ^ (unsigned char)*name) * 1099511628211u;
	return digest ? digest : 1;
}

static bool seen_put(struct seen *seen, uint64_t digest)
{
	size_t at = digest & (seen->size - 1);
	while (seen->slot[at] && seen->slot[at] != digest)
		at = (at + 1) & (seen->size - 1);
	bool there = seen->slot[at] == digest;
	seen->slot[at] = digest;
	seen->used += !there;
	return there;
}

/* Puts the name in; *there: it was in already. */
static int seen_add(struct seen *seen, const char *name, bool *there)
{
	if (seen->used * 2 >= seen->size) {
		struct seen larger = {.size = seen->size ? seen->size * 2 : 1024};
		larger.slot = memory_new(larger.size, sizeof *larger.slot);
		if (!larger.slot)
			return error_status();
		for (size_t i = 0; i < seen->size; i++)
			if (seen->slot[i])
				seen_put(&larger, seen->slot[i]);
		free(seen->slot);
		*seen = larger;
	}
	*there = seen_put(seen, name_digest(name));
	return STATUS_OK;
}

/* Every directory above the file, and `path` itself with `whole`. */
static int make_directories(struct unpack *unpack, const char *path, bool whole)
{
	size_t length = whole ? strlen(path) : (size_t)(path_base(path) - path);
	if (unpack->directory.length == length &&
		!strncmp(path, unpack->directory.data ? unpack->directory.data : "", length))
		return STATUS_OK;
	text_clear(&unpack->directory);
	text_append(&unpack->directory, path, length);
	int status = text_check(&unpack->directory);
	for (size_t i = 1; i <= length && !status; i++) {
		char *end = unpack->directory.data + i;
		char kept = *end;
		if (kept != '/' && kept != 0)
			continue;
		*end = 0;
		status = stage_make_directory(unpack->target, unpack->directory.data);
		*end = kept;
	}
	return status;
}

/* ---- files ---- */

static int finish_file(struct unpack *unpack, const char *path, uint64_t bytes, uint32_t crc)
{
	struct text row = {0};
	stage_rows_format(&row, path, 0, bytes, crc);
	int status = text_check(&row);
	if (!status)
		status = file_write_all(unpack->target->journal, row.data, row.length, "journal of the copy");
	text_release(&row);
	if (!status)
		status = stage_rows_add(unpack->rows, path, 0, bytes, crc);
	stage_count_add(unpack->count, 1, bytes);
	return status;
}

static int check_size(const struct unpack *unpack, int file, const char *path, uint64_t bytes)
{
	struct stat there;
	if (fstat(file, &there))
		return error_errno(0, "%s/%s", unpack->target->path, path);
	if ((uint64_t)there.st_size != bytes)
		return error_set(STATUS_IO, "%s/%s: has %llu bytes after writing %llu", unpack->target->path,
			path, (unsigned long long)there.st_size, (unsigned long long)bytes);
	return STATUS_OK;
}

static int write_member(void *context, size_t index)
{
	struct unpack *unpack = context;
	struct member *member = &unpack->member[index];
	const char *data = unpack->bytes + member->start;
	int file = stage_create(unpack->target, unpack->target->descriptor, member->path);
	if (file < 0)
		return error_status();
	member->crc = crc32c(0, data, member->bytes);
	int status = file_write_all(file, data, member->bytes, member->path);
	if (!status)
		status = check_size(unpack, file, member->path, member->bytes);
	if (close(file) && !status)
		status = error_errno(0, "%s/%s", unpack->target->path, member->path);
	return status;
}

static int flush(struct unpack *unpack)
{
	int status = threads_run(unpack->jobs, unpack->members, write_member, unpack);
	for (size_t i = 0; i < unpack->members; i++) {
		struct member *member = &unpack->member[i];
		if (!status)
			status = finish_file(unpack, member->path, member->bytes, member->crc);
		free(member->path);
	}
	unpack->members = 0;
	unpack->filled = 0;
	return status;
}

/* Reads all `bytes` bytes of the present member. */
static int read_member(struct unpack *unpack, char *data, size_t bytes)
{
	while (bytes) {
		size_t got;
		int status = tar_read(unpack->reader, data, bytes, &got);
		if (status)
			return status;
		if (!got)
			return error_set(STATUS_DATA, "%s: a member is cut short", unpack->archive);
		data += got;
		bytes -= got;
	}
	return STATUS_OK;
}

static int add_small(struct unpack *unpack, const struct tar_member *member)
{
	size_t bytes = (size_t)member->bytes;
	if (unpack->members == BATCH_MEMBERS || unpack->filled + bytes > BATCH_BYTES) {
		int status = flush(unpack);
		if (status)
			return status;
	}
	struct member *kept = &unpack->member[unpack->members];
	*kept = (struct member){.path = memory_text(member->name), .start = unpack->filled, .bytes = bytes};
	if (!kept->path)
		return error_status();
	unpack->members++;
	unpack->filled += bytes;
	return read_member(unpack, unpack->bytes + kept->start, bytes);
}

static int stream(
	struct unpack *unpack, int file, const struct tar_member *member, char *buffer, uint32_t *crc)
{
	uint64_t left = member->bytes;
	while (left) {
		size_t part = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
		int status = read_member(unpack, buffer, part);
		if (!status)
			status = file_write_all(file, buffer, part, member->name);
		if (status)
			return status;
		*crc = crc32c(*crc, buffer, part);
		left -= part;
	}
	return STATUS_OK;
}

static int add_large(struct unpack *unpack, const struct tar_member *member)
{
	uint32_t crc = 0;
	char *buffer = memory_new(BUFFER_BYTES, 1);
	if (!buffer)
		return error_status();
	int file = stage_create(unpack->target, unpack->target->descriptor, member->name);
	int status = file < 0 ? error_status() : stream(unpack, file, member, buffer, &crc);
	if (!status)
		status = check_size(unpack, file, member->name, member->bytes);
	if (file >= 0 && close(file) && !status)
		status = error_errno(0, "%s/%s", unpack->target->path, member->name);
	free(buffer);
	return status ? status : finish_file(unpack, member->name, member->bytes, crc);
}

static int add_file(struct unpack *unpack, const struct tar_member *member)
{
	bool again = false;
	int status = seen_add(&unpack->seen, member->name, &again);
	if (!status && again) /* the earlier one must be written before this one replaces it */
		status = flush(unpack);
	const struct stage_row *row = stage_rows_find(unpack->have, member->name, 0);
	if (!status && !again && row && row->good && row->bytes == member->bytes)
		return stage_rows_add(unpack->rows, member->name, 0, row->bytes, row->crc);
	if (!status)
		status = make_directories(unpack, member->name, false);
	if (status)
		return status;
	return member->bytes > SMALL_BYTES ? add_large(unpack, member) : add_small(unpack, member);
}

/* ---- links ---- */

/* Whether a link at `path` with this text climbs above the root, or starts there. */
static bool leaves_root(const char *path, const char *target)
{
	int depth = 0;
	for (const char *c = path; *c; c++)
		depth += *c == '/';
	if (*target == '/')
		return true;
	while (*target && depth >= 0) {
		size_t length = strcspn(target, "/");
		if (length == 2 && !strncmp(target, "..", 2))
			depth--;
		else if (length && !(length == 1 && *target == '.'))
			depth++;
		target += length;
		target += *target == '/';
	}
	return depth < 0;
}

/* The goal of a link as a clean path below the root, owned by the caller. */
static char *resolve(const struct tar_member *member)
{
	struct text goal = {0};
	text_add(&goal, "/");
	if (member->type == 'l')
		text_append(&goal, member->name, (size_t)(path_base(member->name) - member->name));
	text_add(&goal, member->target);
	char *clean = text_check(&goal) ? NULL : path_absolute(goal.data);
	char *below = clean ? memory_text(clean + 1) : NULL;
	free(clean);
	text_release(&goal);
	return below;
}

int stage_tar_goal(const char *archive, const struct tar_member *member, char **goal)
{
	*goal = NULL;
	if (member->type == 'l' && leaves_root(member->name, member->target))
		return error_set(STATUS_DATA,
			"%s: %s: is a link to %s, outside of the archive; pack it with tar -h", archive,
			member->name, member->target);
	*goal = resolve(member);
	return *goal ? STATUS_OK : error_status();
}

static int add_link(struct unpack *unpack, const struct tar_member *member)
{
	char *goal;
	int status = stage_tar_goal(unpack->archive, member, &goal);
	if (status)
		return status;
	if (memory_grow(
		    &unpack->links, &unpack->link_capacity, unpack->link_count + 1, sizeof *unpack->links)) {
		free(goal);
		return error_status();
	}
	struct link *link = &unpack->links[unpack->link_count++];
	*link = (struct link){.path = memory_text(member->name), .goal = goal, .hard = member->type == 'h'};
	return link->path ? STATUS_OK : error_status();
}

/* A link to a directory says the way from the root: its own text might climb out through another link. */
static int link_directory(const struct unpack *unpack, const struct link *link)
{
	struct text way = {0};
	for (const char *c = link->path; *c; c++)
		if (*c == '/')
			text_add(&way, "../");
	text_add(&way, *link->goal || way.length ? link->goal : ".");
	int status = text_check(&way);
	if (!status && symlinkat(way.data, unpack->target->descriptor, link->path))
		status = error_errno(0, "%s/%s", unpack->target->path, link->path);
	text_release(&way);
	return status;
}

static int link_file(struct unpack *unpack, const struct link *link)
{
	int directory = unpack->target->descriptor;
	uint64_t bytes;
	uint32_t crc;
	if (linkat(directory, link->goal, directory, link->path, 0))
		return error_errno(0, "%s/%s", unpack->target->path, link->path);
	int status = stage_digest(unpack->target, link->path, &bytes, &crc);
	return status ? status : stage_rows_add(unpack->rows, link->path, 0, bytes, crc);
}

/* Makes the link if what it points to is there by now. */
static int make_link(struct unpack *unpack, struct link *link)
{
	struct stat goal;
	int directory = unpack->target->descriptor;
	if (fstatat(directory, *link->goal ? link->goal : ".", &goal, link->hard ? AT_SYMLINK_NOFOLLOW : 0))
		return errno == ENOENT || errno == ELOOP
			       ? STATUS_OK
			       : error_errno(0, "%s/%s", unpack->target->path, link->goal);
	/* A file that tar was given twice is a file and then a link to itself. */
	link->made = link->hard && !strcmp(link->goal, link->path);
	if (link->made)
		return STATUS_OK;
	int status = make_directories(unpack, link->path, false);
	if (!status && unlinkat(directory, link->path, 0) && errno != ENOENT)
		status = error_set(
			STATUS_DATA, "%s: %s: is a link and a directory", unpack->archive, link->path);
	if (!status)
		status = S_ISDIR(goal.st_mode) ? link_directory(unpack, link) : link_file(unpack, link);
	link->made = !status;
	return status;
}

static int make_links(struct unpack *unpack)
{
	int status = STATUS_OK;
	for (size_t made = 1, left = unpack->link_count; made && left && !status;) {
		made = 0;
		for (size_t i = 0; i < unpack->link_count && !status; i++) {
			struct link *link = &unpack->links[i];
			if (link->made)
				continue;
			status = make_link(unpack, link);
			made += link->made;
		}
		left -= made;
	}
	for (size_t i = 0; i < unpack->link_count && !status; i++)
		if (!unpack->links[i].made)
			status = error_set(STATUS_DATA, "%s: %s: is a link to %s, which is not there",
				unpack->archive, unpack->links[i].path, unpack->links[i].goal);
	return status;
}

/* ---- the archive ---- */

static int add_member(struct unpack *unpack, const struct tar_member *member)
{
	if (signals_notice())
		return error_set(STATUS_AGAIN, "stopped in time while unpacking %s", unpack->archive);
	if (member->type == 'd')
		return make_directories(unpack, member->name, true);
	return member->type == 'f' ? add_file(unpack, member) : add_link(unpack, member);
}

static int unpack_all(struct unpack *unpack)
{
	const struct tar_member *member;
	int status;
	for (;;) {
		status = tar_next(unpack->reader, &member);
		if (status || !member)
			break;
		status = add_member(unpack, member);
		if (status)
			break;
	}
	/* Members in memory are whole; on notice they still go out. */
	if (status && status != STATUS_AGAIN) {
		for (size_t i = 0; i < unpack->members; i++)
			free(unpack->member[i].path);
		return status;
	}
	int flushed = flush(unpack);
	if (status == STATUS_AGAIN && !flushed)
		return error_set(STATUS_AGAIN, "stopped in time while unpacking %s", unpack->archive);
	return flushed ? flushed : make_links(unpack);
}

static int check_space(const struct unpack *unpack)
{
	uint64_t bytes = 0, whole = 0;
	int status = file_size(unpack->archive, &bytes);
	for (size_t i = 0; i < unpack->have->count; i++)
		whole += unpack->have->row[i].good ? unpack->have->row[i].bytes : 0;
	return status ? status : stage_space_check(unpack->target, bytes > whole ? bytes - whole : 0, 1);
}

static void unpack_release(struct unpack *unpack)
{
	for (size_t i = 0; i < unpack->link_count; i++) {
		free(unpack->links[i].path);
		free(unpack->links[i].goal);
	}
	free(unpack->links);
	free(unpack->seen.slot);
	free(unpack->bytes);
	text_release(&unpack->directory);
	tar_close(unpack->reader);
	free(unpack);
}

int stage_tar_unpack(const char *archive, const struct stage_rows *have, const struct stage_target *target,
	int jobs, const char *what, struct stage_rows *rows, struct stage_count *count)
{
	struct unpack *unpack = memory_new(1, sizeof *unpack);
	if (!unpack)
		return error_status();
	*unpack = (struct unpack){.archive = archive,
		.have = have,
		.target = target,
		.rows = rows,
		.count = count,
		.jobs = jobs};
	unpack->bytes = memory_new(BATCH_BYTES, 1);
	stage_count_start(count, what, 0, 0);
	int status = unpack->bytes ? check_space(unpack) : error_status();
	if (!status)
		status = tar_open(archive, &unpack->reader);
	if (!status)
		status = unpack_all(unpack);
	stage_count_end(count);
	stage_rows_sort(rows);
	unpack_release(unpack);
	return status;
}
