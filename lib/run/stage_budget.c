/* Room for a new copy. */
#include "run/stage_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"

enum { KEY_LENGTH = 32, SPARED_SECONDS = 1800, SIZE_LIMIT = 64 };

struct cached {
	char key[KEY_LENGTH + 1];
	uint64_t bytes;
	time_t used; /* 0: no lock file, so nobody can hold it */
};
struct cache {
	char *path; /* the directory of all entries */
	struct cached *entry;
	size_t count;
	uint64_t bytes; /* of all others than the new one */
	uint64_t there; /* of the new one, from a call that was interrupted */
};

void stage_budget_touch(const struct stage_entry *entry)
{
	if (entry->lock >= 0)
		futimens(entry->lock, NULL);
}

/* ---- what is there ---- */

static uint64_t tree_bytes(const char *path)
{
	struct names names = {0};
	uint64_t bytes = 0;
	struct stat information;
	if (lstat(path, &information))
		return 0;
	bytes = (uint64_t)information.st_blocks * 512;
	if (!S_ISDIR(information.st_mode) || file_list(path, &names))
		return bytes;
	for (size_t i = 0; i < names.count; i++) {
		char *below = path_join(path, names.name[i]);
		bytes += below ? tree_bytes(below) : 0;
		free(below);
	}
	names_release(&names);
	return bytes;
}

/* What KEY/size says; of entries without it, what lies there. */
static uint64_t entry_bytes(const char *path)
{
	char *name = path_join(path, "size"), *data = NULL;
	size_t length;
	uint64_t bytes = 0;
	bool said = name && !file_read(name, SIZE_LIMIT, &data, &length);
	if (said)
		data[strcspn(data, "\n")] = 0;
	said = said && text_to_uint64(data, &bytes);
	free(name);
	free(data);
	return said ? bytes : tree_bytes(path);
}

static bool is_key(const char *name)
{
	return strlen(name) == KEY_LENGTH && strspn(name, "0123456789abcdef") == KEY_LENGTH;
}

static int look_at(struct cache *cache, const char *key)
{
	struct stat information;
	struct text lock = {0};
	struct cached *entry = &cache->entry[cache->count];
	char *path = path_join(cache->path, key);
	text_format(&lock, "%s/%s.lock", cache->path, key);
	int status = path ? text_check(&lock) : error_status();
	if (!status) {
		memcpy(entry->key, key, KEY_LENGTH + 1);
		entry->bytes = entry_bytes(path);
		entry->used = stat(lock.data, &information) ? 0 : information.st_mtime;
		cache->bytes += entry->bytes;
		cache->count++;
	}
	text_release(&lock);
	free(path);
	return status;
}

static int compare_used(const void *a, const void *b)
{
	const struct cached *x = a, *y = b;
	return x->used != y->used ? (x->used < y->used ? -1 : 1) : strcmp(x->key, y->key);
}

/* All entries but the new one, those used longest ago first. */
static int list_cache(struct cache *cache, const struct stage_entry *entry)
{
	struct names names = {0};
	const char *own = path_base(entry->path);
	cache->path = path_directory(entry->path);
	cache->there = tree_bytes(entry->path);
	int status = cache->path ? file_list(cache->path, &names) : error_status();
	if (!status) {
		cache->entry = memory_new(names.count, sizeof *cache->entry);
		status = cache->entry ? STATUS_OK : error_status();
	}
	for (size_t i = 0; i < names.count && !status; i++)
		if (is_key(names.name[i]) && strcmp(names.name[i], own) != 0)
			status = look_at(cache, names.name[i]);
	names_release(&names);
	if (!status && cache->count)
		qsort(cache->entry, cache->count, sizeof *cache->entry, compare_used);
	return status;
}

/* ---- removing ---- */

/* The manifest first: what is left of a removal that is cut short is no copy. */
static int remove_entry(const struct stage_entry *old)
{
	int status = file_remove(old->manifest);
	if (!status)
		status = file_remove(old->journal);
	return status ? status : file_remove_tree(old->path);
}

