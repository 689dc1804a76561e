/*
 * Attention in blocks with an online softmax (Milakov & Gimelshein 2018; Dao et al. 2022): memory linear in tokens.
 *
 * Scores are kept transposed, [keys, queries]: then queries are the lanes of the softmax, keys and values are read where
 * they lie, and of all operands only a block of queries is ever turned. The backward pass recomputes the probabilities
 * from the saved log-sum-exp; one thread owns a head of an image, for keys gather from all queries.
 */
#include <math.h>
#include <string.h>

#include "cpu/attention.h"

struct attention_shape attention_shape(const struct call *call)
{
	const struct tensor *q = call->in[0], *k = call->in[1];
	struct attention_shape s = {
		.images = q->dim[0], .queries = q->dim[1], .keys = k->dim[1], .row = q->dim[2]};
	s.heads = call->node->attention.heads;
	s.width = s.row / s.heads;
	s.scale = (float)(1.0 / sqrt((double)s.width));
	s.causal = call->node->attention.causal;
	return s;
}

/* c [rows, columns] (+)= a b, `depth` terms. */
struct block_product {
	const float *a, *b;
	float *c;
	ptrdiff_t a_row, a_step, b_step, c_row;
	int64_t rows, columns, depth;
	bool accumulate;
};

static void block_product(const struct cpu_device *device, const struct block_product p)
{
	const int64_t wide = device->kernels->panel;
	for (int64_t j = 0; j < p.columns; j += wide) {
		const struct strip strip = {
			.a = p.a,
			.a_row = p.a_row,
			.a_step = p.a_step,
			.b = p.b + j,
			.b_step = p.b_step,
			.c = p.c + j,
			.c_row = p.c_row,
			.rows = p.rows,
			.segments = 1,
			.length = p.depth,
			.columns = (int)smaller(wide, p.columns - j),
			.accumulate = p.accumulate,
		};
		device->kernels->strip(&strip);
	}
}

/* to [width, count] = from [count, width] turned. */
static void turn(float *to, const float *from, int64_t count, int64_t width, int64_t row)
{
	for (int64_t i = 0; i < count; i++)
		for (int64_t d = 0; d < width; d++)
			to[d * count + i] = from[i * row + d];
}

/* One thread's scratch. */
struct attention_scratch {
	float *turned, *turned_gradient; /* [width, QUERIES] */
	float *scores, *products;        /* [KEYS, QUERIES] */
	float *row[3];                   /* [QUERIES] */
};

static size_t scratch_bytes(const struct attention_shape *s)
{
	return 2 * aligned_bytes(s->width * QUERIES, sizeof(float)) +
	       2 * aligned_bytes(KEYS * QUERIES, sizeof(float)) + 3 * aligned_bytes(QUERIES, sizeof(float));
}

static struct attention_scratch scratch_take(const struct attention_shape *s, void *workspace, int thread)
{
	void *at = (char *)workspace + (size_t)thread * scratch_bytes(s);
	struct attention_scratch scratch;
	scratch.turned = workspace_take(&at, s->width * QUERIES, sizeof(float));
	scratch.turned_gradient = workspace_take(&at, s->width * QUERIES, sizeof(float));
	scratch.scores = workspace_take(&at, KEYS * QUERIES, sizeof(float));
	scratch.products = workspace_take(&at, KEYS * QUERIES, sizeof(float));
	for (int i = 0; i < 3; i++)
		scratch.row[i] = workspace_take(&at, QUERIES, sizeof(float));
	return scratch;
}

size_t cpu_attention_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct attention_shape s = attention_shape(call);
	if (device->bf16)
		return bf16_attention_workspace(device, &s);
	return (size_t)device->threads * scratch_bytes(&s);
}

size_t cpu_attention_backward_workspace(const struct cpu_device *device, const struct call *call)
{
	const struct attention_shape s = attention_shape(call);
	if (device->bf16)
		return bf16_attention_backward_workspace(device, &s);
	return (size_t)device->threads * scratch_bytes(&s);
}

void attention_hide(const struct attention_shape *s, float *scores, int64_t query, int64_t queries,
	int64_t key, int64_t keys)
{
	for (int64_t i = 0; i < queries && s->causal; i++)
		for (int64_t j = larger(0, query + i + 1 - key); j < keys; j++)
			scores[j * queries + i] = -INFINITY;
}

