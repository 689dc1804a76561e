/* eval: scores the predictions of a run, or those that others made. See eval(1). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "task/classify_foreign.h"
#include "task/classify_scores.h"
#include "task/depth_score.h"
#include "task/evaluate.h"

struct settings {
	const char *task, *layout, *truth, *prediction, *list, *crop, *align, *step, *subset;
	double minimum, maximum, scale;
	bool summary, no_predict, whole, constant, confusion, ignore;
	const char **operands; /* RUN DATASET ... */
	int count;
};

/* ---- output ---- */

static int print(struct text *text)
{
	int status = text_check(text);

	if (!status)
		fwrite(text->data, 1, text->length, stdout);
	text_release(text);
	return status;
}

/* The header comes once, before the first dataset. */
static int print_scores(const struct settings *settings, const struct scores *scores, const char *dataset,
	const char *comment, bool first)
{
	struct text table = {0};
	int status = STATUS_OK;

	if (settings->confusion) {
		text_add(&table, first ? "#dataset\tlabel\tpredicted\tn\n" : "");
		text_add(&table, comment);
		status = classify_scores_confusion(scores, dataset, &table);
	} else {
		if (first)
			(settings->summary ? scores_summary_header : scores_header)(scores, &table);
		text_add(&table, comment);
		(settings->summary ? scores_summary : scores_rows)(scores, dataset, &table);
	}
	if (!status)
		return print(&table);
	text_release(&table);
	return status;
}

/* ---- predictions of others ---- */

static bool describes_depth(const struct settings *settings)
{
	return settings->layout || settings->constant || settings->list || settings->scale != 0 ||
	       settings->minimum != 0 || settings->maximum != 0 || settings->whole ||
	       strcmp(settings->crop, "none") != 0 || strcmp(settings->align, "least-squares") != 0;
}

static int check_results(const struct settings *settings)
{
	if (!settings->truth || !settings->prediction)
		return error_set(STATUS_USAGE, "--task classify needs --truth (an annotation) and "
					       "--prediction (a result), both JSON");
	if (describes_depth(settings))
		return error_set(STATUS_USAGE, "options that describe depth go with --task depth");
	return STATUS_OK;
}

static int check_depth(const struct settings *settings)
{
	if (!settings->layout || !settings->truth || (!settings->prediction && !settings->constant))
		return error_set(STATUS_USAGE,
			"--task depth needs --layout, --truth and --prediction (or --constant)");
	if (settings->prediction && settings->constant)
		return error_set(STATUS_USAGE, "--prediction and --constant exclude each other");
	if (settings->subset || settings->ignore || settings->confusion)
		return error_set(STATUS_USAGE, "--subset, --ignore and --confusion go with --task classify");
	if (settings->scale < 0)
		return error_set(STATUS_USAGE, "--scale %g: wants a number above 0", settings->scale);
	if (depth_align_find(settings->align) < 0)
		return error_set(
			STATUS_USAGE, "--align %s: least-squares, disparity or none", settings->align);
	if (depth_crop_find(settings->crop) < 0)
		return error_set(STATUS_USAGE, "--crop %s: eigen, garg or none", settings->crop);
	return STATUS_OK;
}

static int check_files(const struct settings *settings)
{
	bool classify = !strcmp(settings->task, "classify");

	if (!classify && strcmp(settings->task, "depth") != 0)
		return error_set(STATUS_USAGE,
			"--task %s: predictions of others can be scored for depth and classify",
			settings->task);
	if (settings->count)
		return error_set(STATUS_USAGE, "%s: with --task no RUN is named", settings->operands[0]);
	if (settings->step || settings->no_predict)
		return error_set(STATUS_USAGE, "--step and --no-predict go with a RUN, not with --task");
	if (settings->summary && settings->confusion)
		return error_set(STATUS_USAGE, "--summary and --confusion exclude each other");
	return classify ? check_results(settings) : check_depth(settings);
}

static int print_foreign(const struct settings *settings, const struct scores *scores, const char *truth)
{
	struct text comment = {0};
	int status;

	scores_comment(scores, path_base(truth), "", &comment);
	status = text_check(&comment);
	if (!status)
		status = print_scores(settings, scores, path_base(truth), comment.data, true);
	text_release(&comment);
	return status;
}

static int score_results(const struct settings *settings)
{
	const struct classify_foreign foreign = {.truth = settings->truth,
		.prediction = settings->prediction,
		.subset = settings->subset ? settings->subset : "validation",
		.ignore = settings->ignore};
	struct scores scores = {0};
	int status = classify_foreign_run(&foreign, &scores);

	if (!status)
		status = print_foreign(settings, &scores, settings->truth);
	scores_release(&scores);
	return status;
}

