/* Pictures of a clip and what the network takes it for. */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_PICTURE_H
#define NIGHTSHIFT_TASK_CLASSIFY_PICTURE_H

#include "file/image.h"
#include "task/classify_clip.h"

/* A strip of frames of window 0 and, below it, the truth and the best classes with bars as long as their probabilities; the true
 * class is green. image->data is the caller's. */
int classify_picture(const struct classify_clip *clip, struct video_reader *reader,
	const struct classify_set *set, size_t sample, const struct classify_view *view,
	const struct classify_labels *labels, const float *probability, size_t classes, struct image *image);

#endif
