/*
 * RUN/predictions/DATASET/INFO: which weights and settings made the predictions beside it. Lines "key value": step, digest, settings.
 * predict writes it first; a sample is whole when its npy is there.
 */
#ifndef NIGHTSHIFT_TASK_PREDICTIONS_H
#define NIGHTSHIFT_TASK_PREDICTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct predictions_info {
	int64_t step;
	char digest[16]; /* of the checkpoint */
	const char *
		settings; /* one line, from the task (task_kind.predictor_settings); owned when read, see predictions_read() */
};

/* *found false: no INFO there. info->settings is the caller's to free. STATUS_DATA: not an INFO file. */
int predictions_read(const char *directory, bool *found, struct predictions_info *info);
bool predictions_equal(const struct predictions_info *a, const struct predictions_info *b);
/* Whether INFO is there and says the same. */
bool predictions_still(const char *directory, const struct predictions_info *info);

/* Where one process writes predictions. Several may at once: of the same weights and settings they write the same bytes; of others
 * the last one to start has the directory, and the earlier ones stop at their next sample. */
struct predictions_output {
	const char *directory;
	const struct predictions_info *info;
	bool fresh; /* the directory was emptied by this process: a file in it is a straggler's, and is replaced */
};
/* Makes the directory ready for predictions of `info`: what is there from the same weights and settings stays, anything else is
 * replaced in one step by a directory with INFO alone. */
int predictions_start(
	const char *directory, const struct predictions_info *info, struct predictions_output *output);
/* Called before each sample is published. STATUS_FENCED: the directory is another's by now. */
int predictions_fence(const struct predictions_output *output);

#endif
