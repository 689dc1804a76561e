/*
 * The lists that datasets come with, turned into an annotation (spec/resnets3d.md 4.4), and what is wrong with the data that it names.
 *
 *	kinetics  a directory with *train.csv, *val.csv (or *validate.csv) and perhaps *test.csv: columns label, youtube_id, time_start,
 *	          time_end, by their header. Classes come in order of their first appearance in the training list. ID is
 *	          YOUTUBEID_START_END with six digits each.
 *	ucf101    a directory with classInd.txt, trainlist0K.txt and testlist0K.txt. Classes as in classInd.txt.
 *	hmdb51    a directory with CLASS_test_splitK.txt. Classes in byte order.
 *	mit       a directory with moments_categories.txt, trainingSet.csv, validationSet.csv and perhaps testingSet.csv. Classes as in
 *	          the first.
 *	folders   a directory of class directories (the data itself); a share of each class becomes the validation subset.
 *
 * An id is the file's name without its last suffix.
 */
#ifndef NIGHTSHIFT_DATA_VIDEO_LIST_H
#define NIGHTSHIFT_DATA_VIDEO_LIST_H

#include "base/text.h"
#include "data/video.h"
#include "data/video_annotation.h"

/* One row "problem subset label video detail" each, tab-separated. */
struct video_problems {
	struct text rows;
	size_t count;
	size_t with_frames; /* videos that video_check() found frames of */
};
void video_problem(struct video_problems *problems, const struct video_annotation *annotation, const struct video_entry *entry,
	const char *problem, const char *format, ...) __attribute__((format(printf, 5, 6)));

extern const char *const video_list_forms[5]; /* "kinetics", "ucf101", "hmdb51", "mit", "folders" */
struct video_list_options {
	const char *form;
	const char *lists; /* the directory with the lists */
	int64_t split;     /* ucf101, hmdb51: 1, 2, 3 */
	double validation; /* folders: share of each class */
	uint64_t seed;     /* folders: which */
};
/* STATUS_DATA with file and line where a list is no such list. Entries that cannot be used (a label without class, an id that comes
 * twice) are rows of `problems`; of an id that comes twice the first place and the last value stay. Nothing is looked for but lists. */
int video_list_read(const struct video_list_options *options, const struct video_options *data, struct video_annotation *annotation,
	struct video_problems *problems);

enum video_depth { VIDEO_NAMES, VIDEO_SOME, VIDEO_ALL };
/*
 * Looks at every video of the annotation below data->path, in all processors' threads: numbers of frames become the entries'
 * segments; `keep_numbers`: what stands there is compared and kept, but for videos without frames. Rows: missing, empty, gap, count,
 * unreadable, size; then for classes: no-training, no-validation. `depth`: names alone, three frames of each video decoded, or all.
 */
int video_check(const struct video_options *data, struct video_annotation *annotation, enum video_depth depth, bool keep_numbers,
	struct video_problems *problems);

/* ActivityNet's file with "fps" in each entry whose video file DATA/v_ID.mp4 (or .webm, .mkv, ...) is there: the mean rate that the
 * file states, to hundredths, as the original's tool has it. Rows: missing, unreadable. *count: entries, *found: files. */
int video_rates(const char *path, const char *data, struct text *json, struct video_problems *problems, size_t *count, size_t *found);

/* The JSON of an annotation, as the original's tools write it: one line, ", " and ": ", escapes for what is not ASCII. */
struct json_t;
int video_json_write(const struct json_t *root, struct text *out);
int video_annotation_write(const struct video_annotation *annotation, struct text *out);

#endif
