/*
 * The multi-resolution hash grid (Mueller et al. 2022; graph/hash_grid.h). A piece takes some hundred points through one level
 * after the other, so that a level's rows stay in the cache. The table's gradient is dealt out by levels and ranges of rows:
 * each row gets its points in their order, whatever the number of threads.
 */
#include "graph/hash_grid.h"

#include <string.h>

#include "cpu/device.h"

#define POINTS 1024 /* of a piece */

struct grid_job {
	const struct cpu_device *device;
	const struct call *call;
	const struct hash_grid *grid;
	struct hash_level levels[HASH_LEVELS];
	int active;
	int64_t points, ranges;
};

static struct grid_job grid_job(const struct cpu_device *device, const struct call *call)
{
	struct grid_job job = {
		.device = device, .call = call, .grid = &call->node->grid, .points = row_count(call->in[0])};
	const int wanted = call->scalars->active_levels;
	hash_grid_levels(job.grid, job.levels);
	job.active = wanted > 0 && wanted < job.grid->levels ? wanted : job.grid->levels;
	return job;
}

/* Room for a block of points. */
struct grid_block {
	float u[3][HASH_BLOCK], weight[8 * HASH_BLOCK], fraction[3][HASH_BLOCK];
	uint32_t row[8 * HASH_BLOCK];
};

/* Coordinates of `count` points from number `first` on, into [0, 1]; what is beyond 2^20 or not a number stays so. */
static void block_coordinates(
	const struct grid_job *job, struct grid_block *block, int64_t first, int64_t count)
{
	const float *x = (const float *)job->call->in_data[0] + 3 * first;
	const float low = (float)job->grid->low, extent = (float)(job->grid->high - job->grid->low);
	for (int axis = 0; axis < 3; axis++) {
		for (int64_t i = 0; i < count; i++)
			block->u[axis][i] = (x[3 * i + axis] - low) / extent;
		for (int64_t i = count; i < HASH_BLOCK; i++)
			block->u[axis][i] = 0;
	}
}

static struct hash_points block_points(
	const struct grid_job *job, struct grid_block *block, int level, int64_t count, bool fractions)
{
	struct hash_points points = {
		.level = &job->levels[level], .count = count, .row = block->row, .weight = block->weight};
	for (int axis = 0; axis < 3; axis++) {
		points.u[axis] = block->u[axis];
		points.fraction[axis] = fractions ? block->fraction[axis] : NULL;
	}
	return points;
}

static const float *level_table(const struct grid_job *job, int level)
{
	return (const float *)job->call->in_data[1] + job->levels[level].first * (size_t)job->grid->features;
}

/* ---- forward ---- */

static void grid_piece(void *context, int64_t i, int thread)
{
	const struct grid_job *job = context;
	const int features = job->grid->features;
	const int64_t width = job->grid->levels * features, end = smaller(job->points, (i + 1) * POINTS);
	struct grid_block block;
	(void)thread;
	for (int64_t first = i * POINTS; first < end; first += HASH_BLOCK) {
		const int64_t count = smaller(HASH_BLOCK, end - first);
		float *y = (float *)job->call->out_data[0] + first * width;
		block_coordinates(job, &block, first, count);
		for (int level = 0; level < job->active; level++) {
			const struct hash_points points = block_points(job, &block, level, count, false);
			job->device->kernels->hash_corners(&points);
			job->device->kernels->hash_read(
				&points, level_table(job, level), y + level * features, width, features);
		}
		for (int64_t p = 0; p < count; p++)
			memset(y + p * width + job->active * features, 0,
				(size_t)((job->grid->levels - job->active) * features) * sizeof *y);
	}
}

static double grid_work(const struct grid_job *job)
{
	return 64.0 * (double)job->points * job->active;
}

void cpu_hash_grid(const struct cpu_device *device, const struct call *call)
{
	struct grid_job job = grid_job(device, call);
	cpu_share(device, grid_work(&job), divide_up(job.points, POINTS), grid_piece, &job);
}

/* ---- rows that are read ---- */

struct visit_job {
	const struct grid_job *grid;
	cpu_visit_row *visit;
	void *context;
};

static void visit_level(void *context, int64_t level, int thread)
{
	const struct visit_job *job = context;
	const struct grid_job *grid = job->grid;
	const int64_t first_row = (int64_t)grid->levels[level].first;
	struct grid_block block;
	(void)thread;
	for (int64_t first = 0; first < grid->points; first += HASH_BLOCK) {
		const int64_t count = smaller(HASH_BLOCK, grid->points - first);
		const struct hash_points points = block_points(grid, &block, (int)level, count, false);
		block_coordinates(grid, &block, first, count);
		grid->device->kernels->hash_corners(&points);
		for (int64_t corner = 0; corner < 8; corner++)
			for (int64_t i = 0; i < count; i++)
				job->visit(job->context, first_row + block.row[corner * HASH_BLOCK + i]);
	}
}

