/* Inputs of the operation table and their values. */
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "graph/field.h"
#include "graph/internal.h"
#include "support/rows.h"

static int find_input(
	struct bench *bench, const char *name, enum tensor_type type, int dims, const int64_t *dim)
{
	int tensor;

	for (int i = 0; i < bench->inputs; i++) {
		if (!strcmp(bench->graph->tensors[bench->input[i]].name, name))
			return bench->input[i];
	}
	tensor = graph_input(bench->graph, name, type, dims, dim);
	bench->input[bench->inputs++] = tensor;
	return tensor;
}

int row_input(struct bench *bench, const char *name, int dims, const int64_t *dim)
{
	return find_input(bench, name, TENSOR_F32, dims, dim);
}

int row_integers(struct bench *bench, const char *name, int dims, const int64_t *dim)
{
	return find_input(bench, name, TENSOR_I32, dims, dim);
}

int row_variable(struct bench *bench, const char *name, int dims, const int64_t *dim)
{
	int tensor = row_input(bench, name, dims, dim);

	graph_want_gradient(bench->graph, tensor);
	return tensor;
}

int row_image(struct bench *bench, const char *name, const int *s)
{
	return row_variable(bench, name, 4, (int64_t[]){s[0], s[1], s[2], s[3]});
}

const char *row_name(struct bench *bench, const char *first, const char *second)
{
	for (size_t n = 0; n < bench->graph->node_count; n++) {
		if (!strcmp(bench->graph->nodes[n].name, first))
			return second;
	}
	return first;
}

static void fill_integers(struct random random, int32_t *values, size_t count, uint32_t bound)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (int32_t)random_below(random, 1, 0, (uint32_t)i, bound);
}

/* No two closer than 0.05, none closer to a multiple of it than 0.02. */
static void fill_distinct(struct random random, float *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = 0.05f * ((float)random_permute(random, 0, i, count) - (float)(count / 2)) + 0.02f;
}

/* Points of [-2, 2]^3 in the midst of the cells of grids of 4, 8 and 16 corners. */
static void fill_points(struct random random, float *values, size_t count)
{
	uint32_t drawn = 0;

	for (size_t i = 0; i < count; i++) {
		bool good;

		do {
			double u = random_uniform(random, 0, 0, drawn++);

			values[i] = (float)(3.8 * u - 1.9);
			good = true;
			for (double scale = 3; scale < 16; scale = 2 * scale + 1) {
				double p = scale * ((double)values[i] + 2) / 4 + 0.5;

				good = good && p - floor(p) > 0.05 && p - floor(p) < 0.95;
			}
		} while (!good);
	}
}

/* Rays that start near the origin, every fourth a miss. */
static void fill_rays(struct random random, float *values, size_t count)
{
	random_normal(random, 0, 0, 0, values, count);
	for (size_t i = 0; i < count / RAY_NUMBERS; i++) {
		float *ray = values + i * RAY_NUMBERS;
		float length = sqrtf(ray[3] * ray[3] + ray[4] * ray[4] + ray[5] * ray[5]);

		for (int axis = 3; axis < 6; axis++)
			ray[axis] /= length;
		ray[6] = 0.5f + 0.25f * fabsf(ray[6]);
		ray[7] = ray[6] + 2;
		ray[8] = i % 4 != 3;
	}
}

void row_fill(const char *name, void *data, size_t count)
{
	struct random random = random_stream(7, name);
	float *values = data;

	if (!strcmp(name, "class")) {
		fill_integers(random, data, count, 7);
		return;
	}
	if (!strcmp(name, "distinct")) {
		fill_distinct(random, data, count);
		return;
	}
	if (!strcmp(name, "points")) {
		fill_points(random, data, count);
		return;
	}
	if (!strcmp(name, "rays")) {
		fill_rays(random, data, count);
		return;
	}
	random_normal(random, 0, 0, 0, values, count);
	for (size_t i = 0; i < count; i++) {
		double u = random_uniform(random, 1, 0, (uint32_t)i);

		if (!strcmp(name, "mask"))
			values[i] = i == 0 || u < 0.7;
		else if (!strcmp(name, "t"))
			values[i] = (float)floor(1000 * u);
		else if (!strcmp(name, "share") || !strcmp(name, "density"))
			values[i] = 0.1f + fabsf(values[i]);
		else if (!strcmp(name, "far"))
			values[i] += 100;
		else if (!strcmp(name, "grid"))
			values[i] = 0.05f * roundf(20 * values[i]);
		else if (strstr(name, "norm.weight"))
			values[i] = 1 + 0.3f * values[i];
		else if (strstr(name, "running_var"))
			values[i] = 0.5f + (float)u;
	}
}
