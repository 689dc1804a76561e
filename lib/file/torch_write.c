/* PyTorch's checkpoints: the writer. */
#include "file/torch.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/zip.h"

/* Python's pickle operations. */
enum {
	PROTOCOL = 0x80,
	STOP = '.',
	MARK = '(',
	DICT = '}',
	LIST = ']',
	EMPTY_TUPLE = ')',
	TUPLE = 't',
	TUPLE1 = 0x85,
	SET_ITEMS = 'u',
	APPENDS = 'e',
	REDUCE = 'R',
	PERSISTENT = 'Q',
	NONE = 'N',
	TRUE_VALUE = 0x88,
	FALSE_VALUE = 0x89,
	LONG1 = 0x8a,
	FLOAT = 'G',
	TEXT = 'X',
	INT = 'J',
};

/* A file being made: the pickle, and the tensors whose data it refers to by number. */
struct making {
	struct text pickle;
	const struct safetensor **tensor;
	size_t count, capacity;
};

static void add(struct text *out, int operation)
{
	char byte = (char)operation;
	text_append(out, &byte, 1);
}

static void add_little(struct text *out, size_t bytes, uint64_t number)
{
	for (size_t i = 0; i < bytes; i++)
		add(out, (int)(number >> (8 * i) & 0xff));
}

static void add_text(struct text *out, const char *value)
{
	add(out, TEXT);
	add_little(out, 4, strlen(value));
	text_add(out, value);
}

static void add_integer(struct text *out, int64_t value)
{
	bool small = value >= INT32_MIN && value <= INT32_MAX;
	add(out, small ? INT : LONG1);
	if (!small)
		add(out, 8);
	add_little(out, small ? 4 : 8, (uint64_t)value);
}

static void add_float(struct text *out, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	bits = htobe64(bits);
	add(out, FLOAT);
	text_append(out, (const char *)&bits, sizeof bits);
}

static void add_bool(struct text *out, bool value)
{
	add(out, value ? TRUE_VALUE : FALSE_VALUE);
}

static void add_global(struct text *out, const char *module, const char *name)
{
	text_format(out, "c%s\n%s\n", module, name);
}

static void add_ordered_dict(struct text *out)
{
	add_global(out, "collections", "OrderedDict");
	add(out, EMPTY_TUPLE);
	add(out, REDUCE);
}

static const char *storage_of(enum safetensors_type type)
{
	switch (type) {
	case SAFETENSORS_F32:
		return "FloatStorage";
	case SAFETENSORS_F64:
		return "DoubleStorage";
	case SAFETENSORS_F16:
		return "HalfStorage";
	case SAFETENSORS_BF16:
		return "BFloat16Storage";
	case SAFETENSORS_I64:
		return "LongStorage";
	case SAFETENSORS_I32:
		return "IntStorage";
	case SAFETENSORS_I16:
		return "ShortStorage";
	case SAFETENSORS_I8:
		return "CharStorage";
	case SAFETENSORS_U8:
		return "ByteStorage";
	case SAFETENSORS_BOOL:
		return "BoolStorage";
	default:
		return NULL;
	}
}

/* ('storage', torch.FloatStorage, '0', 'cpu', elements) */
static void add_storage(struct text *out, const struct safetensor *tensor, size_t number)
{
	char key[24];
	snprintf(key, sizeof key, "%zu", number);
	add(out, MARK);
	add_text(out, "storage");
	add_global(out, "torch", storage_of(tensor->type));
	add_text(out, key);
	add_text(out, "cpu");
	add_integer(out, (int64_t)(tensor->bytes / safetensors_type_size(tensor->type)));
	add(out, TUPLE);
	add(out, PERSISTENT);
}

static void add_shape(struct text *out, const struct safetensor *tensor)
{
	int64_t stride[8];
	int64_t step = 1;
	for (int i = tensor->dims; i-- > 0; step *= tensor->dim[i] ? tensor->dim[i] : 1)
		stride[i] = step;
	add(out, MARK);
	for (int i = 0; i < tensor->dims; i++)
		add_integer(out, tensor->dim[i]);
	add(out, TUPLE);
	add(out, MARK);
	for (int i = 0; i < tensor->dims; i++)
		add_integer(out, stride[i]);
	add(out, TUPLE);
}

/* torch._utils._rebuild_tensor_v2(storage, 0, sizes, strides, False, OrderedDict()) */
static int add_tensor(struct making *making, const struct safetensor *tensor)
{
	struct text *out = &making->pickle;
	if (!storage_of(tensor->type))
		return error_set(STATUS_DATA, "tensor %s: PyTorch has no elements of type %s", tensor->name,
			safetensors_type_name(tensor->type));
	if (memory_grow(&making->tensor, &making->capacity, making->count + 1, sizeof(*making->tensor)))
		return error_status();
	add_global(out, "torch._utils", "_rebuild_tensor_v2");
	add(out, MARK);
	add_storage(out, tensor, making->count);
	add_integer(out, 0);
	add_shape(out, tensor);
	add(out, FALSE_VALUE);
	add_ordered_dict(out);
	add(out, TUPLE);
	add(out, REDUCE);
	making->tensor[making->count++] = tensor;
	return STATUS_OK;
}

static int add_state_dict(struct making *making, const struct torch_content *content)
{
	int status = STATUS_OK;
	add_ordered_dict(&making->pickle);
	add(&making->pickle, MARK);
	for (size_t i = 0; i < content->count && !status; i++) {
		add_text(&making->pickle, content->tensor[i].name);
		status = add_tensor(making, &content->tensor[i]);
	}
	add(&making->pickle, SET_ITEMS);
	return status;
}

