/* Checkpoints shared by ranks: what they write together is what one process writes, and all read the same, each file once. */
#include <stdatomic.h>

#include "run/checkpoint_parts.h"
#include "run_fixture.h"
#include "support/thread_ranks.h"

enum { SHARDS = 2 * FIXTURE_TENSORS };

static atomic_int wrong;

static void describe(struct fixture_weights *weights, int64_t step)
{
	fixture_weights(weights, step);
	weights->content.shard_bytes = sizeof weights->values[0][0]; /* a tensor each */
}

static void open_run(const char *path, struct run *run, struct shift *shift)
{
	run_open(path, run);
	shift_claim(shift, run, true, 0, NULL);
}

static struct train_state state_of(const struct run *run, int64_t step)
{
	struct train_state state = {.step = step};
	snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run->config));
	return state;
}

/* ---- writing ---- */

struct save {
	int64_t step;
	const char *directory;
	struct checkpoint_shard shards[16][SHARDS]; /* by rank */
};

/* A rank that has no data of what others write. */
static void write_share(struct comm *comm, void *context)
{
	struct save *save = context;
	struct fixture_weights weights;
	bool model[FIXTURE_TENSORS], optimizer[FIXTURE_TENSORS];
	describe(&weights, save->step);
	wrong += checkpoint_share(&weights.content, comm->rank, comm->size, model, optimizer) != 0;
	for (int i = 0; i < FIXTURE_TENSORS; i++) {
		wrong += model[i] != (i % comm->size == comm->rank);
		wrong += optimizer[i] != ((FIXTURE_TENSORS + i) % comm->size == comm->rank);
		if (!model[i])
			weights.model[i].data = NULL;
		if (!optimizer[i])
			weights.optimizer[i].data = NULL;
	}
	wrong += checkpoint_write(save->directory, &weights.content, comm->rank, comm->size,
			 save->shards[comm->rank]) != 0;
}

static int save_by_ranks(const struct run *run, const struct shift *shift, int64_t step, int ranks)
{
	struct save save = {.step = step};
	struct checkpoint_shard shards[SHARDS];
	struct fixture_weights weights;
	struct train_state state = state_of(run, step);
	char *directory;
	int count, status = checkpoint_begin(shift, step, false, &directory);
	describe(&weights, step);
	if (!status)
		status = checkpoint_shards(&weights.content, &count);
	if (!status && (count != SHARDS || !directory))
		status = STATUS_FAILURE;
	save.directory = directory;
	if (!status)
		status = thread_ranks_run(ranks, 3, write_share, &save);
	for (int k = 0; k < SHARDS; k++)
		shards[k] = save.shards[k % ranks][k];
	if (!status)
		status = checkpoint_commit(shift, step, &state, &weights.content, directory, shards);
	free(directory);
	return status;
}

static char *manifest_of(const char *path, int64_t step)
{
	struct text file = {0};
	char *data = NULL;
	size_t bytes;
	text_format(&file, "%s/checkpoints/step-%08lld/MANIFEST", path, (long long)step);
	if (file_read(file.data, 1 << 20, &data, &bytes))
		data = NULL;
	text_release(&file);
	return data;
}

static void test_writing(void)
{
	static const int sizes[] = {2, 3, 5, 9};
	char *alone = fixture_make("alone", NULL);
	struct run run;
	struct shift shift;
	struct fixture_weights weights;
	open_run(alone, &run, &shift);
	struct train_state state = state_of(&run, 10);
	describe(&weights, 10);
	check_status(
		checkpoint_save(&shift, &state, &weights.content, NULL, NULL), 0, "a save by one process");
	run_close(&run);
	char *expected = manifest_of(alone, 10);
	wrong = 0;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char name[32];
		snprintf(name, sizeof name, "together-%d", sizes[i]);
		char *path = fixture_make(name, NULL);
		open_run(path, &run, &shift);
		wrong += save_by_ranks(&run, &shift, 10, sizes[i]) != 0;
		struct checkpoint_entry entry = {CHECKPOINT_STEP, 10};
		wrong += checkpoint_judge(&run, &entry, false) != 0;
		char *manifest = manifest_of(path, 10);
		wrong += !manifest || !expected || strcmp(manifest, expected) != 0;
		free(manifest);
		run_close(&run);
		free(path);
	}
	check_report(
		!wrong, "2, 3, 5 and 9 ranks write the same bytes, each its shards alone", "%d wrong", wrong);
	free(expected);
	free(alone);
}

