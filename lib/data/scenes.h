/*
 * Synthetic rooms of textured boxes and spheres with exact z-depth (spec/demo-depth.md): the same bytes on
 * every machine for one seed (counter-based randomness, arithmetic without contraction, own sine and cosine).
 *
 * World: x right, y into the room, z up, metres; the room spans 0 to its size. A pixel's colour is the mean
 * of four rays at fixed places in the pixel, its depth is that of the ray through its centre: the distance
 * along the camera's axis, not along the ray.
 */
#ifndef NIGHTSHIFT_DATA_SCENES_H
#define NIGHTSHIFT_DATA_SCENES_H

#include <stdint.h>

/* Renders scene `index` of `seed`: rgb [height,width,3] 8-bit, depth [height,width] metres. */
void scene_render(uint64_t seed, uint32_t index, int height, int width, uint8_t *rgb, float *depth);

#endif
