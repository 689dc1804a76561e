/*
 * Faults by count: a library for LD_PRELOAD that makes the Nth call of a kind fail, or kills the process there.
 *
 *	LD_PRELOAD=build/tests/faults.so NIGHTSHIFT_FAULT=write:7:ENOSPC bin/train-step-loop RUN
 *
 *	NIGHTSHIFT_FAULT        KIND:N:WHAT[,KIND:N:WHAT ...]   KIND: open write fsync rename unlink link close mkdir;
 *	                        N counts from 1; "N+" means this call and all later ones; WHAT: an errno name (EACCES EDQUOT
 *	                        EEXIST EINTR EIO EMFILE ENOENT ENOSPC EPERM EROFS ESTALE), "short" (a write takes half of
 *	                        its bytes), "torn" (a write takes half, then SIGKILL), "slow" (three seconds late) or "KILL"
 *	                        (SIGKILL before the call)
 *	NIGHTSHIFT_FAULT_PATH   only calls on paths that match this pattern count; descriptors by the path they were opened
 *	                        with, renames and links by either name
 *	NIGHTSHIFT_FAULT_COUNT  a file that gets "KIND COUNT" lines at exit: run once without a fault to learn the range of N
 *
 * "open" counts open, openat, creat and fopen; reading ones too, unless NIGHTSHIFT_FAULT_OPEN=create, which counts those
 * with O_CREAT only. "write" counts write, pwrite and writev, but not those on stdout and stderr; "fsync" counts fdatasync.
 * A close that fails has closed. EINTR leaves the call undone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, WRITE, FSYNC, RENAME, UNLINK, LINK, CLOSE, MKDIR, KINDS };
static const char *const kind_names[KINDS] = {
	"open", "write", "fsync", "rename", "unlink", "link", "close", "mkdir"};

enum { FAULTS = 16, DESCRIPTORS = 1024, KILL_NOW = -1, SHORT_WRITE = -2, TORN_WRITE = -3, SLOW = -4 };

static struct fault {
	enum kind kind;
	long at;
	bool onwards;
	int what; /* errno or one of the above */
} faults[FAULTS];
static int fault_count;
static long seen[KINDS];
static const char *pattern, *count_file;
static bool creating_only;
static char *path_of[DESCRIPTORS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	const char *name;
	int what;
} words[] = {{"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EEXIST", EEXIST}, {"EINTR", EINTR}, {"EIO", EIO},
	{"EMFILE", EMFILE}, {"ENOENT", ENOENT}, {"ENOSPC", ENOSPC}, {"EPERM", EPERM}, {"EROFS", EROFS},
	{"ESTALE", ESTALE}, {"KILL", KILL_NOW}, {"short", SHORT_WRITE}, {"torn", TORN_WRITE}, {"slow", SLOW}};

/* A test with a mistyped fault would pass for the wrong reason. */
static void refuse(const char *text)
{
	dprintf(2, "faults: cannot understand '%s'\n", text);
	_exit(125);
}

static void add_fault(char *text)
{
	char *number = strchr(text, ':'), *what = number ? strchr(number + 1, ':') : NULL;
	if (!what || fault_count == FAULTS)
		refuse(text);
	*number++ = 0;
	*what++ = 0;
	struct fault fault = {.kind = KINDS};
	for (int kind = 0; kind < KINDS; kind++)
		if (!strcmp(text, kind_names[kind]))
			fault.kind = kind;
	char *end;
	fault.at = strtol(number, &end, 10);
	fault.onwards = *end == '+';
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(what, words[i].name))
			fault.what = words[i].what;
	if (fault.kind == KINDS || fault.at < 1 || end[fault.onwards] || !fault.what)
		refuse(text);
	faults[fault_count++] = fault;
}

__attribute__((constructor)) static void read_environment(void)
{
	const char *text = getenv("NIGHTSHIFT_FAULT");
	const char *open_which = getenv("NIGHTSHIFT_FAULT_OPEN");
	pattern = getenv("NIGHTSHIFT_FAULT_PATH");
	count_file = getenv("NIGHTSHIFT_FAULT_COUNT");
	creating_only = open_which && !strcmp(open_which, "create");
	char *copy = text ? strdup(text) : NULL, *rest = NULL;
	for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest))
		add_fault(one);
	free(copy);
}

__attribute__((destructor)) static void write_counts(void)
{
	char text[512];
	int length = 0;
	if (!count_file)
		return;
	for (int kind = 0; kind < KINDS; kind++)
		length += snprintf(
			text + length, sizeof text - length, "%s %ld\n", kind_names[kind], seen[kind]);
	int descriptor = syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (syscall(SYS_write, descriptor, text, length) != length)
		_exit(125);
	syscall(SYS_close, descriptor);
}

static bool matches(const char *path)
{
	return !pattern || (path && !fnmatch(pattern, path, 0));
}

/* Counts a call; 0, or what must happen to it. Does not return for KILL. */
static int count_call(enum kind kind, bool counts)
{
	int what = 0;
	if (!counts)
		return 0;
	pthread_mutex_lock(&lock);
	long number = ++seen[kind];
	for (int i = 0; i < fault_count; i++)
		if (faults[i].kind == kind &&
			(number == faults[i].at || (faults[i].onwards && number > faults[i].at)))
			what = faults[i].what;
	pthread_mutex_unlock(&lock);
	if (what == KILL_NOW)
		raise(SIGKILL);
	if (what == SLOW) {
		sleep(3);
		what = 0;
	}
	if (what > 0)
		errno = what;
	return what;
}

