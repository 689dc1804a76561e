/*
 * Lists line by line: comma-separated fields, which may stand in double quotes (doubled inside); blank lines are passed over, a byte
 * order mark and carriage returns too. At most VIDEO_CSV_LIMIT bytes.
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_CSV_H
#define NIGHTSHIFT_DATA_VIDEO_CSV_H

#include <stdbool.h>
#include <stddef.h>

#define VIDEO_CSV_LIMIT ((size_t)1 << 30)
enum { VIDEO_CSV_FIELDS = 16 }; /* those behind are dropped */

struct video_csv {
	const char *path;
	char separator;
	char *data, *next, *end;              /* data owned */
	char *names[VIDEO_CSV_FIELDS];        /* the header's, in `data` */
	char *field[VIDEO_CSV_FIELDS];        /* of the present row, in `data` */
	int name_count, count;
	size_t line; /* of the present row, from 1 */
};
/* `separator` is a comma, or 0: a row is one field and quotes mean nothing. With `header` the first row gives the names of the columns. */
int video_csv_open(struct video_csv *csv, const char *path, char separator, bool header);
void video_csv_close(struct video_csv *csv);
/* *more: there was another row. An open quote is STATUS_DATA. */
int video_csv_next(struct video_csv *csv, bool *more);
/* The field of the column called `name`; NULL where there is none. */
const char *video_csv_field(const struct video_csv *csv, const char *name);

#endif
