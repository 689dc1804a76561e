/* train.cfg and step-S.phase: the state of a run as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "run/checkpoint_parts.h"
#include "run/fields.h"

enum { STATE_LIMIT = 64 << 20, FORMAT = 1, SCHEDULE = 8, EPOCH_SUMS = 8 };

static const char *const phase_names[] = {[PHASE_STEP] = "step",
	[PHASE_VALIDATE] = "validate",
	[PHASE_PICTURES] = "pictures",
	[PHASE_DONE] = "done"};
enum { PHASES = sizeof phase_names / sizeof *phase_names };

void train_state_release(struct train_state *state)
{
	free(state->sums);
	log_lengths_release(&state->logs);
	*state = (struct train_state){0};
}

int train_state_copy(struct train_state *to, const struct train_state *from)
{
	*to = *from;
	to->sums = NULL;
	to->logs = (struct log_lengths){0};
	int status = STATUS_OK;
	if (from->sums_count) {
		to->sums = memory_copy(from->sums, from->sums_count * sizeof *from->sums);
		status = to->sums ? STATUS_OK : error_status();
	}
	for (size_t i = 0; i < from->logs.count && !status; i++)
		status = log_lengths_add(&to->logs, from->logs.item[i].name, from->logs.item[i].bytes);
	if (status)
		train_state_release(to);
	return status;
}

static void format_logs(const struct log_lengths *logs, struct text *text)
{
	text_add(text, "logs = [");
	for (size_t i = 0; i < logs->count; i++) {
		text_add(text, i ? ", " : "");
		fields_put_quoted(text, logs->item[i].name);
	}
	text_add(text, "];\nlog_bytes = [");
	for (size_t i = 0; i < logs->count; i++)
		text_format(text, "%s%llu", i ? ", " : "", (unsigned long long)logs->item[i].bytes);
	text_add(text, "];\n");
}

void train_state_format(const struct train_state *state, struct text *text)
{
	fields_put_integer(text, "format", FORMAT);
	fields_put_integer(text, "step", state->step);
	fields_put_integer(text, "epoch", state->epoch);
	fields_put_integer(text, "samples", state->samples);
	fields_put_text(text, "phase", phase_names[state->phase]);
	fields_put_integer(text, "set", state->set);
	fields_put_integer(text, "sample", state->sample);
	fields_put_numbers(text, "sums", state->sums, state->sums_count);
	fields_put_number(text, "epoch_loss", state->epoch_loss);
	fields_put_numbers(text, "epoch_sums", state->epoch_sums, EPOCH_SUMS);
	fields_put_integer(text, "epoch_steps", state->epoch_steps);
	fields_put_integer(text, "epoch_samples", state->epoch_samples);
	fields_put_integer(text, "epoch_skipped", state->epoch_skipped);
	fields_put_integer(text, "data_samples", state->data_samples);
	fields_put_integer(text, "data_sum", state->data_sum);
	fields_put_text(text, "init", state->init);
	fields_put_numbers(text, "schedule", state->schedule, SCHEDULE);
	fields_put_text(text, "best_metric", state->best_metric);
	fields_put_number(text, "best_value", state->best_value);
	fields_put_integer(text, "best_step", state->best_step);
	format_logs(&state->logs, text);
	fields_put_integer(text, "shift", state->shift);
	fields_put_text(text, "config_id", state->config_id);
}

static int parse_integers(const struct fields *fields, struct train_state *state)
{
	const struct {
		const char *key;
		int64_t *value;
	} rows[] = {
		{"step", &state->step},
		{"epoch", &state->epoch},
		{"samples", &state->samples},
		{"set", &state->set},
		{"sample", &state->sample},
		{"epoch_steps", &state->epoch_steps},
		{"epoch_samples", &state->epoch_samples},
		{"epoch_skipped", &state->epoch_skipped},
		{"best_step", &state->best_step},
		{"shift", &state->shift},
	};
	int status = STATUS_OK;
	for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
		status = fields_integer(fields, rows[i].key, 0, INT64_MAX, rows[i].value);
	return status;
}

static int parse_phase(const struct fields *fields, enum train_phase *phase)
{
	char name[32];
	if (fields_text(fields, "phase", name, sizeof name))
		return error_status();
	for (int i = 0; i < PHASES; i++)
		if (!strcmp(phase_names[i], name)) {
			*phase = (enum train_phase)i;
			return STATUS_OK;
		}
	return error_set(STATUS_DATA, "%s: %s is no phase", fields->path, name);
}

/* Exactly so many numbers. */
static int parse_array(const struct fields *fields, const char *key, double *array, size_t wanted)
{
	double *values;
	size_t count;
	if (fields_numbers(fields, key, &values, &count))
		return error_status();
	int status = count == wanted ? STATUS_OK
				     : error_set(STATUS_DATA, "%s: %s has %zu numbers, %zu expected",
					       fields->path, key, count, wanted);
	if (!status)
		memcpy(array, values, wanted * sizeof *array);
	free(values);
	return status;
}

