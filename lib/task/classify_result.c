#include "task/classify_result.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "metric/classify.h"

/* ---- JSON as Python's json.dumps writes it ---- */

/* The code point at *at, which moves behind it; a byte that begins none stands for itself, as with surrogateescape. */
static uint32_t next_code(const unsigned char **at)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *c = *at;
	int length = *c < 0x80 ? 1 : *c >= 0xf0 && *c < 0xf8 ? 4 : *c >= 0xe0 ? 3 : 2;
	uint32_t code = length == 1 ? *c : *c & (0x7fU >> length);

	for (int i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80) {
			length = 0;
			break;
		}
		code = code << 6 | (c[i] & 0x3f);
	}
	if (length == 0 || (*c >= 0x80 && *c < 0xc0) || *c >= 0xf8 || code < least[length] ||
		code > 0x10ffff) {
		++*at;
		return 0xdc00 + *c;
	}
	*at += length;
	return code;
}

static void add_escape(struct text *json, uint32_t code)
{
	static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	const char *known = code && code < 0x80 ? strchr(plain, (int)code) : NULL;

	if (known)
		text_format(json, "\\%c", letter[known - plain]);
	else if (code >= 0x10000)
		text_format(json, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
			(unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
	else if (code < 0x20 || code >= 0x7f)
		text_format(json, "\\u%04x", (unsigned)code);
	else
		text_format(json, "%c", (char)code);
}

static void add_string(struct text *json, const char *string)
{
	const unsigned char *at = (const unsigned char *)string;

	text_add(json, "\"");
	while (*at)
		add_escape(json, next_code(&at));
	text_add(json, "\"");
}

/* The float32 value as a double, the shortest digits that read back equal; never without a point or an exponent. */
static void add_score(struct text *json, float score)
{
	size_t from = json->length;

	text_number(json, (double)score);
	if (!json->failed && !strpbrk(json->data + from, ".en"))
		text_add(json, ".0");
}

/* ---- results ---- */

void classify_result_begin(struct classify_result *result, bool average, size_t best)
{
	*result = (struct classify_result){.average = average, .best = best};
	text_add(&result->json, "{\"results\": {");
	text_add(&result->table, "#video\tbegin\tend\trank\tlabel\tscore\n");
}

/* [{"label": ..., "score": ...}, ...] and rows of the table. */
static int add_best(struct classify_result *result, const char *id, const struct classify_labels *labels,
	const float *probability, size_t classes, const int64_t segment[2])
{
	size_t named = labels->count && labels->count < classes ? labels->count : classes,
	       count = result->best && result->best < named ? result->best : named;
	size_t *best = memory_new(count, sizeof *best);
	char buffer[32];

	if (!best)
		return error_status();
	classify_best(probability, named, count, best);
	text_add(&result->json, "[");
	for (size_t i = 0; i < count; i++) {
		const char *label = classify_label(labels, best[i], buffer);

		text_add(&result->json, i ? ", {\"label\": " : "{\"label\": ");
		add_string(&result->json, label);
		text_add(&result->json, ", \"score\": ");
		add_score(&result->json, probability[best[i]]);
		text_add(&result->json, "}");
		text_field(&result->table, id);
		text_format(&result->table, "\t%lld\t%lld\t%zu\t", (long long)segment[0],
			(long long)segment[1], i + 1);
		text_field(&result->table, label);
		text_add(&result->table, "\t");
		text_number(&result->table, (double)probability[best[i]]);
		text_add(&result->table, "\n");
	}
	text_add(&result->json, "]");
	free(best);
	return STATUS_OK;
}

static int add_average(struct classify_result *result, const char *id, const struct classify_labels *labels,
	const float *probability, size_t windows, size_t classes, const int64_t (*segment)[2])
{
	float *mean = memory_new(classes, sizeof *mean);
	int64_t whole[2] = {segment[0][0], segment[0][1]};
	int status = mean ? STATUS_OK : error_status();

	for (size_t w = 1; w < windows; w++) {
		whole[0] = segment[w][0] < whole[0] ? segment[w][0] : whole[0];
		whole[1] = segment[w][1] > whole[1] ? segment[w][1] : whole[1];
	}
	if (!status) {
		classify_mean(probability, windows, classes, mean);
		status = add_best(result, id, labels, mean, classes, whole);
	}
	free(mean);
	return status;
}

int classify_result_add(struct classify_result *result, const char *id, const struct classify_labels *labels,
	const float *probability, size_t windows, size_t classes, const int64_t (*segment)[2])
{
	int status = STATUS_OK;

	text_add(&result->json, result->any ? ", " : "");
	result->any = true;
	add_string(&result->json, id);
	text_add(&result->json, ": ");
	if (result->average)
		return add_average(result, id, labels, probability, windows, classes, segment);
	text_add(&result->json, "[");
	for (size_t w = 0; w < windows && !status; w++) {
		text_format(&result->json, "%s{\"segment\": [%lld, %lld], \"result\": ", w ? ", " : "",
			(long long)segment[w][0], (long long)segment[w][1]);
		status = add_best(result, id, labels, probability + w * classes, classes, segment[w]);
		text_add(&result->json, "}");
	}
	text_add(&result->json, "]");
	return status;
}

int classify_result_end(struct classify_result *result)
{
	int status;

	text_add(&result->json, "}}");
	status = text_check(&result->json);
	return status ? status : text_check(&result->table);
}

void classify_result_release(struct classify_result *result)
{
	text_release(&result->json);
	text_release(&result->table);
	*result = (struct classify_result){0};
}
