/* Checkpoints: finding, verifying and reading them. */
#include "run/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/torch.h"
#include "run/checkpoint_parts.h"

#define FILE_LIMIT ((size_t)1 << 40)

enum { STEP_DIGITS = 8, OPEN_TRIES = 5, DEPTH_LIMIT = 8 };

static const char *const kind_names[] = {[CHECKPOINT_STEP] = "step", [CHECKPOINT_WEIGHTS] = "weights"};

/* ---- names ---- */

char *checkpoint_name(const struct run *run, enum checkpoint_kind kind, int64_t step, const char *suffix)
{
	return run_path(
		run, "checkpoints/%s-%0*lld%s", kind_names[kind], STEP_DIGITS, (long long)step, suffix);
}

/* Exactly the names that checkpoint_name() makes. */
static bool parse_name(const char *name, struct checkpoint_entry *entry)
{
	char canonical[64];
	for (int i = CHECKPOINT_STEP; i <= CHECKPOINT_WEIGHTS; i++) {
		size_t length = strlen(kind_names[i]);
		if (strncmp(name, kind_names[i], length) || name[length] != '-' ||
			!text_to_int64(name + length + 1, &entry->step) || entry->step < 0)
			continue;
		entry->kind = (enum checkpoint_kind)i;
		snprintf(canonical, sizeof canonical, "%s-%0*lld", kind_names[i], STEP_DIGITS,
			(long long)entry->step);
		return !strcmp(canonical, name);
	}
	return false;
}

static int compare_entries(const void *a, const void *b)
{
	const struct checkpoint_entry *x = a, *y = b;
	if (x->step != y->step)
		return x->step > y->step ? -1 : 1;
	return (x->kind < y->kind) - (x->kind > y->kind);
}

int checkpoint_list(const struct run *run, struct checkpoint_entry **entries, size_t *count)
{
	struct names names = {0};
	char *path = run_path(run, "checkpoints");
	*entries = NULL;
	*count = 0;
	int status = path ? STATUS_OK : error_status();
	if (!status && file_exists(path))
		status = file_list(path, &names);
	if (!status) {
		*entries = memory_new(names.count, sizeof **entries);
		status = *entries ? STATUS_OK : error_status();
	}
	for (size_t i = 0; i < names.count && !status; i++)
		if (parse_name(names.name[i], &(*entries)[*count]))
			++*count;
	if (*count)
		qsort(*entries, *count, sizeof **entries, compare_entries);
	names_release(&names);
	free(path);
	return status;
}

bool checkpoint_is_damage(int status)
{
	return status == STATUS_DATA || status == STATUS_IO || status == STATUS_NO_INPUT;
}

void checkpoint_discard(const char *path)
{
	int status = error_status();
	char *message = status ? memory_text(error_message()) : NULL;
	file_remove_tree(path);
	if (message)
		error_set(status, "%s", message);
	free(message);
}

/* ---- reading ---- */

void checkpoint_release_tensors(struct checkpoint *checkpoint)
{
	for (int i = 0; i < checkpoint->model_files; i++)
		safetensors_release(&checkpoint->model[i]);
	for (int i = 0; i < checkpoint->optimizer_files; i++)
		safetensors_release(&checkpoint->optimizer[i]);
	free(checkpoint->model);
	free(checkpoint->optimizer);
	checkpoint->model = checkpoint->optimizer = NULL;
	checkpoint->model_files = checkpoint->optimizer_files = 0;
}

void checkpoint_release(struct checkpoint *checkpoint)
{
	checkpoint_release_tensors(checkpoint);
	train_state_release(&checkpoint->state);
	text_release(&checkpoint->plain);
	*checkpoint = (struct checkpoint){0};
}

static const struct safetensor *find(const struct safetensors *files, int count, const char *name)
{
	const struct safetensor *tensor = NULL;
	for (int i = 0; i < count && !tensor; i++)
		tensor = safetensors_find(&files[i], name);
	return tensor;
}

const struct safetensor *checkpoint_model(const struct checkpoint *checkpoint, const char *name)
{
	return find(checkpoint->model, checkpoint->model_files, name);
}

