/* Files of small datasets below a test's scratch directory. */
#ifndef NIGHTSHIFT_TESTS_SUPPORT_FILES_H
#define NIGHTSHIFT_TESTS_SUPPORT_FILES_H

#include "base/files.h"
#include "check.h"

/* The path of a name; owned by the caller. */
__attribute__((unused)) static char *place(const char *name)
{
	return path_join(check_scratch(), name);
}

/* Writes a file and the directories above it; a failure is a failed check. */
__attribute__((unused)) static void put(const char *name, const void *data, size_t bytes)
{
	char *path = place(name), *directory = path_directory(path);

	if (file_make_directories(directory) || file_publish(path, data, bytes))
		check_report(false, name, "%s", error_message());
	free(path);
	free(directory);
}

__attribute__((unused)) static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

#endif
