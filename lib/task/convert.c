/* Weights from anywhere to a file of PyTorch. */
#include "task/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "file/torch.h"
#include "model/resnet3d.h"
#include "task/recipe.h"

/* ---- reading ---- */

static bool holds(const char *directory, const char *name)
{
	char *path = path_join(directory, name);
	bool there = path && file_exists(path);

	free(path);
	return there;
}

/* The run that a checkpoint directory RUN/checkpoints/NAME lies in; none is no error. */
static int open_run_around(const char *path, struct run *run)
{
	char *whole = path_absolute(path), *above = whole ? path_directory(whole) : NULL;
	char *top = above ? path_directory(above) : NULL;
	int status = top ? STATUS_OK : error_status();

	if (!status && !strcmp(path_base(above), "checkpoints") && holds(top, "config.cfg"))
		status = run_open(top, run);
	free(whole);
	free(above);
	free(top);
	return status;
}

/* The checkpoint with its optimizer, of which the weights alone have been read. */
static int read_again(struct checkpoint *checkpoint)
{
	char *path = memory_text(checkpoint->path);
	int status = path ? STATUS_OK : error_status();

	checkpoint_release(checkpoint);
	if (!status)
		status = checkpoint_open_all(path, checkpoint);
	free(path);
	return status;
}

static int open_any(const char *path, const char *step, struct convert_source *source)
{
	struct checkpoint *checkpoint = &source->checkpoint;
	int status;

	if (holds(path, "config.cfg")) {
		status = run_open(path, &source->run);
		if (!status)
			status = checkpoint_open(&source->run, step ? step : "", checkpoint);
	} else if (step) {
		return error_set(
			STATUS_USAGE, "%s: is no run, --step chooses among the checkpoints of one", path);
	} else {
		status = checkpoint_open_path(path, checkpoint);
		if (!status && holds(checkpoint->path, "MANIFEST"))
			status = open_run_around(checkpoint->path, &source->run);
	}
	if (!status && text_starts(path_base(checkpoint->path), "step-") &&
		holds(checkpoint->path, "MANIFEST"))
		status = read_again(checkpoint);
	return status;
}

/* What the network is called, from the run or from the file. */
static void name_network(struct convert_source *source)
{
	const struct config *config = source->run.config;

	source->epoch = source->checkpoint.state.epoch;
	snprintf(source->arch, sizeof source->arch, "%s", source->checkpoint.arch);
	if (source->run.path && !strcmp(config_text(config, "task"), "classify"))
		snprintf(source->arch, sizeof source->arch, "%.40s-%lld", config_text(config, "model.name"),
			(long long)config_integer(config, "model.depth"));
}

static int family_of(const char *arch)
{
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(arch, "-"), arch);
	return resnet3d_family(name);
}

