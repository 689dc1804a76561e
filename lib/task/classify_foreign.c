#include "task/classify_foreign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "data/video_result.h"
#include "task/classify_scores.h"

struct work {
	const struct classify_foreign *foreign;
	struct video_annotation truth;
	struct video_results results;
	struct video_index index; /* of the results */
	double *sum;              /* of each label's scores over a video's windows */
	int64_t *order;           /* labels in order of their first entry */
	struct scores *scores;
	size_t missing;
};

/* Scores of one video added up over its windows: work->sum, and the labels that have one in the order in which they come. */
static size_t add_windows(struct work *work, const struct video_result *video)
{
	size_t count = 0;

	for (size_t i = 0; i < work->truth.labels.count; i++)
		work->sum[i] = NAN;
	for (size_t w = 0; w < video->windows; w++)
		for (size_t i = 0; i < video->window[w].count; i++) {
			const struct video_score *score = &video->window[w].item[i];

			if (isnan(work->sum[score->label])) {
				work->sum[score->label] = 0;
				work->order[count++] = score->label;
			}
			work->sum[score->label] += score->score / (double)video->windows;
		}
	return count;
}

/* How many of the labels come before `label` by score, equal ones as they stand in the file. */
static size_t rank_of(const struct work *work, size_t count, size_t place)
{
	double score = work->sum[work->order[place]];
	size_t rank = 0;

	for (size_t i = 0; i < count; i++) {
		double other = work->sum[work->order[i]];

		rank += other > score || (other == score && i < place);
	}
	return rank;
}

static size_t place_of(const struct work *work, size_t count, int64_t label)
{
	size_t place = 0;

	while (place < count && work->order[place] != label)
		place++;
	return place;
}

static double windows_right(const struct video_result *video, int64_t label)
{
	size_t right = 0;

	for (size_t w = 0; w < video->windows; w++) {
		const struct video_scores *scores = &video->window[w];
		size_t best = 0;

		for (size_t i = 1; i < scores->count; i++)
			if (scores->item[i].score > scores->item[best].score)
				best = i;
		right += scores->item[best].label == label;
	}
	return (double)right / (double)video->windows;
}

static int score_video(
	struct work *work, size_t row, const struct video_entry *entry, const struct video_result *video)
{
	struct names *labels = &work->truth.labels;
	size_t count = add_windows(work, video), place = place_of(work, count, entry->label), best = 0;

	while (rank_of(work, count, best))
		best++;
	if (place < count)
		classify_scores_set(work->scores, row, (double)rank_of(work, count, place),
			work->sum[entry->label], windows_right(video, entry->label));
	else
		classify_scores_set(work->scores, row, INFINITY, 0, windows_right(video, entry->label));
	return classify_scores_name(
		work->scores, row, labels->name[entry->label], labels->name[work->order[best]]);
}

static int score_entry(struct work *work, size_t row, const struct video_entry *entry)
{
	int64_t found = video_index_find(&work->index, entry->id);

	work->scores->sample[row] = memory_text(entry->id);
	if (!work->scores->sample[row])
		return error_status();
	if (entry->label < 0)
		return error_set(
			STATUS_DATA, "%s: %s has no label to compare with", work->foreign->truth, entry->id);
	if (found >= 0)
		return score_video(work, row, entry, &work->results.video[found]);
	classify_scores_set(work->scores, row, INFINITY, 0, 0);
	return classify_scores_name(work->scores, row, work->truth.labels.name[entry->label], "-");
}

/* Whether an entry gets a row. */
static bool takes_part(const struct work *work, const struct video_entry *entry, int subset)
{
	return entry->subset == subset &&
	       (!work->foreign->ignore || video_index_find(&work->index, entry->id) >= 0);
}

static int score_all(struct work *work)
{
	int subset = video_subset_find(work->foreign->subset);
	size_t count = 0, row = 0;
	int status = STATUS_OK;

	for (size_t i = 0; i < work->truth.count; i++) {
		const struct video_entry *entry = &work->truth.entry[i];

		count += takes_part(work, entry, subset);
		work->missing += entry->subset == subset && video_index_find(&work->index, entry->id) < 0;
	}
	if (!count)
		return error_set(STATUS_DATA, "%s: no video of the subset %s has a result in %s",
			work->foreign->truth, video_subset_names[subset], work->foreign->prediction);
	if (work->missing)
		warn("%zu videos of %s have no result; they %s", work->missing, video_subset_names[subset],
			work->foreign->ignore ? "are left out"
					      : "count as misses (--ignore leaves them out)");
	status = classify_scores_init(work->scores, count);
	for (size_t i = 0; i < work->truth.count && !status; i++)
		if (takes_part(work, &work->truth.entry[i], subset))
			status = score_entry(work, row++, &work->truth.entry[i]);
	return status ? status : classify_scores_finish(work->scores);
}

static const char *result_id(const void *results, size_t i)
{
	return ((const struct video_results *)results)->video[i].id;
}

static int open_work(struct work *work)
{
	int status;

	if (video_subset_find(work->foreign->subset) < 0)
		return error_set(
			STATUS_USAGE, "--subset %s: training, validation or testing", work->foreign->subset);
	status = video_annotation_read(work->foreign->truth, false, &work->truth);
	if (!status)
		status = video_results_read(work->foreign->prediction, &work->truth.labels, &work->results);
	if (!status)
		status = video_index_init(&work->index, work->results.count, result_id, &work->results);
	work->sum = memory_new(work->truth.labels.count, sizeof *work->sum);
	work->order = memory_new(work->truth.labels.count, sizeof *work->order);
	return status || !work->sum || !work->order ? error_status() : STATUS_OK;
}

int classify_foreign_run(const struct classify_foreign *foreign, struct scores *scores)
{
	struct work work = {.foreign = foreign, .scores = scores};
	struct text how = {0};
	int status;

	*scores = (struct scores){0};
	status = open_work(&work);
	if (!status)
		status = score_all(&work);
	if (!status) {
		text_format(&how, "subset %s, %zu of %zu have a result%s",
			video_subset_names[video_subset_find(foreign->subset)],
			foreign->ignore ? scores->count : scores->count - work.missing,
			foreign->ignore ? scores->count + work.missing : scores->count,
			foreign->ignore ? ", the others are left out" : "");
		scores->how = text_take(&how);
		status = scores->how ? STATUS_OK : error_status();
	}
	free(work.sum);
	free(work.order);
	video_index_release(&work.index);
	video_results_release(&work.results);
	video_annotation_release(&work.truth);
	return status;
}
