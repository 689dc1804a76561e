/* safetensors in shards: the rule, the names, diffusers' index.json. */
#include "file/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

enum { SHARDS_LIMIT = 99999, INDEX_LIMIT = 100000000 };

struct numbered {
	const char *name;
	size_t index;
};

static int compare_numbered(const void *a, const void *b)
{
	return strcmp(((const struct numbered *)a)->name, ((const struct numbered *)b)->name);
}

int safetensors_shards(const struct safetensor *tensor, size_t count, uint64_t limit, int *shard, int *shards)
{
	struct numbered *sorted = memory_new(count, sizeof *sorted);
	if (!sorted)
		return error_status();
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct numbered){tensor[i].name, i};
	if (count)
		qsort(sorted, count, sizeof *sorted, compare_numbered);
	int last = 0;
	uint64_t filled = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = tensor[sorted[i].index].bytes;
		if (i && (filled > limit || bytes > limit - filled)) {
			last++;
			filled = 0;
		}
		filled += bytes;
		shard[sorted[i].index] = last;
	}
	free(sorted);
	*shards = last + 1;
	if (*shards > SHARDS_LIMIT)
		return error_set(STATUS_FAILURE, "%d shards, at most %d can be named", *shards, SHARDS_LIMIT);
	return STATUS_OK;
}

char *safetensors_shard_name(const char *stem, int shard, int shards)
{
	struct text name = {0};
	if (shards == 1)
		text_format(&name, "%s.safetensors", stem);
	else
		text_format(&name, "%s-%05d-of-%05d.safetensors", stem, shard + 1, shards);
	return text_take(&name);
}

/* {"metadata": {"total_size": ...}, "weight_map": {...}}; NULL with a message. */
static json_t *make_index(
	const char *stem, const struct safetensor *tensor, size_t count, const int *shard, int shards)
{
	uint64_t total = 0;
	json_t *map = json_object();
	for (size_t i = 0; i < count; i++) {
		char *name = safetensors_shard_name(path_base(stem), shard[i], shards);
		total += tensor[i].bytes;
		if (!name || json_object_set_new(map, tensor[i].name, json_string(name))) {
			if (name)
				error_set(STATUS_FAILURE, "tensor %s: cannot be put into an index",
					tensor[i].name);
			free(name);
			json_decref(map);
			return NULL;
		}
		free(name);
	}
	json_t *root =
		json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
	if (!root)
		error_set(STATUS_FAILURE, "out of memory");
	return root;
}

int safetensors_index(const char *stem, const struct safetensor *tensor, size_t count, const int *shard,
	int shards, char **json, size_t *bytes)
{
	struct text out = {0};
	json_t *root = make_index(stem, tensor, count, shard, shards);
	char *dump = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
	int status = dump ? STATUS_OK : root ? error_set(STATUS_FAILURE, "out of memory") : error_status();
	json_decref(root);
	if (!status) {
		text_add(&out, dump);
		text_add(&out, "\n");
		*bytes = out.length;
		*json = text_take(&out);
		status = *json ? STATUS_OK : error_status();
	}
	free(dump);
	return status;
}

int safetensors_publish_index(const char *path, const char *stem, const struct safetensor *tensor,
	size_t count, const int *shard, int shards)
{
	char *json;
	size_t bytes;
	if (safetensors_index(stem, tensor, count, shard, shards, &json, &bytes))
		return error_prefix("%s", path);
	int status = file_publish(path, json, bytes);
	free(json);
	return status;
}

/* The index's weight_map (owned by the caller), checked: plain shard names ending in .safetensors. */
static int read_map(const char *path, json_t **map)
{
	char *data;
	size_t bytes;
	json_error_t error;
	if (file_read_regular(path, INDEX_LIMIT, &data, &bytes))
		return error_status();
	json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
	free(data);
	if (!root)
		return error_set(STATUS_DATA, "%s:%d: %s", path, error.line, error.text);
	*map = json_incref(json_object_get(root, "weight_map"));
	json_decref(root);
	if (!json_is_object(*map) || !json_object_size(*map))
		return error_set(STATUS_DATA, "%s: holds no weight_map", path);
	const char *name;
	json_t *value;
	json_object_foreach(*map, name, value)
	{
		const char *shard = json_string_value(value);
		if (!shard || strchr(shard, '/') || !text_ends(shard, ".safetensors"))
			return error_set(STATUS_DATA, "%s: tensor %.200s: its shard is not a plain file name",
				path, name);
	}
	return STATUS_OK;
}

