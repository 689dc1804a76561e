/* report: shows runs, as a page to look at or as lines of text. See report(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "report/page.h"

struct settings {
	const char *output;
	bool text, verify;
	const char **runs;
	int count;
};

static void warn_of(const struct record *record)
{
	for (size_t i = 0; i < record->trouble.count; i++)
		warn("%s", record->trouble.name[i]);
}

/* Publishes the page and says where it is. */
static int publish(const char *path, const struct text *page)
{
	int status = file_publish(path, page->data, page->length);

	if (!status)
		printf("%s\n", path);
	return status;
}

/* Without -o each run has its page. */
static int write_page(const struct settings *settings, const char *run)
{
	const struct record_options options = {.verify = settings->verify};
	struct record record = {0};
	struct text page = {0};
	char *path = settings->output ? memory_text(settings->output) : path_join(run, "report.html");
	int status = path ? record_read(run, &options, &record) : error_status();

	if (!status)
		warn_of(&record);
	if (!status)
		status = page_of_run(&record, &page);
	if (!status)
		status = publish(path, &page);
	text_release(&page);
	record_release(&record);
	free(path);
	return status;
}

/* Runs of one name are called as the user called them. */
static int tell_apart(const struct settings *settings, struct record *records, size_t count)
{
	bool again = false;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			again = again || strcmp(records[i].name, records[k].name) == 0;
	for (size_t i = 0; i < count && again; i++) {
		free(records[i].name);
		records[i].name = memory_text(settings->runs[i]);
		if (!records[i].name)
			return error_status();
	}
	return STATUS_OK;
}

static int compare(const struct settings *settings)
{
	const struct record_options options = {.verify = settings->verify};
	struct record *records = memory_new((size_t)settings->count, sizeof *records);
	struct text page = {0};
	size_t read = 0;
	int status = records ? STATUS_OK : error_status();

	for (int i = 0; i < settings->count && !status; i++)
		status = record_read(settings->runs[i], &options, &records[read++]);
	if (!status)
		status = tell_apart(settings, records, read);
	for (size_t i = 0; !status && i < read; i++)
		warn_of(&records[i]);
	if (!status)
		status = page_of_runs(records, read, &page);
	if (!status)
		status = publish(settings->output, &page);
	for (size_t i = 0; i < read; i++)
		record_release(&records[i]);
	free(records);
	text_release(&page);
	return status;
}

static int print_line(const struct settings *settings, const char *run)
{
	const struct record_options options = {.brief = true, .verify = settings->verify};
	struct record record = {0};
	struct text line = {0};
	int status = record_read(run, &options, &record);

	if (!status)
		warn_of(&record);
	if (!status) {
		page_line(&record, run, &line);
		status = text_check(&line);
	}
	if (!status)
		fwrite(line.data, 1, line.length, stdout);
	fflush(stdout);
	text_release(&line);
	record_release(&record);
	return status;
}

/* One run after the other; what is no run is told, and the others are shown all the same. The first failure is the status. */
static int each(
	const struct settings *settings, int (*show)(const struct settings *settings, const char *run))
{
	int first = STATUS_OK;

	for (int i = 0; i < settings->count; i++) {
		int status = show(settings, settings->runs[i]);

		if (status)
			error_print(status);
		error_clear();
		first = first ? first : status;
	}
	return first;
}

static int check_arguments(const struct settings *settings)
{
	if (settings->count == 0)
		return error_set(STATUS_USAGE, "RUN is missing; --help shows how it is called");
	if (settings->text && settings->output)
		return error_set(STATUS_USAGE, "--text prints lines, -o names a page: one of them");
	return STATUS_OK;
}

static int show(const struct settings *settings)
{
	struct text header = {0};
	int status;

	if (settings->output && settings->count > 1)
		return compare(settings);
	if (!settings->text)
		return each(settings, write_page);
	page_line_header(&header);
	status = text_check(&header);
	if (!status)
		fwrite(header.data, 1, header.length, stdout);
	text_release(&header);
	return status ? status : each(settings, print_line);
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	const struct option_row rows[] = {
		{"output", 'o', "FILE",
			"the page's name (RUN/report.html); of several runs one page that compares them",
			&settings.output, OPTION_TEXT},
		{"text", 0, NULL, "a line for each run instead of pages", &settings.text, OPTION_FLAG},
		{"verify", 0, NULL, "read every byte of large checkpoints too", &settings.verify,
			OPTION_FLAG},
		{0},
	};
	const struct program program = {
		.name = "report",
		.synopsis = "[-o FILE] [--verify] RUN ...\n--text [--verify] RUN ...",
		.purpose = "Show runs: a self-contained HTML page, or a line of text each.",
		.rows = rows,
	};
	bool done = false;
	int status;

	error_program(argv[0]);
	guard_output();
	settings.runs = memory_new((size_t)argc, sizeof *settings.runs);
	status = settings.runs ? options_parse(&program, argc, argv, settings.runs, &settings.count, &done)
			       : error_status();
	if (!status && !done)
		status = check_arguments(&settings);
	if (!status && !done)
		status = show(&settings);
	free(settings.runs);
	if (status && *error_message())
		error_print(status);
	return close_stdout(status);
}
