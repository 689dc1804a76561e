/* Command lines: parser and help from one table. */
#include "base/options.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { HELP_COLUMNS = 80 };

static bool asked_help, asked_version;

static const struct option_row common_rows[] = {
	{"help", 'h', NULL, "print this help and exit", &asked_help, OPTION_FLAG},
	{"version", 0, NULL, "print the version and exit", &asked_version, OPTION_FLAG},
	{0},
};

/* Row `i` of the program's own rows and then of the common ones; NULL behind the last. */
static const struct option_row *row_at(const struct program *program, size_t i)
{
	static const struct option_row none[] = {{0}};
	const struct option_row *row = program->rows ? program->rows : none;
	while (row->name && i) {
		row++;
		i--;
	}
	if (row->name)
		return row;
	return i < 2 ? &common_rows[i] : NULL;
}

/* What stands left of the help: "  -n, --name ARGUMENT". */
static int print_left(FILE *out, const struct option_row *row)
{
	int width = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->name)
				: fprintf(out, "      --%s", row->name);
	if (row->argument)
		width += fprintf(out, " %s", row->argument);
	return width;
}

/* Length of a word, or of a pair of brackets with all that is inside, at the start of a synopsis. */
static int unit_length(const char *text)
{
	int depth = 0, length = 0;
	for (; text[length] && text[length] != '\n' && (depth || text[length] != ' '); length++)
		depth += (text[length] == '[') - (text[length] == ']');
	return length;
}

/* One form of use; returns what comes behind its line. */
static const char *print_usage(const char *lead, const char *name, const char *synopsis)
{
	int indent = printf("%-6s %s", lead, name), column = indent;
	while (*synopsis && *synopsis != '\n') {
		int unit = unit_length(synopsis);
		if (column + 1 + unit > HELP_COLUMNS && column > indent)
			column = printf("\n%*s", indent, "") - 1;
		column += printf(" %.*s", unit, synopsis);
		synopsis += unit;
		synopsis += *synopsis == ' ';
	}
	putchar('\n');
	return *synopsis ? synopsis + 1 : NULL;
}

static void print_help(const struct program *program)
{
	const char *line = print_usage("usage:", error_program_name(), program->synopsis);
	while (line)
		line = print_usage("", error_program_name(), line);
	printf("\n%s\n\n", program->purpose);
	int widest = 0;
	const struct option_row *row;
	for (size_t i = 0; (row = row_at(program, i)); i++) {
		int width = 8 + (int)strlen(row->name) + (row->argument ? 1 + (int)strlen(row->argument) : 0);
		if (width > widest)
			widest = width;
	}
	for (size_t i = 0; (row = row_at(program, i)); i++) {
		int width = print_left(stdout, row);
		printf("%*s  %s\n", widest - width, "", row->help);
	}
}

static const char *row_name(const void *context, size_t i)
{
	return row_at(context, i)->name;
}

static int unknown_option(const struct program *program, const char *name, size_t length)
{
	char copy[64];
	size_t count = 0;
	snprintf(copy, sizeof copy, "%.*s", (int)length, name);
	while (row_at(program, count))
		count++;
	const char *near = text_nearest(copy, count, row_name, program);
	if (near)
		return error_set(STATUS_USAGE, "unknown option --%s; did you mean --%s?", copy, near);
	return error_set(STATUS_USAGE, "unknown option --%s; --help lists them", copy);
}

static int set_value(const struct option_row *row, const char *value)
{
	double number;
	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)row->value = true;
		return STATUS_OK;
	case OPTION_TEXT:
		if (!*value)
			return error_set(STATUS_USAGE,
				"--%s: its value is empty; is a variable of the script not set?", row->name);
		*(const char **)row->value = value;
		return STATUS_OK;
	case OPTION_INTEGER:
		if (text_to_int64(value, row->value))
			return STATUS_OK;
		return error_set(STATUS_USAGE, "--%s wants an integer, not '%s'", row->name, value);
	case OPTION_NUMBER:
		if (!text_to_double(value, &number) || !isfinite(number))
			return error_set(STATUS_USAGE, "--%s wants a number, not '%s'", row->name, value);
		*(double *)row->value = number;
		return STATUS_OK;
	case OPTION_SECONDS:
		if (text_to_seconds(value, row->value))
			return STATUS_OK;
		return error_set(
			STATUS_USAGE, "--%s wants a time like 90s, 55m or 2h30m, not '%s'", row->name, value);
	case OPTION_BYTES:
		if (text_to_bytes(value, row->value))
			return STATUS_OK;
		return error_set(
			STATUS_USAGE, "--%s wants a size like 500MB or 2GiB, not '%s'", row->name, value);
	}
	return error_set(STATUS_FAILURE, "--%s: no such kind of option", row->name);
}

/* Where the command line is being read. */
struct cursor {
	int argc, next;
	char **argv;
};

static int set_with_argument(const struct option_row *row, const char *attached, struct cursor *cursor)
{
	if (attached)
		return set_value(row, attached);
	if (cursor->next >= cursor->argc)
		return error_set(STATUS_USAGE, "--%s needs %s behind it", row->name, row->argument);
	return set_value(row, cursor->argv[cursor->next++]);
}

static int parse_long(const struct program *program, const char *name, struct cursor *cursor)
{
	size_t length = strcspn(name, "=");
	const char *attached = name[length] ? name + length + 1 : NULL;
	const struct option_row *row;
	for (size_t i = 0; (row = row_at(program, i)); i++) {
		if (strlen(row->name) != length || strncmp(row->name, name, length))
			continue;
		if (row->kind != OPTION_FLAG)
			return set_with_argument(row, attached, cursor);
		if (attached)
			return error_set(STATUS_USAGE, "--%s takes no value", row->name);
		return set_value(row, NULL);
	}
	return unknown_option(program, name, length);
}

/* "-abc VALUE", "-cVALUE" */
static int parse_letters(const struct program *program, const char *letters, struct cursor *cursor)
{
	for (; *letters; letters++) {
		const struct option_row *row = NULL;
		for (size_t i = 0; (row = row_at(program, i)); i++)
			if (row->letter == *letters)
				break;
		if (!row)
			return error_set(STATUS_USAGE, "unknown option -%c; --help lists them", *letters);
		if (row->kind != OPTION_FLAG)
			return set_with_argument(row, letters[1] ? letters + 1 : NULL, cursor);
		int status = set_value(row, NULL);
		if (status)
			return status;
	}
	return STATUS_OK;
}

int options_parse(
	const struct program *program, int argc, char **argv, const char **operands, int *count, bool *done)
{
	struct cursor cursor = {.argc = argc, .next = 1, .argv = argv};
	bool ended = false;
	*count = 0;
	*done = asked_help = asked_version = false;
	while (cursor.next < argc && !asked_help && !asked_version) {
		const char *word = argv[cursor.next++];
		int status = STATUS_OK;
		if (!*word)
			status = error_set(STATUS_USAGE,
				"word %d of the command line is empty; is a variable of the script not set?",
				cursor.next - 1);
		else if (ended || word[0] != '-' || !word[1])
			operands[(*count)++] = word;
		else if (!strcmp(word, "--"))
			ended = true;
		else if (word[1] == '-')
			status = parse_long(program, word + 2, &cursor);
		else
			status = parse_letters(program, word + 1, &cursor);
		if (status)
			return status;
	}
	*done = asked_help || asked_version;
	if (asked_help)
		print_help(program);
	else if (asked_version)
		printf("%s (Nightshift) %s\n", program->name, NIGHTSHIFT_VERSION);
	return STATUS_OK;
}