void cpu_visit_hash_grid(
	const struct cpu_device *device, const struct call *call, cpu_visit_row *visit, void *context)
{
	const struct grid_job grid = grid_job(device, call);
	struct visit_job job = {&grid, visit, context};
	cpu_share(device, grid_work(&grid), grid.active, visit_level, &job);
}

/* ---- gradient of the table ---- */

/* Pieces: levels by ranges of their rows. */
static void table_piece(void *context, int64_t i, int thread)
{
	const struct grid_job *job = context;
	const int level = (int)(i / job->ranges), features = job->grid->features;
	const int64_t entries = job->levels[level].entries, width = job->grid->levels * features;
	const uint32_t first_row = (uint32_t)(entries * (i % job->ranges) / job->ranges),
		       end_row = (uint32_t)(entries * (i % job->ranges + 1) / job->ranges);
	const float *dy = job->call->in_data[2];
	float *table = (float *)job->call->out_data[1] + job->levels[level].first * (size_t)features;
	struct grid_block block;
	(void)thread;
	if (!accumulates(job->call, 1))
		memset(table + (size_t)first_row * (size_t)features, 0,
			(size_t)(end_row - first_row) * (size_t)features * sizeof *table);
	for (int64_t first = 0; first < job->points && level < job->active; first += HASH_BLOCK) {
		const int64_t count = smaller(HASH_BLOCK, job->points - first);
		const struct hash_points points = block_points(job, &block, level, count, false);
		block_coordinates(job, &block, first, count);
		job->device->kernels->hash_corners(&points);
		job->device->kernels->hash_add(&points, table, dy + first * width + level * features, width,
			first_row, end_row, features);
	}
}

/* ---- gradient of the points ---- */

/* Adds what a level gives to the gradient of the block's points. */
static void add_point_gradients(const struct grid_job *job, const struct grid_block *block, int level,
	int64_t first, int64_t count, double (*sum)[3])
{
	const int features = job->grid->features;
	const float *table = level_table(job, level);
	const float *dy = (const float *)job->call->in_data[2] + first * job->grid->levels * features +
			  level * features;
	const double scale = job->levels[level].scale / (job->grid->high - job->grid->low);
	for (int64_t i = 0; i < count; i++, dy += job->grid->levels * features) {
		for (int corner = 0; corner < 8; corner++) {
			const float *row =
				table + (size_t)block->row[corner * HASH_BLOCK + i] * (size_t)features;
			double product = 0;
			for (int f = 0; f < features; f++)
				product += (double)dy[f] * row[f];
			for (int axis = 0; axis < 3; axis++) {
				double weight = corner >> axis & 1 ? scale : -scale;
				for (int other = 0; other < 3; other++) {
					const double fraction = block->fraction[other][i];
					if (other != axis)
						weight *= corner >> other & 1 ? fraction : 1 - fraction;
				}
				sum[i][axis] += weight * product;
			}
		}
	}
}

static void point_piece(void *context, int64_t i, int thread)
{
	const struct grid_job *job = context;
	const int64_t first = i * HASH_BLOCK, count = smaller(HASH_BLOCK, job->points - first);
	float *dx = (float *)job->call->out_data[0] + 3 * first;
	double sum[HASH_BLOCK][3] = {{0}};
	struct grid_block block;
	(void)thread;
	block_coordinates(job, &block, first, count);
	for (int level = 0; level < job->active; level++) {
		const struct hash_points points = block_points(job, &block, level, count, true);
		job->device->kernels->hash_corners(&points);
		add_point_gradients(job, &block, level, first, count, sum);
	}
	for (int64_t k = 0; k < 3 * count; k++) {
		const float v = (float)sum[k / 3][k % 3];
		dx[k] = accumulates(job->call, 0) ? dx[k] + v : v;
	}
}

void cpu_hash_grid_backward(const struct cpu_device *device, const struct call *call)
{
	struct grid_job job = grid_job(device, call);
	job.ranges = divide_up(2 * device->threads, job.grid->levels);
	if (call->out_data[1])
		cpu_share(device, grid_work(&job) + (double)call->out[1]->elements,
			job.grid->levels * job.ranges, table_piece, &job);
	if (call->out_data[0])
		cpu_share(device, 2 * grid_work(&job), divide_up(job.points, HASH_BLOCK), point_piece, &job);
}
