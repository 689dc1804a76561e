/* Lists of Kinetics, UCF101, HMDB51 and Moments in Time, and plain directories. */
#include "data/video_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/video_csv.h"
#include "data/video_set.h"

const char *const video_list_forms[5] = {"kinetics", "ucf101", "hmdb51", "mit", "folders"};

enum { TRAINING, VALIDATION, TESTING };

struct list {
	const struct video_list_options *options;
	const struct video_options *data;
	struct video_annotation *annotation;
	struct video_problems *problems;
};

void video_problem(struct video_problems *problems, const struct video_annotation *annotation,
	const struct video_entry *entry, const char *problem, const char *format, ...)
{
	struct text *rows = &problems->rows;
	char detail[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(detail, sizeof detail, format, arguments);
	va_end(arguments);
	text_format(rows, "%s\t%s\t", problem,
		entry && entry->subset >= 0 ? video_subset_names[entry->subset] : "-");
	text_field(rows, entry && entry->label >= 0 ? annotation->labels.name[entry->label] : "-");
	text_add(rows, "\t");
	text_field(rows, entry ? entry->id : "-");
	text_add(rows, "\t");
	text_field(rows, detail);
	text_add(rows, "\n");
	problems->count++;
}

/* ---- shared ---- */

/* -1: not there. Lists have at most some hundred classes. */
static int64_t find_label(const struct list *list, const char *name)
{
	const struct names *labels = &list->annotation->labels;

	for (size_t i = 0; i < labels->count; i++)
		if (!strcmp(labels->name[i], name))
			return (int64_t)i;
	return -1;
}

/* The name without directories and last suffix; owned by the caller. */
static char *stem_of(const char *path)
{
	char *stem = memory_text(path_base(path)), *dot = stem ? strrchr(stem, '.') : NULL;

	if (dot && dot > stem)
		*dot = 0;
	return stem;
}

/* An entry of a known class; without one it is a problem and left out. `label` NULL: testing. */
static int add(struct list *list, int subset, const char *id, const char *label)
{
	int64_t class = label ? find_label(list, label) : -1;
	struct video_entry *entry, unknown = {.id = (char *)(uintptr_t)id, .subset = subset, .label = -1};

	if (label && class < 0) {
		video_problem(list->problems, list->annotation, &unknown, "label",
			"the class \"%s\" is not among the classes; left out", label);
		return STATUS_OK;
	}
	entry = video_annotation_add(list->annotation, id);
	if (!entry)
		return error_status();
	entry->subset = subset;
	entry->label = class;
	return STATUS_OK;
}

static int add_file(struct list *list, int subset, const char *path, const char *label)
{
	char *id = stem_of(path);
	int status = id ? add(list, subset, id, label) : error_status();

	free(id);
	return status;
}

/* Keeps those that are the first of their id. */
static void keep_first(
	struct video_annotation *annotation, const struct video_index *index, const size_t *first)
{
	size_t kept = 0;

	for (size_t i = 0; i < annotation->count; i++) {
		struct video_entry *entry = &annotation->entry[i];

		if (first[video_index_find(index, entry->id)] != i)
			free(entry->id);
		else
			annotation->entry[kept++] = *entry;
	}
	annotation->count = kept;
}

static const char *id_of(const void *annotation, size_t i)
{
	return ((const struct video_annotation *)annotation)->entry[i].id;
}

/* Of an id that comes twice the first place keeps the last value. */
static int merge_twins(struct list *list)
{
	struct video_annotation *annotation = list->annotation;
	struct video_index index = {0};
	size_t *first = memory_new(annotation->count, sizeof *first); /* by last place */
	int status = first ? video_index_init(&index, annotation->count, id_of, annotation) : error_status();

	for (size_t i = annotation->count; !status && i-- > 0;)
		first[video_index_find(&index, annotation->entry[i].id)] = i;
	for (size_t i = 0; !status && i < annotation->count; i++) {
		struct video_entry *entry = &annotation->entry[i];
		size_t last = (size_t)video_index_find(&index, entry->id);

		if (last == i || first[last] != i)
			continue;
		video_problem(list->problems, annotation, entry, "duplicate",
			"listed again as %s; the last row counts",
			video_subset_names[annotation->entry[last].subset]);
		entry->subset = annotation->entry[last].subset;
		entry->label = annotation->entry[last].label;
	}
	if (!status)
		keep_first(annotation, &index, first);
	video_index_release(&index);
	free(first);
	return status;
}

static char *list_path(const struct list *list, const char *format, int64_t split)
{
	struct text name = {0};
	char *path;

	text_format(&name, "%s/", list->options->lists);
	for (const char *c = format; *c; c++)
		if (*c == '#')
			text_format(&name, "%lld", (long long)split);
		else
			text_append(&name, c, 1);
	path = text_take(&name);
	return path;
}

/* ---- kinetics ---- */

/* The one file of the directory whose name ends so; NULL with or, where there is none, without a message. */
static char *find_list(const struct list *list, const char *const *endings, int *status)
{
	struct names names = {0};
	const char *found = NULL;
	char *path = NULL;

	*status = file_list(list->options->lists, &names);
	for (size_t i = 0; !*status && i < names.count; i++)
		for (int k = 0; endings[k]; k++) {
			if (!text_ends(names.name[i], endings[k]) || names.name[i][0] == '.')
				continue;
			if (found)
				*status = error_set(STATUS_DATA,
					"%s: %s and %s: which is meant? (keep one of them there)",
					list->options->lists, found, names.name[i]);
			found = names.name[i];
		}
	if (!*status && found && !(path = path_join(list->options->lists, found)))
		*status = error_status();
	names_release(&names);
	return path;
}

static int kinetics_row(struct list *list, int subset, const struct video_csv *csv)
{
	const char *label = video_csv_field(csv, "label"), *video = video_csv_field(csv, "youtube_id");
	const char *start = video_csv_field(csv, "time_start"), *end = video_csv_field(csv, "time_end");
	int64_t from, to;
	struct text id = {0};
	int status = STATUS_OK;

	if (!video || !start || !end || (!label && subset != TESTING))
		return error_set(
			STATUS_DATA, "a column of label, youtube_id, time_start, time_end is missing");
	if (!*video || !text_to_int64(start, &from) || !text_to_int64(end, &to) || from < 0 || to < 0)
		return error_set(STATUS_DATA,
			"time_start and time_end must be whole seconds, and youtube_id not empty");
	if (subset == TRAINING && find_label(list, label) < 0)
		status = names_add(&list->annotation->labels, label);
	text_format(&id, "%s_%06lld_%06lld", video, (long long)from, (long long)to);
	if (!status && !(status = text_check(&id)))
		status = add(list, subset, id.data, subset == TESTING ? NULL : label);
	text_release(&id);
	return status;
}

static int each_row(struct list *list, const char *path, int subset, char separator, bool header,
	int (*row)(struct list *list, int subset, const struct video_csv *csv))
{
	struct video_csv csv;
	bool more = true;
	int status = video_csv_open(&csv, path, separator, header);

	while (!status && !(status = video_csv_next(&csv, &more)) && more)
		if (row(list, subset, &csv))
			status = error_prefix("%s:%zu", path, csv.line);
	video_csv_close(&csv);
	return status;
}

static int read_kinetics(struct list *list)
{
	static const char *const endings[3][4] = {
		{"train.csv"}, {"val.csv", "validate.csv", "validation.csv"}, {"test.csv"}};
	int status = STATUS_OK;

	for (int subset = TRAINING; !status && subset <= TESTING; subset++) {
		char *path = find_list(list, endings[subset], &status);

		if (path)
			status = each_row(list, path, subset, ',', true, kinetics_row);
		else if (!status && subset != TESTING)
			status = error_set(STATUS_NO_INPUT, "%s: no list *%s there", list->options->lists,
				endings[subset][0]);
		free(path);
	}
	return status;
}

/* ---- ucf101 ---- */

static int class_row(struct list *list, int subset, const struct video_csv *csv)
{
	char *name = strchr(csv->field[0], ' ');

	(void)subset;
	if (!name || !name[1])
		return error_set(STATUS_DATA, "\"number name\" is expected");
	return names_add(&list->annotation->labels, name + 1);
}

static int ucf_row(struct list *list, int subset, const struct video_csv *csv)
{
	char *line = csv->field[0], *slash = strchr(line, '/'), *blank = strchr(line, ' ');

	if (!slash || (blank && blank < slash))
		return error_set(STATUS_DATA, "\"Class/file.avi\" is expected");
	if (blank)
		*blank = 0;
	*slash = 0;
	return add_file(list, subset, slash + 1, line);
}

static int read_ucf101(struct list *list)
{
	static const char *const names[3] = {"classInd.txt", "trainlist0#.txt", "testlist0#.txt"};
	int status = STATUS_OK;

	for (int i = 0; !status && i < 3; i++) {
		char *path = list_path(list, names[i], list->options->split);

		status = path ? each_row(list, path, i - 1, 0, false, i ? ucf_row : class_row)
			      : error_status();
		free(path);
	}
	return status;
}

/* ---- hmdb51 ---- */

static int hmdb_row(struct list *list, int label, const struct video_csv *csv)
{
	char *line = csv->field[0], *end = line + strlen(line), *mark;

	while (end > line && strchr(" \t\r", end[-1]))
		*--end = 0;
	mark = strrchr(line, ' ');
	if (!mark || mark[2] || !strchr("012", mark[1]))
		return error_set(STATUS_DATA, "\"file.avi 0\" (or 1, 2) is expected");
	if (mark[1] == '0')
		return STATUS_OK;
	*mark = 0;
	return add_file(
		list, mark[1] == '1' ? TRAINING : VALIDATION, line, list->annotation->labels.name[label]);
}

static int read_hmdb51(struct list *list)
{
	struct names *labels = &list->annotation->labels, names = {0};
	struct text ending = {0};
	int status = file_list(list->options->lists, &names);

	text_format(&ending, "_test_split%lld.txt", (long long)list->options->split);
	if (!status)
		status = text_check(&ending);
	for (size_t i = 0; !status && i < names.count; i++) {
		char *name = names.name[i];

		if (name[0] == '.' || !text_ends(name, ending.data) || strlen(name) == ending.length)
			continue;
		name[strlen(name) - ending.length] = 0;
		status = names_add(labels, name);
	}
	if (!status && !labels->count)
		status = error_set(
			STATUS_NO_INPUT, "%s: no list CLASS%s there", list->options->lists, ending.data);
	if (!status)
		names_sort(labels);
	for (size_t i = 0; !status && i < labels->count; i++) {
		struct text path = {0};

		text_format(&path, "%s/%s%s", list->options->lists, labels->name[i], ending.data);
		status = text_check(&path);
		if (!status)
			status = each_row(list, path.data, (int)i, 0, false, hmdb_row);
		text_release(&path);
	}
	names_release(&names);
	text_release(&ending);
	return status;
}

/* ---- mit ---- */

static int category_row(struct list *list, int subset, const struct video_csv *csv)
{
	(void)subset;
	return names_add(&list->annotation->labels, csv->field[0]);
}

static int mit_row(struct list *list, int subset, const struct video_csv *csv)
{
	if (subset != TESTING && csv->count < 2)
		return error_set(STATUS_DATA, "\"class/file.mp4,class\" is expected");
	return add_file(list, subset, csv->field[0], subset == TESTING ? NULL : csv->field[1]);
}

static int read_mit(struct list *list)
{
	static const char *const names[4] = {
		"moments_categories.txt", "trainingSet.csv", "validationSet.csv", "testingSet.csv"};
	int status = STATUS_OK;

	for (int i = 0; !status && i < 4; i++) {
		char *path = list_path(list, names[i], 0);

		if (!path)
			status = error_status();
		else if (i < 3 || file_exists(path))
			status = each_row(list, path, i - 1, ',', false, i ? mit_row : category_row);
		free(path);
	}
	return status;
}

/* ---- folders ---- */

/* The share of each class whose numbers, shuffled by the seed, come first. */
static int read_folders(struct list *list)
{
	struct video_options options = *list->data;
	struct random shuffle = random_stream(list->options->seed, "folders");
	struct video_set *set;
	int status;

	options.annotation = options.subset = NULL;
	status = video_set_open(&options, &set);
	if (status)
		return status;
	for (size_t i = 0; !status && i < video_set_label_count(set); i++)
		status = names_add(&list->annotation->labels, video_set_label(set, i));
	for (size_t i = 0, start = 0; !status && i < video_set_count(set); i++) {
		const struct video_sample *sample = video_set_sample(set, i);
		size_t end = start;

		while (end < video_set_count(set) && video_set_sample(set, end)->label == sample->label)
			end++;
		for (size_t k = start; !status && k < end; k++) {
			uint64_t place =
				random_permute(shuffle, (uint64_t)sample->label, k - start, end - start);
			bool held = (double)place < list->options->validation * (double)(end - start);

			status = add(list, held ? VALIDATION : TRAINING, video_set_sample(set, k)->id,
				sample->label < 0 ? NULL : video_set_label(set, (size_t)sample->label));
		}
		start = end;
		i = end - 1;
	}
	video_set_close(set);
	return status;
}

int video_list_read(const struct video_list_options *options, const struct video_options *data,
	struct video_annotation *annotation, struct video_problems *problems)
{
	static int (*const readers[5])(struct list * list) = {
		read_kinetics, read_ucf101, read_hmdb51, read_mit, read_folders};
	struct list list = {options, data, annotation, problems};
	int status = STATUS_USAGE;

	*annotation = (struct video_annotation){0};
	for (int i = 0; i < 5; i++)
		if (!strcmp(options->form, video_list_forms[i]))
			status = readers[i](&list);
	if (!status)
		status = merge_twins(&list);
	if (!status && !annotation->count)
		status = error_set(STATUS_DATA, "%s: the lists name no videos", options->lists);
	if (status)
		video_annotation_release(annotation);
	return status;
}