static int compare_tensors(const void *a, const void *b, void *family)
{
	return resnet3d_compare_names(*(const enum resnet3d_family *)family,
		((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

static int gather(struct convert_source *source)
{
	const struct checkpoint *checkpoint = &source->checkpoint;
	int known = family_of(source->arch);
	size_t count = 0;

	for (int f = 0; f < checkpoint->model_files; f++)
		count += checkpoint->model[f].count;
	source->tensor = memory_new(count, sizeof *source->tensor);
	if (!source->tensor)
		return error_status();
	for (int f = 0; f < checkpoint->model_files; f++)
		for (size_t i = 0; i < checkpoint->model[f].count; i++)
			source->tensor[source->count++] = checkpoint->model[f].tensor[i];
	if (known >= 0) {
		enum resnet3d_family family = (enum resnet3d_family)known;
		qsort_r(source->tensor, source->count, sizeof *source->tensor, compare_tensors, &family);
	}
	return STATUS_OK;
}

int convert_open(const char *path, const char *step, struct convert_source *source)
{
	*source = (struct convert_source){0};
	int status = open_any(path, step, source);
	if (!status) {
		name_network(source);
		status = gather(source);
	}
	if (status)
		convert_release(source);
	return status;
}

void convert_release(struct convert_source *source)
{
	free(source->tensor);
	checkpoint_release(&source->checkpoint);
	if (source->run.path)
		run_close(&source->run);
	*source = (struct convert_source){0};
}

/* ---- writing ---- */

/* What is trained: all but the statistics of batch norms. */
static bool is_parameter(const char *name)
{
	return !text_ends(name, ".running_mean") && !text_ends(name, ".running_var") &&
	       !text_ends(name, ".num_batches_tracked");
}

/* The momentum of each tensor, as the trainer saves it. */
static int find_buffers(
	const struct convert_source *source, const struct safetensor **buffer, bool *parameter, size_t *found)
{
	struct text name = {0};
	int status = STATUS_OK;

	for (size_t i = 0; i < source->count && !status; i++) {
		text_clear(&name);
		text_format(&name, "%s.exp_avg", source->tensor[i].name);
		status = text_check(&name);
		parameter[i] = is_parameter(source->tensor[i].name);
		buffer[i] = status ? NULL : checkpoint_optimizer(&source->checkpoint, name.data);
		*found += buffer[i] != NULL;
	}
	text_release(&name);
	return status;
}

/* Rate and milestones in the original's terms; false where the run's schedule is none that it has. */
static bool describe_schedule(const struct convert_source *source, int64_t *milestones, size_t room,
	struct torch_multistep *schedule)
{
	const struct config *config = source->run.config;

	if (strcmp(config_text(config, "schedule.name"), "multistep") != 0 ||
		strcmp(config_text(config, "schedule.by"), "epoch") != 0 ||
		config_integer(config, "schedule.warmup") ||
		config_count(config, "schedule.milestones") > room)
		return false;
	*schedule = (struct torch_multistep){.milestone = milestones,
		.milestones = config_count(config, "schedule.milestones"),
		.factor = config_number(config, "schedule.gamma"),
		.initial_rate = config_number(config, "optimizer.lr"),
		.steps = source->epoch};
	for (size_t i = 0; i < schedule->milestones; i++)
		milestones[i] = config_integer_at(config, "schedule.milestones", i);
	return true;
}

/* The rate with which the run would go on, whatever its schedule is. */
static double rate_of(const struct convert_source *source)
{
	struct loop_task loop = {0};

	recipe_loop(source->run.config, &loop);
	return loop_rate_after(&loop, &source->checkpoint.state, source->epoch);
}

enum { MILESTONES = 256 };

/* With the optimizer, and the scheduler where it is one that the original has. */
static int publish_trained(
	const struct convert_source *source, struct torch_content *content, const char *path)
{
	const struct config *config = source->run.config;
	const struct safetensor **buffer = memory_new(source->count, sizeof(*buffer));
	bool *parameter = memory_new(source->count, sizeof *parameter);
	int64_t milestones[MILESTONES];
	struct torch_multistep schedule;
	size_t found = 0;
	int status = buffer && parameter ? find_buffers(source, buffer, parameter, &found) : error_status();
	struct torch_sgd sgd = {.rate = rate_of(source),
		.initial_rate = config_number(config, "optimizer.lr"),
		.momentum = config_number(config, "optimizer.momentum"),
		.dampening = config_number(config, "optimizer.dampening"),
		.weight_decay = config_number(config, "optimizer.weight_decay"),
		.nesterov = config_bool(config, "optimizer.nesterov"),
		.parameter = parameter,
		.buffer = buffer};

	if (found) {
		content->sgd = &sgd;
		if (describe_schedule(source, milestones, MILESTONES, &schedule)) {
			schedule.rate = sgd.rate;
			content->multistep = &schedule;
		}
	}
	if (!status)
		status = torch_publish(path, content);
	free(buffer);
	free(parameter);
	return status;
}

/* Whether the original can go on: SGD of all parameters (it numbers others in another way) with one decay for all, and the momentum is
 * that of the weights in the file, which running averages are not. */
static bool original_trains_so(const struct config *config)
{
	return !strcmp(config_text(config, "optimizer.name"), "sgd") && !*config_text(config, "train.from") &&
	       config_bool(config, "optimizer.decay_vectors") && config_number(config, "optimizer.ema") == 0;
}

int convert_torch(const struct convert_source *source, const char *path, const char *arch)
{
	const struct config *config = source->run.config;
	const char *name = arch ? arch : source->arch;
	struct torch_content content = {.tensor = source->tensor,
		.count = source->count,
		.arch = *name ? name : NULL,
		.epoch = source->epoch};

	return *name && source->run.path && original_trains_so(config)
		       ? publish_trained(source, &content, path)
		       : torch_publish(path, &content);
}
