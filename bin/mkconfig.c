/* mkconfig: composes presets, files and key=value words into RUN/config.cfg. See mkconfig(1). */
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
#include "base/options.h"
#include "base/text.h"
#include "config/check.h"
#include "config/compose.h"
#include "config/config.h"
#include "config/explain.h"
#include "config/preset.h"
#include "config/syntax.h"
#include "run/run.h"
#include "run/shift.h"

#define LOCK_SECONDS 20.0

static bool explain, list_keys, take_over;
static const struct option_row rows[] = {
	{"explain", 0, NULL, "print each key's value and where it came from; write nothing", &explain,
		OPTION_FLAG},
	{"keys", 0, NULL, "print the table of keys", &list_keys, OPTION_FLAG},
	{"take-over", 0, NULL, "change a run that another job seems to own", &take_over, OPTION_FLAG},
	{0},
};
static const struct program program = {
	.name = "mkconfig",
	.synopsis = "[--explain] [--take-over] RUN [PRESET|FILE.cfg ...] [key=value ...]\n--keys",
	.purpose = "Compose presets, files and key=value words into RUN/config.cfg.",
	.rows = rows,
};

/* What is made from the command line. */
struct plan {
	const char *run;
	char *file;                  /* RUN/config.cfg */
	struct config_layer *layers; /* [0] is kept for RUN/config.cfg */
	size_t count;                /* of the layers behind it */
	char **owned;                /* texts of the layers: paths of presets, sources of words */
	size_t owned_count;
};

static void plan_release(struct plan *plan)
{
	for (size_t i = 0; i < plan->owned_count; i++)
		free(plan->owned[i]);
	free(plan->owned);
	free(plan->layers);
	free(plan->file);
}

static bool is_word(const char *operand)
{
	const char *equals = strchr(operand, '='), *slash = strchr(operand, '/');
	return equals && (!slash || equals < slash);
}

static int add_word(struct plan *plan, const char *word, char **argv)
{
	struct text source = {0};
	int place = 1;
	while (argv[place] && argv[place] != word)
		place++;
	text_format(&source, "argv[%d]", place);
	char *owned = text_take(&source);
	if (!owned)
		return error_status();
	plan->owned[plan->owned_count++] = owned;
	plan->layers[++plan->count] =
		(struct config_layer){.text = word, .source = owned, .kind = LAYER_WORD};
	return STATUS_OK;
}

static int add_file(struct plan *plan, const char *operand)
{
	char *path = NULL;
	if (preset_is_name(operand)) {
		int status = preset_find(operand, &path);
		if (status)
			return status;
		plan->owned[plan->owned_count++] = path;
	}
	plan->layers[++plan->count] =
		(struct config_layer){.text = path ? path : operand, .kind = LAYER_FILE};
	return STATUS_OK;
}

static int make_plan(struct plan *plan, const char **operands, int count, char **argv)
{
	if (count < 1)
		return error_set(STATUS_USAGE, "RUN is missing; --help shows how it is called");
	if (is_word(operands[0]))
		return error_set(STATUS_USAGE,
			"the run comes first, '%.200s' sets a key (a directory of that name: ./%.200s)",
			operands[0], operands[0]);
	plan->run = operands[0];
	plan->file = path_join(plan->run, "config.cfg");
	plan->layers = memory_new((size_t)count, sizeof *plan->layers);
	plan->owned = memory_new((size_t)count, sizeof *plan->owned);
	if (!plan->file || !plan->layers || !plan->owned)
		return error_status();
	plan->layers[0] = (struct config_layer){.text = plan->file, .kind = LAYER_RUN};
	int status = STATUS_OK;
	for (int i = 1; i < count && !status; i++)
		status = is_word(operands[i]) ? add_word(plan, operands[i], argv)
					      : add_file(plan, operands[i]);
	return status;
}

static int print_text(struct text *text)
{
	int status = text_check(text);
	if (!status)
		fwrite(text->data, 1, text->length, stdout);
	text_release(text);
	return status;
}

