/* Rooms: how one is drawn from random numbers, and casting rays into it. */
#include "data/scenes.h"

#include <math.h>
#include <stdbool.h>

#include "base/random.h"
#include "data/scene_material.h"

enum { MAXIMUM_BOXES = 5, MAXIMUM_SPHERES = 3, PLACE_TRIES = 50 };

struct box {
	double centre[3], half[3];
	double sine, cosine; /* of the yaw */
	double eye[3];       /* the camera in the box's frame */
	struct material material;
};

struct sphere {
	double centre[3], radius;
	double eye[3]; /* the camera from the centre */
	struct material material;
};

struct scene {
	double size[3];
	double eye[3], forward[3], right[3], up[3];
	double yaw, half_tangent; /* tangent of half the horizontal field of view */
	double light[3];
	struct material room[3][2]; /* by axis and side: x, y: walls; z: floor, ceiling */
	struct box box[MAXIMUM_BOXES];
	struct sphere sphere[MAXIMUM_SPHERES];
	int boxes, spheres;
};

/* ---- drawing a room ---- */

static double dot(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void draw_room(struct dice *dice, struct scene *scene)
{
	struct material shared = material_draw(dice, 1);

	scene->size[0] = dice_uniform(dice, 3.5, 7);
	scene->size[1] = dice_uniform(dice, 3.5, 8);
	scene->size[2] = dice_uniform(dice, 2.4, 3.2);
	for (int axis = 0; axis < 3; axis++)
		for (int side = 0; side < 2; side++)
			scene->room[axis][side] = material_draw(dice, 1);
	for (int axis = 0; axis < 2; axis++)
		for (int side = 0; side < 2; side++)
			if (dice_uniform(dice, 0, 1) < 0.6)
				scene->room[axis][side] = shared;
	scene->room[2][1].kind = MATERIAL_SOLID;
	scene->light[0] = dice_uniform(dice, 0.2, 0.8) * scene->size[0];
	scene->light[1] = dice_uniform(dice, 0.1, 0.7) * scene->size[1];
	scene->light[2] = dice_uniform(dice, 0.75, 0.97) * scene->size[2];
}

static void draw_camera(struct dice *dice, struct scene *scene)
{
	double pitch, angle, ys, yc, ps, pc;

	scene->eye[0] = dice_uniform(dice, 0.15, 0.85) * scene->size[0];
	scene->eye[1] = dice_uniform(dice, 0.1, 0.5) * scene->size[1];
	scene->eye[2] = dice_uniform(dice, 1, 1.8);
	scene->yaw = dice_uniform(dice, -0.6, 0.6);
	pitch = dice_uniform(dice, -0.3, 0.05);
	angle = dice_uniform(dice, 60, 75) * (3.14159265358979323846 / 360); /* half of it, in radians */
	scene->half_tangent = exact_sin(angle) / exact_cos(angle);
	ys = exact_sin(scene->yaw), yc = exact_cos(scene->yaw);
	ps = exact_sin(pitch), pc = exact_cos(pitch);
	scene->forward[0] = ys * pc, scene->forward[1] = yc * pc, scene->forward[2] = ps;
	scene->right[0] = yc, scene->right[1] = -ys, scene->right[2] = 0;
	scene->up[0] = -ys * ps, scene->up[1] = -yc * ps, scene->up[2] = pc;
}

/* A place on the floor in front of the camera, inside the walls by 0.2 m; false when none was found. */
static bool draw_place(struct dice *dice, const struct scene *scene, double place[3])
{
	for (int i = 0; i < PLACE_TRIES; i++) {
		double distance = dice_uniform(dice, 1.3, 0.95 * scene->size[1] + 1);
		double bearing = scene->yaw + dice_uniform(dice, -0.6, 0.6);

		place[0] = scene->eye[0] + distance * exact_sin(bearing);
		place[1] = scene->eye[1] + distance * exact_cos(bearing);
		if (place[0] > 0.2 && place[0] < scene->size[0] - 0.2 && place[1] > 0.2 &&
			place[1] < scene->size[1] - 0.2)
			return true;
	}
	return false;
}

/* A world direction in the box's frame. */
static void into_box(const struct box *box, const double v[3], double local[3])
{
	local[0] = box->cosine * v[0] + box->sine * v[1];
	local[1] = box->cosine * v[1] - box->sine * v[0];
	local[2] = v[2];
}

static void draw_box(struct dice *dice, struct scene *scene)
{
	struct box *box = &scene->box[scene->boxes];
	double yaw, from[3];
	bool inside = true, placed;

	box->half[0] = dice_uniform(dice, 0.15, 0.6);
	box->half[1] = dice_uniform(dice, 0.15, 0.6);
	box->half[2] = dice_uniform(dice, 0.2, 1);
	yaw = dice_uniform(dice, 0, 3.14159265358979323846);
	box->sine = exact_sin(yaw);
	box->cosine = exact_cos(yaw);
	box->material = material_draw(dice, 0.6);
	placed = draw_place(dice, scene, box->centre);
	box->centre[2] = box->half[2];
	for (int i = 0; i < 3; i++)
		from[i] = scene->eye[i] - box->centre[i];
	into_box(box, from, box->eye);
	for (int i = 0; i < 3; i++)
		inside = inside && fabs(box->eye[i]) < box->half[i] + 0.25;
	scene->boxes += placed && !inside;
}

static void draw_sphere(struct dice *dice, struct scene *scene)
{
	struct sphere *sphere = &scene->sphere[scene->spheres];
	double near, radius = dice_uniform(dice, 0.15, 0.5);
	bool placed, floor = dice_uniform(dice, 0, 1) < 0.7;

	sphere->radius = radius;
	sphere->material = material_draw(dice, 0.6);
	placed = draw_place(dice, scene, sphere->centre);
	sphere->centre[2] = dice_uniform(dice, radius, scene->size[2] - radius);
	if (floor)
		sphere->centre[2] = radius;
	for (int i = 0; i < 3; i++)
		sphere->eye[i] = scene->eye[i] - sphere->centre[i];
	near = radius + 0.3;
	scene->spheres += placed && dot(sphere->eye, sphere->eye) > near * near;
}

static void draw_scene(uint64_t seed, uint32_t index, struct scene *scene)
{
	struct dice dice = {.random = random_stream(seed, "scene"), .scene = index};
	int boxes, spheres;

	*scene = (struct scene){0};
	draw_room(&dice, scene);
	draw_camera(&dice, scene);
	boxes = 2 + dice_pick(&dice, 4);
	spheres = 1 + dice_pick(&dice, 3);
	for (int i = 0; i < boxes; i++)
		draw_box(&dice, scene);
	for (int i = 0; i < spheres; i++)
		draw_sphere(&dice, scene);
}

/* ---- rays ---- */

struct hit {
	double depth;     /* along the camera's axis */
	double normal[3]; /* unit, world, against the ray */
	double place[3];  /* texture coordinates */
	const struct material *material;
};

static void plane_place(const double point[3], int axis, double place[3])
{
	place[0] = point[axis == 0];
	place[1] = point[axis == 2 ? 1 : 2];
	place[2] = 0;
}

/* The camera is inside, so the first plane in the direction of each axis counts. */
static void cast_room(const struct scene *scene, const double ray[3], struct hit *hit)
{
	double point[3];
	int axis = 0, side;

	hit->depth = INFINITY;
	for (int i = 0; i < 3; i++) {
		double depth = ((ray[i] > 0 ? scene->size[i] : 0) - scene->eye[i]) / ray[i];

		if (ray[i] != 0 && depth < hit->depth) {
			hit->depth = depth;
			axis = i;
		}
	}
	side = ray[axis] > 0;
	for (int i = 0; i < 3; i++) {
		point[i] = scene->eye[i] + hit->depth * ray[i];
		hit->normal[i] = i == axis ? (side ? -1 : 1) : 0;
	}
	plane_place(point, axis, hit->place);
	hit->material = &scene->room[axis][side];
}

static void cast_box(const struct box *box, const double ray[3], struct hit *hit)
{
	double local[3], point[3], enter = 0, leave = INFINITY, normal;
	int axis = -1;

	into_box(box, ray, local);
	for (int i = 0; i < 3; i++) {
		double side = local[i] > 0 ? box->half[i] : -box->half[i];
		double in = (-side - box->eye[i]) / local[i], out = (side - box->eye[i]) / local[i];

		if (local[i] == 0) {
			if (fabs(box->eye[i]) > box->half[i])
				return;
			continue;
		}
		if (in > enter) {
			enter = in;
			axis = i;
		}
		leave = out < leave ? out : leave;
	}
	if (axis < 0 || enter >= leave || enter >= hit->depth)
		return;
	hit->depth = enter;
	for (int i = 0; i < 3; i++)
		point[i] = box->eye[i] + enter * local[i];
	plane_place(point, axis, hit->place);
	normal = local[axis] > 0 ? -1 : 1;
	hit->normal[0] = axis == 0 ? normal * box->cosine : axis == 1 ? -normal * box->sine : 0;
	hit->normal[1] = axis == 0 ? normal * box->sine : axis == 1 ? normal * box->cosine : 0;
	hit->normal[2] = axis == 2 ? normal : 0;
	hit->material = &box->material;
}

static void cast_sphere(const struct sphere *sphere, const double ray[3], struct hit *hit)
{
	double a = dot(ray, ray), b = dot(ray, sphere->eye);
	double root = b * b - a * (dot(sphere->eye, sphere->eye) - sphere->radius * sphere->radius);
	double depth;

	if (root <= 0 || b >= 0)
		return;
	depth = (-b - sqrt(root)) / a;
	if (depth <= 0 || depth >= hit->depth)
		return;
	hit->depth = depth;
	for (int i = 0; i < 3; i++) {
		hit->place[i] = sphere->eye[i] + depth * ray[i];
		hit->normal[i] = hit->place[i] / sphere->radius;
	}
	hit->material = &sphere->material;
}

/* `across` and `along` are image coordinates in units of the focal length, from the centre, right and up. */
static void cast(const struct scene *scene, double across, double along, double ray[3], struct hit *hit)
{
	for (int i = 0; i < 3; i++)
		ray[i] = scene->forward[i] + across * scene->right[i] + along * scene->up[i];
	cast_room(scene, ray, hit);
	for (int i = 0; i < scene->boxes; i++)
		cast_box(&scene->box[i], ray, hit);
	for (int i = 0; i < scene->spheres; i++)
		cast_sphere(&scene->sphere[i], ray, hit);
}

static void add_colour(
	const struct scene *scene, const double ray[3], const struct hit *hit, double colour[3])
{
	double to_light[3], squared, facing, intensity, share = material_blend(hit->material, hit->place);

	for (int i = 0; i < 3; i++)
		to_light[i] = scene->light[i] - (scene->eye[i] + hit->depth * ray[i]);
	squared = dot(to_light, to_light);
	facing = squared > 0 ? dot(hit->normal, to_light) / sqrt(squared) : 0;
	intensity = 0.3 + 1.1 * (facing > 0 ? facing : 0) / (1 + 0.08 * squared);
	if (intensity > 1)
		intensity = 1;
	for (int c = 0; c < 3; c++)
		colour[c] += intensity *
			     (hit->material->colour[0][c] +
				     share * (hit->material->colour[1][c] - hit->material->colour[0][c]));
}

static void render_pixel(
	const struct scene *scene, double x, double y, double unit, uint8_t rgb[3], float *depth)
{
	static const double places[4][2] = {
		{-0.375, 0.125}, {-0.125, -0.375}, {0.125, 0.375}, {0.375, -0.125}};
	double ray[3], colour[3] = {0};
	struct hit hit;

	for (int i = 0; i < 4; i++) {
		cast(scene, (x + places[i][0]) * unit, -(y + places[i][1]) * unit, ray, &hit);
		add_colour(scene, ray, &hit, colour);
	}
	for (int c = 0; c < 3; c++)
		rgb[c] = (uint8_t)(colour[c] / 4 * 255 + 0.5);
	cast(scene, x * unit, -y * unit, ray, &hit);
	*depth = (float)hit.depth;
}

void scene_render(uint64_t seed, uint32_t index, int height, int width, uint8_t *rgb, float *depth)
{
	struct scene scene;
	double unit;

	draw_scene(seed, index, &scene);
	unit = scene.half_tangent / (0.5 * width);
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++, rgb += 3, depth++)
			render_pixel(&scene, x + 0.5 - 0.5 * width, y + 0.5 - 0.5 * height, unit, rgb, depth);
}
