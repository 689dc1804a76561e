/*
 * Weights from anywhere, in the order of the original project's state dict where the network is known, and written as its trainer
 * writes them: epoch, arch, state_dict, and of a run that trains by SGD the optimizer and a multistep scheduler (spec/resnets3d.md
 * section 1.8), so that it can go on from there.
 */
#ifndef NIGHTSHIFT_TASK_CONVERT_H
#define NIGHTSHIFT_TASK_CONVERT_H

#include "file/safetensors.h"
#include "run/checkpoint.h"
#include "run/run.h"

struct convert_source {
	struct checkpoint checkpoint;
	struct run run;            /* path NULL where the weights are not those of a run */
	struct safetensor *tensor; /* owned; the checkpoint's */
	size_t count;
	char arch[64]; /* "resnet-18"; "" where nothing says so */
	int64_t epoch; /* 0 where nothing says so */
};
/* `path`: a run, a checkpoint in or outside of one, a directory that diffusers wrote, a file. `step`: of a run, a number or "best";
 * NULL: the newest. */
int convert_open(const char *path, const char *step, struct convert_source *source);
void convert_release(struct convert_source *source);
/* Publishes a file of PyTorch. `arch`: NULL, the source's; "": the state dict alone. */
int convert_torch(const struct convert_source *source, const char *path, const char *arch);

#endif
