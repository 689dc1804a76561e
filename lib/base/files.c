/* Files: reading with a bound, and publishing. */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

enum { COPY_BYTES = 1 << 20, TAG_BYTES = 64, HOST_BYTES = 60, SWEEP_SECONDS = 60 };

bool file_read_at(int descriptor, void *data, size_t bytes, uint64_t offset, size_t *got)
{
	*got = 0;
	while (*got < bytes) {
		ssize_t count = pread(descriptor, (char *)data + *got, bytes - *got, (off_t)(offset + *got));
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return false;
		if (!count)
			break;
		*got += (size_t)count;
	}
	return true;
}

int file_write_all(int descriptor, const void *data, size_t bytes, const char *path)
{
	const char *rest = data;
	while (bytes) {
		ssize_t written = write(descriptor, rest, bytes);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_errno(0, "%s", path);
		rest += written;
		bytes -= (size_t)written;
	}
	return STATUS_OK;
}

/* One read, waiting for the other end of a pipe; -1 with a message. */
static ssize_t read_some(int descriptor, void *data, size_t bytes, const char *path)
{
	struct pollfd wait = {.fd = descriptor, .events = POLLIN};
	ssize_t got;
	do {
		got = read(descriptor, data, bytes);
	} while (got < 0 && (errno == EINTR || (errno == EAGAIN && poll(&wait, 1, -1))));
	if (got < 0)
		error_errno(0, "%s", path);
	return got;
}

static int read_descriptor(int descriptor, const char *path, size_t limit, struct text *content)
{
	struct stat information;
	if (fstat(descriptor, &information))
		return error_errno(0, "%s", path);
	if (S_ISDIR(information.st_mode))
		return error_set(STATUS_NO_INPUT, "%s: is a directory, a file was expected", path);
	/* The size is a hint only: the file may grow, and files of /proc say 0. */
	size_t expected = information.st_size > 0 ? (size_t)information.st_size : 0;
	for (;;) {
		if (expected > limit || content->length > limit)
			return error_set(STATUS_DATA, "%s: longer than the %zu bytes such a file may have",
				path, limit);
		size_t wanted = content->length < expected ? expected : content->length + 4096;
		if (memory_grow(&content->data, &content->capacity, wanted + 2, 1))
			return error_prefix("%s", path);
		ssize_t got = read_some(descriptor, content->data + content->length,
			content->capacity - content->length - 1, path);
		if (got < 0)
			return error_status();
		if (!got)
			return STATUS_OK;
		content->length += (size_t)got;
	}
}

static int check_regular(int descriptor, const char *path)
{
	struct stat information;
	if (fstat(descriptor, &information))
		return error_errno(0, "%s", path);
	if (!S_ISREG(information.st_mode) && !S_ISDIR(information.st_mode))
		return error_set(STATUS_NO_INPUT, "%s: is a pipe or a device, a file was expected", path);
	return STATUS_OK;
}

/* Not blocking, for the open itself would wait for a writer where the path is a pipe that nobody writes to. */
static int read_path(const char *path, bool regular, size_t limit, char **data, size_t *bytes)
{
	struct text content = {0};
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (descriptor < 0)
		return error_errno(0, "%s", path);
	int status = regular ? check_regular(descriptor, path) : STATUS_OK;
	if (!status)
		status = read_descriptor(descriptor, path, limit, &content);
	close(descriptor);
	if (status) {
		text_release(&content);
		return status;
	}
	content.data[content.length] = 0;
	*data = content.data;
	*bytes = content.length;
	return STATUS_OK;
}

int file_read(const char *path, size_t limit, char **data, size_t *bytes)
{
	return read_path(path, false, limit, data, bytes);
}

int file_read_regular(const char *path, size_t limit, char **data, size_t *bytes)
{
	return read_path(path, true, limit, data, bytes);
}

