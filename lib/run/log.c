/* The logs of a run: tables, train.log and the event file of this shift. */
#include "run/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/tfevents.h"

enum { TABLES = LOG_TIME + 1, PENDING_LIMIT = 1 << 20 };

static const struct table_kind {
	const char *name, *header;
	bool exact;
} kinds[TABLES] = {
	[LOG_STEP] = {"log/step.tsv", "#step\tepoch\tsamples\tloss\tgrad_norm\tlr", true},
	[LOG_EPOCH] = {"log/epoch.tsv", "#epoch\tstep\tsamples\tloss\tlr", true},
	[LOG_VAL] = {"log/val.tsv", "#step\tdataset\tmetric\tvalue\tn\tn_nan", true},
	[LOG_TIME] = {"log/time.tsv",
		"#step\tshift\twall_s\tstep_s\tdata_s\tsamples_s\trss_bytes"
		"\texchange_s\tearly",
		false},
};
static const char event_prefix[] = "events.out.tfevents.";

struct table {
	int descriptor;
	struct text pending; /* rows not yet written */
	uint64_t bytes;      /* written by us and before us */
};
struct logs {
	const struct shift *shift;
	const struct run *run;
	struct table table[TABLES];
	int text;
	struct tfevents *events;
	struct log_lengths former; /* event files of earlier shifts */
	bool failed; /* a write failed: what is in the files is not known, nothing more is written */
};

/* ---- lengths ---- */

void log_lengths_release(struct log_lengths *lengths)
{
	free(lengths->item);
	*lengths = (struct log_lengths){0};
}

int log_lengths_add(struct log_lengths *lengths, const char *name, uint64_t bytes)
{
	size_t capacity = lengths->count;
	if (strlen(name) >= sizeof lengths->item->name)
		return error_set(STATUS_FAILURE, "%s: the name of a log is too long", name);
	if (memory_grow(&lengths->item, &capacity, lengths->count + 1, sizeof *lengths->item))
		return error_status();
	struct log_length *item = &lengths->item[lengths->count++];
	snprintf(item->name, sizeof item->name, "%s", name);
	item->bytes = bytes;
	return STATUS_OK;
}

static bool is_event_name(const char *name)
{
	return text_starts(name, event_prefix) && !strchr(name, '/');
}

static bool is_exact_name(const char *name)
{
	for (int i = 0; i < TABLES; i++)
		if (kinds[i].exact && !strcmp(kinds[i].name, name))
			return true;
	return is_event_name(name);
}

static bool is_named(const struct log_lengths *lengths, const char *name)
{
	for (size_t i = 0; lengths && i < lengths->count; i++)
		if (!strcmp(lengths->item[i].name, name))
			return true;
	return false;
}

static int check_length(const struct run *run, const struct log_length *item)
{
	uint64_t bytes;
	if (!is_exact_name(item->name))
		return error_set(STATUS_DATA, "%.100s: is not the name of a log", item->name);
	char *path = run_path(run, "%s", item->name);
	int status = path ? file_size(path, &bytes) : error_status();
	if (status ==
		STATUS_NO_INPUT) /* somebody removed it: to refuse the checkpoint would bring no row back */
		status = STATUS_OK;
	else if (!status && bytes < item->bytes)
		status = error_set(STATUS_DATA, "%s: has %llu bytes where %llu were recorded", path,
			(unsigned long long)bytes, (unsigned long long)item->bytes);
	free(path);
	return status;
}

static bool is_missing(const struct run *run, const char *name)
{
	char *path = run_path(run, "%s", name);
	bool missing = path && !file_exists(path);
	free(path);
	return missing;
}

/* Where an event file is missing while another stands that is not named, it was no user who removed it: the shift that wrote this
 * had been replaced, and its successor, whose file stands, has removed it. */
static int check_successor(const struct run *run, const struct log_lengths *lengths)
{
	struct names names = {0};
	const char *missing = NULL;
	for (size_t i = 0; i < lengths->count && !missing; i++)
		if (is_event_name(lengths->item[i].name) && is_missing(run, lengths->item[i].name))
			missing = lengths->item[i].name;
	int status = missing ? file_list(run->path, &names) : STATUS_OK;
	for (size_t i = 0; i < names.count && !status; i++)
		if (is_event_name(names.name[i]) && !is_named(lengths, names.name[i]))
			status = error_set(STATUS_DATA, "%s/%s: is missing, a later shift's %s stands",
				run->path, missing, names.name[i]);
	names_release(&names);
	return status;
}

int logs_check(const struct run *run, const struct log_lengths *lengths)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < lengths->count && !status; i++)
		status = check_length(run, &lengths->item[i]);
	return status ? status : check_successor(run, lengths);
}

/* ---- cutting ---- */

static int remove_log(const struct run *run, const char *name)
{
	char *path = run_path(run, "%s", name);
	int status = path ? file_remove(path) : error_status();
	free(path);
	return status;
}

