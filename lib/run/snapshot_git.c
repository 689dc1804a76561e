/* Asking git. */
#include "run/snapshot_git.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

enum { ARGUMENTS = 24, OUTPUT_BYTES = 256 << 20 };
static const double patience = 600; /* s: a work tree on a busy shared file system */

/* Runs git in `directory`; 0 when it ends with 0. `words` up to NULL. Output that users configure (quoting, hooks) is set. */
static int run_git(const char *directory, const char *const *words, struct text *out, struct text *errors)
{
	static const char *const environment[] = {
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", NULL};
	const char *argv[ARGUMENTS] = {
		"git", "-C", directory, "-c", "core.quotepath=off", "-c", "core.fsmonitor=false"};
	size_t count = 7;
	int exit_status = 0;
	while (*words && count + 1 < ARGUMENTS)
		argv[count++] = *words++;
	text_clear(out);
	if (command_run(argv, environment, patience, OUTPUT_BYTES, out, errors, &exit_status)) {
		if (errors && !errors->length)
			text_add(errors, error_message());
		return 1;
	}
	text_append(out, "", 0);
	return exit_status || text_check(out);
}

/* One line of output, without its newline, into a buffer; "" when git fails. */
static void ask(const char *directory, const char *const *words, char *buffer, size_t size)
{
	struct text out = {0};
	*buffer = 0;
	if (!run_git(directory, words, &out, NULL) && out.data)
		snprintf(buffer, size, "%.*s", (int)strcspn(out.data, "\n"), out.data);
	text_release(&out);
}

static int find_top(const char *directory, char **top, char *why, size_t size)
{
	struct text out = {0}, errors = {0};
	const char *const words[] = {"rev-parse", "--show-toplevel", NULL};
	*top = NULL;
	if (!run_git(directory, words, &out, &errors) && out.data && *out.data == '/') {
		out.data[strcspn(out.data, "\n")] = 0;
		*top = memory_text(out.data);
	} else {
		const char *said = errors.data ? errors.data : "git says nothing";
		snprintf(why, size, "%.*s", (int)strcspn(said, "\n"), said);
	}
	bool memory = out.failed || errors.failed;
	text_release(&out);
	text_release(&errors);
	error_clear();
	return memory ? error_set(STATUS_FAILURE, "out of memory") : STATUS_OK;
}

void git_strip_url(char *url)
{
	char *host = strstr(url, "://");
	if (!host)
		return;
	host += 3;
	char *end = host + strcspn(host, "/");
	for (char *at = end; at > host; at--)
		if (at[-1] == '@') {
			memmove(host, at, strlen(at) + 1);
			return;
		}
}

static int add_remotes(const char *top, struct names *remotes)
{
	struct text out = {0};
	const char *const words[] = {"config", "--null", "--get-regexp", "^remote\\..*\\.url$", NULL};
	int status = STATUS_OK;
	if (run_git(top, words, &out, NULL)) { /* none */
		text_release(&out);
		return STATUS_OK;
	}
	for (char *entry = out.data, *next; entry < out.data + out.length && !status; entry = next) {
		next = entry + strlen(entry) + 1;
		char *url = strchr(entry, '\n');
		size_t length = url ? (size_t)(url - entry) : 0;
		if (length <= strlen("remote..url"))
			continue;
		struct text row = {0};
		git_strip_url(url + 1);
		text_format(&row, "%.*s\t%s", (int)(length - strlen("remote..url")),
			entry + strlen("remote."), url + 1);
		status = text_check(&row);
		if (!status)
			status = names_add(remotes, row.data);
		text_release(&row);
	}
	text_release(&out);
	names_sort(remotes);
	return status;
}

static void find_under_way(const char *top, char under_way[32])
{
	static const struct {
		const char *file, *name;
	} rows[] = {{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"},
		{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"}};
	char directory[4096];
	const char *const words[] = {"rev-parse", "--absolute-git-dir", NULL};
	ask(top, words, directory, sizeof directory);
	*under_way = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows && *directory && !*under_way; i++) {
		char *path = path_join(directory, rows[i].file);
		if (path && file_exists(path))
			snprintf(under_way, 32, "%s", rows[i].name);
		free(path);
	}
}

static size_t count_changed(const char *top)
{
	struct text out = {0};
	const char *const words[] = {
		"status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", NULL};
	size_t count = 0;
	if (!run_git(top, words, &out, NULL))
		for (size_t i = 0; i < out.length; i++)
			count += !out.data[i];
	text_release(&out);
	return count;
}

int git_state_read(const char *directory, struct git_state *state, char *why, size_t size)
{
	const char *const commit_words[] = {"rev-parse", "--verify", "--quiet", "HEAD", NULL};
	const char *const branch_words[] = {"symbolic-ref", "--quiet", "--short", "HEAD", NULL};
	const char *const describe_words[] = {"describe", "--always", "--tags", "--dirty", NULL};
	const char *const time_words[] = {"show", "--no-patch", "--format=%ct", "HEAD", NULL};
	char time[32];
	*state = (struct git_state){0};
	int status = find_top(directory, &state->top, why, size);
	if (status || !state->top)
		return status;
	ask(state->top, commit_words, state->commit, sizeof state->commit);
	ask(state->top, branch_words, state->branch, sizeof state->branch);
	ask(state->top, describe_words, state->describe, sizeof state->describe);
	ask(state->top, time_words, time, sizeof time);
	if (!*state->commit || !text_to_int64(time, &state->time) || state->time < 0)
		state->time = 0;
	find_under_way(state->top, state->under_way);
	state->changed = count_changed(state->top);
	status = add_remotes(state->top, &state->remotes);
	if (status)
		git_state_release(state);
	return status;
}

void git_state_release(struct git_state *state)
{
	free(state->top);
	names_release(&state->remotes);
	*state = (struct git_state){0};
}

int git_list(const char *top, bool others, struct names *names)
{
	struct text out = {0}, errors = {0};
	const char *const tracked[] = {"ls-files", "-z", "--cached", NULL};
	const char *const untracked[] = {"ls-files", "-z", "--others", "--exclude-standard", NULL};
	int status = STATUS_OK;
	if (run_git(top, others ? untracked : tracked, &out, &errors))
		status = error_set(STATUS_UNAVAILABLE, "%s: git ls-files failed: %.*s", top,
			errors.data ? (int)strcspn(errors.data, "\n") : 0, errors.data ? errors.data : "");
	for (char *name = out.data; !status && name && name < out.data + out.length; name += strlen(name) + 1)
		if (*name)
			status = names_add(names, name);
	text_release(&out);
	text_release(&errors);
	return status;
}

void git_commit(const char *path, char commit[80])
{
	const char *const words[] = {"rev-parse", "--verify", "--quiet", "HEAD", NULL};
	ask(path, words, commit, 80);
}
