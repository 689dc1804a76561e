/* Claims, the fence, and what a shift writes about itself. */
#include "run/shift.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/claim.h"
#include "run/fields.h"

enum { CLAIM_LIMIT = 65536, CLAIM_TRIES = 100 };

/* ---- identity ---- */

static int64_t environment_integer(const char *name, int64_t otherwise)
{
	const char *value = getenv(name);
	int64_t number;
	return value && text_to_int64(value, &number) && number >= 0 ? number : otherwise;
}

void shift_identity(struct shift_identity *identity)
{
	const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
	const char *job = getenv("SLURM_JOB_ID");
	*identity = (struct shift_identity){.pid = getpid()};
	bool slurm = job && *job;
	if (!slurm)
		job = getenv("NIGHTSHIFT_JOB"); /* of a script that loops by itself */
	if (array && *array && task && *task)
		snprintf(identity->job, sizeof identity->job, "%s_%s", array, task);
	else
		snprintf(identity->job, sizeof identity->job, "%s", job && *job ? job : "-");
	/* A word in files of lines and words, whatever the environment says. */
	for (char *c = identity->job; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 127)
			*c = '_';
	identity->restart = environment_integer(slurm ? "SLURM_RESTART_COUNT" : "NIGHTSHIFT_RESTART", 0);
	gethostname(identity->host, sizeof identity->host - 1);
}

/* ---- claims ---- */

void claim_format(const struct claim *claim, struct text *text)
{
	const struct shift_identity *identity = &claim->identity;
	text_format(text, "job %s\nrestart %lld\nhost %s\npid %lld\nstarted %lld\n", identity->job,
		(long long)identity->restart, identity->host, (long long)identity->pid,
		(long long)claim->started);
	text_format(text, "boot %s\nnamespace %s\n", claim->boot[0] ? claim->boot : "-",
		claim->namespace[0] ? claim->namespace : "-");
}

static int parse_claim(const struct fields *fields, struct claim *claim)
{
	struct shift_identity *identity = &claim->identity;
	int status = fields_text(fields, "job", identity->job, sizeof identity->job);
	if (!status)
		status = fields_integer(fields, "restart", 0, INT64_MAX, &identity->restart);
	if (!status)
		status = fields_text(fields, "host", identity->host, sizeof identity->host);
	if (!status)
		status = fields_integer(fields, "pid", 1, INT_MAX, &identity->pid);
	if (!status)
		status = fields_integer(fields, "started", 0, INT64_MAX, &claim->started);
	if (!status)
		status = fields_text(fields, "boot", claim->boot, sizeof claim->boot);
	if (!status)
		status = fields_text(fields, "namespace", claim->namespace, sizeof claim->namespace);
	return status;
}

int claim_take(const char *path, char *data, size_t bytes, struct claim *claim)
{
	struct fields fields;
	*claim = (struct claim){0};
	int status = fields_take(path, data, bytes, FIELDS_WORDS, &fields);
	if (status)
		return status;
	status = parse_claim(&fields, claim);
	fields_release(&fields);
	return status;
}

int claim_read(const struct run *run, int64_t number, struct claim *claim)
{
	char *data, *path = run_path(run, "shifts/%lld", (long long)number);
	size_t bytes;
	int status = path ? file_read(path, CLAIM_LIMIT, &data, &bytes) : error_status();
	if (!status)
		status = claim_take(path, data, bytes, claim);
	free(path);
	return status;
}

/* A claim's name is its number as we write it: no sign, no leading zero. */
static int64_t claim_number(const char *name)
{
	int64_t number;
	if (name[0] < '1' || name[0] > '9' || !text_to_int64(name, &number))
		return 0;
	return number;
}

int claims_highest(const struct run *run, int64_t *highest)
{
	struct names names = {0};
	char *path = run_path(run, "shifts");
	*highest = 0;
	if (!path)
		return error_status();
	int status = file_exists(path) ? file_list(path, &names) : STATUS_OK;
	for (size_t i = 0; i < names.count; i++) {
		int64_t number = claim_number(names.name[i]);
		*highest = number > *highest ? number : *highest;
	}
	names_release(&names);
	free(path);
	return status;
}

