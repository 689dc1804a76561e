/* Training of the classification task: what the loop asks for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "metric/classify.h"
#include "task/classify.h"
#include "task/classify_batch.h"
#include "task/classify_model.h"
#include "task/classify_picture.h"
#include "task/recipe.h"

#define TEXTS 2

enum { METRIC_LOSS, METRIC_CLIP_TOP1, METRIC_TOP1, METRIC_TOP5, METRICS };
static const char *const metric_names[METRICS] = {"loss", "clip_top1", "top1", "top5"};
static const char *const sum_names[] = {"accuracy"};

/* A group that is looked at: validation or pictures. */
struct view_set {
	struct classify_set set;
	struct video_reader *reader;
};

struct classify_training {
	const struct run *run;
	struct classify_clip clip;
	struct classify_model model;
	struct classify_batches *batches;
	int graph, last_graph; /* of training; of the last batch of an epoch */
	struct view_set *val, *vis;
	size_t vals, viss;
	int64_t view_clips;    /* clips that validation sees of a video; 0: all windows */
	int64_t picture_count; /* of each vis group */
	struct text text[TEXTS];
	struct checkpoint_text texts[TEXTS];
};

/* ---- one micro-batch ---- */

static int run_graph(
	const struct classify_graph *graph, const struct classify_micro *micro, struct loop_micro *result)
{
	int32_t *rank = memory_new((size_t)graph->batch, sizeof *rank);
	float loss = 0;
	int status = rank ? graph_write(graph->graph, graph->clips, micro->clips) : error_status();

	if (!status)
		status = graph_write(graph->graph, graph->target, micro->target);
	if (!status)
		status = graph_run(graph->graph);
	if (!status)
		status = graph_read(graph->graph, graph->entropy.loss, &loss);
	if (!status)
		status = graph_read(graph->graph, graph->entropy.rank, rank);
	for (int i = 0; i < graph->batch && !status; i++)
		result->sum[0] += rank[i] == 0;
	result->loss = (double)loss;
	free(rank);
	return status;
}

static int run_micro(void *state, int64_t step, int64_t number, struct loop_micro *result)
{
	struct classify_training *training = state;
	int64_t micros = recipe_micros(training->run->config);
	const struct classify_micro *micro;
	int status = classify_batches_next(
		training->batches, step * micros + number, &micro, &result->data_seconds);

	if (status)
		return status;
	result->skipped = micro->skipped;
	return run_graph(
		&training->model.graph[micro->count == config_integer(training->run->config, "batch.micro")
					       ? training->graph
					       : training->last_graph],
		micro, result);
}

static char *sample_names(void *state, int64_t step, int64_t number)
{
	struct classify_training *training = state;

	return classify_batches_names(
		training->batches, step * recipe_micros(training->run->config) + number);
}

/* ---- validation and pictures ---- */

static const char *val_name(void *state, size_t set)
{
	return ((struct classify_training *)state)->val[set].set.name;
}

static int64_t val_samples(void *state, size_t set)
{
	return (int64_t)classify_set_count(&((struct classify_training *)state)->val[set].set);
}

/* Logits of what is seen of a sample: [view->windows.count, classes], the caller's. */
static int look(struct classify_training *training, struct view_set *set, size_t sample, int64_t clips,
	struct classify_view *view, float **logits)
{
	int status = set->reader ? STATUS_OK : video_reader_new(set->set.videos, &set->reader);

	*logits = NULL;
	if (!status)
		status = classify_view_open(&training->clip, set->reader, &set->set, sample, clips, view);
	if (!status)
		status = classify_model_windows(
			&training->model, &training->clip, set->reader, sample, view, logits);
	return status;
}

/* Metrics of a sample from the logits of its windows, which become probabilities. */
static int measure(float *logits, size_t windows, size_t classes, size_t truth, double *metrics)
{
	float *mean = memory_new(classes, sizeof *mean);
	double loss = 0, right = 0;
	size_t rank;

	if (!mean)
		return error_status();
	for (size_t w = 0; w < windows; w++) {
		float *row = logits + w * classes;

		loss += classify_loss(row, classes, truth);
		right += classify_rank(row, classes, truth) == 0;
		classify_softmax(row, classes, row);
	}
	classify_mean(logits, windows, classes, mean);
	rank = classify_rank(mean, classes, truth);
	metrics[METRIC_LOSS] = loss / (double)windows;
	metrics[METRIC_CLIP_TOP1] = right / (double)windows;
	metrics[METRIC_TOP1] = rank < 1;
	metrics[METRIC_TOP5] = rank < 5;
	free(mean);
	return STATUS_OK;
}