int file_read_tail(const char *path, size_t limit, char **data, size_t *bytes)
{
	struct text content = {0};
	struct stat information;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status;
	if (descriptor < 0)
		return error_errno(0, "%s", path);
	status = check_regular(descriptor, path);
	if (!status && (fstat(descriptor, &information) ||
			       (information.st_size > (off_t)limit &&
				       lseek(descriptor, information.st_size - (off_t)limit, SEEK_SET) < 0)))
		status = error_errno(0, "%s", path);
	/* It may grow while it is read. */
	if (!status)
		status = read_descriptor(descriptor, path, limit + (1 << 20), &content);
	close(descriptor);
	if (status) {
		text_release(&content);
		return status;
	}
	content.data[content.length] = 0;
	const char *newline =
		information.st_size > (off_t)limit ? memchr(content.data, '\n', content.length) : NULL;
	if (newline) {
		content.length -= (size_t)(newline + 1 - content.data);
		memmove(content.data, newline + 1, content.length + 1);
	}
	*data = content.data;
	*bytes = content.length;
	return STATUS_OK;
}

bool file_exists(const char *path)
{
	struct stat information;
	return !lstat(path, &information) || (errno != ENOENT && errno != ENOTDIR);
}

bool file_is_directory(const char *path)
{
	struct stat information;
	return !stat(path, &information) && S_ISDIR(information.st_mode);
}

int file_size(const char *path, uint64_t *bytes)
{
	struct stat information;
	if (stat(path, &information))
		return error_errno(0, "%s", path);
	*bytes = (uint64_t)information.st_size;
	return STATUS_OK;
}

static char tag[TAG_BYTES];

void publish_tag(const char *text)
{
	snprintf(tag, sizeof tag, "%s%s", text ? text : "", text ? "." : "");
}

char *path_temporary(const char *path, const char *suffix)
{
	static atomic_uint counter;
	char host[HOST_NAME_MAX + 1] = "host";
	struct text name = {0};
	gethostname(host, sizeof host);
	host[HOST_NAME_MAX] = 0;
	const char *base = path_base(path);
	text_append(&name, path, (size_t)(base - path));
	text_format(&name, ".%.100s.%s%.*s.%ld.%u.%s", base, tag, HOST_BYTES, host, (long)getpid(),
		atomic_fetch_add(&counter, 1), suffix);
	return text_take(&name);
}

/* The process that made a name of path_temporary() on this host; 0: none. Takes the name apart. */
static int64_t maker(char *name)
{
	static const char *const suffixes[] = {".partial", ".dead"};
	char host[HOST_NAME_MAX + 2] = ".";
	uint64_t counter;
	int64_t process;
	gethostname(host + 1, sizeof host - 1);
	host[sizeof host - 1] = 0;
	host[HOST_BYTES + 1] = 0;
	const char *suffix = text_ends(name, suffixes[0]) ? suffixes[0] : suffixes[1];
	if (name[0] != '.' || !text_ends(name, suffix))
		return 0;
	name[strlen(name) - strlen(suffix)] = 0;
	char *last = strrchr(name, '.');
	if (!last)
		return 0;
	*last = 0;
	char *before = strrchr(name, '.');
	if (!before || !text_to_uint64(last + 1, &counter) || !text_to_int64(before + 1, &process))
		return 0;
	*before = 0;
	return text_ends(name, host) && process > 0 && process <= INT_MAX ? process : 0;
}

/* Removes one entry where it is such a leftover, looks below it where it is a directory. */
static void sweep_entry(const char *path, char *name, bool deep)
{
	struct stat information;
	if (lstat(path, &information))
		return;
	int64_t process = maker(name);
	if (process && time(NULL) - information.st_mtime > SWEEP_SECONDS && kill((pid_t)process, 0) &&
		errno == ESRCH)
		file_remove_tree(path);
	else if (deep && !process && S_ISDIR(information.st_mode))
		file_sweep(path, true);
}

void file_sweep(const char *directory, bool deep)
{
	struct names names = {0};
	if (file_is_directory(directory) && !file_list(directory, &names))
		for (size_t i = 0; i < names.count; i++) {
			char *path = path_join(directory, names.name[i]);
			if (path)
				sweep_entry(path, names.name[i], deep);
			free(path);
		}
	names_release(&names);
	error_clear();
}

int publish_open(struct publish *publish, const char *path)
{
	*publish = (struct publish){.descriptor = -1};
	publish->path = memory_text(path);
	char *temporary = publish->path ? path_temporary(path, "partial") : NULL;
	if (!temporary)
		goto failed;
	publish->descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (publish->descriptor < 0) {
		error_errno(errno == ENOENT ? STATUS_CANNOT_CREATE : 0, "cannot create %s", path);
		free(temporary);
		goto failed;
	}
	publish->temporary = temporary;
	return STATUS_OK;
failed:
	publish_abandon(publish);
	return error_status();
}

