/* Data files of a directory or a pack. */
#include "file/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/pack.h"

struct source {
	char *path;
	struct pack *pack; /* NULL: a directory */
};

int source_open(const char *path, struct source **source)
{
	struct stat information;
	struct source *opened = memory_new(1, sizeof *opened);
	int status = STATUS_OK;
	*source = NULL;
	if (!opened || !(opened->path = memory_text(path)))
		status = error_status();
	else if (stat(path, &information))
		status = errno == ENOENT ? error_set(STATUS_NO_INPUT, "%s: no such directory", path)
					 : error_errno(0, "%s", path);
	else if (S_ISREG(information.st_mode))
		status = pack_open(path, &opened->pack);
	if (!status && !S_ISDIR(information.st_mode) && !opened->pack)
		status = error_set(
			STATUS_NO_INPUT, "%s: a file, not a directory (stage-data unpacks archives)", path);
	if (status)
		source_close(opened);
	else
		*source = opened;
	return status;
}

void source_close(struct source *source)
{
	if (!source)
		return;
	pack_close(source->pack);
	free(source->path);
	free(source);
}

char *source_name(const struct source *source, const char *name)
{
	return path_join(source->path, name);
}

static int check_name(const struct source *source, const char *name)
{
	return !*name || path_is_inside(name)
		       ? STATUS_OK
		       : error_set(STATUS_DATA, "%s: the path %s leaves the dataset's directory",
				 source->path, name);
}

/* ---- names in a pack ---- */

/* The name as the pack has it: without ".", doubled or closing slashes; "" is the top. `end` is put behind it. Owned by the caller. */
static char *clean_name(const char *name, const char *end)
{
	struct text rooted = {0}, cleaned = {0};
	text_format(&rooted, "/%s", name);
	char *clean = text_check(&rooted) ? NULL : path_absolute(rooted.data);
	text_release(&rooted);
	if (!clean)
		return NULL;
	text_format(&cleaned, "%s%s", clean + 1, clean[1] ? end : "");
	free(clean);
	return text_take(&cleaned);
}

static int look_in_pack(
	const struct source *source, const char *name, enum source_kind *kind, struct pack_entry *entry)
{
	struct pack_entry found;
	*kind = SOURCE_NOTHING;
	/* Nearly every name is clean already. */
	if (*name && !text_ends(name, "/") && pack_find(source->pack, name, entry)) {
		*kind = SOURCE_FILE;
		return STATUS_OK;
	}
	char *file = clean_name(name, ""), *directory = clean_name(name, "/");
	int status = file && directory ? STATUS_OK : error_status();
	if (!status && (!*file || pack_find(source->pack, directory, &found)))
		*kind = SOURCE_DIRECTORY;
	else if (!status && !text_ends(name, "/") && pack_find(source->pack, file, entry))
		*kind = SOURCE_FILE;
	free(file);
	free(directory);
	return status;
}

/* What opening a name that is not there says: ENOTDIR where it stands below a file. */
static int errno_of_missing(const struct source *source, const char *name)
{
	struct pack_entry entry;
	bool below = false;
	char *clean = clean_name(name, "");
	for (char *slash = clean ? clean + strlen(clean) : NULL; slash && !below;
		slash = strrchr(clean, '/')) {
		*slash = 0;
		below = pack_find(source->pack, clean, &entry);
	}
	free(clean);
	return below ? ENOTDIR : ENOENT;
}

/* The entry of a file, or the error that opening it in a directory would give. */
static int find_in_pack(
	const struct source *source, const char *name, const char *path, struct pack_entry *entry)
{
	enum source_kind kind;
	int status = look_in_pack(source, name, &kind, entry);
	if (!status && kind == SOURCE_DIRECTORY)
		status = error_set(STATUS_NO_INPUT, "%s: is a directory, a file was expected", path);
	if (!status && kind == SOURCE_NOTHING) {
		errno = errno_of_missing(source, name);
		status = error_errno(0, "%s", path);
	}
	return status;
}

static int read_from_pack(const struct source *source, const char *name, const char *path, size_t limit,
	char **data, size_t *bytes)
{
	struct pack_entry entry;
	int status = find_in_pack(source, name, path, &entry);
	if (!status && entry.bytes > limit)
		status = error_set(
			STATUS_DATA, "%s: longer than the %zu bytes such a file may have", path, limit);
	char *read = status ? NULL : memory_new((size_t)entry.bytes + 1, 1);
	if (!status)
		status = read ? pack_read(source->pack, &entry, path, read) : error_status();
	if (status) {
		free(read);
		return status;
	}
	*data = read;
	*bytes = (size_t)entry.bytes;
	return STATUS_OK;
}

