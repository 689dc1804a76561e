/*
 * Latent codecs: images to latents and back. The interface that the real autoencoder will use; the demo's codec is a fixed
 * orthonormal transform of 8x8 patches with 4 channels (spec/demo-depth.md).
 */
#ifndef NIGHTSHIFT_MODEL_LATENT_H
#define NIGHTSHIFT_MODEL_LATENT_H

#include <stddef.h>

struct latent_codec {
	const char *name;   /* "patch" */
	int channels;       /* 4 */
	int factor;         /* 8: pixels a latent cell, each way */
	/* image [height,width,3] float in [-1,1] (sides multiples of factor) -> latent [height/f,width/f,channels] */
	int (*encode)(const struct latent_codec *codec, const float *image, int height, int width, float *latent);
	/* latent -> image [height,width,3] in about [-1,1], not clipped; height and width in pixels */
	int (*decode)(const struct latent_codec *codec, const float *latent, int height, int width, float *image);
	void *state;
};
/* The codec of that name; NULL with a message. Static, not freed. */
const struct latent_codec *latent_codec_find(const char *name);

#endif