int publish_write(struct publish *publish, const void *data, size_t bytes)
{
	if (file_write_all(publish->descriptor, data, bytes, publish->path))
		return error_status();
	publish->crc = crc32c(publish->crc, data, bytes);
	publish->bytes += bytes;
	return STATUS_OK;
}

int publish_commit(struct publish *publish)
{
	int status = STATUS_OK;
	if (fsync(publish->descriptor))
		status = error_errno(0, "%s", publish->path);
	/* Network file systems report a full disk as late as at close. */
	if (close(publish->descriptor) && !status)
		status = error_errno(0, "%s", publish->path);
	publish->descriptor = -1;
	if (!status && rename(publish->temporary, publish->path))
		status = error_errno(0, "%s: cannot be put in place", publish->path);
	if (!status) {
		free(publish->temporary);
		publish->temporary = NULL;
		char *directory = path_directory(publish->path);
		status = directory ? file_sync_directory(directory) : error_status();
		free(directory);
	}
	publish_abandon(publish);
	return status;
}

void publish_abandon(struct publish *publish)
{
	if (publish->temporary) {
		if (publish->descriptor >= 0)
			close(publish->descriptor);
		unlink(publish->temporary);
	}
	free(publish->temporary);
	free(publish->path);
	publish->path = publish->temporary = NULL;
	publish->descriptor = -1;
}

int file_publish(const char *path, const void *data, size_t bytes)
{
	struct publish publish;
	int status = publish_open(&publish, path);
	if (status)
		return status;
	status = publish_write(&publish, data, bytes);
	if (status) {
		publish_abandon(&publish);
		return status;
	}
	return publish_commit(&publish);
}

int file_publish_new(const char *path, const void *data, size_t bytes, bool *made)
{
	struct publish publish = {.descriptor = -1};
	*made = false;
	int status = publish_open(&publish, path);
	if (!status)
		status = publish_write(&publish, data, bytes);
	if (!status && fsync(publish.descriptor))
		status = error_errno(0, "%s", path);
	if (!status) {
		*made = !link(publish.temporary, path);
		if (!*made && errno != EEXIST)
			status = error_errno(0, "%s: cannot be put in place", path);
	}
	publish_abandon(&publish);
	char *directory = status ? NULL : path_directory(path);
	if (!status)
		status = directory ? file_sync_directory(directory) : error_status();
	free(directory);
	return status;
}

/* Whether the path still means the file that the descriptor has open. */
static bool stands(int descriptor, const char *path)
{
	struct stat ours, named;
	return !fstat(descriptor, &ours) && !stat(path, &named) && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

int file_lock(const char *path, double seconds, int *descriptor)
{
	double end = clock_seconds() + seconds;
	for (;;) {
		*descriptor = open(path, O_RDWR | O_CLOEXEC);
		if (*descriptor < 0)
			return STATUS_OK;
		int failed = flock(*descriptor, LOCK_EX | LOCK_NB) ? errno : 0;
		if (!failed && stands(*descriptor, path))
			return STATUS_OK;
		close(*descriptor);
		*descriptor = -1;
		if (failed && failed != EWOULDBLOCK && failed != EINTR)
			return STATUS_OK;
		if (clock_seconds() > end)
			return error_set(STATUS_UNAVAILABLE,
				"%s: another process has been changing it for %.0f s; try again", path,
				seconds);
		clock_sleep(0.01);
	}
}

static int copy_start(int descriptor, struct publish *publish, uint64_t bytes, const char *path)
{
	int status = STATUS_OK;
	char *buffer = memory_new(COPY_BYTES, 1);
	if (!buffer)
		return error_status();
	while (bytes && !status) {
		ssize_t got = read_some(descriptor, buffer, bytes < COPY_BYTES ? bytes : COPY_BYTES, path);
		if (got > 0)
			status = publish_write(publish, buffer, (size_t)got);
		else
			status = got < 0 ? error_status()
					 : error_set(
						   STATUS_DATA, "%s: became shorter while it was read", path);
		bytes -= got > 0 ? (uint64_t)got : 0;
	}
	free(buffer);
	return status;
}

int file_cut(const char *path, uint64_t bytes)
{
	struct stat information;
	struct publish publish = {.descriptor = -1};
	int status = STATUS_OK;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0 || fstat(descriptor, &information)) {
		status = error_errno(0, "%s", path);
		goto done;
	}
	uint64_t size = (uint64_t)information.st_size;
	if (size < bytes)
		status = error_set(STATUS_DATA, "%s: has %llu bytes where at least %llu were written", path,
			(unsigned long long)size, (unsigned long long)bytes);
	if (!status)
		status = publish_open(&publish, path);
	if (!status)
		status = copy_start(descriptor, &publish, bytes, path);
	if (!status)
		status = publish_commit(&publish);
done:
	publish_abandon(&publish);
	if (descriptor >= 0)
		close(descriptor);
	return status;
}

