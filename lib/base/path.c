/* Paths as text: nothing here looks at the file system, but for where we are. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

char *path_join(const char *a, const char *b)
{
	struct text path = {0};
	if (*a && *b != '/') {
		text_add(&path, a);
		if (!text_ends(a, "/"))
			text_add(&path, "/");
	}
	text_add(&path, b);
	return text_take(&path);
}

/* Adds the components of `path` to the absolute `clean`, walking back for "..". */
static void add_components(struct text *clean, const char *path)
{
	while (*path) {
		size_t length = strcspn(path, "/");
		if (length == 2 && !strncmp(path, "..", 2)) {
			while (clean->length && clean->data[clean->length - 1] != '/')
				clean->length--;
			if (clean->length)
				clean->length--;
		} else if (length && !(length == 1 && *path == '.')) {
			text_add(clean, "/");
			text_append(clean, path, length);
		}
		path += length;
		path += *path == '/';
	}
}

char *path_absolute(const char *path)
{
	struct text clean = {0};
	if (*path != '/') {
		char *here = getcwd(NULL, 0);
		if (!here) {
			error_errno(0, "the current directory");
			return NULL;
		}
		add_components(&clean, here);
		free(here);
	}
	add_components(&clean, path);
	if (!clean.length)
		text_add(&clean, "/");
	else
		text_append(&clean, "", 0);
	return text_take(&clean);
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

char *path_directory(const char *path)
{
	size_t length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	while (length && path[length - 1] != '/')
		length--;
	if (!length)
		return memory_text(".");
	while (length > 1 && path[length - 1] == '/')
		length--;
	struct text directory = {0};
	text_append(&directory, path, length);
	return text_take(&directory);
}

bool path_is_inside(const char *path)
{
	if (!*path || *path == '/')
		return false;
	while (*path) {
		size_t length = strcspn(path, "/");
		if (length == 2 && !strncmp(path, "..", 2))
			return false;
		path += length;
		path += *path == '/';
	}
	return true;
}

char *path_of_program_file(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	if (length < 0) {
		error_errno(0, "/proc/self/exe");
		return NULL;
	}
	path[length] = 0;
	return memory_text(path);
}

char *path_of_program(void)
{
	char *file = path_of_program_file(), *directory = file ? path_directory(file) : NULL;
	free(file);
	return directory;
}
