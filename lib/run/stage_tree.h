/*
 * The source of a staged copy: its directories and files with sizes and times, listed by many threads at once
 * because each question to a shared file system takes long and many can be asked together.
 *
 * The order is that of the levels, and of the bytes of the names in each directory: equal trees give equal
 * lists.
 */
#ifndef NIGHTSHIFT_RUN_STAGE_TREE_H
#define NIGHTSHIFT_RUN_STAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stage_directory {
	char *path; /* below the root; "" is the root itself */
	size_t parent;
	dev_t device; /* with inode: a link that leads to a directory above is a loop */
	ino_t inode;
};

struct stage_file {
	char *path;       /* below the root */
	const char *name; /* its last part, in path */
	size_t directory;
	bool link; /* a symbolic link that is copied as what it points to */
	uint64_t bytes;
	int64_t modified; /* nanoseconds since 1970 */
	uint32_t crc;     /* CRC-32C, once the file is whole */
};

struct stage_tree {
	char *root;     /* absolute, without links */
	int descriptor; /* of the root; -1 when closed */
	bool follow;    /* links may leave the root */
	struct stage_directory *directories;
	size_t directory_count, directory_capacity;
	struct stage_file *files;
	size_t file_count, file_capacity;
	uint64_t bytes;
};

/* Lists everything below `root` (absolute, without links). Sockets, pipes and devices are left out with a
 * warning. STATUS_DATA: a link leaves the root (unless `follow`), leads nowhere or makes a loop. */
int stage_tree_walk(struct stage_tree *tree, const char *root, bool follow, int jobs);
/* Lists the `count` files named (relative to the root) and the directories they stand in; a name may come
 * twice. STATUS_NO_INPUT names the first that is missing. */
int stage_tree_pick(
	struct stage_tree *tree, const char *root, bool follow, int jobs, char **names, size_t count);
void stage_tree_release(struct stage_tree *tree);

/* The identity of the source: 32 hex digits of a digest over path, names, sizes and times. */
void stage_tree_key(const struct stage_tree *tree, char key[33]);

#endif