const struct safetensor *checkpoint_optimizer(const struct checkpoint *checkpoint, const char *name)
{
	return find(checkpoint->optimizer, checkpoint->optimizer_files, name);
}

/* No tensor may stand in two files. */
static int check_unique(const char *directory, const struct safetensors *files, int count)
{
	for (int i = 1; i < count; i++)
		for (size_t j = 0; j < files[i].count; j++)
			if (find(files, i, files[i].tensor[j].name))
				return error_set(STATUS_DATA, "%s: tensor %.200s stands in two files",
					directory, files[i].tensor[j].name);
	return STATUS_OK;
}

/* Room for one more file; NULL with a message. */
static struct safetensors *next_file(struct safetensors **files, int count)
{
	struct safetensors *grown = realloc(*files, ((size_t)count + 1) * sizeof *grown);
	if (!grown) {
		error_set(STATUS_FAILURE, "out of memory");
		return NULL;
	}
	*files = grown;
	grown[count] = (struct safetensors){0};
	return &grown[count];
}

bool checkpoint_is_tensors(const struct manifest_file *file)
{
	return text_ends(file->path, ".safetensors") &&
	       (text_starts(file->path, "model/") || text_starts(file->path, "optimizer/"));
}

int checkpoint_take_tensors(
	const char *directory, const struct manifest_file *file, char *data, struct checkpoint *checkpoint)
{
	bool model = text_starts(file->path, "model/");
	struct safetensors **files = model ? &checkpoint->model : &checkpoint->optimizer;
	int *count = model ? &checkpoint->model_files : &checkpoint->optimizer_files;
	struct safetensors *next = next_file(files, *count);
	char *path = path_join(directory, file->path);
	int status = path && next ? STATUS_OK : error_status();
	if (status)
		free(data);
	else
		status = safetensors_take(path, data, (size_t)file->bytes, next);
	*count += !status;
	free(path);
	return status;
}

static int read_tensors(
	const char *directory, const struct manifest_file *file, struct checkpoint *checkpoint)
{
	char *data = NULL;
	int status = manifest_load(directory, file, &data);
	return status ? status : checkpoint_take_tensors(directory, file, data, checkpoint);
}

int checkpoint_read_state(const char *directory, const struct manifest_file *file, struct train_state *state)
{
	char *data = NULL, *path = path_join(directory, file->path);
	int status = path ? manifest_load(directory, file, &data) : error_status();
	if (!status)
		status = train_state_take(path, data, (size_t)file->bytes, state);
	free(path);
	return status;
}

/* Each file is read once: into place where it is needed, else for its sum (with `all`) or not at all. */
static int read_member(
	const char *directory, const struct manifest_file *file, bool all, struct checkpoint *checkpoint)
{
	if (checkpoint_is_tensors(file) && (all || text_starts(file->path, "model/")))
		return read_tensors(directory, file, checkpoint);
	if (all && !strcmp(file->path, "train.cfg"))
		return checkpoint_read_state(directory, file, &checkpoint->state);
	return all || text_starts(file->path, "model/") ? manifest_check(directory, file, false) : STATUS_OK;
}

int checkpoint_finish(const char *directory, const struct manifest *manifest, struct checkpoint *checkpoint)
{
	int status = STATUS_OK;
	if (snprintf(checkpoint->path, sizeof checkpoint->path, "%s", directory) >=
		(int)sizeof checkpoint->path)
		status = error_set(STATUS_FAILURE, "%s: path is too long", directory);
	if (!status && !checkpoint->model_files)
		status = error_set(STATUS_DATA, "%s: holds no weights", directory);
	if (!status)
		status = check_unique(directory, checkpoint->model, checkpoint->model_files);
	if (!status)
		status = check_unique(directory, checkpoint->optimizer, checkpoint->optimizer_files);
	snprintf(checkpoint->digest, sizeof checkpoint->digest, "%08x", manifest->crc_model);
	return status;
}

