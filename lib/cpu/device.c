/* The CPU as a device: opening it, memory, and the table of operations. */
#include "cpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"

static const struct cpu_operation operations[OP_COUNT] = {
	[OP_CONVOLUTION] = {cpu_convolution_workspace, cpu_convolution},
	[OP_CONVOLUTION_DATA] = {cpu_convolution_data_workspace, cpu_convolution_data},
	[OP_CONVOLUTION_WEIGHT] = {cpu_convolution_weight_workspace, cpu_convolution_weight},
	[OP_LINEAR] = {cpu_linear_workspace, cpu_linear},
	[OP_LINEAR_DATA] = {cpu_linear_data_workspace, cpu_linear_data},
	[OP_LINEAR_WEIGHT] = {cpu_linear_weight_workspace, cpu_linear_weight},
	[OP_GROUP_NORM] = {cpu_group_norm_workspace, cpu_group_norm},
	[OP_GROUP_NORM_BACKWARD] = {cpu_group_norm_backward_workspace, cpu_group_norm_backward},
	[OP_LAYER_NORM] = {NULL, cpu_layer_norm},
	[OP_LAYER_NORM_BACKWARD] = {cpu_layer_norm_backward_workspace, cpu_layer_norm_backward},
	[OP_ATTENTION] = {cpu_attention_workspace, cpu_attention},
	[OP_ATTENTION_BACKWARD] = {cpu_attention_backward_workspace, cpu_attention_backward},
	[OP_GEGLU] = {NULL, cpu_geglu},
	[OP_GEGLU_BACKWARD] = {NULL, cpu_geglu_backward},
	[OP_ACTIVATION] = {NULL, cpu_activation},
	[OP_ACTIVATION_BACKWARD] = {NULL, cpu_activation_backward},
	[OP_ADD] = {NULL, cpu_add},
	[OP_COPY] = {NULL, cpu_copy},
	[OP_ADD_CHANNELS] = {NULL, cpu_add_channels},
	[OP_CHANNEL_SUM] = {cpu_channel_sum_workspace, cpu_channel_sum},
	[OP_CONCAT] = {NULL, cpu_concat},
	[OP_CONCAT_BACKWARD] = {NULL, cpu_concat_backward},
	[OP_UPSAMPLE] = {NULL, cpu_upsample},
	[OP_UPSAMPLE_BACKWARD] = {NULL, cpu_upsample_backward},
	[OP_TIMESTEP_EMBEDDING] = {NULL, cpu_timestep_embedding},
	[OP_MASKED_MSE] = {cpu_masked_mse_workspace, cpu_masked_mse},
	[OP_MASKED_MSE_BACKWARD] = {NULL, cpu_masked_mse_backward},
	[OP_L1] = {cpu_l1_workspace, cpu_l1},
	[OP_L1_BACKWARD] = {NULL, cpu_l1_backward},
	[OP_BATCH_NORM] = {cpu_batch_norm_workspace, cpu_batch_norm},
	[OP_BATCH_NORM_BACKWARD] = {cpu_batch_norm_backward_workspace, cpu_batch_norm_backward},
	[OP_MAX_POOL] = {NULL, cpu_max_pool},
	[OP_MAX_POOL_BACKWARD] = {NULL, cpu_max_pool_backward},
	[OP_AVERAGE_POOL] = {NULL, cpu_average_pool},
	[OP_AVERAGE_POOL_BACKWARD] = {NULL, cpu_average_pool_backward},
	[OP_GLOBAL_POOL] = {cpu_global_pool_workspace, cpu_global_pool},
	[OP_GLOBAL_POOL_BACKWARD] = {NULL, cpu_global_pool_backward},
	[OP_SUBSAMPLE] = {NULL, cpu_subsample},
	[OP_SUBSAMPLE_BACKWARD] = {NULL, cpu_subsample_backward},
	[OP_SLICE] = {NULL, cpu_slice},
	[OP_SLICE_BACKWARD] = {NULL, cpu_slice_backward},
	[OP_DROPOUT] = {NULL, cpu_dropout},
	[OP_SCALE] = {NULL, cpu_scale_by},
	[OP_FILL] = {NULL, cpu_fill},
	[OP_WEIGHT_NORM] = {NULL, cpu_weight_norm},
	[OP_WEIGHT_NORM_BACKWARD] = {NULL, cpu_weight_norm_backward},
	[OP_GATHER] = {NULL, cpu_gather},
	[OP_GATHER_BACKWARD] = {NULL, cpu_gather_backward},
	[OP_REPEAT] = {NULL, cpu_repeat},
	[OP_NORMALISE] = {NULL, cpu_normalise},
	[OP_NORMALISE_BACKWARD] = {NULL, cpu_normalise_backward},
	[OP_REDUCE] = {cpu_reduce_workspace, cpu_reduce},
	[OP_REDUCE_BACKWARD] = {NULL, cpu_reduce_backward},
	[OP_FOURIER] = {NULL, cpu_fourier},
	[OP_FOURIER_BACKWARD] = {NULL, cpu_fourier_backward},
	[OP_SPHERICAL_HARMONICS] = {NULL, cpu_spherical_harmonics},
	[OP_SPHERICAL_HARMONICS_BACKWARD] = {NULL, cpu_spherical_harmonics_backward},
	[OP_HASH_GRID] = {NULL, cpu_hash_grid},
	[OP_HASH_GRID_BACKWARD] = {NULL, cpu_hash_grid_backward},
	[OP_STENCIL] = {NULL, cpu_stencil},
	[OP_STENCIL_BACKWARD] = {NULL, cpu_stencil_backward},
	[OP_RENDER] = {cpu_render_workspace, cpu_render},
	[OP_RENDER_BACKWARD] = {cpu_render_backward_workspace, cpu_render_backward},
	[OP_EIKONAL] = {cpu_sample_loss_workspace, cpu_eikonal},
	[OP_EIKONAL_BACKWARD] = {NULL, cpu_eikonal_backward},
	[OP_CURVATURE] = {cpu_sample_loss_workspace, cpu_curvature},
	[OP_CURVATURE_BACKWARD] = {NULL, cpu_curvature_backward},
	[OP_STENCIL_POINTS] = {NULL, cpu_stencil_points},
	[OP_NOISE] = {NULL, cpu_noise},
	[OP_RAY_SAMPLES] = {NULL, cpu_ray_samples},
	[OP_RAY_POINTS] = {NULL, cpu_ray_points},
	[OP_INVERSE_SPHERE] = {NULL, cpu_inverse_sphere},
	[OP_RAY_WEIGHTS] = {NULL, cpu_ray_weights},
	[OP_INVERSE_CDF] = {NULL, cpu_inverse_cdf},
	[OP_MERGE] = {NULL, cpu_merge},
	[OP_RESIZE] = {NULL, cpu_resize},
	[OP_CROSS_ENTROPY] = {cpu_cross_entropy_workspace, cpu_cross_entropy},
	[OP_CROSS_ENTROPY_BACKWARD] = {NULL, cpu_cross_entropy_backward},
};

