/* The sections of a page; each appends nothing where there is nothing to show. */
#ifndef NIGHTSHIFT_REPORT_PAGE_PARTS_H
#define NIGHTSHIFT_REPORT_PAGE_PARTS_H

#include "report/page.h"

int page_charts(const struct record *records, size_t count, struct text *page);
void page_validation(const struct record *record, struct text *page);
void page_scores(const struct record *record, struct text *page);
void page_pictures(const struct record *record, struct text *page);
void page_shifts(const struct record *record, struct text *page);
void page_checkpoints(const struct record *record, struct text *page);
void page_code(const struct record *record, struct text *page);
int page_config(const struct record *record, struct text *page);
void page_messages(const struct record *record, struct text *page); /* the end of log/train.log */
/* Keys whose values differ between runs. */
int page_differences(const struct record *records, size_t count, struct text *page);

/* Contents, the sections (released), when the page was made; `status` is that of the sections. */
int page_finish(struct text *page, struct text *body, int status);
void page_section(struct text *page, const char *id, const char *title);
/* "12 of 400" or "12". */
void page_steps(const struct record *record, struct text *text);
void page_trouble(const struct record *record, struct text *page);

#endif