static int validate(void *state, size_t number, int64_t index, double *metrics)
{
	struct classify_training *training = state;
	struct view_set *set = &training->val[number];
	int64_t class = classify_set_class(&set->set, (size_t)index);
	struct classify_view view;
	float *logits = NULL;
	int status;

	for (int m = 0; m < METRICS; m++)
		metrics[m] = NAN;
	if (class < 0) /* nothing to compare with */
		return STATUS_OK;
	status = look(training, set, (size_t)index, training->view_clips, &view, &logits);
	if (!status)
		status = measure(logits, (size_t)view.windows.count, (size_t)training->model.network.classes,
			(size_t) class, metrics);
	free(logits);
	return status;
}

static int draw(struct classify_training *training, struct view_set *set, size_t sample, struct image *image)
{
	size_t classes = (size_t)training->model.network.classes;
	struct classify_view view;
	float *logits = NULL;
	int status = look(training, set, sample, 1, &view, &logits);

	if (!status) {
		classify_softmax(logits, classes, logits);
		status = classify_picture(&training->clip, set->reader, &set->set, sample, &view,
			classify_batches_labels(training->batches), logits, classes, image);
	}
	free(logits);
	return status;
}

static int64_t pictures_of(const struct classify_training *training, const struct view_set *set)
{
	int64_t count = (int64_t)classify_set_count(&set->set);

	return count < training->picture_count ? count : training->picture_count;
}

static int draw_picture(void *state, int64_t index, struct image *image, char name[128])
{
	struct classify_training *training = state;
	struct view_set *set = training->vis;

	for (; index >= pictures_of(training, set); set++)
		index -= pictures_of(training, set);
	snprintf(name, 128, "%.64s-%05lld", set->set.name, (long long)index);
	return draw(training, set, (size_t)index, image);
}

/* ---- opening ---- */

static int open_views(
	struct classify_training *training, const char *list, struct view_set **sets, size_t *count)
{
	size_t groups = config_groups(training->run->config, list);
	int status = STATUS_OK;

	*sets = memory_new(groups, sizeof **sets);
	if (!*sets)
		return error_status();
	while (*count < groups && !status) {
		struct view_set *set = &(*sets)[*count];

		status = classify_set_open(&set->set, training->run, list, (*count)++,
			classify_batches_labels(training->batches));
	}
	return status;
}

/* Graphs for the windows of validation and pictures, so that their memory is planned with the rest. */
static int window_graphs(struct classify_training *training)
{
	struct classify_model *model = &training->model;
	int size = training->clip.size, index, status;

	if (training->view_clips && training->view_clips < model->windows)
		model->windows = (int)training->view_clips;
	status = classify_model_window_graph(model, model->windows, size, size, &index);
	return status ? status : classify_model_window_graph(model, 1, size, size, &index);
}

static int open_data(struct classify_training *training, const struct comm *comm)
{
	const struct config *config = training->run->config;
	int status = classify_batches_open(training->run, comm, &training->clip, &training->batches);

	if (!status && recipe_validates(config))
		status = open_views(training, "data.val", &training->val, &training->vals);
	for (size_t i = 0; i < training->vals && !status && comm->rank == 0; i++)
		classify_set_warn(&training->val[i].set);
	if (!status && recipe_draws(config))
		status = open_views(training, "data.vis", &training->vis, &training->viss);
	return status;
}

/* A last batch of another size has a graph of its own. */
static int train_graphs(struct classify_training *training, int batch)
{
	int64_t last = classify_batches_last_batch(training->batches),
		whole = batch * recipe_micros(training->run->config);
	int status =
		classify_model_train_graph(&training->model, batch, training->clip.size, &training->graph);

	training->last_graph = training->graph;
	if (!status && last != whole)
		status = classify_model_train_graph(
			&training->model, (int)last, training->clip.size, &training->last_graph);
	return status;
}

static int open_model(struct classify_training *training, struct device *device, const struct comm *comm)
{
	const struct config *config = training->run->config;
	size_t labels = classify_batches_labels(training->batches)->count;
	int status = classify_model_init(&training->model, config, device, labels);

	if (!status && comm->rank == 0 && (size_t)training->model.network.classes > labels)
		warn("model.n_classes = %d, but the data has %zu labels; 0 means as many as there are",
			training->model.network.classes, labels);
	if (!status)
		status = train_graphs(training, (int)config_integer(config, "batch.micro"));
	if (!status && training->vals + training->viss)
		status = window_graphs(training);
	if (!status)
		status = recipe_update_rule(config, comm, training->model.program);
	return status;
}