/* What earlier checkpoints do not have. */
static int parse_later(const struct fields *fields, struct train_state *state)
{
	int64_t sum = 0;
	if (fields_has(fields, "init") && fields_text(fields, "init", state->init, sizeof state->init))
		return error_status();
	if (fields_has(fields, "epoch_sums") &&
		parse_array(fields, "epoch_sums", state->epoch_sums, EPOCH_SUMS))
		return error_status();
	if (!fields_has(fields, "data_samples"))
		return STATUS_OK;
	int status = fields_integer(fields, "data_samples", 0, INT64_MAX, &state->data_samples);
	if (!status)
		status = fields_integer(fields, "data_sum", 0, UINT32_MAX, &sum);
	state->data_sum = (uint32_t)sum;
	return status;
}

static int parse_logs(const struct fields *fields, struct log_lengths *logs)
{
	struct names names = {0};
	int64_t *bytes = NULL;
	size_t count = 0;
	int status = fields_texts(fields, "logs", &names);
	if (!status)
		status = fields_integers(fields, "log_bytes", &bytes, &count);
	if (!status && count != names.count)
		status = error_set(
			STATUS_DATA, "%s: %zu names of logs, %zu lengths", fields->path, names.count, count);
	for (size_t i = 0; i < count && !status; i++)
		status = bytes[i] < 0
				 ? error_set(STATUS_DATA, "%s: a log has a negative length", fields->path)
				 : log_lengths_add(logs, names.name[i], (uint64_t)bytes[i]);
	names_release(&names);
	free(bytes);
	return status;
}

static int parse_state(const struct fields *fields, struct train_state *state)
{
	int64_t format;
	int status = fields_integer(fields, "format", 1, INT64_MAX, &format);
	if (!status && format > FORMAT)
		return error_set(STATUS_CONFIG, "%s: format %lld was made by a newer version; use that one",
			fields->path, (long long)format);
	if (!status)
		status = parse_integers(fields, state);
	if (!status)
		status = parse_phase(fields, &state->phase);
	if (!status)
		status = fields_numbers(fields, "sums", &state->sums, &state->sums_count);
	if (!status)
		status = fields_number(fields, "epoch_loss", &state->epoch_loss);
	if (!status)
		status = parse_later(fields, state);
	if (!status)
		status = parse_array(fields, "schedule", state->schedule, SCHEDULE);
	if (!status)
		status = fields_text(fields, "best_metric", state->best_metric, sizeof state->best_metric);
	if (!status)
		status = fields_number(fields, "best_value", &state->best_value);
	if (!status)
		status = parse_logs(fields, &state->logs);
	if (!status)
		status = fields_text(fields, "config_id", state->config_id, sizeof state->config_id);
	return status;
}

