#include "config/resolve.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "config/compose.h"
#include "config/tasks.h"

#define STACK 32                 /* references in references */
#define EXPANDED_BYTES (1 << 16) /* of one value */

const char *const config_environment[] = {"NIGHTSHIFT_*", "HOME", "USER", "SCRATCH", "TMPDIR", "SLURM_TMPDIR",
	"SLURM_ARRAY_TASK_ID", "DATA", NULL};

/* A slot under its full name. */
struct target {
	const struct config_key *row;
	struct config_slot *slot;
	char *key;
};
struct resolver {
	struct config *config;
	const char *task; /* "" until it stands */
	const char *stack[STACK];
	int depth;
};

static int resolve(struct resolver *resolver, const struct target *target);

/* ===== references ===== */

static int target_in_list(const struct resolver *resolver, const char *key, int list, struct target *target)
{
	const char *name = key + strlen(syntax_list_names[list]) + 1, *dot = strrchr(name, '.');
	const struct config_list *groups = &resolver->config->lists[list];
	for (size_t i = 0; dot && i < groups->count; i++) {
		const struct config_group *group = &groups->group[i];
		int row = config_row(config_group_keys, dot + 1);
		if (row < 0 || strlen(group->name) != (size_t)(dot - name) || !text_starts(name, group->name))
			continue;
		target->row = &config_group_keys[row];
		target->slot = &group->slots[row];
		return STATUS_OK;
	}
	return error_set(STATUS_CONFIG,
		"${%s}: there is no such key (a list of datasets in a file replaces that of an earlier one)",
		key);
}

/* The caller frees target->key. */
static int target_find(const struct resolver *resolver, const char *key, struct target *target)
{
	int row = config_row(config_keys, key);
	target->key = memory_text(key);
	if (!target->key)
		return error_status();
	for (int list = 0; list < SYNTAX_LISTS; list++) {
		size_t length = strlen(syntax_list_names[list]);
		if (text_starts(key, syntax_list_names[list]) && key[length] == '.')
			return target_in_list(resolver, key, list, target);
	}
	if (row < 0)
		return error_set(STATUS_CONFIG, "${%s}: there is no such key", key);
	target->row = &config_keys[row];
	target->slot = &resolver->config->slots[row];
	return STATUS_OK;
}

static int expand_variable(const struct resolver *resolver, const char *name, struct text *out)
{
	bool declared = false;
	for (int i = 0; config_environment[i]; i++)
		declared = declared || text_match(config_environment[i], name);
	if (!declared)
		return error_set(STATUS_CONFIG,
			"${env:%s}: this variable is not declared (see ENVIRONMENT in mkconfig(1))", name);
	const char *value = getenv(name);
	if (!value)
		return error_set(STATUS_CONFIG,
			"${env:%s}: the environment has no %s; set it, or name the value by a word: %s=...",
			name, name, resolver->stack[resolver->depth - 1]);
	text_add(out, value);
	return STATUS_OK;
}

/* Errors of the referred key carry their own place: *placed. */
static int expand_key(struct resolver *resolver, const char *key, struct text *out, bool *placed)
{
	struct target target = {0};
	int status = target_find(resolver, key, &target);
	if (!status) {
		status = resolve(resolver, &target);
		*placed = status != STATUS_OK;
	}
	if (!status)
		value_word(target.row->type, &target.slot->value, out);
	free(target.key);
	return status;
}

static int expand_reference(
	struct resolver *resolver, const char *body, size_t length, struct text *out, bool *placed)
{
	char *name = memory_new(length + 1, 1);
	if (!name)
		return error_status();
	memcpy(name, body, length);
	int status = text_starts(name, "env:") ? expand_variable(resolver, name + 4, out)
					       : expand_key(resolver, name, out, placed);
	free(name);
	return status;
}

/* Replaces literal->text; what held a reference becomes a word, to be read by the type of its key. */
static int expand_text(struct resolver *resolver, struct literal *literal, bool plain, bool *placed)
{
	struct text out = {0};
	int status = STATUS_OK;
	for (const char *at = literal->text; *at && !status;) {
		if (text_starts(at, "$${")) {
			text_add(&out, "${");
			at += 3;
		} else if (text_starts(at, "${")) {
			const char *close = strchr(at, '}');
			if (plain)
				status = error_set(STATUS_CONFIG,
					"references are not resolved here: use mkconfig, or write \"$${\"");
			else if (!close)
				status = error_set(STATUS_CONFIG, "\"${\" has no \"}\"");
			else
				status = expand_reference(
					resolver, at + 2, (size_t)(close - at - 2), &out, placed);
			literal->kind = LITERAL_WORD;
			at = close ? close + 1 : at;
		} else {
			text_append(&out, at++, 1);
		}
		if (out.length > EXPANDED_BYTES && !status)
			status = error_set(STATUS_CONFIG, "a value of more than %d bytes", EXPANDED_BYTES);
	}
	if (!status) {
		free(literal->text);
		literal->text = text_take(&out);
		status = literal->text ? STATUS_OK : error_status();
	}
	text_release(&out);
	return status;
}

