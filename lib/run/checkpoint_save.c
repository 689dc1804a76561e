/* Checkpoints: writing. Everything is built under a .partial name and renamed last. */
#include "run/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/checkpoint_parts.h"

#define SHARD_BYTES UINT64_C(1000000000)
enum { PUBLISH_TRIES = 3 };

/* One checkpoint being built. */
struct building {
	const char *directory; /* the .partial one */
	struct manifest manifest;
	uint64_t bytes; /* of the files of model/ and optimizer/ */
};

/* The tensors of one kind cut into shards. */
struct cut {
	const char *kind, *stem; /* "model", "unet/diffusion_pytorch_model" */
	const struct safetensor *tensor;
	size_t count;
	int *shard;
	int shards;
	struct safetensor *member; /* room for those of one shard */
};

static void cut_release(struct cut *cut)
{
	free(cut->shard);
	free(cut->member);
}

/* The model's tensors, or the optimizer's. Release in every case. */
static int cut_make(struct cut *cut, const struct checkpoint_content *content, bool optimizer)
{
	uint64_t limit = content->shard_bytes ? content->shard_bytes : SHARD_BYTES;
	*cut = optimizer ? (struct cut){"optimizer", content->optimizer_stem, content->optimizer,
				   content->optimizer_count}
			 : (struct cut){"model", content->model_stem, content->model, content->model_count};
	cut->shard = memory_new(cut->count, sizeof *cut->shard);
	cut->member = memory_new(cut->count, sizeof *cut->member);
	if (!cut->shard || !cut->member)
		return error_status();
	return safetensors_shards(cut->tensor, cut->count, limit, cut->shard, &cut->shards);
}

/* Collects the tensors of one shard in cut->member. */
static size_t cut_collect(struct cut *cut, int shard)
{
	size_t count = 0;
	for (size_t i = 0; i < cut->count; i++)
		if (cut->shard[i] == shard)
			cut->member[count++] = cut->tensor[i];
	return count;
}

static char *index_name(const struct cut *cut)
{
	struct text name = {0};
	text_format(&name, "%s/%s.safetensors.index.json", cut->kind, cut->stem);
	return text_take(&name);
}

/* ---- how much it will be ---- */

static int cut_bytes(struct cut *cut, uint64_t *bytes)
{
	char *text = NULL;
	size_t length = 0;
	int status = STATUS_OK;
	for (int i = 0; i < cut->shards && !status; i++) {
		size_t count = cut_collect(cut, i);
		status = safetensors_header(cut->member, count, &text, &length);
		if (status)
			return status;
		free(text);
		*bytes += length;
		for (size_t j = 0; j < count; j++)
			*bytes += cut->member[j].bytes;
	}
	if (cut->shards > 1) {
		status = safetensors_index(
			cut->stem, cut->tensor, cut->count, cut->shard, cut->shards, &text, &length);
		if (!status) {
			free(text);
			*bytes += length;
		}
	}
	return status;
}

static int tensors_bytes(const struct checkpoint_content *content, bool optimizer, uint64_t *bytes)
{
	struct cut cut;
	int status = cut_make(&cut, content, optimizer);
	if (!status)
		status = cut_bytes(&cut, bytes);
	cut_release(&cut);
	return status;
}

int checkpoint_bytes(const struct checkpoint_content *content, uint64_t *bytes)
{
	*bytes = 0;
	int status = tensors_bytes(content, false, bytes);
	if (!status && content->optimizer)
		status = tensors_bytes(content, true, bytes);
	for (size_t i = 0; i < content->text_count; i++)
		*bytes += content->texts[i].bytes;
	return status;
}

/* ---- building ---- */

/* The full path of a member, its directory made; owned by the caller. */
static char *member_path(const char *directory, const char *name)
{
	char *path = path_join(directory, name);
	char *parent = path ? path_directory(path) : NULL;
	if (!parent || file_make_directories(parent)) {
		free(path);
		path = NULL;
	}
	free(parent);
	return path;
}

static int add_file(struct building *building, const char *name, const void *data, size_t bytes)
{
	struct publish publish = {.descriptor = -1};
	char *path = member_path(building->directory, name);
	int status = path ? publish_open(&publish, path) : error_status();
	if (!status)
		status = publish_write(&publish, data, bytes);
	if (!status) {
		uint32_t crc = publish.crc;
		status = publish_commit(&publish);
		if (!status)
			status = manifest_add(&building->manifest, name, bytes, crc);
	}
	publish_abandon(&publish);
	free(path);
	return status;
}

/* "model/STEM-00001-of-00003.safetensors"; owned by the caller. */
static char *shard_name(const struct cut *cut, int shard)
{
	char *last = safetensors_shard_name(cut->stem, shard, cut->shards);
	char *name = last ? path_join(cut->kind, last) : NULL;
	free(last);
	return name;
}

static int write_shard(const char *directory, struct cut *cut, int shard, struct checkpoint_shard *written)
{
	char *name = shard_name(cut, shard);
	char *path = name ? member_path(directory, name) : NULL;
	int status = path ? STATUS_OK : error_status();
	size_t count = cut_collect(cut, shard);
	if (!status)
		status = safetensors_publish(path, cut->member, count, &written->crc, &written->bytes);
	free(path);
	free(name);
	return status;
}

