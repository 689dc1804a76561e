/*
 * Attention in bfloat16, by the blocks of attention.c: both operands of each product are rounded, probabilities and their
 * gradients included; scores, softmax and all sums are float32. Outputs and gradients of queries are made turned, [channels,
 * queries], so that the transposed scores are the second operand as they lie.
 */
#include <math.h>
#include <string.h>

#include "cpu/attention.h"
#include "cpu/bf16_product.h"

/* Elements of packed operands: those in rows are filled up to steps one way and to BF16_ROWS the other. */
static int64_t filled(int64_t count)
{
	return bf16_steps(count) * BF16_STEP;
}

static int64_t rows_size(int64_t rows, int64_t terms)
{
	return divide_up(rows, BF16_ROWS) * BF16_ROWS * filled(terms);
}

static int64_t panels_size(int64_t terms, int64_t columns)
{
	return bf16_panels(columns) * bf16_steps(terms) * BF16_STEP_SIZE;
}

/* to [rows][filled(terms)] = from [rows][terms] */
static void pack_rows(const struct bf16 *unit, uint16_t *to, const float *from, ptrdiff_t from_row,
	int64_t rows, int64_t terms)
{
	const int64_t pitch = filled(terms);
	for (int64_t i = 0; i < rows; i++, to += pitch, from += from_row) {
		unit->convert(to, from, terms);
		memset(to + terms, 0, (size_t)(pitch - terms) * sizeof *to);
	}
}

/* to [columns][filled(rows)] = from [rows][columns] turned; line [BF16_STEP][columns] */
static void pack_turned(const struct bf16 *unit, uint16_t *to, const float *from, ptrdiff_t from_row,
	int64_t rows, int64_t columns, uint16_t *line)
{
	const int64_t pitch = filled(rows);
	const uint16_t *row[BF16_STEP];
	for (int64_t first = 0; first < rows; first += BF16_STEP) {
		for (int64_t i = 0; i < BF16_STEP; i++) {
			row[i] = line + i * columns;
			if (first + i < rows)
				unit->convert(line + i * columns, from + (first + i) * from_row, columns);
			else
				memset(line + i * columns, 0, (size_t)columns * sizeof *line);
		}
		unit->turn(to + first, pitch, row, columns);
	}
}

static void pack_panels(const struct bf16 *unit, struct bf16_panels panels)
{
	const int64_t steps = bf16_steps(panels.depth);
	panels.panel = steps * BF16_STEP_SIZE;
	for (int64_t panel = 0; panel < bf16_panels(panels.columns); panel++)
		for (int64_t step = 0; step < steps; step++)
			bf16_pack_step(unit, &panels, panel, step);
}

/* The second operand from rows [terms][columns]. */
static void pack_pairs(const struct bf16 *unit, uint16_t *to, const float *from, ptrdiff_t from_row,
	int64_t terms, int64_t columns)
{
	pack_panels(unit, (struct bf16_panels){.to = to,
				  .b = from,
				  .b_step = from_row,
				  .b_column = 1,
				  .depth = terms,
				  .columns = columns});
}

/* The same from rows [columns][terms]. */
static void pack_turned_pairs(const struct bf16 *unit, uint16_t *to, const float *from, ptrdiff_t from_row,
	int64_t terms, int64_t columns)
{
	pack_panels(unit, (struct bf16_panels){.to = to,
				  .b = from,
				  .b_step = 1,
				  .b_column = from_row,
				  .depth = terms,
				  .columns = columns});
}

/* c [rows, columns] (+)= a b */
struct block_product {
	const uint16_t *a, *b;
	int64_t a_row, rows, columns, terms;
	float *c, *sums; /* sums: room for rows x BF16_COLUMNS */
	ptrdiff_t c_row;
	bool accumulate;
};

