/* shifts.tsv: what happened to the shifts of a run, one row an event. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/shift.h"

enum { TABLE_LIMIT = 256 << 20, COLUMNS = 11 };

static const char header[] = "#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n";

/* "-" is -1. */
static bool parse_count(const char *field, int64_t *value)
{
	if (strcmp(field, "-"))
		return text_to_int64(field, value);
	*value = -1;
	return true;
}

static void copy_field(char *buffer, size_t size, char *field)
{
	text_unescape(field);
	snprintf(buffer, size, "%s", field);
}

/* False for the header, an empty line and a torn one. The line is taken apart in place. */
static bool parse_row(char *line, struct shift_row *row)
{
	char *field[COLUMNS];
	*row = (struct shift_row){0};
	if (*line == '#' || text_split(line, '\t', field, COLUMNS) < COLUMNS - 1)
		return false;
	copy_field(row->event, sizeof row->event, field[1]);
	copy_field(row->time, sizeof row->time, field[2]);
	copy_field(row->job, sizeof row->job, field[3]);
	copy_field(row->reason, sizeof row->reason, field[9]);
	return parse_count(field[0], &row->shift) && parse_count(field[4], &row->restart) &&
	       parse_count(field[5], &row->nodes) && parse_count(field[6], &row->world) &&
	       parse_count(field[7], &row->step) && parse_count(field[8], &row->status);
}

int shift_rows_parse(char *data, struct shift_row **rows, size_t *count)
{
	size_t capacity = 0;
	*rows = NULL;
	*count = 0;
	for (char *line = data, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		if (memory_grow(rows, &capacity, *count + 1, sizeof **rows)) {
			free(*rows);
			*rows = NULL;
			*count = 0;
			return error_status();
		}
		*count += parse_row(line, &(*rows)[*count]);
	}
	return STATUS_OK;
}

int shift_rows(const struct run *run, struct shift_row **rows, size_t *count)
{
	char *data = NULL, *path = run_path(run, "shifts.tsv");
	size_t bytes;
	*rows = NULL;
	*count = 0;
	if (!path)
		return error_status();
	int status = file_exists(path) ? file_read(path, TABLE_LIMIT, &data, &bytes) : STATUS_OK;
	if (!status && data)
		status = shift_rows_parse(data, rows, count);
	free(data);
	free(path);
	return status;
}

/* The file appears with its header: a link fails where another process was faster. */
static int create_table(const char *path)
{
	bool made;
	return file_exists(path) ? STATUS_OK : file_publish_new(path, header, sizeof header - 1, &made);
}

static void put_count(struct text *text, int64_t value)
{
	if (value < 0)
		text_add(text, "\t-");
	else
		text_format(text, "\t%lld", (long long)value);
}

static void put_field(struct text *text, const char *value)
{
	text_add(text, "\t");
	text_field(text, *value ? value : "-");
}

static void format_row(struct text *text, const struct shift_row *row)
{
	if (row->shift < 0)
		text_add(text, "-");
	else
		text_format(text, "%lld", (long long)row->shift);
	put_field(text, row->event);
	put_field(text, row->time);
	put_field(text, row->job);
	put_count(text, row->restart);
	put_count(text, row->nodes);
	put_count(text, row->world);
	put_count(text, row->step);
	put_count(text, row->status);
	put_field(text, row->reason);
	text_add(text, "\n");
}

/* True when the file ends inside a line: a writer was killed or the disk was full. */
static bool ends_torn(int descriptor)
{
	struct stat information;
	char last = '\n';
	if (fstat(descriptor, &information) || information.st_size == 0)
		return false;
	return pread(descriptor, &last, 1, information.st_size - 1) == 1 && last != '\n';
}

int shift_row_add(const struct run *run, const struct shift_row *row)
{
	struct text text = {0};
	int descriptor = -1;
	char *path = run_path(run, "shifts.tsv");
	int status = path ? create_table(path) : error_status();
	if (!status && (descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC)) < 0)
		status = error_errno(0, "%s", path);
	if (!status) {
		if (ends_torn(descriptor))
			text_add(&text, "\n");
		format_row(&text, row);
		status = text_check(&text);
	}
	if (!status)
		status = file_write_all(descriptor, text.data, text.length, path);
	if (!status && fsync(descriptor))
		status = error_errno(0, "%s", path);
	if (descriptor >= 0 && close(descriptor) && !status)
		status = error_errno(0, "%s", path);
	text_release(&text);
	free(path);
	return status;
}
