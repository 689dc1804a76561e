/* Python's pickles: a machine of values that calls nothing. */
#include "file/pickle.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

enum { CHUNK_VALUES = 512, NAME_LIMIT = 256, OBJECT_ITEMS = 2 };

struct chunk {
	struct chunk *next;
	size_t used;
	struct pickle_value value[CHUNK_VALUES];
};

struct machine {
	const unsigned char *data, *at, *end;
	struct chunk *chunks;
	size_t values;
	struct pickle_value **stack, **memo;
	const struct pickle_value **persistent;
	size_t depth, stack_capacity, memo_capacity, memo_next, persistents, persistent_capacity;
	size_t *marks;
	size_t mark_count, mark_capacity;
	bool stopped;
};

/* ---- values ---- */

static struct pickle_value *new_value(struct machine *machine, enum pickle_kind kind)
{
	struct chunk *chunk = machine->chunks;
	if (++machine->values > PICKLE_VALUES) {
		error_set(STATUS_DATA, "more than %zu values", PICKLE_VALUES);
		return NULL;
	}
	if (!chunk || chunk->used == CHUNK_VALUES) {
		chunk = memory_new(1, sizeof *chunk);
		if (!chunk)
			return NULL;
		chunk->next = machine->chunks;
		machine->chunks = chunk;
	}
	struct pickle_value *value = &chunk->value[chunk->used++];
	value->kind = kind;
	return value;
}

static void free_chunks(struct chunk *chunk)
{
	while (chunk) {
		struct chunk *next = chunk->next;
		for (size_t i = 0; i < chunk->used; i++) {
			free(chunk->value[i].text);
			free(chunk->value[i].item);
		}
		free(chunk);
		chunk = next;
	}
}

static int push(struct machine *machine, struct pickle_value *value)
{
	if (!value)
		return error_status();
	if (memory_grow(
		    &machine->stack, &machine->stack_capacity, machine->depth + 1, sizeof *machine->stack))
		return error_status();
	machine->stack[machine->depth++] = value;
	return STATUS_OK;
}

/* Where the values above the last mark begin. */
static size_t floor_of(const struct machine *machine)
{
	return machine->mark_count ? machine->marks[machine->mark_count - 1] : 0;
}

/* Takes `count` values off the stack: *values points at the lowest, valid until the next push. */
static int pop(struct machine *machine, size_t count, struct pickle_value ***values)
{
	*values = NULL;
	if (machine->depth - floor_of(machine) < count)
		return error_set(STATUS_DATA, "takes more from the stack than lies there");
	machine->depth -= count;
	*values = machine->stack + machine->depth;
	return STATUS_OK;
}

/* All above the last mark, and the mark. */
static int pop_mark(struct machine *machine, struct pickle_value ***values, size_t *count)
{
	*values = NULL;
	*count = 0;
	if (!machine->mark_count)
		return error_set(STATUS_DATA, "there is no mark on the stack");
	size_t mark = machine->marks[--machine->mark_count];
	*count = machine->depth - mark;
	machine->depth = mark;
	*values = machine->stack + mark;
	return STATUS_OK;
}

static int top(const struct machine *machine, struct pickle_value **value)
{
	*value = NULL;
	if (machine->depth == floor_of(machine))
		return error_set(STATUS_DATA, "takes more from the stack than lies there");
	*value = machine->stack[machine->depth - 1];
	return STATUS_OK;
}

static int add_items(struct pickle_value *value, struct pickle_value **items, size_t count)
{
	if (!count)
		return STATUS_OK;
	if (memory_grow(&value->item, &value->capacity, value->count + count, sizeof(*value->item)))
		return error_status();
	memcpy(value->item + value->count, items, count * sizeof(*items));
	value->count += count;
	return STATUS_OK;
}

/* ---- arguments in the stream ---- */

static int take(struct machine *machine, uint64_t bytes, const unsigned char **data)
{
	*data = machine->at;
	if (bytes > (uint64_t)(machine->end - machine->at))
		return error_set(STATUS_DATA, "it is cut");
	machine->at += bytes;
	return STATUS_OK;
}

