/* Which files a snapshot holds, and reading them. */
#include "run/snapshot_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/snapshot_secret.h"

enum { LARGE_BYTES = 1 << 20, MOST_BYTES = 50 << 20, MOST_FILES = 50000, MOST_DEPTH = 64, NAMED = 5 };

static int add_entry(struct snapshot_files *files, const char *path, enum snapshot_kind kind, bool tracked,
	const char *value)
{
	if (memory_grow(&files->entries, &files->capacity, files->count + 1, sizeof *files->entries))
		return error_status();
	struct snapshot_entry *entry = &files->entries[files->count];
	*entry = (struct snapshot_entry){
		.path = memory_text(path), .kind = kind, .tracked = tracked, .note = ""};
	entry->value = value ? memory_text(value) : NULL;
	if (!entry->path || (value && !entry->value)) {
		free(entry->path);
		return error_status();
	}
	files->count++;
	return STATUS_OK;
}

static void become_omitted(struct snapshot_entry *entry, const char *why)
{
	free(entry->value);
	free(entry->data);
	entry->data = NULL;
	entry->value = memory_text(why);
	entry->kind = SNAPSHOT_OMITTED;
	entry->bytes = 0;
}

/* ---- what never belongs to it ---- */

/* "marigold-4711.out", "slurm-12_3.out": they grow while the run does. */
static bool is_job_output(const char *path)
{
	const char *name = path_base(path), *dash = strrchr(name, '-');
	if (!dash || !text_ends(name, ".out"))
		return false;
	size_t digits = strspn(dash + 1, "0123456789_");
	return digits > 0 && !strcmp(dash + 1 + digits, ".out");
}

/* Whether the directory (absolute) is a run's. */
static bool is_run(const char *directory)
{
	static const char *const signs[] = {"shifts.tsv", "shifts", "checkpoints", "code.manifest", "log"};
	bool found = false;
	char *config = path_join(directory, "config.cfg");
	bool has_config = config && file_exists(config);
	free(config);
	for (size_t i = 0; has_config && !found && i < sizeof signs / sizeof *signs; i++) {
		char *sign = path_join(directory, signs[i]);
		found = sign && file_exists(sign);
		free(sign);
	}
	return found;
}

/* Directories found so far to be runs (true) or not, so that each is looked at once. */
struct known_runs {
	const char *top, *run_path;
	struct names runs, others;
};

static bool listed(const struct names *names, const char *name)
{
	for (size_t i = names->count; i; i--) /* the last one is the likeliest */
		if (!strcmp(names->name[i - 1], name))
			return true;
	return false;
}

static int inside_run(struct known_runs *known, const char *path, bool *inside)
{
	char part[PATH_MAX];
	int status = STATUS_OK;
	*inside = false;
	for (const char *slash = strchr(path, '/'); slash && !*inside && !status;
		slash = strchr(slash + 1, '/')) {
		size_t length = (size_t)(slash - path);
		if (length >= sizeof part)
			break;
		memcpy(part, path, length);
		part[length] = 0;
		*inside = listed(&known->runs, part);
		if (*inside || listed(&known->others, part))
			continue;
		char *whole = path_join(known->top, part);
		*inside = whole && (!strcmp(whole, known->run_path) || is_run(whole));
		free(whole);
		status = names_add(*inside ? &known->runs : &known->others, part);
	}
	return status;
}

/* Adds a name that git or the walk gave, unless it never belongs to a snapshot. */
static int consider(struct snapshot_files *files, struct known_runs *known, const char *path, bool tracked)
{
	bool inside = false;
	int status = tracked ? STATUS_OK : inside_run(known, path, &inside);
	if (status || inside || (!tracked && is_job_output(path)))
		return status;
	if (files->count >= MOST_FILES)
		return error_set(STATUS_DATA,
			"%s: more than %d files: is this where the code is? name its directory, or list what "
			"is "
			"not code in .gitignore",
			files->top, MOST_FILES);
	files->untracked += !tracked;
	return add_entry(files, path, SNAPSHOT_FILE, tracked, NULL);
}

/* ---- listing with git ---- */

static int list_repository(
	struct snapshot_files *files, struct known_runs *known, const char *below, int depth);

/* A directory in git's list is a submodule or a repository of its own; without its .git, git would answer for ours. */
static int list_nested(
	struct snapshot_files *files, struct known_runs *known, const char *path, bool tracked, int depth)
{
	char commit[80] = "not checked out";
	char *whole = path_join(files->top, path), *git = whole ? path_join(whole, ".git") : NULL;
	int status = git ? STATUS_OK : error_status();
	bool there = git && file_exists(git),
	     run = whole && !tracked && (!strcmp(whole, known->run_path) || is_run(whole));
	if (!status && !run) {
		if (there)
			git_commit(whole, commit);
		status = add_entry(files, path, SNAPSHOT_SUBMODULE, tracked, commit);
		if (!status && there && depth < MOST_DEPTH)
			status = list_repository(files, known, path, depth + 1);
	}
	free(git);
	free(whole);
	return status;
}

