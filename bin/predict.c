/* predict: writes the predictions of a run for its data groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/signals.h"
#include "comm/comm.h"
#include "run/checkpoint.h"
#include "task/platform.h"
#include "task/predictions.h"
#include "task/task.h"
#include "train/weights.h"

struct settings {
	const char *step;
	const char **names; /* RUN first */
	int count;
};

static int parse(int argc, char **argv, struct settings *settings, bool *done)
{
	const struct option_row rows[] = {
		{"step", 0, "N|best", "weights of that step, or the best ones (the newest)", &settings->step,
			OPTION_TEXT},
		{0}};
	const struct program program = {.name = "predict",
		.synopsis = "[--step N|best] RUN [DATASET ...]",
		.purpose = "Write a run's predictions into RUN/predictions/DATASET.",
		.rows = rows};
	int status = options_parse(&program, argc, argv, settings->names, &settings->count, done);

	if (status || *done)
		return status;
	return settings->count >= 1
		       ? 0
		       : error_set(STATUS_USAGE, "RUN is missing; --help shows how it is called");
}

/* Predicts the samples of one set; those whose files are whole already are passed over. */
static int predict_set(const struct task_kind *kind, struct task_predictor *predictor, size_t set,
	const struct run *run, const struct predictions_info *info, bool skip_bad)
{
	const char *name = kind->predictor_set(predictor, set);
	int64_t count = kind->predictor_samples(predictor, set);
	struct predictions_output output = {0};
	struct progress progress = {0};
	char *directory = run_path(run, "predictions/%s", name);
	int status = directory ? predictions_start(directory, info, &output) : STATUS_FAILURE;

	progress_start(&progress, name);
	for (int64_t i = 0; i < count && !status; i++) {
		if (signals_notice() != NOTICE_NONE) {
			status = error_set(STATUS_AGAIN, "%s: left after %lld of %lld samples", name,
				(long long)i, (long long)count);
			break;
		}
		status = kind->predict(predictor, set, i, &output);
		/* Whoever takes the directory over moves it away: that, not a file that cannot be put in place, is what happened. */
		if (status && status != STATUS_DATA && !predictions_still(directory, info))
			status = predictions_fence(&output);
		if (status == STATUS_DATA && skip_bad) {
			warn("%s: %s; skipped", name, error_message());
			status = 0;
		}
		if (progress_due(&progress))
			progress_show(&progress, "%lld of %lld samples", (long long)i + 1, (long long)count);
	}
	progress_end(&progress);
	free(directory);
	return status;
}

static int predict_all(const struct run *run, const struct task_kind *kind, struct task_predictor *predictor,
	const struct task_group *groups, const struct checkpoint *checkpoint)
{
	bool skip_bad = config_bool(run->config, "data.skip");
	int status = 0;

	for (size_t set = 0; set < predictor->sets && !status; set++) {
		char *settings = kind->predictor_settings(run, &groups[set]);
		struct predictions_info info = {.step = checkpoint->step, .settings = settings};

		snprintf(info.digest, sizeof(info.digest), "%s", checkpoint->digest);
		status = settings ? predict_set(kind, predictor, set, run, &info, skip_bad) : STATUS_FAILURE;
		if (!status)
			note("%s: predictions of step %lld in %s/predictions/%s",
				kind->predictor_set(predictor, set), (long long)info.step, run->path,
				kind->predictor_set(predictor, set));
		free(settings);
	}
	return status;
}

static int work(const struct settings *settings)
{
	struct run run = {0};
	struct platform platform = {0};
	struct task_predictor predictor = {0};
	struct checkpoint checkpoint = {0};
	struct task_group *groups = NULL;
	struct comm *comm = NULL;
	size_t count = 0;
	const struct task_kind *kind = NULL;
	int status = run_open(settings->names[0], &run);

	if (!status)
		status = checkpoint_open(&run, settings->step ? settings->step : "", &checkpoint);
	if (!status)
		status = comm_open_self(&comm);
	if (!status)
		status = platform_open(&run, false, comm, &platform);
	if (!status && !(kind = task_find(config_text(run.config, "task"))))
		status = error_status();
	if (!status)
		status = task_groups(&run, settings->names + 1, settings->count - 1, &groups, &count);
	if (!status)
		status = kind->predictor_open(&run, platform.device, groups, count, &predictor);
	if (!status)
		status = kind->predictor_prepare(&predictor);
	if (!status)
		status = weights_load(program_store(predictor.program), &checkpoint, "");
	if (!status)
		status = signals_install();
	if (!status)
		status = predict_all(&run, kind, &predictor, groups, &checkpoint);
	if (kind)
		kind->predictor_close(&predictor);
	free(groups);
	checkpoint_release(&checkpoint);
	if (comm)
		comm->close(comm);
	platform_close(&platform);
	run_close(&run);
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
	if (!status && !done)
		status = work(&settings);
	free(settings.names);
	return close_stdout(status ? error_print(status) : 0);
}
