/* Which samples a depth dataset has: split lists, and discovery by the naming of the layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/depth_layout.h"

#define LIST_LIMIT ((size_t)1 << 30) /* bytes of a split list */
enum { COLUMNS = 3, TREE_DEPTH = 16 };

static const char *const image_suffixes[] = {".png", ".jpg", ".jpeg"};
static const char *const depth_suffixes[] = {".png", ".pgm", ".npy"};
enum { IMAGE_SUFFIXES = 3, DEPTH_SUFFIXES = 3 };

size_t depth_stem_length(const char *path)
{
	const char *base = path_base(path), *dot = strrchr(base, '.');

	/* Dots in front are no suffix: "..." must not become "..". */
	return dot && dot >= base + strspn(base, ".") ? (size_t)(dot - path) : strlen(path);
}

bool depth_pair_siblings(const char *rgb, struct text *depth)
{
	const char *base = path_base(rgb);
	size_t prefix = text_starts(base, "rgb_") ? 4 : text_starts(base, "color_") ? 6 : 0;

	if (!prefix)
		return false;
	text_append(depth, rgb, (size_t)(base - rgb));
	text_add(depth, "depth_");
	text_append(depth, base + prefix, depth_stem_length(base) - prefix);
	return true;
}

void depth_prediction_id(const char *base, struct text *name)
{
	text_add(name, "pred_");
	text_append(name, base, depth_stem_length(base));
}

void depth_entries_release(struct depth_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		free(entries->item[i].rgb);
		free(entries->item[i].depth);
	}
	free(entries->item);
	*entries = (struct depth_entries){0};
}

static int entries_add(struct depth_entries *entries, const char *rgb, const char *depth)
{
	struct depth_entry entry = {0};
	int status =
		memory_grow(&entries->item, &entries->capacity, entries->count + 1, sizeof *entries->item);

	if (status)
		return status;
	entry.rgb = memory_text(rgb);
	entry.depth = memory_text(depth);
	if (!entry.rgb || !entry.depth) {
		free(entry.rgb);
		free(entry.depth);
		return error_status();
	}
	entries->item[entries->count++] = entry;
	return STATUS_OK;
}

/* ---- split lists ---- */

/* Cuts the line into at most COLUMNS words at blanks; returns how many there are. */
static int split_columns(char *line, char **column)
{
	int count = 0;

	for (;;) {
		line += strspn(line, " \t\r\v\f");
		if (!*line || count == COLUMNS)
			return count;
		column[count++] = line;
		line += strcspn(line, " \t\r\v\f");
		if (*line)
			*line++ = 0;
	}
}

static int read_row(const struct depth_layout *layout, const struct depth_options *options, char *line,
	size_t number, struct depth_entries *entries)
{
	int needed = options->rgb_only ? layout->columns_rgb_only : layout->columns;
	char *column[COLUMNS] = {0};
	int count = split_columns(line, column);

	if (count == 0)
		return error_set(STATUS_DATA, "%s:%zu: blank line (a list has one sample a line; remove it)",
			options->list, number);
	if (count < needed)
		return error_set(STATUS_DATA, "%s:%zu: %d column%s where layout %s needs %d (%s)",
			options->list, number, count, count == 1 ? "" : "s", layout->name, needed,
			layout->none_rows ? "image, depth or None" : "image, depth");
	if (layout->none_rows && strcmp(column[1], "None") == 0) {
		entries->dropped++;
		return STATUS_OK;
	}
	for (int i = 0; i < (options->rgb_only ? 1 : 2); i++)
		if (!path_is_inside(column[i]))
			return error_set(STATUS_DATA, "%s:%zu: the path %s leaves the dataset's directory",
				options->list, number, column[i]);
	return entries_add(entries, column[0], options->rgb_only ? "" : column[1]);
}

int depth_entries_read(
	const struct depth_layout *layout, const struct depth_options *options, struct depth_entries *entries)
{
	char *data = NULL, *line, *end;
	size_t bytes = 0, number = 0;
	int status = file_read(options->list, LIST_LIMIT, &data, &bytes);

	if (status)
		return status;
	if (memchr(data, 0, bytes))
		status = error_set(STATUS_DATA, "%s: not a text file", options->list);
	/* Some editors put a byte order mark in front. */
	line = status || !text_starts(data, "\xef\xbb\xbf") ? data : data + 3;
	for (; !status && line < data + bytes; line = end + 1) {
		end = memchr(line, '\n', (size_t)(data + bytes - line));
		if (!end)
			end = data + bytes;
		*end = 0;
		status = read_row(layout, options, line, ++number, entries);
	}
	if (!status && entries->count == 0)
		status = error_set(STATUS_DATA, "%s: the list has no samples", options->list);
	free(data);
	return status;
}