static int add_listed(struct snapshot_files *files, struct known_runs *known, const char *below,
	const char *name, bool tracked, int depth)
{
	struct stat information;
	char *path = path_join(below, name);
	size_t length = path ? strlen(path) : 0;
	if (!path)
		return error_status();
	while (length && path[length - 1] == '/')
		path[--length] = 0;
	char *whole = path_join(files->top, path);
	int status = whole ? STATUS_OK : error_status();
	if (!status && lstat(whole, &information))
		status = errno == ENOENT || errno == ENOTDIR
				 ? add_entry(files, path, SNAPSHOT_OMITTED, tracked, "deleted")
				 : error_errno(0, "%s", whole);
	else if (!status && S_ISDIR(information.st_mode))
		status = list_nested(files, known, path, tracked, depth);
	else if (!status)
		status = consider(files, known, path, tracked);
	free(whole);
	free(path);
	return status;
}

/* The repository at `below` (below the top; "" is the top itself). */
static int list_repository(
	struct snapshot_files *files, struct known_runs *known, const char *below, int depth)
{
	char *whole = *below ? path_join(files->top, below) : memory_text(files->top);
	int status = whole ? STATUS_OK : error_status();
	for (int others = 0; others < 2 && !status; others++) {
		struct names names = {0};
		status = git_list(whole, others, &names);
		names_sort(&names);
		for (size_t i = 0; i < names.count && !status; i++)
			if (!i ||
				strcmp(names.name[i], names.name[i - 1])) /* a conflict lists a file thrice */
				status = add_listed(files, known, below, names.name[i], !others, depth);
		names_release(&names);
	}
	free(whole);
	return status;
}

/* ---- listing without git ---- */

static bool is_left_behind(const char *name)
{
	static const char *const patterns[] = {".git", ".hg", ".svn", "__pycache__", ".venv", "venv",
		"node_modules", ".mypy_cache", ".pytest_cache", ".ipynb_checkpoints", "*.pyc", "*.o", "*~",
		".*.sw?"};
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (text_match(patterns[i], name))
			return true;
	return false;
}

static int walk(struct snapshot_files *files, struct known_runs *known, const char *below, int depth)
{
	struct names names = {0};
	char *directory = *below ? path_join(files->top, below) : memory_text(files->top);
	int status = directory ? STATUS_OK : error_status();
	if (!status && (!strcmp(directory, known->run_path) || is_run(directory) || depth > MOST_DEPTH)) {
		free(directory);
		return STATUS_OK;
	}
	if (!status)
		status = file_list(directory, &names);
	for (size_t i = 0; i < names.count && !status; i++) {
		struct stat information;
		char *path = path_join(below, names.name[i]),
		     *whole = path ? path_join(directory, names.name[i]) : NULL;
		if (!whole)
			status = error_status();
		else if (is_left_behind(names.name[i]))
			status = STATUS_OK;
		else if (lstat(whole, &information))
			status = error_errno(0, "%s", whole);
		else
			status = S_ISDIR(information.st_mode) ? walk(files, known, path, depth + 1)
							      : consider(files, known, path, false);
		free(whole);
		free(path);
	}
	names_release(&names);
	free(directory);
	return status;
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_entry *)a)->path, ((const struct snapshot_entry *)b)->path);
}

static int list_all(struct snapshot_files *files, const char *run_path)
{
	struct known_runs known = {.top = files->top, .run_path = run_path};
	int status = files->git.top ? list_repository(files, &known, "", 0) : walk(files, &known, "", 0);
	names_release(&known.runs);
	names_release(&known.others);
	if (files->count)
		qsort(files->entries, files->count, sizeof *files->entries, compare_entries);
	return status;
}

/* ---- reading ---- */

static int read_link(const char *whole, struct snapshot_entry *entry)
{
	char target[PATH_MAX];
	ssize_t length = readlink(whole, target, sizeof target - 1);
	if (length < 0)
		return error_errno(0, "%s", whole);
	target[length] = 0;
	entry->kind = SNAPSHOT_LINK;
	entry->value = memory_text(target);
	int depth = 0;
	for (const char *c = entry->path; *c; c++)
		depth += *c == '/';
	for (const char *part = target; *part && depth >= 0;) {
		size_t step = strcspn(part, "/");
		depth += step == 2 && !strncmp(part, "..", 2) ? -1 : step && !(step == 1 && *part == '.');
		part += step;
		part += *part == '/';
	}
	if (*target == '/' || depth < 0)
		entry->note = "leaves the tree";
	return entry->value ? STATUS_OK : error_status();
}

/* Reads the file once; again when it changed meanwhile, as editors do. */
static int read_content(const char *whole, struct snapshot_entry *entry)
{
	for (int try = 0; try < 3; try++) {
		struct stat before, after;
		size_t bytes;
		free(entry->data);
		entry->data = NULL;
		if (lstat(whole, &before))
			return error_errno(0, "%s", whole);
		int status = file_read(whole, (size_t)8 << 30, &entry->data, &bytes);
		if (status)
			return status;
		entry->bytes = bytes;
		if (!lstat(whole, &after) && before.st_size == after.st_size &&
			before.st_ino == after.st_ino && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
			before.st_mtim.tv_nsec == after.st_mtim.tv_nsec)
			return STATUS_OK;
	}
	warn("%s: keeps changing while it is read", whole);
	return STATUS_OK;
}

