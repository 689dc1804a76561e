/* Finding the MPI plugin: beside the programs, in the source tree and installed. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "comm/ranks.h"

#define PLUGIN "nightshift-mpi.so"

/* The first of the usual places where it is; owned by the caller. */
static char *find_plugin(void)
{
	static const char *const places[] = {"../build/" PLUGIN, "../" PLUGIN, "../share/nightshift/" PLUGIN};
	char program[4096];
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	char *directory, *path = NULL;
	program[length < 0 ? 0 : length] = 0;
	directory = path_directory(program);
	for (size_t i = 0; directory && i < sizeof places / sizeof *places && !path; i++) {
		path = path_join(directory, places[i]);
		if (path && !file_exists(path)) {
			free(path);
			path = NULL;
		}
	}
	free(directory);
	return path;
}

int comm_load_plugin(const struct comm_transport **transport)
{
	char *path = find_plugin();
	void *library;
	int status = STATUS_OK;
	*transport = NULL;
	if (!path)
		return error_set(STATUS_UNAVAILABLE,
			"this build runs one process only (" PLUGIN " is not beside it: install Open MPI's "
			"development package and run make)");
	/* MPI's own plugins look for its symbols among all. */
	library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (library)
		*transport = dlsym(library, "nightshift_transport");
	if (!*transport)
		status = error_set(STATUS_UNAVAILABLE, "the MPI plugin cannot be loaded: %s", dlerror());
	free(path);
	return status;
}
