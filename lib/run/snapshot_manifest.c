/* The text of code.manifest. */
#include "run/snapshot_manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

/* The programs of the kit; those that are not there are passed over. */
static const char *const programs[] = {"make-annotation", "convert-weights", "eval", "extract-mesh",
	"make-scenes", "mkconfig", "predict", "report", "snapshot-code", "stage-data", "train-step-loop"};

static void add_row(struct text *text, const char *kind, const char *name, const char *value,
	const char *bytes, const char *note)
{
	text_add(text, kind);
	text_add(text, "\t");
	text_field(text, name);
	text_add(text, "\t");
	text_field(text, value);
	text_format(text, "\t%s\t", bytes);
	text_field(text, note);
	text_add(text, "\n");
}

static void add_sized(struct text *text, const char *kind, const char *name, const char *value,
	uint64_t bytes, const char *note)
{
	struct text number = {0};
	text_format(&number, "%llu", (unsigned long long)bytes);
	add_row(text, kind, name, value, number.data ? number.data : "", note);
	text->failed = text->failed || number.failed;
	text_release(&number);
}

static void add_git(struct text *text, const struct snapshot_files *files)
{
	const struct git_state *git = &files->git;
	struct text state = {0};
	if (!git->top) {
		add_row(text, "git", "none", files->why, "-", "");
		return;
	}
	add_row(text, "git", "commit", *git->commit ? git->commit : "none yet", "-", "");
	add_row(text, "git", "branch", *git->branch ? git->branch : "detached", "-", "");
	add_row(text, "git", "describe", *git->describe ? git->describe : "-", "-", "");
	for (size_t i = 0; i < git->remotes.count; i++) {
		const char *tab = strchr(git->remotes.name[i], '\t');
		text_format(text, "remote\t%.*s\t", (int)(tab - git->remotes.name[i]), git->remotes.name[i]);
		text_field(text, tab + 1);
		text_add(text, "\t-\t\n");
	}
	text_add(&state, git->changed || files->untracked ? "dirty" : "clean");
	text_format(&state, ", %zu changed, %zu untracked", git->changed, files->untracked);
	if (*git->under_way)
		text_format(&state, ", %s under way", git->under_way);
	add_row(text, "git", "state", state.data ? state.data : "", "-", "");
	text->failed = text->failed || state.failed;
	text_release(&state);
}

static void add_entries(struct text *text, const struct snapshot_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct snapshot_entry *entry = &files->entries[i];
		switch (entry->kind) {
		case SNAPSHOT_FILE:
			add_sized(text, "file", entry->path, entry->value, entry->bytes,
				entry->executable ? "executable" : entry->note);
			break;
		case SNAPSHOT_LINK:
			add_row(text, "link", entry->path, entry->value, "-", entry->note);
			break;
		case SNAPSHOT_SUBMODULE:
			add_row(text, "submodule", entry->path, entry->value, "-", "");
			break;
		case SNAPSHOT_OMITTED:
			add_row(text, "omitted", entry->path, entry->value, "-", "");
			break;
		}
	}
}

/* A row with the digest of a program or library; what cannot be read is no part of the run. */
static int add_binary(struct text *text, const char *kind, const char *path)
{
	struct sha256 digest;
	char hex[65], *data;
	size_t bytes;
	int status = file_read(path, (size_t)4 << 30, &data, &bytes);
	if (status == STATUS_NO_INPUT) {
		error_clear();
		return STATUS_OK;
	}
	if (status)
		return status;
	sha256_init(&digest);
	sha256_update(&digest, data, bytes);
	sha256_hex(&digest, hex);
	free(data);
	add_sized(text, kind, path, hex, bytes, "");
	return STATUS_OK;
}

/* "libz.so.1 => /lib/libz.so.1 (0x7f...)" and "/lib64/ld-linux-x86-64.so.2 (0x7f...)" */
static int add_loaded(struct names *libraries, char *line)
{
	char *path = strchr(line, '/');
	char *end = path ? strstr(path, " (0x") : NULL;
	if (!end)
		return STATUS_OK;
	*end = 0;
	char *real = realpath(path, NULL);
	int status = real ? names_add(libraries, real) : STATUS_OK;
	free(real);
	return status;
}

/* The shared libraries of a program, as its loader finds them: it prints them instead of starting the program. */
static int list_libraries(const char *path, struct names *libraries)
{
	const char *const argv[] = {path, NULL};
	const char *const environment[] = {"LD_TRACE_LOADED_OBJECTS=1", NULL};
	struct text out = {0};
	int exit_status = 0, status = command_run(argv, environment, 30, 1 << 20, &out, NULL, &exit_status);
	for (char *line = out.data, *next; !status && line && *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next ? 1 : 0;
		if (next > line)
			next[-1] = 0;
		status = add_loaded(libraries, line);
	}
	text_release(&out);
	return status;
}

static int add_program(struct text *text, const char *path, struct names *libraries)
{
	int status = file_exists(path) ? add_binary(text, "program", path) : STATUS_OK;
	return status || !file_exists(path) ? status : list_libraries(path, libraries);
}

/* Installed under a prefix ("ns-snapshot-code"), all programs are; argv[0] may be a link without it. */
static int add_programs(struct text *text, struct names *libraries)
{
	char *self = path_of_program_file();
	bool own_name = self && text_ends(self, "snapshot-code");
	size_t stem = !self      ? 0
		      : own_name ? strlen(self) - strlen("snapshot-code")
				 : (size_t)(strrchr(self, '/') + 1 - self);
	int status = self ? STATUS_OK : error_status();
	for (size_t i = 0; i < sizeof programs / sizeof *programs && !status; i++) {
		struct text path = {0};
		text_format(&path, "%.*s%s", (int)stem, self, programs[i]);
		status = text_check(&path);
		if (!status)
			status = add_program(text, path.data, libraries);
		text_release(&path);
	}
	free(self);
	return status;
}

