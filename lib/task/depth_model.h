/*
 * The depth network of Marigold over the engine: U-Net, noise schedule, latent codec and text condition, built from the
 * configuration; training graphs and prediction graphs for each image size (spec/marigold.md sections 0, 5, 6, 7).
 */
#ifndef NIGHTSHIFT_TASK_DEPTH_MODEL_H
#define NIGHTSHIFT_TASK_DEPTH_MODEL_H

#include <stdint.h>
#include "base/random.h"
#include "config/config.h"
#include "graph/graph.h"
#include "model/diffusion.h"
#include "model/latent.h"
#include "model/unet.h"

#define DEPTH_SIZES 32 /* different image sizes of one program */
#define DEPTH_TOKENS 2 /* of the text condition: the empty prompt */

struct depth_graph {
	int height, width, batch; /* pixels, multiples of the codec's factor */
	struct graph *graph;
	int rgb, noisy, t, context; /* inputs: latents [N,h,w,4] twice, [N], [N,2,C] */
	int target, mask, loss;     /* training: [N,h,w,4], [N,h,w], [1]; loss is -1 in prediction graphs */
	int prediction;             /* output [N,h,w,4] */
};

struct depth_model {
	struct program *program;
	struct unet unet;
	struct diffusion diffusion;
	const struct latent_codec *codec;
	float *context; /* [2, context_width] */
	struct depth_graph graph[2 * DEPTH_SIZES];
	int graphs;
	float *scratch; /* for prediction, sized by depth_model_prepare() */
};

/* Reads the model keys and makes an empty program on `device`. */
int depth_model_init(struct depth_model *model, const struct config *config, struct device *device);
void depth_model_release(struct depth_model *model);
/* Finds or adds a graph; *index into model->graph. */
int depth_model_train_graph(struct depth_model *model, int batch, int height, int width, int *index);
int depth_model_predict_graph(struct depth_model *model, int height, int width, int *index);
/* After all graphs were added and the update rule was given: plans and allocates. */
int depth_model_prepare(struct depth_model *model);
/* One prediction at the graph's size: rgb [height,width,3] in [-1,1] -> depth [height,width] in [0,1] (0 near), by `steps` DDIM
 * steps from noise (stream `noise`, sample number `sample`). */
int depth_model_predict(struct depth_model *model, int index, const float *rgb, int steps,
	struct random noise, uint32_t sample, float *depth);

#endif
