/* Listing the source of a staged copy. */
#include "run/stage_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

enum { FILES_AT_ONCE = 128 };

/* What one directory holds. */
struct listing {
	struct names directories, files, links, others;
};

struct walk {
	struct stage_tree *tree;
	size_t first; /* directory of listings[0] */
	struct listing *listings;
};

static int open_root(struct stage_tree *tree, const char *root, bool follow)
{
	*tree = (struct stage_tree){.descriptor = -1, .follow = follow};
	tree->root = memory_text(root);
	if (!tree->root)
		return error_status();
	tree->descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tree->descriptor < 0 ? error_errno(0, "%s", root) : STATUS_OK;
}

/* Takes `path` over, also when it fails. */
static int add_directory(struct stage_tree *tree, char *path, size_t parent)
{
	if (!path || memory_grow(&tree->directories, &tree->directory_capacity, tree->directory_count + 1,
			     sizeof *tree->directories)) {
		free(path);
		return error_status();
	}
	tree->directories[tree->directory_count++] = (struct stage_directory){.path = path, .parent = parent};
	return STATUS_OK;
}

static int add_file(struct stage_tree *tree, size_t directory, const char *name, bool link)
{
	char *path = path_join(tree->directories[directory].path, name);
	if (!path ||
		memory_grow(&tree->files, &tree->file_capacity, tree->file_count + 1, sizeof *tree->files)) {
		free(path);
		return error_status();
	}
	tree->files[tree->file_count++] = (struct stage_file){
		.path = path, .name = path_base(path), .directory = directory, .link = link};
	return STATUS_OK;
}

static int open_directory(const struct stage_tree *tree, const char *path)
{
	int descriptor = openat(tree->descriptor, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (descriptor < 0)
		error_errno(0, "%s/%s", tree->root, path);
	return descriptor;
}

/* Whether what stands at `path` (below the root) is still below the root when every link is resolved. */
static int check_inside(const struct stage_tree *tree, const char *path)
{
	char real[PATH_MAX];
	struct stat information;
	int status = STATUS_OK;
	size_t length = strlen(tree->root);
	char *whole = path_join(tree->root, path);
	if (!whole)
		return error_status();
	if (!realpath(whole, real))
		status =
			errno == ENOENT && !lstat(whole, &information)
				? error_set(STATUS_DATA, "%s: is a link to nothing; remove or mend it", whole)
				: error_errno(0, "%s", whole);
	else if (!tree->follow && strcmp(tree->root, "/") &&
		 (strncmp(real, tree->root, length) || (real[length] && real[length] != '/')))
		status = error_set(STATUS_DATA,
			"%s: is a link to %s, outside of the source; --follow copies that too", whole, real);
	free(whole);
	return status;
}

/* A directory that is its own ancestor was reached through a link. */
static int check_loop(struct stage_tree *tree, size_t index, int descriptor)
{
	struct stat information;
	struct stage_directory *self = &tree->directories[index];
	if (fstat(descriptor, &information))
		return error_errno(0, "%s/%s", tree->root, self->path);
	self->device = information.st_dev;
	self->inode = information.st_ino;
	for (size_t at = index; at;) {
		at = tree->directories[at].parent;
		const struct stage_directory *above = &tree->directories[at];
		if (above->device == self->device && above->inode == self->inode)
			return error_set(STATUS_DATA, "%s/%s: this link makes a loop; remove it", tree->root,
				self->path);
	}
	return STATUS_OK;
}

static unsigned char type_of_mode(mode_t mode)
{
	return S_ISREG(mode) ? DT_REG : S_ISDIR(mode) ? DT_DIR : S_ISLNK(mode) ? DT_LNK : DT_FIFO;
}

static int sort_entry(const struct stage_tree *tree, size_t directory, int descriptor,
	const struct dirent *entry, struct listing *listing)
{
	struct stat information;
	unsigned char type = entry->d_type;
	bool link = false;
	if (type == DT_UNKNOWN) {
		if (fstatat(descriptor, entry->d_name, &information, AT_SYMLINK_NOFOLLOW))
			return error_errno(0, "%s", entry->d_name);
		type = type_of_mode(information.st_mode);
	}
	if (type == DT_LNK) {
		char *path = path_join(tree->directories[directory].path, entry->d_name);
		int status = path ? check_inside(tree, path) : error_status();
		free(path);
		if (status)
			return status;
		if (fstatat(descriptor, entry->d_name, &information, 0))
			return error_errno(0, "%s", entry->d_name);
		link = true;
		type = type_of_mode(information.st_mode);
	}
	if (type == DT_DIR)
		return names_add(&listing->directories, entry->d_name);
	if (type == DT_REG)
		return names_add(link ? &listing->links : &listing->files, entry->d_name);
	return names_add(&listing->others, entry->d_name);
}

static int read_entries(
	const struct stage_tree *tree, size_t directory, int descriptor, DIR *stream, struct listing *listing)
{
	for (;;) {
		errno = 0;
		struct dirent *entry = readdir(stream);
		if (!entry)
			return errno ? error_errno(0, "%s/%s", tree->root, tree->directories[directory].path)
				     : STATUS_OK;
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		int status = sort_entry(tree, directory, descriptor, entry, listing);
		if (status)
			return status;
	}
}

static int read_directory(void *context, size_t index)
{
	struct walk *walk = context;
	struct stage_tree *tree = walk->tree;
	struct listing *listing = &walk->listings[index];
	size_t directory = walk->first + index;
	if (signals_notice())
		return error_set(STATUS_AGAIN, "stopped in time while listing %s", tree->root);
	int descriptor = open_directory(tree, tree->directories[directory].path);
	if (descriptor < 0)
		return error_status();
	DIR *stream = fdopendir(descriptor);
	if (!stream) {
		close(descriptor);
		return error_errno(0, "%s/%s", tree->root, tree->directories[directory].path);
	}
	int status = check_loop(tree, directory, descriptor);
	if (!status)
		status = read_entries(tree, directory, descriptor, stream, listing);
	closedir(stream);
	names_sort(&listing->directories);
	names_sort(&listing->files);
	names_sort(&listing->links);
	return status;
}

static void listing_release(struct listing *listing)
{
	names_release(&listing->directories);
	names_release(&listing->files);
	names_release(&listing->links);
	names_release(&listing->others);
}

static int add_listing(struct stage_tree *tree, size_t directory, const struct listing *listing)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < listing->others.count; i++)
		warn("%s/%s%s%s: neither a file nor a directory, left out", tree->root,
			tree->directories[directory].path, *tree->directories[directory].path ? "/" : "",
			listing->others.name[i]);
	for (size_t i = 0; i < listing->directories.count && !status; i++)
		status = add_directory(tree,
			path_join(tree->directories[directory].path, listing->directories.name[i]),
			directory);
	for (size_t i = 0; i < listing->files.count && !status; i++)
		status = add_file(tree, directory, listing->files.name[i], false);
	for (size_t i = 0; i < listing->links.count && !status; i++)
		status = add_file(tree, directory, listing->links.name[i], true);
	return status;
}