/* A little-endian number of 1, 2, 4 or 8 bytes. */
static int take_number(struct machine *machine, size_t bytes, uint64_t *number)
{
	const unsigned char *data;
	int status = take(machine, bytes, &data);
	*number = 0;
	for (size_t i = 0; i < bytes && !status; i++)
		*number |= (uint64_t)data[i] << (8 * i);
	return status;
}

static int take_line(struct machine *machine, const unsigned char **line, size_t *length)
{
	*line = machine->at;
	*length = 0;
	const unsigned char *end = memchr(machine->at, '\n', (size_t)(machine->end - machine->at));
	if (!end)
		return error_set(STATUS_DATA, "it is cut");
	*length = (size_t)(end - machine->at);
	machine->at = end + 1;
	return STATUS_OK;
}

static int push_bytes(struct machine *machine, enum pickle_kind kind, const void *data, size_t length)
{
	struct pickle_value *value = new_value(machine, kind);
	if (!value || !(value->text = memory_new(length + 1, 1)))
		return error_status();
	if (length)
		memcpy(value->text, data, length);
	value->length = length;
	return push(machine, value);
}

static int push_counted(struct machine *machine, enum pickle_kind kind, size_t size)
{
	uint64_t length;
	const unsigned char *data;
	int status = take_number(machine, size, &length);
	if (!status)
		status = take(machine, length, &data);
	return status ? status : push_bytes(machine, kind, data, (size_t)length);
}

static int push_integer(struct machine *machine, enum pickle_kind kind, int64_t integer)
{
	struct pickle_value *value = new_value(machine, kind);
	if (value)
		value->integer = integer;
	return push(machine, value);
}

/* A two's complement number of any length. */
static int push_long(struct machine *machine, size_t size)
{
	uint64_t length, number = 0;
	const unsigned char *data;
	int status = take_number(machine, size, &length);
	if (!status)
		status = take(machine, length, &data);
	if (status)
		return status;
	if (length > 8)
		return push_bytes(machine, PICKLE_LONG, data, (size_t)length);
	for (size_t i = 0; i < 8; i++) {
		unsigned char sign = length && data[length - 1] & 0x80 ? 0xff : 0;
		number |= (uint64_t)(i < length ? data[i] : sign) << (8 * i);
	}
	return push_integer(machine, PICKLE_INTEGER, (int64_t)number);
}

static int push_float(struct machine *machine)
{
	const unsigned char *data;
	uint64_t bits;
	int status = take(machine, 8, &data);
	struct pickle_value *value = status ? NULL : new_value(machine, PICKLE_FLOAT);
	if (!value)
		return error_status();
	memcpy(&bits, data, sizeof bits);
	bits = be64toh(bits);
	memcpy(&value->number, &bits, sizeof bits);
	return push(machine, value);
}

/* ---- containers ---- */

static int push_items(
	struct machine *machine, enum pickle_kind kind, struct pickle_value **items, size_t count)
{
	struct pickle_value *value = new_value(machine, kind);
	return !value || add_items(value, items, count) ? error_status() : push(machine, value);
}

static int push_marked(struct machine *machine, enum pickle_kind kind)
{
	struct pickle_value **items;
	size_t count;
	int status = pop_mark(machine, &items, &count);
	if (!status && kind == PICKLE_DICT && count % 2)
		status = error_set(STATUS_DATA, "a key without a value");
	return status ? status : push_items(machine, kind, items, count);
}

static int push_tuple(struct machine *machine, size_t count)
{
	struct pickle_value **items;
	int status = pop(machine, count, &items);
	return status ? status : push_items(machine, PICKLE_TUPLE, items, count);
}