static int add_shard(
	struct building *building, const struct cut *cut, int shard, const struct checkpoint_shard *written)
{
	char *name = shard_name(cut, shard);
	int status =
		name ? manifest_add(&building->manifest, name, written->bytes, written->crc) : error_status();
	building->bytes += written->bytes;
	free(name);
	return status;
}

static int add_index(struct building *building, const struct cut *cut)
{
	char *json = NULL, *name = index_name(cut);
	size_t bytes;
	int status = name ? safetensors_index(cut->stem, cut->tensor, cut->count, cut->shard, cut->shards,
				    &json, &bytes)
			  : error_status();
	if (!status)
		status = add_file(building, name, json, bytes);
	if (!status)
		building->bytes += bytes;
	free(json);
	free(name);
	return status;
}

/* The shards that were written, and their index. *shards moves behind those of this kind. */
static int add_tensors(struct building *building, const struct checkpoint_content *content, bool optimizer,
	const struct checkpoint_shard **shards)
{
	struct cut cut;
	int status = cut_make(&cut, content, optimizer);
	for (int i = 0; i < cut.shards && !status; i++)
		status = add_shard(building, &cut, i, (*shards)++);
	if (!status && cut.shards > 1)
		status = add_index(building, &cut);
	cut_release(&cut);
	return status;
}

static int add_content(struct building *building, const struct checkpoint_content *content,
	const struct checkpoint_shard *shards)
{
	int status = add_tensors(building, content, false, &shards);
	if (!status && content->optimizer)
		status = add_tensors(building, content, true, &shards);
	for (size_t i = 0; i < content->text_count && !status; i++) {
		const struct checkpoint_text *text = &content->texts[i];
		status = add_file(building, text->path, text->data, text->bytes);
		building->bytes += text->bytes;
	}
	return status;
}

static int add_state(struct building *building, const struct train_state *state)
{
	struct text text = {0};
	train_state_format(state, &text);
	int status = text_check(&text);
	if (!status)
		status = add_file(building, "train.cfg", text.data, text.length);
	text_release(&text);
	return status;
}

/* fsync of the directory and of all below it. */
static int sync_tree(const char *directory)
{
	struct names names = {0};
	int status = file_list(directory, &names);
	for (size_t i = 0; i < names.count && !status; i++) {
		char *path = path_join(directory, names.name[i]);
		status = path ? STATUS_OK : error_status();
		if (!status && file_is_directory(path))
			status = sync_tree(path);
		free(path);
	}
	names_release(&names);
	return status ? status : file_sync_directory(directory);
}

/* ---- publishing ---- */

/* Moves a damaged checkpoint out of the way; it is removed with the other leftovers. */
static int bury(const char *path)
{
	char *dead = path_temporary(path, "dead");
	int status = dead ? file_rename(path, dead) : error_status();
	free(dead);
	return status;
}

/* *whole: a valid one is there already. A damaged one is moved away. */
static int look_before(
	const struct run *run, const struct checkpoint_entry *entry, const char *path, bool *whole)
{
	*whole = false;
	if (!file_exists(path))
		return STATUS_OK;
	int status = checkpoint_judge(run, entry, false);
	*whole = !status;
	if (!checkpoint_is_damage(status))
		return status;
	warn("%s; it is written anew", error_message());
	return bury(path);
}

static int remove_phase(const struct run *run, const struct checkpoint_entry *entry)
{
	char *path = checkpoint_name(run, entry->kind, entry->step, ".phase");
	int status = path ? file_remove(path) : error_status();
	free(path);
	return status;
}

/* The finished directory gets its name. A shift that has just been replaced may have published the same step meanwhile. */
static int put_in_place(
	const struct shift *shift, const struct checkpoint_entry *entry, const char *from, const char *path)
{
	bool whole = false;
	int status = STATUS_OK;
	for (int i = 0; i < PUBLISH_TRIES; i++) {
		status = look_before(shift->run, entry, path, &whole);
		if (!status && whole) {
			checkpoint_discard(from);
			return STATUS_OK;
		}
		if (!status)
			status = shift_fence(shift);
		/* A phase file that is left belongs to a checkpoint that was moved away. */
		if (!status)
			status = remove_phase(shift->run, entry);
		if (!status)
			status = shift_fence(shift);
		if (!status)
			status = file_rename(from, path);
		if (!status || !file_exists(from))
			break;
	}
	return status;
}

static int build(struct building *building, const struct train_state *state,
	const struct checkpoint_content *content, const struct checkpoint_shard *shards)
{
	uint64_t bytes;
	int status = add_content(building, content, shards);
	if (!status && state)
		status = add_state(building, state);
	if (!status)
		status = manifest_publish(&building->manifest, building->directory, &bytes);
	if (!status)
		status = sync_tree(building->directory);
	return status;
}

/* ---- a save in three steps ---- */

