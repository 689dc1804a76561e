/*
 * Command lines: one table gives the parser, the help and the man page's OPTIONS (a test compares them).
 *
 *	static const struct option_row rows[] = {
 *		{"dry-run", 'n', NULL, "say what would be done", &dry_run, OPTION_FLAG},
 *		{"exit-after", 0, "TIME", "leave after this long (55m)", &exit_after, OPTION_SECONDS},
 *		{0}};
 *
 * -h/--help and --version are always there: they print to stdout and set *done. "--" ends the options; options may stand
 * between operands. An unknown option is one line with the nearest one, STATUS_USAGE.
 */
#ifndef NIGHTSHIFT_BASE_OPTIONS_H
#define NIGHTSHIFT_BASE_OPTIONS_H

#include <stdbool.h>

enum option_kind {
	OPTION_FLAG,    /* bool * */
	OPTION_TEXT,    /* const char ** , points into argv */
	OPTION_INTEGER, /* int64_t * */
	OPTION_NUMBER,  /* double * */
	OPTION_SECONDS, /* double * , text_to_seconds() */
	OPTION_BYTES    /* uint64_t * , text_to_bytes() */
};

struct option_row {
	const char *name;     /* long name without -- ; NULL ends the table */
	char letter;          /* or 0 */
	const char *argument; /* what help shows, NULL for flags */
	const char *help;     /* one line */
	void *value;
	enum option_kind kind;
};

struct program {
	const char *name;
	const char *synopsis; /* lines without the program's name, separated by \n */
	const char *purpose;  /* one line */
	const struct option_row *rows;
};

/* Fills the values, moves the operands to operands[0 .. *count-1] (an array of argc pointers of the caller). When help or
 * version was asked for, *done is set and the caller returns close_stdout(0). */
int options_parse(const struct program *program, int argc, char **argv, const char **operands, int *count, bool *done);

#endif