/* Reads a directory by its MANIFEST, which stays with the caller. */
static int read_directory(
	const char *directory, bool all, struct manifest *manifest, struct checkpoint *checkpoint)
{
	int status = manifest_read(directory, manifest);
	for (size_t i = 0; i < manifest->count && !status; i++)
		status = read_member(directory, &manifest->file[i], all, checkpoint);
	return status ? status : checkpoint_finish(directory, manifest, checkpoint);
}

/* ---- resuming ---- */

int checkpoint_later_phase(const struct run *run, int64_t step, const char *path,
	const struct manifest *manifest, struct train_state *state)
{
	struct train_state later;
	bool found = false;
	int status = STATUS_OK;
	if (manifest_find(manifest, "train.cfg") < 0)
		status = error_set(STATUS_DATA, "%s: holds no train.cfg", path);
	if (!status)
		status = train_state_check(state, run, path, step);
	if (!status)
		status = phase_read(run, step, manifest->crc, &found, &later);
	if (!status && found) {
		train_state_release(state);
		*state = later;
	}
	return status;
}

static int resume_from(const struct run *run, int64_t step, struct checkpoint *checkpoint)
{
	struct manifest manifest = {0};
	char *path = checkpoint_name(run, CHECKPOINT_STEP, step, "");
	*checkpoint = (struct checkpoint){.step = step};
	int status = path ? read_directory(path, true, &manifest, checkpoint) : error_status();
	if (!status)
		status = checkpoint_later_phase(run, step, path, &manifest, &checkpoint->state);
	manifest_release(&manifest);
	free(path);
	if (status)
		checkpoint_release(checkpoint);
	return status;
}

int checkpoint_none_usable(const struct run *run, size_t seen)
{
	return error_set(STATUS_DATA,
		"%s/checkpoints: none of its %zu checkpoints can be used (see the warnings); restore what is "
		"damaged "
		"(a log that became shorter may be removed instead), or remove the directory to start from "
		"step 0",
		run->path, seen);
}

int checkpoint_resume(const struct run *run, struct checkpoint *checkpoint, bool *found)
{
	struct checkpoint_entry *entries;
	size_t count, seen = 0;
	*checkpoint = (struct checkpoint){0};
	*found = false;
	int status = checkpoint_list(run, &entries, &count);
	for (size_t i = 0; i < count && !status && !*found; i++) {
		if (entries[i].kind != CHECKPOINT_STEP)
			continue;
		seen++;
		status = resume_from(run, entries[i].step, checkpoint);
		*found = !status;
		if (checkpoint_is_damage(status)) {
			warn("%s; this checkpoint is passed over", error_message());
			status = STATUS_OK;
		}
	}
	free(entries);
	return !status && !*found && seen ? checkpoint_none_usable(run, seen) : status;
}

/* ---- judging without keeping ---- */

static int verify(const char *directory, bool cold, struct manifest *manifest)
{
	int status = manifest_read(directory, manifest);
	for (size_t i = 0; i < manifest->count && !status; i++)
		status = manifest_check(directory, &manifest->file[i], cold);
	return status;
}

int checkpoint_verify(const char *directory)
{
	struct manifest manifest = {0};
	int status = verify(directory, false, &manifest);
	manifest_release(&manifest);
	return status;
}

static int judge_state(
	const struct run *run, const char *directory, const struct manifest *manifest, int64_t step)
{
	struct train_state state = {0};
	int index = manifest_find(manifest, "train.cfg");
	if (index < 0)
		return error_set(STATUS_DATA, "%s: holds no train.cfg", directory);
	int status = checkpoint_read_state(directory, &manifest->file[index], &state);
	if (!status)
		status = train_state_check(&state, run, directory, step);
	train_state_release(&state);
	return status;
}

int checkpoint_judge(const struct run *run, const struct checkpoint_entry *entry, bool cold)
{
	struct manifest manifest = {0};
	char *path = checkpoint_name(run, entry->kind, entry->step, "");
	int status = path ? verify(path, cold, &manifest) : error_status();
	if (!status && entry->kind == CHECKPOINT_STEP)
		status = judge_state(run, path, &manifest, entry->step);
	manifest_release(&manifest);
	free(path);
	return status;
}

