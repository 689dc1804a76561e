/* PyTorch's checkpoints: the reader. */
#include "file/torch.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/pickle.h"
#include "file/zip.h"

#define FILE_LIMIT ((size_t)1 << 40)
enum {
	DIMS = 8,
	KEY_LIMIT = 256,
	PLAIN_DEPTH = 6,
	PLAIN_VALUES = 65536,
	PLAIN_BYTES = 1 << 20,
	PLAIN_TEXT = 4096,
	COPY_FACTOR = 4,
	COPY_SLACK = 1 << 20
};
static const char magic_number[10] = {
	0x6c, (char)0xfc, (char)0x9c, 0x46, (char)0xf9, 0x20, 0x6a, (char)0xa8, 0x50, 0x19};

static const struct storage_type {
	const char *name;
	enum safetensors_type type;
} storage_types[] = {{"Float", SAFETENSORS_F32}, {"Double", SAFETENSORS_F64}, {"Half", SAFETENSORS_F16},
	{"BFloat16", SAFETENSORS_BF16}, {"Long", SAFETENSORS_I64}, {"Int", SAFETENSORS_I32},
	{"Short", SAFETENSORS_I16}, {"Char", SAFETENSORS_I8}, {"Byte", SAFETENSORS_U8},
	{"Bool", SAFETENSORS_BOOL}};

/* What a persistent id says, and where its data are. */
struct storage {
	const char *key;
	bool known; /* of a type of the list above */
	enum safetensors_type type;
	size_t elements, offset;   /* the offset is that of a view of a storage, in old files */
	const unsigned char *data; /* NULL: not in the file */
};

/* A file being taken apart. */
struct parts {
	const unsigned char *data;
	size_t bytes;
	struct pickle pickle;
	struct zip zip;
	struct storage *storage; /* one a key, sorted */
	size_t storages;
	size_t copied; /* bytes that the tensors take */
};

bool torch_is(const void *data, size_t bytes)
{
	return bytes >= 4 && (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "\x80\2\x8a\n", 4) == 0);
}

void torch_release(struct torch_file *file)
{
	safetensors_release(&file->weights);
	text_release(&file->plain);
	*file = (struct torch_file){0};
}

/* ---- storages ---- */

static const char *text_of(const struct pickle_value *value)
{
	return value->kind == PICKLE_TEXT && strlen(value->text) == value->length ? value->text : NULL;
}

static bool count_of(const struct pickle_value *value, size_t *count)
{
	*count = value->kind == PICKLE_INTEGER ? (size_t)value->integer : 0;
	return value->kind == PICKLE_INTEGER && value->integer >= 0;
}

/* "torch.FloatStorage", "torch.cuda.FloatStorage" */
static bool find_type(const char *global, enum safetensors_type *type)
{
	const char *name = text_starts(global, "torch.cuda.") ? global + 11 : global + 6;
	if (!text_starts(global, "torch."))
		return false;
	for (size_t i = 0; i < sizeof storage_types / sizeof *storage_types; i++) {
		size_t length = strlen(storage_types[i].name);
		if (!strncmp(name, storage_types[i].name, length) && !strcmp(name + length, "Storage")) {
			*type = storage_types[i].type;
			return true;
		}
	}
	return false;
}

/* ('storage', type, key, location, elements[, None or (key of the view, offset, elements)]) */
static int parse_storage(const struct pickle_value *persistent, struct storage *storage)
{
	const struct pickle_value *id = persistent->item[0];
	*storage = (struct storage){0};
	if (id->kind != PICKLE_TUPLE || id->count < 5 || !text_of(id->item[0]) ||
		strcmp(text_of(id->item[0]), "storage") != 0 || id->item[1]->kind != PICKLE_GLOBAL)
		return error_set(STATUS_DATA, "a reference to something that is no storage");
	storage->key = text_of(id->item[2]);
	storage->known = find_type(id->item[1]->text, &storage->type);
	if (!storage->key || !*storage->key || strlen(storage->key) > KEY_LIMIT ||
		!count_of(id->item[4], &storage->elements))
		return error_set(STATUS_DATA, "a storage without a proper key and size");
	const struct pickle_value *view = id->count > 5 ? id->item[5] : NULL;
	if (view && view->kind != PICKLE_NONE &&
		(view->kind != PICKLE_TUPLE || view->count != 3 ||
			!count_of(view->item[1], &storage->offset)))
		return error_set(STATUS_DATA, "a storage with a damaged view");
	return STATUS_OK;
}

