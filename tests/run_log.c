/* Logs: headers, lengths, cutting, torn ends, other writers, event files over several shifts. */
#include "file/tfevents.h"
#include "run_fixture.h"

static struct text read_log(const struct run *run, const char *name)
{
	struct text text = {0};
	char *path = run_path(run, "%s", name), *data;
	size_t bytes;
	if (!file_read(path, 1 << 20, &data, &bytes)) {
		text_append(&text, data, bytes);
		free(data);
	} else {
		text_add(&text, "(missing)");
	}
	free(path);
	return text;
}

static bool log_is(const struct run *run, const char *name, const char *expected)
{
	struct text text = read_log(run, name);
	bool equal = !strcmp(text.data ? text.data : "", expected);
	if (!equal)
		printf("# %s: '%s'\n", name, text.data ? text.data : "");
	text_release(&text);
	return equal;
}

static uint64_t length_of(const struct log_lengths *lengths, const char *name)
{
	for (size_t i = 0; i < lengths->count; i++)
		if (!strcmp(lengths->item[i].name, name))
			return lengths->item[i].bytes;
	return UINT64_MAX;
}

/* The one event file among the lengths that is not in `known`. */
static const char *new_events(const struct log_lengths *lengths, const struct log_lengths *known)
{
	const char *found = NULL;
	for (size_t i = 0; i < lengths->count; i++)
		if (text_starts(lengths->item[i].name, "events.") &&
			length_of(known, lengths->item[i].name) == UINT64_MAX)
			found = lengths->item[i].name;
	return found;
}

static void append(const struct run *run, const char *name, const char *text)
{
	char *path = run_path(run, "%s", name);
	int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
	if (descriptor < 0 || write(descriptor, text, strlen(text)) != (ssize_t)strlen(text))
		exit(1);
	close(descriptor);
	free(path);
}

/* ---- one shift ---- */

static void test_tables(void)
{
	char *path = fixture_make("tables", NULL);
	struct run run;
	struct shift shift;
	struct logs *logs;
	struct log_lengths lengths = {0}, none = {0};
	static const char step_tsv[] = "#step\tepoch\tsamples\tloss\tgrad_norm\tlr\n1\t0\t4\t0.5\t1\t0.1\n";
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	check_status(logs_open(&shift, NULL, 1, "", &logs), 0, "logs of a new run");
	logs_row(logs, LOG_STEP, "1\t0\t4\t0.5\t1\t0.1");
	check(log_is(&run, "log/step.tsv", ""), "a row is buffered");
	check_status(logs_flush(logs), 0, "until it is flushed");
	check(log_is(&run, "log/step.tsv", step_tsv) &&
			log_is(&run, "log/epoch.tsv", "#epoch\tstep\tsamples\tloss\tlr\n") &&
			log_is(&run, "log/val.tsv", "#step\tdataset\tmetric\tvalue\tn\tn_nan\n") &&
			log_is(&run, "log/time.tsv",
				"#step\tshift\twall_s\tstep_s\tdata_s\tsamples_s\trss_bytes\texchange_"
				"s\tearly\n"),
		"each table has its header");
	logs_scalar(logs, 1, "train/loss", 0.5);
	check_status(logs_sync(logs, &lengths), 0, "everything is synced");
	uint64_t size = 0;
	const char *events = new_events(&lengths, &none);
	char *file = run_path(&run, "%s", events ? events : "none");
	check(lengths.count == 4 && length_of(&lengths, "log/step.tsv") == sizeof step_tsv - 1 &&
			!file_size(file, &size) && length_of(&lengths, events) == size,
		"the lengths are those of the exact logs");
	check_status(logs_check(&run, &lengths), 0, "they hold");
	check_status(logs_text(logs, "a\tline\nof text"), 0, "a line of text");
	struct text text = read_log(&run, "log/train.log");
	check(text.data && text_ends(text.data, "Z\tshift 1\ta\\tline\\nof text\n"),
		"has time and shift, and stays one line");
	text_release(&text);
	logs_row(logs, LOG_TIME, "1\t1\t0\t0\t0\t0\t0");
	check_status(logs_close(logs), 0, "logs are closed");
	check(log_is(&run, "log/time.tsv",
		      "#step\tshift\twall_s\tstep_s\tdata_s\tsamples_s\trss_bytes\texchange_"
		      "s\tearly\n1\t1\t0\t0\t0\t0\t0\n"),
		"what was buffered is written then");
	free(file);
	log_lengths_release(&lengths);
	run_close(&run);
	free(path);
}

