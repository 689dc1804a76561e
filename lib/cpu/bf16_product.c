/*
 * Matrix products in bfloat16. Many rows: b is packed once, then a piece rounds a block of rows and multiplies it by all panels.
 * Few: a is rounded once, then a piece packs a group of panels, whose rows of b lie side by side, and multiplies all blocks by them
 * while they are in the cache.
 */
#include "cpu/bf16_product.h"

#include <string.h>

#define ROWS 128 /* of a block */
#define PANEL_GROUP 4
#define ENOUGH_BLOCKS 8 /* many, from here on */

void bf16_pack_step(const struct bf16 *unit, const struct bf16_panels *p, int64_t panel, int64_t step)
{
	const int64_t first = step * BF16_STEP, column = panel * BF16_COLUMNS;
	const int terms = (int)smaller(BF16_STEP, p->depth - first),
		  columns = (int)smaller(BF16_COLUMNS, p->columns - column);
	const float *from = p->b + first * p->b_step + column * p->b_column;
	uint16_t *to = p->to + panel * p->panel + step * BF16_STEP_SIZE;
	const float *line[BF16_STEP];
	if (p->b_column == 1) {
		for (int k = 0; k < BF16_STEP; k++)
			line[k] = k < terms ? from + k * p->b_step : NULL;
		unit->pairs(to, line, columns);
	} else {
		for (int j = 0; j < BF16_COLUMNS; j++)
			line[j] = j < columns ? from + j * p->b_column : NULL;
		unit->turned_pairs(to, line, terms);
	}
}

struct product_plan {
	int64_t steps, row; /* row: elements of a rounded row of a */
	int64_t panels, blocks;
	bool many;
};

static struct product_plan product_plan(const struct product *p)
{
	struct product_plan plan = {.steps = bf16_steps(p->depth),
		.panels = bf16_panels(p->columns),
		.blocks = divide_up(p->rows, ROWS)};
	plan.row = plan.steps * BF16_STEP;
	plan.many = plan.blocks >= ENOUGH_BLOCKS;
	return plan;
}

struct product_job {
	const struct cpu_device *device;
	const struct product *product;
	struct product_plan plan;
	struct bf16_panels packed;
	uint16_t *
		a; /* rounded: where there are many, a block of each thread's; else all. The panels are the other way round. */
	float *c; /* of each thread's: a block of one panel */
};

static int64_t a_rows(
	const struct cpu_device *device, const struct product *p, const struct product_plan *plan)
{
	return plan->many ? device->threads * ROWS : divide_up(p->rows, BF16_ROWS) * BF16_ROWS;
}

static int64_t packed_panels(const struct cpu_device *device, const struct product_plan *plan)
{
	return plan->many ? plan->panels : device->threads * PANEL_GROUP;
}

/* The panels [first, end) of b, one behind the other at `to`. */
static void pack_group(const struct product_job *job, uint16_t *to, int64_t first, int64_t end)
{
	struct bf16_panels panels = job->packed;
	panels.to = to - first * panels.panel;
	for (int64_t step = 0; step < job->plan.steps; step++)
		for (int64_t panel = first; panel < end; panel++)
			bf16_pack_step(job->device->bf16, &panels, panel, step);
}

/* The group of panels that piece `i` takes. */
static int64_t group_end(const struct product_plan *plan, int64_t i)
{
	return smaller(plan->panels, (i + 1) * PANEL_GROUP);
}

static void pack_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	const int64_t first = i * PANEL_GROUP;
	(void)thread;
	pack_group(job, job->packed.to + first * job->packed.panel, first, group_end(&job->plan, i));
}

/* Rows [first, end) of a, filled up with zeros. */
static void round_rows(const struct product_job *job, uint16_t *to, int64_t first, int64_t end)
{
	const struct product *p = job->product;
	for (int64_t i = first; i < end; i++, to += job->plan.row) {
		job->device->bf16->convert(to, p->a + i * p->a_row, p->depth);
		memset(to + p->depth, 0, (size_t)(job->plan.row - p->depth) * sizeof *to);
	}
}