static int compare_storages(const void *a, const void *b)
{
	return strcmp(((const struct storage *)a)->key, ((const struct storage *)b)->key);
}

static struct storage *find_storage(const struct parts *parts, const char *key)
{
	struct storage wanted = {.key = key};
	return parts->storages
		       ? bsearch(&wanted, parts->storage, parts->storages, sizeof wanted, compare_storages)
		       : NULL;
}

/* One entry a key, of all that the pickle refers to. */
static int list_storages(struct parts *parts)
{
	size_t kept = 0;
	parts->storage = memory_new(parts->pickle.persistents, sizeof *parts->storage);
	if (!parts->storage)
		return error_status();
	for (size_t i = 0; i < parts->pickle.persistents; i++)
		if (parse_storage(parts->pickle.persistent[i], &parts->storage[i]))
			return error_status();
	parts->storages = parts->pickle.persistents;
	if (parts->storages)
		qsort(parts->storage, parts->storages, sizeof *parts->storage, compare_storages);
	for (size_t i = 0; i < parts->storages; i++) {
		struct storage *last = kept ? &parts->storage[kept - 1] : NULL, *next = &parts->storage[i];
		if (!last || strcmp(last->key, next->key) != 0)
			parts->storage[kept++] = *next;
		else if (last->known != next->known || last->type != next->type ||
			 last->elements != next->elements)
			return error_set(STATUS_DATA, "storage %s is described in two ways", next->key);
	}
	parts->storages = kept;
	return STATUS_OK;
}

/* ---- tensors ---- */

struct view {
	const struct storage *storage;
	size_t offset; /* elements */
	size_t stride[DIMS];
	struct safetensor tensor; /* name owned */
};

static int parse_sizes(
	const struct pickle_value *sizes, const struct pickle_value *strides, struct view *view)
{
	size_t count = 1;
	if (sizes->kind != PICKLE_TUPLE || strides->kind != PICKLE_TUPLE || sizes->count != strides->count)
		return error_set(STATUS_DATA, "sizes and strides do not go together");
	if (sizes->count > DIMS)
		return error_set(STATUS_DATA, "%zu dimensions, at most %d are supported", sizes->count, DIMS);
	view->tensor.dims = (int)sizes->count;
	for (size_t i = 0; i < sizes->count; i++) {
		size_t size;
		if (!count_of(sizes->item[i], &size) || !count_of(strides->item[i], &view->stride[i]) ||
			size_multiply(count, size, &count))
			return error_set(STATUS_DATA, "sizes or strides out of range");
		view->tensor.dim[i] = (int64_t)size;
	}
	if (size_multiply(count, safetensors_type_size(view->tensor.type), &view->tensor.bytes))
		return error_set(STATUS_DATA, "sizes or strides out of range");
	return STATUS_OK;
}

/* The last element must lie inside the storage. */
static int check_extent(const struct view *view)
{
	size_t last = view->offset;
	for (int i = 0; i < view->tensor.dims; i++) {
		size_t step;
		if (size_multiply(view->stride[i], (size_t)view->tensor.dim[i] - 1, &step) ||
			size_add(last, step, &last))
			return error_set(STATUS_DATA, "reaches beyond its storage");
	}
	return last < view->storage->elements ? STATUS_OK
					      : error_set(STATUS_DATA, "reaches beyond its storage");
}

/* The arguments of the call that makes a tensor, under the wrapper of a parameter; NULL for anything else. */
static const struct pickle_value *tensor_arguments(const struct pickle_value *value)
{
	if (!strcmp(pickle_maker(value), "torch._utils._rebuild_parameter") && value->item[1]->count)
		value = value->item[1]->item[0];
	const char *maker = pickle_maker(value);
	bool tensor = !strcmp(maker, "torch._utils._rebuild_tensor_v2") ||
		      !strcmp(maker, "torch._utils._rebuild_tensor");
	return tensor && value->item[1]->count >= 4 ? value->item[1] : NULL;
}

