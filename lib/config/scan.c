#include "config/scan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NUMBER_BYTES DIGITS LETTERS "._+-"

static bool byte_in(char byte, const char *set)
{
	return byte != 0 && strchr(set, byte);
}

static size_t span(const struct scan *scan, const char *at, const char *set)
{
	size_t length = 0;
	while (at + length < scan->end && byte_in(at[length], set))
		length++;
	return length;
}

static bool starts(const struct scan *scan, const char *word)
{
	size_t length = strlen(word);
	return (size_t)(scan->end - scan->at) >= length && memcmp(scan->at, word, length) == 0;
}

void scan_start(struct scan *scan, const char *path, const char *data, size_t bytes)
{
	*scan = (struct scan){.path = path, .at = data, .end = data + bytes, .line = 1};
	if (starts(scan, "\xef\xbb\xbf"))
		scan->at += 3;
}

static int scan_fail(const struct scan *scan, const char *what)
{
	return error_set(STATUS_CONFIG, "%s:%d: %s", scan->path, scan->line, what);
}

static void copy(struct scan *scan, size_t length)
{
	text_append(&scan->out, scan->at, length);
	scan->at += length;
}

/* ===== comments and strings ===== */

static void skip_line_comment(struct scan *scan)
{
	while (scan->at < scan->end && *scan->at != '\n')
		scan->at++;
}

static int skip_block_comment(struct scan *scan)
{
	int first = scan->line;
	for (scan->at += 2; scan->at < scan->end; scan->at++) {
		if (starts(scan, "*/")) {
			scan->at += 2;
			text_add(&scan->out, " ");
			return STATUS_OK;
		}
		if (*scan->at == '\n') {
			scan->line++;
			text_add(&scan->out, "\n");
		}
	}
	scan->line = first;
	return scan_fail(scan, "this comment is not closed (*/ is missing)");
}

/* Length of the escape at `at` (a backslash), 0 where it is none that libconfig knows or makes a NUL. */
static size_t escape_length(const struct scan *scan, const char *at)
{
	if (scan->end - at < 2)
		return 0;
	if (at[1] != 'x')
		return byte_in(at[1], "\\\"fnrt") ? 2 : 0;
	bool hex = scan->end - at >= 4 && byte_in(at[2], DIGITS "abcdefABCDEF") &&
		   byte_in(at[3], DIGITS "abcdefABCDEF");
	return hex && !(at[2] == '0' && at[3] == '0') ? 4 : 0;
}

/* Elsewhere libconfig would refuse the string as well, but leave its memory. */
static bool string_may_stand(const struct scan *scan)
{
	bool in_list = scan->depth > 0 && scan->open[scan->depth - 1] != '}';
	return byte_in(scan->last, "=:([\"") || (scan->last == ',' && in_list);
}

static int copy_string(struct scan *scan)
{
	if (!string_may_stand(scan))
		return scan_fail(scan, "a string stands where no value is expected");
	const char *at = scan->at + 1;
	while (at < scan->end && *at != '"' && *at != '\n' && *at != 0) {
		size_t length = 1;
		if (*at == '\\') {
			length = escape_length(scan, at);
			if (length == 0)
				return scan_fail(scan, "unknown escape in a string (known: \\\\ \\\" \\f \\n "
						       "\\r \\t \\xNN)");
		}
		at += length;
	}
	if (at >= scan->end || *at != '"')
		return scan_fail(scan, "this string is not closed on its line (\" is missing)");
	copy(scan, (size_t)(at + 1 - scan->at));
	return STATUS_OK;
}

/* ===== numbers ===== */

static int fail_number(const struct scan *scan, const char *number, const char *what)
{
	return error_set(STATUS_CONFIG, "%s:%d: %.60s %s", scan->path, scan->line, number, what);
}

static bool hex_to_int64(const char *digits, int64_t *value)
{
	uint64_t sum = 0;
	if (!*digits)
		return false;
	for (; *digits; digits++) {
		const char *place = strchr("0123456789abcdefABCDEF", *digits);
		if (!place || sum > (uint64_t)INT64_MAX >> 4)
			return false;
		size_t digit = (size_t)(place - "0123456789abcdefABCDEF");
		sum = sum << 4 | (digit > 15 ? digit - 6 : digit);
	}
	*value = (int64_t)sum;
	return true;
}

static int add_integer(struct scan *scan, char *number)
{
	bool hex = number[0] == '0' && (number[1] == 'x' || number[1] == 'X');
	size_t length = strlen(number);
	for (int i = 0; i < 2 && length > 1 && number[length - 1] == 'L'; i++)
		number[--length] = 0;
	const char *digits = number + (number[0] == '-' || number[0] == '+');
	int64_t value;
	if (!hex && digits[0] == '0' && digits[1])
		return fail_number(scan, number, "has a leading zero (write it without, or as 0x...)");
	if (!hex && digits[strspn(digits, DIGITS)])
		return fail_number(scan, number, "is not a number");
	if (!(hex ? hex_to_int64(number + 2, &value)
		  : text_to_int64(number[0] == '+' ? number + 1 : number, &value)))
		return fail_number(scan, number, "is not an integer of 64 bits");
	text_format(&scan->out, "%" PRId64 "%s", value, value > INT32_MAX || value < INT32_MIN ? "L" : "");
	return STATUS_OK;
}

