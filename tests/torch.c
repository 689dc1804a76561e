/* PyTorch's checkpoints: files that PyTorch wrote give the tensors that the safetensors library wrote; refusals; our own files. */
#include "check.h"

#include "base/files.h"
#include "base/memory.h"
#include "file/torch.h"

#define GOLDEN "tests/golden/torch/"

static bool same_tensor(const struct safetensor *a, const struct safetensor *b)
{
	bool same = a && b && !strcmp(a->name, b->name) && a->type == b->type && a->dims == b->dims &&
		    a->bytes == b->bytes;
	for (int i = 0; same && i < a->dims; i++)
		same = a->dim[i] == b->dim[i];
	return same && (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

static bool same_weights(const struct safetensors *a, const struct safetensors *b, const char **which)
{
	*which = "their number";
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		*which = a->tensor[i].name;
		if (!same_tensor(&a->tensor[i], safetensors_find(b, a->tensor[i].name)))
			return false;
	}
	return true;
}

static void test_golden(const char *name)
{
	char path[256], expected[256], title[300];
	struct torch_file file;
	struct safetensors wanted;
	const char *which = "";
	snprintf(path, sizeof path, GOLDEN "%s.pth", name);
	snprintf(expected, sizeof expected, GOLDEN "%s.safetensors", name);
	snprintf(title, sizeof title, "%s.pth is read", name);
	if (!check_status(torch_read(path, &file), 0, title))
		return;
	check_status(safetensors_read(expected, &wanted), 0, expected);
	snprintf(title, sizeof title, "%s.pth gives the tensors that safetensors wrote", name);
	bool same = same_weights(&wanted, &file.weights, &which);
	check_report(same, title, "%s", which);
	check(file.stripped == !strcmp(name, "module"), "only a wrapper's prefix is taken off");
	safetensors_release(&wanted);
	torch_release(&file);
}

static void test_plain(const char *name)
{
	char path[256], *expected;
	size_t bytes;
	struct torch_file file;
	snprintf(path, sizeof path, GOLDEN "%s.pth", name);
	check(!torch_read(path, &file) && !file_read(GOLDEN "plain.tsv", 1 << 20, &expected, &bytes),
		"a checkpoint with an optimizer is read");
	check_text(file.plain.data, expected, "the values beside the weights are PyTorch's");
	free(expected);
	torch_release(&file);
}

static void test_refusal(const char *name, const char *why)
{
	char path[256], title[300];
	struct torch_file file;
	snprintf(path, sizeof path, GOLDEN "%s.pth", name);
	snprintf(title, sizeof title, "%s.pth is refused", name);
	if (check_status(torch_read(path, &file), STATUS_DATA, title))
		check_report(strstr(error_message(), why) && !file.weights.count, why, "%s", error_message());
}

/* Every length of a small file but the whole one is refused. */
static void test_cut(const char *name)
{
	char path[256], *data;
	size_t bytes, worst = 0;
	struct torch_file file;
	snprintf(path, sizeof path, GOLDEN "%s.pth", name);
	check_status(file_read(path, 1 << 20, &data, &bytes), 0, path);
	for (size_t length = 0; length < bytes; length++) {
		int status = torch_take(name, memory_copy(data, length), length, &file);
		if (status != STATUS_DATA)
			worst = length;
		if (!status)
			torch_release(&file);
	}
	check_report(!worst, "a cut file is refused", "%s.pth, cut after %zu bytes", name, worst);
	free(data);
}

/* What we write is what we read, with everything beside it. */
static void test_write(void)
{
	char *path = path_join(check_scratch(), "out.pth"), *twin = path_join(check_scratch(), "twin.pth");
	char *one, *two;
	size_t bytes, other;
	const char *which = "";
	struct torch_file from, to;
	struct torch_content content = {0};
	check(!torch_read(GOLDEN "kinds.pth", &from), "a file of many types");
	content.tensor = from.weights.tensor;
	content.count = from.weights.count;
	check_status(torch_publish(path, &content), 0, "is written");
	check_status(torch_read(path, &to), 0, "and read again");
	check_report(same_weights(&from.weights, &to.weights, &which), "with equal tensors", "%s", which);
	check(!to.plain.length, "and nothing beside them");
	torch_release(&to);
	check_status(torch_publish(twin, &content), 0, "and is written again");
	check(!file_read(path, 1 << 20, &one, &bytes) && !file_read(twin, 1 << 20, &two, &other) &&
			bytes == other && !memcmp(one, two, bytes),
		"with equal bytes");
	free(one);
	free(two);
	struct safetensor odd = {
		.name = "odd", .type = SAFETENSORS_U32, .dims = 1, .dim = {1}, .bytes = 4, .data = "abcd"};
	content = (struct torch_content){.tensor = &odd, .count = 1};
	check_status(torch_publish(path, &content), STATUS_DATA, "elements that PyTorch has not are refused");
	torch_release(&from);
	free(path);
	free(twin);
}

int main(void)
{
	static const char *const goldens[] = {
		"save_3", "save_3_legacy", "protocol4", "module", "kinds", "kinds_legacy", "no_crc"};
	for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
		test_golden(goldens[i]);
	test_plain("save_3");
	test_plain("save_3_legacy");
	test_refusal("hostile", "system");
	test_refusal("hostile_legacy", "system");
	test_refusal("complex", "entry x: its elements are a torch.ComplexFloatStorage");
	test_refusal("huge", "its tensors are much larger than the file");
	test_refusal("overlapping", "its data are those of other members, too");
	test_refusal("list", "holds no state dict");
	test_refusal("text", "entry y: is no tensor");
	test_refusal("pickle", "not a file of PyTorch");
	test_refusal("script", "TorchScript");
	test_cut("save_3");
	test_cut("save_3_legacy");
	test_write();
	return check_summary();
}