int file_sync_directory(const char *path)
{
	int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (descriptor < 0)
		return error_errno(0, "%s", path);
	int status = STATUS_OK;
	/* Some file systems cannot sync a directory and say EINVAL: the rename is all they offer. */
	if (fsync(descriptor) && errno != EINVAL)
		status = error_errno(0, "%s", path);
	close(descriptor);
	return status;
}

int file_make_directory(const char *path)
{
	if (!mkdir(path, 0777))
		return STATUS_OK;
	int number = errno;
	if (number == EEXIST && file_is_directory(path))
		return STATUS_OK;
	errno = number;
	return error_errno(
		number == ENOENT || number == EEXIST || number == ENOTDIR ? STATUS_CANNOT_CREATE : 0,
		"cannot create directory %s", path);
}

int file_make_directories(const char *path)
{
	if (file_is_directory(path))
		return STATUS_OK;
	char *parent = path_directory(path);
	if (!parent)
		return error_status();
	int status = strcmp(parent, path) ? file_make_directories(parent) : STATUS_OK;
	free(parent);
	return status ? status : file_make_directory(path);
}

int file_remove(const char *path)
{
	if (unlink(path) && errno != ENOENT)
		return error_errno(0, "cannot remove %s", path);
	return STATUS_OK;
}

static int remove_entries(const char *path)
{
	struct names names = {0};
	int status = file_list(path, &names);
	for (size_t i = 0; i < names.count && !status; i++) {
		char *entry = path_join(path, names.name[i]);
		status = entry ? file_remove_tree(entry) : error_status();
		free(entry);
	}
	names_release(&names);
	return status;
}

int file_remove_tree(const char *path)
{
	struct stat information;
	if (lstat(path, &information))
		return errno == ENOENT ? STATUS_OK : error_errno(0, "%s", path);
	if (!S_ISDIR(information.st_mode))
		return file_remove(path);
	int status = remove_entries(path);
	if (!status && rmdir(path) && errno != ENOENT)
		status = error_errno(0, "cannot remove %s", path);
	return status;
}

int file_rename(const char *from, const char *to)
{
	if (rename(from, to))
		return error_errno(0, "cannot rename %s to %s", from, to);
	char *directory = path_directory(to);
	int status = directory ? file_sync_directory(directory) : error_status();
	free(directory);
	return status;
}

int file_free_space(const char *path, uint64_t *bytes)
{
	struct statvfs information;
	if (statvfs(path, &information))
		return error_errno(0, "%s", path);
	*bytes = (uint64_t)information.f_bavail * information.f_frsize;
	return STATUS_OK;
}

int names_add(struct names *names, const char *name)
{
	if (memory_grow(&names->name, &names->capacity, names->count + 1, sizeof *names->name))
		return error_status();
	names->name[names->count] = memory_text(name);
	if (!names->name[names->count])
		return error_status();
	names->count++;
	return STATUS_OK;
}

void names_release(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct names){0};
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(struct names *names)
{
	if (names->count)
		qsort(names->name, names->count, sizeof *names->name, compare_names);
}

int file_list(const char *directory, struct names *names)
{
	*names = (struct names){0};
	DIR *stream = opendir(directory);
	if (!stream)
		return error_errno(0, "%s", directory);
	int status = STATUS_OK;
	while (!status) {
		errno = 0;
		struct dirent *entry = readdir(stream);
		if (!entry) {
			if (errno)
				status = error_errno(0, "%s", directory);
			break;
		}
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			status = names_add(names, entry->d_name);
	}
	closedir(stream);
	if (status)
		names_release(names);
	names_sort(names);
	return status;
}
