#include "task/recipe.h"

#include <string.h>

#include "train/epoch.h"

static bool is(const struct config *config, const char *key, const char *value)
{
	return strcmp(config_text(config, key), value) == 0;
}

static enum optimizer_kind optimizer_kind(const struct config *config)
{
	if (is(config, "optimizer.name", "sgd"))
		return OPTIMIZER_SGD;
	return is(config, "optimizer.name", "adamw") ? OPTIMIZER_ADAMW : OPTIMIZER_ADAM;
}

int64_t recipe_micros(const struct config *config)
{
	return config_integer(config, "batch.size") / config_integer(config, "batch.micro");
}

enum norm_extent recipe_norm(const struct config *config)
{
	if (is(config, "batch.norm", "step"))
		return NORM_STEP;
	return is(config, "batch.norm", "rank") ? NORM_RANK : NORM_MICRO;
}

int recipe_update_rule(const struct config *config, const struct comm *comm, struct program *program)
{
	const struct optimizer_rule rule = {
		.kind = optimizer_kind(config),
		.beta1 = config_number(config, "optimizer.beta1"),
		.beta2 = config_number(config, "optimizer.beta2"),
		.epsilon = config_number(config, "optimizer.epsilon"),
		.momentum = config_number(config, "optimizer.momentum"),
		.dampening = config_number(config, "optimizer.dampening"),
		.nesterov = config_bool(config, "optimizer.nesterov"),
		.decay = config_number(config, "optimizer.weight_decay"),
		.spare_vectors = !config_bool(config, "optimizer.decay_vectors"),
		.average = config_number(config, "optimizer.ema"),
		.clip = config_number(config, "optimizer.clip"),
	};

	program_norm_extent(program, recipe_norm(config), comm->size);
	program_sparse_updates(program);
	program_micros(program, recipe_micros(config) / comm->size);
	if (recipe_micros(config) == 1 && rule.clip == 0)
		program_early_updates(program);
	return program_update_rule(program, &rule);
}

void recipe_loop(const struct config *config, struct loop_task *loop)
{
	struct schedule *schedule = &loop->schedule;

	*schedule = (struct schedule){
		.kind = (enum schedule_kind)schedule_kind(config_text(config, "schedule.name")),
		.by_epoch = is(config, "schedule.by", "epoch"),
		.warmup = config_integer(config, "schedule.warmup"),
		.total = config_integer(config, "schedule.total"),
		.final_ratio = config_number(config, "schedule.final_ratio"),
		.gamma = config_number(config, "schedule.gamma"),
		.patience = config_integer(config, "schedule.patience"),
		.threshold = config_number(config, "schedule.threshold"),
	};
	for (size_t i = 0; i < config_count(config, "schedule.milestones") && i < SCHEDULE_MILESTONES; i++)
		schedule->milestone[schedule->milestones++] =
			config_integer_at(config, "schedule.milestones", i);
	loop->batch = config_integer(config, "batch.size");
	loop->micros = recipe_micros(config);
	loop->learning_rate = config_number(config, "optimizer.lr");
	loop->seed = (uint64_t)config_integer(config, "seed");
}

int64_t recipe_steps(const struct config *config, const struct loop_task *task)
{
	int64_t epochs = config_integer(config, "train.epochs");

	return epochs > 0 ? epoch_end(task, epochs) : config_integer(config, "train.steps");
}

bool recipe_validates(const struct config *config)
{
	return config_integer(config, "validate.every") > 0 ||
	       config_integer(config, "validate.epochs") > 0 || is(config, "schedule.name", "plateau");
}

bool recipe_draws(const struct config *config)
{
	return config_integer(config, "picture.every") > 0 || config_integer(config, "picture.epochs") > 0;
}

struct recipe_share recipe_share(const struct config *config, const struct comm *comm)
{
	int64_t micros = recipe_micros(config), own = micros / comm->size;

	return (struct recipe_share){.micros = micros, .own = own, .first_own = comm->rank * own};
}

int64_t recipe_share_global(const struct recipe_share *share, int64_t number)
{
	return number / share->own * share->micros + share->first_own + number % share->own;
}

int recipe_share_load(const struct recipe_share *share, const struct config *config,
	const struct loader_source *source, int64_t first, struct loader **loader)
{
	return loader_new(source, (int)config_integer(config, "data.threads"),
		first / share->micros * share->own, loader);
}

int recipe_share_next(
	const struct recipe_share *share, struct loader *loader, int64_t m, int *slot, double *waited)
{
	int64_t number = m / share->micros * share->own + m % share->micros - share->first_own;

	return loader_next(loader, number, slot, waited);
}