static int remove_unnamed(const struct run *run, const struct log_lengths *lengths)
{
	struct names names = {0};
	int status = file_list(run->path, &names);
	for (size_t i = 0; i < names.count && !status; i++)
		if (is_event_name(names.name[i]) && !is_named(lengths, names.name[i]))
			status = remove_log(run, names.name[i]);
	for (int i = 0; i < TABLES && !status; i++)
		if (kinds[i].exact && !is_named(lengths, kinds[i].name))
			status = remove_log(run, kinds[i].name);
	names_release(&names);
	return status;
}

static int cut(const struct run *run, const struct log_lengths *lengths)
{
	int status = lengths ? logs_check(run, lengths) : STATUS_OK;
	if (!status)
		status = remove_unnamed(run, lengths);
	for (size_t i = 0; lengths && i < lengths->count && !status; i++) {
		const char *name = lengths->item[i].name;
		char *path = run_path(run, "%s", name);
		if (is_missing(run, name))
			warn("%s: is missing; the run goes on without what was in it", path);
		else
			status = path ? file_cut(path, lengths->item[i].bytes) : error_status();
		free(path);
	}
	return status;
}

/* ---- opening ---- */

/* True when the file ends inside a line, which the next one must not continue. */
static bool ends_torn(int descriptor, uint64_t bytes)
{
	char last = '\n';
	return bytes && pread(descriptor, &last, 1, (off_t)bytes - 1) == 1 && last != '\n';
}

static int open_append(const struct run *run, const char *name, int *descriptor, uint64_t *bytes, bool *torn)
{
	struct stat information;
	char *path = run_path(run, "%s", name);
	int status = path ? STATUS_OK : error_status();
	if (!status) {
		*descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
		if (*descriptor < 0 || fstat(*descriptor, &information))
			status = error_errno(0, "%s", path);
	}
	if (!status) {
		*bytes = (uint64_t)information.st_size;
		*torn = ends_torn(*descriptor, *bytes);
	}
	free(path);
	return status;
}

static void add_header(struct text *text, int table, const char *columns)
{
	bool more = columns[0] && (table == LOG_STEP || table == LOG_EPOCH);
	text_format(text, "%s%s%s\n", kinds[table].header, more ? "\t" : "", more ? columns : "");
}

static int open_tables(struct logs *logs, const char *columns)
{
	uint64_t bytes;
	bool torn;
	int status = STATUS_OK;
	for (int i = 0; i < TABLES && !status; i++) {
		struct table *table = &logs->table[i];
		status = open_append(logs->run, kinds[i].name, &table->descriptor, &table->bytes, &torn);
		if (!status && !table->bytes)
			add_header(&table->pending, i, columns);
		else if (!status && torn)
			text_add(&table->pending, "\n");
	}
	if (!status)
		status = open_append(logs->run, "log/train.log", &logs->text, &bytes, &torn);
	if (!status && torn)
		status = file_write_all(logs->text, "\n", 1, "log/train.log");
	return status;
}

/* The lengths of the event files that stay as they are. */
static int remember_former(struct logs *logs, const struct log_lengths *lengths)
{
	int status = STATUS_OK;
	for (size_t i = 0; lengths && i < lengths->count && !status; i++) {
		const struct log_length *item = &lengths->item[i];
		if (is_event_name(item->name) && !is_missing(logs->run, item->name))
			status = log_lengths_add(&logs->former, item->name, item->bytes);
	}
	return status;
}

static void release(struct logs *logs)
{
	for (int i = 0; i < TABLES; i++) {
		text_release(&logs->table[i].pending);
		if (logs->table[i].descriptor >= 0)
			close(logs->table[i].descriptor);
	}
	if (logs->text >= 0)
		close(logs->text);
	log_lengths_release(&logs->former);
	free(logs);
}

static int fill(struct logs *logs, const struct log_lengths *lengths, int64_t first_step, const char *columns)
{
	char *directory = run_path(logs->run, "log");
	int status = directory ? file_make_directory(directory) : error_status();
	if (!status)
		status = shift_fence(logs->shift);
	if (!status)
		status = cut(logs->run, lengths);
	if (!status)
		status = open_tables(logs, columns);
	if (!status)
		status = remember_former(logs, lengths);
	if (!status)
		status = tfevents_open(logs->run->path, first_step, &logs->events);
	if (!status)
		status = file_sync_directory(directory);
	if (!status)
		status = file_sync_directory(logs->run->path);
	free(directory);
	return status;
}

int logs_open(const struct shift *shift, const struct log_lengths *lengths, int64_t first_step,
	const char *columns, struct logs **result)
{
	struct logs *logs = memory_new(1, sizeof *logs);
	*result = NULL;
	if (!logs)
		return error_status();
	logs->shift = shift;
	logs->run = shift->run;
	logs->text = -1;
	for (int i = 0; i < TABLES; i++)
		logs->table[i].descriptor = -1;
	int status = fill(logs, lengths, first_step, columns);
	if (status)
		logs_discard(logs);
	else
		*result = logs;
	return status;
}

