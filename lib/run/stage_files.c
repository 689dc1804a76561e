/* Copying files to local scratch. */
#include "run/stage_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"

enum {
	PIECE_BYTES = 64 << 20, /* of a large file */
	BUFFER_BYTES = 128 << 10,
	BATCH_FILES = 64,
	BATCH_BYTES = 8 << 20,
};

/* ---- counting ---- */

void stage_count_start(struct stage_count *count, const char *what, uint64_t files, uint64_t bytes)
{
	*count = (struct stage_count){
		.lock = PTHREAD_MUTEX_INITIALIZER, .all_files = files, .all_bytes = bytes};
	progress_start(&count->progress, what);
}

static void show(struct stage_count *count)
{
	char done[32], all[32], rate[32], left[32];
	double seconds = clock_seconds() - count->progress.started;
	double speed = seconds > 0 ? (double)count->bytes / seconds : 0;
	text_of_bytes(count->bytes, done);
	text_of_bytes((uint64_t)speed, rate);
	if (!count->all_bytes || speed <= 0) {
		progress_show(&count->progress, "%llu files, %s, %s/s", (unsigned long long)count->files,
			done, rate);
		return;
	}
	text_of_bytes(count->all_bytes, all);
	text_of_seconds((double)(count->all_bytes - count->bytes) / speed, left);
	progress_show(&count->progress, "%llu of %llu files, %s of %s, %s/s, %s left",
		(unsigned long long)count->files, (unsigned long long)count->all_files, done, all, rate,
		left);
}

void stage_count_add(struct stage_count *count, uint64_t files, uint64_t bytes)
{
	pthread_mutex_lock(&count->lock);
	count->files += files;
	count->bytes += bytes;
	if (progress_due(&count->progress))
		show(count);
	pthread_mutex_unlock(&count->lock);
}

void stage_count_end(struct stage_count *count)
{
	progress_end(&count->progress);
}

/* ---- the target ---- */

int stage_space_check(const struct stage_target *target, uint64_t bytes, uint64_t files)
{
	struct statvfs space;
	char wanted[32], there[32];
	if (fstatvfs(target->descriptor, &space))
		return error_errno(0, "%s", target->path);
	uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
	if (bytes > free_bytes)
		return error_set(STATUS_CANNOT_CREATE,
			"%s: %s are needed and %s are free; free some, or choose another place with "
			"--to",
			target->path, text_of_bytes(bytes, wanted), text_of_bytes(free_bytes, there));
	if (space.f_files && files > space.f_favail) /* no inode count: there is no limit */
		return error_set(STATUS_CANNOT_CREATE,
			"%s: %llu inodes are needed and %llu are free; pack the files into a tar "
			"archive, or choose another place with --to",
			target->path, (unsigned long long)files, (unsigned long long)space.f_favail);
	return STATUS_OK;
}

int stage_create(const struct stage_target *target, int directory, const char *name)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int file = openat(directory, name, flags, 0600);
	if (file < 0 && errno == EEXIST && !unlinkat(directory, name, 0))
		file = openat(directory, name, flags, 0600);
	if (file < 0)
		error_errno(0, "cannot create %s below %s", name, target->path);
	return file;
}

int stage_make_directory(const struct stage_target *target, const char *path)
{
	if (*path && mkdirat(target->descriptor, path, 0700) && errno != EEXIST)
		return error_errno(0, "cannot create %s/%s", target->path, path);
	return STATUS_OK;
}

int stage_digest(const struct stage_target *target, const char *path, uint64_t *bytes, uint32_t *crc)
{
	int status = STATUS_OK;
	ssize_t got = 1;
	*bytes = *crc = 0;
	char *buffer = memory_new(BUFFER_BYTES, 1);
	int file = openat(target->descriptor, path, O_RDONLY | O_CLOEXEC);
	if (!buffer)
		status = error_status();
	else if (file < 0)
		status = error_errno(0, "%s/%s", target->path, path);
	while (!status && got) {
		got = read(file, buffer, BUFFER_BYTES);
		if (got < 0 && errno != EINTR)
			status = error_errno(0, "%s/%s", target->path, path);
		if (got > 0) {
			*crc = crc32c(*crc, buffer, (size_t)got);
			*bytes += (uint64_t)got;
		}
	}
	if (file >= 0)
		close(file);
	free(buffer);
	return status;
}

/* ---- the plan ---- */

/* A file in several pieces. */
struct large {
	size_t file;
	size_t pieces;
	uint32_t *crc;
	atomic_size_t missing;
};

/* One numbered job: some files of one directory, or one piece of a large file. */
struct job {
	size_t first, count; /* files; of a piece: the large file and 1 */
	struct large *large;
	size_t piece;
};