/* Items go into what lies below them. `pairs`: into a dict. */
static int put_items(struct machine *machine, struct pickle_value **items, size_t count, bool pairs)
{
	struct pickle_value *into;
	int status = top(machine, &into);
	if (status)
		return status;
	enum pickle_kind kind = into->kind;
	if (pairs ? kind != PICKLE_DICT && kind != PICKLE_OBJECT
		  : kind != PICKLE_LIST && kind != PICKLE_SET && kind != PICKLE_OBJECT)
		return error_set(STATUS_DATA, "puts items into what holds none");
	if (pairs && count % 2)
		return error_set(STATUS_DATA, "a key without a value");
	return add_items(into, items, count);
}

static int put_some(struct machine *machine, size_t count, bool pairs)
{
	struct pickle_value **items;
	int status = pop(machine, count, &items);
	return status ? status : put_items(machine, items, count, pairs);
}

static int put_marked(struct machine *machine, bool pairs)
{
	struct pickle_value **items;
	size_t count;
	int status = pop_mark(machine, &items, &count);
	return status ? status : put_items(machine, items, count, pairs);
}

static int push_mark(struct machine *machine)
{
	if (memory_grow(&machine->marks, &machine->mark_capacity, machine->mark_count + 1,
		    sizeof *machine->marks))
		return error_status();
	machine->marks[machine->mark_count++] = machine->depth;
	return STATUS_OK;
}

static int drop(struct machine *machine)
{
	struct pickle_value **values;
	if (machine->depth == floor_of(machine) && machine->mark_count) {
		machine->mark_count--;
		return STATUS_OK;
	}
	return pop(machine, 1, &values);
}

static int drop_mark(struct machine *machine)
{
	struct pickle_value **values;
	size_t count;
	return pop_mark(machine, &values, &count);
}

static int duplicate(struct machine *machine)
{
	struct pickle_value *value;
	int status = top(machine, &value);
	return status ? status : push(machine, value);
}

/* ---- the memo ---- */

/* Numbers are given in turn, one an operation, so that none is above the number of bytes. */
static int memo_put(struct machine *machine, uint64_t number)
{
	struct pickle_value *value;
	int status = top(machine, &value);
	if (status)
		return status;
	if (number > (uint64_t)(machine->end - machine->data))
		return error_set(STATUS_DATA, "remembers a value by a number that is too large");
	if (memory_grow(&machine->memo, &machine->memo_capacity, (size_t)number + 1, sizeof *machine->memo))
		return error_status();
	machine->memo[number] = value;
	return STATUS_OK;
}

static int memo_put_numbered(struct machine *machine, size_t size)
{
	uint64_t number;
	int status = take_number(machine, size, &number);
	return status ? status : memo_put(machine, number);
}

static int memo_get(struct machine *machine, size_t size)
{
	uint64_t number;
	int status = take_number(machine, size, &number);
	if (status)
		return status;
	if (number >= machine->memo_capacity || !machine->memo[number])
		return error_set(STATUS_DATA, "asks for a value that it has not remembered");
	return push(machine, machine->memo[number]);
}

/* ---- globals and objects ---- */

/* What may be named: classes and functions whose calls describe data. Ends with a dot: everything below. */
static const char *const known[] = {"torch.", "collections.OrderedDict", "collections.Counter",
	"collections.defaultdict", "collections.deque", "numpy.", "argparse.Namespace", "_codecs.encode",
	"builtins.set", "builtins.frozenset", "builtins.list", "builtins.dict", "builtins.tuple",
	"builtins.int", "builtins.float", "builtins.bool", "builtins.str", "builtins.bytes",
	"builtins.bytearray", "builtins.complex", "builtins.slice", "builtins.range", "builtins.object",
	"__builtin__.set", "__builtin__.list", "__builtin__.dict", "__builtin__.int", "__builtin__.long",
	"__builtin__.float", "__builtin__.bool", "__builtin__.str", "__builtin__.unicode",
	"__builtin__.object", "copy_reg._reconstructor", "copyreg._reconstructor", "pathlib.PosixPath",
	"pathlib.Path", "pathlib.WindowsPath", "datetime.datetime", "datetime.timedelta"};

static bool is_known(const char *name)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (text_ends(known[i], ".") ? text_starts(name, known[i]) : !strcmp(name, known[i]))
			return true;
	return false;
}

