/* Clips: how one is drawn from random numbers, its state at a time, and its pixels. */
#include "data/scene_clips.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"
#include "data/scene_material.h"

#define PI 3.14159265358979323846

enum { MAXIMUM_DISTRACTORS = 2, MAXIMUM_VERTICES = 24, CONTRAST_TRIES = 30, GRAIN_BLOCK = 768 };

/* What changes in time. A rate is the change of the quantity from the middle of the clip to its end. */
enum change { CHANGE_ACROSS, CHANGE_DOWN, CHANGE_TURN, CHANGE_SIZE, CHANGE_OPACITY, CHANGES };

/* Lengths are in units of the picture's shorter side, from its centre, right and down; a turn is clockwise in radians, a size
 * a factor's logarithm. */
static const struct {
	double most;       /* rate of what is not the clip's class, either way */
	double slow, fast; /* rates of what is */
	double distractor; /* rate of a distractor, either way */
} rates[CHANGES] = {
	{0.02, 0.16, 0.3, 0.06},
	{0.02, 0.16, 0.3, 0.06},
	{0.1, 0.8, 1.6, 0.3},
	{0.05, 0.28, 0.45, 0.1},
	{0.04, 0.25, 0.35, 0.1},
};

static const char *const class_names[CLIP_CLASSES] = {"moving-right", "moving-left", "moving-down",
	"moving-up", "turning-clockwise", "turning-counterclockwise", "growing", "shrinking", "appearing",
	"vanishing"};

const char *clip_class_name(int class)
{
	return class_names[class];
}

struct object {
	int vertices;
	double vertex[MAXIMUM_VERTICES][2]; /* in a circle of radius 1 */
	struct material material;           /* in the object's own coordinates */
	double centre[2], radius, angle, opacity;
	double rate[CHANGES];
};

struct clip {
	struct material background;
	double pan[2];                                 /* of the background */
	struct object object[1 + MAXIMUM_DISTRACTORS]; /* the subject comes last */
	int objects;
	double ease; /* -1 to 1: more of the change in the middle, or at the ends */
	double slope[2], shake, flicker, grain;
};

/* ---- drawing a clip ---- */

static void draw_vertex(struct object *object, double turn, double radius)
{
	double *vertex = object->vertex[object->vertices++];

	vertex[0] = radius * exact_cos(2 * PI * turn);
	vertex[1] = radius * exact_sin(2 * PI * turn);
}

/* An ellipse, a bar or a regular polygon, a star, or a blob. */
static void draw_outline(struct dice *dice, struct object *object)
{
	int kind = dice_pick(dice, 4), corners = 3 + dice_pick(dice, 3);
	double narrow = dice_uniform(dice, 0.4, 0.8), notch = dice_uniform(dice, 0.35, 0.6);
	double rough[2 * 5];

	for (int i = 0; i < 2 * 5; i++)
		rough[i] = dice_uniform(dice, 0.4, 1);
	object->vertices = 0;
	if (kind == 0)
		corners = MAXIMUM_VERTICES;
	for (int i = 0; i < corners; i++) {
		draw_vertex(object, (double)i / corners, kind == 3 ? rough[2 * i] : 1);
		if (kind == 2)
			draw_vertex(object, (i + 0.5) / corners, notch);
		if (kind == 3)
			draw_vertex(object, (i + 0.5) / corners, rough[2 * i + 1]);
	}
	for (int i = 0; kind < 2 && i < object->vertices; i++)
		object->vertex[i][1] *= narrow;
}

/* Brings colours into a range: a subject is brighter than what is behind it. */
static void set_brightness(struct material *material, double low, double high)
{
	for (int i = 0; i < 2; i++)
		for (int c = 0; c < 3; c++)
			material->colour[i][c] = low + (high - low) * material->colour[i][c];
}

static double colour_distance(const double a[3], const double b[3])
{
	return fabs(a[0] - b[0]) + fabs(a[1] - b[1]) + fabs(a[2] - b[2]);
}

/* Two colours that show how it turns. */
static bool is_visible(const struct material *material)
{
	return material->kind != MATERIAL_SOLID &&
	       colour_distance(material->colour[0], material->colour[1]) > 0.8;
}