/* The shards that the map names, each once, in byte order. */
static int list_shards(json_t *map, struct names *shards)
{
	struct names all = {0};
	const char *name;
	json_t *value;
	int status = STATUS_OK;
	json_object_foreach(map, name, value) if (!status) status = names_add(&all, json_string_value(value));
	names_sort(&all);
	for (size_t i = 0; i < all.count && !status; i++)
		if (!i || strcmp(all.name[i - 1], all.name[i]))
			status = names_add(shards, all.name[i]);
	names_release(&all);
	return status;
}

/* Each tensor of the shard must be mapped to it; *found counts them. */
static int check_shard(
	json_t *map, const char *path, const char *shard, const struct safetensors *file, size_t *found)
{
	for (size_t i = 0; i < file->count; i++) {
		const char *name = file->tensor[i].name;
		const char *mapped = json_string_value(json_object_get(map, name));
		if (!mapped || strcmp(mapped, shard))
			return error_set(STATUS_DATA, "%s: tensor %.200s: the index does not place it here",
				path, name);
		++*found;
	}
	return STATUS_OK;
}

static int read_shards(const char *base, json_t *map, const struct names *shards, struct safetensors *files)
{
	size_t found = 0;
	int status = STATUS_OK;
	for (size_t i = 0; i < shards->count && !status; i++) {
		char *path = path_join(base, shards->name[i]);
		status = path ? safetensors_read(path, &files[i]) : error_status();
		if (!status)
			status = check_shard(map, path, shards->name[i], &files[i], &found);
		free(path);
	}
	if (!status && found != json_object_size(map))
		status = error_set(STATUS_DATA, "%s: the index names %zu tensors, its shards hold %zu", base,
			json_object_size(map), found);
	return status;
}

static void release_files(struct safetensors *files, int count)
{
	for (int i = 0; files && i < count; i++)
		safetensors_release(&files[i]);
	free(files);
}

static int read_indexed(const char *path, struct safetensors **files, int *count)
{
	json_t *map = NULL;
	struct names shards = {0};
	struct safetensors *read = NULL;
	char *base = path_directory(path);
	int status = base ? read_map(path, &map) : error_status();
	if (!status)
		status = list_shards(map, &shards);
	if (!status && shards.count > SHARDS_LIMIT)
		status = error_set(STATUS_DATA, "%s: names %zu shards", path, shards.count);
	if (!status) {
		read = memory_new(shards.count, sizeof *read);
		status = read ? read_shards(base, map, &shards, read) : error_status();
	}
	if (status) {
		release_files(read, (int)shards.count);
	} else {
		*files = read;
		*count = (int)shards.count;
	}
	names_release(&shards);
	json_decref(map);
	free(base);
	return status;
}

static int read_single(const char *path, struct safetensors **files, int *count)
{
	*files = memory_new(1, sizeof **files);
	if (!*files)
		return error_status();
	int status = safetensors_read(path, *files);
	if (status) {
		free(*files);
		*files = NULL;
		return status;
	}
	*count = 1;
	return STATUS_OK;
}

int safetensors_read_directory(
	const char *directory, const char *stem, struct safetensors **files, int *count)
{
	struct text name = {0};
	*files = NULL;
	*count = 0;
	text_format(&name, "%s/%s.safetensors", directory, stem);
	int status = text_check(&name);
	if (!status && file_exists(name.data)) {
		status = read_single(name.data, files, count);
	} else if (!status) {
		text_add(&name, ".index.json");
		status = text_check(&name);
		if (!status && !file_exists(name.data))
			status = error_set(STATUS_NO_INPUT,
				"%s/%s.safetensors: there is neither this file nor its index", directory,
				stem);
		else if (!status)
			status = read_indexed(name.data, files, count);
	}
	text_release(&name);
	return status;
}
