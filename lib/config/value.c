#include "config/value.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/error.h"
#include "base/memory.h"

void literal_release(struct literal *literal)
{
	for (size_t i = 0; i < literal->count; i++)
		literal_release(&literal->member[i]);
	free(literal->member);
	free(literal->text);
	memset(literal, 0, sizeof *literal);
}

int literal_word(struct literal *literal, const char *text)
{
	literal->kind = LITERAL_WORD;
	literal->text = memory_text(text);
	return literal->text ? STATUS_OK : error_status();
}

void value_release(struct config_value *value)
{
	if (value->texts)
		for (size_t i = 0; i < value->count; i++)
			free(value->texts[i]);
	free(value->texts);
	free(value->integers);
	free(value->numbers);
	memset(value, 0, sizeof *value);
}

bool value_type_is_list(enum config_type type)
{
	return type == CONFIG_INTEGERS || type == CONFIG_NUMBERS || type == CONFIG_TEXTS;
}

bool value_type_is_text(enum config_type type)
{
	return type == CONFIG_TEXT || type == CONFIG_CHOICE || type == CONFIG_PATH || type == CONFIG_TEXTS;
}

static bool type_is_number(enum config_type type)
{
	return type == CONFIG_NUMBER || type == CONFIG_SECONDS || type == CONFIG_NUMBERS;
}

const char *value_type_name(enum config_type type)
{
	static const char *const names[] = {
		[CONFIG_BOOL] = "true or false",
		[CONFIG_INTEGER] = "an integer",
		[CONFIG_NUMBER] = "a number",
		[CONFIG_TEXT] = "a string",
		[CONFIG_CHOICE] = "a word of a list",
		[CONFIG_PATH] = "a path",
		[CONFIG_BYTES] = "an amount of bytes (500 MB, 18 GiB)",
		[CONFIG_SECONDS] = "a duration (90, 55m, 2h30m)",
		[CONFIG_INTEGERS] = "a list of integers",
		[CONFIG_NUMBERS] = "a list of numbers",
		[CONFIG_TEXTS] = "a list of strings",
	};
	return names[type];
}

/* What the source wrote, for messages; long values are cut. */
static void literal_show(const struct literal *literal, struct text *out)
{
	switch (literal->kind) {
	case LITERAL_WORD:
		text_format(out, "'%.200s'", literal->text);
		break;
	case LITERAL_STRING:
		text_format(out, "the string \"%.200s\"", literal->text);
		break;
	case LITERAL_BOOL:
		text_add(out, literal->integer ? "true" : "false");
		break;
	case LITERAL_INTEGER:
		text_format(out, "%" PRId64, literal->integer);
		break;
	case LITERAL_FLOAT:
		text_number(out, literal->number);
		break;
	case LITERAL_LIST:
		text_format(out, "a list of %zu", literal->count);
		break;
	case LITERAL_GROUP:
		text_add(out, "a group");
		break;
	}
}

static enum config_type member_type(enum config_type type)
{
	return type == CONFIG_INTEGERS  ? CONFIG_INTEGER
	       : type == CONFIG_NUMBERS ? CONFIG_NUMBER
	       : type == CONFIG_TEXTS   ? CONFIG_TEXT
					: type;
}

static int refuse_type(enum config_type type, const char *key, const struct literal *literal)
{
	struct text shown = {0};
	literal_show(literal, &shown);
	int status = error_set(STATUS_CONFIG, "%s must be %s, not %s", key, value_type_name(type),
		shown.data ? shown.data : "this");
	text_release(&shown);
	return status;
}

/* ===== one member ===== */

/* The unit behind a range, the range of a list being that of its members. */
static int check_range(const struct config_key *row, const char *key, double number)
{
	if ((row->minimum == 0 && row->maximum == 0) || (number >= row->minimum && number <= row->maximum))
		return STATUS_OK;
	struct text range = {0};
	text_number(&range, number);
	text_format(&range, " is out of range: ");
	text_number(&range, row->minimum);
	text_add(&range, " to ");
	text_number(&range, row->maximum);
	if (row->unit[0])
		text_format(&range, " %s", row->unit);
	int status = text_check(&range);
	if (!status)
		status = error_set(STATUS_CONFIG, "%s = %s", key, range.data);
	text_release(&range);
	return status;
}

/* 1e5 and 100000.0 are integers too: the value counts, not its spelling. */
static bool double_to_integer(double number, int64_t *integer)
{
	if (!(fabs(number) <= 9007199254740992.0) || number != floor(number))
		return false;
	*integer = (int64_t)number;
	return true;
}

