/* Finding plugins and loading them. */
#include "base/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

/*
 * The first of the usual places where it is; owned by the caller; NULL where there is none. What lies above the directory of the
 * programs may be anybody's to write, and is no place for code: only the tests' programs stand deeper.
 */
static char *find(const char *file)
{
	static const char *const places[] = {"../build/", "../", "../share/nightshift/", "../../"};
	char *directory = path_of_program(), *found = NULL;
	size_t count = sizeof places / sizeof *places;
	if (directory && !strstr(directory, "/build/tests/"))
		count--;
	for (size_t i = 0; directory && i < count && !found; i++) {
		struct text path = {0};
		text_format(&path, "%s/%s%s", directory, places[i], file);
		if (!text_check(&path) && file_exists(path.data))
			found = text_take(&path);
		text_release(&path);
	}
	free(directory);
	return found;
}

int plugin_load(const char *file, const char *symbol, bool shared, const char *missing, const void **table)
{
	char *path = find(file);
	void *library;
	int status = STATUS_OK;
	*table = NULL;
	if (!path)
		return error_set(STATUS_UNAVAILABLE, "%s", missing);
	library = dlopen(path, RTLD_NOW | RTLD_NODELETE | (shared ? RTLD_GLOBAL : RTLD_LOCAL));
	if (library)
		*table = dlsym(library, symbol);
	if (!*table)
		status = error_set(STATUS_UNAVAILABLE, "the plugin %s cannot be loaded: %s", file, dlerror());
	free(path);
	return status;
}
