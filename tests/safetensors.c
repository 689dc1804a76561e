/* safetensors: bytes and values of the reference library's files, every check of the reader, shards and their index. */
#include "check.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "file/safetensors.h"

#define GOLDEN "tests/golden/files/"

static bool same_file(const char *a, const char *b)
{
	char *x = NULL, *y = NULL;
	size_t x_bytes, y_bytes;
	bool same = !file_read(a, 1 << 20, &x, &x_bytes) && !file_read(b, 1 << 20, &y, &y_bytes) &&
		    x_bytes == y_bytes && !memcmp(x, y, x_bytes);
	free(x);
	free(y);
	return same;
}

/* Read, turned around, written: the reference library's bytes. */
static void test_reference_bytes(void)
{
	struct safetensors file;
	char path[512], *data, *header;
	uint32_t crc;
	uint64_t bytes;
	size_t header_bytes, read_bytes;
	if (!check_status(safetensors_read(GOLDEN "types.safetensors", &file), 0, "read types.safetensors"))
		return;
	check(file.count == 17, "all tensors are there");
	for (size_t i = 0; i < file.count / 2; i++) {
		struct safetensor last = file.tensor[file.count - 1 - i];
		file.tensor[file.count - 1 - i] = file.tensor[i];
		file.tensor[i] = last;
	}
	snprintf(path, sizeof path, "%s/types.safetensors", check_scratch());
	check_status(safetensors_publish(path, file.tensor, file.count, &crc, &bytes), 0, "publish it");
	check(same_file(path, GOLDEN "types.safetensors"),
		"the reference library's bytes for the same tensors");
	check_status(file_read(path, 1 << 20, &data, &read_bytes), 0, "read it");
	check(bytes == read_bytes && crc == crc32c(0, data, read_bytes),
		"length and CRC-32C are those of the file");
	check_status(safetensors_header(file.tensor, file.count, &header, &header_bytes), 0, "header alone");
	check(header_bytes < read_bytes && header_bytes % 8 == 0 && !memcmp(header, data, header_bytes),
		"the header alone is that of the file");
	free(header);
	free(data);
	safetensors_release(&file);
}

static void test_values(void)
{
	struct safetensors file;
	float value[24];
	if (!check_status(safetensors_read(GOLDEN "types.safetensors", &file), 0, "read types.safetensors"))
		return;
	const struct safetensor *block = safetensors_find(&file, "d.block");
	check(block && block->dims == 4 && block->dim[0] == 1 && block->dim[3] == 4 && block->bytes == 96,
		"shape");
	check_status(safetensors_to_float(block, value), 0, "floats");
	check(value[0] == 0 && value[23] == 23, "values");
	const struct safetensor *scalar = safetensors_find(&file, "a.scalar");
	check(scalar && scalar->dims == 0 && scalar->bytes == 4, "scalar");
	const struct safetensor *empty = safetensors_find(&file, "b.empty");
	check(empty && empty->dims == 2 && empty->bytes == 0, "tensor without elements");
	check(safetensors_find(&file, "c \"quoted\" \\ \t \x01 \xc3\xa9") != NULL, "escaped name");
	check(!safetensors_find(&file, "nothing"), "unknown name");
	check_status(
		safetensors_to_float(safetensors_find(&file, "i64.weight"), value), STATUS_DATA, "integers");
	check(strstr(error_message(), "i64.weight") && strstr(error_message(), "I64"), "says which and what");
	for (size_t i = 1; i < file.count; i++)
		if (strcmp(file.tensor[i - 1].name, file.tensor[i].name) >= 0)
			check(false, "sorted by name");
	safetensors_release(&file);
}

/* A file of this header and `data_bytes` zero bytes. */
static int decode(const char *header, size_t data_bytes, struct safetensors *file)
{
	struct text text = {0};
	uint64_t length = strlen(header);
	text_append(&text, (const char *)&length, sizeof length);
	text_add(&text, header);
	for (size_t i = 0; i < data_bytes; i++)
		text_append(&text, "", 1);
	int status = safetensors_decode("x.safetensors", text.data, text.length, file);
	text_release(&text);
	return status;
}

static void check_good(const char *header, size_t data_bytes)
{
	struct safetensors file;
	check_status(decode(header, data_bytes, &file), STATUS_OK, header);
	safetensors_release(&file);
}

