/* checkpoints/: what is there, and whether it is whole. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/record_parts.h"
#include "run/checkpoint.h"
#include "run/checkpoint_parts.h"
#include "run/manifest.h"

/* Checkpoints of up to so many bytes are read whole in any case. */
#define READ_WHOLE ((uint64_t)1 << 28)

/* Whether the files have the lengths that MANIFEST says. */
static int check_lengths(const char *directory, const struct manifest *manifest)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < manifest->count && !status; i++) {
		char *path = path_join(directory, manifest->file[i].path);
		uint64_t bytes = 0;

		status = path ? file_size(path, &bytes) : error_status();
		if (!status && bytes != manifest->file[i].bytes)
			status = error_set(STATUS_DATA, "%s: %llu bytes where MANIFEST says %llu", path,
				(unsigned long long)bytes, (unsigned long long)manifest->file[i].bytes);
		free(path);
	}
	return status;
}

static int judge(const struct record *record, const struct checkpoint_entry *entry, bool verify,
	struct record_checkpoint *checkpoint)
{
	struct manifest manifest = {0};
	char *path = checkpoint_name(&record->run, entry->kind, entry->step, "");
	int status = path ? manifest_read(path, &manifest) : error_status();

	for (size_t i = 0; !status && i < manifest.count; i++)
		checkpoint->bytes += manifest.file[i].bytes;
	if (!status) {
		snprintf(checkpoint->digest, sizeof checkpoint->digest, "%08x", manifest.crc_model);
		checkpoint->sampled = !verify && checkpoint->bytes > READ_WHOLE;
		if (checkpoint->sampled)
			status = check_lengths(path, &manifest);
		else
			status = record->run.config ? checkpoint_judge(&record->run, entry, false)
						    : checkpoint_verify(path);
	}
	manifest_release(&manifest);
	free(path);
	return status;
}

static int read_best(struct record *record)
{
	if (checkpoint_best_read(&record->run, &record->has_best, &record->best_step, record->best_metric,
		    &record->best_value)) {
		record->has_best = false;
		return record_trouble(record);
	}
	return STATUS_OK;
}

int record_read_checkpoints(struct record *record, bool verify)
{
	struct checkpoint_entry *entries = NULL;
	size_t count = 0;
	int status = STATUS_OK;

	if (checkpoint_list(&record->run, &entries, &count)) {
		free(entries);
		return record_trouble(record);
	}
	record->checkpoint = memory_new(count, sizeof *record->checkpoint);
	if (!record->checkpoint)
		status = error_status();
	for (size_t i = 0; i < count && !status; i++) {
		struct record_checkpoint *checkpoint = &record->checkpoint[record->checkpoints++];
		char *path = checkpoint_name(&record->run, entries[i].kind, entries[i].step, "");

		checkpoint->name = path ? memory_text(path_base(path)) : NULL;
		checkpoint->weights = entries[i].kind == CHECKPOINT_WEIGHTS;
		checkpoint->step = entries[i].step;
		checkpoint->valid = !judge(record, &entries[i], verify, checkpoint);
		if (!checkpoint->valid) {
			checkpoint->wrong = memory_text(error_message());
			error_clear();
		}
		free(path);
		if (!checkpoint->name || (!checkpoint->valid && !checkpoint->wrong))
			status = error_set(STATUS_FAILURE, "out of memory");
	}
	free(entries);
	return status ? status : read_best(record);
}

const struct record_checkpoint *record_newest(const struct record *record)
{
	const struct record_checkpoint *weights = NULL;

	for (size_t i = 0; i < record->checkpoints; i++) {
		const struct record_checkpoint *checkpoint = &record->checkpoint[i];

		if (checkpoint->valid && !checkpoint->weights)
			return checkpoint;
		if (checkpoint->valid && !weights)
			weights = checkpoint;
	}
	return weights;
}