static void block_product(const struct bf16 *unit, const struct block_product p)
{
	const ptrdiff_t start = 0;
	struct bf16_product m = {.a = p.a,
		.a_segment = &start,
		.b_segment = &start,
		.a_row = p.a_row,
		.segments = 1,
		.steps = bf16_steps(p.terms),
		.rows = p.rows,
		.c = p.sums};
	for (int64_t j = 0; j < p.columns; j += BF16_COLUMNS) {
		m.b = p.b + j / BF16_COLUMNS * m.steps * BF16_STEP_SIZE;
		m.columns = (int)smaller(BF16_COLUMNS, p.columns - j);
		unit->multiply(&m);
		unit->store(p.c + j, p.c_row, p.sums, p.rows, m.columns, NULL, p.accumulate);
	}
}

/* ---- forward ---- */

/* One thread's part. */
struct scratch {
	float *scores, *products;      /* [KEYS, QUERIES] */
	float *turned;                 /* [width, QUERIES]: of outputs, or of gradients of queries */
	float *sums, *row[3];          /* [KEYS or width, BF16_COLUMNS]; [QUERIES] */
	uint16_t *q, *d_o, *pairs;     /* second operands: of queries, of probabilities */
	uint16_t *q_pairs, *d_o_pairs; /* the same over queries */
	uint16_t *rows, *line;         /* probabilities as the first operand; [BF16_STEP, width] */
	uint16_t *k, *k_turned, *v;    /* all keys of a head */
};

/* Takes the parts in order, or with NULL counts their bytes. */
static size_t scratch_take(
	const struct attention_shape *s, bool backward, void *workspace, struct scratch *scratch)
{
	const int64_t width = s->width, tall = divide_up(larger(KEYS, width), BF16_ROWS) * BF16_ROWS;
	const struct {
		void **part;
		int64_t count;
		size_t size;
		bool backward;
	} parts[] = {
		{(void **)&scratch->scores, KEYS * QUERIES, sizeof(float), false},
		{(void **)&scratch->products, KEYS * QUERIES, sizeof(float), true},
		{(void **)&scratch->turned, width * QUERIES, sizeof(float), false},
		{(void **)&scratch->sums, tall * BF16_COLUMNS, sizeof(float), false},
		{(void **)&scratch->row[0], QUERIES, sizeof(float), false},
		{(void **)&scratch->row[1], QUERIES, sizeof(float), false},
		{(void **)&scratch->row[2], QUERIES, sizeof(float), false},
		{(void **)&scratch->q, panels_size(width, QUERIES), sizeof(uint16_t), false},
		{(void **)&scratch->pairs, panels_size(KEYS, QUERIES), sizeof(uint16_t), false},
		{(void **)&scratch->line, BF16_STEP * width, sizeof(uint16_t), false},
		{(void **)&scratch->d_o, panels_size(width, QUERIES), sizeof(uint16_t), true},
		{(void **)&scratch->q_pairs, panels_size(QUERIES, width), sizeof(uint16_t), true},
		{(void **)&scratch->d_o_pairs, panels_size(QUERIES, width), sizeof(uint16_t), true},
		{(void **)&scratch->rows, rows_size(KEYS, QUERIES), sizeof(uint16_t), true},
		{(void **)&scratch->k, rows_size(s->keys, width), sizeof(uint16_t), true},
		{(void **)&scratch->k_turned, rows_size(width, s->keys), sizeof(uint16_t), true},
		{(void **)&scratch->v, rows_size(s->keys, width), sizeof(uint16_t), true},
	};
	size_t bytes = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (parts[i].backward && !backward)
			continue;
		if (workspace)
			*parts[i].part = (char *)workspace + bytes;
		bytes += aligned_bytes(parts[i].count, parts[i].size);
	}
	return bytes;
}

static size_t scratch_bytes(const struct attention_shape *s, bool backward)
{
	struct scratch scratch;
	return scratch_take(s, backward, NULL, &scratch);
}

/* Keys and values of all heads, packed for the forward pass. */
struct attention_job {
	const struct cpu_device *device;
	const struct attention_shape *shape;
	const struct call *call;
	uint16_t *k, *v; /* rows of keys; values turned */
	void *threads;
};

