/* Softmax cross-entropy with smoothed targets, in double. */
#include <math.h>

#include "cpu/device.h"

#define ELEMENTS 4096 /* of a piece, roughly */

struct cross_entropy_job {
	const struct call *call;
	int64_t samples, classes, block; /* samples of a piece */
	double factor;                   /* backward: dloss over the samples that count */
};

static struct cross_entropy_job cross_entropy_job(const struct call *call)
{
	const struct tensor *logits = call->in[0];
	return (struct cross_entropy_job){.call = call,
		.samples = logits->dim[0],
		.classes = logits->dim[1],
		.block = larger(1, ELEMENTS / logits->dim[1])};
}

static int64_t counted_samples(const struct call *call)
{
	const int32_t *class = call->in_data[1];
	int64_t count = 0;
	for (size_t n = 0; n < call->in[1]->elements; n++)
		count += class[n] >= 0;
	return count;
}

static double log_sum_exp(const float *z, int64_t classes)
{
	double largest = z[0], sum = 0;
	for (int64_t k = 1; k < classes; k++)
		largest = z[k] > largest ? z[k] : largest;
	for (int64_t k = 0; k < classes; k++)
		sum += exp(z[k] - largest);
	return largest + log(sum);
}

static double sample_loss(const float *z, int64_t classes, int64_t class, double lse, double smoothing)
{
	double mean = 0;
	for (int64_t k = 0; k < classes && smoothing > 0; k++)
		mean += z[k];
	return (1 - smoothing) * (lse - z[class]) + smoothing * (lse - mean / (double)classes);
}

/* Classes that come before the true one. */
static int32_t rank_of(const float *z, int64_t classes, int64_t class)
{
	int32_t rank = 0;
	for (int64_t k = 0; k < classes; k++)
		rank += z[k] > z[class] || (z[k] == z[class] && k < class);
	return rank;
}

static void cross_entropy_piece(void *context, int64_t i, int thread)
{
	const struct cross_entropy_job *job = context;
	const struct call *call = job->call;
	const int32_t *class = call->in_data[1];
	double *parts = call->workspace;
	float *lse = call->out_data[1], *losses = call->out_data[2];
	int32_t *rank = call->out_data[3];
	(void)thread;
	for (int64_t n = i * job->block; n < smaller((i + 1) * job->block, job->samples); n++) {
		const float *z = (const float *)call->in_data[0] + n * job->classes;
		const double sum = log_sum_exp(z, job->classes);
		const bool counts = class[n] >= 0 && class[n] < job->classes;
		lse[n] = (float)sum;
		parts[n] = counts ? sample_loss(z, job->classes, class[n], sum, call -> node -> smoothing)
			   : class[n] < 0 ? 0
					  : NAN;
		losses[n] = (float)parts[n];
		rank[n] = counts ? rank_of(z, job->classes, class[n]) : (int32_t)job->classes;
	}
}

size_t cpu_cross_entropy_workspace(const struct cpu_device *device, const struct call *call)
{
	(void)device;
	return aligned_bytes(call->in[0]->dim[0], sizeof(double));
}

/* A class that does not exist makes the loss not a number. */
void cpu_cross_entropy(const struct cpu_device *device, const struct call *call)
{
	struct cross_entropy_job job = cross_entropy_job(call);
	const int64_t count = counted_samples(call);
	const double *parts = call->workspace;
	double sum = 0;
	cpu_share(device, 16.0 * (double)call->in[0]->elements, divide_up(job.samples, job.block),
		cross_entropy_piece, &job);
	for (int64_t n = 0; n < job.samples; n++)
		sum += parts[n];
	*(float *)call->out_data[0] = count ? (float)(sum / (double)count) : 0.0f;
}

static void cross_entropy_backward_piece(void *context, int64_t i, int thread)
{
	const struct cross_entropy_job *job = context;
	const struct call *call = job->call;
	const int32_t *class = call->in_data[1];
	const float *lse = call->in_data[2];
	const double smoothing = call->node->smoothing;
	(void)thread;
	for (int64_t n = i * job->block; n < smaller((i + 1) * job->block, job->samples); n++) {
		const float *z = (const float *)call->in_data[0] + n * job->classes;
		float *d = (float *)call->out_data[0] + n * job->classes;
		for (int64_t k = 0; k < job->classes; k++) {
			const double target =
				smoothing / (double)job->classes + (k == class[n] ? 1 - smoothing : 0);
			const float v =
				class[n] < 0 ? 0
					     : (float)(job->factor * (exp((double)z[k] - lse[n]) - target));
			d[k] = accumulates(call, 0) ? d[k] + v : v;
		}
	}
}

void cpu_cross_entropy_backward(const struct cpu_device *device, const struct call *call)
{
	struct cross_entropy_job job = cross_entropy_job(call);
	const int64_t count = counted_samples(call);
	const double dloss = call->in_data[3] ? *(const float *)call->in_data[3] : 1;
	job.factor = count ? dloss / (double)count : 0;
	cpu_share(device, 16.0 * (double)call->in[0]->elements, divide_up(job.samples, job.block),
		cross_entropy_backward_piece, &job);
}