/* ---- instruction sets ---- */

#ifdef __x86_64__
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool has_plain(void)
{
	return true;
}

/* From the widest down. */
static const struct isa {
	const struct kernels *kernels;
	bool (*supported)(void);
} isas[] = {
#ifdef __x86_64__
	{&kernels_avx512, has_avx512},
	{&kernels_avx2, has_avx2},
#endif
	{&kernels_plain, has_plain},
};
#define ISAS (sizeof isas / sizeof *isas)

static int choose_isa(const char *name, const struct kernels **kernels)
{
	const bool automatic = !name || strcmp(name, "auto") == 0;
	for (size_t i = 0; i < ISAS; i++) {
		if (!automatic && strcmp(name, isas[i].kernels->name) != 0)
			continue;
		if (isas[i].supported()) {
			*kernels = isas[i].kernels;
			return STATUS_OK;
		}
		if (!automatic)
			return error_set(STATUS_UNAVAILABLE,
				"cpu.isa = \"%s\": this processor does not have it; choose \"auto\" or a "
				"lower one",
				name);
	}
	return error_set(STATUS_CONFIG, "cpu.isa = \"%s\": not known here; choose auto%s", name,
		ISAS > 1 ? ", plain, avx2 or avx512" : " or plain");
}

/* What products are computed in; the bodies of bfloat16 are made for AVX-512, those of tests for any processor. */
static int choose_precision(
	const char *name, const struct kernels *kernels, const char *isa, const struct bf16 **unit)
{
	if (!name || strcmp(name, "auto") == 0 || strcmp(name, "f32") == 0)
		return STATUS_OK;
	const int status = bf16_choose(name, unit);
	if (status || kernels == isas[0].kernels || *unit == &bf16_amx_plain || *unit == &bf16_avx512_plain)
		return status;
	return error_set(STATUS_CONFIG,
		"precision = \"%s\" needs AVX-512, cpu.isa = \"%s\" rules it out; choose precision = \"f32\" "
		"or "
		"cpu.isa = \"auto\"",
		name, isa);
}

