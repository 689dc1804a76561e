/*
 * Matrix products in bfloat16. b is packed once; blocks of rows of a are rounded by the piece that multiplies them where there
 * are many, and beforehand where pieces must share them.
 */
#include "cpu/bf16_product.h"

#include <string.h>

#define ROWS 128        /* of a block */
#define ENOUGH_BLOCKS 8 /* from here on a piece is a block and takes all panels */
#define GROUPS 16       /* else the panels are dealt out as well, in at most so many groups */

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
	int64_t panels, blocks, groups;
	bool shared; /* a is rounded beforehand */
};

static struct product_plan product_plan(const struct product *p)
{
	struct product_plan plan = {.steps = bf16_steps(p->depth),
		.panels = bf16_panels(p->columns),
		.blocks = divide_up(p->rows, ROWS)};
	plan.row = plan.steps * BF16_STEP;
	plan.groups = plan.blocks >= ENOUGH_BLOCKS ? 1 : smaller(plan.panels, GROUPS);
	plan.shared = plan.groups > 1;
	return plan;
}

struct product_job {
	const struct cpu_device *device;
	const struct product *product;
	struct product_plan plan;
	struct bf16_panels packed;
	uint16_t *a; /* rounded: all, or a block of each thread's */
	float *c;    /* of each thread's: a block of one panel */
};

static int64_t a_rows(const struct cpu_device *device, const struct product *p, bool shared)
{
	return shared ? divide_up(p->rows, BF16_ROWS) * BF16_ROWS : device->threads * ROWS;
}

static void pack_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	(void)thread;
	for (int64_t step = 0; step < job->plan.steps; step++)
		bf16_pack_step(job->device->bf16, &job->packed, i, step);
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

/* Pieces: blocks of rows, groups of panels. */
static void multiply_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	const struct product *p = job->product;
	const struct product_plan *plan = &job->plan;
	const struct bf16 *unit = job->device->bf16;
	const int64_t group = i % plan->groups, first = i / plan->groups * ROWS,
		      rows = smaller(ROWS, p->rows - first);
	const ptrdiff_t start = 0;
	uint16_t *a = job->a + (plan->shared ? first : thread * ROWS) * plan->row;
	struct bf16_product m = {.a = a,
		.a_segment = &start,
		.b_segment = &start,
		.a_row = plan->row,
		.segments = 1,
		.steps = plan->steps,
		.rows = rows,
		.c = job->c + thread * ROWS * BF16_COLUMNS};
	if (!plan->shared)
		round_rows(job, a, first, first + rows);
	unit->begin();
	for (int64_t panel = plan->panels * group / plan->groups;
		panel < plan->panels * (group + 1) / plan->groups; panel++) {
		const int64_t j = panel * BF16_COLUMNS;
		m.b = job->packed.to + panel * job->packed.panel;
		m.columns = (int)smaller(BF16_COLUMNS, p->columns - j);
		unit->multiply(&m);
		unit->store(p->c + first * p->c_row + j, p->c_row, m.c, rows, m.columns,
			p->bias ? p->bias + j : NULL, p->accumulate);
	}
	unit->end();
}

size_t bf16_product_workspace(const struct cpu_device *device, const struct product *p)
{
	const struct product_plan plan = product_plan(p);
	return aligned_bytes(plan.panels * plan.steps * BF16_STEP_SIZE, sizeof(uint16_t)) +
	       aligned_bytes(a_rows(device, p, plan.shared) * plan.row, sizeof(uint16_t)) +
	       aligned_bytes(device->threads * ROWS * BF16_COLUMNS, sizeof(float));
}

void bf16_product_run(const struct cpu_device *device, const struct product *p, void *workspace)
{
	struct product_job job = {.device = device, .product = p, .plan = product_plan(p)};
	const struct product_plan *plan = &job.plan;
	job.packed = (struct bf16_panels){
		.to = workspace_take(
			&workspace, plan->panels * plan->steps * BF16_STEP_SIZE, sizeof(uint16_t)),
		.panel = plan->steps * BF16_STEP_SIZE,
		.b = p->b,
		.b_step = p->b_step,
		.b_column = p->b_column,
		.depth = p->depth,
		.columns = p->columns,
	};
	job.a = workspace_take(&workspace, a_rows(device, p, plan->shared) * plan->row, sizeof(uint16_t));
	job.c = workspace;
	const double sizes = (double)p->depth * (double)p->columns;
	cpu_share(device, sizes / 4, plan->panels, pack_piece, &job);
	if (plan->shared)
		cpu_share(device, (double)(p->rows * p->depth) / 4, divide_up(p->rows, BF16_ROWS),
			round_piece, &job);
	cpu_share(device, (double)p->rows * sizes / 64, plan->blocks * plan->groups, multiply_piece, &job);
}