static struct checkpoint_entry entry_of(int64_t step, bool weights)
{
	return (struct checkpoint_entry){weights ? CHECKPOINT_WEIGHTS : CHECKPOINT_STEP, step};
}

int checkpoint_shards(const struct checkpoint_content *content, int *count)
{
	struct cut cut;
	int status = cut_make(&cut, content, false);
	*count = status ? 0 : cut.shards;
	cut_release(&cut);
	if (status || !content->optimizer)
		return status;
	status = cut_make(&cut, content, true);
	*count += status ? 0 : cut.shards;
	cut_release(&cut);
	return status;
}

static int mark_share(
	const struct checkpoint_content *content, bool optimizer, int rank, int ranks, int *shard, bool *mine)
{
	struct cut cut;
	int status = cut_make(&cut, content, optimizer);
	for (size_t i = 0; i < cut.count && !status; i++)
		mine[i] = (*shard + cut.shard[i]) % ranks == rank;
	*shard += cut.shards;
	cut_release(&cut);
	return status;
}

int checkpoint_share(
	const struct checkpoint_content *content, int rank, int ranks, bool *model, bool *optimizer)
{
	int shard = 0, status = mark_share(content, false, rank, ranks, &shard, model);
	return status || !content->optimizer ? status
					     : mark_share(content, true, rank, ranks, &shard, optimizer);
}

int checkpoint_begin(const struct shift *shift, int64_t step, bool weights, char **directory)
{
	struct checkpoint_entry entry = entry_of(step, weights);
	bool whole = false;
	char *path = checkpoint_name(shift->run, entry.kind, entry.step, "");
	char *parent = path ? path_directory(path) : NULL;
	int status = parent ? shift_fence(shift) : error_status();
	*directory = NULL;
	if (!status)
		status = file_make_directory(parent);
	if (!status)
		status = look_before(shift->run, &entry, path, &whole);
	if (!status && !whole) {
		*directory = path_temporary(path, "partial");
		status = *directory ? file_make_directory(*directory) : error_status();
	}
	free(parent);
	free(path);
	return shift_failed(shift, status);
}

static int write_share(const char *directory, const struct checkpoint_content *content, bool optimizer,
	int rank, int ranks, int *number, struct checkpoint_shard *shards)
{
	struct cut cut;
	int status = cut_make(&cut, content, optimizer);
	for (int i = 0; i < cut.shards && !status; i++, ++*number)
		if (*number % ranks == rank)
			status = write_shard(directory, &cut, i, &shards[*number]);
	cut_release(&cut);
	return status;
}

int checkpoint_write(const char *directory, const struct checkpoint_content *content, int rank, int ranks,
	struct checkpoint_shard *shards)
{
	int number = 0, status = write_share(directory, content, false, rank, ranks, &number, shards);
	if (!status && content->optimizer)
		status = write_share(directory, content, true, rank, ranks, &number, shards);
	return status;
}

int checkpoint_commit(const struct shift *shift, int64_t step, const struct train_state *state,
	const struct checkpoint_content *content, const char *directory,
	const struct checkpoint_shard *shards)
{
	struct checkpoint_entry entry = entry_of(step, !state);
	struct building building = {.directory = directory};
	char *path = checkpoint_name(shift->run, entry.kind, entry.step, "");
	int status = path ? build(&building, state, content, shards) : error_status();
	if (!status)
		status = put_in_place(shift, &entry, directory, path);
	if (status)
		checkpoint_discard(directory);
	manifest_release(&building.manifest);
	free(path);
	return shift_failed(shift, status);
}

void checkpoint_abandon(const char *directory)
{
	checkpoint_discard(directory);
}

/* ---- a save by one process ---- */

static int publish(const struct shift *shift, int64_t step, const struct train_state *state,
	const struct checkpoint_content *content)
{
	struct checkpoint_shard *shards = NULL;
	char *directory = NULL;
	int count, status = checkpoint_shards(content, &count);
	if (!status)
		status = checkpoint_begin(shift, step, !state, &directory);
	if (status || !directory)
		goto done;
	shards = memory_new((size_t)count, sizeof *shards);
	status = shards ? checkpoint_write(directory, content, 0, 1, shards) : error_status();
	if (status)
		checkpoint_discard(directory);
	else
		status = checkpoint_commit(shift, step, state, content, directory, shards);
done:
	free(shards);
	free(directory);
	return shift_failed(shift, status);
}

int checkpoint_save(const struct shift *shift, const struct train_state *state,
	const struct checkpoint_content *content, double *seconds, uint64_t *bytes)
{
	double start = clock_seconds();
	int status = publish(shift, state->step, state, content);
	if (!status && bytes)
		status = checkpoint_bytes(content, bytes);
	if (seconds)
		*seconds = clock_seconds() - start;
	return status;
}

int checkpoint_save_weights(const struct shift *shift, int64_t step, const struct checkpoint_content *content)
{
	struct checkpoint_content weights = *content;
	weights.optimizer = NULL;
	weights.optimizer_count = 0;
	return publish(shift, step, NULL, &weights);
}
