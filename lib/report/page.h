/* Pages and lines made of records. Status: memory alone can fail, or a page that would be too large. */
#ifndef NIGHTSHIFT_REPORT_PAGE_H
#define NIGHTSHIFT_REPORT_PAGE_H

#include <stddef.h>

#include "base/text.h"
#include "report/record.h"

/* A whole HTML page about one run; about several: their curves side by side, and where they differ. */
int page_of_run(const struct record *record, struct text *page);
int page_of_runs(const struct record *records, size_t count, struct text *page);

/* "#run state step steps loss last_write shift left_s checkpoint", and a row of it. `run` as the user named it. */
void page_line_header(struct text *out);
void page_line(const struct record *record, const char *run, struct text *out);

#endif
