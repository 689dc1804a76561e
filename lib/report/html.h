/*
 * HTML: pieces of a page in a growing text. Whatever comes from a file goes through html_text() (or a function that calls it):
 * markup is escaped, bytes that are no UTF-8 and control characters become U+FFFD. Pages are well-formed XML too.
 */
#ifndef NIGHTSHIFT_REPORT_HTML_H
#define NIGHTSHIFT_REPORT_HTML_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Also for values of attributes in double quotes. */
void html_text(struct text *page, const char *text);
/* <tag class="class">text</tag>; no class where it is NULL. `tag` and `class` are ours. */
void html_tag(struct text *page, const char *tag, const char *class, const char *text);
/* Text that may be broken behind each underscore. */
void html_name(struct text *page, const char *name);
/* A table's cell with a number for people, its full digits as the title. */
void html_number_cell(struct text *page, const char *class, double value);
void html_integer_cell(struct text *page, const char *class, int64_t value); /* -1: nothing */
/* Standard base64 with padding. */
void html_base64(struct text *page, const void *data, size_t bytes);

/* "12,345", "0.4018", "1.2e-07", "nan": five significant digits at least. `buffer` holds 32 bytes; returned. */
const char *number_text(double value, char buffer[32]);

/* The head with style, script and a policy that allows nothing from outside; the foot closes it. */
void html_head(struct text *page, const char *title);
void html_foot(struct text *page);

#endif
