/* train-step-loop: one shift of a run's training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "comm/comm.h"
#include "graph/look.h"
#include "run/shift.h"
#include "metric/direction.h"
#include "task/look.h"
#include "task/platform.h"
#include "task/recipe.h"
#include "task/resources.h"
#include "task/task.h"
#include "train/exchange.h"
#include "train/weights.h"

#define NO_PROFILE INT64_MIN
#define PROFILE_STEPS 10000 /* at most: each has a row for every operation in memory */
#define LOST_TURN                                                                                            \
	0.2 /* seconds that each rank waits for the one below to write the end row of a shift that lost a rank */
#define LOST_TURNS 15.0 /* for all together, at most */

struct settings {
	bool dry_run, take_over, same_bits, debug;
	double exit_after, notice;
	const char *until, *graph, *trace;
	int64_t profile; /* steps, or NO_PROFILE */
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
	char init[1024]; /* digest and path of the weights that a new run starts from */
};

static bool profiles(const struct settings *settings)
{
	return settings->profile != NO_PROFILE;
}

static int check_settings(const struct settings *settings, int operands)
{
	if (operands != 1)
		return error_set(STATUS_USAGE,
			"one RUN is wanted, %d were given; --help shows how it is called", operands);
	if (profiles(settings) && (settings->profile < 1 || settings->profile > PROFILE_STEPS))
		return error_set(STATUS_USAGE, "--profile %lld: steps are wanted, 1 to %d",
			(long long)settings->profile, PROFILE_STEPS);
	if (settings->trace && !profiles(settings))
		return error_set(STATUS_USAGE, "--trace belongs to --profile STEPS");
	if (settings->dry_run + !!settings->graph + profiles(settings) > 1)
		return error_set(STATUS_USAGE, "--dry-run, --dump-graph and --profile exclude each other");
	return 0;
}

static int parse(int argc, char **argv, struct settings *settings, const char **path, bool *done)
{
	const struct option_row rows[] = {
		{"dry-run", 'n', NULL, "say what the run needs and whether it fits; train nothing",
			&settings->dry_run, OPTION_FLAG},
		{"exit-after", 0, "TIME", "leave in time for this long after the start, such as 55m",
			&settings->exit_after, OPTION_SECONDS},
		{"until", 0, "TIME", "leave in time for 07:30 or 2026-01-31T07:30", &settings->until,
			OPTION_TEXT},
		{"notice", 0, "SECONDS", "what remains after USR2 where the end is unknown (60)",
			&settings->notice, OPTION_SECONDS},
		{"take-over", 0, NULL, "own the run although its owner seems to be alive",
			&settings->take_over, OPTION_FLAG},
		{"same-bits", 0, NULL, "refuse (69) where the first shift's bits cannot be kept",
			&settings->same_bits, OPTION_FLAG},
		{"dump-graph", 0, "FILE", "write the graphs, as DOT to a name in .dot; train nothing",
			&settings->graph, OPTION_TEXT},
		{"profile", 0, "STEPS", "say where the time of a step goes; train nothing",
			&settings->profile, OPTION_INTEGER},
		{"trace", 0, "FILE", "with --profile: write a Chrome trace", &settings->trace, OPTION_TEXT},
		{"debug", 0, NULL, "stop at the first tensor that is not finite and name it",
			&settings->debug, OPTION_FLAG},
		{0}};
	const struct program program = {.name = "train-step-loop",
		.synopsis = "[--dry-run] [--exit-after TIME] [--until TIME] [--notice SECONDS] [--take-over] "
			    "[--same-bits] [--debug] RUN\n"
			    "--dump-graph FILE RUN\n"
			    "--profile STEPS [--trace FILE] RUN",
		.purpose = "Train a run: resume, step, log, checkpoint, validate, leave in time.",
		.rows = rows};
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	int count = 0, status;

	if (!operands)
		return error_set(STATUS_FAILURE, "out of memory");
	settings->notice = 60;
	settings->exit_after = -1;
	settings->profile = NO_PROFILE;
	status = options_parse(&program, argc, argv, operands, &count, done);
	*path = operands[0];
	free(operands);
	if (status || *done)
		return status;
	return check_settings(settings, count);
}

static bool is_first(const struct work *work)
{
	return work->comm->rank == 0;
}

/* All ranks go on, or none. */
static int agree(struct work *work, int status)
{
	return comm_agree(work->comm, status, NULL, 0, NULL);
}