static void remember(int descriptor, const char *path)
{
	if (descriptor < 0 || descriptor >= DESCRIPTORS)
		return;
	pthread_mutex_lock(&lock);
	free(path_of[descriptor]);
	path_of[descriptor] = path ? strdup(path) : NULL;
	pthread_mutex_unlock(&lock);
}

/* Whether calls on this descriptor count: not those on pipes, terminals and the standard streams. */
static bool descriptor_counts(int descriptor)
{
	if (descriptor < 0 || descriptor >= DESCRIPTORS)
		return false;
	pthread_mutex_lock(&lock);
	bool counts = path_of[descriptor] && matches(path_of[descriptor]);
	pthread_mutex_unlock(&lock);
	return counts;
}

static int shim_openat(int directory, const char *path, int flags, mode_t mode)
{
	bool counts = matches(path) && (!creating_only || flags & O_CREAT);
	if (count_call(OPEN, counts))
		return -1;
	int descriptor = syscall(SYS_openat, directory, path, flags, mode);
	remember(descriptor, path);
	return descriptor;
}

static mode_t mode_argument(int flags, va_list arguments)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN_BODY(directory)                                                                                 \
	va_list arguments;                                                                                   \
	va_start(arguments, flags);                                                                          \
	mode_t mode = mode_argument(flags, arguments);                                                       \
	va_end(arguments);                                                                                   \
	return shim_openat(directory, path, flags, mode)

int open(const char *path, int flags, ...)
{
	OPEN_BODY(AT_FDCWD);
}

int open64(const char *path, int flags, ...)
{
	OPEN_BODY(AT_FDCWD);
}

int openat(int directory, const char *path, int flags, ...)
{
	OPEN_BODY(directory);
}

int openat64(int directory, const char *path, int flags, ...)
{
	OPEN_BODY(directory);
}

int creat(const char *path, mode_t mode)
{
	return shim_openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* glibc's own fopen() opens inside the library, out of our sight: opened here and handed to fdopen(). What
 * the stream then writes is out of sight as well. */
static FILE *shim_fopen(const char *path, const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
	flags |= mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0;
	flags |= strchr(mode, 'x') ? O_EXCL : 0;
	flags |= strchr(mode, 'e') ? O_CLOEXEC : 0;
	int descriptor = shim_openat(AT_FDCWD, path, flags, 0666);
	return descriptor < 0 ? NULL : fdopen(descriptor, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return shim_fopen(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return shim_fopen(path, mode);
}

/* Writes the first half for "short" and "torn"; the number of bytes that are left to the real call. */
static size_t bytes_taken(int what, size_t bytes)
{
	return what == SHORT_WRITE || what == TORN_WRITE ? (bytes + 1) / 2 : bytes;
}

ssize_t write(int descriptor, const void *data, size_t bytes)
{
	int what = count_call(WRITE, descriptor_counts(descriptor));
	if (what > 0)
		return -1;
	ssize_t written = syscall(SYS_write, descriptor, data, bytes_taken(what, bytes));
	if (what == TORN_WRITE)
		raise(SIGKILL);
	return written;
}

static ssize_t shim_pwrite(int descriptor, const void *data, size_t bytes, off_t offset)
{
	int what = count_call(WRITE, descriptor_counts(descriptor));
	if (what > 0)
		return -1;
	ssize_t written = syscall(SYS_pwrite64, descriptor, data, bytes_taken(what, bytes), offset);
	if (what == TORN_WRITE)
		raise(SIGKILL);
	return written;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset)
{
	return shim_pwrite(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset)
{
	return shim_pwrite(descriptor, data, bytes, offset);
}

ssize_t writev(int descriptor, const struct iovec *part, int count)
{
	int what = count_call(WRITE, descriptor_counts(descriptor));
	if (what > 0)
		return -1;
	ssize_t written = syscall(SYS_writev, descriptor, part, what && count > 1 ? count / 2 : count);
	if (what == TORN_WRITE)
		raise(SIGKILL);
	return written;
}

int fsync(int descriptor)
{
	return count_call(FSYNC, descriptor_counts(descriptor)) ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
	return count_call(FSYNC, descriptor_counts(descriptor)) ? -1
								: (int)syscall(SYS_fdatasync, descriptor);
}

int close(int descriptor)
{
	int what = count_call(CLOSE, descriptor_counts(descriptor));
	int number = errno;
	remember(descriptor, NULL);
	int status = (int)syscall(SYS_close, descriptor);
	if (!what)
		return status;
	errno = number;
	return -1;
}

int fclose(FILE *stream)
{
	int (*real)(FILE *) = (int (*)(FILE *))dlsym(RTLD_NEXT, "fclose");
	int descriptor = fileno(stream);
	int what = count_call(CLOSE, descriptor_counts(descriptor));
	int number = errno;
	remember(descriptor, NULL);
	int status = real(stream);
	if (!what)
		return status;
	errno = number;
	return EOF;
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags)
{
	if (count_call(RENAME, matches(from) || matches(to)))
		return -1;
	return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
	return renameat2(from_directory, from, to_directory, to, 0);
}

int rename(const char *from, const char *to)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int directory, const char *path, int flags)
{
	return count_call(UNLINK, matches(path)) ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
}

int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* For directories and pipes alike; glibc's remove() calls its own unlink. */
int remove(const char *path)
{
	struct stat information;
	bool directory = !lstat(path, &information) && S_ISDIR(information.st_mode);
	return unlinkat(AT_FDCWD, path, directory ? AT_REMOVEDIR : 0);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
	if (count_call(LINK, matches(from) || matches(to)))
		return -1;
	return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

int link(const char *from, const char *to)
{
	return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
	return count_call(MKDIR, matches(path)) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