static bool literal_to_integer(const struct literal *literal, int64_t *integer)
{
	double number;
	switch (literal->kind) {
	case LITERAL_INTEGER:
		*integer = literal->integer;
		return true;
	case LITERAL_FLOAT:
		return double_to_integer(literal->number, integer);
	case LITERAL_WORD:
		return text_to_int64(literal->text, integer) ||
		       (text_to_double(literal->text, &number) && double_to_integer(number, integer));
	default:
		return false;
	}
}

static bool literal_to_bool(const struct literal *literal, int64_t *value)
{
	if (literal->kind == LITERAL_BOOL) {
		*value = literal->integer;
		return true;
	}
	if (literal->kind != LITERAL_WORD)
		return false;
	*value = strcasecmp(literal->text, "true") == 0;
	return *value || strcasecmp(literal->text, "false") == 0;
}

static bool literal_to_bytes(const struct literal *literal, int64_t *value)
{
	uint64_t bytes;
	if (literal->kind == LITERAL_WORD || literal->kind == LITERAL_STRING) {
		if (!text_to_bytes(literal->text, &bytes) || bytes > INT64_MAX)
			return false;
		*value = (int64_t)bytes;
		return true;
	}
	return literal_to_integer(literal, value) && *value >= 0;
}

static bool literal_to_number(enum config_type type, const struct literal *literal, double *number)
{
	bool word = literal->kind == LITERAL_WORD;
	if (literal->kind == LITERAL_INTEGER)
		*number = (double)literal->integer;
	else if (literal->kind == LITERAL_FLOAT)
		*number = literal->number;
	else if (type == CONFIG_SECONDS && (word || literal->kind == LITERAL_STRING))
		return text_to_seconds(literal->text, number);
	else if (!word || !text_to_double(literal->text, number))
		return false;
	return isfinite(*number);
}

static int check_choice(const struct config_key *row, const char *key, const char *text)
{
	size_t length = strlen(text);
	for (const char *at = row->choices; *at && length > 0;) {
		const char *end = strchrnul(at, '|');
		if ((size_t)(end - at) == length && memcmp(at, text, length) == 0)
			return STATUS_OK;
		at = *end ? end + 1 : end;
	}
	struct text list = {0};
	for (const char *at = row->choices; *at; at++)
		*at == '|' ? text_add(&list, ", ") : text_append(&list, at, 1);
	int status = error_set(STATUS_CONFIG, "%s = '%.200s' is not one of: %s", key, text,
		list.data ? list.data : row->choices);
	text_release(&list);
	return status;
}

static int convert_text(
	const struct config_key *row, const char *key, const struct literal *literal, char **text)
{
	if (literal->kind != LITERAL_WORD && literal->kind != LITERAL_STRING)
		return refuse_type(member_type(row->type), key, literal);
	if (row->type == CONFIG_CHOICE) {
		int status = check_choice(row, key, literal->text);
		if (status)
			return status;
	}
	*text = memory_text(literal->text);
	return *text ? STATUS_OK : error_status();
}

/* Member i of the value, whose arrays have room for it. */
static int convert_member(const struct config_key *row, const char *key, const struct literal *literal,
	struct config_value *value, size_t i)
{
	if (value_type_is_text(row->type))
		return convert_text(row, key, literal, &value->texts[i]);
	if (type_is_number(row->type)) {
		if (!literal_to_number(row->type, literal, &value->numbers[i]))
			return refuse_type(member_type(row->type), key, literal);
		return check_range(row, key, value->numbers[i]);
	}
	bool fits = row->type == CONFIG_BOOL    ? literal_to_bool(literal, &value->integers[i])
		    : row->type == CONFIG_BYTES ? literal_to_bytes(literal, &value->integers[i])
						: literal_to_integer(literal, &value->integers[i]);
	if (!fits)
		return refuse_type(member_type(row->type), key, literal);
	return row->type == CONFIG_BOOL ? STATUS_OK : check_range(row, key, (double)value->integers[i]);
}

/* ===== whole values ===== */

static int value_allocate(enum config_type type, size_t count, struct config_value *value)
{
	void *memory = memory_new(count, sizeof(int64_t));
	if (!memory)
		return error_status();
	if (value_type_is_text(type))
		value->texts = memory;
	else if (type_is_number(type))
		value->numbers = memory;
	else
		value->integers = memory;
	value->count = count;
	return STATUS_OK;
}