static int parse_tensor(const struct parts *parts, const struct pickle_value *value, struct view *view)
{
	const struct pickle_value *arguments = tensor_arguments(value);
	struct storage here;
	if (!arguments && value->kind == PICKLE_OBJECT)
		return error_set(
			STATUS_DATA, "is made by %.100s, which is not supported", pickle_maker(value));
	if (!arguments || arguments->item[0]->kind != PICKLE_PERSISTENT)
		return error_set(STATUS_DATA, "is no tensor");
	if (parse_storage(arguments->item[0], &here))
		return error_status();
	view->storage = find_storage(parts, here.key);
	if (!view->storage || !here.known)
		return error_set(STATUS_DATA, "its elements are a %.100s, which is not supported",
			arguments->item[0]->item[0]->item[1]->text);
	view->tensor.type = here.type;
	if (!count_of(arguments->item[1], &view->offset) ||
		size_add(view->offset, here.offset, &view->offset))
		return error_set(STATUS_DATA, "begins before its storage");
	int status = parse_sizes(arguments->item[2], arguments->item[3], view);
	if (!status && view->tensor.bytes)
		status = check_extent(view);
	if (!status && view->tensor.bytes && !view->storage->data)
		status = error_set(STATUS_DATA, "the data of its storage %s are missing", view->storage->key);
	return status;
}

static bool is_contiguous(const struct view *view)
{
	size_t expected = 1;
	for (int i = view->tensor.dims; i-- > 0;) {
		if (view->tensor.dim[i] != 1 && view->stride[i] != expected)
			return false;
		expected *= (size_t)view->tensor.dim[i];
	}
	return true;
}

static const unsigned char *first_element(const struct view *view)
{
	return view->storage->data + view->offset * safetensors_type_size(view->tensor.type);
}

/* Element by element, the last dimension fastest. */
static void gather(const struct view *view, unsigned char *out)
{
	size_t size = safetensors_type_size(view->tensor.type), index[DIMS] = {0};
	size_t at = view->offset;
	for (size_t done = 0; done < view->tensor.bytes; done += size) {
		memcpy(out + done, view->storage->data + at * size, size);
		for (int i = view->tensor.dims; i-- > 0;) {
			at += view->stride[i];
			if (++index[i] < (size_t)view->tensor.dim[i])
				break;
			at -= view->stride[i] * index[i];
			index[i] = 0;
		}
	}
}

/* ---- the state dict ---- */

static const struct pickle_value *find_state_dict(const struct pickle_value *value)
{
	static const char *const keys[] = {"state_dict", "model_state_dict", "model"};
	struct pickle_value **item;
	size_t pairs;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const struct pickle_value *inner = pickle_get(value, keys[i]);
		if (pickle_dict(inner, &item, &pairs))
			return inner;
	}
	return value;
}

static int compare_views(const void *a, const void *b)
{
	return strcmp(((const struct view *)a)->tensor.name, ((const struct view *)b)->tensor.name);
}

/* Views may repeat what the file has, without end: no more than a few times its bytes are taken. */
static int count_copy(struct parts *parts, size_t bytes)
{
	size_t limit = parts->bytes * COPY_FACTOR + COPY_SLACK;
	if (bytes > limit || parts->copied > limit - bytes)
		return error_set(STATUS_DATA, "its tensors are much larger than the file");
	parts->copied += (bytes + 63) / 64 * 64;
	return STATUS_OK;
}

static int list_views(struct parts *parts, struct view **views, size_t *count)
{
	struct pickle_value **item;
	size_t pairs;
	if (!pickle_dict(find_state_dict(parts->pickle.value), &item, &pairs))
		return error_set(STATUS_DATA, "holds no state dict (a dict of tensors by name)");
	if (!pairs)
		return error_set(STATUS_DATA, "its state dict is empty");
	*views = memory_new(pairs, sizeof **views);
	if (!*views)
		return error_status();
	for (size_t i = 0; i < pairs; i++) {
		struct view *view = &(*views)[i];
		const char *key = text_of(item[2 * i]);
		if (!key || !*key)
			return error_set(STATUS_DATA, "holds no state dict (a dict of tensors by name)");
		view->tensor.name = memory_text(key);
		if (!view->tensor.name)
			return error_status();
		*count = i + 1;
		if (parse_tensor(parts, item[2 * i + 1], view))
			return error_prefix("entry %.200s", key);
		if (count_copy(parts, view->tensor.bytes))
			return error_status();
	}
	qsort(*views, pairs, sizeof **views, compare_views);
	for (size_t i = 1; i < pairs; i++)
		if (!compare_views(&(*views)[i - 1], &(*views)[i]))
			return error_set(
				STATUS_DATA, "tensor %.200s is there twice", (*views)[i].tensor.name);
	return STATUS_OK;
}