static struct scratch thread_scratch(const struct attention_job *job, bool backward, int thread)
{
	struct scratch scratch = {0};
	scratch_take(job->shape, backward,
		(char *)job->threads + (size_t)thread * scratch_bytes(job->shape, backward), &scratch);
	return scratch;
}

/* Pieces: images, heads. */
static void pack_piece(void *context, int64_t i, int thread)
{
	const struct attention_job *job = context;
	const struct attention_shape *s = job->shape;
	const struct scratch scratch = thread_scratch(job, false, thread);
	const int64_t at = i / s->heads * s->keys * s->row + i % s->heads * s->width;
	pack_rows(job->device->bf16, job->k + i * rows_size(s->keys, s->width),
		(const float *)job->call->in_data[1] + at, s->row, s->keys, s->width);
	pack_turned(job->device->bf16, job->v + i * rows_size(s->width, s->keys),
		(const float *)job->call->in_data[2] + at, s->row, s->keys, s->width, scratch.line);
}

/* rows [count, QUERIES] times a factor for each query */
static void scale_queries(float *rows, int64_t count, int64_t queries, const float *factor)
{
	for (int64_t d = 0; d < count; d++)
		for (int64_t i = 0; i < queries; i++)
			rows[d * QUERIES + i] *= factor[i];
}

/* A block of queries, from token `query` on, against all keys, into scratch->turned. */
static void attend(const struct attention_job *job, const struct scratch *scratch, const uint16_t *k,
	const uint16_t *v, int64_t query, int64_t queries)
{
	const struct attention_shape *s = job->shape;
	const struct bf16 *unit = job->device->bf16;
	const int64_t seen = s->causal ? smaller(s->keys, query + queries) : s->keys;
	float *largest = scratch->row[0], *sum = scratch->row[1], *factor = scratch->row[2];
	for (int64_t i = 0; i < queries; i++) {
		largest[i] = -INFINITY;
		sum[i] = 0;
	}
	for (int64_t first = 0; first < seen; first += KEYS) {
		const int64_t keys = smaller(KEYS, seen - first);
		block_product(unit, (struct block_product){.a = k + first * filled(s->width),
					    .a_row = filled(s->width),
					    .b = scratch->q,
					    .rows = keys,
					    .columns = queries,
					    .terms = s->width,
					    .c = scratch->scores,
					    .c_row = queries,
					    .sums = scratch->sums});
		attention_hide(s, scratch->scores, query, queries, first, keys);
		job->device->kernels->softmax_block(
			scratch->scores, keys, queries, s->scale, largest, sum, factor);
		if (first > 0)
			scale_queries(scratch->turned, s->width, queries, factor);
		pack_pairs(unit, scratch->pairs, scratch->scores, queries, keys, queries);
		block_product(unit, (struct block_product){.a = v + first,
					    .a_row = filled(s->keys),
					    .b = scratch->pairs,
					    .rows = s->width,
					    .columns = queries,
					    .terms = keys,
					    .c = scratch->turned,
					    .c_row = QUERIES,
					    .accumulate = first > 0,
					    .sums = scratch->sums});
	}
}

/* Pieces: images, heads, blocks of queries. */
static void attend_piece(void *context, int64_t i, int thread)
{
	const struct attention_job *job = context;
	const struct attention_shape *s = job->shape;
	const struct scratch scratch = thread_scratch(job, false, thread);
	const int64_t blocks = divide_up(s->queries, QUERIES), first = i % blocks * QUERIES,
		      head = i / blocks, queries = smaller(QUERIES, s->queries - first);
	const int64_t at = (head / s->heads * s->queries + first) * s->row + head % s->heads * s->width;
	float *o = (float *)job->call->out_data[0] + at,
	      *lse = (float *)job->call->out_data[1] + head * s->queries + first;
	pack_turned_pairs(job->device->bf16, scratch.q, (const float *)job->call->in_data[0] + at, s->row,
		s->width, queries);
	job->device->bf16->begin();
	attend(job, &scratch, job->k + head * rows_size(s->keys, s->width),
		job->v + head * rows_size(s->width, s->keys), first, queries);
	job->device->bf16->end();
	job->device->kernels->turn(o, s->row, scratch.turned, QUERIES, s->width, queries);
	for (int64_t j = 0; j < queries; j++) {
		job->device->kernels->scale(
			o + j * s->row, o + j * s->row, 1.0f / scratch.row[1][j], s->width);
		lse[j] = scratch.row[0][j] + logf(scratch.row[1][j]);
	}
}

