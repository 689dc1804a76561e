/* The files of a run directory: MANIFEST, train.cfg, shifts.tsv, claims. What is accepted must read back as it was written. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "fuzz.h"
#include "run/checkpoint_parts.h"
#include "run/claim.h"
#include "run/snapshot_manifest.h"
#include "run/stage_rows.h"

/* A copy with a NUL behind it. */
static char *copy(const void *data, size_t bytes)
{
	char *text = memory_new(bytes + 1, 1);
	if (text && bytes)
		memcpy(text, data, bytes);
	return text;
}

/* Once as it is, and once with the sum that its lines ought to have: few mutations would get past that otherwise. */
static int parse_manifest(const void *data, size_t bytes)
{
	struct manifest manifest;
	struct text summed = {0};
	char *text = copy(data, bytes);
	int status = text ? manifest_parse("MANIFEST", text, bytes, &manifest) : error_status();
	if (!status)
		manifest_release(&manifest);
	free(text);
	size_t lines = bytes > 9 ? bytes - 9 : 0; /* the last line is eight digits and a newline */
	text_append(&summed, data, lines);
	text_format(&summed, "%08x\n", crc32c(0, data, lines));
	if (!text_check(&summed) && !manifest_parse("MANIFEST", summed.data, summed.length, &manifest)) {
		for (size_t i = 0; i < manifest.count; i++)
			if (!path_is_inside(manifest.file[i].path))
				abort();
		manifest_release(&manifest);
		status = STATUS_OK;
	}
	text_release(&summed);
	return status;
}

static int parse_state(const void *data, size_t bytes)
{
	struct train_state state, again;
	struct text first = {0}, second = {0};
	char *text = copy(data, bytes);
	int status = text ? train_state_take("train.cfg", text, bytes, &state) : error_status();
	if (status)
		return status;
	train_state_format(&state, &first);
	text = copy(first.data, first.length);
	if (!text || train_state_take("train.cfg", text, first.length, &again))
		abort();
	train_state_format(&again, &second);
	if (strcmp(first.data, second.data))
		abort();
	text_release(&first);
	text_release(&second);
	train_state_release(&state);
	train_state_release(&again);
	return STATUS_OK;
}

static int parse_rows(const void *data, size_t bytes)
{
	struct shift_row *rows;
	size_t count;
	char *text = copy(data, bytes);
	int status = text ? shift_rows_parse(text, &rows, &count) : error_status();
	if (!status) {
		status = count ? STATUS_OK : STATUS_DATA;
		free(rows);
	}
	free(text);
	return status;
}

static int parse_claim(const void *data, size_t bytes)
{
	struct claim claim, again;
	struct text back = {0};
	char *text = copy(data, bytes);
	int status = text ? claim_take("shifts/1", text, bytes, &claim) : error_status();
	if (status)
		return status;
	claim_format(&claim, &back);
	text = copy(back.data, back.length);
	if (!text || claim_take("shifts/1", text, back.length, &again) ||
		memcmp(&claim, &again, sizeof claim))
		abort();
	text_release(&back);
	return STATUS_OK;
}

/* Journal and manifest of a staged copy; the manifest once more with the sum that its rows ought to have. */
static int parse_staged(const void *data, size_t bytes)
{
	struct stage_rows rows = {0};
	struct text summed = {0};
	bool whole = false;
	size_t lines = bytes > 9 ? bytes - 9 : 0;
	const char *path = fuzz_path(data, bytes);
	if (!path || stage_rows_read_journal(&rows, path))
		return error_status();
	stage_rows_release(&rows);
	if (stage_rows_read_manifest(&rows, path, &whole))
		return error_status();
	stage_rows_release(&rows);
	text_append(&summed, data, lines);
	text_format(&summed, "%08x\n", crc32c(0, data, lines));
	path = text_check(&summed) ? NULL : fuzz_path(summed.data, summed.length);
	text_release(&summed);
	if (!path || stage_rows_read_manifest(&rows, path, &whole))
		return error_status();
	for (size_t i = 0; i < rows.count; i++)
		if (!path_is_inside(rows.row[i].path) || !stage_rows_find(&rows, rows.row[i].path, 0))
			abort();
	stage_rows_release(&rows);
	return whole ? STATUS_OK : STATUS_DATA;
}

static int parse_code_manifest(const void *data, size_t bytes)
{
	struct code_manifest manifest;
	struct text rows = {0};
	size_t count = 0;
	char *text = copy(data, bytes);
	int status = text ? code_manifest_parse(&manifest, "code.manifest", text) : error_status();
	if (status)
		return status;
	if (code_manifest_compare(&manifest, &manifest, &rows, &count) || count)
		abort();
	text_release(&rows);
	code_manifest_release(&manifest);
	return STATUS_OK;
}

const struct fuzz_parser fuzz_run[] = {{"manifest", parse_manifest}, {"state", parse_state},
	{"shifts", parse_rows}, {"claim", parse_claim}, {"staged", parse_staged},
	{"code-manifest", parse_code_manifest}, {0}};