/* Whether all tensors can stay where they are in the file. */
static bool can_stay(const struct view *views, size_t count)
{
	bool stay = true;
	for (size_t i = 0; i < count && stay; i++)
		stay = is_contiguous(&views[i]) &&
		       (!views[i].tensor.bytes ||
			       (uintptr_t)first_element(&views[i]) %
					       safetensors_type_size(views[i].tensor.type) ==
				       0);
	return stay;
}

/* Moves the tensors out, and with them the file's memory or a copy. */
static int adopt(
	const struct parts *parts, struct view *views, size_t count, void **data, struct torch_file *file)
{
	struct safetensors *weights = &file->weights;
	bool stay = can_stay(views, count);
	size_t place = 0;
	weights->tensor = memory_new(count, sizeof *weights->tensor);
	weights->buffer_bytes = stay ? parts->bytes : parts->copied;
	weights->buffer = stay ? *data : memory_new(weights->buffer_bytes, 1);
	if (stay)
		*data = NULL;
	if (!weights->tensor || !weights->buffer)
		return error_status();
	for (size_t i = 0; i < count; i++) {
		unsigned char *copy = (unsigned char *)weights->buffer + place;
		if (!stay)
			gather(&views[i], copy);
		weights->tensor[i] = views[i].tensor;
		weights->tensor[i].data = stay && views[i].tensor.bytes ? first_element(&views[i]) : copy;
		views[i].tensor.name = NULL;
		place += stay ? 0 : (views[i].tensor.bytes + 63) / 64 * 64;
	}
	weights->count = count;
	return STATUS_OK;
}

/* ---- plain values ---- */

struct walk {
	const struct pickle_value *without; /* the state dict */
	struct text path, *out;
	size_t left; /* values may be shared many times over, and hold themselves */
};

static bool add_plain(const struct pickle_value *value, struct text *out)
{
	switch (value->kind) {
	case PICKLE_NONE:
		text_add(out, "None");
		return true;
	case PICKLE_BOOL:
		text_add(out, value->integer ? "True" : "False");
		return true;
	case PICKLE_INTEGER:
		text_format(out, "%lld", (long long)value->integer);
		return true;
	case PICKLE_FLOAT:
		text_number(out, value->number);
		return true;
	case PICKLE_TEXT:
		if (value->length <= PLAIN_TEXT)
			text_field(out, value->text);
		return value->length <= PLAIN_TEXT;
	default:
		return false;
	}
}

static bool is_list(const struct pickle_value *value)
{
	return value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE;
}

/* A value, or the values of a list with commas between them. */
static bool add_value(const struct pickle_value *value, struct text *out)
{
	bool plain = true;
	if (!is_list(value))
		return add_plain(value, out);
	for (size_t i = 0; i < value->count && plain; i++) {
		text_add(out, i ? "," : "");
		plain = add_plain(value->item[i], out) && out->length <= PLAIN_BYTES;
	}
	return plain;
}

static void walk_plain(struct walk *walk, const struct pickle_value *value, int depth);

static void walk_item(struct walk *walk, const struct pickle_value *key, size_t number,
	const struct pickle_value *value, int depth)
{
	struct text *path = &walk->path;
	size_t length = path->length;
	text_add(path, length ? "." : "");
	if (!key)
		text_format(path, "%zu", number);
	else if (!add_plain(key, path))
		text_add(path, "?");
	walk_plain(walk, value, depth);
	if (path->data)
		path->data[path->length = length] = 0;
}

