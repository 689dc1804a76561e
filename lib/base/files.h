/*
 * Files: whole-file reading with a bound, and publishing (appear whole or not at all).
 *
 * Publishing follows one sequence everywhere: a temporary name of its own in the same directory (host, process id,
 * counter, and the shift's number where there is one), write, fsync, close, rename, fsync of the directory; every
 * result checked. A failure removes the temporary file and leaves the old file untouched.
 *
 * Statuses: see error_errno(): missing 66, permission 77, no space 73, other 74.
 */
#ifndef NIGHTSHIFT_BASE_FILES_H
#define NIGHTSHIFT_BASE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the whole file; *data (owned by the caller, free()) has a NUL behind its `*bytes` bytes.
 * More than `limit` bytes: STATUS_DATA. A pipe is read to its end; one that nobody writes to is empty. */
int file_read(const char *path, size_t limit, char **data, size_t *bytes);
/* The same for files among data: what is no regular file (a device may never end) is STATUS_NO_INPUT at once. */
int file_read_regular(const char *path, size_t limit, char **data, size_t *bytes);
/* The last bytes of a regular file, at most `limit`, from the first whole line on; *data as above. */
int file_read_tail(const char *path, size_t limit, char **data, size_t *bytes);
/* False only where there surely is nothing. A link to nothing, and what cannot be looked at (permission, an error of the storage),
 * is taken for something: reading it then says what is wrong, where taking it for nothing would start over or overwrite. */
bool file_exists(const char *path);
bool file_is_directory(const char *path);
int file_size(const char *path, uint64_t *bytes);

/* A file being published. */
struct publish {
	char *path;      /* final name */
	char *temporary; /* NULL when nothing is open */
	int descriptor;
	uint64_t bytes; /* written so far */
	uint32_t crc;   /* CRC-32C of what was written, finished value */
};
/* Sets a word put into temporary names ("shift-7"); NULL: none. Copied. */
void publish_tag(const char *tag);
/* DIRECTORY/.BASE.[TAG.]HOST.PID.COUNTER.SUFFIX: no other process and no other call makes the same name. Owned by the caller. */
char *path_temporary(const char *path, const char *suffix);
/* Removes what publishing left in a directory (`deep`: and below it) when its process was killed: path_temporary()'s names with
 * the suffix "partial" or "dead", of this host, last written over a minute ago, by a process that is no more. What cannot be read or
 * removed stays. */
void file_sweep(const char *directory, bool deep);
int publish_open(struct publish *publish, const char *path);
int publish_write(struct publish *publish, const void *data, size_t bytes);
int publish_commit(struct publish *publish); /* fsync, close, rename, fsync of the directory */
void publish_abandon(
	struct publish *publish); /* removes the temporary file; harmless after commit or on {0} */
/* All of it in one call. */
int file_publish(const char *path, const void *data, size_t bytes);
/* The same, but a file that is there already stays; *made: it was not there. Of several processes one makes it. */
int file_publish_new(const char *path, const void *data, size_t bytes, bool *made);

/* Keeps others who call this from replacing the file at `path` until *descriptor is closed; what it says must be read afterwards.
 * STATUS_UNAVAILABLE when another holds it for more than `seconds`. Where it cannot be opened for writing, or the file system has
 * no locks, *descriptor is -1 and nobody is kept out. */
int file_lock(const char *path, double seconds, int *descriptor);

/* Reads from `offset` on, retrying short reads and EINTR; *got < bytes: the file ends there. False with errno on an error. */
bool file_read_at(int descriptor, void *data, size_t bytes, uint64_t offset, size_t *got);
/* Writes all bytes, retrying short writes and EINTR. `path` is for the message. */
int file_write_all(int descriptor, const void *data, size_t bytes, const char *path);
/* Replaces the file by its first `bytes` bytes: copied to a new file that is published over it, also where it is exactly that long,
 * so that a writer who still has the old file open cannot reach the new one. Shorter than `bytes`: STATUS_DATA. */
int file_cut(const char *path, uint64_t bytes);
int file_sync_directory(const char *path);
int file_make_directory(const char *path);         /* one level; existing directory is fine */
int file_make_directories(const char *path);       /* like mkdir -p */
int file_remove(const char *path);                 /* missing is fine */
int file_remove_tree(const char *path);            /* missing is fine; does not follow links */
int file_rename(const char *from, const char *to); /* and fsync of the directory of `to` */
/* Free bytes for this user on the file system of `path`. */
int file_free_space(const char *path, uint64_t *bytes);

/* Names in a directory except . and .., in byte order; free with names_release(). */
struct names {
	char **name;
	size_t count, capacity;
};
int file_list(const char *directory, struct names *names);
void names_release(struct names *names);
int names_add(struct names *names, const char *name); /* copies */
void names_sort(struct names *names);

/* a/b ("b" alone when it is absolute or a is empty); owned by the caller; NULL with a message. */
char *path_join(const char *a, const char *b);
/* Absolute without . and .. where the file may not exist yet; owned by the caller. */
char *path_absolute(const char *path);
const char *path_base(const char *path); /* behind the last / */
char *path_directory(const char *path);  /* owned by the caller; "." when there is none */
/* False for absolute paths, empty ones and those with a .. component. */
bool path_is_inside(const char *path);
/* The running program's file (/proc/self/exe) and its directory, links resolved; owned by the caller. */
char *path_of_program_file(void);
char *path_of_program(void);

#endif