static int push_global(struct machine *machine, const void *module, size_t module_length, const void *name,
	size_t name_length)
{
	struct text full = {0};
	if (module_length > NAME_LIMIT || name_length > NAME_LIMIT || memchr(module, 0, module_length) ||
		memchr(name, 0, name_length))
		return error_set(STATUS_DATA, "a global without a proper name");
	text_append(&full, module, module_length);
	text_add(&full, ".");
	text_append(&full, name, name_length);
	int status = text_check(&full);
	if (!status && !is_known(full.data))
		status = error_set(STATUS_DATA,
			"it would call %s, which no file of weights needs; nothing was executed, and nothing "
			"is read from it",
			full.data);
	if (!status)
		status = push_bytes(machine, PICKLE_GLOBAL, full.data, full.length);
	text_release(&full);
	return status;
}

static int global_of_lines(struct machine *machine)
{
	const unsigned char *module, *name;
	size_t module_length, name_length;
	int status = take_line(machine, &module, &module_length);
	if (!status)
		status = take_line(machine, &name, &name_length);
	return status ? status : push_global(machine, module, module_length, name, name_length);
}

static int global_of_stack(struct machine *machine)
{
	struct pickle_value **items;
	int status = pop(machine, 2, &items);
	if (!status && (items[0]->kind != PICKLE_TEXT || items[1]->kind != PICKLE_TEXT))
		status = error_set(STATUS_DATA, "a global without a proper name");
	return status ? status
		      : push_global(
				machine, items[0]->text, items[0]->length, items[1]->text, items[1]->length);
}

/* OrderedDict([[key, value], ...]), as Python 2 wrote it, and Counter({key: value}) get the entries of their argument. */
static int fill_dict(struct machine *machine, struct pickle_value *object)
{
	const struct pickle_value *arguments = object->item[1];
	const char *maker = object->item[0]->text;
	bool ordered = !strcmp(maker, "collections.OrderedDict");
	if ((!ordered && strcmp(maker, "collections.Counter") != 0) || arguments->count != 1)
		return STATUS_OK;
	const struct pickle_value *from = arguments->item[0];
	machine->values += from->count; /* a few bytes may ask for many copies */
	if (machine->values > PICKLE_VALUES)
		return error_set(STATUS_DATA, "more than %zu values", PICKLE_VALUES);
	if (from->kind == PICKLE_DICT)
		return add_items(object, from->item, from->count);
	for (size_t i = 0; from->kind == PICKLE_LIST && i < from->count; i++) {
		const struct pickle_value *pair = from->item[i];
		if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->count != 2)
			return error_set(STATUS_DATA, "a dictionary is made of something else than pairs");
		if (add_items(object, pair->item, 2))
			return error_status();
	}
	return STATUS_OK;
}

/* `count` values: the global, its arguments, and with NEWOBJ_EX those by name, which are left out. */
static int push_object(struct machine *machine, size_t count)
{
	struct pickle_value **items;
	int status = pop(machine, count, &items);
	if (!status && (items[0]->kind != PICKLE_GLOBAL || items[1]->kind != PICKLE_TUPLE))
		status = error_set(STATUS_DATA, "calls what is no global");
	struct pickle_value *object = status ? NULL : new_value(machine, PICKLE_OBJECT);
	if (!object || add_items(object, items, OBJECT_ITEMS) || fill_dict(machine, object))
		return error_status();
	return push(machine, object);
}

static int push_persistent(struct machine *machine)
{
	struct pickle_value **items;
	int status = pop(machine, 1, &items);
	if (!status)
		status = push_items(machine, PICKLE_PERSISTENT, items, 1);
	if (status || memory_grow(&machine->persistent, &machine->persistent_capacity,
			      machine->persistents + 1, sizeof(*machine->persistent)))
		return error_status();
	machine->persistent[machine->persistents++] = machine->stack[machine->depth - 1];
	return STATUS_OK;
}

/* An object's state adds nothing that is wanted here. */
static int build(struct machine *machine)
{
	struct pickle_value **items, *value;
	int status = pop(machine, 1, &items);
	return status ? status : top(machine, &value);
}

