/* Sizes of attention, and what its float32 and bfloat16 bodies have in common. */
#ifndef NIGHTSHIFT_CPU_ATTENTION_H
#define NIGHTSHIFT_CPU_ATTENTION_H

#include "cpu/device.h"

#define QUERIES 64 /* of a block */
#define KEYS 256

struct attention_shape {
	int64_t images, queries, keys, heads, width; /* width: channels of a head */
	int64_t row;                                 /* floats from token to token */
	float scale;
	bool causal; /* a query sees the keys up to its own */
};

struct attention_shape attention_shape(const struct call *call);
double attention_work(const struct attention_shape *shape);
/* Takes the scores [keys, queries] of keys behind their query away, of the keys from `key` on and the queries from `query` on. */
void attention_hide(const struct attention_shape *shape, float *scores, int64_t query, int64_t queries,
	int64_t key, int64_t keys);

/* Operands of the backward pass, each at one head of one image. */
struct attention_gradient {
	const float *q, *k, *v, *o, *lse, *d_o;
	float *dq, *dk, *dv;
	bool accumulate[3];
};
struct attention_gradient attention_gradient(
	const struct attention_shape *shape, const struct call *call, int64_t image, int64_t head);

/* bf16_attention.c */
size_t bf16_attention_workspace(const struct cpu_device *device, const struct attention_shape *shape);
void bf16_attention(
	const struct cpu_device *device, const struct attention_shape *shape, const struct call *call);
size_t bf16_attention_backward_workspace(
	const struct cpu_device *device, const struct attention_shape *shape);
void bf16_attention_backward(
	const struct cpu_device *device, const struct attention_shape *shape, const struct call *call);

#endif