/* *gone: it was nobody's and is removed. */
static int try_remove(const struct cache *cache, const struct cached *cached, bool *gone)
{
	struct stage_entry old;
	struct stat information;
	char *above = path_directory(cache->path);
	int status = above ? stage_entry_open(&old, above, cached->key) : error_status();
	bool taken = false;
	*gone = false;
	free(above);
	if (status)
		return status;
	status = stage_entry_try(&old, STAGE_EXCLUSIVE, &taken);
	/* Somebody may have used it since it was looked at. */
	if (taken && !fstat(old.lock, &information) && cached->used && information.st_mtime != cached->used)
		taken = false;
	if (!status && taken) {
		status = remove_entry(&old);
		*gone = !status;
	}
	stage_entry_release(&old);
	return status;
}

static bool has_room(const struct cache *cache, uint64_t bytes, uint64_t budget)
{
	uint64_t space = 0;
	bool known = !file_free_space(cache->path, &space);
	return bytes <= budget && cache->bytes <= budget - bytes && (!known || bytes <= space + cache->there);
}

static int make_room(struct cache *cache, uint64_t bytes, uint64_t budget)
{
	char size[32];
	time_t now = time(NULL);
	int status = STATUS_OK;
	for (size_t i = 0; i < cache->count && !status && bytes <= budget && !has_room(cache, bytes, budget);
		i++) {
		const struct cached *entry = &cache->entry[i];
		bool gone = false;
		if (entry->used > now - SPARED_SECONDS)
			continue;
		status = try_remove(cache, entry, &gone);
		if (!gone)
			continue;
		cache->bytes -= entry->bytes;
		note("%s/%s: removed, %s used longest ago, to keep the budget", cache->path, entry->key,
			text_of_bytes(entry->bytes, size));
	}
	return status;
}

/* Only the budget is judged: whether the disk has room is found by whoever writes. */
static int judge(const struct cache *cache, uint64_t bytes, uint64_t budget)
{
	char wanted[32], limit[32], taken[32];
	if (bytes <= budget && cache->bytes <= budget - bytes)
		return STATUS_OK;
	text_of_bytes(bytes, wanted);
	text_of_bytes(budget, limit);
	if (bytes > budget)
		return error_set(STATUS_CANNOT_CREATE,
			"%s: %s are needed, the budget is %s; raise stage.budget (--budget)", cache->path,
			wanted, limit);
	return error_set(STATUS_CANNOT_CREATE,
		"%s: %s are needed, the budget is %s, and copies that are in use or were in the last half "
		"hour take "
		"%s of it; raise stage.budget (--budget), or choose another place with --to",
		cache->path, wanted, limit, text_of_bytes(cache->bytes, taken));
}

/* One process at a time decides what goes; the lock dies with it. */
static int lock_cache(const char *path, int *descriptor)
{
	struct text name = {0};
	text_format(&name, "%s/budget.lock", path);
	*descriptor =
		text_check(&name) ? -1 : open(name.data, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int status = *descriptor < 0 ? error_errno(0, "%s", name.data ? name.data : path) : STATUS_OK;
	while (!status && flock(*descriptor, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			status = error_errno(STATUS_UNAVAILABLE, "%s: cannot be locked", name.data);
		else if (signals_notice())
			status = error_set(STATUS_AGAIN, "stopped in time while waiting for %s", name.data);
		else
			clock_sleep(0.05);
	}
	text_release(&name);
	return status;
}

static int note_size(const struct stage_entry *entry, uint64_t bytes)
{
	struct text text = {0};
	char *name = path_join(entry->path, "size");
	text_format(&text, "%llu\n", (unsigned long long)bytes);
	int status = name ? STATUS_OK : error_status();
	if (!status && mkdir(entry->path, 0700) && errno != EEXIST)
		status = error_errno(0, "cannot create %s", entry->path);
	if (!status)
		status = stage_entry_write(name, &text);
	text_release(&text);
	free(name);
	return status;
}

int stage_budget_reserve(const struct stage_entry *entry, uint64_t bytes, uint64_t budget)
{
	struct cache cache = {0};
	int lock = -1, status;
	stage_budget_touch(entry);
	if (!budget)
		return note_size(entry, bytes);
	char *above = path_directory(entry->path);
	status = above ? lock_cache(above, &lock) : error_status();
	if (!status)
		status = list_cache(&cache, entry);
	if (!status)
		status = make_room(&cache, bytes, budget);
	if (!status)
		status = judge(&cache, bytes, budget);
	if (!status)
		status = note_size(entry, bytes);
	if (lock >= 0)
		close(lock);
	free(above);
	free(cache.path);
	free(cache.entry);
	return status;
}
