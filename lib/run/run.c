/* The run directory: paths, stop, done, platform.cfg, staged copies. */
#include "run/run.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/fields.h"

enum { SMALL_LIMIT = 1 << 20 };

/* `given`: as the user wrote it. */
static int check_directory(const char *path, const char *given)
{
	uint64_t bytes;
	if (file_is_directory(path))
		return STATUS_OK;
	int status = file_size(path, &bytes);
	if (status && status != STATUS_NO_INPUT)
		return status;
	return error_set(
		STATUS_NO_INPUT, "%s: no such run directory; make one with: mkconfig %s PRESET", path, given);
}

int run_open(const char *path, struct run *run)
{
	*run = (struct run){0};
	char *file = NULL;
	run->path = path_absolute(path);
	if (!run->path)
		return error_status();
	int status = check_directory(run->path, path);
	if (!status && !(file = run_path(run, "config.cfg")))
		status = error_status();
	if (!status && !file_exists(file))
		status = error_set(
			STATUS_NO_INPUT, "%s: is missing; make it with: mkconfig %s PRESET", file, path);
	if (!status)
		status = config_load(file, &run->config);
	free(file);
	if (status)
		run_close(run);
	return status;
}

void run_close(struct run *run)
{
	free(run->path);
	config_free(run->config);
	*run = (struct run){0};
}

char *run_path(const struct run *run, const char *format, ...)
{
	char name[PATH_MAX];
	va_list list;
	va_start(list, format);
	int length = vsnprintf(name, sizeof name, format, list);
	va_end(list);
	if (length < 0 || (size_t)length >= sizeof name) {
		error_set(STATUS_FAILURE, "%s: a name in it is too long", run->path);
		return NULL;
	}
	return path_join(run->path, name);
}

bool run_stop_asked(const struct run *run)
{
	char *path = run_path(run, "stop");
	bool asked = path && file_exists(path);
	free(path);
	return asked;
}

static int remove_file(const struct run *run, const char *name)
{
	char *path = run_path(run, "%s", name);
	int status = path ? file_remove(path) : error_status();
	free(path);
	return status;
}

int run_stop_remove(const struct run *run)
{
	return remove_file(run, "stop");
}

/* Says what to do about a file that is not what was written. */
static int refuse_damaged(int status, const char *advice)
{
	return status == STATUS_DATA ? error_set(status, "%s; %s", error_message(), advice) : status;
}

static int parse_done(const struct fields *fields, struct run_done *done)
{
	int status = fields_integer(fields, "step", 0, INT64_MAX, &done->step);
	if (!status)
		status = fields_text(fields, "digest", done->digest, sizeof done->digest);
	if (!status)
		status = fields_text(fields, "job", done->job, sizeof done->job);
	if (!status)
		status = fields_integer(fields, "restart", 0, INT64_MAX, &done->restart);
	if (!status && fields_has(fields, "epoch"))
		status = fields_integer(fields, "epoch", 0, INT64_MAX, &done->epoch);
	return status;
}

int run_done_read(const struct run *run, bool *found, struct run_done *done)
{
	struct fields fields = {0};
	char *path = run_path(run, "done");
	*found = false;
	*done = (struct run_done){0};
	if (!path)
		return error_status();
	int status = STATUS_OK;
	if (file_exists(path)) {
		status = fields_read(path, SMALL_LIMIT, FIELDS_WORDS, &fields);
		if (!status)
			status = parse_done(&fields, done);
		status = refuse_damaged(status, "remove it: the run goes on from its newest checkpoint");
		*found = !status;
		fields_release(&fields);
	}
	free(path);
	return status;
}

int run_done_write(const struct run *run, const struct run_done *done)
{
	struct text text = {0};
	char *path = run_path(run, "done");
	text_format(&text, "step %lld\ndigest %s\njob %s\nrestart %lld\nepoch %lld\n", (long long)done->step,
		done->digest, done->job, (long long)done->restart, (long long)done->epoch);
	int status = path ? text_check(&text) : error_status();
	if (!status)
		status = file_publish(path, text.data, text.length);
	text_release(&text);
	free(path);
	return status;
}

int run_done_remove(const struct run *run)
{
	return remove_file(run, "done");
}

