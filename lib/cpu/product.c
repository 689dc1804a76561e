/* Matrix products and the linear layers made of them. */
#include "cpu/product.h"

#include <string.h>

#include "cpu/bf16_product.h"

#define ROWS 112      /* of a block that is dealt out */
#define PANEL_GROUP 4 /* panels of a block */

/* One panel: rows are copied, or columns turned in squares that stay in the cache. */
static void pack_panel(float *to, const struct panels *p, int64_t column, int64_t width)
{
	const float *b = p->b + column * p->b_column;
	if (p->b_column == 1) {
		for (int64_t k = 0; k < p->depth; k++)
			memcpy(to + k * width, b + k * p->b_step, (size_t)width * sizeof *to);
		return;
	}
	for (int64_t first = 0; first < p->depth; first += 16) {
		const int64_t end = smaller(p->depth, first + 16);
		for (int64_t j = 0; j < width; j++)
			for (int64_t k = first; k < end; k++)
				to[k * width + j] = b[k * p->b_step + j * p->b_column];
	}
}

struct pack_job {
	const struct panels *panels;
	int64_t width; /* of a whole panel */
};

static void pack_piece(void *context, int64_t i, int thread)
{
	const struct pack_job *job = context;
	const struct panels *p = job->panels;
	const int64_t width = smaller(job->width, p->columns - i * job->width);
	(void)thread;
	pack_panel(p->to + i * job->width * p->total + p->first * width, p, i * job->width, width);
}

void panels_pack(const struct cpu_device *device, const struct panels *p)
{
	struct pack_job job = {p, device->kernels->panel};
	cpu_share(
		device, (double)(p->depth * p->columns), divide_up(p->columns, job.width), pack_piece, &job);
}

/* Panels pay when they are read often, and are the only way when b is transposed. */
static bool product_packs(const struct cpu_device *device, const struct product *p)
{
	return p->b_column != 1 || (p->columns > device->kernels->panel && p->rows >= 64);
}

size_t product_workspace(const struct cpu_device *device, const struct product *p)
{
	if (device->bf16)
		return bf16_product_workspace(device, p);
	return product_packs(device, p) ? aligned_bytes(p->depth * p->columns, sizeof(float)) : 0;
}

/* One block: rows [row, row + rows) of the panels [panel, end). */
static void product_block(const struct cpu_device *device, const struct product *p, const float *packed,
	int64_t row, int64_t rows, int64_t panel, int64_t end)
{
	const int64_t chains = divide_up(p->depth, PRODUCT_CHAIN), wide = device->kernels->panel;
	for (int64_t chain = 0; chain < chains; chain++) {
		const int64_t k = p->depth * chain / chains, length = p->depth * (chain + 1) / chains - k;
		for (int64_t j = panel; j < end; j++) {
			const int64_t width = smaller(wide, p->columns - j * wide);
			const struct strip strip = {
				.a = p->a + row * p->a_row + k,
				.a_row = p->a_row,
				.a_step = 1,
				.b = packed ? packed + j * wide * p->depth + k * width
					    : p->b + k * p->b_step + j * wide,
				.b_step = packed ? width : p->b_step,
				.c = p->c + row * p->c_row + j * wide,
				.c_row = p->c_row,
				.bias = p->bias && chain == 0 ? p->bias + j * wide : NULL,
				/* rows of the tile behind this one, once */
				.next = j == panel && chain == 0
						? p->a + (row + device->kernels->strip_rows) * p->a_row
						: NULL,
				.rows = rows,
				.segments = 1,
				.length = length,
				.columns = (int)width,
				.accumulate = p->accumulate || chain > 0,
			};
			device->kernels->strip(&strip);
		}
	}
}

struct product_job {
	const struct cpu_device *device;
	const struct product *product;
	const float *packed;
};

/* Pieces: blocks of rows by groups of panels. */
static void product_piece(void *context, int64_t i, int thread)
{
	const struct product_job *job = context;
	const struct product *p = job->product;
	const int64_t panels = divide_up(p->columns, job->device->kernels->panel);
	const int64_t groups = divide_up(panels, PANEL_GROUP), blocks = divide_up(p->rows, ROWS);
	const int64_t row = p->rows * (i / groups) / blocks, end = p->rows * (i / groups + 1) / blocks;
	const int64_t panel = i % groups * PANEL_GROUP;
	(void)thread;
	product_block(
		job->device, p, job->packed, row, end - row, panel, smaller(panels, panel + PANEL_GROUP));
}

void product_run(const struct cpu_device *device, const struct product *p, void *workspace)
{
	struct product_job job = {device, p, NULL};
	if (device->bf16) {
		bf16_product_run(device, p, workspace);
		return;
	}
	if (product_packs(device, p)) {
		panels_pack(device, &(struct panels){.to = workspace,
					    .total = p->depth,
					    .b = p->b,
					    .b_step = p->b_step,
					    .b_column = p->b_column,
					    .depth = p->depth,
					    .columns = p->columns});
		job.packed = workspace;
	}
	const int64_t groups = divide_up(divide_up(p->columns, device->kernels->panel), PANEL_GROUP);
	const double work = (double)p->rows * (double)p->columns * (double)p->depth / 8;
	cpu_share(device, work, divide_up(p->rows, ROWS) * groups, product_piece, &job);
}

static struct product linear_product(const struct call *call)
{
	const int64_t in = last_dim(call->in[0]), out = last_dim(call->out[0]);
	return (struct product){
		.rows = row_count(call->in[0]),
		.columns = out,
		.depth = in,
		.a = call->in_data[0],
		.a_row = in,
		.b = call->in_data[1],
		.b_step = out,
		.b_column = 1,
		.bias = call->in_data[2],
		.c = call->out_data[0],
		.c_row = out,
		.accumulate = accumulates(call, 0),
	};
}

size_t cpu_linear_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct product product = linear_product(call);
	return product_workspace(device, &product);
}

void cpu_linear(const struct cpu_device *device, const struct call *call)
{
	const struct product product = linear_product(call);
	product_run(device, &product, call->workspace);
}

static struct product linear_data_product(const struct call *call)
{
	const int64_t out = last_dim(call->in[0]), in = last_dim(call->out[0]);
	return (struct product){
		.rows = row_count(call->in[0]),
		.columns = in,
		.depth = out,
		.a = call->in_data[0],
		.a_row = out,
		.b = call->in_data[1],
		.b_step = 1,
		.b_column = out,
		.c = call->out_data[0],
		.c_row = in,
		.accumulate = accumulates(call, 0),
	};
}

size_t cpu_linear_data_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct product product = linear_data_product(call);
	return product_workspace(device, &product);
}

void cpu_linear_data(const struct cpu_device *device, const struct call *call)
{
	const struct product product = linear_data_product(call);
	product_run(device, &product, call->workspace);
}
