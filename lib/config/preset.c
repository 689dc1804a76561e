#include "config/preset.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

#define PLACES 3

bool preset_is_name(const char *word)
{
	return !strchr(word, '/') && !text_ends(word, ".cfg");
}

/* The directories to look into, in order; entries may stay NULL. */
static int find_places(char *place[PLACES])
{
	const char *home = getenv("NIGHTSHIFT_HOME");
	char *program = path_of_program();
	int status = program ? STATUS_OK : error_status();
	if (!status && home && *home && !(place[0] = path_join(home, "slurm/presets")))
		status = error_status();
	if (!status && !(place[1] = path_join(program, "../slurm/presets")))
		status = error_status();
	if (!status && !(place[2] = path_join(program, "../share/nightshift/slurm/presets")))
		status = error_status();
	free(program);
	return status;
}

static int find_in(const char *directory, const char *name, char **path)
{
	struct text file = {0};
	text_format(&file, "%s/%s.cfg", directory, name);
	int status = text_check(&file);
	if (!status && file_exists(file.data)) {
		*path = path_absolute(file.data);
		status = *path ? STATUS_OK : error_status();
	}
	text_release(&file);
	return status;
}

static const char *name_at(const void *context, size_t i)
{
	const struct names *names = context;
	return names->name[i];
}

/* Adds the presets of a directory to `names`; a directory that is not there has none. */
static int add_names(const char *directory, struct names *names)
{
	struct names files = {0};
	int status = directory && file_is_directory(directory) ? file_list(directory, &files) : STATUS_OK;
	for (size_t i = 0; i < files.count && !status; i++) {
		if (!text_ends(files.name[i], ".cfg"))
			continue;
		files.name[i][strlen(files.name[i]) - strlen(".cfg")] = 0;
		status = names_add(names, files.name[i]);
	}
	names_release(&files);
	return status;
}

static int refuse(const char *name, char *const place[PLACES])
{
	struct names names = {0};
	int status = STATUS_OK;
	for (int i = 0; i < PLACES && !status; i++)
		status = add_names(place[i], &names);
	const char *near = text_nearest(name, names.count, name_at, &names);
	if (!status && !names.count)
		status = error_set(STATUS_NO_INPUT,
			"there is no preset '%.200s', nor any other in %s: set NIGHTSHIFT_HOME to where "
			"Nightshift is",
			name, place[0] ? place[0] : place[1]);
	else if (!status)
		status = error_set(STATUS_NO_INPUT,
			"there is no preset '%.200s'%s%s%s (write ./%.200s for a file of that name)", name,
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "", name);
	names_release(&names);
	return status;
}

int preset_find(const char *name, char **path)
{
	char *place[PLACES] = {NULL};
	int status = find_places(place);
	*path = NULL;
	for (int i = 0; i < PLACES && !status && !*path; i++)
		if (place[i])
			status = find_in(place[i], name, path);
	if (!status && !*path)
		status = refuse(name, place);
	for (int i = 0; i < PLACES; i++)
		free(place[i]);
	return status;
}
