/* predict: writes the predictions of a run for its data groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/signals.h"
#include "comm/comm.h"
#include "base/text.h"
#include "task/origin.h"
#include "task/platform.h"
#include "task/predictions.h"
#include "task/task.h"
#include "train/weights.h"

#define NOT_GIVEN INT64_MIN
#define SHARE_SECONDS 1e7 /* ranks wait for each other that long: their shares of a set may differ */

struct settings {
	const char *step;
	bool video;
	int64_t top;
	const char **names; /* RUN first */
	int count;
};

static int check(const struct settings *settings)
{
	if (settings->count < 1)
		return error_set(STATUS_USAGE, "RUN is missing; --help shows how it is called");
	if (settings->top != NOT_GIVEN && !settings->video)
		return error_set(
			STATUS_USAGE, "--top belongs to --video; a dataset's results follow predict.topk");
	if (settings->top != NOT_GIVEN && settings->top < 0)
		return error_set(STATUS_USAGE, "--top %lld: wants a number of classes, or 0 for all",
			(long long)settings->top);
	if (settings->video && settings->count < 2)
		return error_set(STATUS_USAGE, "--video wants videos behind RUN");
	return 0;
}

static int parse(int argc, char **argv, struct settings *settings, bool *done)
{
	const struct option_row rows[] = {
		{"step", 0, "N|best", "weights of that step, or the best ones (the newest)", &settings->step,
			OPTION_TEXT},
		{"video", 'v', NULL, "what follows RUN are videos; say which classes they show",
			&settings->video, OPTION_FLAG},
		{"top", 'k', "K", "with --video: so many of the best classes, 0: all (predict.topk)",
			&settings->top, OPTION_INTEGER},
		{0}};
	const struct program program = {.name = "predict",
		.synopsis = "[--step N|best] RUN [DATASET ...]\n"
			    "--video [--top K] [--step N|best] RUN FILE|DIR ...",
		.purpose = "Write a run's predictions into RUN/predictions/DATASET, or say what videos show.",
		.rows = rows};
	int status;

	settings->top = NOT_GIVEN;
	status = options_parse(&program, argc, argv, settings->names, &settings->count, done);
	return status || *done ? status : check(settings);
}

/* Predicts the samples of one set; those whose files are whole already are passed over. */
static int predict_samples(const struct task_kind *kind, struct task_predictor *predictor, size_t set,
	const struct comm *comm, const struct predictions_output *output, bool skip_bad)
{
	const char *name = kind->predictor_set(predictor, set);
	int64_t count = kind->predictor_samples(predictor, set);
	struct progress progress = {0};
	int status = 0;

	progress_start(&progress, name);
	for (int64_t i = comm->rank; i < count && !status; i += comm->size) {
		if (signals_notice() != NOTICE_NONE) {
			status = error_set(STATUS_AGAIN, "%s: left after %lld of %lld samples", name,
				(long long)i, (long long)count);
			break;
		}
		status = kind->predict(predictor, set, i, output);
		/* Whoever takes the directory over moves it away: that, not a file that cannot be put in place, is what happened. */
		if (status && status != STATUS_DATA && !predictions_still(output->directory, output->info))
			status = predictions_fence(output);
		if (status == STATUS_DATA && skip_bad) {
			warn("%s: %s; skipped", name, error_message());
			status = 0;
		}
		if (comm->rank == 0 && progress_due(&progress))
			progress_show(&progress, "%lld of %lld samples", (long long)i + 1, (long long)count);
	}
	progress_end(&progress);
	return status;
}

static int agree(struct comm *comm, int status)
{
	return comm_agree(comm, status, NULL, 0, NULL);
}

/* Every rank predicts its share of the samples; rank 0 makes the directory before and what they make together after. */
static int predict_set(const struct task_kind *kind, struct task_predictor *predictor, size_t set,
	const struct run *run, struct comm *comm, const struct predictions_info *info)
{
	bool skip_bad = config_bool(run->config, "data.skip");
	struct predictions_output output = {0};
	char *directory = run_path(run, "predictions/%s", kind->predictor_set(predictor, set));
	int status = directory ? 0 : STATUS_FAILURE;

	if (!status && comm->rank == 0)
		status = predictions_start(directory, info, &output);
	status = agree(comm, status);
	if (!status && comm->rank != 0)
		status = predictions_start(directory, info, &output);
	if (!status)
		status = predict_samples(kind, predictor, set, comm, &output, skip_bad);
	status = agree(comm, status);
	if (!status && comm->rank == 0 && kind->predictor_finish)
		status = kind->predictor_finish(predictor, set, &output);
	free(directory);
	return agree(comm, status);
}

static int predict_all(const struct run *run, const struct task_kind *kind, struct task_predictor *predictor,
	struct comm *comm, const struct task_group *groups, const struct checkpoint *checkpoint)
{
	int status = 0;

