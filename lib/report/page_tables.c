/* Tables of a run: validation, evaluation, shifts, checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/html.h"
#include "report/page_parts.h"

enum { LOOKS_SHOWN = 12, SHIFTS_SHOWN = 200 };

void page_section(struct text *page, const char *id, const char *title)
{
	text_format(page, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

/* ---- validation ---- */

static bool is_best_of_any(const struct record_set *set, int64_t step)
{
	for (int m = 0; m < set->metrics; m++)
		if (set->metric[m].best_step == step)
			return true;
	return false;
}

static void add_look(const struct record_set *set, const struct record_looks *look, struct text *page)
{
	text_add(page, "<tr>");
	html_integer_cell(page, "", look->step);
	for (int m = 0; m < set->metrics; m++)
		html_number_cell(page, set->metric[m].best_step == look->step ? "best" : "", look->value[m]);
	text_add(page, "</tr>\n");
}

/* The newest looks, and before them the best ones. */
static void add_set(const struct record_set *set, struct text *page)
{
	size_t left_out = 0;
	const struct record_metric *first = &set->metric[0];

	html_tag(page, "h3", NULL, set->dataset);
	text_add(page, "<div class=\"wide\"><table><tr><th class=\"number\">step</th>");
	for (int m = 0; m < set->metrics; m++) {
		text_add(page, "<th class=\"number\">");
		html_name(page, set->metric[m].name);
		text_format(page, "\xc2\xa0%s</th>", set->metric[m].larger_is_better ? "↑" : "↓");
	}
	text_add(page, "</tr>\n");
	for (size_t i = 0; i < set->looks; i++) {
		if (i + LOOKS_SHOWN >= set->looks || is_best_of_any(set, set->look[i].step))
			add_look(set, &set->look[i], page);
		else
			left_out++;
	}
	text_add(page,
		"</table></div>\n<p class=\"soft\">Best values are bold; ↓ smaller is better, ↑ larger.");
	if (left_out)
		text_format(page, " %zu earlier steps are in the curves.", left_out);
	if (first->n >= 0)
		text_format(page, " %" PRId64 " samples", first->n);
	if (first->n_nan > 0)
		text_format(
			page, ", <span class=\"bad-text\">%" PRId64 " without a value</span>", first->n_nan);
	text_add(page, "</p>\n");
}

void page_validation(const struct record *record, struct text *page)
{
	if (!record->sets)
		return;
	page_section(page, "validation", "Validation");
	for (size_t i = 0; i < record->sets; i++)
		if (record->set[i].metrics)
			add_set(&record->set[i], page);
}

/* ---- evaluation ---- */

static void add_summary(const struct record_scores *scores, struct text *page)
{
	text_add(page, "<div class=\"wide\"><table><tr><th>metric</th><th class=\"number\">mean</th>"
		       "<th class=\"number\">least</th><th class=\"number\">greatest</th>"
		       "<th class=\"number\">samples</th><th class=\"number\">without</th></tr>\n");
	for (int i = 0; i < scores->columns; i++) {
		const struct record_column *column = &scores->column[i];

		if (!column->count)
			continue;
		text_add(page, "<tr>");
		html_tag(page, "td", NULL, column->name);
		html_number_cell(page, "", column->sum / (double)column->count);
		html_number_cell(page, "", column->low);
		html_number_cell(page, "", column->high);
		html_integer_cell(page, "", column->count);
		html_integer_cell(page, column->other ? "bad-text" : "", column->other);
		text_add(page, "</tr>\n");
	}
	text_add(page, "</table></div>\n");
}

/* As numbers for people where it is one. */
static void add_field(const char *field, struct text *page)
{
	double value;
	char buffer[32];

	if (!field || !text_to_double(field, &value)) {
		html_tag(page, "td", NULL, field ? field : "");
		return;
	}
	text_add(page, "<td class=\"number\" title=\"");
	html_text(page, field);
	text_format(page, "\">%s</td>", number_text(value, buffer));
}

static void add_worst(const struct record_scores *scores, struct text *page)
{
	text_format(page,
		"<details open=\"open\"><summary>The worst %d of %" PRId64
		" samples</summary><div class=\"wide\"><table><tr><th>sample</th>",
		scores->worsts, scores->samples);
	for (int i = 0; i < scores->columns; i++) {
		text_add(page, scores->column[i].count ? "<th class=\"number\">" : "<th>");
		html_name(page, scores->column[i].name);
		text_add(page, "</th>");
	}
	text_add(page, "</tr>\n");
	for (int i = 0; i < scores->worsts; i++) {
		text_add(page, "<tr>");
		html_tag(page, "td", "path", scores->worst[i].name);
		for (int k = 0; k < scores->columns; k++)
			add_field(scores->worst[i].field[k], page);
		text_add(page, "</tr>\n");
	}
	text_add(page, "</table></div></details>\n");
}

