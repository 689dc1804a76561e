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

void scores_release(struct scores *scores)
{
	for (size_t i = 0; scores->sample && i < scores->count; i++)
		free(scores->sample[i]);
	free(scores->sample);
	free(scores->value);
	free(scores->how);
	*scores = (struct scores){0};
}

static void add_names(const struct scores *scores, const char *first, struct text *table)
{
	text_add(table, first);
	for (size_t m = 0; m < scores->metrics; m++)
		text_format(table, "\t%s", scores->metric[m]);
	text_add(table, "\n");
}

void scores_header(const struct scores *scores, struct text *table)
{
	add_names(scores, "#dataset\tsample", table);
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
		text_add(table, "\n");
	}
}

void scores_summary_header(const struct scores *scores, struct text *table)
{
	add_names(scores, "#dataset\tn\tnan", table);
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
	text_add(table, "\n");
}