	for (size_t set = 0; set < predictor->sets && !status; set++) {
		char *settings = kind->predictor_settings(run, &groups[set]);
		struct predictions_info info = {.step = checkpoint->step, .settings = settings};

		snprintf(info.digest, sizeof(info.digest), "%s", checkpoint->digest);
		status = settings ? predict_set(kind, predictor, set, run, comm, &info) : STATUS_FAILURE;
		if (!status && comm->rank == 0)
			note("%s: predictions of step %lld in %s/predictions/%s",
				kind->predictor_set(predictor, set), (long long)info.step, run->path,
				kind->predictor_set(predictor, set));
		free(settings);
	}
	return status;
}

/* Videos that no configuration names: rows on standard output, each video's as soon as it is done. */
static int predict_videos(
	const struct settings *settings, const struct task_kind *kind, struct task_predictor *predictor)
{
	struct text rows = {0};
	int64_t top = settings->top == NOT_GIVEN ? -1 : settings->top;
	size_t printed = 0;
	int status = 0;

	for (int i = 1; i < settings->count && !status; i++) {
		if (signals_notice() != NOTICE_NONE)
			status = error_set(STATUS_AGAIN, "left before %s", settings->names[i]);
		else
			status = kind->predictor_path(predictor, settings->names[i], top, &rows);
		if (!status && fwrite(rows.data + printed, 1, rows.length - printed, stdout))
			fflush(stdout);
		printed = rows.length;
	}
	text_release(&rows);
	return status;
}

static int check_task(const struct settings *settings, const struct task_kind *kind)
{
	return settings->video && !kind->predictor_path
		       ? error_set(STATUS_USAGE, "--video: task %s has datasets to predict", kind->name)
		       : 0;
}

struct work {
	struct run run;
	struct comm *comm;
	struct platform platform;
	struct checkpoint checkpoint;
	struct task_group *groups;
	const struct task_kind *kind;
	struct task_predictor predictor;
};

static int open_comm(struct work *work, bool alone)
{
	int status = alone ? comm_open_self(&work->comm) : comm_open(&work->comm);

	if (!status) {
		error_rank(work->comm->rank);
		work->comm->timeout = SHARE_SECONDS;
	}
	return status;
}

static int open_work(const struct settings *settings, struct work *work)
{
	size_t count = 0;
	int status = run_open(settings->names[0], &work->run);

	if (!status)
		status = origin_open(&work->run, settings->step ? settings->step : "", &work->checkpoint);
	if (!status)
		status = platform_open(&work->run, false, work->comm, &work->platform);
	if (!status && !(work->kind = task_find(config_text(work->run.config, "task"))))
		status = error_status();
	if (!status)
		status = check_task(settings, work->kind);
	if (!status && !settings->video)
		status = task_groups(
			&work->run, settings->names + 1, settings->count - 1, &work->groups, &count);
	if (!status)
		status = work->kind->predictor_open(&work->run, work->platform.device, &work->checkpoint,
			work->groups, count, &work->predictor);
	if (!status)
		status = work->kind->predictor_prepare(&work->predictor);
	if (!status)
		status = weights_load(program_store(work->predictor.program), &work->checkpoint, "");
	return status ? status : signals_install();
}

static void close_work(struct work *work)
{
	if (work->kind)
		work->kind->predictor_close(&work->predictor);
	free(work->groups);
	checkpoint_release(&work->checkpoint);
	platform_close(&work->platform);
	run_close(&work->run);
}

static int run_work(const struct settings *settings, struct work *work)
{
	int status = agree(work->comm, open_work(settings, work));

	if (status)
		return status;
	return settings->video ? predict_videos(settings, work->kind, &work->predictor)
			       : predict_all(&work->run, work->kind, &work->predictor, work->comm,
					 work->groups, &work->checkpoint);
}

/* One line for all ranks; a rank that has lost another waits for nobody. */
static int work(const struct settings *settings)
{
	struct work work = {0};
	int status = open_comm(&work, settings->video);

	if (!status)
		status = run_work(settings, &work);
	if (status && (!work.comm || work.comm->rank == 0 || work.comm->lost))
		error_print(status);
	close_work(&work);
	if (work.comm && work.comm->lost)
		_exit(STATUS_FAILURE);
	if (work.comm)
		work.comm->close(work.comm);
	return status;
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	bool done = false;
	int status;

	signals_block();
	signals_ignore_pipe();
	error_program(argv[0]);
	guard_output();
	settings.names = calloc((size_t)argc + 1, sizeof(*settings.names));
	if (!settings.names)
		return error_print(error_set(STATUS_FAILURE, "out of memory"));
	status = parse(argc, argv, &settings, &done);
	if (status)
		error_print(status);
	else if (!done)
		status = work(&settings);
	free(settings.names);
	return close_stdout(status);
}