static int make_texts(struct classify_training *training)
{
	static const char *const paths[TEXTS] = {"model/config.json", CLASSIFY_LABELS_FILE};
	int status = classify_model_config_json(&training->model, &training->clip, &training->text[0]);

	classify_labels_write(classify_batches_labels(training->batches), &training->text[1]);
	if (!status)
		status = text_check(&training->text[1]);
	for (int i = 0; i < TEXTS && !status; i++)
		training->texts[i] = (struct checkpoint_text){
			.path = paths[i], .data = training->text[i].data, .bytes = training->text[i].length};
	return status;
}

static void describe(struct classify_training *training, struct task_training *out)
{
	struct loop_task *loop = &out->loop;
	const struct graph *graph = training->model.graph[training->graph].graph;

	loop->state = training;
	loop->program = training->model.program;
	recipe_loop(training->run->config, loop);
	loop->epoch_samples = classify_batches_samples(training->batches);
	loop->epoch_steps = classify_batches_epoch_steps(training->batches);
	loop->last_batch = classify_batches_last_batch(training->batches);
	loop->data_sum = classify_batches_sum(training->batches);
	loop->sums = 1;
	loop->sum_names = sum_names;
	loop->micro = run_micro;
	loop->samples = sample_names;
	loop->sets = training->vals;
	loop->set_name = val_name;
	loop->set_samples = val_samples;
	loop->metrics = METRICS;
	loop->metric_names = metric_names;
	loop->validate = validate;
	for (size_t i = 0; i < training->viss; i++)
		loop->pictures += pictures_of(training, &training->vis[i]);
	loop->picture = draw_picture;
	loop->model_stem = "model";
	loop->texts = training->texts;
	loop->text_count = TEXTS;
	out->flops = graph_flops(graph) * (double)loop->micros;
	out->traffic = graph_traffic(graph) * (double)loop->micros;
}

/* Missing files of every group that training reads. */
static int count_missing(struct classify_training *training, struct task_training *out)
{
	int status = classify_batches_missing(training->batches, &out->missing, &out->first_missing);

	out->missing_hint =
		"; data.train.NAME.layout says how videos are kept (frames, hdf5, video), and "
		"make-annotation -o NEW.json check ANNOTATION DATA writes an annotation without those "
		"that are missing";
	for (size_t i = 0; i < training->vals + training->viss && !status; i++) {
		const struct view_set *set =
			i < training->vals ? &training->val[i] : &training->vis[i - training->vals];
		size_t count = 0;
		char *first = NULL;

		status = video_set_missing(set->set.videos, &count, &first);
		task_missing_add(&out->missing, &out->first_missing, count, first);
	}
	return status;
}

int classify_training_open(
	const struct run *run, struct device *device, const struct comm *comm, struct task_training *out)
{
	struct classify_training *training = memory_new(1, sizeof *training);
	const struct config *config = run->config;
	int status;

	*out = (struct task_training){.state = training};
	if (!training)
		return error_status();
	training->run = run;
	training->picture_count = config_integer(config, "picture.count");
	if (strcmp(config_text(config, "validate.view"), "video") != 0)
		training->view_clips = config_integer(config, "validate.clips");
	status = classify_clip_init(&training->clip, config);
	if (!status)
		status = open_data(training, comm);
	if (!status)
		status = open_model(training, device, comm);
	if (!status)
		status = make_texts(training);
	if (!status)
		describe(training, out);
	if (!status && comm->rank == 0)
		status = count_missing(training, out);
	return status;
}

int classify_training_prepare(struct task_training *out)
{
	return classify_model_prepare(&((struct classify_training *)out->state)->model);
}

int classify_training_start(struct task_training *out, int64_t first)
{
	return classify_batches_start(
		((struct classify_training *)out->state)->batches, first * out->loop.micros);
}

static void close_views(struct view_set *sets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		video_reader_free(sets[i].reader);
		classify_set_close(&sets[i].set);
	}
	free(sets);
}

void classify_training_close(struct task_training *out)
{
	struct classify_training *training = out->state;

	free(out->first_missing);
	if (!training)
		return;
	classify_batches_close(training->batches);
	close_views(training->val, training->vals);
	close_views(training->vis, training->viss);
	for (int i = 0; i < TEXTS; i++)
		text_release(&training->text[i]);
	classify_model_release(&training->model);
	free(training);
	*out = (struct task_training){0};
}
