/*
 * Parameters that are updated by rows. A row whose gradient was 0 has not had its last updates: by the moments of Adam, and by decay,
 * it moves all the same, and it does when it is needed. What it must know of those updates is their learning rates, which are kept
 * here; when there is no room for one more, all rows get what they lack.
 */
#include "base/error.h"
#include "graph/internal.h"

void program_sparse_updates(struct program *program)
{
	program->sparse = true;
}

static bool by_rows(const struct program *program, size_t i)
{
	const struct parameter *parameter = store_parameter(program->store, i);

	return program->sparse && program->has_rule && program->device->backend->replay_rows &&
	       parameter->row > 0 && !parameter->frozen;
}

static uint64_t done_bytes(const struct program *program, size_t i)
{
	const struct parameter *parameter = store_parameter(program->store, i);

	return align_up(parameter->count / parameter->row * sizeof(uint16_t));
}

uint64_t sparse_bytes(const struct program *program)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < program->store->count; i++)
		bytes += by_rows(program, i) ? done_bytes(program, i) : 0;
	return bytes;
}

int sparse_allocate(struct program *program)
{
	for (size_t i = 0; i < program->store->count; i++) {
		struct entry *entry = &program->store->entries[i];

		if (!by_rows(program, i) || entry->done)
			continue;
		entry->done = program->device->backend->allocate(program->device, done_bytes(program, i));
		if (!entry->done)
			return error_status();
	}
	return STATUS_OK;
}

static struct row_updates row_updates(const struct program *program, size_t i)
{
	const struct entry *entry = &program->store->entries[i];

	return (struct row_updates){.width = entry->parameter.row,
		.done = entry->done,
		.rate = program->rates,
		.first = program->first_update,
		.count = entry->updates};
}

static int replay(struct program *program, size_t i, const struct call *reader, bool restart)
{
	struct row_updates rows = row_updates(program, i);
	struct optimizer_rule rule;
	struct update_call call = program_update_call(program, i, &rule);

	rows.restart = restart;
	return program->device->backend->replay_rows(program->device, &call, &rows, reader);
}

int sparse_settle(struct program *program, size_t i)
{
	return replay(program, i, NULL, false);
}

/* Every row of every parameter has had all updates, which need not be known any more. */
static int forget(struct program *program)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < program->store->count && !status; i++) {
		struct entry *entry = &program->store->entries[i];

		if (!entry->done)
			continue;
		status = replay(program, i, NULL, true);
		entry->updates = 0;
	}
	program->recent_updates = 0;
	program->first_update = program->scalars.step;
	return status;
}

/* The present update is the newest one that is known. */
static int remember(struct program *program)
{
	int64_t step = program->scalars.step, next = program->first_update + program->recent_updates;

	if (program->recent_updates && step == next - 1)
		return STATUS_OK; /* another parameter was first */
	if ((step != next || program->recent_updates == ROW_UPDATES) && forget(program))
		return error_status();
	program->rates[program->recent_updates++] = program->scalars.learning_rate;
	return STATUS_OK;
}

int sparse_update(struct program *program, size_t i, const struct update_call *call)
{
	struct row_updates rows;

	if (remember(program))
		return error_status();
	rows = row_updates(program, i);
	if (program->device->backend->update_rows(program->device, call, &rows))
		return error_status();
	program->store->entries[i].updates++;
	return STATUS_OK;
}

int sparse_ready(struct program *program, const struct call *call)
{
	/* The backward pass reads the rows that the forward pass has read. */
	if (call->node->operation == OP_HASH_GRID_BACKWARD)
		return STATUS_OK;
	for (int k = 0; k < NODE_INPUTS; k++) {
		const struct tensor *tensor = call->in[k];

		if (tensor && tensor->kind == TENSOR_PARAMETER &&
			program->store->entries[tensor->parameter].done &&
			replay(program, (size_t)tensor->parameter, call, false))
			return error_status();
	}
	return STATUS_OK;
}
