/* stage-data: brings datasets to node-local scratch. See stage-data(1). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "run/run.h"
#include "run/stage.h"

static struct stage_options options;
static int64_t jobs;
static const struct option_row option_rows[] = {
	{"to", 0, "DIR", "copy to DIR/nightshift-USER/, also what is local already", &options.to,
		OPTION_TEXT},
	{"in-place", 0, NULL, "copy nothing, read the data where it is", &options.in_place, OPTION_FLAG},
	{"verify", 0, NULL, "read the copy back and compare digests", &options.verify, OPTION_FLAG},
	{"follow", 0, NULL, "follow links that leave the source", &options.follow, OPTION_FLAG},
	{"list", 0, "FILE", "only the files named in FILE, one a line, relative to SOURCE", &options.list,
		OPTION_TEXT},
	{"null", '0', NULL, "names in the list end with NUL instead of newline", &options.null, OPTION_FLAG},
	{"pack", 0, NULL, "make one archive of a source, which programs read as it is", &options.pack,
		OPTION_FLAG},
	{"budget", 0, "BYTES", "remove the copies used longest ago where all would take more",
		&options.budget, OPTION_BYTES},
	{"jobs", 'j', "N", "files copied at once (8)", &jobs, OPTION_INTEGER},
	{0},
};
static const struct program program = {
	.name = "stage-data",
	.synopsis = "[options] RUN\n[options] SOURCE ...",
	.purpose = "Bring datasets to node-local scratch, once a node, shared by the jobs there.",
	.rows = option_rows,
};

static bool is_run(const char *path)
{
	char *file = path_join(path, "config.cfg");
	bool there = file && file_exists(file);
	free(file);
	return there;
}

/* The run's own words on where to stage give way to the command line's. */
static int stage_of_run(const char *path, struct text *rows)
{
	struct run run = {0};
	int status = run_open(path, &run);
	if (!status) {
		if (!options.to && !options.in_place)
			options.in_place = config_bool(run.config, "stage.in_place");
		if (!options.to)
			options.to = config_text(run.config, "stage.to");
		options.pack = options.pack || config_bool(run.config, "stage.pack");
		if (!options.budget)
			options.budget = config_bytes(run.config, "stage.budget");
		status = stage_run(&run, &options, rows);
	}
	run_close(&run);
	return status;
}

static int stage_sources(const char **sources, int count, struct text *rows)
{
	int status = STATUS_OK;
	text_add(rows, STAGE_HEADER);
	for (int i = 0; i < count && !status; i++) {
		struct staged staged = {0};
		status = stage_source(sources[i], &options, &staged);
		char *whole = status ? NULL : path_absolute(sources[i]);
		if (whole) {
			text_field(rows, path_base(whole));
			text_add(rows, "\t");
			text_field(rows, staged.path);
			text_format(rows, "\t%s\t", staged.key);
			text_field(rows, whole);
			text_add(rows, "\n");
		} else if (!status) {
			status = error_status();
		}
		free(whole);
		staged_release(&staged);
	}
	return status;
}

static int check_usage(int count, bool run)
{
	if (count < 1)
		return error_set(STATUS_USAGE, "RUN or SOURCE is missing; --help shows how it is called");
	if (jobs < 0 || jobs > 256)
		return error_set(STATUS_USAGE, "--jobs wants 1 to 256");
	if (options.in_place && options.to)
		return error_set(
			STATUS_USAGE, "--in-place copies nothing, --to says where to copy: choose one");
	if (options.list && (run || count != 1))
		return error_set(STATUS_USAGE, "--list wants one SOURCE, a directory");
	return STATUS_OK;
}

int main(int argc, char **argv)
{
	bool done = false;
	int count = 0;
	struct text rows = {0};
	signals_block();
	error_program(argv[0]);
	guard_output();
	const char **operands = memory_new((size_t)argc, sizeof *operands);
	int status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done) {
		bool run = count == 1 && is_run(operands[0]);
		options.jobs = (int)jobs;
		status = check_usage(count, run);
		if (!status)
			status = signals_install();
		if (!status)
			status = run ? stage_of_run(operands[0], &rows)
				     : stage_sources(operands, count, &rows);
		/* Sources that were whole before another one failed are told, too. */
		if (rows.length)
			fwrite(rows.data, 1, rows.length, stdout);
	}
	text_release(&rows);
	free(operands);
	return close_stdout(status ? error_print(status) : STATUS_OK);
}