static void add_group(struct text *out, const struct torch_sgd *sgd, size_t parameters)
{
	static const char *const off[] = {"maximize", "differentiable"}, *const none[] = {"foreach", "fused"};
	const struct {
		const char *name;
		double value;
	} numbers[] = {{"lr", sgd->rate}, {"momentum", sgd->momentum}, {"dampening", sgd->dampening},
		{"weight_decay", sgd->weight_decay}, {"initial_lr", sgd->initial_rate}};
	add(out, DICT);
	add(out, MARK);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		add_text(out, numbers[i].name);
		add_float(out, numbers[i].value);
	}
	add_text(out, "nesterov");
	add_bool(out, sgd->nesterov);
	for (size_t i = 0; i < 2; i++) {
		add_text(out, off[i]);
		add_bool(out, false);
		add_text(out, none[i]);
		add(out, NONE);
	}
	add_text(out, "params");
	add(out, LIST);
	add(out, MARK);
	for (size_t i = 0; i < parameters; i++)
		add_integer(out, (int64_t)i);
	add(out, APPENDS);
	add(out, SET_ITEMS);
}

/* {'state': {0: {'momentum_buffer': ...}, ...}, 'param_groups': [{...}]} */
static int add_optimizer(struct making *making, const struct torch_content *content)
{
	struct text *out = &making->pickle;
	const struct torch_sgd *sgd = content->sgd;
	size_t parameters = 0;
	int status = STATUS_OK;
	add_text(out, "optimizer");
	add(out, DICT);
	add(out, MARK);
	add_text(out, "state");
	add(out, DICT);
	add(out, MARK);
	for (size_t i = 0; i < content->count && !status; i++) {
		size_t number = parameters;
		parameters += sgd->parameter[i];
		if (!sgd->parameter[i] || !sgd->buffer[i])
			continue;
		add_integer(out, (int64_t)number);
		add(out, DICT);
		add(out, MARK);
		add_text(out, "momentum_buffer");
		status = add_tensor(making, sgd->buffer[i]);
		add(out, SET_ITEMS);
	}
	add(out, SET_ITEMS);
	add_text(out, "param_groups");
	add(out, LIST);
	add(out, MARK);
	add_group(out, sgd, parameters);
	add(out, APPENDS);
	add(out, SET_ITEMS);
	return status;
}

static void add_rates(struct text *out, const char *name, double rate)
{
	add_text(out, name);
	add(out, LIST);
	add(out, MARK);
	add_float(out, rate);
	add(out, APPENDS);
}

/* torch.optim.lr_scheduler.MultiStepLR */
static void add_scheduler(struct text *out, const struct torch_multistep *schedule)
{
	add_text(out, "scheduler");
	add(out, DICT);
	add(out, MARK);
	add_text(out, "milestones");
	add_global(out, "collections", "Counter");
	add(out, DICT);
	add(out, MARK);
	for (size_t i = 0, next; i < schedule->milestones; i = next) {
		for (next = i + 1; next < schedule->milestones; next++)
			if (schedule->milestone[next] != schedule->milestone[i])
				break;
		add_integer(out, schedule->milestone[i]);
		add_integer(out, (int64_t)(next - i));
	}
	add(out, SET_ITEMS);
	add(out, TUPLE1);
	add(out, REDUCE);
	add_text(out, "gamma");
	add_float(out, schedule->factor);
	add_rates(out, "base_lrs", schedule->initial_rate);
	add_text(out, "last_epoch");
	add_integer(out, schedule->steps);
	add_text(out, "_step_count");
	add_integer(out, schedule->steps + 1);
	add_rates(out, "_last_lr", schedule->rate);
	add(out, SET_ITEMS);
}

static int make_pickle(struct making *making, const struct torch_content *content)
{
	struct text *out = &making->pickle;
	int status;
	add(out, PROTOCOL);
	add(out, 2);
	if (content->arch) {
		add(out, DICT);
		add(out, MARK);
		add_text(out, "epoch");
		add_integer(out, content->epoch);
		add_text(out, "arch");
		add_text(out, content->arch);
		add_text(out, "state_dict");
	}
	status = add_state_dict(making, content);
	if (!status && content->arch && content->sgd)
		status = add_optimizer(making, content);
	if (content->arch && content->multistep)
		add_scheduler(out, content->multistep);
	if (content->arch)
		add(out, SET_ITEMS);
	add(out, STOP);
	return status ? status : text_check(out);
}

static int write_members(struct zip_writer *writer, const struct making *making)
{
	int status = zip_add(writer, "archive/data.pkl", making->pickle.data, making->pickle.length);
	if (!status)
		status = zip_add(writer, "archive/byteorder", "little", 6);
	for (size_t i = 0; i < making->count && !status; i++) {
		char name[48];
		snprintf(name, sizeof name, "archive/data/%zu", i);
		status = zip_add(writer, name, making->tensor[i]->data, making->tensor[i]->bytes);
	}
	if (!status)
		status = zip_add(writer, "archive/version", "3\n", 2);
	return status ? status : zip_finish(writer);
}

int torch_publish(const char *path, const struct torch_content *content)
{
	struct making making = {0};
	struct publish publish = {0};
	struct zip_writer writer = {.publish = &publish};
	int status = make_pickle(&making, content);
	if (!status)
		status = publish_open(&publish, path);
	if (!status)
		status = write_members(&writer, &making);
	if (!status)
		status = publish_commit(&publish);
	publish_abandon(&publish);
	zip_writer_release(&writer);
	text_release(&making.pickle);
	free(making.tensor);
	return status;
}
