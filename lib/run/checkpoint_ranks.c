/* Checkpoints: resuming by several ranks, which read each file once and tell each other. */
#include "run/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/checkpoint_parts.h"

enum { TEXT_LIMIT = 64 << 20 };

/* What rank 0 has found out about a checkpoint before anybody reads tensors. */
struct head {
	int64_t found, step;
	int64_t manifest_bytes, state_bytes;
};
struct texts { /* MANIFEST and train.cfg or the phase file, as rank 0 read them */
	char *manifest, *state;
};
struct candidate {
	const struct run *run;
	const struct checkpoint_ranks *ranks;
	struct head head;
	struct texts texts;
	char *path;
	struct manifest manifest;
	char **data; /* by file of the manifest: of tensor files, here */
};

static void candidate_release(struct candidate *candidate)
{
	for (size_t i = 0; candidate->data && i < candidate->manifest.count; i++)
		free(candidate->data[i]);
	free(candidate->data);
	free(candidate->texts.manifest);
	free(candidate->texts.state);
	free(candidate->path);
	manifest_release(&candidate->manifest);
}

/* ---- rank 0: what there is ---- */

static int check_small_files(const char *path, const struct manifest *manifest, struct train_state *state)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < manifest->count && !status; i++) {
		const struct manifest_file *file = &manifest->file[i];
		if (!strcmp(file->path, "train.cfg"))
			status = checkpoint_read_state(path, file, state);
		else if (!checkpoint_is_tensors(file))
			status = manifest_check(path, file, false);
	}
	return status;
}

static int keep_texts(struct candidate *candidate, const struct train_state *state)
{
	struct text text = {0};
	size_t bytes = 0;
	char *path = path_join(candidate->path, "MANIFEST");
	int status = path ? file_read(path, TEXT_LIMIT, &candidate->texts.manifest, &bytes) : error_status();
	candidate->head.manifest_bytes = (int64_t)bytes;
	train_state_format(state, &text);
	if (!status)
		status = text_check(&text);
	candidate->head.state_bytes = (int64_t)text.length;
	candidate->texts.state = text_take(&text);
	free(path);
	return status;
}

static int judge_head(struct candidate *candidate, int64_t step)
{
	struct train_state state = {0};
	struct manifest manifest = {0};
	candidate->path = checkpoint_name(candidate->run, CHECKPOINT_STEP, step, "");
	int status = candidate->path ? manifest_read(candidate->path, &manifest) : error_status();
	if (!status)
		status = check_small_files(candidate->path, &manifest, &state);
	if (!status)
		status = checkpoint_later_phase(candidate->run, step, candidate->path, &manifest, &state);
	if (!status)
		status = keep_texts(candidate, &state);
	candidate->head.found = !status;
	candidate->head.step = step;
	manifest_release(&manifest);
	train_state_release(&state);
	return status;
}

/* ---- all ranks: from a head to a checkpoint ---- */

/* Everybody gets what rank 0 has read. */
static int share_head(struct candidate *candidate, int status)
{
	const struct checkpoint_ranks *ranks = candidate->ranks;
	struct head *head = &candidate->head;
	struct texts *texts = &candidate->texts;
	status = ranks->agree(ranks->state, status);
	if (!status)
		status = ranks->broadcast(ranks->state, 0, head, sizeof *head);
	if (status || !head->found)
		return status;
	if (ranks->rank > 0) {
		texts->manifest = memory_new((size_t)head->manifest_bytes + 1, 1);
		texts->state = memory_new((size_t)head->state_bytes + 1, 1);
		candidate->path = checkpoint_name(candidate->run, CHECKPOINT_STEP, head->step, "");
	}
	status = ranks->agree(ranks->state,
		texts->manifest && texts->state && candidate->path ? STATUS_OK : error_status());
	if (!status)
		status = ranks->broadcast(ranks->state, 0, texts->manifest, (size_t)head->manifest_bytes);
	if (!status)
		status = ranks->broadcast(ranks->state, 0, texts->state, (size_t)head->state_bytes);
	if (!status)
		status = manifest_parse(
			candidate->path, texts->manifest, (size_t)head->manifest_bytes, &candidate->manifest);
	return ranks->agree(ranks->state, status);
}

/* The rank that reads tensor file number `number`. */
static int reader(const struct checkpoint_ranks *ranks, int number)
{
	return number % ranks->size;
}

