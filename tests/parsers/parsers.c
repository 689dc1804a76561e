/* The parsers under test. */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_parser *const fuzz_tables[] = {
	fuzz_base, fuzz_file, fuzz_config, fuzz_run, fuzz_data, NULL};

const struct fuzz_parser *fuzz_find(const char *name)
{
	for (size_t table = 0; fuzz_tables[table]; table++)
		for (const struct fuzz_parser *parser = fuzz_tables[table]; parser->name; parser++)
			if (!strcmp(parser->name, name))
				return parser;
	return NULL;
}

const char *fuzz_path(const void *data, size_t bytes)
{
	static char path[64];
	static int descriptor = -1;
	if (descriptor >= 0)
		close(descriptor);
	descriptor = memfd_create("fuzz", MFD_CLOEXEC);
	if (descriptor < 0 || write(descriptor, data, bytes) != (ssize_t)bytes)
		return NULL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	return path;
}