static int walk_level(struct stage_tree *tree, size_t first, size_t count, int jobs)
{
	struct walk walk = {
		.tree = tree, .first = first, .listings = memory_new(count, sizeof *walk.listings)};
	if (!walk.listings)
		return error_status();
	int status = threads_run(jobs, count, read_directory, &walk);
	for (size_t i = 0; i < count; i++) {
		if (!status)
			status = add_listing(tree, first + i, &walk.listings[i]);
		listing_release(&walk.listings[i]);
	}
	free(walk.listings);
	return status;
}

static int look_at(struct stage_tree *tree, struct stage_file *file, int descriptor)
{
	struct stat information;
	if (fstatat(descriptor, file->name, &information, file->link ? 0 : AT_SYMLINK_NOFOLLOW))
		return error_errno(0, "%s/%s", tree->root, file->path);
	if (S_ISLNK(information.st_mode)) { /* only names of a list come here without being sorted first */
		int status = check_inside(tree, file->path);
		file->link = true;
		return status ? status : look_at(tree, file, descriptor);
	}
	if (!S_ISREG(information.st_mode))
		return error_set(STATUS_DATA, "%s/%s: is not a file", tree->root, file->path);
	file->bytes = (uint64_t)information.st_size;
	file->modified = (int64_t)information.st_mtim.tv_sec * 1000000000 + information.st_mtim.tv_nsec;
	return STATUS_OK;
}

static int look_at_some(void *context, size_t index)
{
	struct stage_tree *tree = context;
	size_t first = index * FILES_AT_ONCE, end = first + FILES_AT_ONCE, open = 0;
	int descriptor = -1, status = STATUS_OK;
	if (signals_notice())
		return error_set(STATUS_AGAIN, "stopped in time while listing %s", tree->root);
	for (size_t i = first; i < end && i < tree->file_count && !status; i++) {
		struct stage_file *file = &tree->files[i];
		if (descriptor < 0 || file->directory != open) {
			if (descriptor >= 0)
				close(descriptor);
			open = file->directory;
			descriptor = open_directory(tree, tree->directories[open].path);
		}
		status = descriptor < 0 ? error_status() : look_at(tree, file, descriptor);
	}
	if (descriptor >= 0)
		close(descriptor);
	return status;
}