/* A block of queries, from token `query` on, against all keys; pointers are at the head's first channel, o at the block's
 * first query. */
static void attend(const struct cpu_device *device, const struct attention_shape *s,
	const struct attention_scratch *scratch, const float *k, const float *v, int64_t query,
	int64_t queries, float *o)
{
	const int64_t seen = s->causal ? smaller(s->keys, query + queries) : s->keys;
	float *largest = scratch->row[0], *sum = scratch->row[1], *factor = scratch->row[2];
	for (int64_t i = 0; i < queries; i++) {
		largest[i] = -INFINITY;
		sum[i] = 0;
	}
	for (int64_t first = 0; first < seen; first += KEYS) {
		const int64_t keys = smaller(KEYS, seen - first);
		block_product(device, (struct block_product){.a = k + first * s->row,
					      .a_row = s->row,
					      .a_step = 1,
					      .b = scratch->turned,
					      .b_step = queries,
					      .c = scratch->scores,
					      .c_row = queries,
					      .rows = keys,
					      .columns = queries,
					      .depth = s->width});
		attention_hide(s, scratch->scores, query, queries, first, keys);
		device->kernels->softmax_block(
			scratch->scores, keys, queries, s->scale, largest, sum, factor);
		for (int64_t i = 0; i < queries && first > 0; i++)
			device->kernels->scale(o + i * s->row, o + i * s->row, factor[i], s->width);
		block_product(device, (struct block_product){.a = scratch->scores,
					      .a_row = 1,
					      .a_step = queries,
					      .b = v + first * s->row,
					      .b_step = s->row,
					      .c = o,
					      .c_row = s->row,
					      .rows = queries,
					      .columns = s->width,
					      .depth = keys,
					      .accumulate = first > 0});
	}
	for (int64_t i = 0; i < queries; i++)
		device->kernels->scale(o + i * s->row, o + i * s->row, 1.0f / sum[i], s->width);
}

double attention_work(const struct attention_shape *s)
{
	return (double)(s->images * s->queries) * (double)(s->keys * s->row) / 4;
}

/* Pieces: images, heads, blocks of queries. */
static void attention_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct attention_shape s = attention_shape(job->call);
	const struct attention_scratch scratch = scratch_take(&s, job->call->workspace, thread);
	const int64_t blocks = divide_up(s.queries, QUERIES), first = i % blocks * QUERIES;
	const int64_t head = i / blocks % s.heads, image = i / blocks / s.heads;
	const int64_t queries = smaller(QUERIES, s.queries - first);
	const int64_t at = (image * s.queries + first) * s.row + head * s.width;
	const int64_t keys_at = image * s.keys * s.row + head * s.width;
	const float *q = job->call->in_data[0], *k = job->call->in_data[1], *v = job->call->in_data[2];
	float *lse = (float *)job->call->out_data[1] + (image * s.heads + head) * s.queries + first;
	turn(scratch.turned, q + at, queries, s.width, s.row);
	attend(job->device, &s, &scratch, k + keys_at, v + keys_at, first, queries,
		(float *)job->call->out_data[0] + at);
	for (int64_t j = 0; j < queries; j++)
		lse[j] = scratch.row[0][j] + logf(scratch.row[1][j]);
}

void cpu_attention(const struct cpu_device *device, const struct call *call)
{
	const struct attention_shape s = attention_shape(call);
	struct cpu_job job = {device, call};
	if (device->bf16) {
		bf16_attention(device, &s, call);
		return;
	}
	cpu_share(device, attention_work(&s), s.images * s.heads * divide_up(s.queries, QUERIES),
		attention_piece, &job);
}

struct attention_gradient attention_gradient(
	const struct attention_shape *s, const struct call *call, int64_t image, int64_t head)
{
	const float *const *in = (const float *const *)call->in_data;
	float *const *out = (float *const *)call->out_data;
	const int64_t at = image * s->queries * s->row + head * s->width;
	const int64_t keys_at = image * s->keys * s->row + head * s->width;
	return (struct attention_gradient){
		.q = in[0] + at,
		.k = in[1] + keys_at,
		.v = in[2] + keys_at,
		.o = in[3] + at,
		.lse = in[4] + (image * s->heads + head) * s->queries,
		.d_o = in[5] + at,
		.dq = out[0] + at,
		.dk = out[1] + keys_at,
		.dv = out[2] + keys_at,
		.accumulate = {accumulates(call, 0), accumulates(call, 1), accumulates(call, 2)},
	};
}

