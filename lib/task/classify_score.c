/* Scoring the predictions of a classification run: error is -log of the true class's probability, averaged over the windows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "metric/classify.h"
#include "task/classify.h"
#include "task/classify_scores.h"
#include "task/classify_stored.h"

struct work {
	struct classify_set set;
	struct classify_labels labels; /* of the predictions' columns */
	const char *directory;
	bool skip; /* a missing prediction is a row of nan and a warning */
	struct scores *scores;
};

/* The columns of sample i from its windows. */
static int score_windows(struct work *work, size_t i, const struct stored *stored)
{
	int64_t class = classify_set_class(&work->set, i);
	float *mean = memory_new(stored->classes, sizeof *mean);
	size_t best, right = 0;
	char buffer[32];
	int status = mean ? STATUS_OK : error_status();

	if (!status && class >= (int64_t)stored->classes)
		status = error_set(STATUS_DATA,
			"%s: holds %zu classes, but the truth is class %lld; remove it", stored->path,
			stored->classes, (long long)class);
	if (status)
		goto out;
	classify_mean(stored->probability, stored->windows, stored->classes, mean);
	classify_best(mean, stored->classes, 1, &best);
	for (size_t w = 0; class >= 0 && w < stored->windows; w++)
		right += classify_rank(stored->probability + w * stored->classes, stored->classes,
				 (size_t) class) == 0;
	if (class >= 0)
		classify_scores_set(work->scores, i,
			(double)classify_rank(mean, stored->classes, (size_t) class), (double)mean[class],
			(double)right / (double)stored->windows);
	status = classify_scores_name(work->scores, i,
		class < 0 ? "-" : classify_label(&work->labels, (size_t) class, buffer),
		classify_label(&work->labels, best, (char[32]){0}));
out:
	free(mean);
	return status;
}

static int score_sample(struct work *work, size_t i)
{
	struct stored stored;
	struct text name = {0};
	int status;

	classify_set_sample_name(&work->set, i, &name);
	work->scores->sample[i] = text_take(&name);
	if (!work->scores->sample[i])
		return error_status();
	status = stored_read(work->directory, &work->set, i, &stored);
	if (!status) {
		status = score_windows(work, i, &stored);
	} else if (status == STATUS_NO_INPUT && work->skip) {
		warn("%s: has no prediction; its row is nan", work->scores->sample[i]);
		status = classify_scores_name(work->scores, i, "-", "-");
	}
	stored_release(&stored);
	return status;
}

int classify_group_score(
	const struct run *run, const char *list, size_t group, const char *directory, struct scores *scores)
{
	struct work work = {
		.directory = directory, .skip = config_bool(run->config, "data.skip"), .scores = scores};
	int status = stored_labels(directory, &work.labels);

	*scores = (struct scores){0};
	if (!status)
		status = classify_set_open(&work.set, run, list, group, &work.labels);
	if (!status)
		status = classify_scores_init(scores, classify_set_count(&work.set));
	for (size_t i = 0; !status && i < scores->count; i++)
		status = score_sample(&work, i);
	if (!status)
		status = classify_scores_finish(scores);
	if (!status) {
		scores->how = memory_text(config_text(run->config, "predict.crop")[0] == 'c'
						  ? "mean of windows"
						  : "mean of windows, whole frames");
		status = scores->how ? STATUS_OK : error_status();
	}
	classify_set_close(&work.set);
	classify_labels_release(&work.labels);
	return status;
}

int classify_group_missing(const struct run *run, const char *list, size_t group, const char *directory,
	size_t *count, char **first)
{
	struct classify_labels none = {0};
	struct classify_set set;
	char *labels = path_join(directory, STORED_LABELS);
	int status = labels ? classify_set_open(&set, run, list, group, &none) : error_status();

	*count = 0;
	*first = NULL;
	for (size_t i = 0; !status && i < classify_set_count(&set); i++) {
		char *path = stored_path(directory, &set, i);

		if (!path)
			status = error_status();
		else if (!file_exists(path) && (*count)++ == 0)
			status = (*first = memory_text(video_set_sample(set.videos, i)->id)) ? STATUS_OK
											     : error_status();
		free(path);
	}
	if (!status && !*count && !file_exists(labels)) { /* its last step was cut off */
		*count = 1;
		*first = memory_text(STORED_LABELS);
		status = *first ? STATUS_OK : error_status();
	}
	if (labels)
		classify_set_close(&set);
	free(labels);
	return status;
}

int classify_group_check(const struct run *run, const char *list, size_t group, size_t *missing, char **first)
{
	struct classify_labels none = {0};
	struct classify_set set;
	int status = classify_set_open(&set, run, list, group, &none);

	*missing = 0;
	*first = NULL;
	if (!status)
		status = video_set_missing(set.videos, missing, first);
	classify_set_close(&set);
	return status;
}