static void test_others(void)
{
	char *path = fixture_make("others", NULL);
	struct run run;
	struct shift shift;
	struct logs *logs;
	struct log_lengths lengths = {0};
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	logs_open(&shift, NULL, 1, "", &logs);
	append(&run, "log/step.tsv", "a line of somebody else\n");
	check_status(logs_sync(logs, &lengths), STATUS_IO, "a log that somebody else wrote to is noticed");
	logs_discard(logs);
	logs_open(&shift, NULL, 1, "", &logs);
	check_status(logs_sync(logs, &lengths), 0, "the next shift starts clean");
	char *step = run_path(&run, "log/step.tsv");
	file_cut(step, 3);
	check_status(logs_sync(logs, &lengths), STATUS_IO, "a log that was replaced is noticed");
	logs_discard(logs);
	logs_open(&shift, NULL, 1, "", &logs);
	file_remove(step);
	check_status(logs_sync(logs, &lengths), STATUS_IO, "a log that was removed is noticed");
	logs_discard(logs);
	free(step);
	log_lengths_release(&lengths);
	run_close(&run);
	free(path);
}

/* ---- resuming ---- */

static void test_cut(void)
{
	char *path = fixture_make("cut", NULL), *events = NULL;
	struct run run;
	struct shift shift;
	struct logs *logs;
	struct log_lengths lengths = {0}, none = {0};
	struct stat before, after;
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	logs_open(&shift, NULL, 1, "", &logs);
	logs_row(logs, LOG_STEP, "1\t0\t4\t0.5\t1\t0.1");
	logs_sync(logs, &lengths);
	logs_row(logs, LOG_STEP, "2\t0\t8\t0.5\t1\t0.1");
	logs_scalar(logs, 2, "train/loss", 0.5);
	logs_row(logs, LOG_VAL, "2\tset\trmse\t1\t1\t0");
	logs_close(logs);
	append(&run, "log/step.tsv", "3\t0\t12");
	append(&run, "log/time.tsv", "3\t1\t0.2");
	append(&run, "log/train.log", "2026-01-01T0");
	append(&run, "events.out.tfevents.9999999999.host.1.0", "of a dead shift");
	events = memory_text(new_events(&lengths, &none));
	char *val = run_path(&run, "log/val.tsv");
	stat(val, &before);
	check_status(logs_open(&shift, &lengths, 2, "", &logs), 0, "a resume");
	stat(val, &after);
	check(log_is(&run, "log/step.tsv",
		      "#step\tepoch\tsamples\tloss\tgrad_norm\tlr\n1\t0\t4\t0.5\t1\t0.1\n") &&
			log_is(&run, "log/val.tsv", "#step\tdataset\tmetric\tvalue\tn\tn_nan\n"),
		"cuts the tables to what was recorded");
	check(before.st_ino != after.st_ino, "into new files");
	uint64_t size = 0;
	char *file = run_path(&run, "%s", events);
	check(!file_size(file, &size) && size == length_of(&lengths, events), "the event file as well");
	free(file);
	file = run_path(&run, "events.out.tfevents.9999999999.host.1.0");
	check(!file_exists(file), "an event file that was not recorded is gone");
	logs_row(logs, LOG_TIME, "2\t2\t0");
	logs_text(logs, "here again");
	logs_flush(logs);
	struct text text = read_log(&run, "log/time.tsv");
	check(text.data && text_ends(text.data, "\n3\t1\t0.2\n2\t2\t0\n"),
		"a torn line of time.tsv stays a line of its own");
	text_release(&text);
	text = read_log(&run, "log/train.log");
	check(text.data && text_starts(text.data, "2026-01-01T0\n2"), "and so does one of train.log");
	text_release(&text);
	logs_close(logs);
	log_lengths_release(&lengths);
	check_status(logs_open(&shift, NULL, 1, "", &logs), 0, "a fresh start");
	check(log_is(&run, "log/step.tsv", ""), "takes the exact logs away");
	text = read_log(&run, "log/time.tsv");
	check(text.length > 60, "and leaves the others");
	text_release(&text);
	logs_discard(logs);
	free(file);
	free(val);
	free(events);
	run_close(&run);
	free(path);
}