static int protocol(struct machine *machine)
{
	uint64_t number;
	int status = take_number(machine, 1, &number);
	if (!status && (number < 2 || number > 5))
		status = error_set(STATUS_DATA, "protocol %d, 2 to 5 are supported", (int)number);
	return status;
}

static int frame(struct machine *machine)
{
	uint64_t bytes;
	return take_number(machine, 8, &bytes);
}

/* ---- the operations, by their letter in Python's pickletools ---- */

static int run_number(struct machine *machine, unsigned char operation, bool *known_operation)
{
	uint64_t number = 0;
	int status = STATUS_OK;
	*known_operation = true;
	switch (operation) {
	case 'N':
		return push(machine, new_value(machine, PICKLE_NONE));
	case 0x88:
	case 0x89:
		return push_integer(machine, PICKLE_BOOL, operation == 0x88);
	case 'K':
		status = take_number(machine, 1, &number);
		return status ? status : push_integer(machine, PICKLE_INTEGER, (int64_t)number);
	case 'M':
		status = take_number(machine, 2, &number);
		return status ? status : push_integer(machine, PICKLE_INTEGER, (int64_t)number);
	case 'J':
		status = take_number(machine, 4, &number);
		return status ? status : push_integer(machine, PICKLE_INTEGER, (int32_t)(uint32_t)number);
	case 0x8a:
		return push_long(machine, 1);
	case 0x8b:
		return push_long(machine, 4);
	case 'G':
		return push_float(machine);
	default:
		*known_operation = false;
		return STATUS_OK;
	}
}

static int run_text(struct machine *machine, unsigned char operation, bool *known_operation)
{
	*known_operation = true;
	switch (operation) {
	case 'X':
		return push_counted(machine, PICKLE_TEXT, 4);
	case 0x8c:
	case 'U':
		return push_counted(machine, PICKLE_TEXT, 1);
	case 'T':
		return push_counted(machine, PICKLE_TEXT, 4);
	case 0x8d:
		return push_counted(machine, PICKLE_TEXT, 8);
	case 'C':
		return push_counted(machine, PICKLE_BYTES_OF, 1);
	case 'B':
		return push_counted(machine, PICKLE_BYTES_OF, 4);
	case 0x8e:
	case 0x96:
		return push_counted(machine, PICKLE_BYTES_OF, 8);
	case 'c':
		return global_of_lines(machine);
	case 0x93:
		return global_of_stack(machine);
	default:
		*known_operation = false;
		return STATUS_OK;
	}
}

static int run_container(struct machine *machine, unsigned char operation, bool *known_operation)
{
	*known_operation = true;
	switch (operation) {
	case ')':
		return push_items(machine, PICKLE_TUPLE, NULL, 0);
	case 0x85:
	case 0x86:
	case 0x87:
		return push_tuple(machine, operation - 0x84u);
	case 't':
		return push_marked(machine, PICKLE_TUPLE);
	case ']':
		return push_items(machine, PICKLE_LIST, NULL, 0);
	case 'l':
		return push_marked(machine, PICKLE_LIST);
	case '}':
		return push_items(machine, PICKLE_DICT, NULL, 0);
	case 'd':
		return push_marked(machine, PICKLE_DICT);
	case 0x8f:
		return push_items(machine, PICKLE_SET, NULL, 0);
	case 0x91:
		return push_marked(machine, PICKLE_SET);
	case 'a':
		return put_some(machine, 1, false);
	case 'e':
	case 0x90:
		return put_marked(machine, false);
	case 's':
		return put_some(machine, 2, true);
	case 'u':
		return put_marked(machine, true);
	default:
		*known_operation = false;
		return STATUS_OK;
	}
}

