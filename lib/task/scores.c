#include "task/scores.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

int scores_init(struct scores *scores, const char *const *metric, size_t metrics, size_t count)
{
	*scores = (struct scores){.metric = metric, .metrics = metrics, .count = count};
	scores->sample = memory_new(count, sizeof *scores->sample);
	scores->value = memory_new(count, metrics * sizeof *scores->value);
	return scores->sample && scores->value ? STATUS_OK : error_status();
}

int scores_init_words(struct scores *scores, const char *const *name, size_t words)
{
	scores->word = memory_new(scores->count, words * sizeof *scores->word);
	scores->word_name = name;
	scores->words = scores->word ? words : 0;
	return scores->word ? STATUS_OK : error_status();
}

int scores_init_extras(struct scores *scores, const char *const *name, size_t extras)
{
	scores->extra = memory_new(extras, sizeof *scores->extra);
	scores->extra_name = name;
	scores->extras = scores->extra ? extras : 0;
	return scores->extra ? STATUS_OK : error_status();
}

void scores_release(struct scores *scores)
{
	for (size_t i = 0; i < scores->count * scores->words; i++)
		free(scores->word[i]);
	free(scores->word);
	free(scores->extra);
	for (size_t i = 0; scores->sample && i < scores->count; i++)
		free(scores->sample[i]);
	free(scores->sample);
	free(scores->value);
	free(scores->how);
	*scores = (struct scores){0};
}

static void add_names(const struct scores *scores, const char *first, const char *const *more, size_t count,
	struct text *table)
{
	text_add(table, first);
	for (size_t m = 0; m < scores->metrics; m++)
		text_format(table, "\t%s", scores->metric[m]);
	for (size_t i = 0; i < count; i++)
		text_format(table, "\t%s", more[i]);
	text_add(table, "\n");
}

void scores_header(const struct scores *scores, struct text *table)
{
	add_names(scores, "#dataset\tsample", scores->word_name, scores->words, table);
}

void scores_comment(const struct scores *scores, const char *dataset, const char *info, struct text *table)
{
	text_add(table, "# ");
	text_field(table, dataset);
	text_format(table, ": %s%s%s\n", info, *info ? "; " : "", scores->how);
}

void scores_rows(const struct scores *scores, const char *dataset, struct text *table)
{
	for (size_t i = 0; i < scores->count; i++) {
		text_field(table, dataset);
		text_add(table, "\t");
		text_field(table, scores->sample[i]);
		for (size_t m = 0; m < scores->metrics; m++) {
			text_add(table, "\t");
			text_number(table, scores->value[i * scores->metrics + m]);
		}
		for (size_t w = 0; w < scores->words; w++) {
			text_add(table, "\t");
			text_field(table, scores->word[i * scores->words + w]);
		}
		text_add(table, "\n");
	}
}

void scores_summary_header(const struct scores *scores, struct text *table)
{
	add_names(scores, "#dataset\tn\tnan", scores->extra_name, scores->extras, table);
}

static bool has_nan(const struct scores *scores, size_t i)
{
	for (size_t m = 0; m < scores->metrics; m++)
		if (isnan(scores->value[i * scores->metrics + m]))
			return true;
	return false;
}

void scores_summary(const struct scores *scores, const char *dataset, struct text *table)
{
	size_t without = 0;

	for (size_t i = 0; i < scores->count; i++)
		without += has_nan(scores, i);
	text_field(table, dataset);
	text_format(table, "\t%zu\t%zu", scores->count, without);
	for (size_t m = 0; m < scores->metrics; m++) {
		double sum = 0;

		for (size_t i = 0; i < scores->count; i++)
			if (!has_nan(scores, i))
				sum += scores->value[i * scores->metrics + m];
		text_add(table, "\t");
		text_number(table, without == scores->count ? NAN : sum / (double)(scores->count - without));
	}
	for (size_t e = 0; e < scores->extras; e++) {
		text_add(table, "\t");
		text_number(table, scores->extra[e]);
	}
	text_add(table, "\n");
}