/* Appends a line for each plain value at or below `value`. */
static void walk_plain(struct walk *walk, const struct pickle_value *value, int depth)
{
	struct pickle_value **item = value->item;
	size_t count = value->count, begin = walk->out->length;
	bool dict = pickle_dict(value, &item, &count);
	if (value == walk->without || depth > PLAIN_DEPTH || count >= walk->left ||
		walk->out->length > PLAIN_BYTES)
		return;
	walk->left -= count + 1;
	if (!dict) {
		text_format(walk->out, "%s\t", walk->path.length ? walk->path.data : "");
		if (add_value(value, walk->out)) {
			text_add(walk->out, "\n");
			return;
		}
		walk->out->length = begin;
	}
	for (size_t i = 0; (dict || is_list(value)) && i < count; i++)
		walk_item(walk, dict ? item[2 * i] : NULL, i, item[dict ? 2 * i + 1 : i], depth + 1);
}

static int list_plain(const struct parts *parts, struct text *out)
{
	struct walk walk = {
		.without = find_state_dict(parts->pickle.value), .out = out, .left = PLAIN_VALUES};
	if (walk.without != parts->pickle.value)
		walk_plain(&walk, parts->pickle.value, 0);
	if (out->data)
		out->data[out->length] = 0;
	int status = text_check(&walk.path);
	text_release(&walk.path);
	return status ? status : text_check(out);
}

/* ---- the two forms ---- */

/* "archive/data.pkl" -> the length of "archive/"; the archive's name is whatever the file was called. */
static int find_top(const struct parts *parts, const struct zip_member **pickle, size_t *top)
{
	*pickle = NULL;
	for (size_t i = 0; i < parts->zip.count; i++) {
		const struct zip_member *member = &parts->zip.member[i];
		const char *slash = strchr(member->name, '/');
		if (slash && !strcmp(slash, "/constants.pkl"))
			return error_set(STATUS_DATA,
				"a TorchScript archive; save the state_dict() of the module instead");
		if (slash && !strcmp(slash, "/data.pkl")) {
			*pickle = member;
			*top = (size_t)(slash + 1 - member->name);
		}
	}
	return *pickle ? STATUS_OK
		       : error_set(STATUS_DATA, "a zip archive that PyTorch did not write (no data.pkl)");
}

/* The member TOP/NAME; NULL when there is none. */
static const struct zip_member *member_of(const struct parts *parts, const struct zip_member *pickle,
	size_t top, const char *folder, const char *name)
{
	struct text path = {0};
	text_append(&path, pickle->name, top);
	text_format(&path, "%s%s", folder, name);
	const struct zip_member *member = text_check(&path) ? NULL : zip_find(&parts->zip, path.data);
	text_release(&path);
	return member;
}

static int read_zip(struct parts *parts)
{
	const struct zip_member *pickle, *order;
	size_t top = 0;
	int status = zip_decode("zip archive", parts->data, parts->bytes, &parts->zip);
	if (!status)
		status = find_top(parts, &pickle, &top);
	if (status)
		return status;
	if (!pickle->data)
		return error_set(STATUS_DATA, "compressed; PyTorch stores members as they are");
	order = member_of(parts, pickle, top, "", "byteorder");
	if (order && (!order->data || order->bytes < 6 || memcmp(order->data, "little", 6) != 0))
		return error_set(STATUS_DATA, "written on a machine of the other byte order");
	status = pickle_read("data.pkl", pickle->data, pickle->bytes, NULL, &parts->pickle);
	if (!status)
		status = list_storages(parts);
	for (size_t i = 0; i < parts->storages && !status; i++) {
		struct storage *storage = &parts->storage[i];
		const struct zip_member *member = member_of(parts, pickle, top, "data/", storage->key);
		if (!member || !storage->known)
			continue;
		if (member->bytes / safetensors_type_size(storage->type) < storage->elements)
			status = error_set(STATUS_DATA, "storage %s has %zu bytes for %zu elements",
				storage->key, member->bytes, storage->elements);
		storage->data = member->data;
	}
	return status;
}

/* Five pickles (a magic number, a version, the machine, the object, the keys), then a count and data for each key. */
static int read_next(struct parts *parts, size_t *place, struct pickle *pickle)
{
	size_t used = 0;
	int status = pickle_read("legacy file", parts->data + *place, parts->bytes - *place, &used, pickle);
	*place += used;
	return status;
}

