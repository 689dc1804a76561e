/* What synthetic scenes are drawn from: numbers by the counter-based generator, in order, and two-coloured textures. */
#ifndef NIGHTSHIFT_DATA_SCENE_MATERIAL_H
#define NIGHTSHIFT_DATA_SCENE_MATERIAL_H

#include <stdint.h>

#include "base/random.h"

struct dice {
	struct random random;
	uint32_t scene, next; /* the next number of this scene */
};
double dice_uniform(struct dice *dice, double low, double high);
int dice_pick(struct dice *dice, int count); /* 0 .. count-1 */

enum material_kind { MATERIAL_SOLID, MATERIAL_CHECKER, MATERIAL_STRIPE, MATERIAL_NOISE, MATERIAL_KINDS };

struct material {
	enum material_kind kind;
	double colour[2][3]; /* 0 to 1 */
	double period;       /* in the units of a place */
	double phase[3];
	int axis; /* stripes change along this texture coordinate */
	uint32_t lattice;
};
/* `shrink` is the scale of the period (0.25 to 1 times it). */
struct material material_draw(struct dice *dice, double shrink);
/* Share of the second colour at a texture place (a plane leaves the third coordinate 0). */
double material_blend(const struct material *material, const double place[3]);

#endif