/* ---- who may go on ---- */

static bool has_row(const struct shift_row *rows, size_t count, int64_t shift, const char *event)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].shift == shift && !strcmp(rows[i].event, event))
			return true;
	return false;
}

/* The claim `number` without an end row: may `self` go on from it? */
static int judge_claim(const struct run *run, int64_t number, const struct shift_identity *self)
{
	struct claim claim;
	struct text reason = {0};
	if (claim_read(run, number, &claim))
		return error_set(STATUS_UNAVAILABLE,
			"%s: the claim of shift %lld, the owner of this run, cannot be read (%s); when it "
			"surely does not "
			"run any more, use --take-over",
			run->path, (long long)number, error_message());
	const struct shift_identity *owner = &claim.identity;
	bool same_job = strcmp(owner->job, "-") && !strcmp(owner->job, self->job);
	if (same_job && owner->restart < self->restart)
		return STATUS_OK;
	if (same_job && owner->restart > self->restart)
		return error_set(STATUS_FENCED,
			"%s: shift %lld, restart %lld of this job %s, owns this run; this is restart %lld",
			run->path, (long long)number, (long long)owner->restart, owner->job,
			(long long)self->restart);
	int status = STATUS_OK;
	enum owner state = owner_state(&claim, self, &reason);
	if (state != OWNER_GONE)
		status = error_set(STATUS_UNAVAILABLE,
			"%s: shift %lld (job %s, restart %lld, host %s, process %lld) owns this run and "
			"%s%s; wait for its end or "
			"stop it%s",
			run->path, (long long)number, owner->job, (long long)owner->restart, owner->host,
			(long long)owner->pid, state == OWNER_RUNS ? "still runs" : "may still run: ",
			reason.data && state == OWNER_UNKNOWN ? reason.data : "",
			state == OWNER_RUNS ? "" : "; when it surely does not run any more, use --take-over");
	text_release(&reason);
	return status;
}

/* The owner check; *highest is the claim that was judged. */
static int check_owner(
	const struct run *run, const struct shift_identity *self, bool take_over, int64_t *highest)
{
	struct shift_row *rows = NULL;
	size_t count = 0;
	int status = claims_highest(run, highest);
	if (status || !*highest || take_over)
		return status;
	status = shift_rows(run, &rows, &count);
	if (!status && !has_row(rows, count, *highest, "end"))
		status = judge_claim(run, *highest, self);
	free(rows);
	return status;
}

int shift_check(const struct run *run, const struct shift_identity *identity, bool take_over)
{
	int64_t highest;
	return check_owner(run, identity, take_over, &highest);
}

/* ---- claiming ---- */