static int print_explanation(const struct config *config)
{
	struct text out = {0};
	config_explain(config, &out);
	return print_text(&out);
}

static int print_keys(void)
{
	struct text out = {0};
	config_key_table(&out);
	return print_text(&out);
}

/* ===== a new run ===== */

static int publish_config(const struct plan *plan, const struct config *config)
{
	char *canonical = config_canonical(config);
	bool made = false;
	int status = canonical ? file_publish_new(plan->file, canonical, strlen(canonical), &made)
			       : error_status();
	if (!status && !made)
		status = error_set(STATUS_UNAVAILABLE,
			"%s: another process has made this run at the same moment; try again", plan->file);
	free(canonical);
	return status;
}

static int make_run(const struct plan *plan)
{
	struct config *config = NULL;
	int status = config_compose(plan->layers + 1, plan->count, &config);
	if (status)
		return status;
	if (explain) {
		status = print_explanation(config);
	} else if (file_exists(plan->run) && !file_is_directory(plan->run)) {
		status = error_set(STATUS_CANNOT_CREATE, "%s: exists and is not a directory", plan->run);
	} else {
		bool there = file_exists(plan->run);
		status = file_make_directories(plan->run);
		if (!status)
			status = publish_config(plan, config);
		if (status && !there)
			rmdir(plan->run);
	}
	if (!status)
		config_warn(config);
	config_free(config);
	return status;
}

/* ===== a run that exists ===== */

static int refuse_identity(const struct plan *plan, const struct config_differences *differences)
{
	struct text list = {0};
	for (size_t i = 0; i < differences->count; i++) {
		const struct config_difference *item = &differences->item[i];
		if (item->identity)
			text_format(&list, "%s%s %s -> %s", list.length > 0 ? ", " : "", item->key,
				item->before[0] ? item->before : "''", item->after[0] ? item->after : "''");
	}
	int status = text_check(&list);
	if (!status)
		status = error_set(STATUS_CONFIG,
			"%s: this run's numbers depend on: %s; make a new run for that", plan->file,
			list.data);
	text_release(&list);
	return status;
}

static void history_rows(const struct config_differences *differences, bool header, struct text *out)
{
	struct shift_identity identity;
	char now[32];
	shift_identity(&identity);
	clock_text(clock_wall(), now);
	if (header)
		text_add(out, "#time\tjob\tkey\told\tnew\n");
	for (size_t i = 0; i < differences->count; i++) {
		text_format(out, "%s\t%s\t%s\t", now, identity.job, differences->item[i].key);
		text_field(out, differences->item[i].before);
		text_add(out, "\t");
		text_field(out, differences->item[i].after);
		text_add(out, "\n");
	}
}

static int append(const char *path, const struct text *text)
{
	int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (descriptor < 0)
		return error_errno(0, "%s", path);
	int status = file_write_all(descriptor, text->data, text->length, path);
	if (!status && fsync(descriptor) != 0)
		status = error_errno(0, "%s", path);
	if (close(descriptor) != 0 && !status)
		status = error_errno(0, "%s", path);
	return status;
}

/* Whether RUN/config.cfg holds the new text already: the rename may have worked and what follows it failed. */
static bool is_replaced(const struct plan *plan, const char *canonical)
{
	char *data = NULL;
	size_t bytes = 0;
	bool same = !file_read(plan->file, SYNTAX_FILE_BYTES, &data, &bytes) && !strcmp(data, canonical);
	free(data);
	return same;
}

/* Takes back what append() wrote, the change not having been made; the message and status of what failed stay. */
static void undo_history(const struct plan *plan, const char *canonical, const char *path, uint64_t size)
{
	char *message = memory_text(error_message());
	int status = error_status();
	if (!is_replaced(plan, canonical) && (size > 0 ? file_cut(path, size) : file_remove(path)))
		warn("%s: holds rows of a change that was not made (%s)", path, error_message());
	error_set(status, "%s", message ? message : "");
	free(message);
}

