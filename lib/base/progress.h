/*
 * Progress on stderr: one line redrawn on a terminal, elsewhere one plain line after five seconds and then one a minute;
 * nothing with TERM=dumb redraws.
 */
#ifndef NIGHTSHIFT_BASE_PROGRESS_H
#define NIGHTSHIFT_BASE_PROGRESS_H

#include <stdbool.h>

struct progress {
	const char *what; /* stands before each line, "" for nothing */
	double started, last;
	bool terminal;
};
void progress_start(struct progress *progress, const char *what);
/* `now`: the line is due (as said above). Cheap to call often. */
bool progress_due(struct progress *progress);
void progress_show(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
void progress_end(struct progress *progress); /* ends the redrawn line */

#endif
