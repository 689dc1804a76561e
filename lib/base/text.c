/* Text: a growing string and the number formats of all our files. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

void text_release(struct text *text)
{
	free(text->data);
	*text = (struct text){0};
}

void text_clear(struct text *text)
{
	text->length = 0;
	if (text->data)
		text->data[0] = 0;
}

int text_check(const struct text *text)
{
	return text->failed ? error_set(STATUS_FAILURE, "out of memory for a text of %zu bytes", text->length)
			    : STATUS_OK;
}

/* Room for `more` bytes and the NUL. */
static bool text_reserve(struct text *text, size_t more)
{
	size_t wanted;
	if (text->failed)
		return false;
	if (size_add(text->length + 1, more, &wanted) || memory_grow(&text->data, &text->capacity, wanted, 1))
		text->failed = true;
	return !text->failed;
}

void text_append(struct text *text, const char *data, size_t length)
{
	if (!text_reserve(text, length))
		return;
	if (length)
		memcpy(text->data + text->length, data, length);
	text->length += length;
	text->data[text->length] = 0;
}

void text_add(struct text *text, const char *string)
{
	text_append(text, string, strlen(string));
}

void text_format(struct text *text, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (length < 0)
		text->failed = true;
	if (length < 0 || !text_reserve(text, length))
		return;
	va_start(arguments, format);
	vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
	va_end(arguments);
	text->length += length;
}

static bool add_not_finite(struct text *text, double value)
{
	if (isfinite(value))
		return false;
	text_add(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
	return true;
}

void text_number(struct text *text, double value)
{
	char digits[40];
	if (add_not_finite(text, value))
		return;
	for (int precision = 15; precision <= 17; precision++) {
		snprintf(digits, sizeof digits, "%.*g", precision, value);
		if (precision == 17 || strtod(digits, NULL) == value)
			break;
	}
	text_add(text, digits);
}

void text_field(struct text *text, const char *value)
{
	for (const char *c = value; *c; c++) {
		if (*c == '\t')
			text_append(text, "\\t", 2);
		else if (*c == '\n')
			text_append(text, "\\n", 2);
		else if (*c == '\\')
			text_append(text, "\\\\", 2);
		else
			text_append(text, c, 1);
	}
}

void text_unescape(char *field)
{
	char *out = field;
	for (const char *in = field; *in; in++) {
		char c = *in;
		if (c == '\\' && (in[1] == 't' || in[1] == 'n' || in[1] == '\\')) {
			in++;
			c = *in == 't' ? '\t' : *in == 'n' ? '\n' : '\\';
		}
		*out++ = c;
	}
	*out = 0;
}

char *text_take(struct text *text)
{
	text_append(text, "", 0);
	char *data = text_check(text) ? NULL : text->data;
	if (data)
		*text = (struct text){0};
	else
		text_release(text);
	return data;
}

bool text_to_int64(const char *string, int64_t *value)
{
	char *end;
	if (!isdigit((unsigned char)string[*string == '-' || *string == '+']))
		return false;
	errno = 0;
	intmax_t number = strtoimax(string, &end, 10);
	if (errno || *end)
		return false;
	*value = number;
	return true;
}

bool text_to_uint64(const char *string, uint64_t *value)
{
	char *end;
	if (!isdigit((unsigned char)string[*string == '+']))
		return false;
	errno = 0;
	uintmax_t number = strtoumax(string, &end, 10);
	if (errno || *end)
		return false;
	*value = number;
	return true;
}

/* [+-] digits [. digits] [e [+-] digits]: what strtod() takes beyond that (hexadecimal, "infinity", blanks)
 * is refused. */
static bool is_decimal(const char *c)
{
	c += *c == '-' || *c == '+';
	size_t whole = strspn(c, "0123456789"), fraction = 0;
	c += whole;
	if (*c == '.') {
		fraction = strspn(c + 1, "0123456789");
		c += 1 + fraction;
	}
	if (!whole && !fraction)
		return false;
	if (*c == 'e' || *c == 'E') {
		c++;
		c += *c == '-' || *c == '+';
		size_t exponent = strspn(c, "0123456789");
		if (!exponent)
			return false;
		c += exponent;
	}
	return !*c;
}

bool text_to_double(const char *string, double *value)
{
	if (!strcmp(string, "nan") || !strcmp(string, "inf") || !strcmp(string, "-inf")) {
		*value = string[0] == 'n' ? NAN : string[0] == '-' ? -INFINITY : INFINITY;
		return true;
	}
	if (!is_decimal(string))
		return false;
	double number = strtod(string, NULL);
	if (isinf(number))
		return false;
	*value = number;
	return true;
}

/* Splits "18 GiB" into the number and the unit behind it; false when there is no number or it does not fit.
 */
static bool split_unit(const char *string, double *number, const char **unit)
{
	char digits[64];
	size_t length = strspn(string, "0123456789.");
	if (!length || length >= sizeof digits)
		return false;
	memcpy(digits, string, length);
	digits[length] = 0;
	*unit = string + length;
	return text_to_double(digits, number);
}

bool text_to_bytes(const char *string, uint64_t *bytes)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {{"", 1}, {"B", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
		{"PB", 1e15}, {"KiB", 0x1p10}, {"kiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
		{"TiB", 0x1p40}, {"PiB", 0x1p50}, {"K", 0x1p10}, {"k", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30},
		{"T", 0x1p40}};
	double number;
	const char *unit;
	if (text_to_uint64(string, bytes))
		return true;
	if (!split_unit(string, &number, &unit))
		return false;
	unit += strspn(unit, " ");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(unit, units[i].name))
			continue;
		double product = rint(number * units[i].factor);
		if (product >= 0x1p63)
			return false;
		*bytes = (uint64_t)product;
		return true;
	}
	return false;
}