/* Each rank reads its files and makes room for those of the others. */
static int read_own(struct candidate *candidate)
{
	int number = 0, status = STATUS_OK;
	candidate->data = memory_new(candidate->manifest.count, sizeof *candidate->data);
	if (!candidate->data)
		return error_status();
	for (size_t i = 0; i < candidate->manifest.count && !status; i++) {
		const struct manifest_file *file = &candidate->manifest.file[i];
		if (!checkpoint_is_tensors(file))
			continue;
		if (reader(candidate->ranks, number++) == candidate->ranks->rank)
			status = manifest_load(candidate->path, file, &candidate->data[i]);
		else if (!(candidate->data[i] = malloc((size_t)file->bytes + 1)))
			status = error_set(STATUS_FAILURE, "%s/%s: no memory for %llu bytes", candidate->path,
				file->path, (unsigned long long)file->bytes);
	}
	return status;
}

static int share_tensors(struct candidate *candidate, struct checkpoint *checkpoint)
{
	const struct checkpoint_ranks *ranks = candidate->ranks;
	int number = 0, status = STATUS_OK;
	for (size_t i = 0; i < candidate->manifest.count && !status; i++) {
		const struct manifest_file *file = &candidate->manifest.file[i];
		if (checkpoint_is_tensors(file))
			status = ranks->broadcast(ranks->state, reader(ranks, number++), candidate->data[i],
				(size_t)file->bytes);
	}
	for (size_t i = 0; i < candidate->manifest.count && !status; i++) {
		if (!checkpoint_is_tensors(&candidate->manifest.file[i]))
			continue;
		status = checkpoint_take_tensors(
			candidate->path, &candidate->manifest.file[i], candidate->data[i], checkpoint);
		candidate->data[i] = NULL;
	}
	return status;
}

/* STATUS_OK with head.found false: rank 0 has none to offer. */
static int try(struct candidate *candidate, int status, struct checkpoint *checkpoint)
{
	const struct checkpoint_ranks *ranks = candidate->ranks;
	*checkpoint = (struct checkpoint){0};
	status = share_head(candidate, status);
	if (status || !candidate->head.found)
		return status;
	checkpoint->step = candidate->head.step;
	status = ranks->agree(ranks->state, read_own(candidate));
	if (!status)
		status = ranks->agree(ranks->state, share_tensors(candidate, checkpoint));
	if (!status)
		status = checkpoint_finish(candidate->path, &candidate->manifest, checkpoint);
	if (!status) {
		status = train_state_take(candidate->path, candidate->texts.state,
			(size_t)candidate->head.state_bytes, &checkpoint->state);
		candidate->texts.state = NULL;
	}
	status = ranks->agree(ranks->state, status);
	if (status)
		checkpoint_release(checkpoint);
	return status;
}

/* The next one that rank 0 offers: damaged ones are passed over. */
static int next_head(struct candidate *candidate, const struct checkpoint_entry *entries, size_t count,
	size_t *next, size_t *seen)
{
	int status = STATUS_OK;
	while (*next < count && !status && !candidate->head.found) {
		const struct checkpoint_entry *entry = &entries[(*next)++];
		if (entry->kind != CHECKPOINT_STEP)
			continue;
		++*seen;
		status = judge_head(candidate, entry->step);
		if (checkpoint_is_damage(status)) {
			warn("%s; this checkpoint is passed over", error_message());
			candidate_release(candidate);
			*candidate = (struct candidate){.run = candidate->run, .ranks = candidate->ranks};
			status = STATUS_OK;
		}
	}
	if (!status && !candidate->head.found && *seen)
		status = checkpoint_none_usable(candidate->run, *seen);
	return status;
}

int checkpoint_resume_ranks(const struct run *run, const struct checkpoint_ranks *ranks,
	struct checkpoint *checkpoint, bool *found)
{
	struct checkpoint_entry *entries = NULL;
	size_t count = 0, next = 0, seen = 0;
	bool more = true;
	int status = ranks->rank ? STATUS_OK : checkpoint_list(run, &entries, &count);
	*checkpoint = (struct checkpoint){0};
	*found = false;
	while (more) {
		struct candidate candidate = {.run = run, .ranks = ranks};
		if (ranks->rank == 0 && !status)
			status = next_head(&candidate, entries, count, &next, &seen);
		status = try(&candidate, status, checkpoint);
		*found = !status && candidate.head.found;
		more = candidate.head.found && checkpoint_is_damage(status);
		if (more && ranks->rank == 0)
			warn("%s; this checkpoint is passed over", error_message());
		if (more)
			status = STATUS_OK;
		candidate_release(&candidate);
	}
	free(entries);
	return status;
}