/* ---- the device ---- */

/* The "model name" line of /proc/cpuinfo. */
static void read_model(char *model, size_t size)
{
	char line[512];
	snprintf(model, size, "unknown processor");
	FILE *file = fopen("/proc/cpuinfo", "re");
	if (!file)
		return;
	while (fgets(line, sizeof line, file)) {
		char *value = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		value += 1 + strspn(value + 1, " \t");
		value[strcspn(value, "\n")] = '\0';
		snprintf(model, size, "%s", value);
		break;
	}
	fclose(file);
}

static int cpu_open(const struct device_settings *settings, struct device **device)
{
	const struct kernels *kernels = NULL;
	const struct bf16 *bf16 = NULL;
	if (settings->threads < 1 || settings->threads > 1024)
		return error_set(STATUS_CONFIG, "cpu.threads = %d: must be 1 to 1024", settings->threads);
	int status = choose_isa(settings->isa, &kernels);
	if (!status)
		status = choose_precision(settings->precision, kernels, settings->isa, &bf16);
	if (status)
		return status;
	struct cpu_device *cpu = memory_new(1, sizeof *cpu);
	if (!cpu)
		return error_status();
	cpu->base.backend = &cpu_backend;
	cpu->threads = settings->threads;
	cpu->kernels = kernels;
	cpu->bf16 = bf16;
	read_model(cpu->model, sizeof cpu->model);
	cpu->team = team_new(cpu->threads);
	if (!cpu->team) {
		free(cpu);
		return error_status();
	}
	*device = &cpu->base;
	return STATUS_OK;
}

static void cpu_close(struct device *device)
{
	team_free(cpu_device(device)->team);
	free(device);
}

static const char *cpu_isa(const struct device *device)
{
	return cpu_device(device)->kernels->name;
}

static const char *cpu_precision(const struct device *device)
{
	const struct bf16 *bf16 = cpu_device(device)->bf16;
	return bf16 ? bf16->name : "f32";
}

static const char *cpu_model(const struct device *device)
{
	return cpu_device(device)->model;
}

static void *cpu_allocate(struct device *device, size_t bytes)
{
	(void)device;
	return memory_aligned(bytes);
}

static void cpu_release(struct device *device, void *memory)
{
	(void)device;
	free(memory);
}

/* Host and device memory are the same. */
static int cpu_move(struct device *device, void *to, const void *from, size_t bytes)
{
	(void)device;
	if (to != from && bytes)
		memmove(to, from, bytes);
	return STATUS_OK;
}

/* ---- operations ---- */

static bool known_activation(const struct node *node)
{
	switch (node->operation) {
	case OP_GROUP_NORM:
	case OP_GROUP_NORM_BACKWARD:
		return node->norm.activation == ACTIVATION_NONE || node->norm.activation == ACTIVATION_SILU;
	case OP_ACTIVATION:
	case OP_ACTIVATION_BACKWARD:
		return node->activation <= ACTIVATION_SOFTPLUS;
	default:
		return true;
	}
}

/* Some forward bodies read their output again before it is whole, so they cannot add to an older value. */
static bool can_accumulate(const struct node *node)
{
	switch (node->operation) {
	case OP_GROUP_NORM:
	case OP_LAYER_NORM:
	case OP_ATTENTION:
	case OP_UPSAMPLE:
	case OP_TIMESTEP_EMBEDDING:
	case OP_MASKED_MSE:
	case OP_L1:
	case OP_BATCH_NORM:
	case OP_MAX_POOL:
	case OP_SUBSAMPLE:
	case OP_FILL:
	case OP_CROSS_ENTROPY:
	case OP_WEIGHT_NORM:
	case OP_GATHER:
	case OP_REPEAT:
	case OP_NORMALISE:
	case OP_REDUCE:
	case OP_FOURIER:
	case OP_SPHERICAL_HARMONICS:
	case OP_HASH_GRID:
	case OP_STENCIL:
	case OP_RENDER:
	case OP_EIKONAL:
	case OP_CURVATURE:
	case OP_STENCIL_POINTS:
	case OP_NOISE:
	case OP_RAY_SAMPLES:
	case OP_RAY_POINTS:
	case OP_INVERSE_SPHERE:
	case OP_RAY_WEIGHTS:
	case OP_INVERSE_CDF:
	case OP_MERGE:
	case OP_RESIZE:
		return node->accumulate == 0;
	default:
		return true;
	}
}