static int score_directories(const struct settings *settings)
{
	struct depth_score score = {
		.truth = {.layout = settings->layout,
			.path = settings->truth,
			.list = settings->list,
			.scale = settings->scale,
			.minimum = settings->minimum,
			.maximum = settings->maximum,
			.crop = (enum depth_crop)depth_crop_find(settings->crop),
			.benchmark_crop = !settings->whole},
		.predictions = settings->prediction,
		.foreign = true,
		.constant = settings->constant,
		.align = (enum depth_align)depth_align_find(settings->align),
	};
	struct scores scores = {0};
	char *path = path_absolute(settings->truth);
	int status = path ? depth_score_run(&score, &scores) : error_status();

	if (!status)
		status = print_foreign(settings, &scores, path);
	scores_release(&scores);
	free(path);
	return status;
}

/* ---- the sibling program predict ---- */

/* predict beside this program, under the same prefix ("ns-eval": "ns-predict"). */
static char *sibling_path(void)
{
	static const char own[] = "eval";
	char name[4096];
	ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
	struct text path = {0};

	if (length < 0) {
		error_errno(STATUS_FAILURE, "/proc/self/exe");
		return NULL;
	}
	name[length] = 0;
	if (text_ends(name, own))
		length -= (ssize_t)sizeof own - 1;
	else
		length = path_base(name) - name;
	text_append(&path, name, (size_t)length);
	text_add(&path, "predict");
	return text_take(&path);
}

/* Waits; a notice that comes meanwhile is passed on once. */
static int wait_child(pid_t child)
{
	bool told = false;
	int result;

	for (;;) {
		pid_t ended = waitpid(child, &result, WNOHANG);

		if (ended == child)
			break;
		if (ended < 0 && errno != EINTR)
			return error_errno(STATUS_FAILURE, "waiting for predict");
		if (!told && signals_notice()) {
			kill(child, signals_notice() == NOTICE_TERM ? SIGTERM : SIGUSR2);
			told = true;
		}
		clock_sleep(0.02);
	}
	if (WIFSIGNALED(result))
		return error_set(STATUS_FAILURE, "predict was killed by signal %d", WTERMSIG(result));
	/* It has said itself what was wrong. */
	error_clear();
	return WEXITSTATUS(result);
}

/* Its stdout goes to our stderr: ours holds the table. */
static int run_program(const char *const *words)
{
	pid_t child;

	signals_block(); /* inherited by the child until it has its own handlers */
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execv(words[0], (char *const *)(uintptr_t)words);
		error_errno(STATUS_UNAVAILABLE, "cannot start %s", words[0]);
		_exit(error_print(STATUS_UNAVAILABLE));
	}
	if (child < 0)
		error_errno(STATUS_FAILURE, "cannot start %s", words[0]);
	if (signals_install() || child < 0)
		return error_status();
	return wait_child(child);
}

/* predict [--step N|best] RUN GROUP ... for the sets that need it. */
static int run_predict(const struct settings *settings, const struct evaluation *evaluation)
{
	const char **words = memory_new(evaluation->sets + 5, sizeof *words);
	char *program = sibling_path();
	size_t count = 0;
	int status = STATUS_OK;

	if (!words || !program) {
		status = error_status();
		goto out;
	}
	words[count++] = program;
	if (settings->step) {
		words[count++] = "--step";
		words[count++] = settings->step;
	}
	words[count++] = evaluation->run->path;
	for (size_t i = 0; i < evaluation->sets; i++)
		if (evaluation->set[i].stale)
			words[count++] = evaluation->set[i].group.name;
	status = run_program(words);
out:
	free(words);
	free(program);
	return status;
}

/* ---- a run ---- */

static int make_predictions(const struct settings *settings, struct evaluation *evaluation)
{
	size_t stale;
	int status = evaluation_check(evaluation, &stale);

	if (status || !stale)
		return status;
	for (size_t i = 0; settings->no_predict && i < evaluation->sets; i++)
		if (evaluation->set[i].stale)
			return error_set(STATUS_DATA, "%s: %s; leave out --no-predict to have them made",
				evaluation->run->path, evaluation->set[i].stale);
	return run_predict(settings, evaluation);
}

static int score_sets(const struct settings *settings, const struct evaluation *evaluation)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < evaluation->sets && !status; i++) {
		struct scores scores;
		char *comment;

		status = evaluation_score(evaluation, i, &scores, &comment);
		if (!status)
			status = print_scores(
				settings, &scores, evaluation->set[i].group.name, comment, i == 0);
		scores_release(&scores);
		free(comment);
	}
	return status;
}