static int run_other(struct machine *machine, unsigned char operation)
{
	switch (operation) {
	case 0x80:
		return protocol(machine);
	case 0x95:
		return frame(machine);
	case '(':
		return push_mark(machine);
	case '0':
		return drop(machine);
	case '1':
		return drop_mark(machine);
	case '2':
		return duplicate(machine);
	case 'q':
		return memo_put_numbered(machine, 1);
	case 'r':
		return memo_put_numbered(machine, 4);
	case 0x94:
		return memo_put(machine, machine->memo_next++);
	case 'h':
		return memo_get(machine, 1);
	case 'j':
		return memo_get(machine, 4);
	case 'R':
	case 0x81:
		return push_object(machine, OBJECT_ITEMS);
	case 0x92:
		return push_object(machine, OBJECT_ITEMS + 1);
	case 'Q':
		return push_persistent(machine);
	case 'b':
		return build(machine);
	case '.':
		machine->stopped = true;
		return STATUS_OK;
	default:
		return error_set(STATUS_DATA, "operation 0x%02x is not supported", operation);
	}
}

static int run(struct machine *machine, const struct pickle_value **value)
{
	bool done;
	while (!machine->stopped) {
		size_t place = (size_t)(machine->at - machine->data);
		const unsigned char *operation;
		int status = take(machine, 1, &operation);
		if (!status)
			status = run_number(machine, *operation, &done);
		if (!status && !done)
			status = run_text(machine, *operation, &done);
		if (!status && !done)
			status = run_container(machine, *operation, &done);
		if (!status && !done)
			status = run_other(machine, *operation);
		if (status)
			return error_prefix("pickle, byte %zu", place);
	}
	if (machine->depth != 1 || machine->mark_count)
		return error_set(STATUS_DATA, "pickle: ends with %zu values", machine->depth);
	*value = machine->stack[0];
	return STATUS_OK;
}

int pickle_read(const char *name, const void *data, size_t bytes, size_t *used, struct pickle *pickle)
{
	struct machine machine = {.data = data, .at = data, .end = (const unsigned char *)data + bytes};
	*pickle = (struct pickle){0};
	int status = STATUS_OK;
	if (!bytes || *machine.data != 0x80)
		status = error_set(STATUS_DATA, "is no pickle of protocol 2 or later");
	if (bytes > PICKLE_BYTES) /* what is behind it may be data */
		machine.end = machine.data + PICKLE_BYTES;
	if (!status)
		status = run(&machine, &pickle->value);
	if (used)
		*used = (size_t)(machine.at - machine.data);
	pickle->memory = machine.chunks;
	pickle->persistent = machine.persistent;
	pickle->persistents = machine.persistents;
	free(machine.stack);
	free(machine.memo);
	free(machine.marks);
	if (!status)
		return STATUS_OK;
	pickle_release(pickle);
	return error_prefix("%s", name);
}

void pickle_release(struct pickle *pickle)
{
	free_chunks(pickle->memory);
	free(pickle->persistent);
	*pickle = (struct pickle){0};
}

/* ---- looking at values ---- */

const char *pickle_maker(const struct pickle_value *value)
{
	return value && value->kind == PICKLE_OBJECT ? value->item[0]->text : "";
}

bool pickle_dict(const struct pickle_value *value, struct pickle_value ***item, size_t *pairs)
{
	static const char *const dicts[] = {
		"collections.OrderedDict", "collections.Counter", "collections.defaultdict"};
	size_t skip = value && value->kind == PICKLE_OBJECT ? OBJECT_ITEMS : 0;
	bool good = value && value->kind == PICKLE_DICT;
	for (size_t i = 0; skip && i < sizeof dicts / sizeof *dicts; i++)
		good = good || !strcmp(pickle_maker(value), dicts[i]);
	if (!good || (value->count - skip) % 2)
		return false;
	*item = value->item + skip;
	*pairs = (value->count - skip) / 2;
	return true;
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
	struct pickle_value **item;
	size_t pairs;
	if (!pickle_dict(dict, &item, &pairs))
		return NULL;
	for (size_t i = pairs; i-- > 0;)
		if (item[2 * i]->kind == PICKLE_TEXT && !strcmp(item[2 * i]->text, key))
			return item[2 * i + 1];
	return NULL;
}
