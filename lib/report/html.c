#include "report/html.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "report/style.h"

/* Bytes of the UTF-8 character at `text` (RFC 3629: shortest form, no surrogates); 0: none. */
static size_t character_bytes(const unsigned char *text)
{
	static const struct {
		unsigned char first, last, low, high; /* of the first byte; of the second */
		size_t bytes;
	} forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (text[0] < forms[i].first || text[0] > forms[i].last)
			continue;
		if (text[1] < forms[i].low || text[1] > forms[i].high)
			return 0;
		for (size_t k = 2; k < forms[i].bytes; k++)
			if (text[k] < 0x80 || text[k] > 0xbf)
				return 0;
		return forms[i].bytes;
	}
	return 0;
}

/* U+FFFE and U+FFFF are no characters of XML. */
static bool is_character(const unsigned char *text, size_t bytes)
{
	return bytes != 3 || text[0] != 0xef || text[1] != 0xbf || text[2] < 0xbe;
}

void html_text(struct text *page, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t bytes = character_bytes(at);

		if (*at == '&')
			text_add(page, "&amp;");
		else if (*at == '<')
			text_add(page, "&lt;");
		else if (*at == '>')
			text_add(page, "&gt;");
		else if (*at == '"')
			text_add(page, "&quot;");
		else if (*at == '\'')
			text_add(page, "&#39;");
		else if (*at == '\n' || *at == '\t' || (*at >= ' ' && *at < 0x7f))
			text_append(page, (const char *)at, 1);
		else if (bytes && is_character(at, bytes))
			text_append(page, (const char *)at, bytes);
		else
			text_add(page, "\xef\xbf\xbd");
		at += bytes ? bytes : 1;
	}
}

void html_tag(struct text *page, const char *tag, const char *class, const char *text)
{
	text_format(page, "<%s", tag);
	if (class)
		text_format(page, " class=\"%s\"", class);
	text_add(page, ">");
	html_text(page, text);
	text_format(page, "</%s>", tag);
}

void html_name(struct text *page, const char *name)
{
	struct text part = {0};

	for (const char *rest = name; *rest; rest += strcspn(rest, "_") + (strchr(rest, '_') != NULL)) {
		text_clear(&part);
		text_append(&part, rest, strcspn(rest, "_") + (strchr(rest, '_') != NULL));
		html_text(page, part.data ? part.data : "");
		if (strchr(rest, '_'))
			text_add(page, "<wbr/>");
	}
	page->failed = page->failed || part.failed;
	text_release(&part);
}

/* Puts a comma between groups of three digits of an integer's text. */
static void group_digits(char *buffer, size_t size)
{
	size_t length = strlen(buffer), first = *buffer == '-';

	for (size_t at = length; at > first + 3 && length + 1 < size; length++) {
		at -= 3;
		memmove(buffer + at + 1, buffer + at, length - at + 1);
		buffer[at] = ',';
	}
}

const char *number_text(double value, char buffer[32])
{
	if (isnan(value) || isinf(value)) {
		snprintf(buffer, 32, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
	} else if (value == floor(value) && fabs(value) < 1e15) {
		snprintf(buffer, 32, "%.0f", value);
		group_digits(buffer, 32);
	} else {
		snprintf(buffer, 32, fabs(value) >= 1e5 && fabs(value) < 1e15 ? "%.0f" : "%.5g", value);
		if (!strchr(buffer, '.') && !strchr(buffer, 'e'))
			group_digits(buffer, 32);
	}
	return buffer;
}

void html_number_cell(struct text *page, const char *class, double value)
{
	char buffer[32];

	text_format(page, "<td class=\"number %s\" title=\"", class);
	text_number(page, value);
	text_format(page, "\">%s</td>", number_text(value, buffer));
}

void html_integer_cell(struct text *page, const char *class, int64_t value)
{
	char buffer[32] = "";

	if (value != -1) {
		snprintf(buffer, sizeof buffer, "%" PRId64, value);
		group_digits(buffer, sizeof buffer);
	}
	text_format(page, "<td class=\"number %s\">%s</td>", class, buffer);
}

void html_base64(struct text *page, const void *data, size_t bytes)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *from = data;

	for (size_t i = 0; i < bytes; i += 3) {
		size_t rest = bytes - i;
		unsigned group = (unsigned)from[i] << 16 | (rest > 1 ? (unsigned)from[i + 1] << 8 : 0) |
				 (rest > 2 ? from[i + 2] : 0);
		char four[4] = {letters[group >> 18], letters[group >> 12 & 63],
			rest > 1 ? letters[group >> 6 & 63] : '=', rest > 2 ? letters[group & 63] : '='};

		text_append(page, four, 4);
	}
}

/* The digest of the script as a policy names it. */
static void add_script_digest(struct text *page)
{
	struct sha256 state;
	char hex[65];
	unsigned char digest[32];

	sha256_init(&state);
	sha256_update(&state, page_script, strlen(page_script));
	sha256_hex(&state, hex);
	for (int i = 0; i < 32; i++) {
		int high = hex[2 * i] <= '9' ? hex[2 * i] - '0' : hex[2 * i] - 'a' + 10;
		int low = hex[2 * i + 1] <= '9' ? hex[2 * i + 1] - '0' : hex[2 * i + 1] - 'a' + 10;

		digest[i] = (unsigned char)(high << 4 | low);
	}
	text_add(page, "sha256-");
	html_base64(page, digest, sizeof digest);
}

void html_head(struct text *page, const char *title)
{
	text_add(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
		       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		       "style-src 'unsafe-inline'; img-src data:; script-src '");
	add_script_digest(page);
	text_add(page, "'\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
		       "<meta name=\"color-scheme\" content=\"light dark\"/>\n");
	html_tag(page, "title", NULL, title);
	text_format(page, "\n<style>%s</style></head>\n<body>\n", page_style);
}

void html_foot(struct text *page)
{
	text_format(page, "<script>%s</script>\n</body></html>\n", page_script);
}