static int parse_platform(const struct fields *fields, struct run_platform *platform)
{
	const struct {
		const char *key;
		char *buffer;
		size_t size;
	} texts[] = {
		{"isa", platform->isa, sizeof platform->isa},
		{"precision", platform->precision, sizeof platform->precision},
		{"device", platform->device, sizeof platform->device},
		{"model", platform->model, sizeof platform->model},
		{"libraries", platform->libraries, sizeof platform->libraries},
		{"program", platform->program, sizeof platform->program},
	};
	int64_t format, threads;
	int status = fields_integer(fields, "format", 1, INT64_MAX, &format);
	if (!status && format > 1)
		status = error_set(STATUS_CONFIG, "%s: format %lld was made by a newer version; use that one",
			fields->path, (long long)format);
	if (!status)
		status = fields_integer(fields, "threads", 1, 1 << 20, &threads);
	if (!status)
		platform->threads = (int)threads;
	for (size_t i = 0; i < sizeof texts / sizeof *texts && !status; i++)
		status = fields_text(fields, texts[i].key, texts[i].buffer, texts[i].size);
	return status;
}

int run_platform_read(const struct run *run, bool *found, struct run_platform *platform)
{
	struct fields fields = {0};
	char *path = run_path(run, "platform.cfg");
	*found = false;
	*platform = (struct run_platform){0};
	if (!path)
		return error_status();
	int status = STATUS_OK;
	if (file_exists(path)) {
		status = fields_read(path, SMALL_LIMIT, FIELDS_CFG, &fields);
		if (!status)
			status = parse_platform(&fields, platform);
		status = refuse_damaged(status,
			"restore it, or remove it: the next shift writes its own, and the "
			"numbers may differ in the last bits");
		*found = !status;
		fields_release(&fields);
	}
	free(path);
	return status;
}

int run_platform_write(const struct run *run, const struct run_platform *platform)
{
	struct text text = {0};
	char *path = run_path(run, "platform.cfg");
	fields_put_integer(&text, "format", 1);
	fields_put_integer(&text, "threads", platform->threads);
	fields_put_text(&text, "isa", platform->isa);
	fields_put_text(&text, "precision", platform->precision);
	fields_put_text(&text, "device", platform->device);
	fields_put_text(&text, "model", platform->model);
	fields_put_text(&text, "libraries", platform->libraries);
	fields_put_text(&text, "program", platform->program);
	int status = path ? text_check(&text) : error_status();
	if (!status)
		status = file_publish(path, text.data, text.length);
	text_release(&text);
	free(path);
	return status;
}

/* The path in the last row of `name` and `source` in a staged table (taken apart in place); NULL when there is none. */
static char *find_staged(char *table, const char *name, const char *source)
{
	enum { NAME, PATH, KEY, SOURCE, COLUMNS };
	char *found = NULL, *next;
	for (char *line = table; line && *line; line = next) {
		char *field[COLUMNS + 1];
		next = strchr(line, '\n');
		if (!next) /* torn */
			break;
		*next++ = 0;
		if (*line == '#' || text_split(line, '\t', field, COLUMNS + 1) < COLUMNS)
			continue;
		text_unescape(field[NAME]);
		text_unescape(field[SOURCE]);
		if (!strcmp(field[NAME], name) && !strcmp(field[SOURCE], source))
			found = field[PATH];
	}
	if (found)
		text_unescape(found);
	return found;
}

int run_staged(const struct run *run, const char *name, const char *source, char **path)
{
	char host[HOST_NAME_MAX + 1] = "";
	char *data = NULL;
	size_t bytes;
	*path = NULL;
	gethostname(host, sizeof host);
	host[HOST_NAME_MAX] = 0;
	char *table = run_path(run, "staged/%s.tsv", host);
	if (!table)
		return error_status();
	int status = STATUS_OK;
	if (file_exists(table))
		status = file_read(table, SMALL_LIMIT * 16, &data, &bytes);
	if (!status && data) {
		const char *found = find_staged(data, name, source);
		if (found && file_exists(found)) {
			*path = memory_text(found);
			status = *path ? STATUS_OK : error_status();
		}
	}
	free(data);
	free(table);
	return status;
}
