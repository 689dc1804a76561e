/* Taking and comparing code snapshots. */
#include "run/snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/tar.h"
#include "run/shift.h"
#include "run/snapshot_files.h"
#include "run/snapshot_manifest.h"

enum { MANIFEST_BYTES = 256 << 20, BUFFER_BYTES = 64 << 10 };

/* ---- the archive ---- */

/* Where the tar's bytes go: a digest, and gzip into RUN/code.tar.gz. */
struct archive {
	struct sha256 digest;
	uint64_t bytes;
	z_stream stream;
	struct publish publish;
	unsigned char buffer[BUFFER_BYTES];
};

static int squeeze(struct archive *archive, int flush)
{
	int result;
	do {
		archive->stream.next_out = archive->buffer;
		archive->stream.avail_out = BUFFER_BYTES;
		result = deflate(&archive->stream, flush);
		size_t made = BUFFER_BYTES - archive->stream.avail_out;
		int status = made ? publish_write(&archive->publish, archive->buffer, made) : STATUS_OK;
		if (status)
			return status;
	} while (!archive->stream.avail_out || (flush == Z_FINISH && result == Z_OK));
	return STATUS_OK;
}

static int sink(void *context, const void *data, size_t bytes)
{
	struct archive *archive = context;
	int status = STATUS_OK;
	sha256_update(&archive->digest, data, bytes);
	archive->bytes += bytes;
	for (const unsigned char *at = data; bytes && !status;) {
		uInt part = bytes < (1u << 30) ? (uInt)bytes : 1u << 30;
		archive->stream.next_in = (unsigned char *)(uintptr_t)at;
		archive->stream.avail_in = part;
		status = squeeze(archive, Z_NO_FLUSH);
		at += part;
		bytes -= part;
	}
	return status;
}

static int write_members(const struct snapshot_files *files, struct tar_writer *writer)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < files->count && !status; i++) {
		const struct snapshot_entry *entry = &files->entries[i];
		if (entry->kind == SNAPSHOT_FILE)
			status = tar_write_file(
				writer, entry->path, entry->executable, entry->data, entry->bytes);
		else if (entry->kind == SNAPSHOT_LINK)
			status = tar_write_link(writer, entry->path, entry->value);
	}
	return status ? status : tar_finish(writer);
}

/* gzip's header without name and time, so that equal trees give equal archives. */
static int write_archive(const struct snapshot_files *files, const char *path, char hex[65], uint64_t *bytes)
{
	struct archive *archive = memory_new(1, sizeof *archive);
	if (!archive)
		return error_status();
	struct tar_writer writer = {.sink = sink, .context = archive, .modified = files->git.time};
	sha256_init(&archive->digest);
	int status = deflateInit2(&archive->stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK
			     ? publish_open(&archive->publish, path)
			     : error_set(STATUS_FAILURE, "out of memory");
	if (!status)
		status = write_members(files, &writer);
	if (!status)
		status = squeeze(archive, Z_FINISH);
	if (!status)
		status = publish_commit(&archive->publish);
	publish_abandon(&archive->publish);
	deflateEnd(&archive->stream);
	sha256_hex(&archive->digest, hex);
	*bytes = archive->bytes;
	free(archive);
	return status;
}

/* Whether the archive's content still has the digest of the manifest. */
static int check_archive(const char *path, const struct manifest_row *row)
{
	struct sha256 digest;
	char hex[65];
	int got = 0;
	unsigned char *buffer = memory_new(BUFFER_BYTES, 1);
	gzFile file = buffer ? gzopen(path, "rb") : NULL;
	sha256_init(&digest);
	while (file && (got = gzread(file, buffer, BUFFER_BYTES)) > 0)
		sha256_update(&digest, buffer, (size_t)got);
	int closed = file ? gzclose(file) : Z_OK;
	free(buffer);
	sha256_hex(&digest, hex);
	if (!file)
		return error_set(STATUS_NO_INPUT, "%s: cannot be opened", path);
	if (got < 0 || closed != Z_OK || strcmp(hex, row->value))
		return error_set(
			STATUS_DATA, "%s: is damaged, its content is not that of code.manifest", path);
	return STATUS_OK;
}

/* ---- what is there already ---- */

static int read_manifest(const struct run *run, bool *found, struct code_manifest *manifest)
{
	char *data, *path = run_path(run, "code.manifest");
	size_t bytes;
	*found = false;
	int status = path ? STATUS_OK : error_status();
	if (!status && file_exists(path)) {
		status = file_read(path, MANIFEST_BYTES, &data, &bytes);
		if (!status)
			status = code_manifest_parse(manifest, path, data);
		*found = !status;
	}
	free(path);
	return status;
}

/* Whether a shift has ever claimed the run: until then its snapshot can be replaced. */
static bool has_begun(const struct run *run)
{
	char *path = run_path(run, "shifts/1");
	bool begun = path && file_exists(path);
	free(path);
	return begun;
}

static void tell_omitted(const struct snapshot_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct snapshot_entry *entry = &files->entries[i];
		if (entry->kind == SNAPSHOT_OMITTED && strcmp(entry->value, "deleted"))
			warn("%s: left out of the snapshot (%s)", entry->path, entry->value);
		else if (entry->kind == SNAPSHOT_LINK && *entry->note)
			warn("%s: a link to %s, %s", entry->path, entry->value, entry->note);
	}
	if (!files->git.top)
		note("%s: taken without git (%s)", files->top, files->why);
}