static void round_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	(void)thread;
	round_rows(job, job->a + i * BF16_ROWS * job->plan.row, i * BF16_ROWS,
		smaller(job->product->rows, (i + 1) * BF16_ROWS));
}

/* A block of rows, rounded at `a`, by a panel, packed at `b`. */
static void multiply_block(const struct product_job *job, const uint16_t *a, const uint16_t *b, int64_t block,
	int64_t panel, int thread)
{
	const struct product *p = job->product;
	const int64_t first = block * ROWS, j = panel * BF16_COLUMNS;
	const ptrdiff_t start = 0;
	const struct bf16_product m = {.a = a,
		.b = b,
		.a_segment = &start,
		.b_segment = &start,
		.a_row = job->plan.row,
		.segments = 1,
		.steps = job->plan.steps,
		.rows = smaller(ROWS, p->rows - first),
		.columns = (int)smaller(BF16_COLUMNS, p->columns - j),
		.c = job->c + thread * ROWS * BF16_COLUMNS};
	job->device->bf16->multiply(&m);
	job->device->bf16->store(p->c + first * p->c_row + j, p->c_row, m.c, m.rows, m.columns,
		p->bias ? p->bias + j : NULL, p->accumulate);
}

static void block_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	uint16_t *a = job->a + thread * ROWS * job->plan.row;
	round_rows(job, a, i * ROWS, smaller((i + 1) * ROWS, job->product->rows));
	job->device->bf16->begin();
	for (int64_t panel = 0; panel < job->plan.panels; panel++)
		multiply_block(job, a, job->packed.to + panel * job->packed.panel, i, panel, thread);
	job->device->bf16->end();
}

static void group_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	const int64_t first = i * PANEL_GROUP, end = group_end(&job->plan, i);
	uint16_t *b = job->packed.to + thread * PANEL_GROUP * job->packed.panel;
	pack_group(job, b, first, end);
	job->device->bf16->begin();
	for (int64_t block = 0; block < job->plan.blocks; block++)
		for (int64_t panel = first; panel < end; panel++)
			multiply_block(job, job->a + block * ROWS * job->plan.row,
				b + (panel - first) * job->packed.panel, block, panel, thread);
	job->device->bf16->end();
}

size_t bf16_product_workspace(const struct cpu_device *device, const struct product *p)
{
	const struct product_plan plan = product_plan(p);
	return aligned_bytes(packed_panels(device, &plan) * plan.steps * BF16_STEP_SIZE, sizeof(uint16_t)) +
	       aligned_bytes(a_rows(device, p, &plan) * plan.row, sizeof(uint16_t)) +
	       aligned_bytes(device->threads * ROWS * BF16_COLUMNS, sizeof(float));
}

void bf16_product_run(const struct cpu_device *device, const struct product *p, void *workspace)
{
	struct product_job job = {.device = device, .product = p, .plan = product_plan(p)};
	const struct product_plan *plan = &job.plan;
	job.packed = (struct bf16_panels){
		.to = workspace_take(&workspace, packed_panels(device, plan) * plan->steps * BF16_STEP_SIZE,
			sizeof(uint16_t)),
		.panel = plan->steps * BF16_STEP_SIZE,
		.b = p->b,
		.b_step = p->b_step,
		.b_column = p->b_column,
		.depth = p->depth,
		.columns = p->columns,
	};
	job.a = workspace_take(&workspace, a_rows(device, p, plan) * plan->row, sizeof(uint16_t));
	job.c = workspace;
	const double sizes = (double)p->depth * (double)p->columns;
	if (plan->many) {
		cpu_share(device, sizes / 4, divide_up(plan->panels, PANEL_GROUP), pack_piece, &job);
		cpu_share(device, (double)p->rows * sizes / 64, plan->blocks, block_piece, &job);
	} else {
		cpu_share(device, (double)(p->rows * p->depth) / 4, divide_up(p->rows, BF16_ROWS),
			round_piece, &job);
		cpu_share(device, sizes / 4 + (double)p->rows * sizes / 64,
			divide_up(plan->panels, PANEL_GROUP), group_piece, &job);
	}
}
