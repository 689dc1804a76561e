/* Lists line by line. */
#include "data/video_csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

/* Cuts one field off at *cursor, in place; true where another follows in the row. *cursor goes behind it. */
static bool cut_field(struct video_csv *csv, char **field, bool *open)
{
	char *from = csv->next, *to = from;
	bool quoted = csv->separator && from < csv->end && *from == '"', comma;

	from += quoted;
	*field = to;
	*open = false;
	while (from < csv->end) {
		if (quoted && *from == '"') {
			if (from + 1 < csv->end && from[1] == '"') {
				from++;
			} else {
				quoted = false;
				from++;
				continue;
			}
		} else if (!quoted && (*from == '\n' || (csv->separator && *from == csv->separator))) {
			break;
		} else if (*from == '\n') {
			csv->line++;
		}
		*to++ = *from++;
	}
	*open = quoted;
	comma = from < csv->end && *from != '\n';
	csv->next = from < csv->end ? from + 1 : csv->end;
	if (!comma && to > *field && to[-1] == '\r')
		to--;
	*to = 0; /* at most where the separator, or the NUL behind the file, stood */
	return comma;
}

int video_csv_next(struct video_csv *csv, bool *more)
{
	bool open = false, comma = true;
	size_t lines;

	do {
		*more = csv->next < csv->end;
		if (!*more)
			return STATUS_OK;
		lines = csv->line;
		csv->count = 0;
		for (comma = true; comma && !open;) {
			char *field;

			comma = cut_field(csv, &field, &open);
			if (csv->count < VIDEO_CSV_FIELDS)
				csv->field[csv->count++] = field;
		}
		if (open)
			return error_set(
				STATUS_DATA, "%s:%zu: a quote is never closed", csv->path, lines + 1);
		csv->line++;
	} while (csv->count == 1 && !*csv->field[0]);
	return STATUS_OK;
}

int video_csv_open(struct video_csv *csv, const char *path, char separator, bool header)
{
	size_t bytes = 0;
	bool more;
	int status;

	*csv = (struct video_csv){.path = path, .separator = separator};
	status = file_read_regular(path, VIDEO_CSV_LIMIT, &csv->data, &bytes);
	if (status)
		return status;
	csv->next = csv->data;
	csv->end = csv->data + bytes;
	if (memchr(csv->data, 0, bytes))
		return error_set(STATUS_DATA, "%s: not a text file", path);
	if (text_starts(csv->data, "\xef\xbb\xbf"))
		csv->next += 3;
	if (!header)
		return STATUS_OK;
	status = video_csv_next(csv, &more);
	memcpy(csv->names, csv->field, sizeof csv->names);
	csv->name_count = csv->count;
	return status;
}

void video_csv_close(struct video_csv *csv)
{
	free(csv->data);
	*csv = (struct video_csv){0};
}

const char *video_csv_field(const struct video_csv *csv, const char *name)
{
	for (int i = 0; i < csv->name_count && i < csv->count; i++)
		if (!strcmp(csv->names[i], name))
			return csv->field[i];
	return NULL;
}