static void draw_object(struct dice *dice, struct object *object, double most)
{
	draw_outline(dice, object);
	object->material = material_draw(dice, 2);
	for (int i = 0; i < CONTRAST_TRIES && !is_visible(&object->material); i++)
		object->material = material_draw(dice, 2);
	set_brightness(&object->material, 0.35, 1);
	object->radius = dice_uniform(dice, 0.75, 1) * most;
	object->angle = dice_uniform(dice, 0, 2 * PI);
}

/* The numbers drawn do not depend on the class. */
static void draw_subject(struct dice *dice, struct object *object, enum change change)
{
	draw_object(dice, object, 0.3);
	object->opacity = 0.65;
	for (int i = 0; i < 2; i++)
		object->centre[i] = dice_uniform(dice, -0.2, 0.2);
	for (int i = 0; i < CHANGES; i++) {
		double aside = dice_uniform(dice, -rates[i].most, rates[i].most);
		double chosen = dice_uniform(dice, rates[i].slow, rates[i].fast);

		object->rate[i] = i == (int)change ? chosen : aside;
	}
}

static void draw_distractor(struct dice *dice, struct object *object, const double half[2])
{
	draw_object(dice, object, 0.1);
	object->opacity = dice_uniform(dice, 0.5, 0.9);
	for (int i = 0; i < 2; i++)
		object->centre[i] = dice_uniform(dice, -half[i], half[i]);
	for (int i = 0; i < CHANGES; i++)
		object->rate[i] = dice_uniform(dice, -rates[i].distractor, rates[i].distractor);
}

/* `half`: the picture's sides, halved. */
static void draw_clip(
	uint64_t seed, uint32_t index, enum change change, const double half[2], struct clip *clip)
{
	struct dice dice = {.random = random_stream(seed, "clip"), .scene = index};

	*clip = (struct clip){0};
	clip->background = material_draw(&dice, 0.6);
	set_brightness(&clip->background, 0, 0.45);
	clip->ease = dice_uniform(&dice, -0.6, 0.6);
	clip->shake = dice_uniform(&dice, 0, 0.006);
	clip->flicker = dice_uniform(&dice, 0, 0.06);
	clip->grain = dice_uniform(&dice, 0, 0.04);
	for (int i = 0; i < 2; i++) {
		clip->pan[i] = dice_uniform(&dice, -0.06, 0.06);
		clip->slope[i] = dice_uniform(&dice, -0.15, 0.15);
	}
	clip->objects = 1 + dice_pick(&dice, 1 + MAXIMUM_DISTRACTORS);
	draw_subject(&dice, &clip->object[clip->objects - 1], change);
	for (int i = 0; i < clip->objects - 1; i++)
		draw_distractor(&dice, &clip->object[i], half);
}

/* ---- its state at a time ---- */

/* An object at one time: how a place in the picture becomes one in the object's own coordinates. */
struct pose {
	double centre[2], sine, cosine; /* divided by the radius */
	double opacity;
};

struct moment {
	struct pose pose[1 + MAXIMUM_DISTRACTORS];
	double shift[2]; /* of the background */
	double light;
};

/* `time` is -1 at the first frame, 1 at the last. `frame` numbers what is drawn anew for each. */
static void draw_moment(const struct clip *clip, uint64_t seed, uint32_t index, uint32_t frame, double time,
	struct moment *moment)
{
	struct dice dice = {.random = random_stream(seed, "clip frame"), .scene = index, .next = 3 * frame};
	double eased = time + clip->ease * exact_sin(PI * time) / PI, shake[2];

	for (int i = 0; i < 2; i++) {
		shake[i] = dice_uniform(&dice, -clip->shake, clip->shake);
		moment->shift[i] = shake[i] + clip->pan[i] * time;
	}
	moment->light = 1 + dice_uniform(&dice, -clip->flicker, clip->flicker);
	for (int i = 0; i < clip->objects; i++) {
		const struct object *object = &clip->object[i];
		struct pose *pose = &moment->pose[i];
		double radius = object->radius * exact_exp(object->rate[CHANGE_SIZE] * eased);
		double angle = object->angle + object->rate[CHANGE_TURN] * eased;

		for (int k = 0; k < 2; k++)
			pose->centre[k] =
				object->centre[k] + object->rate[CHANGE_ACROSS + k] * eased + shake[k];
		pose->sine = exact_sin(angle) / radius;
		pose->cosine = exact_cos(angle) / radius;
		pose->opacity = object->opacity + object->rate[CHANGE_OPACITY] * eased;
		pose->opacity = fmin(fmax(pose->opacity, 0), 1);
	}
}