size_t bf16_attention_workspace(const struct cpu_device *device, const struct attention_shape *s)
{
	const int64_t heads = s->images * s->heads;
	return aligned_bytes(heads * rows_size(s->keys, s->width), sizeof(uint16_t)) +
	       aligned_bytes(heads * rows_size(s->width, s->keys), sizeof(uint16_t)) +
	       (size_t)device->threads * scratch_bytes(s, false);
}

void bf16_attention(const struct cpu_device *device, const struct attention_shape *s, const struct call *call)
{
	struct attention_job job = {.device = device, .shape = s, .call = call};
	const int64_t heads = s->images * s->heads;
	void *workspace = call->workspace;
	job.k = workspace_take(&workspace, heads * rows_size(s->keys, s->width), sizeof(uint16_t));
	job.v = workspace_take(&workspace, heads * rows_size(s->width, s->keys), sizeof(uint16_t));
	job.threads = workspace;
	cpu_share(device, (double)(heads * s->keys * s->width), heads, pack_piece, &job);
	cpu_share(device, attention_work(s), heads * divide_up(s->queries, QUERIES), attend_piece, &job);
}

/* ---- backward ---- */

/* Probabilities, or their gradients, [keys, queries], as the first operand, with zeros for queries that are not there. */
static void pack_scores(
	const struct bf16 *unit, uint16_t *to, const float *from, int64_t keys, int64_t queries)
{
	pack_rows(unit, to, from, queries, keys, queries);
}

/* The gradients of one block of keys: dk or dv (+)= scores times a block of queries or of their gradients. */
static void key_product(const struct attention_job *job, const struct scratch *scratch, const uint16_t *b,
	float *c, int64_t keys, int64_t queries, bool accumulate)
{
	const struct attention_shape *s = job->shape;
	block_product(job->device->bf16, (struct block_product){.a = scratch->rows,
						 .a_row = filled(queries),
						 .b = b,
						 .rows = keys,
						 .columns = s->width,
						 .terms = queries,
						 .c = c,
						 .c_row = s->row,
						 .accumulate = accumulate,
						 .sums = scratch->sums});
}

/* Scores of a block of keys, or the gradients of their probabilities. */
static void score_product(const struct attention_job *job, const struct scratch *scratch, const uint16_t *a,
	const uint16_t *b, float *c, int64_t keys, int64_t queries)
{
	block_product(job->device->bf16, (struct block_product){.a = a,
						 .a_row = filled(job->shape->width),
						 .b = b,
						 .rows = keys,
						 .columns = queries,
						 .terms = job->shape->width,
						 .c = c,
						 .c_row = queries,
						 .sums = scratch->sums});
}

