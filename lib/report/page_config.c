/* The configuration: what was set and where that stands, what changed since, and in what runs differ. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "config/explain.h"
#include "file/tsv.h"
#include "report/html.h"
#include "report/page_parts.h"

enum { KEY, VALUE, SOURCE, SET, DEFAULT, KIND, COLUMNS, HISTORY_SHOWN = 200 };

/* config_survey() in memory: rows of fields, the header left out. */
struct rows {
	char *data;
	char *(*row)[COLUMNS];
	size_t count, capacity;
};

static void rows_release(struct rows *rows)
{
	free(rows->data);
	free(rows->row);
}

static int survey(const struct config *config, struct rows *rows)
{
	struct text text = {0};
	int status;

	config_survey(config, &text);
	status = text_check(&text);
	rows->data = status ? NULL : text_take(&text);
	text_release(&text);
	if (!rows->data)
		return error_status();
	for (char *line = rows->data, *end; (end = strchr(line, '\n')); line = end + 1) {
		int fields;

		*end = 0;
		if (*line == '#')
			continue;
		status = memory_grow(&rows->row, &rows->capacity, rows->count + 1, sizeof *rows->row);
		if (status)
			return status;
		fields = text_split(line, '\t', rows->row[rows->count], COLUMNS);
		for (int i = 0; i < COLUMNS; i++) {
			if (i >= fields)
				rows->row[rows->count][i] = end;
			text_unescape(rows->row[rows->count][i]);
		}
		rows->count++;
	}
	return STATUS_OK;
}

/* "config.cfg:12" of "/runs/a/config.cfg:12". */
static const char *short_source(const struct record *record, const char *source)
{
	size_t length = strlen(record->run.path);

	return strncmp(source, record->run.path, length) == 0 && source[length] == '/' ? source + length + 1
										       : source;
}

static void add_rows(const struct record *record, const struct rows *rows, bool defaults, struct text *page)
{
	text_add(page, "<div "
		       "class=\"wide\"><table><tr><th>key</th><th>value</th><th>default</th><th>kind</"
		       "th><th>from</th></tr>\n");
	for (size_t i = 0; i < rows->count; i++) {
		char *const *row = rows->row[i];
		bool set = strcmp(row[SET], "yes") == 0;

		if (!set && !defaults)
			continue;
		text_add(page, "<tr>");
		html_tag(page, "td", "path", row[KEY]);
		html_tag(page, "td", set ? "path changed" : "path", row[VALUE]);
		html_tag(page, "td", "path soft", set ? row[DEFAULT] : "");
		html_tag(page, "td", "soft", row[KIND]);
		html_tag(page, "td", "path soft", short_source(record, row[SOURCE]));
		text_add(page, "</tr>\n");
	}
	text_add(page, "</table></div>\n");
}

/* config.history: the newest changes. */
static void add_history(const struct record *record, struct text *page)
{
	char *path = run_path(&record->run, "config.history");
	struct tsv table = {.descriptor = -1};
	int shown = 0;

	if (path && file_exists(path) && !tsv_open(path, &table))
		while (tsv_next(&table) && shown < HISTORY_SHOWN) {
			if (table.kind != TSV_ROW)
				continue;
			if (!shown++)
				text_add(page, "<h3>Changed since the run was made</h3><div "
					       "class=\"wide\"><table><tr>"
					       "<th>time</th><th>job</th><th>key</th><th>old</th><th>new</"
					       "th></tr>\n");
			text_add(page, "<tr>");
			for (int i = 0; i < 5; i++) {
				if (i < table.fields)
					text_unescape(table.field[i]);
				html_tag(page, "td", "path", i < table.fields ? table.field[i] : "");
			}
			text_add(page, "</tr>\n");
		}
	if (shown)
		text_add(page, "</table></div>\n");
	error_clear();
	tsv_close(&table);
	free(path);
}

int page_config(const struct record *record, struct text *page)
{
	struct rows rows = {0};
	int status;

	if (!record->run.config)
		return STATUS_OK;
	status = survey(record->run.config, &rows);
	if (!status) {
		page_section(page, "configuration", "Configuration");
		text_format(page,
			"<p class=\"soft\">Config id <span class=\"path\">%s</span>. Not at their "
			"defaults:</p>\n",
			config_id(record->run.config));
		add_rows(record, &rows, false, page);
		text_add(page, "<details><summary>All keys</summary>\n");
		add_rows(record, &rows, true, page);
		text_add(page, "</details>\n");
		add_history(record, page);
	}
	rows_release(&rows);
	return status;
}

/* ---- several runs ---- */

static const char *value_of(const struct rows *rows, const char *key)
{
	for (size_t i = 0; i < rows->count; i++)
		if (strcmp(rows->row[i][KEY], key) == 0)
			return rows->row[i][VALUE];
	return NULL;
}

/* A row where the runs do not all have one value. */
static void add_difference(const struct rows *rows, size_t count, const char *key, struct text *page)
{
	const char *first = value_of(&rows[0], key);
	bool differs = false;

	for (size_t i = 1; i < count; i++) {
		const char *value = value_of(&rows[i], key);

		differs = differs || !first != !value || (first && strcmp(first, value) != 0);
	}
	if (!differs)
		return;
	text_add(page, "<tr>");
	html_tag(page, "td", "path", key);
	for (size_t i = 0; i < count; i++) {
		const char *value = value_of(&rows[i], key);

		html_tag(page, "td", value ? "path" : "soft", value ? value : "-");
	}
	text_add(page, "</tr>\n");
}

static void add_differences(
	const struct record *records, const struct rows *rows, size_t count, struct text *page)
{
	size_t before;

	page_section(page, "configuration", "Where the configurations differ");
	text_add(page, "<div class=\"wide\"><table><tr><th>key</th>");
	for (size_t i = 0; i < count; i++)
		html_tag(page, "th", NULL, records[i].name);
	text_add(page, "</tr>\n");
	before = page->length;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < rows[i].count; k++) {
			const char *key = rows[i].row[k][KEY];
			bool old = false;

			for (size_t j = 0; j < i && !old; j++)
				old = value_of(&rows[j], key) != NULL;
			if (!old)
				add_difference(rows, count, key, page);
		}
	if (page->length == before)
		text_add(page, "<tr><td class=\"soft\">in nothing</td></tr>");
	text_add(page, "</table></div>\n");
}

int page_differences(const struct record *records, size_t count, struct text *page)
{
	struct rows *rows = memory_new(count, sizeof *rows);
	int status = rows ? STATUS_OK : error_status();

	for (size_t i = 0; i < count && !status; i++)
		if (records[i].run.config)
			status = survey(records[i].run.config, &rows[i]);
	if (!status)
		add_differences(records, rows, count, page);
	for (size_t i = 0; rows && i < count; i++)
		rows_release(&rows[i]);
	free(rows);
	return status;
}
