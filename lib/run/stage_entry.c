/* An entry of the cache of copies, and its lock. */
#include "run/stage_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"

/* File system types (statfs(2)) that live on one node. Whatever is not listed may be shared. */
static const unsigned long local_types[] = {
	0xef53,     /* ext2, ext3, ext4 */
	0x58465342, /* xfs */
	0x9123683e, /* btrfs */
	0x01021994, /* tmpfs */
	0x858458f6, /* ramfs */
	0x2fc12fc1, /* zfs */
	0xf2f52010, /* f2fs */
	0xca451a4e, /* bcachefs */
	0x794c7630, /* overlayfs, as in a container */
	0x73717368, /* squashfs */
};

bool stage_is_local(const char *path)
{
	struct statfs information;
	bool local = false;
	char *at = memory_text(path);
	while (at && statfs(at, &information) && errno == ENOENT && strcmp(at, "/") && strcmp(at, ".")) {
		char *above = path_directory(at);
		free(at);
		at = above;
	}
	if (at && !statfs(at, &information))
		for (size_t i = 0; i < sizeof local_types / sizeof *local_types; i++)
			local = local || ((unsigned long)information.f_type & 0xffffffff) == local_types[i];
	free(at);
	return local;
}

char *stage_scratch(void)
{
	static const char *const names[] = {
		"SLURM_TMPDIR", "JOBSCRATCH", "LOCAL_SCRATCH", "SCRATCHDIR", "TMPDIR"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);
		/* SLURM sets TMPDIR=/tmp when nothing else does: that is no choice of the site. */
		if (!value || *value != '/' || (i == 4 && !strcmp(value, "/tmp")))
			continue;
		if (file_is_directory(value) && stage_is_local(value))
			return memory_text(value);
	}
	warn("no node-local scratch is named (SLURM_TMPDIR, TMPDIR, ...): staging to /tmp; stage.to or --to "
	     "chooses");
	return memory_text("/tmp");
}

static int make_cache(const char *path)
{
	struct stat information;
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_errno(errno == ENOENT ? STATUS_CANNOT_CREATE : 0, "cannot create %s", path);
	int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (descriptor < 0 && (errno == ELOOP || errno == ENOTDIR))
		return error_set(STATUS_PERMISSION,
			"%s: is a link or no directory; remove it, or choose another place with --to", path);
	if (descriptor < 0 || fstat(descriptor, &information)) {
		int status = error_errno(0, "%s", path);
		if (descriptor >= 0)
			close(descriptor);
		return status;
	}
	int status = STATUS_OK;
	if (information.st_uid != geteuid())
		status = error_set(STATUS_PERMISSION,
			"%s: belongs to another user (%ld); choose another place with --to", path,
			(long)information.st_uid);
	else if ((information.st_mode & 077) && fchmod(descriptor, 0700))
		status = error_errno(0, "%s", path);
	close(descriptor);
	return status;
}

static char *cache_path(const char *scratch)
{
	struct text path = {0};
	const struct passwd *user = getpwuid(geteuid());
	char *whole = path_absolute(scratch);
	if (!whole)
		return NULL;
	text_format(&path, "%s/nightshift-", whole);
	free(whole);
	if (user && user->pw_name && !strchr(user->pw_name, '/'))
		text_add(&path, user->pw_name);
	else
		text_format(&path, "%ld", (long)geteuid());
	return text_take(&path);
}

int stage_entry_open(struct stage_entry *entry, const char *scratch, const char *key)
{
	*entry = (struct stage_entry){.lock = -1};
	struct text lock = {0};
	char *cache = NULL;
	/* Not made: where a scratch disk is not mounted, its mount point's disk is the wrong place. */
	if (!file_is_directory(scratch)) {
		error_set(STATUS_CANNOT_CREATE,
			"%s: no such directory to stage to; make it, or choose another with --to", scratch);
		goto failed;
	}
	cache = cache_path(scratch);
	if (!cache || make_cache(cache))
		goto failed;
	entry->path = path_join(cache, key);
	text_format(&lock, "%s/%s.lock", cache, key);
	entry->lock_path = text_take(&lock);
	if (!entry->path || !entry->lock_path)
		goto failed;
	entry->data = path_join(entry->path, "data");
	entry->manifest = path_join(entry->path, "MANIFEST");
	entry->journal = path_join(entry->path, "journal");
	entry->boot = path_join(entry->path, "boot");
	if (!entry->data || !entry->manifest || !entry->journal || !entry->boot)
		goto failed;
	free(cache);
	return STATUS_OK;
failed:
	free(cache);
	stage_entry_release(entry);
	return error_status();
}