/* One name of each file and directory right below `prefix`, which ends with a slash or is "". */
static int list_below(const struct pack *pack, const char *prefix, struct names *names)
{
	size_t length = strlen(prefix);
	struct text name = {0};
	int status = STATUS_OK;
	for (size_t i = pack_lower(pack, prefix); i < pack_count(pack) && !status;) {
		struct pack_entry entry;
		pack_get(pack, i, &entry);
		if (strncmp(entry.name, prefix, length) != 0)
			break;
		const char *rest = entry.name + length, *slash = strchr(rest, '/');
		i++;
		if (!*rest)
			continue;
		text_clear(&name);
		text_append(&name, rest, slash ? (size_t)(slash - rest) : strlen(rest));
		status = text_check(&name) ? error_status() : names_add(names, name.data);
		if (slash && !status) { /* behind all that is below it: '0' follows the slash */
			text_clear(&name);
			text_append(&name, entry.name, (size_t)(slash - entry.name));
			text_add(&name, "0");
			status = text_check(&name);
			i = status ? i : pack_lower(pack, name.data);
		}
	}
	text_release(&name);
	if (!status)
		names_sort(names);
	return status;
}

static int list_pack(const struct source *source, const char *directory, struct names *names)
{
	enum source_kind kind;
	struct pack_entry entry;
	char *prefix = clean_name(directory, "/"), *path = source_name(source, directory);
	int status = prefix && path ? look_in_pack(source, directory, &kind, &entry) : error_status();
	*names = (struct names){0};
	if (!status && kind != SOURCE_DIRECTORY) {
		errno = errno_of_missing(source, directory);
		status = error_errno(0, "%s", path);
	}
	if (!status)
		status = list_below(source->pack, prefix, names);
	if (status)
		names_release(names);
	free(prefix);
	free(path);
	return status;
}

/* ---- either ---- */

static int look_at(const char *path, enum source_kind *kind)
{
	struct stat information;
	*kind = SOURCE_NOTHING;
	if (stat(path, &information))
		return errno == ENOENT || errno == ENOTDIR ? STATUS_OK : error_errno(0, "%s", path);
	*kind = S_ISDIR(information.st_mode) ? SOURCE_DIRECTORY : SOURCE_FILE;
	return STATUS_OK;
}

int source_look(const struct source *source, const char *name, enum source_kind *kind)
{
	struct pack_entry entry;
	int status = check_name(source, name);
	if (status)
		return status;
	if (source->pack)
		return look_in_pack(source, name, kind, &entry);
	char *path = source_name(source, name);
	status = path ? look_at(path, kind) : error_status();
	free(path);
	return status;
}

int source_list(const struct source *source, const char *directory, struct names *names)
{
	int status = check_name(source, directory);
	if (status)
		return status;
	if (source->pack)
		return list_pack(source, directory, names);
	char *path = source_name(source, directory);
	status = path ? file_list(path, names) : error_status();
	free(path);
	return status;
}

int source_read(const struct source *source, const char *name, size_t limit, char **data, size_t *bytes)
{
	char *path = source_name(source, name);
	int status = path ? check_name(source, name) : error_status();
	if (!status)
		status = source->pack ? read_from_pack(source, name, path, limit, data, bytes)
				      : file_read_regular(path, limit, data, bytes);
	free(path);
	return status;
}

int source_locate(const struct source *source, const char *name, struct source_place *place)
{
	struct pack_entry entry = {0};
	enum source_kind kind;
	*place = (struct source_place){0};
	char *path = source_name(source, name);
	int status = path ? check_name(source, name) : error_status();
	if (!status && source->pack) {
		status = find_in_pack(source, name, path, &entry);
		place->offset = entry.offset;
		place->bytes = entry.bytes;
		place->path = status ? NULL : memory_text(source->path);
		if (!status && !place->path)
			status = error_status();
	} else if (!status) {
		status = file_size(path, &place->bytes);
		if (!status)
			status = look_at(path, &kind);
		if (!status && kind == SOURCE_DIRECTORY)
			status = error_set(STATUS_NO_INPUT, "%s: is a directory, a file was expected", path);
		if (!status) {
			place->path = path;
			path = NULL;
		}
	}
	free(path);
	return status;
}
