#include "task/classify_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

enum { ERROR, TOP1, TOP5, CLIP_TOP1, RANK, METRICS };
static const char *const metrics[METRICS] = {"error", "top1", "top5", "clip_top1", "rank"};
enum { LABEL, PREDICTED, WORDS };
static const char *const words[WORDS] = {"label", "predicted"};
static const char *const extras[] = {"mean_class_top1"};

int classify_scores_init(struct scores *scores, size_t count)
{
	int status = scores_init(scores, metrics, METRICS, count);

	for (size_t i = 0; !status && i < count * METRICS; i++)
		scores->value[i] = NAN;
	return status ? status : scores_init_words(scores, words, WORDS);
}

void classify_scores_set(struct scores *scores, size_t i, double rank, double probability, double clip_top1)
{
	double *value = scores->value + i * METRICS;

	value[ERROR] = 0 - log(probability); /* never -0 */
	value[TOP1] = rank < 1;
	value[TOP5] = rank < 5;
	value[CLIP_TOP1] = clip_top1;
	value[RANK] = rank;
}

int classify_scores_name(struct scores *scores, size_t i, const char *label, const char *predicted)
{
	char **word = scores->word + i * WORDS;

	word[LABEL] = memory_text(label);
	word[PREDICTED] = memory_text(predicted);
	return word[LABEL] && word[PREDICTED] ? STATUS_OK : error_status();
}

/* Rows in order of one word, so that equal ones stand together. */
struct row {
	const char *label, *predicted;
	double top1;
	size_t first; /* of the label's rows, as listed */
};

static int compare(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->first != right->first)
		return left->first < right->first ? -1 : 1;
	return strcmp(left->predicted, right->predicted);
}

static int compare_labels(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = strcmp(left->label, right->label);

	return order ? order : (left->first > right->first) - (left->first < right->first);
}

/* The rows that have scores, by label in the order in which labels come first, then by what was predicted. */
static int sort_rows(const struct scores *scores, struct row **rows, size_t *count)
{
	*count = 0;
	*rows = memory_new(scores->count, sizeof **rows);
	if (!*rows)
		return error_status();
	for (size_t i = 0; i < scores->count; i++)
		if (!isnan(scores->value[i * METRICS + TOP1]))
			(*rows)[(*count)++] = (struct row){scores->word[i * WORDS + LABEL],
				scores->word[i * WORDS + PREDICTED], scores->value[i * METRICS + TOP1], i};
	qsort(*rows, *count, sizeof **rows, compare_labels);
	for (size_t i = 1; i < *count; i++)
		if (!strcmp((*rows)[i].label, (*rows)[i - 1].label))
			(*rows)[i].first = (*rows)[i - 1].first;
	qsort(*rows, *count, sizeof **rows, compare);
	return STATUS_OK;
}

int classify_scores_finish(struct scores *scores)
{
	struct row *rows;
	size_t count, classes = 0;
	double sum = 0;
	int status = sort_rows(scores, &rows, &count);

	for (size_t i = 0, next; !status && i < count; i = next) {
		double right = 0;

		for (next = i; next < count && rows[next].first == rows[i].first; next++)
			right += rows[next].top1;
		sum += right / (double)(next - i);
		classes++;
	}
	free(rows);
	if (!status)
		status = scores_init_extras(scores, extras, 1);
	if (!status)
		scores->extra[0] = classes ? sum / (double)classes : NAN;
	return status;
}

int classify_scores_confusion(const struct scores *scores, const char *dataset, struct text *table)
{
	struct row *rows;
	size_t count;
	int status = sort_rows(scores, &rows, &count);

	for (size_t i = 0, next; !status && i < count; i = next) {
		for (next = i; next < count && !compare(&rows[next], &rows[i]); next++)
			;
		text_field(table, dataset);
		text_add(table, "\t");
		text_field(table, rows[i].label);
		text_add(table, "\t");
		text_field(table, rows[i].predicted);
		text_format(table, "\t%zu\n", next - i);
	}
	free(rows);
	return status ? status : text_check(table);
}