int train_state_take(const char *path, char *data, size_t bytes, struct train_state *state)
{
	struct fields fields;
	*state = (struct train_state){0};
	int status = fields_take(path, data, bytes, FIELDS_CFG, &fields);
	if (status)
		return status;
	status = parse_state(&fields, state);
	fields_release(&fields);
	if (status)
		train_state_release(state);
	return status;
}

int train_state_check(const struct train_state *state, const struct run *run, const char *path, int64_t step)
{
	const char *id = config_id(run->config);
	if (state->step != step)
		return error_set(STATUS_DATA, "%s: is of step %lld, its name says %lld", path,
			(long long)state->step, (long long)step);
	if (strcmp(state->config_id, id))
		return error_set(STATUS_CONFIG,
			"%s: was made with configuration %s, %s/config.cfg is now %s: an identity key has "
			"changed; restore it "
			"(see config.history) or start a new run",
			path, state->config_id, run->path, id);
	return logs_check(run, &state->logs);
}

/* ---- step-S.phase ---- */

int checkpoint_save_phase(const struct shift *shift, const struct train_state *state)
{
	struct manifest manifest = {0};
	struct text text = {0};
	char *directory = checkpoint_name(shift->run, CHECKPOINT_STEP, state->step, "");
	char *path = checkpoint_name(shift->run, CHECKPOINT_STEP, state->step, ".phase");
	int status = directory && path ? shift_fence(shift) : error_status();
	if (!status)
		status = manifest_read(directory, &manifest);
	train_state_format(state, &text);
	text_format(&text, "manifest = \"%08x\";\n", manifest.crc);
	if (!status)
		status = text_check(&text);
	if (!status) {
		text_format(&text, "crc = \"%08x\";\n", crc32c(0, text.data, text.length));
		status = text_check(&text);
	}
	if (!status)
		status = file_publish(path, text.data, text.length);
	text_release(&text);
	manifest_release(&manifest);
	free(directory);
	free(path);
	return shift_failed(shift, status);
}

/* Where the last line begins, and whether it holds the sum of what is before it. */
static int check_own_sum(const char *path, const char *data, size_t bytes)
{
	char expected[32];
	size_t length = (size_t)snprintf(expected, sizeof expected, "crc = \"%08x\";\n", 0u);
	if (bytes > length)
		snprintf(expected, sizeof expected, "crc = \"%08x\";\n", crc32c(0, data, bytes - length));
	if (bytes <= length || memcmp(data + bytes - length, expected, length))
		return error_set(
			STATUS_DATA, "%s: does not have the sum of its last line; it is damaged", path);
	return STATUS_OK;
}

static int check_owner(const char *path, const char *data, uint32_t manifest)
{
	char expected[32];
	snprintf(expected, sizeof expected, "\nmanifest = \"%08x\";\n", manifest);
	if (!strstr(data, expected))
		return error_set(STATUS_DATA, "%s: belongs to another checkpoint of this step", path);
	return STATUS_OK;
}

static int read_phase(
	const char *path, const struct run *run, int64_t step, uint32_t manifest, struct train_state *state)
{
	char *data;
	size_t bytes;
	if (file_read(path, STATE_LIMIT, &data, &bytes))
		return error_status();
	int status = check_own_sum(path, data, bytes);
	if (!status)
		status = check_owner(path, data, manifest);
	if (status) {
		free(data);
		return status;
	}
	status = train_state_take(path, data, bytes, state);
	if (status)
		return status;
	status = train_state_check(state, run, path, step);
	if (status)
		train_state_release(state);
	return status;
}

int phase_read(const struct run *run, int64_t step, uint32_t manifest, bool *found, struct train_state *state)
{
	char *path = checkpoint_name(run, CHECKPOINT_STEP, step, ".phase");
	int status = path ? STATUS_OK : error_status();
	*found = false;
	if (!status && file_exists(path)) {
		status = read_phase(path, run, step, manifest, state);
		*found = !status;
		if (checkpoint_is_damage(status)) {
			warn("%s; that phase of step %lld starts over", error_message(), (long long)step);
			status = STATUS_OK;
		}
	}
	free(path);
	return status;
}