static void check_bad(const char *header, size_t data_bytes, const char *message)
{
	struct safetensors file;
	char name[200];
	snprintf(name, sizeof name, "refused: %.150s", header);
	check_status(decode(header, data_bytes, &file), STATUS_DATA, name);
	check(!file.tensor && !file.buffer && !file.count, name);
	check_report(text_starts(error_message(), "x.safetensors: ") && strstr(error_message(), message),
		name, "says '%s'", error_message());
}

#define A(rest) "{\"a\":{\"dtype\":\"F32\",\"shape\":" rest "}}"

static void test_layout(void)
{
	check_good(A("[1],\"data_offsets\":[0,4]"), 4);
	check_good(A("[1],\"data_offsets\":[0,4]") "   ", 4);
	check_good(A("[],\"data_offsets\":[0,4]"), 4);
	check_good("{}", 0);
	check_good("{\"__metadata__\":{\"x\":\"y\"}}", 0);
	check_good("{\"a\":{\"data_offsets\":[4,8],\"shape\":[1],\"dtype\":\"I32\"},"
		   "\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}",
		8);
	check_good("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
		   "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
		4);
	check_bad(A("[1],\"data_offsets\":[0,4]"), 5, "5 bytes of data");
	check_bad(A("[1],\"data_offsets\":[0,4]"), 3, "the file is cut");
	check_bad(A("[1],\"data_offsets\":[1,5]"), 5, "begin at byte 1, expected 0");
	check_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
		6, "begin at byte 2, expected 4");
	check_bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[6,10]}}",
		10, "begin at byte 6, expected 4");
	check_bad("{}", 1, "1 bytes of data");
	check_bad(A("[2],\"data_offsets\":[0,4]"), 4, "has 4 bytes where its shape needs 8");
	check_bad(A("[1],\"data_offsets\":[4,0]"), 4, "rising");
	check_bad(A("[1],\"data_offsets\":[-4,0]"), 4, "rising");
	check_bad(A("[1],\"data_offsets\":[0,4,8]"), 4, "rising");
	check_bad(A("[1],\"data_offsets\":[0.0,4.0]"), 4, "rising");
	check_bad(A("[4611686018427387904,4],\"data_offsets\":[0,4]"), 4, "too large");
	check_bad(A("[4611686018427387904],\"data_offsets\":[0,4]"), 4, "too large");
	check_bad(A("[-1],\"data_offsets\":[0,4]"), 4, "not a size");
	check_bad(A("[1.0],\"data_offsets\":[0,4]"), 4, "not a size");
	check_bad(A("1,\"data_offsets\":[0,4]"), 4, "not an array");
	check_bad(A("[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, "9 dimensions");
}

static void test_header(void)
{
	check_bad("", 0, "does not begin with {");
	check_bad(" {}", 0, "does not begin with {");
	check_bad("[]", 0, "does not begin with {");
	check_bad("{", 0, "header: ");
	check_bad("{} x", 0, "behind its end");
	check_bad("{}\t", 0, "behind its end");
	check_bad("{}{}", 0, "behind its end");
	check_bad("{\"a\xff\":1}", 0, "header: ");
	check_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
		  "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
		0, "duplicate");
	check_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
		  "\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
		0, "duplicate");
	check_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, "tensor a: its entry is not");
	check_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}", 0,
		"its entry is not");
	check_bad("{\"a\":1}", 0, "its entry is not");
	check_bad("{\"a\":{\"dtype\":\"F31\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "type F31");
	check_bad("{\"a\":{\"dtype\":4,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "dtype is not a string");
	check_bad("{\"__metadata__\":1}", 0, "__metadata__ is not an object");
	check_bad("{\"__metadata__\":{\"a\":1}}", 0, "not a string");
	struct text deep = {0};
	text_add(&deep, "{\"a\":");
	for (int i = 0; i < 100000; i++)
		text_add(&deep, "[");
	check_bad(deep.data, 0, "header: ");
	text_release(&deep);
	struct safetensors file;
	static const unsigned char long_header[16] = {0, 0, 0, 0, 1};
	static const unsigned char cut_header[16] = {9};
	check_status(safetensors_decode("x", "1234567", 7, &file), STATUS_DATA, "seven bytes");
	check_status(safetensors_decode("x", long_header, 16, &file), STATUS_DATA, "header of 4 GiB");
	check_status(
		safetensors_decode("x", cut_header, 16, &file), STATUS_DATA, "header longer than the file");
	check(strstr(error_message(), "ends within its header") != NULL, "says so");
}

/* Truncation is always found. */
static void test_cut(void)
{
	char *data;
	size_t bytes, accepted = 0;
	struct safetensors file;
	if (!check_status(file_read(GOLDEN "types.safetensors", 1 << 20, &data, &bytes), 0,
		    "read types.safetensors"))
		return;
	for (size_t length = 0; length < bytes; length++) {
		char *copy = memory_copy(data, length);
		accepted += safetensors_decode("cut", copy, length, &file) != STATUS_DATA;
		free(copy);
	}
	check_report(!accepted, "a file cut anywhere is refused", "%zu lengths were accepted", accepted);
	free(data);
}

/* A header that is not a multiple of 8 long must not leave floats unaligned. */
static void test_alignment(void)
{
	struct safetensors file;
	check_status(decode(A("[1],\"data_offsets\":[0,4]"), 4, &file), 0, "header of 53 bytes");
	check((uintptr_t)file.tensor[0].data % 4 == 0, "data are aligned all the same");
	safetensors_release(&file);
}

static void test_writer_refusals(void)
{
	float value[2] = {1, 2};
	struct safetensor tensors[] = {
		{.name = "a", .type = SAFETENSORS_F32, .dims = 1, .dim = {2}, .bytes = 8, .data = value},
		{.name = "a", .type = SAFETENSORS_F32, .dims = 1, .dim = {2}, .bytes = 8, .data = value}};
	char path[512], inside[600];
	snprintf(path, sizeof path, "%s/refused.safetensors", check_scratch());
	check_status(safetensors_publish(path, tensors, 2, NULL, NULL), STATUS_FAILURE, "a name twice");
	tensors[0].bytes = 4;
	check_status(
		safetensors_publish(path, tensors, 1, NULL, NULL), STATUS_FAILURE, "bytes that do not fit");
	tensors[0] = tensors[1];
	tensors[0].name = "__metadata__";
	check_status(safetensors_publish(path, tensors, 1, NULL, NULL), STATUS_FAILURE, "reserved name");
	check(!file_exists(path), "nothing was written");
	snprintf(inside, sizeof inside, "%s/x.safetensors", path);
	check_status(safetensors_publish(inside, &tensors[1], 1, NULL, NULL), STATUS_CANNOT_CREATE,
		"no directory to write to");
}

/* diffusers' own sharded save, read, sharded by our rule and written: all its bytes. */
static void test_diffusers_shards(void)
{
	static const char stem[] = "diffusion_pytorch_model";
	struct safetensors *files = NULL;
	struct safetensor all[16];
	int count, shard[16], shards;
	size_t total = 0;
	char path[512];
	if (!check_status(
		    safetensors_read_directory(GOLDEN "sharded", stem, &files, &count), 0, "read shards"))
		return;
	check(count == 2, "two shards");
	for (int i = count - 1; i >= 0; i--)
		for (size_t k = 0; k < files[i].count && total < 16; k++)
			all[total++] = files[i].tensor[k];
	check(total == 8, "eight tensors");
	check_status(safetensors_shards(all, total, 200, shard, &shards), 0, "shard them");
	check(shards == 2, "into two");
	for (int s = 0; s < shards; s++) {
		struct safetensor mine[16];
		size_t mine_count = 0;
		for (size_t i = 0; i < total; i++)
			if (shard[i] == s)
				mine[mine_count++] = all[i];
		char *name = safetensors_shard_name(stem, s, shards);
		char golden[256];
		snprintf(path, sizeof path, "%s/%s", check_scratch(), name);
		snprintf(golden, sizeof golden, GOLDEN "sharded/%s", name);
		check_status(safetensors_publish(path, mine, mine_count, NULL, NULL), 0, name);
		check(same_file(path, golden), name);
		free(name);
	}
	snprintf(path, sizeof path, "%s/%s.safetensors.index.json", check_scratch(), stem);
	check_status(safetensors_publish_index(path, stem, all, total, shard, shards), 0, "write the index");
	check(same_file(path, GOLDEN "sharded/diffusion_pytorch_model.safetensors.index.json"),
		"diffusers' index.json");
	for (int i = 0; i < count; i++)
		safetensors_release(&files[i]);
	free(files);
	check_status(
		safetensors_read_directory(check_scratch(), stem, &files, &count), 0, "read our own shards");
	for (int i = 0; i < count; i++)
		safetensors_release(&files[i]);
	free(files);
}

static void test_rule(void)
{
	struct safetensor tensors[] = {{.name = "d", .bytes = 3}, {.name = "b", .bytes = 20},
		{.name = "c", .bytes = 9}, {.name = "a", .bytes = 4}, {.name = "e", .bytes = 7}};
	int shard[5], shards;
	check_status(safetensors_shards(tensors, 5, 10, shard, &shards), 0, "rule");
	check(shards == 4 && shard[3] == 0 && shard[1] == 1 && shard[2] == 2 && shard[0] == 3 &&
			shard[4] == 3,
		"in order of names; a larger tensor stands alone");
	check_status(safetensors_shards(tensors, 5, 1000, shard, &shards), 0, "rule");
	check(shards == 1, "one shard where all fits");
	check_status(safetensors_shards(tensors, 0, 10, shard, &shards), 0, "rule");
	check(shards == 1, "one shard for nothing");
	char *name = safetensors_shard_name("dir/model", 0, 1);
	check_text(name, "dir/model.safetensors", "single name");
	free(name);
	name = safetensors_shard_name("dir/model", 0, 12);
	check_text(name, "dir/model-00001-of-00012.safetensors", "name of a shard");
	free(name);
}

static void check_index(const char *index, int status, const char *message)
{
	char path[512];
	struct safetensors *files;
	int count;
	snprintf(path, sizeof path, "%s/m.safetensors.index.json", check_scratch());
	check_status(file_publish(path, index, strlen(index)), 0, "index");
	check_status(safetensors_read_directory(check_scratch(), "m", &files, &count), status, index);
	check(!files && !count, index);
	check_report(strstr(error_message(), message) && strstr(error_message(), check_scratch()), index,
		"says '%s'", error_message());
}

static void test_index(void)
{
	float value = 1;
	struct safetensor tensor = {.name = "a", .type = SAFETENSORS_F32, .bytes = 4, .data = &value};
	char path[512];
	struct safetensors *files;
	int count;
	check_status(safetensors_read_directory(check_scratch(), "m", &files, &count), STATUS_NO_INPUT,
		"nothing there");
	check(strstr(error_message(), "m.safetensors: there is neither") != NULL, "says so");
	snprintf(path, sizeof path, "%s/m-00001-of-00002.safetensors", check_scratch());
	check_status(safetensors_publish(path, &tensor, 1, NULL, NULL), 0, "a shard");
	check_index("{\"weight_map\":{\"a\":\"m-00001-of-00002.safetensors\",\"b\":\"m-00001-of-00002."
		    "safetensors\"}}",
		STATUS_DATA, "names 2 tensors, its shards hold 1");
	check_index("{\"weight_map\":{\"b\":\"m-00001-of-00002.safetensors\"}}", STATUS_DATA,
		"tensor a: the index does not");
	check_index("{\"weight_map\":{\"a\":\"gone.safetensors\"}}", STATUS_NO_INPUT, "gone.safetensors");
	check_index("{\"weight_map\":{\"a\":\"../m-00001-of-00002.safetensors\"}}", STATUS_DATA,
		"not a plain file name");
	check_index("{\"weight_map\":{\"a\":\"x.bin\"}}", STATUS_DATA, "not a plain file name");
	check_index("{\"weight_map\":{\"a\":1}}", STATUS_DATA, "not a plain file name");
	check_index("{\"weight_map\":{}}", STATUS_DATA, "holds no weight_map");
	check_index("{}", STATUS_DATA, "holds no weight_map");
	check_index("{\"weight_map\":", STATUS_DATA, "index.json:1: ");
}

int main(void)
{
	test_reference_bytes();
	test_values();
	test_layout();
	test_header();
	test_cut();
	test_alignment();
	test_writer_refusals();
	test_diffusers_shards();
	test_rule();
	test_index();
	return check_summary();
}