/* Places and classes are integers, all else float32. */
static enum tensor_type type_of(enum operation operation, int k, bool output)
{
	static const struct {
		enum operation operation;
		int k;
		bool output;
	} integers[] = {{OP_MAX_POOL, 1, true}, {OP_MAX_POOL_BACKWARD, 1, false},
		{OP_CROSS_ENTROPY, 1, false}, {OP_CROSS_ENTROPY, 3, true},
		{OP_CROSS_ENTROPY_BACKWARD, 1, false}, {OP_GATHER, 1, false}, {OP_GATHER_BACKWARD, 1, false}};

	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
		if (integers[i].operation == operation && integers[i].k == k && integers[i].output == output)
			return TENSOR_I32;
	return TENSOR_F32;
}

static bool cpu_supports(const struct device *device, const struct call *call)
{
	(void)device;
	const struct node *node = call->node;
	if (node->operation >= OP_COUNT || !operations[node->operation].run)
		return false;
	for (int i = 0; i < NODE_INPUTS; i++)
		if (call->in[i] && call->in[i]->type != type_of(node->operation, i, false))
			return false;
	for (int i = 0; i < NODE_OUTPUTS; i++)
		if (call->out[i] && call->out[i]->type != type_of(node->operation, i, true))
			return false;
	return known_activation(node) && can_accumulate(node);
}

static size_t cpu_workspace(const struct device *device, const struct call *call)
{
	const struct cpu_operation *operation = &operations[call->node->operation];
	return operation->workspace ? operation->workspace(cpu_device(device), call) : 0;
}

static int cpu_run(struct device *device, const struct call *call)
{
	operations[call->node->operation].run(cpu_device(device), call);
	return STATUS_OK;
}

/* ---- over parameters ---- */

#define PIECE 65536

struct vector_job {
	const struct kernels *kernels;
	float *to;
	const float *from;
	float factor;
	int64_t count;
};

static void add_piece(void *context, int64_t i, int thread)
{
	const struct vector_job *job = context;
	const int64_t first = i * PIECE;
	(void)thread;
	job->kernels->add(
		job->to + first, job->to + first, job->from + first, smaller(PIECE, job->count - first));
}

static int cpu_add_to(struct device *device, float *to, const float *from, size_t count)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct vector_job job = {.kernels = cpu->kernels, .to = to, .from = from, .count = (int64_t)count};
	cpu_share(cpu, (double)count, divide_up(job.count, PIECE), add_piece, &job);
	return STATUS_OK;
}

static void scale_piece(void *context, int64_t i, int thread)
{
	const struct vector_job *job = context;
	const int64_t first = i * PIECE;
	(void)thread;
	job->kernels->scale(
		job->to + first, job->to + first, job->factor, smaller(PIECE, job->count - first));
}

static int cpu_scale(struct device *device, float *data, double factor, size_t count)
{
	const struct cpu_device *cpu = cpu_device(device);
	struct vector_job job = {
		.kernels = cpu->kernels, .to = data, .factor = (float)factor, .count = (int64_t)count};
	cpu_share(cpu, (double)count, divide_up(job.count, PIECE), scale_piece, &job);
	return STATUS_OK;
}

const struct backend cpu_backend = {
	.name = "cpu",
	.open = cpu_open,
	.close = cpu_close,
	.isa = cpu_isa,
	.model = cpu_model,
	.precision = cpu_precision,
	.allocate = cpu_allocate,
	.release = cpu_release,
	.write = cpu_move,
	.read = cpu_move,
	.copy = cpu_move,
	.supports = cpu_supports,
	.workspace = cpu_workspace,
	.run = cpu_run,
	.add = cpu_add_to,
	.scale = cpu_scale,
	.sum_squares = cpu_sum_squares,
	.update = cpu_update,
	.replay_rows = cpu_replay_rows,
	.update_rows = cpu_update_rows,
};
