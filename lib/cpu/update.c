/* Optimizer steps (Kingma & Ba 2015; Loshchilov & Hutter 2019; momentum as PyTorch writes it), running statistics and
 * averages, and the squares of the gradient norm. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cpu/device.h"

#define PIECE 32768

struct squares_job {
	const struct kernels *kernels;
	const float *data;
	int64_t count;
	double part[64];
};

static void squares_piece(void *context, int64_t i, int thread)
{
	struct squares_job *job = context;
	(void)thread;
	job->part[i] =
		job->kernels->sum_squares(job->data + i * PIECE, smaller(PIECE, job->count - i * PIECE));
}

int cpu_sum_squares(struct device *device, const float *data, size_t count, double *sum)
{
	const struct cpu_device *cpu = cpu_device(device);
	/* Pieces are added in order, a row of them at a time, so that nothing need be allocated. */
	const int64_t row = 64 * PIECE;
	*sum = 0;
	for (int64_t first = 0; first < (int64_t)count; first += row) {
		struct squares_job job = {
			cpu->kernels, data + first, smaller(row, (int64_t)count - first), {0}};
		const int64_t pieces = divide_up(job.count, PIECE);
		cpu_share(cpu, (double)job.count, pieces, squares_piece, &job);
		for (int64_t p = 0; p < pieces; p++)
			*sum += job.part[p];
	}
	return STATUS_OK;
}

/* The gradient's factor, bias corrections and step size, computed in double as PyTorch does. */
static struct adam_step adam_prepare(const struct update_call *call, int64_t number, double rate)
{
	const struct optimizer_rule *rule = call->rule;
	const bool decoupled = rule->kind == OPTIMIZER_ADAMW;
	double step = (double)number;
	double correction1 = 1 - pow(rule->beta1, step), correction2 = 1 - pow(rule->beta2, step);
	return (struct adam_step){
		.beta1_rest = (float)(1 - rule->beta1),
		.beta2 = (float)rule->beta2,
		.beta2_rest = (float)(1 - rule->beta2),
		.correction2 = (float)sqrt(correction2),
		.epsilon = (float)rule->epsilon,
		.step_size = (float)(rate / correction1),
		.scale = (float)call->scale,
		.decay = decoupled ? 0 : (float)rule->decay,
		.keep = decoupled ? (float)(1 - rate * rule->decay) : 1,
	};
}

static struct sgd_step sgd_prepare(const struct update_call *call, int64_t number, double rate)
{
	const struct optimizer_rule *rule = call->rule;
	return (struct sgd_step){
		.rate = (float)rate,
		.momentum = (float)rule->momentum,
		.fresh = number == 1 ? 1 : (float)(1 - rule->dampening),
		.decay = (float)rule->decay,
		.scale = (float)call->scale,
		.nesterov = rule->nesterov,
	};
}

/* One update of a parameter, ready to be done in parts. */
struct update_job {
	const struct kernels *kernels;
	const struct update_call *call;
	int64_t number;
	struct adam_step adam;
	struct sgd_step sgd;
};

static struct update_job update_prepare(
	const struct cpu_device *cpu, const struct update_call *call, int64_t number, double rate)
{
	struct update_job job = {.kernels = cpu->kernels, .call = call, .number = number};
	if (call->rule->kind == OPTIMIZER_SGD)
		job.sgd = sgd_prepare(call, number, rate);
	else if (call->rule->kind != OPTIMIZER_STATISTIC)
		job.adam = adam_prepare(call, number, rate);
	return job;
}

/* Of `some` elements from `first` on, with their part of the gradient. */
static void update_part(const struct update_job *job, int64_t first, int64_t some, const float *gradient)
{
	const struct update_call *call = job->call;
	float *value = call->value + first, *moment1 = call->moment1 ? call->moment1 + first : NULL;
	float *average = call->average ? call->average + first : NULL;
	if (average && job->number == 1)
		memcpy(average, value, (size_t)some * sizeof *average);
	switch (call->rule->kind) {
	case OPTIMIZER_SGD:
		job->kernels->sgd(&job->sgd, value, gradient, moment1, some);
		break;
	case OPTIMIZER_ADAM:
	case OPTIMIZER_ADAMW:
		job->kernels->adam(&job->adam, value, gradient, moment1, call->moment2 + first, some);
		break;
	case OPTIMIZER_STATISTIC:
		job->kernels->blend(value, gradient, (float)(1 - call->rule->momentum),
			(float)call->rule->momentum, some);
		break;
	}
	if (average)
		job->kernels->blend(
			average, value, (float)call->rule->average, (float)(1 - call->rule->average), some);
}

static void update_piece(void *context, int64_t i, int thread)
{
	const struct update_job *job = context;
	const int64_t first = i * PIECE, some = smaller(PIECE, (int64_t)job->call->count - first);
	(void)thread;
	update_part(job, first, some, job->call->gradient + first);
}