static int open_run(struct work *work, const char *path)
{
	int status;

	error_rank(work->comm->rank);
	status = run_open(path, &work->run);
	if (!status) {
		work->comm->timeout = config_number(work->run.config, "parallel.timeout");
		work->comm->exact = config_bool(work->run.config, "parallel.exact");
	}
	return status;
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

static struct loop_plan plan(const struct work *work)
{
	const struct config *config = work->run.config;
	const char *metric = config_text(config, "validate.metric");

	return (struct loop_plan){
		.steps = recipe_steps(config, &work->training.loop),
		.init = work->init,
		.validate_epochs = work->training.loop.schedule.kind == SCHEDULE_PLATEAU
					   ? 1
					   : config_integer(config, "validate.epochs"),
		.picture_epochs = config_integer(config, "picture.epochs"),
		.save_epochs = config_integer(config, "checkpoint.epochs"),
		.keep_epochs = config_integer(config, "checkpoint.keep_epochs"),
		.plateau_metric = config_text(config, "schedule.metric"),
		.validate_every = config_integer(config, "validate.every"),
		.picture_every = config_integer(config, "picture.every"),
		.save_every = config_integer(config, "checkpoint.every"),
		.save_minutes = config_number(config, "checkpoint.minutes"),
		.keep = config_integer(config, "checkpoint.keep"),
		.keep_every = config_integer(config, "checkpoint.keep_every"),
		.best = config_bool(config, "checkpoint.best"),
		.best_metric = metric,
		.best_is_smaller = !metric_larger_is_better(metric),
		.skip_bad = config_bool(config, "data.skip"),
	};
}

/* Whether an earlier shift has finished the steps that are configured now. */
static int finished(struct work *work, bool *finished)
{
	int64_t epochs = config_integer(work->run.config, "train.epochs");
	struct run_done done;
	int status = run_done_read(&work->run, finished, &done);

	if (!status && *finished)
		*finished = epochs > 0 ? done.epoch >= epochs
				       : done.step >= config_integer(work->run.config, "train.steps");
	if (!status && *finished)
		work->step = done.step;
	return status;
}

/* The weights that a new run starts from: random ones, then those of init.weights, which rank 0 reads for all. */
static int initial_weights(struct work *work, struct store *store)
{
	const char *path = config_text(work->run.config, "init.weights");
	struct checkpoint from = {0};
	int status = store_initialise(store, (uint64_t)config_integer(work->run.config, "seed"));

	if (!status && path[0] && is_first(work)) {
		status = checkpoint_open_path(path, &from);
		if (!status)
			status = weights_load(store, &from, config_text(work->run.config, "init.ignore"));
		if (!status)
			note("starting from the weights of %s (digest %s)", from.path, from.digest);
		if (!status)
			snprintf(work->init, sizeof(work->init), "%s %.1000s", from.digest, from.path);
		checkpoint_release(&from);
		if (status)
			error_prefix("init.weights");
	}
	status = agree(work, status);
	return status || !path[0] ? status : weights_broadcast(store, work->comm);
}

static int load_weights(struct work *work)
{
	struct store *store = program_store(work->training.loop.program);
	int status;

	if (work->resuming) {
		status = weights_load(store, &work->resumed, "");
		if (!status)
			status = weights_load_optimizer(store, &work->resumed);
		checkpoint_release_tensors(&work->resumed);
	} else {
		status = initial_weights(work, store);
	}
	memory_trim();
	return status;
}

/* Builds graphs and opens the data. */
static int open_training(struct work *work)
{
	const struct config *config = work->run.config;
	int status = exchange_check(work->comm, recipe_micros(config), recipe_norm(config) != NORM_MICRO);

	if (!status)
		status = platform_open(&work->run, work->settings.same_bits, work->comm, &work->platform);
	if (status)
		return status;
	work->kind = task_find(config_text(config, "task"));
	return work->kind ? work->kind->training_open(
				    &work->run, work->platform.device, work->comm, &work->training)
			  : error_status();
}

/* The evaluation at the end of the run should not be what finds out. */
static int count_test_files(struct work *work)
{
	struct task_training *training = &work->training;
	int status = 0;

	for (size_t i = 0; i < config_groups(work->run.config, "data.test") && is_first(work) && !status;
		i++) {
		size_t missing;
		char *first;

		status = work->kind->group_check(&work->run, "data.test", i, &missing, &first);
		training->missing += missing;
		if (!training->first_missing)
			training->first_missing = first;
		else
			free(first);
	}
	return status;
}

/* Whether init.weights fits the network; a run that has a checkpoint needs it no more. */
static int check_initial_weights(struct work *work)
{
	const char *path = config_text(work->run.config, "init.weights");
	struct checkpoint from = {0};
	char digest[16];
	int64_t step;
	int status;

	if (!path[0] || !is_first(work) || !checkpoint_newest(&work->run, "", &step, digest))
		return 0;
	status = checkpoint_open_path(path, &from);
	if (!status)
		status = weights_check(program_store(work->training.loop.program), &from,
			config_text(work->run.config, "init.ignore"));
	checkpoint_release(&from);
	return status ? error_prefix("init.weights") : 0;
}

static int dry_run(struct work *work)
{
	struct text rows = {0};
	int verdict = 0, status = open_training(work);

	if (!status)
		status = count_test_files(work);
	if (!status)
		status = resources_describe(&work->run, &work->platform, &work->training, &rows, &verdict);
	if (!status && is_first(work))
		fputs(rows.data, stdout);
	text_release(&rows);
	if (!status)
		status = verdict;
	return status ? status : check_initial_weights(work);
}

static int dump_graph(struct work *work)
{
	int status = open_training(work);

	return !status && is_first(work) ? look_dump(&work->training, work->settings.graph) : status;
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

/* What rank 0 does when the run is its own. */
static int take_possession(struct work *work)
{
	int status = look_for_stop(work);

	if (!status)
		status = run_done_remove(&work->run);
	if (!status)
		status = platform_record(&work->run, &work->platform);
	if (!status)
		status = resources_missing(&work->training);
	return status ? status : leave_probe(&work->leave, work->run.path);
}

/* What happens once the run is ours. Places where ranks agree separate what only rank 0 does from what all do. */
static int train(struct work *work)
{
	struct loop_plan loop_plan = plan(work);
	int status = agree(work, is_first(work) ? take_possession(work) : 0);

	if (!status)
		status = agree(work, work->kind->training_prepare(&work->training));
	if (!status)
		status = agree(work, load_weights(work));
	if (!status)
		status = agree(work, work->kind->training_start(&work->training, work->step));
	if (!status && work->settings.debug)
		program_set_watch(work->training.loop.program, watch_finite, NULL);
	if (!status)
		status = loop_run(&work->run, &work->shift, work->comm, &work->training.loop, &loop_plan,
			&work->leave, work->resuming ? &work->resumed : NULL, &work->step, &work->reason);
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
static int claim_alone(struct work *work)
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

/* Whether there is anything to do, and whether the run may be ours. */
static int look_before(struct work *work, bool *already)
{
	struct leave_options options;
	int status = leave_options(work, &options);

	if (!status)
		status = shift_check(&work->run, &work->shift.identity, work->settings.take_over);
	if (!status)
		status = finished(work, already);
	if (!status && *already)
		note("%s: all %lld steps are done", work->run.path, (long long)work->step);
	else if (!status)
		leave_init(&work->leave, &options);
	return status;
}

static int broadcast(void *state, int root, void *data, size_t bytes)
{
	struct comm *comm = state;

	return comm->broadcast(comm, root, data, bytes);
}

static int agree_status(void *state, int status)
{
	return comm_agree(state, status, NULL, 0, NULL);
}

static int resume(struct work *work)
{
	const struct checkpoint_ranks ranks = {.state = work->comm,
		.rank = work->comm->rank,
		.size = work->comm->size,
		.broadcast = broadcast,
		.agree = agree_status};
	int status = ranks.size == 1
			     ? checkpoint_resume(&work->run, &work->resumed, &work->resuming)
			     : checkpoint_resume_ranks(&work->run, &ranks, &work->resumed, &work->resuming);

	work->step = work->resuming ? work->resumed.step : 0;
	return status;
}

/* Steps from where the run stands, as it would go on; the run is neither owned nor written. */
static int profile(struct work *work)
{
	struct look_profile options = {.steps = work->settings.profile, .trace = work->settings.trace};
	struct text rows = {0};
	int status = open_training(work);

	if (!status)
		status = resources_missing(&work->training);
	if (!status)
		status = resources_check(&work->run, &work->training);
	status = agree(work, status);
	if (!status)
		status = resume(work);
	if (!status)
		status = agree(work, work->kind->training_prepare(&work->training));
	if (!status)
		status = agree(work, load_weights(work));
	if (!status)
		status = work->kind->training_start(&work->training, options.first = work->step);
	if (!status)
		status = look_profile(&work->training, work->platform.device, work->comm, &options, &rows);
	if (!status && is_first(work))
		fputs(rows.data, stdout);
	text_release(&rows);
	return status;
}

/* Rank 0 claims the run; the others join its shift. */
static int claim(struct work *work)
{
	struct comm *comm = work->comm;
	struct {
		int64_t number;
		struct shift_identity identity;
	} claimed = {0};
	int status = 0;

	if (is_first(work))
		status = claim_alone(work);
	claimed.number = work->shift.number;
	claimed.identity = work->shift.identity;
	status = agree(work, status);
	if (!status)
		status = comm->broadcast(comm, 0, &claimed, sizeof(claimed));
	if (!status && !is_first(work))
		shift_join(&work->shift, &work->run, claimed.number, &claimed.identity);
	return status;
}

/* The end row of a shift whose ranks lost one another: the lowest rank that still runs writes it, so the others look first whether
 * somebody has. */
static void end_lost(struct work *work)
{
	double wait = fmin(LOST_TURN, LOST_TURNS / work->comm->size) * work->comm->rank;
	struct shift_row *rows = NULL;
	size_t count = 0;
	bool ended = false;

	if (!work->shift.number)
		return;
	while (wait > 0) { /* the launcher's TERM does not shorten it */
		double start = clock_seconds();

		clock_sleep(wait);
		wait -= clock_seconds() - start;
	}
	if (!shift_rows(&work->run, &rows, &count))
		for (size_t i = 0; i < count; i++)
			ended = ended ||
				(rows[i].shift == work->shift.number && !strcmp(rows[i].event, "end"));
	free(rows);
	if (!ended && !shift_fence(&work->shift))
		shift_end(&work->shift, work->step, STATUS_FAILURE, "peer lost");
}

/* What rank 0 leaves behind. */
static int end(struct work *work, int status)
{
	if (status == STATUS_FENCED && strcmp(work->reason, "not finite") != 0)
		return status; /* a newer shift owns the run: write nothing */
	if (status && status != STATUS_AGAIN && !strcmp(work->reason, "error"))
		work->reason = error_message();
	return end_shift(work, status);
}

static int work_shift(struct work *work)
{
	int32_t already = false;
	bool nothing = false;
	int status = 0;

	work->shift.run = &work->run;
	shift_identity(&work->shift.identity);
	if (is_first(work))
		status = look_before(work, &nothing);
	already = nothing;
	status = agree(work, status);
	if (!status)
		status = work->comm->broadcast(work->comm, 0, &already, sizeof(already));
	if (!status && already)
		return 0;
	if (!status)
		status = open_training(work);
	if (!status)
		status = resources_check(&work->run, &work->training);
	if (!status)
		status = signals_install(); /* the engine's threads stand already, with the signals blocked */
	if (!status)
		status = signals_catch_interrupt();
	status = agree(work, status);
	if (!status)
		status = resume(work);
	if (!status)
		status = claim(work);
	if (status)
		return is_first(work) && !work->comm->lost ? refused(work, status) : status;
	work->reason = "error";
	status = train(work);
	return is_first(work) && !work->comm->lost ? end(work, status) : status;
}

static bool look_only(const struct settings *settings)
{
	return settings->dry_run || settings->graph || profiles(settings);
}

static int look(struct work *work)
{
	if (work->settings.dry_run)
		return dry_run(work);
	return work->settings.graph ? dump_graph(work) : profile(work);
}

static void release(struct work *work)
{
	if (work->kind)
		work->kind->training_close(&work->training);
	checkpoint_release(&work->resumed);
	platform_close(&work->platform);
	run_close(&work->run);
}

/* Ranks leave together; one that has lost the others has nobody to wait for, MPI's own end included. */
static int leave_ranks(struct work *work, int status)
{
	struct comm *comm = work->comm;

	if (!comm)
		return status;
	if (!comm->lost && comm->barrier(comm))
		status = error_print(STATUS_FAILURE);
	if (comm->lost) {
		end_lost(work);
		_exit(STATUS_FAILURE);
	}
	comm->close(comm);
	return status;
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
	guard_output();
	clock_seconds();
	status = parse(argc, argv, &work.settings, &path, &done);
	if (status || done)
		return status ? error_print(status) : close_stdout(0);
	status = comm_open(&work.comm);
	if (!status)
		status = agree(&work, open_run(&work, path));
	if (!status)
		status = look_only(&work.settings) ? agree(&work, look(&work)) : work_shift(&work);
	if (status && (!work.comm || is_first(&work) || work.comm->lost))
		error_print(status);
	status = leave_ranks(&work, status);
	release(&work);
	return close_stdout(status);
}