int checkpoint_digest(const struct run *run, int64_t step, char digest[16])
{
	struct manifest manifest = {0};
	char *path = checkpoint_name(run, CHECKPOINT_STEP, step, "");
	int status = path ? manifest_read(path, &manifest) : error_status();
	if (!status)
		snprintf(digest, 16, "%08x", manifest.crc_model);
	manifest_release(&manifest);
	free(path);
	return status;
}

/* ---- for the other programs ---- */

static int open_entry(
	const struct run *run, const struct checkpoint_entry *entry, struct checkpoint *checkpoint)
{
	struct manifest manifest = {0};
	char *path = checkpoint_name(run, entry->kind, entry->step, "");
	*checkpoint =
		(struct checkpoint){.step = entry->step, .weights_only = entry->kind == CHECKPOINT_WEIGHTS};
	int status = path ? read_directory(path, false, &manifest, checkpoint) : error_status();
	if (status)
		checkpoint_release(checkpoint);
	/* The trainer may have removed it meanwhile; a rename shows at once. */
	if (status && path && !file_exists(path))
		status = STATUS_AGAIN;
	manifest_release(&manifest);
	free(path);
	return status;
}

/* Nothing was found that can be used, of the step that was asked for (-1: any). */
static int none_found(
	const struct run *run, int64_t step, const struct checkpoint_entry *entries, size_t count)
{
	struct text have = {0};
	if (!count)
		return error_set(STATUS_NO_INPUT, "%s: has no checkpoint yet; train it first", run->path);
	if (step < 0)
		return error_set(
			STATUS_DATA, "%s/checkpoints: none of the %zu can be used", run->path, count);
	for (size_t i = count; i > 0; i--)
		if (i == count || entries[i].step != entries[i - 1].step)
			text_format(&have, "%s%lld", have.length ? ", " : "", (long long)entries[i - 1].step);
	int status = text_check(&have);
	if (!status)
		status = error_set(STATUS_NO_INPUT, "%s/checkpoints: there is none of step %lld, but of %s",
			run->path, (long long)step, have.data);
	text_release(&have);
	return status;
}

/* One pass over what is there. STATUS_AGAIN: something vanished, look again. */
static int open_newest(const struct run *run, int64_t step, struct checkpoint *checkpoint)
{
	struct checkpoint_entry *entries;
	size_t count;
	int status = checkpoint_list(run, &entries, &count), last = STATUS_OK;
	bool found = false;
	for (size_t i = 0; i < count && !status && !found; i++) {
		if (step >= 0 && entries[i].step != step)
			continue;
		status = last = open_entry(run, &entries[i], checkpoint);
		found = !status;
		if (checkpoint_is_damage(status)) {
			warn("%s; this checkpoint is passed over", error_message());
			status = STATUS_OK;
		}
	}
	if (!status && !found)
		status = last ? error_set(STATUS_DATA, "%s/checkpoints: none can be used (see the warnings)",
					run->path)
			      : none_found(run, step, entries, count);
	free(entries);
	return status;
}

static int parse_which(const struct run *run, const char *which, int64_t *step)
{
	char metric[64];
	double value;
	bool found;
	*step = -1;
	if (!which || !*which)
		return STATUS_OK;
	if (!strcmp(which, "best")) {
		int status = checkpoint_best_read(run, &found, step, metric, &value);
		if (!status && !found)
			status = error_set(
				STATUS_NO_INPUT, "%s/checkpoints/best: there is none yet", run->path);
		return status;
	}
	if (!text_to_int64(which, step) || *step < 0)
		return error_set(STATUS_USAGE, "%s: is neither a step nor \"best\"", which);
	return STATUS_OK;
}

