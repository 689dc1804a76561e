/* The code of a run by its manifests, what it ran on, and its last words. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "report/html.h"
#include "report/page_parts.h"
#include "run/snapshot_manifest.h"

enum { MANIFEST_LIMIT = 64 << 20, CHANGES_SHOWN = 40, MESSAGES_SHOWN = 25, MESSAGES_BYTES = 1 << 16 };

static int read_manifest(const char *path, struct code_manifest *manifest)
{
	char *data;
	size_t bytes;
	int status = file_read_regular(path, MANIFEST_LIMIT, &data, &bytes);

	*manifest = (struct code_manifest){0};
	return status ? status : code_manifest_parse(manifest, path, data);
}

static void add_row(struct text *page, const char *what, const char *value)
{
	text_add(page, "<tr>");
	html_tag(page, "td", "soft", what);
	html_tag(page, "td", "path", value);
	text_add(page, "</tr>\n");
}

static size_t count_kind(const struct code_manifest *manifest, const char *kind)
{
	size_t count = 0;

	for (size_t i = 0; i < manifest->count; i++)
		count += strcmp(manifest->row[i].kind, kind) == 0;
	return count;
}

static bool is_shown(const char *kind)
{
	static const char *const shown[] = {"directory", "git", "remote", "tar", "submodule", "program"};

	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
		if (strcmp(kind, shown[i]) == 0)
			return true;
	return false;
}

/* "git branch" and what it is; of the directory its name. */
static void add_entry(const struct manifest_row *row, struct text *page)
{
	bool named = strcmp(row->kind, "directory") != 0;

	text_add(page, "<tr><td class=\"soft\">");
	html_text(page, row->kind);
	if (named)
		text_add(page, " ");
	html_text(page, named ? row->name : "");
	text_add(page, "</td><td class=\"path\">");
	html_text(page, named ? row->value : row->name);
	if (*row->note) {
		text_add(page, " (");
		html_text(page, row->note);
		text_add(page, ")");
	}
	text_add(page, "</td></tr>\n");
}

static void add_manifest(const struct code_manifest *manifest, struct text *page)
{
	text_add(page, "<div class=\"wide\"><table>\n");
	for (size_t i = 0; i < manifest->count; i++)
		if (is_shown(manifest->row[i].kind))
			add_entry(&manifest->row[i], page);
	text_format(page,
		"<tr><td class=\"soft\">snapshot</td><td>%zu files, %zu left out</td></tr>\n</table></div>\n",
		count_kind(manifest, "file"), count_kind(manifest, "omitted"));
}

/* What a later start found: rows "added|removed|changed<TAB>kind<TAB>name". */
static void add_changes(const char *name, const struct code_manifest *before,
	const struct code_manifest *after, struct text *page)
{
	struct text rows = {0};
	size_t count = 0, shown = 0;

	if (!code_manifest_compare(before, after, &rows, &count) && !text_check(&rows) && rows.data) {
		text_add(page, "<details><summary>");
		html_text(page, name);
		text_format(page, ": %zu differences</summary><p class=\"path\">", count);
		for (char *line = rows.data, *end; (end = strchr(line, '\n')) && shown < CHANGES_SHOWN;
			line = end + 1) {
			*end = 0;
			html_text(page, line);
			text_add(page, "<br/>");
			shown++;
		}
		if (count > shown)
			text_add(page, "...");
		text_add(page, "</p></details>\n");
	}
	text_release(&rows);
}

/* code-JOB.RESTART.manifest */
static void add_later_starts(
	const struct record *record, const struct code_manifest *first, struct text *page)
{
	struct names names = {0};

	if (!file_list(record->run.path, &names))
		for (size_t i = 0; i < names.count; i++) {
			struct code_manifest later;
			char *path;

			if (!text_starts(names.name[i], "code-") || !text_ends(names.name[i], ".manifest"))
				continue;
			path = path_join(record->run.path, names.name[i]);
			if (path && !read_manifest(path, &later))
				add_changes(names.name[i], first, &later, page);
			if (path)
				code_manifest_release(&later);
			free(path);
		}
	names_release(&names);
}

static void add_platform(const struct run_platform *platform, struct text *page)
{
	char threads[32];

	text_add(page, "<h3>What the first shift ran on</h3><div class=\"wide\"><table>\n");
	add_row(page, "device", platform->device);
	add_row(page, "model", platform->model);
	add_row(page, "threads", number_text(platform->threads, threads));
	add_row(page, "instruction set", platform->isa);
	add_row(page, "precision", platform->precision);
	add_row(page, "libraries", platform->libraries);
	add_row(page, "program", platform->program);
	text_add(page, "</table></div>\n");
}

void page_code(const struct record *record, struct text *page)
{
	char *path = run_path(&record->run, "code.manifest");
	struct code_manifest manifest = {0};
	bool there = path && file_exists(path);

	if (there || record->has_platform)
		page_section(page, "code", "Code and machine");
	if (there) {
		if (read_manifest(path, &manifest)) {
			html_tag(page, "p", "bad-text", error_message());
		} else {
			add_manifest(&manifest, page);
			add_later_starts(record, &manifest, page);
		}
	} else if (record->has_platform) {
		text_add(page, "<p class=\"soft\">No snapshot of the code: snapshot-code makes one.</p>\n");
	}
	if (record->has_platform)
		add_platform(&record->platform, page);
	error_clear();
	code_manifest_release(&manifest);
	free(path);
}

void page_messages(const struct record *record, struct text *page)
{
	char *path = run_path(&record->run, "log/train.log"), *data = NULL, *line;
	size_t bytes = 0, newlines = 0;

	if (path && file_exists(path) && !file_read_tail(path, MESSAGES_BYTES, &data, &bytes) && bytes) {
		for (line = data + bytes; line > data; line--)
			if (line[-1] == '\n' && newlines++ == MESSAGES_SHOWN)
				break;
		page_section(page, "messages", "Last messages");
		text_add(page, "<p class=\"path\">");
		for (char *end; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			html_text(page, line);
			text_add(page, "<br/>");
		}
		text_add(page, "</p>\n");
	}
	error_clear();
	free(data);
	free(path);
}
