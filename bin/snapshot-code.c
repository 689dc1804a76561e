/* snapshot-code: writes the exact source state of a run. See snapshot-code(1). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "run/run.h"
#include "run/shift.h"
#include "run/snapshot.h"

static bool verify, force, take_over;
static const struct option_row option_rows[] = {
	{"verify", 0, NULL, "compare the code with the run's snapshot; status 1 when it differs", &verify,
		OPTION_FLAG},
	{"force", 'f', NULL, "large files too, and any number of bytes", &force, OPTION_FLAG},
	{"take-over", 0, NULL, "write to a run that another job seems to own", &take_over, OPTION_FLAG},
	{0},
};
static const struct program program = {
	.name = "snapshot-code",
	.synopsis = "[--verify] [--force] [--take-over] RUN [DIR]",
	.purpose = "Write the source state of a run as RUN/code.tar.gz and RUN/code.manifest.",
	.rows = option_rows,
};

static int take(const struct run *run, const char *directory)
{
	struct shift_identity identity;
	shift_identity(&identity);
	int status = shift_check(run, &identity, take_over);
	return status ? status : snapshot_take(run, directory, force);
}

static int compare(const struct run *run, const char *directory)
{
	struct text rows = {0};
	size_t count = 0;
	int status = snapshot_verify(run, directory, force, &rows, &count);
	if (!status)
		fwrite(rows.data, 1, rows.length, stdout);
	text_release(&rows);
	if (!status && count)
		status = error_set(
			STATUS_FAILURE, "%s/code.manifest: %zu differences, listed above", run->path, count);
	return status;
}

int main(int argc, char **argv)
{
	bool done = false;
	int count = 0;
	struct run run = {0};
	error_program(argv[0]);
	guard_output();
	umask(077); /* code can be confidential */
	const char **operands = memory_new((size_t)argc, sizeof *operands);
	int status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done && (count < 1 || count > 2))
		status = error_set(STATUS_USAGE,
			"one RUN and at most one DIR are wanted; --help shows how it is called");
	if (!status && !done)
		status = run_open(operands[0], &run);
	if (!status && !done) {
		const char *submitted = getenv("SLURM_SUBMIT_DIR");
		const char *directory = count > 1 ? operands[1] : submitted && *submitted ? submitted : ".";
		status = verify ? compare(&run, count > 1 ? operands[1] : NULL) : take(&run, directory);
	}
	run_close(&run);
	free(operands);
	return close_stdout(status ? error_print(status) : STATUS_OK);
}