/* ---- pixels ---- */

/* By the parity of the edges to the right. */
static bool is_inside(const struct object *object, const double place[2])
{
	bool inside = false;

	if (place[0] * place[0] + place[1] * place[1] > 1)
		return false;
	for (int i = 0, k = object->vertices - 1; i < object->vertices; k = i++) {
		const double *a = object->vertex[i], *b = object->vertex[k];

		if ((a[1] > place[1]) != (b[1] > place[1]) &&
			place[0] < a[0] + (place[1] - a[1]) * (b[0] - a[0]) / (b[1] - a[1]))
			inside = !inside;
	}
	return inside;
}

static void mix_material(
	const struct material *material, const double place[3], double opacity, double colour[3])
{
	double share = material_blend(material, place);

	for (int c = 0; c < 3; c++) {
		double own =
			material->colour[0][c] + share * (material->colour[1][c] - material->colour[0][c]);

		colour[c] += opacity * (own - colour[c]);
	}
}

static void add_colour(
	const struct clip *clip, const struct moment *moment, double x, double y, double sum[3])
{
	double behind[3] = {x - moment->shift[0], y - moment->shift[1], 0}, colour[3] = {0};
	double light = moment->light + clip->slope[0] * x + clip->slope[1] * y;

	mix_material(&clip->background, behind, 1, colour);
	for (int i = 0; i < clip->objects; i++) {
		const struct pose *pose = &moment->pose[i];
		double right = x - pose->centre[0], down = y - pose->centre[1];
		double place[3] = {pose->cosine * right + pose->sine * down,
			pose->cosine * down - pose->sine * right, 0};

		if (is_inside(&clip->object[i], place))
			mix_material(&clip->object[i].material, place, pose->opacity, colour);
	}
	for (int c = 0; c < 3; c++)
		sum[c] += light * colour[c];
}

/* Values of a picture's row are `colour` (0 to 1) with grain, rounded to 8 bits. */
static void store(const struct clip *clip, uint64_t seed, uint32_t index, uint32_t frame, uint32_t first,
	const double *colour, int count, uint8_t *out)
{
	float grain[GRAIN_BLOCK];

	random_normal(random_stream(seed, "clip grain"), frame, index, first, grain, (size_t)count);
	for (int i = 0; i < count; i++) {
		double value = colour[i] + clip->grain * (double)grain[i];

		out[i] = (uint8_t)(fmin(fmax(value, 0), 1) * 255 + 0.5);
	}
}

static void render(const struct clip *clip, const struct moment *moment, uint64_t seed, uint32_t index,
	uint32_t frame, int height, int width, uint8_t *rgb)
{
	static const double places[4][2] = {
		{-0.375, 0.125}, {-0.125, -0.375}, {0.125, 0.375}, {0.375, -0.125}};
	double unit = 1.0 / (height < width ? height : width), colour[GRAIN_BLOCK];
	int pixels = height * width, waiting = 0;

	for (int i = 0; i < pixels; i++) {
		double sum[3] = {0};

		for (int k = 0; k < 4; k++)
			add_colour(clip, moment, (i % width + 0.5 - 0.5 * width + places[k][0]) * unit,
				(i / width + 0.5 - 0.5 * height + places[k][1]) * unit, sum);
		for (int c = 0; c < 3; c++)
			colour[waiting++] = sum[c] / 4;
		if (waiting == GRAIN_BLOCK || i == pixels - 1) {
			store(clip, seed, index, frame, (uint32_t)(3 * (i + 1) - waiting), colour, waiting,
				rgb + 3 * (i + 1) - waiting);
			waiting = 0;
		}
	}
}

void clip_render(
	uint64_t seed, uint32_t index, int class, int frame, int frames, int height, int width, uint8_t *rgb)
{
	int shorter = height < width ? height : width, shown = class % 2 ? frames - 1 - frame : frame;
	double half[2] = {0.5 * width / shorter, 0.5 * height / shorter};
	double time = frames > 1 ? (2.0 * shown - (frames - 1)) / (frames - 1) : 0;
	struct clip clip;
	struct moment moment;

	draw_clip(seed, index, (enum change)(class / 2), half, &clip);
	draw_moment(&clip, seed, index, (uint32_t)shown, time, &moment);
	render(&clip, &moment, seed, index, (uint32_t)shown, height, width, rgb);
}