/* Sizes and times of all files. */
static int look_at_all(struct stage_tree *tree, int jobs)
{
	int status =
		threads_run(jobs, (tree->file_count + FILES_AT_ONCE - 1) / FILES_AT_ONCE, look_at_some, tree);
	for (size_t i = 0; i < tree->file_count; i++)
		tree->bytes += tree->files[i].bytes;
	return status;
}

int stage_tree_walk(struct stage_tree *tree, const char *root, bool follow, int jobs)
{
	int status = open_root(tree, root, follow);
	if (!status)
		status = add_directory(tree, memory_text(""), 0);
	for (size_t first = 0; !status && first < tree->directory_count;) {
		size_t count = tree->directory_count - first;
		status = walk_level(tree, first, count, jobs);
		first += count;
	}
	return status ? status : look_at_all(tree, jobs);
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_directory(const void *key, const void *element)
{
	return strcmp(key, ((const struct stage_directory *)element)->path);
}

/* Every directory above `path`, "" included. */
static int add_parents(struct names *names, const char *path)
{
	int status = names_add(names, "");
	for (const char *slash = strchr(path, '/'); slash && !status; slash = strchr(slash + 1, '/')) {
		char *part = memory_copy(path, (size_t)(slash - path) + 1);
		if (!part)
			return error_status();
		part[slash - path] = 0;
		status = names_add(names, part);
		free(part);
	}
	return status;
}

static int pick_directories(struct stage_tree *tree, char **names, size_t count)
{
	struct names parents = {0};
	int status = STATUS_OK;
	const char *before = NULL;
	size_t before_length = 0;
	for (size_t i = 0; i < count && !status; i++) {
		size_t length = (size_t)(path_base(names[i]) - names[i]);
		if (!before || length != before_length || strncmp(names[i], before, length))
			status = add_parents(&parents, names[i]);
		before = names[i];
		before_length = length;
	}
	names_sort(&parents);
	for (size_t i = 0; i < parents.count && !status; i++) {
		if (i && !strcmp(parents.name[i], parents.name[i - 1]))
			continue;
		status = add_directory(tree, memory_text(parents.name[i]), 0);
		if (!status)
			status = check_inside(tree, parents.name[i]);
	}
	names_release(&parents);
	return status;
}

int stage_tree_pick(
	struct stage_tree *tree, const char *root, bool follow, int jobs, char **names, size_t count)
{
	int status = open_root(tree, root, follow);
	if (count)
		qsort(names, count, sizeof *names, compare_text);
	if (!status)
		status = pick_directories(tree, names, count);
	for (size_t i = 0; i < count && !status; i++) {
		if (i && !strcmp(names[i], names[i - 1]))
			continue;
		char *above = path_directory(names[i]);
		if (!above)
			return error_status();
		struct stage_directory *directory = bsearch(strcmp(above, ".") ? above : "",
			tree->directories, tree->directory_count, sizeof *directory, compare_directory);
		free(above);
		status = add_file(tree, (size_t)(directory - tree->directories), path_base(names[i]), false);
	}
	return status ? status : look_at_all(tree, jobs);
}

void stage_tree_release(struct stage_tree *tree)
{
	for (size_t i = 0; i < tree->directory_count; i++)
		free(tree->directories[i].path);
	for (size_t i = 0; i < tree->file_count; i++)
		free(tree->files[i].path);
	free(tree->directories);
	free(tree->files);
	if (tree->root && tree->descriptor >= 0)
		close(tree->descriptor);
	free(tree->root);
	*tree = (struct stage_tree){.descriptor = -1};
}

void stage_tree_key(const struct stage_tree *tree, char key[33])
{
	struct sha256 digest;
	char hex[65];
	sha256_init(&digest);
	sha256_update(&digest, "tree 1", 7);
	sha256_update(&digest, tree->root, strlen(tree->root) + 1);
	for (size_t i = 0; i < tree->directory_count; i++)
		sha256_update(&digest, tree->directories[i].path, strlen(tree->directories[i].path) + 1);
	for (size_t i = 0; i < tree->file_count; i++) {
		const struct stage_file *file = &tree->files[i];
		sha256_update(&digest, file->path, strlen(file->path) + 1);
		sha256_update(&digest, &file->bytes, sizeof file->bytes);
		sha256_update(&digest, &file->modified, sizeof file->modified);
	}
	sha256_hex(&digest, hex);
	memcpy(key, hex, 32);
	key[32] = 0;
}