void stage_entry_release(struct stage_entry *entry)
{
	if (entry->path)
		stage_entry_unlock(entry);
	free(entry->path);
	free(entry->data);
	free(entry->manifest);
	free(entry->journal);
	free(entry->boot);
	free(entry->lock_path);
	*entry = (struct stage_entry){.lock = -1};
}

int stage_entry_try(struct stage_entry *entry, enum stage_lock kind, bool *taken)
{
	struct stat ours, named;
	*taken = false;
	if (entry->lock < 0)
		entry->lock = open(entry->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (entry->lock < 0)
		return error_errno(0, "%s", entry->lock_path);
	if (flock(entry->lock, (kind == STAGE_SHARED ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
		if (errno == EWOULDBLOCK || errno == EINTR)
			return STATUS_OK;
		return error_errno(STATUS_UNAVAILABLE,
			"%s: cannot be locked; node-local scratch must allow flock", entry->lock_path);
	}
	/* A lock file that was removed meanwhile protects nothing. */
	if (fstat(entry->lock, &ours) || stat(entry->lock_path, &named) || ours.st_ino != named.st_ino ||
		ours.st_dev != named.st_dev) {
		stage_entry_unlock(entry);
		return STATUS_OK;
	}
	*taken = true;
	return STATUS_OK;
}

int stage_entry_wait(struct stage_entry *entry, enum stage_lock kind)
{
	bool taken = false, said = false;
	double pause = 0.01;
	for (;;) {
		int status = stage_entry_try(entry, kind, &taken);
		if (status || taken)
			return status;
		if (signals_notice())
			return error_set(STATUS_AGAIN, "stopped in time while waiting for %s", entry->path);
		if (!said && pause > 0.3) {
			note("%s: waiting for the process that fills it", entry->path);
			said = true;
		}
		clock_sleep(pause);
		pause = pause < 1 ? pause * 1.5 : pause;
	}
}

void stage_entry_unlock(struct stage_entry *entry)
{
	if (entry->lock >= 0)
		close(entry->lock);
	entry->lock = -1;
}

int stage_entry_write(const char *path, const struct text *text)
{
	struct text temporary = {0};
	text_format(&temporary, "%s.new", path);
	if (text_check(text) || text_check(&temporary)) {
		text_release(&temporary);
		return error_status();
	}
	int descriptor = open(temporary.data, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int status = descriptor < 0 ? error_errno(0, "cannot create %s", path) : STATUS_OK;
	if (!status && text->length)
		status = file_write_all(descriptor, text->data, text->length, path);
	if (descriptor >= 0 && close(descriptor) && !status)
		status = error_errno(0, "%s", path);
	if (!status && rename(temporary.data, path))
		status = error_errno(0, "%s: cannot be put in place", path);
	text_release(&temporary);
	return status;
}

/* The kernel's name of this boot; false where it tells none (then every entry is read back). */
static bool boot_name(char name[64])
{
	char *data;
	size_t bytes;
	if (file_read("/proc/sys/kernel/random/boot_id", 63, &data, &bytes)) {
		error_clear();
		return false;
	}
	snprintf(name, 64, "%s", data);
	free(data);
	return true;
}

bool stage_entry_same_boot(const struct stage_entry *entry)
{
	char now[64], *then;
	size_t bytes;
	if (!boot_name(now) || file_read(entry->boot, 63, &then, &bytes)) {
		error_clear();
		return false;
	}
	bool same = !strcmp(now, then);
	free(then);
	return same;
}

int stage_entry_mark_boot(const struct stage_entry *entry)
{
	char now[64] = "";
	struct text text = {0};
	if (boot_name(now))
		text_add(&text, now);
	int status = stage_entry_write(entry->boot, &text);
	text_release(&text);
	return status;
}