int checkpoint_open(const struct run *run, const char *which, struct checkpoint *checkpoint)
{
	int64_t step;
	*checkpoint = (struct checkpoint){0};
	int status = STATUS_AGAIN;
	for (int i = 0; i < OPEN_TRIES && status == STATUS_AGAIN; i++) {
		status = parse_which(run, which, &step);
		if (!status)
			status = open_newest(run, step, checkpoint);
	}
	if (status == STATUS_AGAIN)
		status = error_set(
			STATUS_NO_INPUT, "%s/checkpoints: they vanish while they are read", run->path);
	return status;
}

int checkpoint_newest(const struct run *run, const char *which, int64_t *step, char digest[16])
{
	struct checkpoint_entry *entries = NULL;
	size_t count = 0;
	int64_t wanted;
	bool found = false;
	int status = parse_which(run, which, &wanted);
	if (!status)
		status = checkpoint_list(run, &entries, &count);
	for (size_t i = 0; i < count && !status && !found; i++) {
		struct manifest manifest = {0};
		if (wanted >= 0 && entries[i].step != wanted)
			continue;
		char *path = checkpoint_name(run, entries[i].kind, entries[i].step, "");
		status = path ? manifest_read(path, &manifest) : error_status();
		found = !status;
		if (found) {
			*step = entries[i].step;
			snprintf(digest, 16, "%08x", manifest.crc_model);
		} else if (checkpoint_is_damage(status)) {
			status = STATUS_OK;
		}
		manifest_release(&manifest);
		free(path);
	}
	if (!status && !found)
		status = none_found(run, wanted, entries, count);
	free(entries);
	return status;
}

/* All safetensors files below a directory, in byte order. */
static int read_loose(const char *directory, int depth, struct checkpoint *checkpoint)
{
	struct names names = {0};
	if (depth > DEPTH_LIMIT)
		return error_set(STATUS_DATA, "%s: directories are nested too deeply", directory);
	int status = file_list(directory, &names);
	for (size_t i = 0; i < names.count && !status; i++) {
		char *path = path_join(directory, names.name[i]);
		struct safetensors *next = NULL;
		status = path ? STATUS_OK : error_status();
		if (!status && file_is_directory(path)) {
			status = read_loose(path, depth + 1, checkpoint);
		} else if (!status && text_ends(path, ".safetensors")) {
			next = next_file(&checkpoint->model, checkpoint->model_files);
			status = next ? safetensors_read(path, next) : error_status();
			checkpoint->model_files += !status;
		}
		free(path);
	}
	names_release(&names);
	return status;
}

/* A directory of weights that no MANIFEST describes: ours without one, or one that diffusers wrote. Beside a file such
 * directories often hold variants of it (fp16, non_ema), so known stems go first. */
static int open_foreign(const char *path, struct checkpoint *checkpoint)
{
	static const char *const stems[] = {"diffusion_pytorch_model", "model"};
	static const char *const places[] = {"model", "unet"};
	char *directory = NULL;
	int status = STATUS_OK;
	for (size_t i = 0; i < sizeof places / sizeof *places && !directory && !status; i++) {
		directory = path_join(path, places[i]);
		if (!directory)
			status = error_status();
		else if (!file_is_directory(directory)) {
			free(directory);
			directory = NULL;
		}
	}
	const char *place = directory ? directory : path;
	bool found = false;
	for (size_t i = 0; i < sizeof stems / sizeof *stems && !found && !status; i++) {
		status = safetensors_read_directory(
			place, stems[i], &checkpoint->model, &checkpoint->model_files);
		found = !status;
		if (status == STATUS_NO_INPUT)
			status = STATUS_OK;
	}
	if (!status && !found)
		status = read_loose(place, 0, checkpoint);
	if (!status && !checkpoint->model_files)
		status = error_set(STATUS_NO_INPUT, "%s: holds no weights (*.safetensors)", path);
	if (!status)
		status = check_unique(path, checkpoint->model, checkpoint->model_files);
	free(directory);
	return status;
}

static int open_run_at(const char *path, struct checkpoint *checkpoint)
{
	struct run run = {.path = path_absolute(path)};
	int status = run.path ? checkpoint_open(&run, NULL, checkpoint) : error_status();
	free(run.path);
	return status;
}