/* One block of queries, at token `first`, against one block of keys. Turned operands and delta are in the scratch. */
static void attend_backward(const struct cpu_device *device, const struct attention_shape *s,
	const struct attention_scratch *scratch, const struct attention_gradient *g, int64_t first,
	int64_t queries, int64_t key, int64_t keys)
{
	const int64_t at = first * s->row, keys_at = key * s->row, row = s->row;
	float *p = scratch->scores, *d = scratch->products;
	block_product(device, (struct block_product){.a = g->k + keys_at,
				      .a_row = row,
				      .a_step = 1,
				      .b = scratch->turned,
				      .b_step = queries,
				      .c = p,
				      .c_row = queries,
				      .rows = keys,
				      .columns = queries,
				      .depth = s->width});
	attention_hide(s, p, first, queries, key, keys);
	block_product(device, (struct block_product){.a = g->v + keys_at,
				      .a_row = row,
				      .a_step = 1,
				      .b = scratch->turned_gradient,
				      .b_step = queries,
				      .c = d,
				      .c_row = queries,
				      .rows = keys,
				      .columns = queries,
				      .depth = s->width});
	if (keys == s->keys)
		device->kernels->softmax_backward_whole(p, d, keys, queries, s->scale, g->lse + first);
	else
		device->kernels->softmax_backward(
			p, d, keys, queries, s->scale, g->lse + first, scratch->row[0]);
	block_product(device, (struct block_product){.a = p,
				      .a_row = queries,
				      .a_step = 1,
				      .b = g->d_o + at,
				      .b_step = row,
				      .c = g->dv + keys_at,
				      .c_row = row,
				      .rows = keys,
				      .columns = s->width,
				      .depth = queries,
				      .accumulate = first > 0 || g->accumulate[2]});
	block_product(device, (struct block_product){.a = d,
				      .a_row = queries,
				      .a_step = 1,
				      .b = g->q + at,
				      .b_step = row,
				      .c = g->dk + keys_at,
				      .c_row = row,
				      .rows = keys,
				      .columns = s->width,
				      .depth = queries,
				      .accumulate = first > 0 || g->accumulate[1]});
	block_product(device, (struct block_product){.a = d,
				      .a_row = 1,
				      .a_step = queries,
				      .b = g->k + keys_at,
				      .b_step = row,
				      .c = g->dq + at,
				      .c_row = row,
				      .rows = queries,
				      .columns = s->width,
				      .depth = keys,
				      .accumulate = key > 0 || g->accumulate[0]});
}

static void attention_head_backward(const struct cpu_device *device, const struct attention_shape *s,
	const struct attention_scratch *scratch, const struct attention_gradient *g)
{
	for (int64_t first = 0; first < s->queries; first += QUERIES) {
		const int64_t queries = smaller(QUERIES, s->queries - first), at = first * s->row;
		turn(scratch->turned, g->q + at, queries, s->width, s->row);
		turn(scratch->turned_gradient, g->d_o + at, queries, s->width, s->row);
		for (int64_t i = 0; i < queries && s->keys > KEYS; i++)
			scratch->row[0][i] = (float)device->kernels->dot(
				g->o + at + i * s->row, g->d_o + at + i * s->row, s->width);
		for (int64_t key = 0; key < s->keys; key += KEYS)
			attend_backward(
				device, s, scratch, g, first, queries, key, smaller(KEYS, s->keys - key));
	}
}

/* Pieces: images, heads. */
static void attention_backward_piece(void *context, int64_t i, int thread)
{
	const struct cpu_job *job = context;
	const struct attention_shape s = attention_shape(job->call);
	const struct attention_scratch scratch = scratch_take(&s, job->call->workspace, thread);
	const struct attention_gradient gradient =
		attention_gradient(&s, job->call, i / s.heads, i % s.heads);
	attention_head_backward(job->device, &s, &scratch, &gradient);
}

void cpu_attention_backward(const struct cpu_device *device, const struct call *call)
{
	const struct attention_shape s = attention_shape(call);
	struct cpu_job job = {device, call};
	if (device->bf16) {
		bf16_attention_backward(device, &s, call);
		return;
	}
	cpu_share(device, 3 * attention_work(&s), s.images * s.heads, attention_backward_piece, &job);
}
