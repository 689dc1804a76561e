/* Textures: solid, checkered, striped, and two octaves of smooth noise. */
#include "data/scene_material.h"

#include <math.h>

double dice_uniform(struct dice *dice, double low, double high)
{
	return low + (high - low) * random_uniform(dice->random, dice->scene, 0, dice->next++);
}

int dice_pick(struct dice *dice, int count)
{
	return (int)random_below(dice->random, dice->scene, 0, dice->next++, (uint64_t)count);
}

struct material material_draw(struct dice *dice, double shrink)
{
	struct material material = {.kind = (enum material_kind)dice_pick(dice, MATERIAL_KINDS)};

	for (int i = 0; i < 2; i++)
		for (int c = 0; c < 3; c++)
			material.colour[i][c] = dice_uniform(dice, 0.15, 0.95);
	material.period = dice_uniform(dice, 0.25, 1) * shrink;
	for (int c = 0; c < 3; c++)
		material.phase[c] = dice_uniform(dice, 0, 2) * material.period;
	material.axis = dice_pick(dice, 2);
	material.lattice = (uint32_t)dice_pick(dice, 0x7fffffff);
	return material;
}

static double lattice_value(uint32_t lattice, const int64_t cell[3])
{
	uint64_t hash = lattice;

	for (int i = 0; i < 3; i++) {
		hash = (hash ^ (uint64_t)cell[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 29;
	}
	hash *= 0xbf58476d1ce4e5b9;
	return (double)(hash >> 11) * 0x1p-53;
}

/* Smoothly interpolated values of an integer lattice. */
static double noise(uint32_t lattice, const double place[3])
{
	double weight[3], sum = 0;
	int64_t cell[3];

	for (int i = 0; i < 3; i++) {
		double below = floor(place[i]), rest = place[i] - below;

		cell[i] = (int64_t)below;
		weight[i] = rest * rest * (3 - 2 * rest);
	}
	for (int corner = 0; corner < 8; corner++) {
		double product = 1;
		int64_t at[3];

		for (int i = 0; i < 3; i++) {
			int side = corner >> i & 1;

			at[i] = cell[i] + side;
			product *= side ? weight[i] : 1 - weight[i];
		}
		if (product > 0)
			sum += product * lattice_value(lattice, at);
	}
	return sum;
}

double material_blend(const struct material *material, const double place[3])
{
	double q[3], fine[3];
	int64_t parity = 0;

	for (int i = 0; i < 3; i++) {
		q[i] = (place[i] + material->phase[i]) / material->period;
		fine[i] = 2 * q[i];
		parity += (int64_t)floor(q[i]);
	}
	switch (material->kind) {
	case MATERIAL_CHECKER:
		return (double)(parity & 1);
	case MATERIAL_STRIPE:
		return (double)((int64_t)floor(q[material->axis]) & 1);
	case MATERIAL_NOISE:
		return (2 * noise(material->lattice, q) + noise(material->lattice + 1, fine)) / 3;
	default:
		return 0;
	}
}
