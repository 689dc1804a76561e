/*
 * A scan over the tokens of a configuration file, before libconfig sees them.
 *
 * libconfig 1.5 cuts integers beyond 32 bits without a word, reads 0755 as 755 (later versions as octal),
 * refuses [1, 2.0], reads included files itself (and ends the process when one is a directory). The scan
 * copies a file to a text that libconfig reads as it was meant: integers in decimal with L where they need
 * it, arrays as lists, comments and @include lines taken out, every line at its old number. What it cannot
 * accept it names by file and line.
 */
#ifndef NIGHTSHIFT_CONFIG_SCAN_H
#define NIGHTSHIFT_CONFIG_SCAN_H

#include <stddef.h>
#include "base/text.h"

#define SCAN_DEPTH 16 /* brackets in brackets */

struct scan {
	const char *path; /* for messages */
	const char *at, *end;
	int line;
	char open[SCAN_DEPTH]; /* closing brackets that are due */
	int depth;
	char last;             /* first byte of the last token, 0 at the start */
	struct text out; /* the segment; the caller releases it */
};
/* Starts on `bytes` bytes of a file that lie in memory as long as the scan. */
void scan_start(struct scan *scan, const char *path, const char *data, size_t bytes);
/* Fills scan->out with the text up to the next @include (*include: its file name, owned by the caller) or the
 * end (*include NULL). STATUS_CONFIG with file and line. */
int scan_segment(struct scan *scan, char **include);

#endif