/* The new text waits complete beside the old one while the change is recorded; then it takes its place. */
static int replace_config(
	const struct plan *plan, const struct config *config, const struct config_differences *differences)
{
	struct publish publish = {0};
	struct text rows_text = {0};
	uint64_t size = 0;
	char *history = path_join(plan->run, "config.history"), *canonical = config_canonical(config);
	int status = history && canonical ? publish_open(&publish, plan->file) : error_status();
	if (!status)
		status = publish_write(&publish, canonical, strlen(canonical));
	if (!status && file_exists(history))
		status = file_size(history, &size);
	if (!status) {
		history_rows(differences, size == 0, &rows_text);
		status = text_check(&rows_text);
	}
	if (!status) {
		status = append(history, &rows_text);
		if (!status)
			status = publish_commit(&publish);
		if (status)
			undo_history(plan, canonical, history, size);
	}
	publish_abandon(&publish);
	text_release(&rows_text);
	free(canonical);
	free(history);
	return status;
}

static int check_owner(const struct plan *plan)
{
	struct run run = {0};
	struct shift_identity identity;
	int status = run_open(plan->run, &run);
	shift_identity(&identity);
	if (!status)
		status = shift_check(&run, &identity, take_over);
	run_close(&run);
	return status;
}

/* Whether a shift has claimed the run: until then it has no numbers, and every key may change. */
static int has_begun(const struct plan *plan, bool *begun)
{
	char *path = path_join(plan->run, "shifts/1");
	*begun = path && file_exists(path);
	free(path);
	return path ? STATUS_OK : error_status();
}

/* A preset that is named again also takes back what was changed since; nobody asked for that by name. */
static void tell_changes(const struct config *config, const struct config_differences *differences)
{
	for (size_t i = 0; i < differences->count; i++) {
		const struct config_difference *item = &differences->item[i];
		const char *source = config_source(config, item->key);
		if (strncmp(source, "argv[", 5) != 0 && strcmp(source, "default") != 0)
			note("%s: %s -> %s (%s)", item->key, item->before, item->after, source);
	}
}

static int apply_differences(
	const struct plan *plan, const struct config *config, const struct config_differences *differences)
{
	bool begun = false;
	int status = has_begun(plan, &begun);
	for (size_t i = 0; i < differences->count && begun; i++)
		if (differences->item[i].identity)
			return refuse_identity(plan, differences);
	if (status || explain || differences->count == 0)
		return status;
	status = check_owner(plan);
	if (!status)
		status = replace_config(plan, config, differences);
	if (!status)
		tell_changes(config, differences);
	return status;
}

static int change_run(const struct plan *plan)
{
	struct config *before = NULL, *after = NULL;
	struct config_differences differences = {0};
	int lock = -1, status = explain ? STATUS_OK : file_lock(plan->file, LOCK_SECONDS, &lock);
	if (!status)
		status = config_load(plan->file, &before);
	if (!status)
		status = config_compose(plan->layers, plan->count + 1, &after);
	if (!status && explain)
		status = print_explanation(after);
	if (!status)
		status = config_compare(before, after, &differences);
	if (!status)
		status = apply_differences(plan, after, &differences);
	if (!status && plan->count > 0)
		config_warn(after);
	config_differences_release(&differences);
	config_free(after);
	config_free(before);
	if (lock >= 0)
		close(lock);
	return status;
}

int main(int argc, char **argv)
{
	struct plan plan = {0};
	bool done = false;
	int count = 0;
	error_program(argv[0]);
	guard_output();
	const char **operands = memory_new((size_t)argc, sizeof *operands);
	int status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done && list_keys)
		status = print_keys();
	else if (!status && !done)
		status = make_plan(&plan, operands, count, argv);
	if (!status && !done && !list_keys)
		status = file_exists(plan.file) ? change_run(&plan) : make_run(&plan);
	plan_release(&plan);
	free(operands);
	return close_stdout(status ? error_print(status) : STATUS_OK);
}