struct copy {
	struct stage_tree *tree;
	const struct stage_rows *have;
	const struct stage_target *target;
	struct stage_count *count;
	struct large **larges;
	size_t large_count, large_capacity;
	struct job *jobs;
	size_t job_count, job_capacity;
	bool *whole; /* of each file */
	uint64_t bytes, files;
};

static uint64_t piece_bytes(const struct stage_file *file, size_t piece)
{
	uint64_t offset = (uint64_t)piece * PIECE_BYTES;
	return file->bytes - offset < PIECE_BYTES ? file->bytes - offset : PIECE_BYTES;
}

static int add_job(struct copy *copy, struct job job)
{
	if (memory_grow(&copy->jobs, &copy->job_capacity, copy->job_count + 1, sizeof *copy->jobs))
		return error_status();
	copy->jobs[copy->job_count++] = job;
	return STATUS_OK;
}

static struct large *new_large(struct copy *copy, size_t index)
{
	size_t pieces = (size_t)((copy->tree->files[index].bytes + PIECE_BYTES - 1) / PIECE_BYTES);
	if (memory_grow(&copy->larges, &copy->large_capacity, copy->large_count + 1, sizeof *copy->larges))
		return NULL;
	struct large *large = memory_new(1, sizeof *large);
	if (!large)
		return NULL;
	copy->larges[copy->large_count++] = large;
	large->file = index;
	large->pieces = pieces;
	large->crc = memory_new(pieces, sizeof *large->crc);
	return large->crc ? large : NULL;
}

static void finish_large(const struct copy *copy, const struct large *large)
{
	struct stage_file *file = &copy->tree->files[large->file];
	uint32_t crc = large->crc[0];
	for (size_t i = 1; i < large->pieces; i++)
		crc = crc32c_combine(crc, large->crc[i], piece_bytes(file, i));
	file->crc = crc;
}

static int plan_large(struct copy *copy, size_t index)
{
	const struct stage_file *file = &copy->tree->files[index];
	struct large *large = new_large(copy, index);
	int status = large ? STATUS_OK : error_status();
	for (size_t i = 0; large && !status && i < large->pieces; i++) {
		const struct stage_row *row =
			stage_rows_find(copy->have, file->path, (uint64_t)i * PIECE_BYTES);
		if (row && row->good && row->bytes == piece_bytes(file, i)) {
			large->crc[i] = row->crc;
			continue;
		}
		large->missing++;
		copy->bytes += piece_bytes(file, i);
		status = add_job(copy, (struct job){.first = index, .count = 1, .large = large, .piece = i});
	}
	if (!status && !large->missing)
		finish_large(copy, large);
	return status;
}

/* Marks what is whole and plans the large files: they come first, so that no thread is left with one at the
 * end. */
static int plan_first(struct copy *copy)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < copy->tree->file_count && !status; i++) {
		struct stage_file *file = &copy->tree->files[i];
		const struct stage_row *row = stage_rows_find(copy->have, file->path, 0);
		copy->whole[i] = row && row->good && row->bytes == file->bytes;
		if (copy->whole[i])
			file->crc = row->crc;
		else if (file->bytes > PIECE_BYTES)
			status = plan_large(copy, i);
		else
			copy->bytes += file->bytes;
		copy->files += !copy->whole[i];
	}
	return status;
}

static int plan_batches(struct copy *copy)
{
	struct job batch = {0};
	uint64_t bytes = 0;
	int status = STATUS_OK;
	for (size_t i = 0; i < copy->tree->file_count && !status; i++) {
		const struct stage_file *file = &copy->tree->files[i];
		if (copy->whole[i] || file->bytes > PIECE_BYTES)
			continue;
		if (batch.count && (copy->tree->files[batch.first].directory != file->directory ||
					   bytes > BATCH_BYTES || batch.count >= BATCH_FILES)) {
			status = add_job(copy, batch);
			batch.count = 0;
		}
		if (!batch.count) {
			batch.first = i;
			bytes = 0;
		}
		batch.count = i - batch.first + 1; /* whole files in between are passed over */
		bytes += file->bytes;
	}
	return status || !batch.count ? status : add_job(copy, batch);
}

/* ---- copying ---- */

static int source_error(const struct stage_tree *tree, const struct stage_file *file)
{
	return error_errno(0, "%s/%s", tree->root, file->path);
}

static int changed(const struct stage_tree *tree, const struct stage_file *file)
{
	return error_set(STATUS_DATA,
		"%s/%s: changed while it was copied; start again when nothing writes there", tree->root,
		file->path);
}