static int check_legacy_head(struct parts *parts, size_t *place)
{
	struct pickle magic = {0}, version = {0}, machine = {0};
	int status = read_next(parts, place, &magic);
	if (!status && (magic.value->kind != PICKLE_LONG || magic.value->length != sizeof magic_number ||
			       memcmp(magic.value->text, magic_number, sizeof magic_number) != 0))
		status = error_set(STATUS_DATA, "a pickle that PyTorch did not write");
	if (!status)
		status = read_next(parts, place, &version);
	if (!status && (version.value->kind != PICKLE_INTEGER || version.value->integer != 1001))
		status = error_set(STATUS_DATA, "of a version of PyTorch's format that is not supported");
	if (!status)
		status = read_next(parts, place, &machine);
	const struct pickle_value *little = status ? NULL : pickle_get(machine.value, "little_endian");
	if (little && !little->integer)
		status = error_set(STATUS_DATA, "written on a machine of the other byte order");
	pickle_release(&magic);
	pickle_release(&version);
	pickle_release(&machine);
	return status;
}

static int read_legacy_storage(struct parts *parts, const struct pickle_value *key, size_t *place)
{
	size_t elements = 0;
	struct storage *storage = text_of(key) ? find_storage(parts, text_of(key)) : NULL;
	if (!storage || !storage->known)
		return error_set(STATUS_DATA, "a storage of a type that is not supported");
	if (parts->bytes - *place < 8)
		return error_set(STATUS_DATA, "the file is cut");
	for (int i = 0; i < 8; i++)
		elements |= (size_t)parts->data[*place + (size_t)i] << (8 * i);
	*place += 8;
	size_t size = safetensors_type_size(storage->type);
	if (elements > (parts->bytes - *place) / size)
		return error_set(STATUS_DATA, "the file is cut");
	if (elements < storage->elements)
		return error_set(
			STATUS_DATA, "storage %s has fewer elements than its tensors say", storage->key);
	storage->data = parts->data + *place;
	storage->elements = elements; /* of views the whole */
	*place += elements * size;
	return STATUS_OK;
}

static int read_legacy(struct parts *parts)
{
	struct pickle keys = {0};
	size_t place = 0;
	int status = check_legacy_head(parts, &place);
	if (!status)
		status = read_next(parts, &place, &parts->pickle);
	if (!status)
		status = list_storages(parts);
	if (!status)
		status = read_next(parts, &place, &keys);
	if (!status && keys.value->kind != PICKLE_LIST)
		status = error_set(STATUS_DATA, "a damaged list of storages");
	for (size_t i = 0; !status && i < keys.value->count; i++)
		status = read_legacy_storage(parts, keys.value->item[i], &place);
	if (!status && place != parts->bytes)
		status = error_set(STATUS_DATA, "%zu bytes behind its end", parts->bytes - place);
	pickle_release(&keys);
	return status;
}

int torch_take(const char *name, void *data, size_t bytes, struct torch_file *file)
{
	struct parts parts = {.data = data, .bytes = bytes};
	struct view *views = NULL;
	size_t count = 0;
	*file = (struct torch_file){0};
	int status = !torch_is(data, bytes) ? error_set(STATUS_DATA, "not a file of PyTorch")
		     : parts.data[0] == 'P' ? read_zip(&parts)
					    : read_legacy(&parts);
	if (!status)
		status = list_views(&parts, &views, &count);
	if (!status)
		status = list_plain(&parts, &file->plain);
	if (!status)
		status = adopt(&parts, views, count, &data, file);
	if (!status)
		file->stripped = safetensors_strip(&file->weights, "module.");
	for (size_t i = 0; i < count; i++)
		free(views[i].tensor.name);
	free(views);
	free(parts.storage);
	pickle_release(&parts.pickle);
	zip_release(&parts.zip);
	free(data);
	if (!status)
		return STATUS_OK;
	torch_release(file);
	return error_prefix("%s", name);
}

int torch_read(const char *path, struct torch_file *file)
{
	char *data;
	size_t bytes;
	*file = (struct torch_file){0};
	if (file_read_regular(path, FILE_LIMIT, &data, &bytes))
		return error_status();
	return torch_take(path, data, bytes, file);
}
