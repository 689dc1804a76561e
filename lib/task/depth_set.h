/*
 * A data group of a depth run: the dataset where it lies on this host, and the size at which the network sees it.
 *
 * That size is the group's `size`, else the size of its first sample, with sides rounded up to multiples of the codec's factor.
 * An image of the group that has other sides is resized to it (anti-aliased bilinear) and its prediction resized back.
 */
#ifndef NIGHTSHIFT_TASK_DEPTH_SET_H
#define NIGHTSHIFT_TASK_DEPTH_SET_H

#include "data/depth.h"
#include "run/run.h"
#include "task/depth_model.h"

struct depth_set {
	const char *name; /* DATASET, borrowed from the configuration */
	struct depth_dataset *data;
	int height, width; /* of images before padding: `size`, or the first sample's */
	bool resize;       /* `size` was given */
	int graph;         /* prediction graph in the model; -1 until depth_set_graph() */
	double weight;
};

/* Opens group `i` of `list` ("data.train", ...): the staged copy where there is one, else the path itself. A staged copy is
 * held while the process lives. */
int depth_set_open(struct depth_set *set, const struct run *run, const char *list, size_t i, bool rgb_only);
void depth_set_close(struct depth_set *set);
/* Options as configured, for programs that open the data themselves (eval); `path` (owned by the caller) is where it lies. */
int depth_set_options(
	const struct run *run, const char *list, size_t i, struct depth_options *options, char **path);
/* Adds the prediction graph of its size. */
int depth_set_graph(struct depth_set *set, struct depth_model *model);
/* Predicts one image of the set (rgb 8-bit [height,width,3] of any size) into depth [height,width] in [0,1]. */
int depth_set_predict(const struct depth_set *set, struct depth_model *model,
	const struct depth_sample *sample, int steps, uint64_t seed, uint32_t number, float *depth);

#endif