static void digest_content(struct snapshot_entry *entry)
{
	static const char pointer[] = "version https://git-lfs.github.com/spec/";
	struct sha256 digest;
	char hex[65];
	sha256_init(&digest);
	sha256_update(&digest, entry->data, entry->bytes);
	sha256_hex(&digest, hex);
	entry->value = memory_text(hex);
	if (entry->bytes > sizeof pointer && !memcmp(entry->data, pointer, sizeof pointer - 1))
		entry->note = "Git LFS pointer";
}

static int read_entry(struct snapshot_files *files, struct snapshot_entry *entry, bool force)
{
	struct stat information;
	char *whole = path_join(files->top, entry->path);
	int status = whole ? STATUS_OK : error_status();
	if (!status && lstat(whole, &information))
		status = error_errno(0, "%s", whole);
	if (status) {
	} else if (secret_name(entry->path)) {
		become_omitted(entry, "secret by its name");
	} else if (S_ISLNK(information.st_mode)) {
		status = read_link(whole, entry);
	} else if (!S_ISREG(information.st_mode)) {
		become_omitted(entry, "no file");
	} else if (information.st_size > LARGE_BYTES && !force) {
		become_omitted(entry, "large");
	} else if ((status = read_content(whole, entry)) == STATUS_PERMISSION) {
		become_omitted(entry, "unreadable");
		status = STATUS_OK;
	} else if (!status && secret_content(entry->data, entry->bytes)) {
		become_omitted(entry, secret_content(entry->data, entry->bytes));
	} else if (!status) {
		entry->executable = information.st_mode & 0111;
		digest_content(entry);
	}
	if (!status && entry->kind != SNAPSHOT_SUBMODULE && !entry->value)
		status = error_set(STATUS_FAILURE, "out of memory");
	free(whole);
	return status;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct snapshot_entry *const *left = a, *const *right = b;
	return ((*left)->bytes < (*right)->bytes) - ((*left)->bytes > (*right)->bytes);
}

static int refuse_total(const struct snapshot_files *files, uint64_t bytes)
{
	char total[32], limit[32], one[32];
	struct snapshot_entry **order = memory_new(files->count, sizeof *order);
	if (!order)
		return error_status();
	for (size_t i = 0; i < files->count; i++)
		order[i] = &files->entries[i];
	qsort(order, files->count, sizeof *order, compare_bytes);
	for (size_t i = 0; i < files->count && i < NAMED; i++)
		note("%s: %s", order[i]->path, text_of_bytes(order[i]->bytes, one));
	free(order);
	return error_set(STATUS_DATA,
		"%s: %s of code is more than %s, the largest files are named above; list what is not code in "
		".gitignore, name the directory of the code, or use --force",
		files->top, text_of_bytes(bytes, total), text_of_bytes(MOST_BYTES, limit));
}

static int read_all(struct snapshot_files *files, bool force)
{
	uint64_t bytes = 0;
	int status = STATUS_OK;
	for (size_t i = 0; i < files->count && !status; i++) {
		if (files->entries[i].kind == SNAPSHOT_FILE)
			status = read_entry(files, &files->entries[i], force);
		bytes += files->entries[i].bytes;
		if (!status && bytes > MOST_BYTES && !force) {
			/* The sizes of the rest, so that the largest are named. */
			for (size_t j = i + 1; j < files->count; j++) {
				struct stat information;
				char *whole = path_join(files->top, files->entries[j].path);
				if (whole && !lstat(whole, &information) &&
					information.st_size <= LARGE_BYTES)
					bytes += files->entries[j].bytes = (uint64_t)information.st_size;
				free(whole);
			}
			return refuse_total(files, bytes);
		}
	}
	return status;
}

int snapshot_files_read(struct snapshot_files *files, const char *directory, const char *run_path, bool force)
{
	*files = (struct snapshot_files){0};
	char *real = realpath(directory, NULL);
	int status = real ? STATUS_OK : error_errno(0, "%s", directory);
	char *run_real = realpath(run_path, NULL);
	if (!status && !file_is_directory(real))
		status = error_set(STATUS_NO_INPUT, "%s: is not a directory", directory);
	if (!status)
		status = git_state_read(real, &files->git, files->why, sizeof files->why);
	if (!status) {
		files->top = memory_text(files->git.top ? files->git.top : real);
		status = files->top ? list_all(files, run_real ? run_real : run_path) : error_status();
	}
	if (!status)
		status = read_all(files, force);
	free(real);
	free(run_real);
	if (status)
		snapshot_files_release(files);
	return status;
}

void snapshot_files_release(struct snapshot_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->entries[i].path);
		free(files->entries[i].value);
		free(files->entries[i].data);
	}
	free(files->entries);
	free(files->top);
	git_state_release(&files->git);
	*files = (struct snapshot_files){0};
}
