/* What all pages look like, and the lines of script that show the values under the pointer. */
#ifndef NIGHTSHIFT_REPORT_STYLE_H
#define NIGHTSHIFT_REPORT_STYLE_H

extern const char page_style[];
/* Without < and &, so that a page is XML too. */
extern const char page_script[];

#endif