void page_scores(const struct record *record, struct text *page)
{
	if (!record->scored)
		return;
	page_section(page, "evaluation", "Evaluation");
	for (size_t i = 0; i < record->scored; i++) {
		const struct record_scores *scores = &record->scores[i];

		html_tag(page, "h3", NULL, scores->dataset);
		for (size_t k = 0; k < scores->remarks.count; k++)
			html_tag(page, "p", "soft path", scores->remarks.name[k]);
		if (!scores->samples) {
			text_add(page, "<p class=\"soft\">No sample.</p>\n");
			continue;
		}
		add_summary(scores, page);
		add_worst(scores, page);
	}
}

/* ---- shifts ---- */

static void add_shift(const struct shift_row *row, struct text *page)
{
	bool failed = row->status > 0 && row->status != 75;

	text_add(page, "<tr>");
	html_integer_cell(page, "", row->shift);
	html_tag(page, "td",
		strcmp(row->event, "fail") == 0 || strcmp(row->event, "lost") == 0 ? "bad-text" : NULL,
		row->event);
	html_tag(page, "td", NULL, row->time);
	html_tag(page, "td", "path", row->job);
	html_integer_cell(page, "", row->restart);
	html_integer_cell(page, "", row->nodes);
	html_integer_cell(page, "", row->world);
	html_integer_cell(page, "", row->step);
	html_integer_cell(page, failed ? "bad-text" : "", row->status);
	html_tag(page, "td", NULL, strcmp(row->reason, "-") ? row->reason : "");
	text_add(page, "</tr>\n");
}

void page_shifts(const struct record *record, struct text *page)
{
	size_t first = record->shifts > SHIFTS_SHOWN ? record->shifts - SHIFTS_SHOWN : 0;

	if (!record->shifts)
		return;
	page_section(page, "shifts", "Shifts");
	if (first)
		text_format(page, "<p class=\"soft\">The newest %d of %zu events.</p>\n", SHIFTS_SHOWN,
			record->shifts);
	text_add(page,
		"<div class=\"wide\"><table><tr><th "
		"class=\"number\">shift</th><th>event</th><th>time</th><th>job</th>"
		"<th class=\"number\">restart</th><th class=\"number\">nodes</th><th "
		"class=\"number\">processes</th>"
		"<th class=\"number\">step</th><th class=\"number\">status</th><th>reason</th></tr>\n");
	for (size_t i = first; i < record->shifts; i++)
		add_shift(&record->shift[i], page);
	text_add(page, "</table></div>\n");
}

/* ---- checkpoints ---- */

static void add_checkpoint(
	const struct record *record, const struct record_checkpoint *checkpoint, struct text *page)
{
	char buffer[32];
	bool best = record->has_best && record->best_step == checkpoint->step && checkpoint->weights;

	text_add(page, "<tr>");
	html_tag(page, "td", best ? "path best" : "path", checkpoint->name ? checkpoint->name : "");
	html_integer_cell(page, "", checkpoint->step);
	html_tag(page, "td", "number", text_of_bytes(checkpoint->bytes, buffer));
	html_tag(page, "td", "path", checkpoint->digest);
	if (!checkpoint->valid)
		html_tag(page, "td", "bad-text", checkpoint->wrong ? checkpoint->wrong : "damaged");
	else
		html_tag(page, "td", NULL,
			checkpoint->sampled ? "whole, by names and lengths" : "whole, every byte");
	text_add(page, "</tr>\n");
}

void page_checkpoints(const struct record *record, struct text *page)
{
	char buffer[32];

	if (!record->checkpoints)
		return;
	page_section(page, "checkpoints", "Checkpoints");
	text_add(page, "<div class=\"wide\"><table><tr><th>name</th><th class=\"number\">step</th><th "
		       "class=\"number\">size</th>"
		       "<th>digest</th><th>state</th></tr>\n");
	for (size_t i = 0; i < record->checkpoints; i++)
		add_checkpoint(record, &record->checkpoint[i], page);
	text_add(page, "</table></div>\n");
	if (record->has_best) {
		text_format(page, "<p class=\"soft\">Best: step %" PRId64 ", ", record->best_step);
		html_text(page, record->best_metric);
		text_format(page, " %s.</p>\n", number_text(record->best_value, buffer));
	}
}