static int add_number(struct scan *scan)
{
	char number[128];
	double value;
	size_t length = span(scan, scan->at, NUMBER_BYTES);
	if (length >= sizeof number)
		return scan_fail(scan, "a number of more than 127 digits");
	memcpy(number, scan->at, length);
	number[length] = 0;
	scan->at += length;
	bool hex = number[0] == '0' && (number[1] == 'x' || number[1] == 'X');
	if (hex || !strpbrk(number, ".eE"))
		return add_integer(scan, number);
	if (number[strspn(number, DIGITS ".eE+-")] ||
		!text_to_double(number[0] == '+' ? number + 1 : number, &value))
		return fail_number(scan, number, "is not a number");
	text_append(&scan->out, number, length);
	return STATUS_OK;
}

/* ===== brackets and includes ===== */

static int open_bracket(struct scan *scan, char closing)
{
	if (scan->depth == SCAN_DEPTH)
		return scan_fail(scan, "brackets are nested too deeply");
	scan->open[scan->depth++] = closing;
	text_add(&scan->out, closing == '}' ? "{" : "(");
	scan->at++;
	return STATUS_OK;
}

static int close_bracket(struct scan *scan)
{
	if (scan->depth == 0 || scan->open[scan->depth - 1] != *scan->at)
		return error_set(STATUS_CONFIG, "%s:%d: '%c' closes nothing that is open", scan->path,
			scan->line, *scan->at);
	scan->depth--;
	text_add(&scan->out, *scan->at == '}' ? "}" : ")");
	scan->at++;
	return STATUS_OK;
}

static int take_include(struct scan *scan, char **include)
{
	const char *name = scan->at + strlen("@include");
	if (!starts(scan, "@include"))
		return scan_fail(scan, "'@' begins an @include \"FILE\" line only");
	if (scan->depth > 0)
		return scan_fail(scan, "@include stands at the top level of a file, not in a group");
	name += span(scan, name, " \t");
	const char *end = name < scan->end && *name == '"' ? name + 1 : scan->end;
	while (end < scan->end && !byte_in(*end, "\"\\\n") && *end != 0)
		end++;
	if (end >= scan->end || *end != '"' || end == name + 1)
		return scan_fail(scan, "expected a line @include \"FILE\"");
	size_t length = (size_t)(end - name - 1);
	*include = memory_new(length + 1, 1);
	if (!*include)
		return error_status();
	memcpy(*include, name + 1, length);
	scan->at = end + 1;
	return STATUS_OK;
}

static bool skip_blank(struct scan *scan)
{
	if (!byte_in(*scan->at, " \t\r\n\f"))
		return false;
	if (*scan->at == '\n')
		scan->line++;
	copy(scan, 1);
	return true;
}

static int scan_token(struct scan *scan, char **include)
{
	char byte = *scan->at;
	if (byte == '"')
		return copy_string(scan);
	if (byte == '@')
		return take_include(scan, include);
	if (byte_in(byte, "{[("))
		return open_bracket(scan, byte == '{' ? '}' : byte == '[' ? ']' : ')');
	if (byte_in(byte, "}])"))
		return close_bracket(scan);
	if (byte_in(byte, DIGITS "+-."))
		return add_number(scan);
	if (byte_in(byte, LETTERS "*")) {
		copy(scan, span(scan, scan->at, LETTERS DIGITS "-_*"));
		return STATUS_OK;
	}
	if (byte_in(byte, "=:;,")) {
		copy(scan, 1);
		return STATUS_OK;
	}
	if (byte > 0x20 && byte < 0x7f)
		return error_set(STATUS_CONFIG, "%s:%d: unexpected '%c'", scan->path, scan->line, byte);
	return error_set(
		STATUS_CONFIG, "%s:%d: unexpected byte 0x%02x", scan->path, scan->line, (unsigned char)byte);
}

/* One blank, comment or token. */
static int scan_next(struct scan *scan, char **include)
{
	char byte = *scan->at;
	if (skip_blank(scan))
		return STATUS_OK;
	if (byte == '#' || starts(scan, "//")) {
		skip_line_comment(scan);
		return STATUS_OK;
	}
	if (starts(scan, "/*"))
		return skip_block_comment(scan);
	int status = scan_token(scan, include);
	scan->last = byte;
	return status;
}

int scan_segment(struct scan *scan, char **include)
{
	int status = STATUS_OK;
	*include = NULL;
	text_clear(&scan->out);
	for (int line = 1; line < scan->line; line++)
		text_add(&scan->out, "\n");
	while (scan->at < scan->end && !*include && !status)
		status = scan_next(scan, include);
	if (!status && !*include && scan->depth > 0)
		status = error_set(STATUS_CONFIG, "%s:%d: '%c' is missing at the end of the file", scan->path,
			scan->line, scan->open[scan->depth - 1]);
	return status ? status : text_check(&scan->out);
}
