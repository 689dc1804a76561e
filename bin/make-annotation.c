/* make-annotation: turns a dataset's lists into an annotation and checks the videos. See make-annotation(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/signals.h"
#include "data/video_list.h"

struct work {
	const char *form, *source, *data; /* operands; source: lists, or an annotation */
	const char *output, *layout, *decode, *subset;
	int64_t split, seed;
	double validation;
	bool flow;
	enum video_depth depth;
};

static const char *const depth_names[3] = {"none", "some", "all"};

static bool form_has_source(const char *form)
{
	return strcmp(form, "folders") != 0;
}

static int check_form(const char *form)
{
	for (int i = 0; i < 5; i++)
		if (!strcmp(form, video_list_forms[i]))
			return STATUS_OK;
	if (!strcmp(form, "activitynet") || !strcmp(form, "check"))
		return STATUS_OK;
	return error_set(STATUS_USAGE,
		"%s: must be kinetics, ucf101, hmdb51, mit, activitynet, folders or check", form);
}

static int check_arguments(struct work *work, const char **operands, int count)
{
	int wanted, depth = -1;

	if (count < 1)
		return error_set(
			STATUS_USAGE, "the form of the lists comes first; --help shows how it is called");
	work->form = operands[0];
	if (check_form(work->form))
		return error_status();
	wanted = form_has_source(work->form) ? 3 : 2;
	if (count != wanted)
		return error_set(STATUS_USAGE, "%s takes %s; --help shows how it is called", work->form,
			wanted == 3 ? "the lists (or an annotation) and the directory of the videos"
				    : "the directory of the videos");
	work->source = operands[wanted - 2];
	work->data = operands[wanted - 1];
	for (int i = 0; i < 3; i++)
		depth = strcmp(work->decode, depth_names[i]) ? depth : i;
	if (depth < 0)
		return error_set(STATUS_USAGE, "--decode %s: must be none, some or all", work->decode);
	work->depth = (enum video_depth)depth;
	if (work->split < 1 || work->split > 9)
		return error_set(STATUS_USAGE, "--split must be 1 to 9");
	if (!(work->validation >= 0 && work->validation < 1))
		return error_set(STATUS_USAGE, "--validation must be 0 or more and less than 1");
	if (work->seed < 0)
		return error_set(STATUS_USAGE, "--seed must not be negative");
	return STATUS_OK;
}

static int read_source(const struct work *work, const struct video_options *data,
	struct video_annotation *annotation, struct video_problems *problems)
{
	const struct video_list_options options = {.form = work->form,
		.lists = work->source,
		.split = work->split,
		.validation = work->validation,
		.seed = (uint64_t)work->seed};

	if (!strcmp(work->form, "check"))
		return video_annotation_read(work->source, false, annotation);
	return video_list_read(&options, data, annotation, problems);
}

static int write_annotation(const struct work *work, const struct video_annotation *annotation)
{
	struct text json = {0};
	int status = video_annotation_write(annotation, &json);

	if (!status)
		status = file_publish(work->output, json.data, json.length);
	text_release(&json);
	return status;
}

static int print_problems(const struct video_problems *problems)
{
	printf("#problem\tsubset\tlabel\tvideo\tdetail\n%s", problems->count ? problems->rows.data : "");
	if (!problems->count)
		return STATUS_OK;
	return error_set(STATUS_DATA, "%zu problem%s (one a row of the table)", problems->count,
		problems->count == 1 ? "" : "s");
}

static void tell(const struct work *work, const struct video_annotation *annotation,
	const struct video_problems *problems)
{
	note("%zu classes, %zu videos, %zu of them with frames%s%s", annotation->labels.count,
		annotation->count, problems->with_frames, work->output ? "; written to " : "",
		work->output ? work->output : "");
	if (annotation->count && !problems->with_frames)
		note("no video has any: DATA is the directory that holds CLASS/VIDEO, kept as --layout says "
		     "(frames, hdf5 or video); it was %s, and --layout %s",
			work->data, work->layout);
}

/* ActivityNet's own file gains frame rates. */
static int add_rates(const struct work *work)
{
	struct video_problems problems = {0};
	struct text json = {0};
	size_t count, found;
	int status = video_rates(work->source, work->data, &json, &problems, &count, &found);

	if (!status && work->output)
		status = file_publish(work->output, json.data, json.length);
	if (!status) {
		note("%zu videos, %zu of them there%s%s", count, found, work->output ? "; written to " : "",
			work->output ? work->output : "");
		status = print_problems(&problems);
	}
	text_release(&json);
	text_release(&problems.rows);
	return status;
}

static int make_annotation(const struct work *work)
{
	const struct video_options data = {
		.name = work->form, .layout = work->layout, .path = work->data, .flow = work->flow};
	struct video_annotation annotation = {0};
	struct video_problems problems = {0};
	bool check = !strcmp(work->form, "check");
	int status = read_source(work, &data, &annotation, &problems);

	if (!status)
		status = video_check(&data, &annotation, work->depth, check, &problems);
	if (!status && work->output)
		status = write_annotation(work, &annotation);
	if (!status) {
		tell(work, &annotation, &problems);
		status = print_problems(&problems);
	}
	video_annotation_release(&annotation);
	text_release(&problems.rows);
	return status;
}

int main(int argc, char **argv)
{
	struct work work = {.layout = "frames", .decode = "some", .split = 1, .seed = 1, .validation = 0.2};
	const struct option_row rows[] = {
		{"output", 'o', "FILE", "write the annotation there", &work.output, OPTION_TEXT},
		{"layout", 0, "NAME", "how frames are kept: frames, hdf5, video (frames)", &work.layout,
			OPTION_TEXT},
		{"flow", 0, NULL, "hdf5 of optical flow", &work.flow, OPTION_FLAG},
		{"decode", 0, "HOW", "frames to decode of each video: none, some, all (some)", &work.decode,
			OPTION_TEXT},
		{"split", 0, "K", "ucf101, hmdb51: which of the splits (1)", &work.split, OPTION_INTEGER},
		{"validation", 0, "SHARE", "folders: share of each class to validate on (0.2)",
			&work.validation, OPTION_NUMBER},
		{"seed", 0, "N", "folders: which videos these are (1)", &work.seed, OPTION_INTEGER},
		{0},
	};
	const struct program program = {
		.name = "make-annotation",
		.synopsis = "[OPTION ...] kinetics|ucf101|hmdb51|mit LISTS DATA\n"
			    "[OPTION ...] activitynet JSON DATA\n"
			    "[OPTION ...] folders DATA\n"
			    "[OPTION ...] check ANNOTATION DATA",
		.purpose = "Turn a dataset's lists into an annotation, and check its videos.",
		.rows = rows,
	};
	const char **operands;
	int count = 0, status;
	bool done = false;

	signals_block();
	error_program(argv[0]);
	guard_output();
	operands = memory_new((size_t)argc, sizeof *operands);
	status = operands ? options_parse(&program, argc, argv, operands, &count, &done) : error_status();
	if (!status && !done)
		status = check_arguments(&work, operands, count);
	if (!status && !done)
		status = strcmp(work.form, "activitynet") ? make_annotation(&work) : add_rates(&work);
	free(operands);
	if (status)
		error_print(status);
	return close_stdout(status);
}
