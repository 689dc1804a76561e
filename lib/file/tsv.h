/*
 * Tables of our own kind, row by row, however long they are: fields separated by tabs, a header line "#a<TAB>b...", remarks
 * "# ...". For readers that take a table as it stands, also while it is being written or where it is damaged.
 *
 *	struct tsv table = {0};
 *	int status = tsv_open("log/step.tsv", &table);
 *	while (!status && tsv_next(&table))
 *		if (table.kind == TSV_ROW && tsv_number(&table, tsv_column(&table, "loss"), &loss))
 *			...
 *	tsv_close(&table);
 *
 * A last line without its newline is taken for one that is being written and passed over. Lines that are too long or hold a NUL
 * are counted in `damaged` and passed over. Fields are as in the file (text_unescape() them).
 */
#ifndef NIGHTSHIFT_FILE_TSV_H
#define NIGHTSHIFT_FILE_TSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSV_FIELDS = 64, TSV_LINE_BYTES = 1 << 16 };
enum tsv_kind { TSV_HEADER, TSV_REMARK, TSV_ROW };

struct tsv {
	enum tsv_kind kind; /* of the present line */
	int fields;
	char *field[TSV_FIELDS]; /* of a row; of a remark its text, in field[0]. The 64th holds the rest of its line */
	int columns;
	char *column[TSV_FIELDS]; /* names in the last header, owned */
	int64_t line, damaged;

	char *path;
	int descriptor;
	bool failed; /* a read error: the rows until then were given */
	char *buffer;
	size_t start, end; /* of what is in the buffer and not yet given */
};
/* Missing: STATUS_NO_INPUT. A directory, pipe or device: STATUS_DATA. tsv_close() in every case; fine on {0}. */
int tsv_open(const char *path, struct tsv *table);
void tsv_close(struct tsv *table);
/* The next line; false at the end. */
bool tsv_next(struct tsv *table);
/* Passes over all but the last `bytes` bytes that have not been given yet, and over the line that is cut by that. */
void tsv_skip(struct tsv *table, size_t bytes);
/* Column of that name in the last header, -1: none. */
int tsv_column(const struct tsv *table, const char *name);
/* The present row's field of a column as a number; false where there is none ("-" too). */
bool tsv_number(const struct tsv *table, int column, double *value);

#endif