/* Writes the claim under a temporary name, whole and durable; *path is owned by the caller. */
static int write_claim(const struct shift *shift, const char *directory, char **path)
{
	struct claim claim;
	struct text text = {0};
	char *base = path_join(directory, "claim");
	*path = base ? path_temporary(base, "partial") : NULL;
	int descriptor = -1, status = *path ? STATUS_OK : error_status();
	claim_self(&shift->identity, &claim);
	claim_format(&claim, &text);
	if (!status)
		status = text_check(&text);
	if (!status && (descriptor = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0)
		status = error_errno(0, "cannot claim the run in %s", directory);
	if (!status)
		status = file_write_all(descriptor, text.data, text.length, *path);
	if (!status && fsync(descriptor))
		status = error_errno(0, "%s", *path);
	if (descriptor >= 0 && close(descriptor) && !status)
		status = error_errno(0, "%s", *path);
	text_release(&text);
	free(base);
	return status;
}

/* Links the claim to shifts/NUMBER. *taken: another process has that number. */
static int link_claim(const struct shift *shift, const char *temporary, bool *taken)
{
	struct stat information;
	char *path = run_path(shift->run, "shifts/%lld", (long long)shift->number);
	int status = path ? STATUS_OK : error_status();
	*taken = false;
	if (!status && link(temporary, path)) {
		int number = errno;
		/* A network file system may lose the answer and repeat the call: the count of links tells. */
		if (stat(temporary, &information) || information.st_nlink != 2) {
			*taken = number == EEXIST;
			errno = number;
			status = *taken ? STATUS_OK : error_errno(0, "cannot claim %s", path);
		}
	}
	free(path);
	return status;
}

/* Takes the number behind the highest claim, as often as others are faster. */
static int take_number(struct shift *shift, const char *temporary, bool take_over)
{
	bool taken = true;
	int status = STATUS_OK;
	for (int i = 0; i < CLAIM_TRIES && taken && !status; i++) {
		int64_t highest;
		status = check_owner(shift->run, &shift->identity, take_over, &highest);
		shift->number = highest + 1;
		if (!status)
			status = link_claim(shift, temporary, &taken);
	}
	if (!status && taken)
		status = error_set(STATUS_UNAVAILABLE, "%s: other processes claim this run again and again",
			shift->run->path);
	return status;
}

static int publish_current(const struct run *run, int64_t number)
{
	char text[32], *path = run_path(run, "shifts/current");
	int length = snprintf(text, sizeof text, "%lld\n", (long long)number);
	int status = path ? file_publish(path, text, (size_t)length) : error_status();
	free(path);
	return status;
}

/* Publishes shifts/current, then looks whether somebody came later. */
static int stand_in_front(const struct shift *shift)
{
	int64_t highest;
	int status = publish_current(shift->run, shift->number);
	if (!status)
		status = claims_highest(shift->run, &highest);
	if (status || highest <= shift->number)
		return status;
	status = publish_current(shift->run, highest);
	return status ? status
		      : error_set(STATUS_FENCED, "%s: shift %lld was replaced by shift %lld at once",
				shift->run->path, (long long)shift->number, (long long)highest);
}

static void fill_row(const struct shift *shift, const char *event, struct shift_row *row)
{
	*row = (struct shift_row){.shift = shift->number ? shift->number : -1,
		.restart = shift->identity.restart,
		.status = -1,
		.step = -1};
	row->nodes =
		environment_integer("SLURM_STEP_NUM_NODES", environment_integer("SLURM_JOB_NUM_NODES", 1));
	row->world =
		environment_integer("OMPI_COMM_WORLD_SIZE", environment_integer("SLURM_STEP_NUM_TASKS", 1));
	snprintf(row->event, sizeof row->event, "%s", event);
	snprintf(row->job, sizeof row->job, "%s", shift->identity.job);
	clock_text(clock_wall(), row->time);
}

/* A "lost" row for each earlier claim of which no end is known. */
static int write_lost_rows(const struct shift *shift)
{
	struct shift_row *rows = NULL;
	size_t count = 0;
	int status = shift_rows(shift->run, &rows, &count);
	for (int64_t i = 1; i < shift->number && !status; i++) {
		struct shift_row row;
		struct claim claim;
		if (has_row(rows, count, i, "end") || has_row(rows, count, i, "lost"))
			continue;
		fill_row(shift, "lost", &row);
		row.shift = i;
		row.nodes = row.world = row.restart = -1;
		row.job[0] = 0;
		if (!claim_read(shift->run, i, &claim)) {
			row.restart = claim.identity.restart;
			snprintf(row.job, sizeof row.job, "%s", claim.identity.job);
		}
		snprintf(row.reason, sizeof row.reason, "no end row");
		status = shift_row_add(shift->run, &row);
	}
	free(rows);
	return status;
}

static int write_start_row(const struct shift *shift, int64_t step, const char *remark)
{
	struct shift_row row;
	fill_row(shift, "start", &row);
	row.step = step;
	snprintf(row.reason, sizeof row.reason, "%s", remark ? remark : "");
	return shift_row_add(shift->run, &row);
}

/* Temporary names of this process bear the shift's number from now on. */
static void mark_temporaries(int64_t number)
{
	char tag[32];
	snprintf(tag, sizeof tag, "shift-%lld", (long long)number);
	publish_tag(number ? tag : NULL);
}

void shift_join(
	struct shift *shift, const struct run *run, int64_t number, const struct shift_identity *identity)
{
	*shift = (struct shift){.number = number, .identity = *identity, .run = run};
	mark_temporaries(number);
}

int shift_claim(struct shift *shift, const struct run *run, bool take_over, int64_t step, const char *remark)
{
	static const char *const swept[] = {"", "log", "checkpoints", "shifts", "staged", "eval"};
	char *temporary = NULL, *directory = run_path(run, "shifts");
	*shift = (struct shift){.run = run};
	shift_identity(&shift->identity);
	mark_temporaries(0); /* others sweep what bears a number that they have passed */
	int status = directory ? file_make_directory(directory) : error_status();
	if (!status)
		status = write_claim(shift, directory, &temporary);
	if (!status)
		status = take_number(shift, temporary, take_over);
	if (status)
		shift->number = 0;
	if (temporary)
		unlink(temporary);
	if (!status)
		status = file_sync_directory(directory);
	if (!status)
		status = stand_in_front(shift);
	if (!status)
		status = write_lost_rows(shift);
	if (!status)
		status = write_start_row(shift, step, remark);
	mark_temporaries(shift->number);
	for (size_t i = 0; i < sizeof swept / sizeof *swept && !status; i++)
		status = shift_sweep(shift, swept[i]);
	free(temporary);
	free(directory);
	return status;
}

/* ---- the fence and the end ---- */

/* The number in shifts/current; where that cannot be read, the highest claim itself. */
static int current_number(const struct run *run, int64_t *number)
{
	char *data = NULL, *path = run_path(run, "shifts/current");
	size_t bytes;
	*number = 0;
	/* Where it is missing nothing fails, and the message of what ends the shift must stay. */
	if (path && file_exists(path) && !file_read(path, CLAIM_LIMIT, &data, &bytes)) {
		data[strcspn(data, "\n")] = 0;
		*number = claim_number(data);
	}
	free(data);
	free(path);
	return *number ? STATUS_OK : claims_highest(run, number);
}

int shift_fence(const struct shift *shift)
{
	int64_t current;
	if (current_number(shift->run, &current))
		return error_status();
	if (current > shift->number)
		return error_set(STATUS_FENCED,
			"%s: shift %lld has taken over; shift %lld must not write any more", shift->run->path,
			(long long)current, (long long)shift->number);
	return STATUS_OK;
}

/* The shift's number in a temporary name (path_temporary()); 0 when it is none. */
static int64_t leftover_number(const char *name)
{
	static const char mark[] = ".shift-";
	char digits[32] = "";
	const char *found = strstr(name, mark);
	if (name[0] != '.' || !found || !(text_ends(name, ".partial") || text_ends(name, ".dead")))
		return 0;
	found += sizeof mark - 1;
	size_t length = strcspn(found, ".");
	if (length < sizeof digits)
		memcpy(digits, found, length);
	return claim_number(digits);
}

int shift_sweep(const struct shift *shift, const char *directory)
{
	struct names names = {0};
	char *place = path_join(shift->run->path, directory);
	if (place)
		file_sweep(place, false); /* of other programs */
	int status = place && file_exists(place) ? file_list(place, &names) : STATUS_OK;
	for (size_t i = 0; i < names.count && !status; i++) {
		int64_t number = leftover_number(names.name[i]);
		if (!number || number > shift->number)
			continue;
		char *path = path_join(place, names.name[i]);
		status = path ? STATUS_OK : error_status();
		/* A shift that was replaced a moment ago may still be writing there: what cannot be removed now is later. */
		if (path && file_remove_tree(path))
			error_clear();
		free(path);
	}
	names_release(&names);
	free(place);
	return status;
}

int shift_failed(const struct shift *shift, int status)
{
	if (!status || status == STATUS_FENCED)
		return status;
	char *message = memory_text(error_message());
	if (shift_fence(shift) == STATUS_FENCED)
		status = STATUS_FENCED;
	else if (message)
		error_set(status, "%s", message);
	free(message);
	return status;
}

int shift_end(const struct shift *shift, int64_t step, int status, const char *reason)
{
	struct shift_row row;
	fill_row(shift, "end", &row);
	row.step = step;
	row.status = status;
	snprintf(row.reason, sizeof row.reason, "%s", reason);
	return shift_row_add(shift->run, &row);
}