/* One block of queries, at token `first`, against one block of keys. */
static void attend_backward(const struct attention_job *job, const struct scratch *scratch,
	const struct attention_gradient *g, int64_t first, int64_t queries, int64_t key, int64_t keys)
{
	const struct attention_shape *s = job->shape;
	const struct bf16 *unit = job->device->bf16;
	float *p = scratch->scores, *d = scratch->products;
	score_product(job, scratch, scratch->k + key * filled(s->width), scratch->q, p, keys, queries);
	attention_hide(s, p, first, queries, key, keys);
	score_product(job, scratch, scratch->v + key * filled(s->width), scratch->d_o, d, keys, queries);
	if (keys == s->keys)
		job->device->kernels->softmax_backward_whole(p, d, keys, queries, s->scale, g->lse + first);
	else
		job->device->kernels->softmax_backward(
			p, d, keys, queries, s->scale, g->lse + first, scratch->row[0]);
	pack_scores(unit, scratch->rows, p, keys, queries);
	key_product(job, scratch, scratch->d_o_pairs, g->dv + key * s->row, keys, queries,
		first > 0 || g->accumulate[2]);
	pack_scores(unit, scratch->rows, d, keys, queries);
	key_product(job, scratch, scratch->q_pairs, g->dk + key * s->row, keys, queries,
		first > 0 || g->accumulate[1]);
	pack_pairs(unit, scratch->pairs, d, queries, keys, queries);
	block_product(unit, (struct block_product){.a = scratch->k_turned + key,
				    .a_row = filled(s->keys),
				    .b = scratch->pairs,
				    .rows = s->width,
				    .columns = queries,
				    .terms = keys,
				    .c = scratch->turned,
				    .c_row = QUERIES,
				    .accumulate = key > 0,
				    .sums = scratch->sums});
}

/* dq (+)= turned [width, QUERIES] */
static void add_queries(
	const struct attention_shape *s, float *dq, const float *turned, int64_t queries, bool accumulate)
{
	for (int64_t i = 0; i < queries; i++)
		for (int64_t c = 0; c < s->width; c++)
			dq[i * s->row + c] = (accumulate ? dq[i * s->row + c] : 0) + turned[c * QUERIES + i];
}

static void attend_queries(const struct attention_job *job, const struct scratch *scratch,
	const struct attention_gradient *g, int64_t first, int64_t queries)
{
	const struct attention_shape *s = job->shape;
	const struct bf16 *unit = job->device->bf16;
	const float *q = g->q + first * s->row, *d_o = g->d_o + first * s->row;
	pack_turned_pairs(unit, scratch->q, q, s->row, s->width, queries);
	pack_turned_pairs(unit, scratch->d_o, d_o, s->row, s->width, queries);
	pack_pairs(unit, scratch->q_pairs, q, s->row, queries, s->width);
	pack_pairs(unit, scratch->d_o_pairs, d_o, s->row, queries, s->width);
	for (int64_t i = 0; i < queries && s->keys > KEYS; i++)
		scratch->row[0][i] = (float)job->device->kernels->dot(
			g->o + (first + i) * s->row, d_o + i * s->row, s->width);
	for (int64_t key = 0; key < s->keys; key += KEYS)
		attend_backward(job, scratch, g, first, queries, key, smaller(KEYS, s->keys - key));
	add_queries(s, g->dq + first * s->row, scratch->turned, queries, g->accumulate[0]);
}

/* Pieces: images, heads. */
static void backward_piece(void *context, int64_t i, int thread)
{
	const struct attention_job *job = context;
	const struct attention_shape *s = job->shape;
	const struct bf16 *unit = job->device->bf16;
	const struct scratch scratch = thread_scratch(job, true, thread);
	const struct attention_gradient gradient =
		attention_gradient(s, job->call, i / s->heads, i % s->heads);
	pack_rows(unit, scratch.k, gradient.k, s->row, s->keys, s->width);
	pack_rows(unit, scratch.v, gradient.v, s->row, s->keys, s->width);
	pack_turned(unit, scratch.k_turned, gradient.k, s->row, s->keys, s->width, scratch.line);
	unit->begin();
	for (int64_t first = 0; first < s->queries; first += QUERIES)
		attend_queries(job, &scratch, &gradient, first, smaller(QUERIES, s->queries - first));
	unit->end();
}

size_t bf16_attention_backward_workspace(const struct cpu_device *device, const struct attention_shape *s)
{
	return (size_t)device->threads * scratch_bytes(s, true);
}

void bf16_attention_backward(
	const struct cpu_device *device, const struct attention_shape *s, const struct call *call)
{
	struct attention_job job = {.device = device, .shape = s, .call = call, .threads = call->workspace};
	cpu_share(device, 3 * attention_work(s), s->images * s->heads, backward_piece, &job);
}