/* ---- writing ---- */

static int fail(struct logs *logs, int status)
{
	logs->failed = logs->failed || status;
	return shift_failed(logs->shift, status);
}

static int write_pending(struct logs *logs)
{
	int status = STATUS_OK;
	for (int i = 0; i < TABLES && !status; i++) {
		struct table *table = &logs->table[i];
		status = text_check(&table->pending);
		if (!status)
			status = file_write_all(
				table->descriptor, table->pending.data, table->pending.length, kinds[i].name);
		if (status)
			return fail(logs, error_prefix("%s", logs->run->path));
		table->bytes += table->pending.length;
		text_clear(&table->pending);
	}
	return status;
}

int logs_flush(struct logs *logs)
{
	int status = shift_fence(logs->shift);
	if (!status)
		status = write_pending(logs);
	if (!status)
		status = tfevents_flush(logs->events);
	return fail(logs, status);
}

int logs_row(struct logs *logs, enum log_table table, const char *line)
{
	struct text *pending = &logs->table[table].pending;
	text_add(pending, line);
	text_add(pending, "\n");
	if (pending->length > PENDING_LIMIT)
		return logs_flush(logs);
	return text_check(pending);
}

int logs_scalar(struct logs *logs, int64_t step, const char *tag, double value)
{
	return fail(logs, tfevents_scalar(logs->events, step, tag, value));
}

int logs_image(struct logs *logs, int64_t step, const char *tag, int width, int height, const void *png,
	size_t bytes)
{
	return fail(logs, tfevents_image(logs->events, step, tag, width, height, png, bytes));
}

int logs_text(struct logs *logs, const char *text)
{
	struct text line = {0};
	char time[32];
	text_format(
		&line, "%s\tshift %lld\t", clock_text(clock_wall(), time), (long long)logs->shift->number);
	text_field(&line, text);
	text_add(&line, "\n");
	int status = text_check(&line);
	if (!status)
		status = file_write_all(logs->text, line.data, line.length, "log/train.log");
	text_release(&line);
	return status;
}

/* Nobody else may have written to the table, and its name must still mean this file. */
static int check_table(struct logs *logs, int i)
{
	struct stat ours, named;
	char *path = run_path(logs->run, "%s", kinds[i].name);
	int status = path ? STATUS_OK : error_status();
	if (!status && (fstat(logs->table[i].descriptor, &ours) || stat(path, &named)))
		status = error_errno(STATUS_IO, "%s: was removed while the run wrote to it", path);
	if (!status && (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev))
		status = error_set(
			STATUS_IO, "%s: was replaced while the run wrote to it; start the run again", path);
	if (!status && (uint64_t)ours.st_size != logs->table[i].bytes)
		status = error_set(STATUS_IO,
			"%s: has %llu bytes where %llu were written; somebody else wrote to it", path,
			(unsigned long long)ours.st_size, (unsigned long long)logs->table[i].bytes);
	free(path);
	return status;
}

static int sync_tables(struct logs *logs, struct log_lengths *lengths)
{
	int status = STATUS_OK;
	for (int i = 0; i < TABLES && !status; i++) {
		if (fsync(logs->table[i].descriptor))
			status = error_errno(0, "%s/%s", logs->run->path, kinds[i].name);
		if (status || !kinds[i].exact)
			continue;
		status = check_table(logs, i);
		if (!status)
			status = log_lengths_add(lengths, kinds[i].name, logs->table[i].bytes);
	}
	return status;
}

static int sync_events(struct logs *logs, struct log_lengths *lengths)
{
	uint64_t bytes;
	int status = tfevents_sync(logs->events, &bytes);
	for (size_t i = 0; i < logs->former.count && !status; i++)
		status = log_lengths_add(lengths, logs->former.item[i].name, logs->former.item[i].bytes);
	if (!status)
		status = log_lengths_add(lengths, tfevents_name(logs->events), bytes);
	return status;
}

int logs_sync(struct logs *logs, struct log_lengths *lengths)
{
	log_lengths_release(lengths);
	int status = logs_flush(logs);
	if (!status)
		status = sync_tables(logs, lengths);
	if (!status)
		status = sync_events(logs, lengths);
	return fail(logs, status);
}

/* ---- the end ---- */

void logs_discard(struct logs *logs)
{
	if (!logs)
		return;
	/* What ends the shift is what the user must read, not a later failure to close a file. */
	int status = error_status();
	char *message = status ? memory_text(error_message()) : NULL;
	tfevents_close(logs->events);
	release(logs);
	if (message)
		error_set(status, "%s", message);
	free(message);
}

int logs_close(struct logs *logs)
{
	struct log_lengths lengths = {0};
	if (!logs)
		return STATUS_OK;
	int status = logs->failed ? STATUS_OK : logs_sync(logs, &lengths);
	log_lengths_release(&lengths);
	logs_discard(logs);
	return status;
}