/* ---- taking ---- */

static int take_first(const struct run *run, const struct snapshot_files *files)
{
	char hex[65];
	uint64_t bytes = 0;
	struct text text = {0};
	char *archive = run_path(run, "code.tar.gz"), *manifest = run_path(run, "code.manifest");
	int status = archive && manifest ? write_archive(files, archive, hex, &bytes) : error_status();
	if (!status)
		status = code_manifest_format(files, hex, bytes, &text);
	if (!status)
		status = file_publish(manifest, text.data, text.length);
	if (!status)
		tell_omitted(files);
	text_release(&text);
	free(archive);
	free(manifest);
	return status;
}

static char *later_path(const struct run *run)
{
	struct shift_identity identity;
	shift_identity(&identity);
	if (!strcmp(identity.job, "-"))
		return run_path(run, "code-%s.%lld.manifest", identity.host, (long long)identity.pid);
	return run_path(run, "code-%s.%lld.manifest", identity.job, (long long)identity.restart);
}

/* The run has begun with the code of `first`; what is found now is written down where it differs. */
static int compare_later(
	const struct run *run, const struct snapshot_files *files, const struct code_manifest *first)
{
	struct text text = {0}, rows = {0};
	struct code_manifest now = {0};
	size_t count = 0;
	char *path = NULL, *copy = NULL;
	int status = code_manifest_format(files, "", 0, &text);
	if (!status)
		status = (copy = memory_copy(text.data, text.length + 1))
				 ? code_manifest_parse(&now, "snapshot", copy)
				 : error_status();
	if (!status)
		status = code_manifest_compare(first, &now, &rows, &count);
	if (!status && count) {
		path = later_path(run);
		status = path ? file_publish(path, text.data, text.length) : error_status();
	}
	if (!status && count) {
		rows.data[strcspn(rows.data, "\n")] = 0;
		for (char *tab = strchr(rows.data, '\t'); tab; tab = strchr(tab, '\t'))
			*tab = ' ';
		warn("the code or the programs are not those the run began with: %zu differences, the first: "
		     "%s; see %s",
			count, rows.data, path);
	}
	text_release(&text);
	text_release(&rows);
	code_manifest_release(&now);
	free(path);
	return status;
}

int snapshot_take(const struct run *run, const char *directory, bool force)
{
	struct snapshot_files files = {0};
	struct code_manifest first = {0};
	bool found = false;
	int status = snapshot_files_read(&files, directory, run->path, force);
	if (!status && has_begun(run))
		status = read_manifest(run, &found, &first);
	if (!status)
		status = found ? compare_later(run, &files, &first) : take_first(run, &files);
	code_manifest_release(&first);
	snapshot_files_release(&files);
	return status;
}

/* ---- comparing ---- */

static int compare_now(const struct code_manifest *first, const struct snapshot_files *files,
	struct text *rows, size_t *count)
{
	struct text text = {0};
	struct code_manifest now = {0};
	int status = code_manifest_format(files, "", 0, &text);
	char *copy = status ? NULL : memory_copy(text.data, text.length + 1);
	if (!status)
		status = copy ? code_manifest_parse(&now, "snapshot", copy) : error_status();
	if (!status)
		status = code_manifest_compare(first, &now, rows, count);
	code_manifest_release(&now);
	text_release(&text);
	return status;
}

int snapshot_verify(
	const struct run *run, const char *directory, bool force, struct text *rows, size_t *count)
{
	struct snapshot_files files = {0};
	struct code_manifest first = {0};
	bool found = false;
	char *archive = run_path(run, "code.tar.gz");
	int status = archive ? read_manifest(run, &found, &first) : error_status();
	if (!status && !found)
		status = error_set(STATUS_NO_INPUT,
			"%s/code.manifest: is missing; make it with: snapshot-code %s", run->path, run->path);
	const struct manifest_row *tar = status ? NULL : code_manifest_find(&first, "tar", NULL);
	if (!status && !tar)
		status = error_set(STATUS_DATA, "%s/code.manifest: has no row of the archive", run->path);
	if (!status)
		status = check_archive(archive, tar);
	const struct manifest_row *taken_of = status ? NULL : code_manifest_find(&first, "directory", NULL);
	if (!directory)
		directory = taken_of ? taken_of->name : ".";
	if (!status)
		status = snapshot_files_read(&files, directory, run->path, force);
	text_add(rows, "#change\tkind\tname\n");
	if (!status)
		status = compare_now(&first, &files, rows, count);
	code_manifest_release(&first);
	snapshot_files_release(&files);
	free(archive);
	return status;
}
