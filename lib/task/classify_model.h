/*
 * The network of a classification run over the engine: training graphs for each batch, graphs for windows of each size
 * (spec/resnets3d.md section 3).
 */
#ifndef NIGHTSHIFT_TASK_CLASSIFY_MODEL_H
#define NIGHTSHIFT_TASK_CLASSIFY_MODEL_H

#include "config/config.h"
#include "graph/graph.h"
#include "model/resnet3d.h"
#include "task/classify_clip.h"

#define CLASSIFY_GRAPHS 64 /* different sizes and batches of one program */

struct classify_graph {
	int batch, height, width;
	bool training;
	struct graph *graph;
	int clips, target;            /* inputs: [N,T,H,W,C], int32 [N] */
	int logits;                   /* output [N,classes] */
	struct cross_entropy entropy; /* training */
};

struct classify_model {
	struct program *program;
	struct resnet3d network;
	int frames, windows; /* windows of one forward pass */
	double smoothing;
	bool prepared;
	struct classify_graph graph[CLASSIFY_GRAPHS];
	int graphs;
	float *input; /* of two passes over windows */
	size_t input_size;
};

/* Reads the model keys and makes an empty program on `device`. `labels`: how many the run has, for model.n_classes = 0. */
int classify_model_init(
	struct classify_model *model, const struct config *config, struct device *device, size_t labels);
void classify_model_release(struct classify_model *model);
/* Finds or adds a graph of square clips; *index into model->graph. */
int classify_model_train_graph(struct classify_model *model, int batch, int size, int *index);
/* The same for windows; after classify_model_prepare() it is planned at once. */
int classify_model_window_graph(struct classify_model *model, int batch, int height, int width, int *index);
/* After the first graphs were added and the update rule was given: plans and allocates. */
int classify_model_prepare(struct classify_model *model);

/* Logits of all windows of a sample: *logits [windows, classes], owned by the caller. Windows go through the network in passes of
 * model->windows, what is left over one by one; the next ones are read meanwhile. */
int classify_model_windows(struct classify_model *model, const struct classify_clip *clip,
	struct video_reader *reader, size_t sample, const struct classify_view *view, float **logits);

/* "resnet-18" and all else that another program needs to use the weights, as JSON. */
int classify_model_config_json(
	const struct classify_model *model, const struct classify_clip *clip, struct text *text);

#endif