static int score_run(const struct settings *settings)
{
	struct run run = {0};
	struct evaluation evaluation = {0};
	int status = run_open(settings->operands[0], &run);

	if (!status)
		status = evaluation_open(
			&evaluation, &run, settings->step, settings->operands + 1, settings->count - 1);
	if (!status && settings->confusion && strcmp(evaluation.kind->name, "classify") != 0)
		status =
			error_set(STATUS_USAGE, "--confusion: task %s has no classes", evaluation.kind->name);
	if (!status)
		status = make_predictions(settings, &evaluation);
	if (!status)
		status = score_sets(settings, &evaluation);
	evaluation_close(&evaluation);
	run_close(&run);
	return status;
}

/* ---- the command line ---- */

static int parse(int argc, char **argv, struct settings *settings, bool *done)
{
	const struct option_row rows[] = {
		{"summary", 's', NULL, "means of each dataset instead of rows", &settings->summary,
			OPTION_FLAG},
		{"step", 0, "N|best", "weights of that step, or the best ones (the newest)", &settings->step,
			OPTION_TEXT},
		{"no-predict", 0, NULL, "fail with 65 where predictions are missing or stale",
			&settings->no_predict, OPTION_FLAG},
		{"confusion", 0, NULL, "classify: how often each label is taken for each, instead of rows",
			&settings->confusion, OPTION_FLAG},
		{"task", 't', "TASK", "score files of others instead of a run: depth or classify",
			&settings->task, OPTION_TEXT},
		{"layout", 'l', "LAYOUT", "family of the dataset: plain, nyu or kitti", &settings->layout,
			OPTION_TEXT},
		{"truth", 0, "PATH", "directory of the dataset; classify: its annotation", &settings->truth,
			OPTION_TEXT},
		{"prediction", 'p', "PATH", "directory of predictions, or one file; classify: the result",
			&settings->prediction, OPTION_TEXT},
		{"subset", 0, "SUBSET", "classify: training, validation or testing (validation)",
			&settings->subset, OPTION_TEXT},
		{"ignore", 0, NULL, "classify: leave videos without result out", &settings->ignore,
			OPTION_FLAG},
		{"constant", 0, NULL, "score the constant that fits each image best, to compare with",
			&settings->constant, OPTION_FLAG},
		{"list", 0, "FILE", "split list, one sample a line (all samples below --truth)",
			&settings->list, OPTION_TEXT},
		{"crop", 0, "CROP", "evaluation crop: eigen, garg or none (none)", &settings->crop,
			OPTION_TEXT},
		{"align", 'a', "ALIGN", "least-squares, disparity or none (least-squares)", &settings->align,
			OPTION_TEXT},
		{"min", 0, "M", "valid depth is above this, in metres (the layout's)", &settings->minimum,
			OPTION_NUMBER},
		{"max", 0, "M", "valid depth is below this, in metres (the layout's)", &settings->maximum,
			OPTION_NUMBER},
		{"scale", 0, "S", "stored depth over metres (the layout's)", &settings->scale, OPTION_NUMBER},
		{"whole", 0, NULL, "kitti: no benchmark crop to 352x1216", &settings->whole, OPTION_FLAG},
		{0},
	};
	const struct program program = {
		.name = "eval",
		.synopsis =
			"[--summary|--confusion] [--step N|best] [--no-predict] RUN [DATASET ...]\n"
			"--task depth --layout LAYOUT --truth DIR --prediction DIR|--constant [OPTION ...]\n"
			"--task classify --truth FILE --prediction FILE [--subset SUBSET] [--ignore] "
			"[--summary]",
		.purpose = "Score the predictions of a run, or those that others made; one row a sample.",
		.rows = rows,
	};

	return options_parse(&program, argc, argv, settings->operands, &settings->count, done);
}

static int check_run(const struct settings *settings)
{
	if (describes_depth(settings) || settings->truth || settings->prediction || settings->subset ||
		settings->ignore)
		return error_set(STATUS_USAGE, "options that describe files of others need --task (a run "
					       "has these in its configuration)");
	if (settings->summary && settings->confusion)
		return error_set(STATUS_USAGE, "--summary and --confusion exclude each other");
	if (settings->count < 1)
		return error_set(STATUS_USAGE, "RUN is missing; --help shows how it is called");
	return STATUS_OK;
}

int main(int argc, char **argv)
{
	struct settings settings = {.crop = "none", .align = "least-squares"};
	bool done = false;
	int status;

	signals_block();
	error_program(argv[0]);
	guard_output();
	settings.operands = memory_new((size_t)argc, sizeof *settings.operands);
	status = settings.operands ? parse(argc, argv, &settings, &done) : error_status();
	if (!status && !done)
		status = settings.task ? check_files(&settings) : check_run(&settings);
	if (!status && !done)
		status = signals_install();
	if (!status && !done)
		status = !settings.task                   ? score_run(&settings)
			 : strcmp(settings.task, "depth") ? score_results(&settings)
							  : score_directories(&settings);
	free(settings.operands);
	if (status && *error_message())
		error_print(status);
	return close_stdout(status);
}