static int add_binaries(struct text *text)
{
	struct names libraries = {0};
	int status = add_programs(text, &libraries);
	names_sort(&libraries);
	for (size_t i = 0; i < libraries.count && !status; i++)
		if (!i || strcmp(libraries.name[i], libraries.name[i - 1]))
			status = add_binary(text, "library", libraries.name[i]);
	names_release(&libraries);
	return status;
}

int code_manifest_format(
	const struct snapshot_files *files, const char *tar_digest, uint64_t tar_bytes, struct text *text)
{
	text_add(text, "#kind\tname\tvalue\tbytes\tnote\n");
	add_row(text, "format", "code.manifest", "1", "-", "");
	add_row(text, "directory", files->top, "-", "-", "");
	add_git(text, files);
	if (*tar_digest)
		add_sized(text, "tar", "code.tar.gz", tar_digest, tar_bytes, "uncompressed");
	add_entries(text, files);
	int status = add_binaries(text);
	return status ? status : text_check(text);
}

static int add_parsed(struct code_manifest *manifest, const char *path, size_t number, char *line)
{
	char *field[6];
	if (text_split(line, '\t', field, 6) < 5)
		return error_set(STATUS_DATA, "%s:%zu: is no row of a code manifest", path, number);
	if (memory_grow(&manifest->row, &manifest->capacity, manifest->count + 1, sizeof *manifest->row))
		return error_status();
	for (int i = 0; i < 5; i++)
		text_unescape(field[i]);
	manifest->row[manifest->count++] =
		(struct manifest_row){field[0], field[1], field[2], field[3], field[4]};
	return STATUS_OK;
}

int code_manifest_parse(struct code_manifest *manifest, const char *path, char *data)
{
	size_t number = 0;
	int status = STATUS_OK;
	*manifest = (struct code_manifest){.data = data};
	for (char *line = data, *end; !status && *line; line = end + 1) {
		number++;
		end = strchr(line, '\n');
		if (!end) {
			status = error_set(STATUS_DATA, "%s:%zu: is cut off", path, number);
			break;
		}
		*end = 0;
		if (*line != '#')
			status = add_parsed(manifest, path, number, line);
	}
	const struct manifest_row *format = code_manifest_find(manifest, "format", NULL);
	if (!status && (!format || strcmp(format->value, "1")))
		status = error_set(STATUS_DATA, "%s: is no code manifest, or one of a newer version", path);
	if (status)
		code_manifest_release(manifest);
	return status;
}

void code_manifest_release(struct code_manifest *manifest)
{
	free(manifest->row);
	free(manifest->data);
	*manifest = (struct code_manifest){0};
}

const struct manifest_row *code_manifest_find(
	const struct code_manifest *manifest, const char *kind, const char *name)
{
	for (size_t i = 0; i < manifest->count; i++)
		if (!strcmp(manifest->row[i].kind, kind) && (!name || !strcmp(manifest->row[i].name, name)))
			return &manifest->row[i];
	return NULL;
}

/* What decides whether the code is the same; the rest (commit, state, what was left out) is for people. */
static bool counts(const struct manifest_row *row)
{
	static const char *const kinds[] = {"file", "link", "submodule", "program", "library"};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(row->kind, kinds[i]))
			return true;
	return false;
}

static int compare_rows(const void *a, const void *b)
{
	const struct manifest_row *const *left = a, *const *right = b;
	int order = strcmp((*left)->kind, (*right)->kind);
	return order ? order : strcmp((*left)->name, (*right)->name);
}

/* The rows that count, sorted by kind and name; owned by the caller. */
static const struct manifest_row **sorted(const struct code_manifest *manifest, size_t *count)
{
	const struct manifest_row **rows = memory_new(manifest->count, sizeof *rows);
	*count = 0;
	for (size_t i = 0; rows && i < manifest->count; i++)
		if (counts(&manifest->row[i]))
			rows[(*count)++] = &manifest->row[i];
	if (rows && *count)
		qsort(rows, *count, sizeof *rows, compare_rows);
	return rows;
}

static bool same(const struct manifest_row *a, const struct manifest_row *b)
{
	return !strcmp(a->value, b->value) && !strcmp(a->bytes, b->bytes) && !strcmp(a->note, b->note);
}

int code_manifest_compare(const struct code_manifest *before, const struct code_manifest *after,
	struct text *rows, size_t *count)
{
	size_t old_count, new_count, i = 0, j = 0;
	const struct manifest_row **old = sorted(before, &old_count), **new = sorted(after, &new_count);
	*count = 0;
	while (old && new && (i < old_count || j < new_count)) {
		int order = i == old_count ? 1 : j == new_count ? -1 : compare_rows(&old[i], &new[j]);
		const struct manifest_row *row = order <= 0 ? old[i] : new[j];
		if (order || !same(old[i], new[j])) {
			text_format(rows, "%s\t%s\t",
				order < 0   ? "removed"
				: order > 0 ? "added"
					    : "changed",
				row->kind);
			text_field(rows, row->name);
			text_add(rows, "\n");
			++*count;
		}
		i += order <= 0;
		j += order >= 0;
	}
	int status = old && new ? text_check(rows) : error_status();
	free(old);
	free(new);
	return status;
}
