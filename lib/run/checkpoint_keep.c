/* Checkpoints: which ones stay, and the best one. */
#include "run/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/checkpoint_parts.h"

enum { BEST_LIMIT = 65536, BEST_FIELDS = 5 };

/* ---- removing ---- */

/* Renamed first, so that no reader takes a half-removed one for a damaged one. */
static int remove_checkpoint(const struct run *run, const struct checkpoint_entry *entry)
{
	char *path = checkpoint_name(run, entry->kind, entry->step, "");
	char *phase = checkpoint_name(run, entry->kind, entry->step, ".phase");
	char *dead = path ? path_temporary(path, "dead") : NULL;
	int status = phase && dead ? STATUS_OK : error_status();
	if (!status && file_exists(path))
		status = file_rename(path, dead);
	if (!status)
		status = file_remove(phase);
	if (!status)
		status = file_remove_tree(dead);
	free(dead);
	free(phase);
	free(path);
	return status;
}

/* Removes all step-* behind the first `keep` that are good. Nothing goes before the newest good one has been read back from the
 * storage; one that is newer but damaged counts for nothing and stays for its owner to see until its step comes again. */
static int remove_older(
	const struct shift *shift, const struct checkpoint_entry *entries, size_t count, int64_t keep)
{
	size_t first = 0;
	int status = STATUS_OK;
	for (; first < count; first++) {
		status = checkpoint_judge(shift->run, &entries[first], true);
		if (!checkpoint_is_damage(status))
			break;
		warn("%s; no older checkpoint is removed for this one", error_message());
		status = STATUS_OK;
	}
	for (size_t i = first + (size_t)keep; i < count && !status; i++) {
		status = shift_fence(shift);
		if (!status)
			status = remove_checkpoint(shift->run, &entries[i]);
	}
	return status;
}

/* Phase files whose checkpoint is gone: a shift was killed between removing the two. */
static int remove_orphans(const struct run *run)
{
	struct names names = {0};
	char *directory = run_path(run, "checkpoints");
	int status = directory && file_exists(directory) ? file_list(directory, &names) : STATUS_OK;
	for (size_t i = 0; i < names.count && !status; i++) {
		if (!text_starts(names.name[i], "step-") || !text_ends(names.name[i], ".phase"))
			continue;
		char *path = path_join(directory, names.name[i]);
		char *owner = path ? memory_text(path) : NULL;
		if (owner)
			owner[strlen(owner) - strlen(".phase")] = 0;
		status = owner ? STATUS_OK : error_status();
		if (!status && !file_exists(owner))
			status = file_remove(path);
		free(owner);
		free(path);
	}
	names_release(&names);
	free(directory);
	return status;
}

int checkpoint_prune(const struct shift *shift, int64_t keep)
{
	struct checkpoint_entry *entries;
	size_t count, steps = 0;
	int status = checkpoint_list(shift->run, &entries, &count);
	for (size_t i = 0; i < count; i++)
		if (entries[i].kind == CHECKPOINT_STEP)
			entries[steps++] = entries[i];
	keep = keep < 1 ? 1 : keep;
	if (!status)
		status = shift_fence(shift);
	if (!status)
		status = shift_sweep(shift, "checkpoints");
	if (!status && steps > (size_t)keep)
		status = remove_older(shift, entries, steps, keep);
	if (!status)
		status = remove_orphans(shift->run);
	free(entries);
	return shift_failed(shift, status);
}

/* ---- the best ---- */

struct best {
	int64_t step, former; /* former: the best before, -1: none or not known */
	char metric[64];
	double value;
};

static int parse_best(const char *path, char *data, struct best *best)
{
	char *field[BEST_FIELDS], *line = strchr(data, '\n');
	char *end = line ? strchr(line + 1, '\n') : NULL;
	if (!end)
		return error_set(STATUS_DATA, "%s: is not a header and one row", path);
	*end = 0;
	int fields = text_split(line + 1, '\t', field, BEST_FIELDS);
	best->former = -1;
	if (fields < 3 || !text_to_int64(field[0], &best->step) || !text_to_double(field[2], &best->value) ||
		strlen(field[1]) >= sizeof best->metric)
		return error_set(STATUS_DATA, "%s: its row is not step, metric, value", path);
	snprintf(best->metric, sizeof best->metric, "%s", field[1]);
	if (fields > 3 && !text_to_int64(field[3], &best->former))
		best->former = -1;
	return STATUS_OK;
}

static int read_best(const struct run *run, bool *found, struct best *best)
{
	char *data, *path = run_path(run, "checkpoints/best");
	size_t bytes;
	*found = false;
	*best = (struct best){0};
	int status = path ? file_read(path, BEST_LIMIT, &data, &bytes) : error_status();
	if (!status) {
		status = parse_best(path, data, best);
		*found = !status;
		free(data);
	} else if (status == STATUS_NO_INPUT) {
		status = STATUS_OK;
	}
	free(path);
	return status;
}

int checkpoint_best_read(const struct run *run, bool *found, int64_t *step, char metric[64], double *value)
{
	struct best best;
	int status = read_best(run, found, &best);
	if (!status && *found) {
		*step = best.step;
		*value = best.value;
		snprintf(metric, 64, "%s", best.metric);
	}
	return status;
}

/* The weights of the best before go when the new ones are whole on disk and no other rule keeps them. */
static int remove_former(
	const struct shift *shift, const struct best *best, checkpoint_keeps *keeps, const void *context)
{
	struct checkpoint_entry now = {CHECKPOINT_WEIGHTS, best->step},
				former = {CHECKPOINT_WEIGHTS, best->former};
	char *path = checkpoint_name(shift->run, former.kind, former.step, "");
	int status = path ? STATUS_OK : error_status();
	if (status || !file_exists(path) || best->former == best->step || keeps(context, best->former))
		goto done;
	status = checkpoint_judge(shift->run, &now, true);
	if (checkpoint_is_damage(status)) {
		warn("%s; %s stays", error_message(), path);
		status = STATUS_OK;
		goto done;
	}
	if (!status)
		status = shift_fence(shift);
	if (!status)
		status = remove_checkpoint(shift->run, &former);
done:
	free(path);
	return status;
}

int checkpoint_best_write(const struct shift *shift, int64_t step, const char *metric, double value,
	checkpoint_keeps *keeps, const void *context)
{
	struct best before, best = {.step = step, .former = -1, .value = value};
	struct text text = {0};
	bool found;
	char *path = run_path(shift->run, "checkpoints/best");
	int status = path ? read_best(shift->run, &found, &before) : error_status();
	if (status == STATUS_DATA) {
		warn("%s; it is written anew", error_message());
		status = STATUS_OK;
		found = false;
	}
	/* The same step again: a shift was killed between writing the file and removing the former weights. */
	if (!status && found)
		best.former = before.step == step ? before.former : before.step;
	text_format(&text, "#step\tmetric\tvalue\tformer\n%lld\t", (long long)step);
	text_field(&text, metric);
	text_add(&text, "\t");
	text_number(&text, value);
	text_format(&text, "\t%lld\n", (long long)best.former);
	if (!status)
		status = text_check(&text);
	if (!status)
		status = shift_fence(shift);
	if (!status)
		status = file_publish(path, text.data, text.length);
	if (!status && best.former >= 0)
		status = remove_former(shift, &best, keeps, context);
	text_release(&text);
	free(path);
	return shift_failed(shift, status);
}
