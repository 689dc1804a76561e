/*
 * Synthetic clips of ten classes that only time tells apart: the same pixels on every machine for one seed (counter-based
 * randomness, arithmetic without contraction, own sine and exponential).
 *
 * A clip shows a bright textured subject of random shape and up to two smaller distractors before a darker textured
 * background, all of which drift, turn and scale a little, under a hand-held camera, flickering light and grain. Its class is
 * what the subject does: moving to one of four sides, turning one of two ways, growing or shrinking, appearing or vanishing.
 *
 * What a single frame shows says little about the class, by construction: clips of one seed and number that differ in class
 * have the same state in the middle of their time (the same middle frame, where their number of frames is odd), and classes
 * come in pairs of which one is exactly the other played backwards.
 */
#ifndef NIGHTSHIFT_DATA_SCENE_CLIPS_H
#define NIGHTSHIFT_DATA_SCENE_CLIPS_H

#include <stdint.h>

enum { CLIP_CLASSES = 10 };
/* Classes 2k and 2k+1 are each other's reversal. */
const char *clip_class_name(int class);

/* Renders frame `frame` of 0 .. frames-1 of clip `index` of `seed` as if it were of `class`: rgb [height,width,3]. */
void clip_render(uint64_t seed, uint32_t index, int class, int frame, int frames, int height, int width,
	uint8_t *rgb);

#endif
