/* The frame of a page: what stands at its top, and the order of its sections. */
#include "report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "report/html.h"
#include "report/page_parts.h"

/* ---- lines of text ---- */

void page_line_header(struct text *out)
{
	text_add(out, "#run\tstate\tstep\tsteps\tloss\tlast_write\tshift\tleft_s\tcheckpoint\n");
}

void page_line(const struct record *record, const char *run, struct text *out)
{
	const struct record_checkpoint *newest = record_newest(record);
	char time[32];

	text_field(out, run);
	text_format(out, "\t%s\t%" PRId64 "\t", record->state, record->step);
	if (record->steps >= 0)
		text_format(out, "%" PRId64, record->steps);
	else
		text_add(out, "-");
	text_add(out, "\t");
	if (record->step > 0)
		text_number(out, record->loss);
	else
		text_add(out, "-");
	text_format(out, "\t%s\t", record->last_write > 0 ? clock_text(record->last_write, time) : "-");
	if (record->last_shift)
		text_format(out, "%" PRId64, record->last_shift);
	else
		text_add(out, "-");
	if (isfinite(record->left_s))
		text_format(out, "\t%.0f\t", record->left_s);
	else
		text_add(out, "\t-\t");
	text_field(out, newest ? newest->name : "-");
	text_add(out, "\n");
}

/* ---- the top of a page ---- */

static void add_fact(struct text *page, const char *what, const char *value, const char *small)
{
	text_add(page, "<div>");
	html_tag(page, "dt", NULL, what);
	text_add(page, "<dd>");
	html_text(page, value);
	if (*small)
		html_tag(page, "small", NULL, small);
	text_add(page, "</dd></div>\n");
}

void page_steps(const struct record *record, struct text *text)
{
	char step[32], steps[32];

	text_add(text, number_text((double)record->step, step));
	if (record->steps >= 0)
		text_format(text, " of %s", number_text((double)record->steps, steps));
}

/* "abs_relative_difference 0.0971" of the first set's best. */
static void add_best(const struct record *record, struct text *page)
{
	char value[32];
	struct text small = {0};

	if (!record->has_best)
		return;
	text_format(&small, "step %" PRId64 ", %s", record->best_step, record->best_metric);
	if (!text_check(&small))
		add_fact(page, "best", number_text(record->best_value, value), small.data);
	text_release(&small);
}

static void add_times(const struct record *record, struct text *page)
{
	char value[32], small[64] = "";

	if (isfinite(record->samples_s)) {
		if (isfinite(record->seconds_step))
			snprintf(small, sizeof small, "%.4g s a step", record->seconds_step);
		add_fact(page, "samples a second", number_text(record->samples_s, value), small);
	}
	if (record->trained_s > 0) {
		snprintf(small, sizeof small, "in %" PRId64 " %s", record->last_shift,
			record->last_shift == 1 ? "shift" : "shifts");
		add_fact(page, "trained for", text_of_seconds(record->trained_s, value), small);
	}
	if (isfinite(record->left_s) && record->left_s > 0)
		add_fact(page, "left, at this speed", text_of_seconds(record->left_s, value), "");
	if (record->last_write > 0) {
		/* The day and the time of "2026-01-31T12:34:56Z". */
		clock_text(record->last_write, value);
		snprintf(small, sizeof small, "%.8s UTC", value + strcspn(value, "T") + 1);
		value[strcspn(value, "T")] = 0;
		add_fact(page, "last write", value, small);
	}
}

static void add_facts(const struct record *record, struct text *page)
{
	const struct record_checkpoint *newest = record_newest(record);
	char value[32], small[64] = "";
	struct text steps = {0};

	text_add(page, "<dl class=\"facts\">\n");
	page_steps(record, &steps);
	if (record->epoch >= 0)
		snprintf(small, sizeof small, "%.0f epoch%s done", record->epoch,
			record->epoch == 1 ? "" : "s");
	if (!text_check(&steps))
		add_fact(page, "steps", steps.data, small);
	text_release(&steps);
	if (record->step > 0)
		add_fact(page, "loss", number_text(record->loss, value), "");
	add_best(record, page);
	add_times(record, page);
	if (newest)
		add_fact(page, "newest checkpoint", newest->name,
			newest->sampled ? "judged by names and lengths" : "every byte checked");
	text_add(page, "</dl>\n");
}

void page_trouble(const struct record *record, struct text *page)
{
	if (!record->trouble.count)
		return;
	text_add(page, "<div class=\"trouble\"><b>Not all of this run can be read:</b><ul>\n");
	for (size_t i = 0; i < record->trouble.count; i++)
		html_tag(page, "li", NULL, record->trouble.name[i]);
	text_add(page, "</ul></div>\n");
}

static void add_top(const struct record *record, struct text *page)
{
	text_add(page, "<header>");
	html_tag(page, "h1", NULL, record->name);
	text_format(page, "<span class=\"state %s\">%s</span>", record->state, record->state);
	if (record->run.config) {
		text_add(page, "<span class=\"soft\">");
		html_text(page, config_text(record->run.config, "task"));
		text_add(page, ", ");
		html_text(page, config_text(record->run.config, "model.name"));
		text_add(page, "</span>");
	}
	text_add(page, "</header>\n");
	html_tag(page, "p", "soft path", record->run.path);
	if (record->steps > 0)
		text_format(page, "\n<progress max=\"%" PRId64 "\" value=\"%" PRId64 "\"></progress>",
			record->steps, record->step < record->steps ? record->step : record->steps);
	text_add(page, "\n");
	page_trouble(record, page);
	add_facts(record, page);
}

/* Links to the sections that are there. */
static void add_contents(struct text *page, const struct text *body)
{
	static const char *const sections[][2] = {{"curves", "Curves"}, {"validation", "Validation"},
		{"pictures", "Pictures"}, {"evaluation", "Evaluation"}, {"shifts", "Shifts"},
		{"checkpoints", "Checkpoints"}, {"configuration", "Configuration"},
		{"code", "Code and machine"}, {"messages", "Last messages"}};
	char heading[64];

	text_add(page, "<nav>");
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		snprintf(heading, sizeof heading, "<h2 id=\"%s\">", sections[i][0]);
		if (body->data && strstr(body->data, heading))
			text_format(page, "<a href=\"#%s\">%s</a>", sections[i][0], sections[i][1]);
	}
	text_add(page, "</nav>\n");
}

int page_finish(struct text *page, struct text *body, int status)
{
	char time[32];

	if (!status)
		status = text_check(body);
	if (!status) {
		add_contents(page, body);
		text_append(page, body->data, body->length);
		text_format(page, "<p class=\"soft\">Made by nightshift %s, %s.</p>\n", NIGHTSHIFT_VERSION,
			clock_text(clock_wall(), time));
		html_foot(page);
		status = text_check(page);
	}
	text_release(body);
	return status;
}

int page_of_run(const struct record *record, struct text *page)
{
	struct text body = {0};
	int status;

	html_head(page, record->name);
	add_top(record, page);
	status = page_charts(record, 1, &body);
	page_validation(record, &body);
	page_pictures(record, &body);
	page_scores(record, &body);
	page_shifts(record, &body);
	page_checkpoints(record, &body);
	if (!status)
		status = page_config(record, &body);
	page_code(record, &body);
	page_messages(record, &body);
	return page_finish(page, &body, status);
}