static int literal_copy(const struct literal *from, struct literal *to)
{
	*to = (struct literal){.kind = from->kind, .integer = from->integer, .number = from->number};
	if (from->text && !(to->text = memory_text(from->text)))
		return error_status();
	if (from->count == 0)
		return STATUS_OK;
	to->member = memory_new(from->count, sizeof *to->member);
	if (!to->member)
		return error_status();
	for (; to->count < from->count; to->count++) {
		int status = literal_copy(&from->member[to->count], &to->member[to->count]);
		if (status) {
			to->count++;
			return status;
		}
	}
	return STATUS_OK;
}

static int expand(struct resolver *resolver, struct literal *literal, bool plain, bool *placed)
{
	int status = STATUS_OK;
	if (literal->text && strstr(literal->text, "${"))
		status = expand_text(resolver, literal, plain, placed);
	for (size_t i = 0; i < literal->count && !status; i++)
		status = expand(resolver, &literal->member[i], plain, placed);
	return status;
}

/* ===== paths ===== */

/* Where a relative path starts: beside the file that holds it, or, for a word or the content of an environment
 * variable, where the user is. */
static const char *start_of(const struct assignment *from)
{
	bool variable = from && from->value.text && text_starts(from->value.text, "${env:");
	return from && from->directory && !variable ? from->directory : "";
}

static int make_absolute(const struct assignment *from, char **path)
{
	char *joined = NULL, *absolute = NULL;
	if (!**path)
		return STATUS_OK;
	if (text_starts(*path, "~/")) {
		const char *home = getenv("HOME");
		if (!home || home[0] != '/')
			return error_set(STATUS_CONFIG, "%s: the environment has no HOME", *path);
		joined = path_join(home, *path + 2);
	} else {
		joined = path_join(start_of(from), *path);
	}
	if (joined)
		absolute = path_absolute(joined);
	free(joined);
	if (!absolute)
		return error_status();
	free(*path);
	*path = absolute;
	return STATUS_OK;
}

/* ===== slots ===== */

static int fill(struct resolver *resolver, const struct target *target, bool *placed)
{
	struct config_slot *slot = target->slot;
	const struct assignment *from = slot->from;
	struct literal literal = {0};
	int status = from ? literal_copy(&from->value, &literal)
			  : literal_word(&literal, config_row_default(target->row, resolver->task));
	if (!status)
		status = expand(resolver, &literal, from && from->plain, placed);
	if (!status)
		status = value_convert(target->row, target->key, &literal, &slot->value);
	if (!status && target->row->type == CONFIG_PATH)
		status = make_absolute(from, &slot->value.texts[0]);
	if (!status) {
		slot->source = memory_text(from ? from->source : "default");
		status = slot->source ? STATUS_OK : error_status();
	}
	literal_release(&literal);
	return status;
}

static int refuse_circle(const struct resolver *resolver, const char *key)
{
	struct text path = {0};
	int start = resolver->depth;
	while (start > 0 && strcmp(resolver->stack[start - 1], key) != 0)
		start--;
	for (int i = start > 0 ? start - 1 : 0; i < resolver->depth; i++)
		text_format(&path, "%s -> ", resolver->stack[i]);
	text_add(&path, key);
	int status = error_set(STATUS_CONFIG, "references go in a circle: %s", path.data ? path.data : key);
	text_release(&path);
	return status;
}

static int resolve(struct resolver *resolver, const struct target *target)
{
	struct config_slot *slot = target->slot;
	const char *source = slot->from ? slot->from->source : "default";
	bool placed = false;
	int status;
	if (slot->state == SLOT_DONE)
		return STATUS_OK;
	if (slot->state == SLOT_BUSY) {
		status = refuse_circle(resolver, target->key);
	} else if (resolver->depth == STACK) {
		status = error_set(STATUS_CONFIG, "%s: references are more than %d deep", target->key, STACK);
	} else {
		resolver->stack[resolver->depth++] = target->key;
		slot->state = SLOT_BUSY;
		status = fill(resolver, target, &placed);
		resolver->depth--;
		slot->state = SLOT_DONE;
	}
	return status && !placed ? error_prefix("%s", source) : status;
}

static int resolve_group(struct resolver *resolver, int list, const struct config_group *group)
{
	int status = STATUS_OK;
	for (int row = 0; config_group_keys[row].key && !status; row++) {
		struct target target = {.row = &config_group_keys[row], .slot = &group->slots[row]};
		struct text key = {0};
		text_format(&key, "%s.%s.%s", syntax_list_names[list], group->name, target.row->key);
		target.key = text_take(&key);
		status = target.key ? resolve(resolver, &target) : error_status();
		free(target.key);
	}
	return status;
}

int config_resolve(struct config *config)
{
	struct resolver resolver = {.config = config, .task = ""};
	int status = STATUS_OK;
	for (int row = 0; config_keys[row].key && !status; row++) {
		struct target target = {.row = &config_keys[row], .slot = &config->slots[row]};
		target.key = memory_text(config_keys[row].key);
		status = target.key ? resolve(&resolver, &target) : error_status();
		free(target.key);
		if (!status && row == 0) /* the task comes first: defaults depend on it */
			resolver.task = config_task(config);
	}
	for (int list = 0; list < SYNTAX_LISTS && !status; list++)
		for (size_t i = 0; i < config->lists[list].count && !status; i++)
			status = resolve_group(&resolver, list, &config->lists[list].group[i]);
	return status;
}