static void test_bad_lengths(void)
{
	static const char *const names[] = {"config.cfg", "log/train.log", "../log/step.tsv", "/etc/passwd",
		"", "events.out.tfevents.1/../config.cfg", "log/../log/step.tsv"};
	char *path = fixture_make("bad", NULL);
	struct run run;
	struct shift shift;
	struct logs *logs = NULL;
	struct log_lengths lengths = {0};
	bool good = true;
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	logs_open(&shift, NULL, 1, "", &logs);
	logs_sync(logs, &lengths);
	logs_close(logs);
	log_lengths_release(&lengths);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		log_lengths_add(&lengths, names[i], 0);
		good = good && logs_check(&run, &lengths) == STATUS_DATA &&
		       logs_open(&shift, &lengths, 1, "", &logs) == STATUS_DATA;
		log_lengths_release(&lengths);
	}
	check(good, "names that are no logs are refused");
	log_lengths_add(&lengths, "log/step.tsv", 1000000);
	check(logs_open(&shift, &lengths, 1, "", &logs) == STATUS_DATA && !logs,
		"so is a length that the log does not have");
	struct text text = read_log(&run, "log/step.tsv");
	check(text.length > 0 && text.data[0] == '#', "and the log is left as it is");
	text_release(&text);
	log_lengths_release(&lengths);
	run_close(&run);
	free(path);
}

/* ---- event files ---- */

enum { SEEN = 64 };
struct seen {
	int count[SEEN]; /* by step */
	int values;
};

static int count_event(void *context, int64_t step, const char *tag, double value)
{
	struct seen *seen = context;
	(void)value;
	if (strcmp(tag, "train/loss") || step < 0 || step >= SEEN)
		return STATUS_DATA;
	seen->count[step]++;
	seen->values++;
	return STATUS_OK;
}

/* Four shifts; the second and third are cut off behind their last checkpoint, with and without a flush. */
static void test_events(void)
{
	char *path = fixture_make("events", NULL);
	struct run run;
	struct log_lengths lengths = {0};
	int64_t saved = 0;
	static const int last[] = {5, 12, 14, 20}, save_at[] = {5, 8, 13, 20};
	run_open(path, &run);
	for (int life = 0; life < 4; life++) {
		struct shift shift;
		struct logs *logs;
		if (shift_claim(&shift, &run, true, saved, NULL) ||
			logs_open(&shift, life ? &lengths : NULL, saved + 1, "", &logs))
			exit(1);
		for (int64_t step = saved + 1; step <= last[life]; step++) {
			logs_scalar(logs, step, "train/loss", 1.0);
			if (step == save_at[life]) {
				check_status(logs_sync(logs, &lengths), 0, "sync of a life");
				saved = step;
			}
			if (life == 1)
				logs_flush(logs);
		}
		if (life == 3)
			logs_close(logs);
		else
			logs_discard(logs);
	}
	struct names names;
	struct seen seen = {0};
	int files = 0, torn = 0, twice = 0, missing = 0;
	file_list(run.path, &names);
	for (size_t i = 0; i < names.count; i++) {
		if (!text_starts(names.name[i], "events."))
			continue;
		char *file = run_path(&run, "%s", names.name[i]);
		files++;
		check_status(tfevents_scan(file, count_event, &seen, &torn), 0, "an event file scans");
		free(file);
	}
	for (int step = 1; step <= 20; step++) {
		twice += seen.count[step] > 1;
		missing += seen.count[step] == 0;
	}
	check_report(files == 4 && !twice && !missing && !torn && seen.values == 20,
		"in all event files together each step stands once",
		"%d files, %d twice, %d missing, %d torn", files, twice, missing, torn);
	names_release(&names);
	log_lengths_release(&lengths);
	run_close(&run);
	free(path);
}

int main(int argc, char **argv)
{
	(void)argc;
	error_program(argv[0]);
	fixture_quiet();
	fixture_fast();
	test_tables();
	test_others();
	test_cut();
	test_bad_lengths();
	test_events();
	return check_summary();
}