int cpu_update(struct device *device, const struct update_call *call)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct update_job job = update_prepare(cpu, call, call->scalars->step, call->scalars->learning_rate);
	cpu_share(cpu, 4.0 * (double)call->count, divide_up((int64_t)call->count, PIECE), update_piece, &job);
	return STATUS_OK;
}

/* ---- by rows ---- */

#define ROW_FLOATS 1024 /* of the gradient that is 0 */

struct rows_job {
	const struct update_call *call;
	const struct row_updates *rows;
	int64_t width;
	bool still;                                /* a row whose moments are 0 stays as it is */
	struct update_job update[ROW_UPDATES + 1]; /* the last is the present one, with a gradient */
};

static void rows_prepare(struct rows_job *job, const struct cpu_device *cpu, const struct update_call *call,
	const struct row_updates *rows, int updates)
{
	const struct optimizer_rule *rule = call->rule;
	job->call = call;
	job->rows = rows;
	job->width = (int64_t)rows->width;
	job->still = (rule->kind == OPTIMIZER_ADAM || rule->kind == OPTIMIZER_ADAMW) && rule->epsilon > 0 &&
		     rule->decay == 0 && !call->average;
	for (int u = 0; u < updates; u++)
		job->update[u] = update_prepare(cpu, call, rows->first + u, rows->rate[u]);
}

static bool all_zero(const float *data, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (data[i] != 0)
			return false;
	return true;
}

/* What a row lacks of the updates of the parameter, each with a gradient of 0. */
static void replay_row(void *context, int64_t row)
{
	static const float zero[ROW_FLOATS];
	const struct rows_job *job = context;
	const int64_t first = row * job->width;
	uint16_t *done = &job->rows->done[row];
	if (*done == job->rows->count)
		return;
	const bool still = job->still && all_zero(job->call->moment1 + first, job->width) &&
			   all_zero(job->call->moment2 + first, job->width);
	for (int u = *done; u < job->rows->count && !still; u++)
		for (int64_t at = 0; at < job->width; at += ROW_FLOATS)
			update_part(&job->update[u], first + at, smaller(ROW_FLOATS, job->width - at), zero);
	*done = (uint16_t)job->rows->count;
}

static int64_t rows_of(const struct rows_job *job)
{
	return (int64_t)job->call->count / job->width;
}

static int64_t rows_of_piece(const struct rows_job *job)
{
	return larger(1, PIECE / job->width);
}

static void replay_piece(void *context, int64_t i, int thread)
{
	struct rows_job *job = context;
	const int64_t first = i * rows_of_piece(job), end = smaller(rows_of(job), first + rows_of_piece(job));
	(void)thread;
	for (int64_t row = first; row < end; row++)
		replay_row(job, row);
	if (job->rows->restart)
		memset(job->rows->done + first, 0, (size_t)(end - first) * sizeof *job->rows->done);
}

int cpu_replay_rows(struct device *device, const struct update_call *call, const struct row_updates *rows,
	const struct call *reader)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct rows_job job;
	rows_prepare(&job, cpu, call, rows, rows->count);
	if (reader && reader->node->operation == OP_HASH_GRID)
		cpu_visit_hash_grid(cpu, reader, replay_row, &job);
	else if (reader && reader->node->operation == OP_GATHER)
		cpu_visit_gather(reader, replay_row, &job);
	else
		cpu_share(cpu, 4.0 * (double)call->count, divide_up(rows_of(&job), rows_of_piece(&job)),
			replay_piece, &job);
	return STATUS_OK;
}

/* By bits, so that a gradient of -0 or one that is not a number counts. */
static bool has_gradient(const float *gradient, int64_t width)
{
	uint32_t bits, any = 0;
	for (int64_t i = 0; i < width; i++) {
		memcpy(&bits, gradient + i, sizeof bits);
		any |= bits;
	}
	return any != 0;
}

static void rows_piece(void *context, int64_t i, int thread)
{
	struct rows_job *job = context;
	const int64_t first = i * rows_of_piece(job), end = smaller(rows_of(job), first + rows_of_piece(job));
	(void)thread;
	for (int64_t row = first; row < end; row++) {
		const float *gradient = job->call->gradient + row * job->width;
		if (!has_gradient(gradient, job->width))
			continue;
		replay_row(job, row);
		update_part(&job->update[job->rows->count], row * job->width, job->width, gradient);
		job->rows->done[row]++;
	}
}

int cpu_update_rows(struct device *device, const struct update_call *call, const struct row_updates *rows)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct rows_job job;
	rows_prepare(&job, cpu, call, rows, rows->count + 1);
	cpu_share(cpu, (double)call->count, divide_up(rows_of(&job), rows_of_piece(&job)), rows_piece, &job);
	return STATUS_OK;
}
