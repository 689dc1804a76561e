/* train-step-loop: one shift of a run's training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "comm/comm.h"
#include "run/shift.h"
#include "task/platform.h"
#include "task/resources.h"
#include "task/task.h"
#include "train/weights.h"

struct settings {
	bool dry_run, take_over, same_bits;
	double exit_after, notice;
	const char *until;
};

/* All that one shift holds. */
struct work {
	struct settings settings;
	struct run run;
	struct comm *comm;
	struct platform platform;
	const struct task_kind *kind;
	struct task_training training;
	struct shift shift;
	struct leave leave;
	struct checkpoint resumed;
	bool resuming;
	int64_t step;
	const char *reason;
};

static int parse(int argc, char **argv, struct settings *settings, const char **path, bool *done)
{
	const struct option_row rows[] = {
		{"dry-run", 'n', NULL, "say what the run needs and whether it fits; train nothing",
			&settings->dry_run, OPTION_FLAG},
		{"exit-after", 0, "TIME", "leave in time for this long after the start (55m)",
			&settings->exit_after, OPTION_SECONDS},
		{"until", 0, "TIME", "leave in time for this moment (07:30, 2026-01-31T07:30)",
			&settings->until, OPTION_TEXT},
		{"notice", 0, "SECONDS", "what remains after USR2 where the end is unknown [60]",
			&settings->notice, OPTION_SECONDS},
		{"take-over", 0, NULL, "own the run although its owner seems to be alive",
			&settings->take_over, OPTION_FLAG},
		{"same-bits", 0, NULL, "refuse (69) to go on where the first shift's bits cannot be kept",
			&settings->same_bits, OPTION_FLAG},
		{0}};
	const struct program program = {.name = "train-step-loop",
		.synopsis = "[--dry-run] [--exit-after TIME] [--until TIME] [--notice SECONDS] [--take-over] "
			    "[--same-bits] RUN",
		.purpose = "train a run: resume, step, log, checkpoint, validate, leave in time",
		.rows = rows};
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	int count = 0, status;

	if (!operands)
		return error_set(STATUS_FAILURE, "out of memory");
	settings->notice = 60;
	status = options_parse(&program, argc, argv, operands, &count, done);
	*path = operands[0];
	free(operands);
	if (status || *done)
		return status;
	return count == 1 ? 0
			  : error_set(STATUS_USAGE, "one RUN is needed, %d were given; see --help", count);
}

static int leave_options(const struct work *work, struct leave_options *options)
{
	*options = (struct leave_options){
		.exit_after = work->settings.exit_after, .notice = work->settings.notice};
	if (getenv("SLURM_JOB_ID"))
		options->job = work->shift.identity.job;
	if (work->settings.until && clock_parse(work->settings.until, &options->until))
		return error_set(STATUS_USAGE, "--until %s: not a time (07:30, 2026-01-31T07:30)",
			work->settings.until);
	return 0;
}

static struct loop_plan plan(const struct config *config)
{
	const char *metric = config_text(config, "validate.metric");

	return (struct loop_plan){
		.steps = config_integer(config, "train.steps"),
		.validate_every = config_integer(config, "validate.every"),
		.picture_every = config_integer(config, "picture.every"),
		.save_every = config_integer(config, "checkpoint.every"),
		.save_minutes = config_number(config, "checkpoint.minutes"),
		.keep = config_integer(config, "checkpoint.keep"),
		.keep_every = config_integer(config, "checkpoint.keep_every"),
		.best = config_bool(config, "checkpoint.best"),
		.best_metric = metric,
		.best_is_smaller = strncmp(metric, "delta", 5) != 0,
		.skip_bad = config_bool(config, "data.skip"),
	};
}

/* Whether an earlier shift has finished the steps that are configured now. */
static int finished(const struct work *work, bool *finished)
{
	struct run_done done;
	int status = run_done_read(&work->run, finished, &done);

	if (!status && *finished)
		*finished = done.step >= config_integer(work->run.config, "train.steps");
	return status;
}

/* Initial weights: a checkpoint's, those of init.weights, or random ones. */
static int load_weights(struct work *work)
{
	struct store *store = program_store(work->training.loop.program);
	const char *path = config_text(work->run.config, "init.weights");
	struct checkpoint from = {0};
	int status;

	if (work->resuming) {
		status = weights_load(store, &work->resumed, "");
		if (!status)
			status = weights_load_optimizer(store, &work->resumed);
		checkpoint_release_tensors(&work->resumed);
		return status;
	}
	status = store_initialise(store, (uint64_t)config_integer(work->run.config, "seed"));
	if (status || !path[0])
		return status;
	status = checkpoint_open_path(path, &from);
	if (!status)
		status = weights_load(store, &from, config_text(work->run.config, "init.ignore"));
	if (!status)
		note("starting from the weights of %s (digest %s)", from.path, from.digest);
	checkpoint_release(&from);
	return status;
}

/* Builds graphs and opens the data. */
static int open_training(struct work *work)
{
	int status = platform_open(&work->run, work->settings.same_bits, &work->platform);

	if (status)
		return status;
	work->kind = task_find(config_text(work->run.config, "task"));
	return work->kind ? work->kind->training_open(&work->run, work->platform.device, &work->training)
			  : error_status();
}