int stage_write_at(const struct stage_target *target, const char *path, int descriptor, const void *data,
	size_t bytes, uint64_t offset)
{
	const char *rest = data;
	while (bytes) {
		ssize_t written = pwrite(descriptor, rest, bytes, (off_t)offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_errno(0, "%s/%s", target->path, path);
		rest += written;
		offset += (uint64_t)written;
		bytes -= (size_t)written;
	}
	return STATUS_OK;
}

int stage_read_at(const struct stage_tree *tree, const struct stage_file *file, int descriptor, void *data,
	size_t bytes, uint64_t offset)
{
	size_t got;
	if (!file_read_at(descriptor, data, bytes, offset, &got))
		return source_error(tree, file);
	return got == bytes ? STATUS_OK : changed(tree, file);
}

/* `bytes` bytes from `offset`, with their digest. */
static int copy_range(const struct copy *copy, const struct stage_file *file, int source, int target,
	uint64_t offset, uint64_t bytes, char *buffer, uint32_t *crc)
{
	*crc = 0;
	while (bytes) {
		size_t some = bytes < BUFFER_BYTES ? (size_t)bytes : BUFFER_BYTES;
		int status = stage_read_at(copy->tree, file, source, buffer, some, offset);
		*crc = crc32c(*crc, buffer, status ? 0 : some);
		if (!status)
			status = stage_write_at(copy->target, file->path, target, buffer, some, offset);
		if (status)
			return status;
		offset += some;
		bytes -= some;
	}
	return STATUS_OK;
}

int stage_check_source(const struct stage_tree *tree, const struct stage_file *file, int descriptor)
{
	struct stat now;
	if (fstat(descriptor, &now))
		return source_error(tree, file);
	if ((uint64_t)now.st_size != file->bytes ||
		(int64_t)now.st_mtim.tv_sec * 1000000000 + now.st_mtim.tv_nsec != file->modified)
		return changed(tree, file);
	return STATUS_OK;
}

/* The source is still what was listed, and the copy has its size. */
static int check_sizes(const struct copy *copy, const struct stage_file *file, int source, int target)
{
	struct stat there;
	if (stage_check_source(copy->tree, file, source))
		return error_status();
	if (fstat(target, &there))
		return error_errno(0, "%s/%s", copy->target->path, file->path);
	if ((uint64_t)there.st_size != file->bytes)
		return error_set(STATUS_IO, "%s/%s: has %llu bytes after writing %llu", copy->target->path,
			file->path, (unsigned long long)there.st_size, (unsigned long long)file->bytes);
	return STATUS_OK;
}

static int copy_small(const struct copy *copy, struct stage_file *file, int source_directory,
	int target_directory, char *buffer)
{
	int target = -1, status = STATUS_OK;
	int source =
		openat(source_directory, file->name, O_RDONLY | O_CLOEXEC | (file->link ? 0 : O_NOFOLLOW));
	if (source < 0)
		return source_error(copy->tree, file);
	target = stage_create(copy->target, target_directory, file->name);
	if (target < 0)
		status = error_status();
	if (!status)
		status = copy_range(copy, file, source, target, 0, file->bytes, buffer, &file->crc);
	if (!status)
		status = check_sizes(copy, file, source, target);
	if (target >= 0 && close(target) && !status)
		status = error_errno(0, "%s/%s", copy->target->path, file->path);
	close(source);
	return status;
}

static int journal(const struct copy *copy, struct text *rows)
{
	int status = text_check(rows);
	if (!status && rows->length)
		status = file_write_all(
			copy->target->journal, rows->data, rows->length, "journal of the copy");
	text_release(rows);
	return status;
}

static int open_both(const struct copy *copy, size_t index, int *source, int *target)
{
	const char *path = copy->tree->directories[index].path;
	const char *relative = *path ? path : ".";
	*source = openat(copy->tree->descriptor, relative, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*source < 0)
		return error_errno(0, "%s/%s", copy->tree->root, path);
	*target = openat(copy->target->descriptor, relative, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *target < 0 ? error_errno(0, "%s/%s", copy->target->path, path) : STATUS_OK;
}

static int copy_batch(const struct copy *copy, const struct job *job)
{
	int source = -1, target = -1;
	uint64_t files = 0, bytes = 0;
	struct text rows = {0};
	char *buffer = memory_new(BUFFER_BYTES, 1);
	int status = buffer ? open_both(copy, copy->tree->files[job->first].directory, &source, &target)
			    : error_status();
	for (size_t i = job->first; i < job->first + job->count && !status; i++) {
		struct stage_file *file = &copy->tree->files[i];
		if (copy->whole[i])
			continue;
		if (signals_notice())
			status =
				error_set(STATUS_AGAIN, "stopped in time while copying %s", copy->tree->root);
		else
			status = copy_small(copy, file, source, target, buffer);
		if (status)
			break;
		stage_rows_format(&rows, file->path, 0, file->bytes, file->crc);
		files++;
		bytes += file->bytes;
	}
	/* Whatever ended the loop, the files before it are whole and need not be copied again. */
	if (journal(copy, &rows) && !status)
		status = error_status();
	stage_count_add(copy->count, files, bytes);
	if (source >= 0)
		close(source);
	if (target >= 0)
		close(target);
	free(buffer);
	return status;
}

/* The file that the pieces go to, made by whoever comes first and kept when it is there. */
static int open_large(const struct copy *copy, const struct stage_file *file, int *source, int *target)
{
	*source = openat(
		copy->tree->descriptor, file->path, O_RDONLY | O_CLOEXEC | (file->link ? 0 : O_NOFOLLOW));
	if (*source < 0)
		return source_error(copy->tree, file);
	*target =
		openat(copy->target->descriptor, file->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return *target < 0 ? error_errno(0, "cannot create %s/%s", copy->target->path, file->path)
			   : STATUS_OK;
}

static int end_piece(const struct copy *copy, const struct job *job, int source, int target)
{
	struct large *large = job->large;
	if (atomic_fetch_sub(&large->missing, 1) > 1)
		return STATUS_OK;
	finish_large(copy, large);
	stage_count_add(copy->count, 1, 0);
	return check_sizes(copy, &copy->tree->files[large->file], source, target);
}

static int copy_piece(const struct copy *copy, const struct job *job)
{
	const struct stage_file *file = &copy->tree->files[job->first];
	uint64_t offset = (uint64_t)job->piece * PIECE_BYTES, bytes = piece_bytes(file, job->piece);
	int source = -1, target = -1;
	struct text row = {0};
	if (signals_notice())
		return error_set(STATUS_AGAIN, "stopped in time while copying %s", copy->tree->root);
	char *buffer = memory_new(BUFFER_BYTES, 1);
	int status = buffer ? open_large(copy, file, &source, &target) : error_status();
	if (!status && fallocate(target, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) && errno == ENOSPC)
		status = error_errno(0, "%s/%s", copy->target->path, file->path);
	if (!status)
		status = copy_range(
			copy, file, source, target, offset, bytes, buffer, &job->large->crc[job->piece]);
	if (!status) {
		/* The source is read once: its pages would only push out those of the copy. */
		posix_fadvise(source, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
		stage_rows_format(&row, file->path, offset, bytes, job->large->crc[job->piece]);
		status = journal(copy, &row);
		stage_count_add(copy->count, 0, bytes);
	}
	if (!status)
		status = end_piece(copy, job, source, target);
	if (source >= 0)
		close(source);
	if (target >= 0 && close(target) && !status)
		status = error_errno(0, "%s/%s", copy->target->path, file->path);
	free(buffer);
	return status;
}

static int copy_job(void *context, size_t index)
{
	const struct copy *copy = context;
	const struct job *job = &copy->jobs[index];
	return job->large ? copy_piece(copy, job) : copy_batch(copy, job);
}

/* A large file of which nothing is whole starts afresh: an old one might be longer. */
static int clear_large(const struct copy *copy)
{
	for (size_t i = 0; i < copy->large_count; i++) {
		const struct large *large = copy->larges[i];
		const char *path = copy->tree->files[large->file].path;
		if (large->missing == large->pieces && unlinkat(copy->target->descriptor, path, 0) &&
			errno != ENOENT)
			return error_errno(0, "cannot remove %s/%s", copy->target->path, path);
	}
	return STATUS_OK;
}

static int make_directories(const struct copy *copy)
{
	int status = STATUS_OK;
	for (size_t i = 0; i < copy->tree->directory_count && !status; i++)
		status = stage_make_directory(copy->target, copy->tree->directories[i].path);
	return status;
}

static void copy_release(struct copy *copy)
{
	for (size_t i = 0; i < copy->large_count; i++) {
		free(copy->larges[i]->crc);
		free(copy->larges[i]);
	}
	free(copy->larges);
	free(copy->jobs);
	free(copy->whole);
}

int stage_files_copy(struct stage_tree *tree, const struct stage_rows *have,
	const struct stage_target *target, int jobs, const char *what, struct stage_count *count)
{
	struct copy copy = {.tree = tree, .have = have, .target = target, .count = count};
	copy.whole = memory_new(tree->file_count, sizeof *copy.whole);
	int status = copy.whole ? plan_first(&copy) : error_status();
	if (!status)
		status = plan_batches(&copy);
	stage_count_start(count, what, copy.files, copy.bytes);
	if (!status) /* half a block is lost at the end of each file, and a directory takes one or more */
		status = stage_space_check(target,
			copy.bytes + (copy.files * 2048) + tree->directory_count * 4096,
			copy.files + tree->directory_count);
	if (!status)
		status = make_directories(&copy);
	if (!status)
		status = clear_large(&copy);
	if (!status)
		status = threads_run(jobs, copy.job_count, copy_job, &copy);
	stage_count_end(count);
	copy_release(&copy);
	return status;
}
