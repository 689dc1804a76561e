#include "file/tsv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

int tsv_open(const char *path, struct tsv *table)
{
	struct stat information;

	*table = (struct tsv){.descriptor = -1};
	table->path = memory_text(path);
	table->buffer = memory_new(TSV_LINE_BYTES, 1);
	if (!table->path || !table->buffer)
		return error_status();
	/* A pipe without a writer would never open. */
	table->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (table->descriptor < 0 || fstat(table->descriptor, &information))
		return error_errno(0, "%s", path);
	if (!S_ISREG(information.st_mode))
		return error_set(STATUS_DATA, "%s: not a regular file", path);
	return STATUS_OK;
}

static void forget_columns(struct tsv *table)
{
	for (int i = 0; i < table->columns; i++)
		free(table->column[i]);
	table->columns = 0;
}

void tsv_close(struct tsv *table)
{
	forget_columns(table);
	free(table->path);
	/* All zero is a table that was never opened. */
	if (table->buffer && table->descriptor >= 0)
		close(table->descriptor);
	free(table->buffer);
	*table = (struct tsv){.descriptor = -1};
}

/* More bytes behind those that are there; false at the end of the file. */
static bool fill(struct tsv *table)
{
	ssize_t count;

	memmove(table->buffer, table->buffer + table->start, table->end - table->start);
	table->end -= table->start;
	table->start = 0;
	do
		count = read(table->descriptor, table->buffer + table->end, TSV_LINE_BYTES - table->end);
	while (count < 0 && errno == EINTR);
	table->failed = table->failed || count < 0;
	table->end += count > 0 ? (size_t)count : 0;
	return count > 0;
}

/* The next whole line, NUL in place of its newline; NULL at the end. *damaged: it is one to pass over. */
static char *next_line(struct tsv *table, bool *damaged)
{
	bool cut = false;

	for (;;) {
		char *first = table->buffer + table->start;
		char *newline = memchr(first, '\n', table->end - table->start);

		if (newline) {
			*newline = 0;
			table->start = (size_t)(newline - table->buffer) + 1;
			table->line++;
			*damaged = cut || memchr(first, 0, (size_t)(newline - first));
			return first;
		}
		if (table->end - table->start == TSV_LINE_BYTES) {
			cut = true;
			table->start = table->end;
		}
		if (!fill(table))
			return NULL;
	}
}

static int split(char *line, char **field)
{
	return text_split(line, '\t', field, TSV_FIELDS);
}

static void take_header(struct tsv *table, char *names)
{
	int count = split(names, table->field);

	forget_columns(table);
	for (int i = 0; i < count; i++) {
		table->column[i] = memory_text(table->field[i]);
		if (!table->column[i]) {
			table->failed = true;
			return;
		}
		table->columns = i + 1;
	}
}

bool tsv_next(struct tsv *table)
{
	char *line;
	bool damaged;

	table->fields = 0;
	while ((line = next_line(table, &damaged))) {
		table->damaged += damaged;
		if (damaged || !*line)
			continue;
		if (line[0] != '#') {
			table->kind = TSV_ROW;
			table->fields = split(line, table->field);
		} else if (line[1] == ' ') {
			table->kind = TSV_REMARK;
			table->fields = 1;
			table->field[0] = line + 2;
		} else {
			table->kind = TSV_HEADER;
			take_header(table, line + 1);
		}
		return true;
	}
	return false;
}

void tsv_skip(struct tsv *table, size_t bytes)
{
	struct stat information;
	off_t at = lseek(table->descriptor, 0, SEEK_CUR), wanted;
	bool damaged;

	if (at < 0 || fstat(table->descriptor, &information))
		return;
	wanted = information.st_size - (off_t)bytes;
	if (wanted <= at - (off_t)(table->end - table->start) ||
		lseek(table->descriptor, wanted, SEEK_SET) < 0)
		return;
	table->start = table->end = 0;
	next_line(table, &damaged);
}

int tsv_column(const struct tsv *table, const char *name)
{
	for (int i = 0; i < table->columns; i++)
		if (strcmp(table->column[i], name) == 0)
			return i;
	return -1;
}

bool tsv_number(const struct tsv *table, int column, double *value)
{
	return column >= 0 && column < table->fields && text_to_double(table->field[column], value);
}
