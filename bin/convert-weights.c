/* convert-weights: weights of a run as files of PyTorch or safetensors, and the other way. See convert-weights(1). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "file/torch.h"
#include "run/checkpoint.h"
#include "run/run.h"
#include "task/convert.h"

static struct settings {
	bool list, bare;
	const char *step, *arch;
} settings;
static const struct option_row option_rows[] = {
	{"list", 'l', NULL, "print names, types, shapes and digests instead", &settings.list, OPTION_FLAG},
	{"step", 0, "STEP", "of a run: this checkpoint, or best, instead of the newest", &settings.step,
		OPTION_TEXT},
	{"arch", 0, "NAME", "into a .pth: what its network is called (resnet-18)", &settings.arch,
		OPTION_TEXT},
	{"bare", 0, NULL, "into a .pth: the state dict alone", &settings.bare, OPTION_FLAG},
	{0},
};
static const struct program program = {
	.name = "convert-weights",
	.synopsis = "[options] FROM OUT.pth|OUT.safetensors\n--list [--step STEP] FROM",
	.purpose = "Convert weights between runs, files of PyTorch and safetensors.",
	.rows = option_rows,
};

/* ---- listing ---- */

static void add_row(struct text *out, const struct safetensor *tensor)
{
	text_field(out, tensor->name);
	text_format(out, "\t%s\t[", safetensors_type_name(tensor->type));
	for (int i = 0; i < tensor->dims; i++)
		text_format(out, "%s%" PRId64, i ? "," : "", tensor->dim[i]);
	text_format(out, "]\t%08x\n", crc32c(0, tensor->data, tensor->bytes));
}

/* Values beside the weights as comments, then a row for each tensor. */
static int list(const struct convert_source *source)
{
	struct text out = {0};
	const char *line = source->checkpoint.plain.data;

	text_add(&out, "#name\ttype\tshape\tcrc32c\n");
	text_format(&out, "# digest %s\n", source->checkpoint.digest);
	for (size_t length; line && *line; line += length + (line[length] != 0)) {
		length = strcspn(line, "\n");
		size_t key = strcspn(line, "\t\n");
		text_format(&out, "# %.*s %.*s\n", (int)key, line, (int)(length - key - (key < length)),
			line + key + (key < length));
	}
	for (size_t i = 0; i < source->count; i++)
		add_row(&out, &source->tensor[i]);
	int status = text_check(&out);
	if (!status)
		fwrite(out.data, 1, out.length, stdout);
	text_release(&out);
	return status;
}

/* ---- writing ---- */

static int write_file(struct convert_source *source, const char *path)
{
	char size[32];
	uint64_t bytes = 0;
	int status;

	if (text_ends(path, ".safetensors"))
		status = safetensors_publish(path, source->tensor, source->count, NULL, &bytes);
	else
		status = convert_torch(source, path, settings.bare ? "" : settings.arch);
	if (!status)
		status = file_size(path, &bytes);
	if (!status)
		note("%s: %zu tensors, %s, from %s (digest %s)", path, source->count,
			text_of_bytes(bytes, size), source->checkpoint.path, source->checkpoint.digest);
	return status;
}

static int check_usage(const char **operands, int count)
{
	if (count < 1)
		return error_set(STATUS_USAGE, "FROM is missing; --help shows how it is called");
	if (settings.list && count > 1)
		return error_set(STATUS_USAGE, "--list writes no file: %s is one name too many", operands[1]);
	if (!settings.list && count != 2)
		return error_set(
			STATUS_USAGE, count < 2 ? "OUT is missing: a name that ends in .pth or .safetensors"
						: "one FROM and one OUT; --help shows how it is called");
	if (settings.list)
		return STATUS_OK;
	bool torch = text_ends(operands[1], ".pth") || text_ends(operands[1], ".pt") ||
		     text_ends(operands[1], ".bin");
	if (!torch && !text_ends(operands[1], ".safetensors"))
		return error_set(STATUS_USAGE, "%s: its name must end in .pth or .safetensors", operands[1]);
	if (settings.bare && settings.arch)
		return error_set(STATUS_USAGE, "--bare leaves out what --arch names: choose one");
	return STATUS_OK;
}

static int work(const char **operands)
{
	struct convert_source source = {0};
	int status = convert_open(operands[0], settings.step, &source);

	if (!status)
		status = settings.list ? list(&source) : write_file(&source, operands[1]);
	convert_release(&source);
	return status;
}

int main(int argc, char **argv)
{
	bool done = false;
	int count = 0;

	error_program(argv[0]);
	guard_output();
	const char **operands = memory_new((size_t)argc, sizeof *operands);
	int status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done)
		status = check_usage(operands, count);
	if (!status && !done)
		status = work(operands);
	free(operands);
	return close_stdout(status ? error_print(status) : STATUS_OK);
}
