/* What is wrong with the videos that an annotation names. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "data/video_list.h"
#include "data/video_set.h"

enum { SOME = 3 };

struct verdict {
	const char *problem; /* NULL: none */
	char *detail;        /* owned */
	int64_t first, end;
};
struct check {
	struct video_set *set;
	enum video_depth depth;
	bool keep_numbers;
	struct verdict *verdict;
};

/* The present message becomes the detail. */
static void judge(struct verdict *verdict, const char *problem)
{
	verdict->problem = problem;
	verdict->detail = memory_text(error_message());
	error_clear();
}

static int first_gap(
	const struct check *check, struct video_store *store, int64_t first, int64_t end, int64_t *gap)
{
	for (*gap = first; *gap < end; ++*gap) {
		int64_t nearest;
		int status = check->set->layout->nearest(store, *gap, &nearest);

		if (status || nearest != *gap)
			return status;
	}
	return STATUS_OK;
}

/* Decodes some or all frames; all must have the first one's size. */
static void decode(const struct check *check, struct video_store *store, struct verdict *verdict)
{
	const struct video_layout *layout = check->set->layout;
	struct jpeg_part part = {0};
	int64_t count = verdict->end - verdict->first,
		steps = check->depth == VIDEO_ALL || count < SOME ? count : SOME;
	int height = 0, width = 0;

	for (int64_t i = 0; i < steps && !verdict->problem; i++) {
		int64_t number = verdict->first + (steps > 1 ? i * (count - 1) / (steps - 1) : 0);
		int h, w, status = layout->size(store, number, &h, &w);

		part.channels = video_set_channels(check->set);
		part.denominator = 1;
		part.top = part.left = 0;
		part.height = h;
		part.width = w;
		if (!status)
			status = layout->read(store, number, &part);
		if (status) {
			judge(verdict, status == STATUS_NO_INPUT ? "gap" : "unreadable");
		} else if (i && (h != height || w != width)) {
			error_set(STATUS_DATA, "frame %lld has %d x %d pixels, the first %d x %d",
				(long long)number, w, h, width, height);
			judge(verdict, "size");
		}
		height = i ? height : h;
		width = i ? width : w;
	}
	jpeg_part_release(&part);
}

static int check_count(
	const struct check *check, struct video_store *store, int64_t present, struct verdict *verdict)
{
	int64_t gap;
	int status = first_gap(check, store, verdict->first, verdict->end, &gap);

	if (status)
		return status;
	error_set(STATUS_DATA, "%lld of %lld frames are missing, the first is %lld",
		(long long)(verdict->end - verdict->first - present),
		(long long)(verdict->end - verdict->first), (long long)gap);
	judge(verdict, "gap");
	return STATUS_OK;
}

/* What the annotation says of its frames against what is there. */
static void compare_numbers(const struct video_entry *entry, struct verdict *verdict)
{
	if (entry->first >= verdict->first && entry->end <= verdict->end)
		return;
	error_set(STATUS_DATA, "the annotation has frames %lld to %lld, there are %lld to %lld",
		(long long)entry->first, (long long)entry->end - 1, (long long)verdict->first,
		(long long)verdict->end - 1);
	judge(verdict, "count");
}

static int look_into(const struct check *check, size_t i, struct video_store *store)
{
	struct verdict *verdict = &check->verdict[i];
	const struct video_entry *entry = &check->set->annotation.entry[i];
	int64_t present = 0;
	int status = check->set->layout->count(store, &verdict->end, &present);

	if (status == STATUS_NO_INPUT || status == STATUS_DATA) {
		judge(verdict, status == STATUS_NO_INPUT ? "missing" : "unreadable");
		verdict->end = verdict->first;
		return STATUS_OK;
	}
	if (status)
		return status;
	if (present <= 0) {
		error_set(STATUS_DATA, "no frames in %s", check->set->sample[i].path);
		judge(verdict, "empty");
		verdict->end = verdict->first;
		return STATUS_OK;
	}
	if (present < verdict->end - verdict->first)
		status = check_count(check, store, present, verdict);
	if (!status && !verdict->problem && check->keep_numbers && entry->numbered)
		compare_numbers(entry, verdict);
	if (!status && !verdict->problem && check->depth != VIDEO_NAMES)
		decode(check, store, verdict);
	return status;
}

static int check_video(void *context, size_t i)
{
	struct check *check = context;
	struct video_store *store = NULL;
	struct source *own = NULL;
	int status = video_open_sample(check->set, i, &store, &own);

	check->verdict[i].first = check->verdict[i].end = check->set->layout->first;
	if (!status) {
		status = look_into(check, i, store);
	} else if (status == STATUS_NO_INPUT || status == STATUS_DATA) {
		judge(&check->verdict[i], status == STATUS_NO_INPUT ? "missing" : "unreadable");
		status = STATUS_OK;
	}
	if (store)
		check->set->layout->close(store);
	source_close(own);
	return status;
}

/* Classes that nothing can be learned of, or that nothing tests. */
static int check_classes(const struct video_annotation *annotation, struct video_problems *problems)
{
	static const char *const kinds[2] = {"no-training", "no-validation"};
	size_t classes = annotation->labels.count, *count = memory_new(classes * 2, sizeof *count),
	       any[2] = {0};

	if (!count)
		return error_status();
	for (size_t i = 0; i < annotation->count; i++) {
		const struct video_entry *entry = &annotation->entry[i];

		if (entry->label < 0 || entry->subset < 0 || entry->subset > 1 ||
			(entry->numbered && entry->end <= entry->first) || !entry->numbered)
			continue;
		count[2 * entry->label + entry->subset]++;
		any[entry->subset]++;
	}
	for (size_t c = 0; c < classes; c++)
		for (int k = 0; k < 2; k++) {
			struct video_entry of_class = {.id = "-", .label = (int64_t)c, .subset = k};

			if (any[k] && !count[2 * c + (size_t)k])
				video_problem(problems, annotation, &of_class, kinds[k],
					"no video with frames in this subset");
		}
	free(count);
	return STATUS_OK;
}

static void take_verdicts(struct check *check, struct video_problems *problems)
{
	struct video_annotation *annotation = &check->set->annotation;

	for (size_t i = 0; i < annotation->count; i++) {
		struct video_entry *entry = &annotation->entry[i];
		struct verdict *verdict = &check->verdict[i];

		if (verdict->problem)
			video_problem(problems, annotation, entry, verdict->problem, "%s",
				verdict->detail ? verdict->detail : "");
		free(verdict->detail);
		problems->with_frames += verdict->end > verdict->first;
		if (check->keep_numbers && entry->numbered && verdict->end > verdict->first)
			continue;
		entry->numbered = verdict->end > verdict->first;
		entry->first = verdict->first;
		entry->end = verdict->end;
	}
}

int video_check(const struct video_options *data, struct video_annotation *annotation, enum video_depth depth,
	bool keep_numbers, struct video_problems *problems)
{
	struct check check = {.depth = depth, .keep_numbers = keep_numbers};
	int status = video_set_adopt(data, annotation, &check.set);

	if (status)
		return status;
	check.verdict = memory_new(check.set->count, sizeof *check.verdict);
	status = check.verdict ? threads_run(threads_available(), check.set->count, check_video, &check)
			       : error_status();
	if (!status)
		take_verdicts(&check, problems);
	*annotation = check.set->annotation;
	check.set->annotation = (struct video_annotation){0};
	if (!status)
		status = check_classes(annotation, problems);
	video_set_close(check.set);
	free(check.verdict);
	return status ? status : text_check(&problems->rows);
}