/* ---- discovery ---- */

static bool ends_with_any(const char *name, const char *const *suffixes, int count)
{
	size_t stem = depth_stem_length(name);

	for (int i = 0; i < count; i++)
		if (strcasecmp(name + stem, suffixes[i]) == 0)
			return true;
	return false;
}

/* Adds the names of all files of the source below a directory that may be images or depth. */
static int walk(const struct source *source, const char *below, int level, struct names *files)
{
	struct names names = {0};
	enum source_kind kind;
	char *path = NULL, *directory = source_name(source, below);
	int status = directory ? source_list(source, below, &names) : error_status();

	if (!status && level > TREE_DEPTH)
		status = error_set(STATUS_DATA, "%s: more than %d directories deep", directory, TREE_DEPTH);
	for (size_t i = 0; !status && i < names.count; i++) {
		if (names.name[i][0] == '.')
			continue;
		free(path);
		path = path_join(below, names.name[i]);
		if (!path)
			status = error_status();
		else if (ends_with_any(path, image_suffixes, IMAGE_SUFFIXES) ||
			 ends_with_any(path, depth_suffixes, DEPTH_SUFFIXES))
			status = names_add(files, path);
		else if (!source_look(source, path, &kind) && kind == SOURCE_DIRECTORY)
			status = walk(source, path, level + 1, files);
	}
	free(path);
	free(directory);
	names_release(&names);
	return status;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool names_hold(const struct names *names, const char *name)
{
	return bsearch(&name, names->name, names->count, sizeof *names->name, compare_names) != NULL;
}

/* Finds which of the depth suffixes is there; the stem becomes the path. */
static int find_depth(
	const struct depth_options *options, const struct names *files, const char *rgb, struct text *depth)
{
	size_t stem = depth->length;
	const char *found = NULL;

	for (int i = 0; i < DEPTH_SUFFIXES; i++) {
		text_add(depth, depth_suffixes[i]);
		if (text_check(depth))
			return error_status();
		if (names_hold(files, depth->data)) {
			if (found)
				return error_set(STATUS_DATA, "%s: both %.*s%s and %s (say which in a list)",
					options->path, (int)stem, depth->data, found, depth->data);
			found = depth_suffixes[i];
		}
		depth->data[depth->length = stem] = 0;
	}
	if (!found)
		return error_set(STATUS_NO_INPUT, "%s: %s has no depth (looked for %s.png, .pgm and .npy)",
			options->path, rgb, depth->data);
	text_add(depth, found);
	return text_check(depth);
}

static int discover_file(const struct depth_layout *layout, const struct depth_options *options,
	const struct names *files, const char *rgb, struct depth_entries *entries)
{
	struct text depth = {0};
	int status = STATUS_OK;

	if (!ends_with_any(rgb, image_suffixes, IMAGE_SUFFIXES) || !layout->pair(rgb, &depth))
		goto out;
	if (options->rgb_only)
		text_clear(&depth);
	else
		status = find_depth(options, files, rgb, &depth);
	if (!status)
		status = entries_add(entries, rgb, depth.length ? depth.data : "");
out:
	text_release(&depth);
	return status;
}

int depth_entries_discover(const struct depth_layout *layout, const struct depth_options *options,
	const struct source *source, struct depth_entries *entries)
{
	struct names files = {0};
	int status = walk(source, "", 0, &files);

	if (!status)
		names_sort(&files);
	for (size_t i = 0; !status && i < files.count; i++)
		status = discover_file(layout, options, &files, files.name[i], entries);
	if (!status && entries->count == 0 && options->rgb_only)
		for (size_t i = 0; !status && i < files.count; i++)
			if (ends_with_any(files.name[i], image_suffixes, IMAGE_SUFFIXES))
				status = entries_add(entries, files.name[i], "");
	if (!status && entries->count == 0)
		status = error_set(STATUS_DATA,
			"%s: holds no image that is named as in layout %s (see eval(1), or give a list)",
			options->path, layout->name);
	names_release(&files);
	return status;
}