/* The value of a line "KEY<TAB>VALUE"; cut to the room, "" where there is none. */
static void find_plain(const struct text *plain, const char *key, char *value, size_t room)
{
	size_t length = strlen(key);
	*value = 0;
	for (const char *line = plain->data; line && *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, key, length) && line[length] == '\t')
			snprintf(value, room, "%.*s", (int)strcspn(line + length + 1, "\n"),
				line + length + 1);
}

/* A file of PyTorch; takes over `data`. */
static int open_torch(const char *path, char *data, size_t bytes, struct checkpoint *checkpoint)
{
	struct torch_file file;
	char epoch[32];
	int status = torch_take(path, data, bytes, &file);
	if (status)
		return status;
	checkpoint->model[0] = file.weights;
	file.weights = (struct safetensors){0};
	find_plain(&file.plain, "arch", checkpoint->arch, sizeof checkpoint->arch);
	checkpoint->plain = file.plain;
	file.plain = (struct text){0};
	find_plain(&checkpoint->plain, "epoch", epoch, sizeof epoch);
	text_to_int64(epoch, &checkpoint->state.epoch);
	torch_release(&file);
	return STATUS_OK;
}

/* One file of safetensors or of PyTorch, told apart by its first bytes. */
static int open_file(const char *path, struct checkpoint *checkpoint)
{
	char *data;
	size_t bytes;
	struct safetensors *next = next_file(&checkpoint->model, 0);
	int status = next ? file_read_regular(path, FILE_LIMIT, &data, &bytes) : error_status();
	if (status)
		return status;
	status = torch_is(data, bytes) ? open_torch(path, data, bytes, checkpoint)
				       : safetensors_take(path, data, bytes, next);
	if (!status)
		safetensors_strip(next, "module.");
	checkpoint->model_files = !status;
	return status;
}

static bool holds(const char *directory, const char *name)
{
	char *path = path_join(directory, name);
	bool there = path && file_exists(path);
	free(path);
	return there;
}

/* Of weights that no MANIFEST describes: over the bytes of their tensors, in the order in which they were read. */
static void digest_tensors(struct checkpoint *checkpoint)
{
	uint32_t sum = 0;
	for (int f = 0; f < checkpoint->model_files; f++)
		for (size_t i = 0; i < checkpoint->model[f].count; i++)
			sum = crc32c(sum, checkpoint->model[f].tensor[i].data,
				checkpoint->model[f].tensor[i].bytes);
	snprintf(checkpoint->digest, sizeof checkpoint->digest, "%08x", sum);
}

int checkpoint_open_all(const char *directory, struct checkpoint *checkpoint)
{
	struct manifest manifest = {0};
	struct checkpoint_entry entry;
	*checkpoint = (struct checkpoint){0};
	int status = read_directory(directory, true, &manifest, checkpoint);
	if (parse_name(path_base(directory), &entry))
		checkpoint->step = entry.step;
	manifest_release(&manifest);
	if (status)
		checkpoint_release(checkpoint);
	return status;
}

int checkpoint_open_path(const char *path, struct checkpoint *checkpoint)
{
	struct manifest manifest = {0};
	struct checkpoint_entry entry;
	int status;
	*checkpoint = (struct checkpoint){.weights_only = true};
	if (!file_exists(path))
		return error_errno(STATUS_NO_INPUT, "%s", path);
	if (!file_is_directory(path)) {
		status = open_file(path, checkpoint);
	} else if (holds(path, "checkpoints")) {
		return open_run_at(path, checkpoint);
	} else if (holds(path, "MANIFEST")) {
		status = read_directory(path, false, &manifest, checkpoint);
		if (parse_name(path_base(path), &entry))
			checkpoint->step = entry.step;
	} else {
		status = open_foreign(path, checkpoint);
	}
	snprintf(checkpoint->path, sizeof checkpoint->path, "%s", path);
	manifest_release(&manifest);
	if (!status && !checkpoint->digest[0])
		digest_tensors(checkpoint);
	if (status)
		checkpoint_release(checkpoint);
	return status;
}