/* Splits "a,b,c", "[a, b, c]" or "(a, b)" into word literals; an empty text is an empty list. */
static int split_list(const char *word, struct literal *list)
{
	size_t length = strlen(word), capacity = 0;
	if (length >= 2 && ((word[0] == '[' && word[length - 1] == ']') ||
				   (word[0] == '(' && word[length - 1] == ')'))) {
		word++;
		length -= 2;
	}
	const char *end = word + length;
	list->kind = LITERAL_LIST;
	if (strspn(word, " \t") >= length)
		return STATUS_OK;
	for (const char *at = word; at <= end;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end, *next = stop + 1;
		while (at < stop && (*at == ' ' || *at == '\t'))
			at++;
		while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
			stop--;
		if (memory_grow(&list->member, &capacity, list->count + 1, sizeof *list->member))
			return error_status();
		struct literal *member = &list->member[list->count];
		member->kind = LITERAL_WORD;
		member->text = memory_new((size_t)(stop - at) + 1, 1);
		if (!member->text)
			return error_status();
		memcpy(member->text, at, (size_t)(stop - at));
		list->count++;
		at = next;
	}
	return STATUS_OK;
}

static int convert_list(const struct config_key *row, const char *key, const struct literal *literal,
	struct config_value *value)
{
	if (literal->kind != LITERAL_LIST)
		return refuse_type(row->type, key, literal);
	struct text name = {0};
	int status = value_allocate(row->type, literal->count, value);
	for (size_t i = 0; i < literal->count && !status; i++) {
		text_clear(&name);
		text_format(&name, "%s[%zu]", key, i);
		status = text_check(&name);
		if (!status)
			status = convert_member(row, name.data, &literal->member[i], value, i);
	}
	text_release(&name);
	return status;
}

int value_convert(const struct config_key *row, const char *key, const struct literal *literal,
	struct config_value *value)
{
	struct literal split = {0};
	int status;
	value_release(value);
	if (!value_type_is_list(row->type)) {
		status = value_allocate(row->type, 1, value);
		if (!status)
			status = convert_member(row, key, literal, value, 0);
	} else if (literal->kind == LITERAL_WORD) {
		status = split_list(literal->text, &split);
		if (!status)
			status = convert_list(row, key, &split, value);
	} else {
		status = convert_list(row, key, literal, value);
	}
	if (status)
		value_release(value);
	literal_release(&split);
	return status;
}

bool value_equal(enum config_type type, const struct config_value *a, const struct config_value *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (value_type_is_text(type)   ? strcmp(a->texts[i], b->texts[i]) != 0
			: type_is_number(type) ? a->numbers[i] != b->numbers[i]
					       : a->integers[i] != b->integers[i])
			return false;
	}
	return true;
}

/* ===== writing ===== */

void value_quote(struct text *out, const char *string)
{
	text_add(out, "\"");
	for (const char *at = string; *at; at++) {
		unsigned char c = (unsigned char)*at;
		if (c == '"' || c == '\\')
			text_format(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			text_format(out, "\\x%02x", c);
		else if (c == '$' && at[1] == '{')
			text_add(out, "$$");
		else
			text_append(out, at, 1);
	}
	text_add(out, "\"");
}

static void write_number(struct text *out, double number)
{
	size_t start = out->length;
	text_number(out, number);
	if (!out->failed && !strpbrk(out->data + start, ".en"))
		text_add(out, ".0");
}

static void write_member(
	enum config_type type, const struct config_value *value, size_t i, bool file, struct text *out)
{
	if (value_type_is_text(type)) {
		file ? value_quote(out, value->texts[i]) : text_add(out, value->texts[i]);
	} else if (type_is_number(type)) {
		file ? write_number(out, value->numbers[i]) : text_number(out, value->numbers[i]);
	} else if (type == CONFIG_BOOL) {
		text_add(out, value->integers[i] ? "true" : "false");
	} else {
		int64_t integer = value->integers[i];
		text_format(out, "%" PRId64 "%s", integer,
			file && (integer > INT32_MAX || integer < INT32_MIN) ? "L" : "");
	}
}

void value_word(enum config_type type, const struct config_value *value, struct text *out)
{
	for (size_t i = 0; i < value->count; i++) {
		if (i > 0)
			text_add(out, ",");
		write_member(type, value, i, false, out);
	}
}

void value_canonical(enum config_type type, const struct config_value *value, struct text *out)
{
	bool list = value_type_is_list(type);
	if (list)
		text_add(out, "[");
	for (size_t i = 0; i < value->count; i++) {
		if (i > 0)
			text_add(out, ", ");
		write_member(type, value, i, true, out);
	}
	if (list)
		text_add(out, "]");
}
