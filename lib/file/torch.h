/*
 * PyTorch's checkpoints (spec/resnets3d.md sections 1.8, 10.1, 10.2): state dicts, alone or as `state_dict`, `model_state_dict` or
 * `model` of a dict, in zip form (1.6 and later) and in the legacy form. Nothing is executed (file/pickle.h).
 *
 * Tensors come as those of a safetensors file: named, sorted, contiguous. Where all names begin with "module." (saved from a
 * parallel wrapper) it is taken off.
 */
#ifndef NIGHTSHIFT_FILE_TORCH_H
#define NIGHTSHIFT_FILE_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "file/safetensors.h"

struct torch_file {
	struct safetensors weights;
	bool stripped; /* of "module." */
	/* What else the dict holds as plain values, a line each: "epoch<TAB>10", "optimizer.param_groups.0.lr<TAB>0.1", ...; what
	 * is no number, text or list of numbers is left out. */
	struct text plain;
};
/* Whether the first bytes are those of a zip archive or of a pickle. */
bool torch_is(const void *data, size_t bytes);
/* STATUS_DATA: damaged, hostile, no state dict, or tensors of types that are not supported. On failure *file is empty. */
int torch_read(const char *path, struct torch_file *file);
/* `data` is from malloc and taken over in every case. */
int torch_take(const char *name, void *data, size_t bytes, struct torch_file *file);
void torch_release(struct torch_file *file);

/* What 3D-ResNets' training puts beside the weights. */
struct torch_sgd {
	double rate, initial_rate, momentum, dampening, weight_decay;
	bool nesterov;
	const bool *parameter; /* one flag a tensor: trained, and so one of the optimizer's numbers */
	const struct safetensor *const
		*buffer; /* one a tensor: its momentum, or NULL where there is none yet */
};
struct torch_multistep {          /* its scheduler, after `steps` epochs */
	const int64_t *milestone; /* ascending, one as often as it counts */
	size_t milestones;
	double factor, initial_rate, rate;
	int64_t steps;
};
struct torch_content {
	const struct safetensor *tensor; /* in the order of the state dict */
	size_t count;
	const char *arch; /* NULL: the file is the state dict alone, and nothing below is written */
	int64_t epoch;
	const struct torch_sgd *sgd;             /* or NULL */
	const struct torch_multistep *multistep; /* or NULL */
};
/* Publishes a file in zip form that torch.load() takes with weights_only=True. Equal content gives equal bytes. Elements of types
 * that PyTorch's storages have not (U16, U32, U64) are STATUS_DATA. */
int torch_publish(const char *path, const struct torch_content *content);

#endif