/* "1-02:03:04", "02:03:04", "03:04": days, hours, minutes, seconds as SLURM writes them. */
static bool clock_to_seconds(const char *string, double *seconds)
{
	int64_t days = 0, hours = 0, minutes = 0, rest = 0;
	char copy[64];
	snprintf(copy, sizeof copy, "%s", string);
	char *start = copy, *dash = strchr(copy, '-'), *part[3];
	if (strlen(string) >= sizeof copy)
		return false;
	if (dash) {
		*dash = 0;
		if (!isdigit((unsigned char)copy[0]) || !text_to_int64(copy, &days))
			return false;
		start = dash + 1;
	}
	if (strchr(start, '-') || strchr(start, '+'))
		return false;
	int parts = text_split(start, ':', part, 3);
	if (parts == 2 && dash)
		return false;
	if (parts == 3 && !text_to_int64(part[0], &hours))
		return false;
	if (parts < 2 || !text_to_int64(part[parts - 2], &minutes) || !text_to_int64(part[parts - 1], &rest))
		return false;
	if (days > 1000000 || hours > 10000000 || minutes > 100000000 || rest > 1000000000)
		return false;
	*seconds = days * 86400.0 + hours * 3600.0 + minutes * 60.0 + rest;
	return true;
}

/* "2h30m", "90s", "90": units from large to small, each at most once. */
bool text_to_seconds(const char *string, double *seconds)
{
	static const char letters[] = "dhms";
	static const double factors[] = {86400, 3600, 60, 1};
	double total = 0, number;
	const char *unit = string, *allowed = letters;
	if (strchr(string, ':'))
		return clock_to_seconds(string, seconds);
	while (*string) {
		if (!split_unit(string, &number, &unit))
			return false;
		const char *found = *unit ? strchr(allowed, *unit) : allowed == letters ? letters + 3 : NULL;
		if (!found)
			return false;
		total += number * factors[found - letters];
		allowed = found + 1;
		string = *unit ? unit + 1 : unit;
	}
	if (unit == string && allowed == letters)
		return false;
	*seconds = total;
	return true;
}

const char *text_of_bytes(uint64_t bytes, char buffer[32])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	int unit = -1;
	while (value >= 1023.5 && unit < 5) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(buffer, 32, "%" PRIu64 " B", bytes);
	else
		snprintf(buffer, 32, "%.*f %s", value < 9.95 ? 1 : 0, value, units[unit]);
	return buffer;
}

const char *text_of_seconds(double seconds, char buffer[32])
{
	if (!(seconds >= 0 && seconds < 1e12)) {
		snprintf(buffer, 32, "?");
		return buffer;
	}
	int64_t whole = llround(seconds);
	int64_t days = whole / 86400;
	int hours = whole / 3600 % 24, minutes = whole / 60 % 60, rest = whole % 60;
	if (days)
		snprintf(buffer, 32, "%" PRId64 "-%02d:%02d:%02d", days, hours, minutes, rest);
	else if (hours)
		snprintf(buffer, 32, "%d:%02d:%02d", hours, minutes, rest);
	else
		snprintf(buffer, 32, "%d:%02d", minutes, rest);
	return buffer;
}

int text_split(char *line, char separator, char **fields, int limit)
{
	int count = 0;
	while (count < limit) {
		fields[count++] = line;
		char *end = count < limit ? strchr(line, separator) : NULL;
		if (!end)
			break;
		*end = 0;
		line = end + 1;
	}
	return count;
}

enum { DISTANCE_LIMIT = 64 };

int text_distance(const char *a, const char *b)
{
	size_t length_a = strnlen(a, DISTANCE_LIMIT), length_b = strnlen(b, DISTANCE_LIMIT);
	int row[DISTANCE_LIMIT + 1];
	for (size_t j = 0; j <= length_b; j++)
		row[j] = (int)j;
	for (size_t i = 1; i <= length_a; i++) {
		int diagonal = row[0];
		row[0] = (int)i;
		for (size_t j = 1; j <= length_b; j++) {
			int replaced = diagonal + (a[i - 1] != b[j - 1]);
			int shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
			diagonal = row[j];
			row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
		}
	}
	return row[length_b];
}

const char *text_nearest(const char *name, size_t count, const char *(*get)(const void *context, size_t i),
	const void *context)
{
	const char *nearest = NULL;
	int best = (int)strnlen(name, DISTANCE_LIMIT) / 3 + 2;
	for (size_t i = 0; i < count; i++) {
		const char *candidate = get(context, i);
		int distance = text_distance(name, candidate);
		if (distance < best) {
			best = distance;
			nearest = candidate;
		}
	}
	return nearest;
}

bool text_match(const char *pattern, const char *string)
{
	const char *star = NULL, *resume = NULL;
	while (*string) {
		if (*pattern == '*') {
			star = ++pattern;
			resume = string;
		} else if (*pattern == '?' || *pattern == *string) {
			pattern++;
			string++;
		} else if (star) {
			pattern = star;
			string = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool text_starts(const char *string, const char *prefix)
{
	return !strncmp(string, prefix, strlen(prefix));
}

bool text_ends(const char *string, const char *suffix)
{
	size_t length = strlen(string), tail = strlen(suffix);
	return length >= tail && !strcmp(string + length - tail, suffix);
}