static int dry_run(struct work *work)
{
	struct text rows = {0};
	int verdict = 0, status = open_training(work);

	if (!status)
		status = resources_describe(&work->run, &work->platform, &work->training, &rows, &verdict);
	if (!status)
		fputs(rows.data, stdout);
	text_release(&rows);
	return status ? status : verdict;
}

/* A stop file from before is obeyed by requeued lives and removed by a start by hand. */
static int look_for_stop(struct work *work)
{
	if (!run_stop_asked(&work->run))
		return 0;
	if (work->shift.identity.restart == 0)
		return run_stop_remove(&work->run);
	work->reason = "stopped";
	return error_set(STATUS_AGAIN, "%s/stop is there", work->run.path);
}

/* What happens once the run is ours. */
static int train(struct work *work)
{
	struct loop_plan loop_plan = plan(work->run.config);
	int status = look_for_stop(work);

	if (!status)
		status = run_done_remove(&work->run);
	if (!status)
		status = platform_record(&work->run, &work->platform);
	if (!status && work->training.missing)
		status = error_set(STATUS_NO_INPUT, "%zu data files are missing, the first is %s",
			work->training.missing, work->training.first_missing);
	if (!status)
		status = work->kind->training_prepare(&work->training);
	if (!status)
		status = load_weights(work);
	if (!status)
		status = leave_probe(&work->leave, work->run.path);
	if (!status)
		status = work->kind->training_start(&work->training, work->step);
	if (!status)
		status = loop_run(&work->run, &work->shift, &work->training.loop, &loop_plan, &work->leave,
			work->resuming ? &work->resumed : NULL, &work->step, &work->reason);
	return status;
}

/* A shift that never began has an end row, too: batch scripts go by it. */
static int refused(struct work *work, int status)
{
	char *message = memory_text(error_message());

	if (status != STATUS_FENCED && message && shift_end(&work->shift, -1, status, message))
		error_set(status, "%s", message);
	free(message);
	return status;
}

/* The start row says what is not as the first shift had it. */
static int claim(struct work *work)
{
	const char *differs = work->platform.differs;
	struct text remark = {0};
	int status;

	if (differs[0])
		text_format(&remark, "not the first shift's %s", differs);
	status = text_check(&remark);
	if (!status)
		status = shift_claim(
			&work->shift, &work->run, work->settings.take_over, work->step, remark.data);
	text_release(&remark);
	return status;
}

/* The end row. What ended the shift is what the user must read, also where the row cannot be written. */
static int end_shift(const struct work *work, int status)
{
	char *message = memory_text(error_message());
	int failed = shift_end(&work->shift, work->step, status, work->reason);

	if (failed && status && message)
		error_set(status, "%s", message);
	free(message);
	return status ? status : failed;
}

static int work_shift(struct work *work)
{
	struct leave_options options;
	bool already = false;
	int status;

	work->shift.run = &work->run;
	shift_identity(&work->shift.identity);
	status = leave_options(work, &options);
	if (!status)
		status = shift_check(&work->run, &work->shift.identity, work->settings.take_over);
	if (!status)
		status = finished(work, &already);
	if (status)
		return refused(work, status);
	if (already) {
		note("%s: all %lld steps are done", work->run.path,
			(long long)config_integer(work->run.config, "train.steps"));
		return 0;
	}
	leave_init(&work->leave, &options);
	status = open_training(work);
	if (!status)
		status = signals_install(); /* the engine's threads stand already, with the signals blocked */
	if (!status)
		status = signals_catch_interrupt();
	if (!status)
		status = checkpoint_resume(&work->run, &work->resumed, &work->resuming);
	work->step = work->resuming ? work->resumed.step : 0;
	if (!status)
		status = claim(work);
	if (status)
		return refused(work, status);
	work->reason = "error";
	status = train(work);
	if (status == STATUS_FENCED && strcmp(work->reason, "not finite"))
		return status; /* a newer shift owns the run: write nothing */
	if (status && status != STATUS_AGAIN && !strcmp(work->reason, "error"))
		work->reason = error_message();
	return end_shift(work, status);
}

static void release(struct work *work)
{
	if (work->kind)
		work->kind->training_close(&work->training);
	checkpoint_release(&work->resumed);
	platform_close(&work->platform);
	if (work->comm)
		work->comm->close(work->comm);
	run_close(&work->run);
}

int main(int argc, char **argv)
{
	struct work work = {0};
	const char *path = NULL;
	bool done = false;
	int status;

	signals_block();
	signals_ignore_pipe();
	error_program(argv[0]);
	reserve_streams();
	clock_seconds();
	status = parse(argc, argv, &work.settings, &path, &done);
	if (status || done)
		return status ? error_print(status) : close_stdout(0);
	status = comm_open(&work.comm);
	if (!status)
		status = run_open(path, &work.run);
	if (!status)
		status = work.settings.dry_run ? dry_run(&work) : work_shift(&work);
	if (status)
		error_print(status);
	release(&work);
	return close_stdout(status);
}