/* ---- reading ---- */

struct resume {
	const struct run *run;
	int expected_status;
	int64_t expected_step; /* -1: none found */
};

static int broadcast(void *state, int root, void *data, size_t bytes)
{
	struct comm *comm = state;
	return comm->broadcast(comm, root, data, bytes);
}

static int agree(void *state, int status)
{
	return comm_agree(state, status, NULL, 0, NULL);
}

static void resume(struct comm *comm, void *context)
{
	const struct resume *resume = context;
	const struct checkpoint_ranks ranks = {comm, comm->rank, comm->size, broadcast, agree};
	struct checkpoint checkpoint;
	bool found;
	int status = checkpoint_resume_ranks(resume->run, &ranks, &checkpoint, &found);
	wrong += status != resume->expected_status;
	if (status)
		return;
	wrong += found != (resume->expected_step >= 0);
	if (found) {
		wrong += checkpoint.step != resume->expected_step ||
			 checkpoint.state.step != resume->expected_step;
		wrong += checkpoint.model_files != FIXTURE_TENSORS ||
			 checkpoint.optimizer_files != FIXTURE_TENSORS;
		wrong += !fixture_equal(&checkpoint, resume->expected_step);
		wrong += strlen(checkpoint.digest) != 8;
	}
	checkpoint_release(&checkpoint);
}

static void check_resume(const struct run *run, int status, int64_t step, const char *name)
{
	struct resume context = {run, status, step};
	int failed = 0;
	wrong = 0;
	for (int ranks = 2; ranks <= 8; ranks += 3)
		failed += thread_ranks_run(ranks, (unsigned)ranks, resume, &context) != 0;
	check_report(!wrong && !failed, name, "%d wrong, %d failed", wrong, failed);
}

static void flip(const char *path, int64_t step, const char *name)
{
	struct text file = {0};
	text_format(&file, "%s/checkpoints/step-%08lld/%s", path, (long long)step, name);
	int descriptor = open(file.data, O_RDWR);
	char byte = 0;
	if (descriptor < 0 || pread(descriptor, &byte, 1, 150) != 1)
		wrong++;
	byte ^= 1;
	if (descriptor < 0 || pwrite(descriptor, &byte, 1, 150) != 1)
		wrong++;
	close(descriptor);
	text_release(&file);
}

static void test_reading(void)
{
	char *path = fixture_make("read", NULL);
	struct run run;
	struct shift shift;
	open_run(path, &run, &shift);
	check_resume(&run, STATUS_OK, -1, "a new run: nobody finds a checkpoint");
	check_status(save_by_ranks(&run, &shift, 10, 3), 0, "step 10 by three ranks");
	check_status(save_by_ranks(&run, &shift, 20, 2), 0, "step 20 by two");
	check_resume(&run, STATUS_OK, 20, "all ranks read the newest, bit-equal");
	flip(path, 20, "optimizer/optimizer-00003-of-00003.safetensors");
	check_resume(&run, STATUS_OK, 10, "a damaged shard of one rank: all take the one before");
	flip(path, 10, "train.cfg");
	check_resume(&run, STATUS_DATA, -1, "none is good: all are told");
	run_close(&run);
	free(path);
}

int main(void)
{
	error_program("run_ranks");
	test_writing();
	test_reading();
	return check_summary();
}
